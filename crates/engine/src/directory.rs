//! Which lanes are loaded here, and which hashes they wait for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use landfall_core::view::{ChainStatus, ChainView, Receipt};
use landfall_core::{Account, ChainId, LaneId, Slot, TxHash, TxId};

use crate::mailbox::Mailbox;

#[derive(Default)]
struct Inner {
    mailboxes: BTreeMap<LaneId, Arc<Mailbox>>,
    /// Hashes of open attempts, by chain: what the watcher looks for in blocks.
    wanted: BTreeMap<ChainId, BTreeMap<TxHash, LaneId>>,
    views: BTreeMap<ChainId, Arc<ChainView>>,
    /// The last views of each chain, oldest first.
    past: BTreeMap<ChainId, VecDeque<Arc<ChainView>>>,
    /// The newest view whose receipts every lane here has stored: what callers are shown of the chain.
    shown: BTreeMap<ChainId, Arc<ChainView>>,
    /// How far each lane is.
    taken: BTreeMap<LaneId, Taken>,
    /// Which lanes wait for a transaction to move.
    followers: BTreeMap<TxId, BTreeSet<LaneId>>,
}

/// What a lane has stored of the views it got.
#[derive(Debug, Clone, Copy)]
struct Taken {
    head: u64,
    /// The account's count that goes with what is stored.
    count: Option<Slot>,
}

/// As many views of a chain are remembered.
const PAST: usize = 16;

impl Inner {
    /// What may be shown of a chain, after a lane or the chain has moved.
    fn advance(&mut self, chain: ChainId) {
        let lanes = self.mailboxes.keys().filter(|lane| lane.chain == chain);
        let reached = lanes.map(|lane| self.taken.get(lane).map(|taken| taken.head)).min();
        // A lane that has taken none yet holds the picture back; without lanes there is nothing to wait for.
        let reached = match reached {
            Some(None) => return,
            Some(Some(head)) => head,
            None => u64::MAX,
        };
        let past = self.past.get(&chain);
        if let Some(view) =
            past.and_then(|past| past.iter().rev().find(|view| view.head.at.number <= reached))
        {
            self.shown.insert(chain, view.clone());
        }
    }
}

/// Shared by the watcher, the lane tasks and the handle.
#[derive(Default)]
pub(crate) struct Directory(Mutex<Inner>);

impl Directory {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lane was loaded: its mailbox gets the newest view at once.
    pub(crate) fn enter(&self, lane: LaneId, mailbox: Arc<Mailbox>, hashes: impl Iterator<Item = TxHash>) {
        let mut inner = self.inner();
        inner.wanted.entry(lane.chain).or_default().extend(hashes.map(|hash| (hash, lane)));
        if let Some(view) = inner.views.get(&lane.chain).filter(|v| v.counts.contains_key(&lane.signer)) {
            mailbox.view(view.clone(), Vec::new());
        }
        inner.mailboxes.insert(lane, mailbox);
    }

    pub(crate) fn leave(&self, lane: LaneId) {
        let mut inner = self.inner();
        inner.mailboxes.remove(&lane);
        inner.taken.remove(&lane);
        inner.advance(lane.chain);
        if let Some(wanted) = inner.wanted.get_mut(&lane.chain) {
            wanted.retain(|_, owner| *owner != lane);
        }
        inner.followers.retain(|_, lanes| {
            lanes.remove(&lane);
            !lanes.is_empty()
        });
    }

    pub(crate) fn mailbox(&self, lane: LaneId) -> Option<Arc<Mailbox>> {
        self.inner().mailboxes.get(&lane).cloned()
    }

    pub(crate) fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        self.inner().mailboxes.values().cloned().collect()
    }

    /// These attempts are stored and about to be sent.
    pub(crate) fn want(&self, lane: LaneId, hashes: impl Iterator<Item = TxHash>) {
        self.inner().wanted.entry(lane.chain).or_default().extend(hashes.map(|hash| (hash, lane)));
    }

    /// This lane wants to know when one of these moves.
    pub(crate) fn follow(&self, lane: LaneId, ids: &[TxId]) {
        let mut inner = self.inner();
        // A lane that was given back meanwhile asks again when it runs.
        if inner.mailboxes.contains_key(&lane) {
            for id in ids {
                inner.followers.entry(*id).or_default().insert(lane);
            }
        }
    }

    /// These were just committed: whoever follows them is told, and asks again if that is not enough.
    pub(crate) fn moved(&self, ids: impl Iterator<Item = TxId>) {
        let mut inner = self.inner();
        if inner.followers.is_empty() {
            return;
        }
        for id in ids {
            let lanes = inner.followers.remove(&id).unwrap_or_default();
            for mailbox in lanes.iter().filter_map(|lane| inner.mailboxes.get(lane)) {
                mailbox.moved(id);
            }
        }
    }

    /// These attempts' slots are final.
    pub(crate) fn forget(&self, lane: LaneId, hashes: &[TxHash]) {
        if let Some(wanted) = self.inner().wanted.get_mut(&lane.chain) {
            for hash in hashes {
                wanted.remove(hash);
            }
        }
    }

    pub(crate) fn wants_any(&self, chain: ChainId) -> bool {
        self.inner().wanted.get(&chain).is_some_and(|wanted| !wanted.is_empty())
    }

    /// Whose attempt this is.
    pub(crate) fn owner(&self, chain: ChainId, hash: &TxHash) -> Option<LaneId> {
        self.inner().wanted.get(&chain)?.get(hash).copied()
    }

    /// The accounts whose lanes are loaded here.
    pub(crate) fn accounts(&self, chain: ChainId) -> BTreeSet<Account> {
        self.inner().mailboxes.keys().filter(|lane| lane.chain == chain).map(|lane| lane.signer).collect()
    }

    pub(crate) fn view(&self, chain: ChainId) -> Option<Arc<ChainView>> {
        self.inner().views.get(&chain).cloned()
    }

    /// A lane has stored what it was shown up to here.
    pub(crate) fn took(&self, lane: LaneId, view: Option<&ChainView>, count: Option<Slot>) {
        let mut inner = self.inner();
        if !inner.mailboxes.contains_key(&lane) {
            return;
        }
        let before = inner.taken.get(&lane).copied();
        let Some(head) = view.map(|view| view.head.at.number).or(before.map(|taken| taken.head)) else {
            return;
        };
        inner.taken.insert(lane, Taken { head, count });
        if view.is_some() {
            inner.advance(lane.chain);
        }
    }

    /// What callers are shown of a chain, and the newest view.
    pub(crate) fn shown(&self, chain: ChainId) -> (Option<Arc<ChainView>>, Option<Arc<ChainView>>) {
        let inner = self.inner();
        (inner.shown.get(&chain).cloned(), inner.views.get(&chain).cloned())
    }

    /// The count that goes with what a lane that runs here has stored.
    pub(crate) fn shown_count(&self, lane: LaneId) -> Option<Slot> {
        self.inner().taken.get(&lane)?.count
    }

    /// Hands a new view to every lane of the chain that it has a count for.
    pub(crate) fn publish(
        &self,
        chain: ChainId,
        view: Arc<ChainView>,
        mut receipts: BTreeMap<LaneId, Vec<Receipt>>,
    ) {
        let mut inner = self.inner();
        inner.views.insert(chain, view.clone());
        let past = inner.past.entry(chain).or_default();
        past.push_back(view.clone());
        if past.len() > PAST {
            past.pop_front();
        }
        inner.advance(chain);
        // A lane that was loaded after the counts were asked for gets the next view.
        let is_for = |lane: &LaneId| {
            lane.chain == chain
                && (view.counts.contains_key(&lane.signer) || view.status == ChainStatus::Changed)
        };
        for (lane, mailbox) in inner.mailboxes.iter().filter(|(lane, _)| is_for(lane)) {
            mailbox.view(view.clone(), receipts.remove(lane).unwrap_or_default());
        }
    }
}
