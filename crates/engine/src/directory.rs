//! Which lanes are loaded here, and which hashes they wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use landfall_core::view::{ChainStatus, ChainView, Receipt};
use landfall_core::{Account, ChainId, LaneId, TxHash, TxId};

use crate::mailbox::Mailbox;

#[derive(Default)]
struct Inner {
    mailboxes: BTreeMap<LaneId, Arc<Mailbox>>,
    /// Hashes of open attempts, by chain: what the watcher looks for in blocks.
    wanted: BTreeMap<ChainId, BTreeMap<TxHash, LaneId>>,
    views: BTreeMap<ChainId, Arc<ChainView>>,
    /// Which lanes wait for a transaction to move.
    followers: BTreeMap<TxId, BTreeSet<LaneId>>,
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

    /// Hands a new view to every lane of the chain that it has a count for.
    pub(crate) fn publish(
        &self,
        chain: ChainId,
        view: Arc<ChainView>,
        mut receipts: BTreeMap<LaneId, Vec<Receipt>>,
    ) {
        let mut inner = self.inner();
        inner.views.insert(chain, view.clone());
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
