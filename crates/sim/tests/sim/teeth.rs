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
    bytes_stored_after_sending_are_found: StoredAfterSent;
    idempotency_outside_the_transaction_is_found: IdempotencyOutside;
    a_lease_by_the_local_clock_is_found: LeaseByLocalClock;
    already_known_read_as_failure_is_found: AlreadyKnownIsFailure;
    looking_up_only_the_newest_hash_is_found: NewestHashOnly;
    a_cursor_from_the_pending_count_is_found: PendingCount;
    a_lost_wake_up_is_found: LostWakeUp;
    a_slot_recycled_on_timeout_is_found: RecycleOnTimeout;
    a_requeue_on_a_null_receipt_is_found: RequeueOnNullReceipt;
    confirming_without_a_block_hash_is_found: NoBlockHash;
    a_bump_that_takes_a_new_slot_is_found: BumpTakesNewSlot;
    a_removal_that_forgets_the_key_is_found: RemovalForgetsKey;
    a_slot_forgotten_when_its_transaction_ends_is_found: ForgottenAtFinality;
    a_cancel_before_the_chain_decided_is_found: CancelAtOnce;
    a_replace_that_takes_a_new_slot_is_found: ReplaceTakesNewSlot;
    a_speed_up_under_the_pools_rule_is_found: SpeedUpTooCheap;
    a_cancel_all_that_forgets_the_store_is_found: CancelAllInMemory;
    a_fill_over_a_bound_slot_is_found: FillOverBound;
    a_reset_that_re_issues_live_slots_is_found: ResetToCount;
    an_after_that_ignores_failure_is_found: AfterIgnoresFailure;
    a_slot_recycled_when_no_pool_shows_it_is_found: ProbeRecycles;
}
