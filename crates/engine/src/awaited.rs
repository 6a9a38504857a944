//! Callers that wait to be told a transaction's slot: where slots are handed out at admission (L5).
//!
//! A caller registers first and looks into the store afterwards, so that no commit falls between the two.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use landfall_core::TxId;
use landfall_core::ports::store::TxUpdate;
use landfall_core::transaction::Status;
use tokio::sync::oneshot;

type Waiting = BTreeMap<TxId, Vec<oneshot::Sender<Status>>>;

/// Who waits for what.
#[derive(Default)]
pub(crate) struct Awaited(Mutex<Waiting>);

impl Awaited {
    fn inner(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the status comes with which the transaction got a slot, or ended without one.
    pub(crate) fn register(&self, id: TxId) -> oneshot::Receiver<Status> {
        let (answer, told) = oneshot::channel();
        self.inner().entry(id).or_default().push(answer);
        told
    }

    /// Nobody waits any more of those who gave up.
    pub(crate) fn sweep(&self, id: TxId) {
        let mut waiting = self.inner();
        if let Some(callers) = waiting.get_mut(&id) {
            callers.retain(|caller| !caller.is_closed());
            if callers.is_empty() {
                waiting.remove(&id);
            }
        }
    }

    /// These are on disk. Whoever registers from now on finds them there.
    pub(crate) fn tell(&self, updates: Vec<TxUpdate>) {
        for TxUpdate { id, status } in updates {
            let callers = self.inner().remove(&id).unwrap_or_default();
            for caller in callers {
                // The caller may have gone meanwhile.
                caller.send(status.clone()).ok();
            }
        }
    }
}

/// What of a commit somebody may wait for. Who does is asked when it is on disk, and not before: a caller that registers
/// in between does not find it in the store either.
pub(crate) fn answers(updates: &[TxUpdate]) -> Vec<TxUpdate> {
    updates.iter().filter(|update| is_told(&update.status)).cloned().collect()
}

/// A caller has heard what it waits for.
pub(crate) fn is_told(status: &Status) -> bool {
    status.slot.is_some() || status.state.is_terminal()
}
