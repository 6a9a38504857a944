//! Lanes that hand out slots at admission (L5): only their owner takes transactions in, and it answers with the slot.
//!
//! ```text
//! claim ── ours, and no hold ──► stored as any other ──► the lane's ordinary loop binds it ──► told
//!   ├── another node's: NotOwner, nothing is stored
//!   └── nobody's yet, or the lane holds: NoSlot, nothing is stored
//! ```
//!
//! The checks still come before the slot (E14), so a transaction that would revert ends without one. One that gets its slot
//! later than the caller waits is answered without it: it is accepted, and can be looked up.

use std::time::Duration;

use landfall_core::lane::Hold;
use landfall_core::ports::store::Admission;
use landfall_core::transaction::Transaction;
use landfall_core::{LaneId, TxId};
use tokio::time::Instant;

use crate::awaited::{Awaited, is_told};
use crate::handle::{Handle, SubmitError};

/// How long a lane that nobody runs may take to be taken and to see its chain.
const CLAIM_LIMIT: Duration = Duration::from_secs(4);
pub(crate) const ASK_EVERY: Duration = Duration::from_millis(50);
/// How long a caller waits for its slots.
pub(crate) const SLOT_LIMIT: Duration = Duration::from_secs(5);

/// Nobody waits for this transaction any more of those who gave up, however they did.
pub(crate) struct Swept<'a> {
    pub(crate) awaited: &'a Awaited,
    pub(crate) id: TxId,
}

impl Drop for Swept<'_> {
    fn drop(&mut self) {
        self.awaited.sweep(self.id);
    }
}

impl Handle {
    /// Makes sure that this node owns the lane and that the lane hands out slots, or says who does, or why not.
    pub(crate) async fn claim(&self, lane: LaneId) -> Result<(), SubmitError> {
        let shared = self.shared();
        let until = Instant::now() + CLAIM_LIMIT;
        while !(shared.session_is_live() && shared.directory.mailbox(lane).is_some()) {
            let owner = self.store().lane(lane).await?.and_then(|summary| summary.owner);
            if let Some((node, session)) = owner.filter(|(_, session)| *session != shared.session) {
                let address = self.store().address(session).await?;
                return Err(SubmitError::NotOwner { lane, node, address });
            }
            if shared.is_stopping() {
                return Err(SubmitError::NoSlot { lane, why: "this node is stopping".to_owned() });
            }
            if Instant::now() >= until {
                let why = shared.lane_troubles().remove(&lane);
                let why = why.unwrap_or_else(|| "no node runs the lane yet".to_owned());
                return Err(SubmitError::NoSlot { lane, why });
            }
            shared.work_for(lane);
            shared.pause(ASK_EVERY).await;
        }
        while let Some(hold) = self.hold(lane).await {
            // One that was just loaded will see its chain in a moment.
            let is_new = matches!(
                hold,
                Hold::NoView | Hold::Reading | Hold::LookingUp { .. } | Hold::FirstCount { .. }
            );
            if !is_new || shared.is_stopping() || Instant::now() >= until {
                return Err(SubmitError::NoSlot { lane, why: hold.sentence() });
            }
            shared.pause(ASK_EVERY).await;
        }
        Ok(())
    }

    /// The admission with the slot in it, if that comes in time.
    pub(crate) async fn with_slot(&self, admission: Admission, until: Instant) -> Admission {
        match admission {
            Admission::New(tx) => Admission::New(self.bound(tx, until).await),
            Admission::Replay(tx) => Admission::Replay(self.bound(tx, until).await),
            Admission::Removed(_) | Admission::Conflict(_) | Admission::NonceReused(_) => admission,
        }
    }

    async fn bound(&self, tx: Transaction, until: Instant) -> Transaction {
        let shared = self.shared();
        if is_told(&tx.status) || !shared.parts.slots_at_admission.contains(&tx.lane) {
            return tx;
        }
        // Also if the caller hangs up.
        let swept = Swept { awaited: &shared.awaited, id: tx.id };
        let told = shared.awaited.register(tx.id);
        let status = match self.store().statuses(&[tx.id]).await {
            Ok(found) => found.into_iter().map(|(_, status)| status).find(is_told),
            Err(_) => None,
        };
        let status = match status {
            Some(status) => Some(status),
            None => tokio::select! {
                biased;
                told = told => told.ok().flatten(),
                () = tokio::time::sleep_until(until) => None,
                () = shared.stopped() => None,
            },
        };
        drop(swept);
        match status {
            Some(status) => Transaction { status, ..tx },
            None => tx,
        }
    }
}
