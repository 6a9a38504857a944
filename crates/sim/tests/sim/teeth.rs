//! Teeth: each planted bug is found within 500 seeds, by a rule that is meant to find it.

use landfall_sim::{Planted, seeds_to_find};

fn is_found(planted: Planted) {
    let found = seeds_to_find(planted, 1, 500, 1).expect("a runtime");
    match found {
        Some((seeds, rule)) => println!("{}: found after {seeds} seeds: {}", planted.word(), rule.sentence()),
        None => panic!("{} is not found", planted.word()),
    }
}

/// One test for each, and a list that must be whole.
macro_rules! teeth {
    ($($test:ident: $planted:ident;)*) => {
        $(#[test]
        fn $test() {
            is_found(Planted::$planted);
        })*

        #[test]
        fn every_planted_bug_has_its_test() {
            assert_eq!(Planted::ALL, &[$(Planted::$planted),*]);
        }
    };
}

teeth! {
    a_skipped_fence_is_found: FenceSkipped;
    a_fence_before_the_commit_is_found: FenceBeforeCommit;
    a_write_after_the_sessions_end_is_found: SessionUnchecked;
    a_takeover_that_keeps_the_token_is_found: TokenKept;
    a_lost_commit_taken_for_failed_is_found: LostCommitRepeated;
    a_lost_commit_taken_for_done_is_found: LostCommitAssumedDone;
    a_reload_beside_a_running_commit_is_found: ReloadedUnderOldToken;
    a_renewal_counted_from_its_answer_is_found: RenewedFromAnswer;
    a_node_name_taken_for_the_session_is_found: NameIsSession;
    journal_numbers_out_of_order_are_found: JournalBySequence;
    bytes_stored_after_sending_are_found: StoredAfterSent;
    idempotency_outside_the_transaction_is_found: IdempotencyOutside;
    a_lease_by_the_local_clock_is_found: LeaseByLocalClock;
    a_lease_by_the_databases_clock_is_found: LeaseByDatabaseClock;
    a_dead_session_waited_for_by_the_databases_clock_is_found: DeadByDatabaseClock;
    already_known_read_as_failure_is_found: AlreadyKnownIsFailure;
    looking_up_only_the_newest_hash_is_found: NewestHashOnly;
    a_cursor_from_the_pending_count_is_found: PendingCount;
    a_lost_wake_up_is_found: LostWakeUp;
    a_slot_recycled_on_timeout_is_found: RecycleOnTimeout;
    a_slot_freed_by_a_nodes_no_is_found: RefusalFreesSlot;
    an_end_by_a_nodes_no_to_a_re_send_is_found: RefusalEndsTaken;
    a_requeue_on_a_null_receipt_is_found: RequeueOnNullReceipt;
    confirming_without_a_block_hash_is_found: NoBlockHash;
    a_bump_that_takes_a_new_slot_is_found: BumpTakesNewSlot;
    a_removal_that_forgets_the_key_is_found: RemovalForgetsKey;
    a_retry_matched_by_slot_only_is_found: NonceIsSlot;
    a_slot_forgotten_when_its_transaction_ends_is_found: ForgottenAtFinality;
    a_cancel_before_the_chain_decided_is_found: CancelAtOnce;
    a_replace_that_takes_a_new_slot_is_found: ReplaceTakesNewSlot;
    a_speed_up_under_the_pools_rule_is_found: SpeedUpTooCheap;
    a_cancel_all_that_forgets_the_store_is_found: CancelAllInMemory;
    a_fill_over_a_bound_slot_is_found: FillOverBound;
    a_reset_that_re_issues_live_slots_is_found: ResetToCount;
    an_after_that_ignores_failure_is_found: AfterIgnoresFailure;
    a_slot_recycled_when_no_pool_shows_it_is_found: ProbeRecycles;
    a_yes_taken_for_proof_is_found: YesIsProof;
    a_learnt_window_that_never_grows_is_found: LimitForEver;
    a_delegation_that_takes_one_slot_is_found: SecondSlotForgotten;
    a_replacement_without_approval_is_found: ReplacedUnapproved;
    a_budget_that_forgets_what_is_out_is_found: BudgetForgetsOut;
    a_budget_without_data_fees_is_found: BudgetForgetsData;
    slots_without_funds_are_found: FundsIgnored;
    a_bump_that_cannot_be_paid_is_found: BumpsUnpaid;
    known_bytes_taken_for_a_replacement_are_found: KnownIsReplacement;
    a_stranger_believed_before_finality_is_found: ProvenBeforeFinal;
    a_stranger_believed_at_the_lanes_finality_is_found: ProvenAtFinality;
    own_bytes_taken_for_a_strangers_are_found: AlikeIsForeign;
    a_cursor_that_jumps_over_unknown_slots_is_found: JumpsOverUnknown;
    unknown_slots_adopted_at_a_load_are_found: AdoptsAtLoad;
    an_accepted_store_that_compares_nothing_is_found: ComparesNothing;
    another_chain_taken_for_the_same_is_found: AnyChainWillDo;
    a_recheck_without_a_no_op_is_found: RecheckedAtOnce;
    a_deadline_by_the_nodes_clock_is_found: ExpiresByOwnClock;
    bumps_while_the_chain_stands_still_are_found: BumpsWhileHalted;
    a_slot_told_before_it_is_stored_is_found: ToldBeforeCommit;
    finality_by_time_is_found: FinalByTime;
    a_forgotten_ceiling_is_found: CeilingForgotten;
    a_day_of_the_budget_by_the_nodes_clock_is_found: DayByOwnClock;
    a_stored_time_in_the_future_that_is_waited_for_is_found: WaitsForStoredTime;
    waiting_commands_that_hide_others_are_found: WaitingHideOthers;
    a_failure_on_a_balance_of_long_ago_is_found: FailsOnOldFacts;
    a_slot_bound_by_a_count_of_long_ago_is_found: BindsOnOldCount;
    an_own_transaction_sent_again_after_a_persons_word_is_found: OursIsSentAgain;
    many_sent_beside_forgotten_bytes_are_found: ManyBesideLate;
    a_late_landing_that_is_not_remembered_is_found: LateForgotten;
    the_oldest_of_several_alike_called_landed_is_found: OldestHasLanded;
    a_word_on_one_that_frees_others_is_found: WordFreesOthers;
    a_word_from_before_an_acceptance_that_releases_is_found: WordsFromBefore;
    a_resume_from_before_a_load_that_means_all_is_found: OldResumeMeansAll;
    slots_taken_back_and_forgotten_are_found: TakenBackForgotten;
    a_finality_that_the_chain_lacks_is_found: AnyFinality;
    a_final_word_of_one_endpoint_is_found: OneIsEnough;
    forgotten_bytes_bounded_by_todays_window_are_found: TodaysWindow;
    a_reset_that_falls_into_history_is_found: ResetIntoHistory;
    a_replaced_final_block_that_forgets_the_keys_is_found: AcceptForgets;
    slots_given_out_beside_unseen_ones_are_found: BindsUnseen;
    an_unaccounted_use_of_a_slot_that_is_forgotten_is_found: UnaccountedForgotten;
}
