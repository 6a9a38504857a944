//! The conformance suite. Every case takes a fresh [`World`](crate::world::World) and runs on every adapter.

mod admit;
mod audit;
mod calls;
mod commands;
mod commit;
mod fence;
mod forget;
mod leases;
mod lists;
mod lost;
mod records;
mod reorg;
mod spaces;
mod work;

pub(crate) use calls::{call_after_the_upgrade, call_before_the_upgrade};
pub(crate) use spaces::{everything, fill};

/// Makes a test of every case for every adapter.
macro_rules! suite {
    ($($file:ident: $($case:ident),+ ;)+) => {
        adapters! { [sqlite, memory, postgres] $($($file::$case)+)+ }
    };
}

macro_rules! adapters {
    ([$($adapter:ident),+] $cases:tt $($rest:tt)*) => {
        adapters! { @each [$($adapter),+] { $cases $($rest)* } }
    };
    (@each [$($adapter:ident),+] $cases:tt) => {
        $(adapters! { @one $adapter $cases })+
    };
    (@one $adapter:ident { $($file:ident::$case:ident)+ }) => {
        mod $adapter {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$file::$case(crate::world::World::$adapter().await).await;
                }
            )+
        }
    };
}

suite! {
    admit:
        a_new_request_is_stored_with_its_first_journal_entry,
        a_key_known_with_the_same_content_is_a_replay_that_writes_nothing,
        a_key_known_with_other_content_is_a_conflict,
        a_key_belongs_to_the_signer_on_whatever_chain,
        requests_without_a_key_are_always_new,
        an_admission_repeated_after_a_lost_answer_is_the_same_transaction,
        an_id_that_stands_for_another_request_is_refused,
        a_key_repeated_in_one_group_is_a_replay_of_the_first,
        one_that_is_refused_is_no_replay_of_a_later_one,
        a_hundred_concurrent_admissions_of_one_key_make_one_row,
        a_key_is_taken_for_ever_even_after_its_transaction_ended,
        transactions_are_first_in_first_out;
    calls:
        a_nonce_given_again_for_the_same_is_a_replay_in_every_state,
        a_nonce_given_again_for_something_else_is_refused_and_names_the_first,
        a_nonce_belongs_to_one_api_key_and_one_lane,
        a_call_from_before_keys_is_repeated_by_the_caller_that_has_one_now,
        a_call_that_ended_without_bytes_frees_its_nonce_and_one_with_bytes_does_not,
        one_that_lost_its_slot_and_ended_while_it_waited_keeps_its_nonce,
        a_call_is_known_by_what_stayed_when_its_history_is_gone,
        a_key_that_is_known_says_what_is_meant_whatever_the_nonce,
        nonces_repeated_in_one_group_are_replays_of_the_first,
        a_hundred_concurrent_admissions_of_one_call_make_one_row,
        the_nonces_that_a_caller_gave_are_listed_from_a_number_on,
        a_call_is_found_among_hundreds_wherever_its_transaction_is_by_then;
    fence:
        a_commit_raises_the_version_by_one,
        a_stale_token_is_refused,
        a_stale_version_is_refused,
        a_lane_that_nobody_acquired_cannot_be_written,
        an_unknown_lane_cannot_be_written,
        a_refused_lane_does_not_hurt_its_neighbours,
        a_refused_commit_changes_nothing,
        two_turns_of_one_lane_in_one_group_follow_each_other;
    lost:
        a_commit_whose_answer_was_lost_is_on_disk_and_fences_its_own_writer,
        a_commit_that_failed_before_it_was_done_can_be_repeated,
        an_admission_whose_answer_was_lost_is_found_by_its_retry;
    commit:
        a_write_that_cannot_be_stored_fails_alone,
        a_failed_commit_leaves_nothing_behind,
        two_live_transactions_in_one_slot_are_refused,
        a_slot_that_one_transaction_leaves_another_may_take_in_the_same_commit,
        two_transactions_may_swap_slots_in_one_commit,
        a_slot_whose_transaction_ended_may_be_taken,
        a_transaction_that_has_ended_stays_as_it_is,
        one_that_is_admitted_and_ended_by_one_group_has_ended,
        an_ended_transaction_is_loaded_until_its_attempts_are_closed, a_transaction_without_slot_cannot_be_signed,
        a_transaction_of_another_lane_cannot_be_updated,
        an_attempt_is_stored_once_per_ordinal,
        the_last_update_of_a_transaction_counts,
        hints_of_an_attempt_change_and_its_bytes_do_not,
        a_hint_about_unknown_bytes_is_refused;
    work:
        an_unknown_lane_is_empty_with_token_zero,
        load_lane_returns_what_is_bound_and_open_and_nothing_else,
        attempts_of_closed_slots_are_history_that_a_transaction_still_shows,
        slots_are_closed_in_any_order,
        a_slot_that_is_filled_again_is_open_and_its_first_life_stays_history,
        waiting_is_found_by_state_oldest_first_up_to_the_limit,
        what_waits_is_measured_as_it_is_stored_and_what_does_not_wait_is_not,
        a_requeued_transaction_waits_in_its_old_place,
        a_reserved_slot_without_bytes_is_bound,
        a_lane_has_work_until_everything_in_it_ended,
        the_row_of_a_lane_comes_back_as_it_was_stored,
        the_largest_numbers_come_back_as_they_were_stored;
    commands:
        a_command_is_listed_until_it_is_done,
        commands_are_listed_oldest_first_up_to_the_limit,
        commands_that_were_taken_do_not_hide_those_behind_them,
        a_command_inserted_twice_is_accepted_once,
        a_command_that_was_done_stays_done,
        a_command_nobody_inserted_cannot_be_done,
        a_command_to_an_unknown_lane_gives_it_work,
        a_command_is_found_by_its_id_done_or_not;
    forget:
        what_ended_long_ago_goes_and_its_key_and_end_stay,
        commands_go_with_their_transaction_and_those_of_a_lane_by_their_age,
        a_key_is_free_for_the_next_of_a_group_where_the_one_before_was_told_what_stayed,
        a_retry_after_the_removal_is_told_what_stayed_and_writes_nothing,
        what_has_not_ended_or_ended_lately_stays,
        a_step_looks_at_no_more_than_it_may_and_says_where_to_go_on,
        numbers_that_were_given_out_never_come_back,
        a_lane_goes_on_after_its_history_was_removed;
    leases:
        the_first_token_is_one_and_every_acquisition_raises_it,
        a_lane_held_by_a_live_session_is_refused_to_others,
        a_released_lane_is_taken_by_another_with_a_higher_token,
        a_release_under_an_old_token_releases_nothing,
        a_closed_session_gives_its_lanes_back,
        everybody_sees_who_is_there_and_who_has_what,
        a_closed_session_cannot_be_renewed_or_used,
        a_session_is_ended_by_its_last_sign_of_life_or_not_at_all,
        a_lease_is_broken_by_a_persons_word_about_its_owner_and_no_other,
        after_a_takeover_the_old_owner_cannot_write,
        an_acquisition_keeps_what_the_lane_holds;
    lists:
        a_journal_is_in_the_order_of_its_entries,
        the_outbox_is_paged_by_number,
        a_page_may_end_between_entries_of_one_commit,
        entries_about_a_lane_have_no_transaction,
        a_transaction_is_found_by_its_key,
        statuses_are_found_by_id_whatever_the_lane,
        disabled_lanes_are_listed,
        lists_are_newest_first_and_paged_by_order,
        lists_are_filtered_by_state_signer_and_chain,
        a_list_by_an_old_hash_finds_the_transaction,
        lane_summaries_count_and_name_the_owner,
        a_chain_record_is_replaced_as_a_whole,
        a_store_that_works_is_writable;
    reorg:
        a_chain_is_known_by_the_block_that_a_person_accepts_and_keeps_everything,
        a_chain_without_a_final_block_has_nothing_to_accept;
    records:
        a_record_is_made_once_and_changed_by_who_saw_it,
        a_group_of_records_is_written_whole_or_not_at_all,
        of_many_that_change_one_record_at_once_one_does,
        records_are_listed_by_the_bytes_of_their_ids,
        old_records_go_a_few_at_a_time,
        records_belong_to_a_namespace_and_stay;
    audit:
        entries_are_sealed_one_after_the_other,
        many_that_append_at_once_make_one_chain,
        the_oldest_rows_go_and_a_row_says_so,
        rows_of_a_clock_that_was_ahead_keep_no_others,
        a_chain_belongs_to_a_namespace_and_stays;
    spaces:
        namespaces_do_not_see_each_other,
        everything_is_there_after_a_restart;
}
