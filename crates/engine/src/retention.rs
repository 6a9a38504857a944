//! Removing the history of transactions that ended long ago, in small steps between other writes (E22).
//!
//! Their ids, keys and ends stay for ever, so nothing can land a second time by being forgotten. Several nodes may do
//! this at once: each step is one write, and what one has removed the next does not find.
//!
//! What is removed cannot be had again, so a clock that is ahead is not believed: the time is at most that of the newest block, and
//! what has passed since. A chain that stands still keeps nothing.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::ports::store::{Forget, Write, Written};
use landfall_core::{Millis, QueueOrder};

use crate::supervisor::Shared;

/// How many transactions one step looks at: so few that callers do not notice.
const STEP: u32 = 100;
/// Callers' writes go first.
const BETWEEN_STEPS: Duration = Duration::from_millis(50);
/// How often it is looked whether a chain has shown a block.
const UNTIL_A_BLOCK: Duration = Duration::from_secs(1);

pub(crate) async fn run(shared: Arc<Shared>) {
    let Some(keep) = shared.parts.timings.keep_finished else { return };
    while !shared.is_stopping() {
        let Some(now) = shared.believed_time() else {
            shared.pause(UNTIL_A_BLOCK.min(shared.parts.timings.forget_every)).await;
            continue;
        };
        let kept_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let removed = pass(&shared, Millis(now.0.saturating_sub(kept_ms))).await;
        if removed > 0 {
            tracing::info!(
                removed,
                "the history of transactions that ended long ago was removed; their keys stay"
            );
        }
        shared.pause(shared.parts.timings.forget_every).await;
    }
}

/// Everything that may go now.
async fn pass(shared: &Shared, before: Millis) -> u64 {
    let mut removed = 0;
    let mut after = QueueOrder(0);
    while !shared.is_stopping() {
        let step = Forget { before, after, limit: STEP };
        match shared.writer.write(Write::Forget(step)).await {
            Ok(Written::Forgotten(done)) => {
                removed += u64::from(done.removed);
                let Some(next) = done.next else { break };
                after = next;
            }
            Ok(other) => {
                tracing::error!(?other, "the store answered something else than was asked");
                break;
            }
            // What a lost answer has removed is not found again by the next pass.
            Err(error) => {
                tracing::warn!(%error, "old history could not be removed; trying again later");
                break;
            }
        }
        shared.pause(BETWEEN_STEPS).await;
    }
    removed
}
