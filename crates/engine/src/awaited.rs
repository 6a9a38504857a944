//! Callers that wait to be told a transaction's slot: where slots are handed out at admission (L5), or where they wait for a
//! hash ([`crate::at_once`]).
//!
//! A caller registers first and looks into the store afterwards, so that no commit falls between the two. One that registers
//! before its transaction is stored has nothing to look for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use landfall_core::ports::store::TxUpdate;
use landfall_core::transaction::Status;
use landfall_core::{LaneId, TxId};
use tokio::sync::oneshot;

use crate::supervisor::Shared;

/// What a caller hears: the status, or none where it is to look into the store.
type Told = Option<Status>;

#[derive(Default)]
struct Waiting {
    callers: BTreeMap<TxId, Vec<oneshot::Sender<Told>>>,
    /// Whose callers wait for a hash, by lane, with the number of callers.
    at_once: BTreeMap<LaneId, BTreeMap<TxId, u32>>,
}

/// One caller's place among those who wait. Dropped, it waits no more.
pub struct Listening {
    shared: Arc<Shared>,
    id: TxId,
    /// The lane that was told to hurry.
    hurried: Option<LaneId>,
    moved: oneshot::Receiver<Told>,
}

impl Listening {
    pub(crate) fn to(shared: &Arc<Shared>, id: TxId) -> Self {
        Self { shared: shared.clone(), id, hurried: None, moved: shared.awaited.register(id) }
    }

    /// The same for a hash, before the transaction is stored: whoever reads the lane's queue then knows that it is waited for.
    pub(crate) fn hurrying(shared: &Arc<Shared>, lane: LaneId, id: TxId) -> Self {
        shared.awaited.hurry(lane, id);
        let moved = shared.awaited.register(id);
        Self { shared: shared.clone(), id, hurried: Some(lane), moved }
    }

    pub(crate) fn id(&self) -> TxId {
        self.id
    }

    /// It has moved on disk: its status if that was said, else whoever waits looks there.
    pub(crate) async fn moved(&mut self) -> Told {
        (&mut self.moved).await.ok().flatten()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.moved.close();
        self.shared.awaited.sweep(self.id);
        if let Some(lane) = self.hurried {
            self.shared.awaited.calm(lane, self.id);
        }
    }
}

/// Who waits for what.
#[derive(Default)]
pub(crate) struct Awaited(Mutex<Waiting>);

impl Awaited {
    fn inner(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the status comes with which the transaction got a slot, or ended without one.
    pub(crate) fn register(&self, id: TxId) -> oneshot::Receiver<Told> {
        let (answer, told) = oneshot::channel();
        self.inner().callers.entry(id).or_default().push(answer);
        told
    }

    /// From now on somebody waits for this one's hash.
    pub(crate) fn hurry(&self, lane: LaneId, id: TxId) {
        *self.inner().at_once.entry(lane).or_default().entry(id).or_default() += 1;
    }

    /// One less does.
    pub(crate) fn calm(&self, lane: LaneId, id: TxId) {
        let mut waiting = self.inner();
        let Some(of_lane) = waiting.at_once.get_mut(&lane) else { return };
        if let Some(callers) = of_lane.get_mut(&id) {
            *callers -= 1;
            if *callers == 0 {
                of_lane.remove(&id);
            }
        }
        if of_lane.is_empty() {
            waiting.at_once.remove(&lane);
        }
    }

    /// The oldest of a lane's whose hashes are waited for here.
    pub(crate) fn hurried(&self, lane: LaneId, most: usize) -> Vec<TxId> {
        let waiting = self.inner();
        waiting.at_once.get(&lane).into_iter().flat_map(BTreeMap::keys).take(most).copied().collect()
    }

    /// Nobody waits any more of those who gave up.
    pub(crate) fn sweep(&self, id: TxId) {
        let mut waiting = self.inner();
        if let Some(callers) = waiting.callers.get_mut(&id) {
            callers.retain(|caller| !caller.is_closed());
            if callers.is_empty() {
                waiting.callers.remove(&id);
            }
        }
    }

    /// These are on disk. Whoever registers from now on finds them there.
    pub(crate) fn tell(&self, updates: Vec<TxUpdate>) {
        for TxUpdate { id, status } in updates {
            let callers = self.inner().callers.remove(&id).unwrap_or_default();
            for caller in callers {
                // The caller may have gone meanwhile.
                caller.send(Some((*status).clone())).ok();
            }
        }
    }

    /// These have moved on disk: whoever waits for one looks there.
    pub(crate) fn nudge(&self, ids: &[TxId]) {
        let mut waiting = self.inner();
        if waiting.callers.is_empty() {
            return;
        }
        for caller in ids.iter().filter_map(|id| waiting.callers.remove(id)).flatten() {
            // The caller may have gone meanwhile.
            caller.send(None).ok();
        }
    }
}

impl Awaited {
    /// What of a commit somebody waits for already. Whoever comes later is nudged when it is on disk.
    pub(crate) fn wanted(&self, updates: &[TxUpdate]) -> Vec<TxUpdate> {
        let waiting = self.inner();
        if waiting.callers.is_empty() {
            return Vec::new();
        }
        updates.iter().filter(|update| waiting.callers.contains_key(&update.id)).cloned().collect()
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
