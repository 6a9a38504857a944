//! Which lanes are loaded here, which hashes they wait for, and what each was last shown of its chain.
//!
//! A new head is a turn of every lane that has something under way. One that is at rest finds the newest view when it
//! wakes, and is woken only by what is about itself: its own count and balance, a receipt, another fork. So a thousand
//! lanes without work cost nothing at a block. What it knows of its account may have become old meanwhile: then it is loaded
//! again before it goes on ([`Directory::was_asked_before`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use landfall_core::view::{ChainStatus, ChainView, Receipt};
use landfall_core::{Account, ChainId, LaneId, Millis, Slot, TxHash, TxId};

use crate::mailbox::Mailbox;

mod reached;
#[cfg(test)]
mod tests;

use reached::Reached;

#[derive(Default)]
struct Inner {
    chains: BTreeMap<ChainId, OfChain>,
    /// Which lanes wait for a transaction to move.
    followers: BTreeMap<TxId, BTreeSet<LaneId>>,
}

/// One chain and its lanes.
#[derive(Default)]
struct OfChain {
    lanes: BTreeMap<Account, Loaded>,
    /// Hashes of open attempts: what the watcher looks for in blocks.
    wanted: HashMap<TxHash, Account>,
    /// Lanes that have not been shown a count since they were loaded.
    uncounted: BTreeSet<Account>,
    newest: Option<Arc<ChainView>>,
    /// Whose counts were asked for at the head of the newest view, and when.
    asked: BTreeMap<Account, Millis>,
    /// The last views, oldest first, one for each head.
    past: VecDeque<Arc<ChainView>>,
    /// The newest view whose receipts every lane here has stored: what callers are shown of the chain.
    shown: Option<Arc<ChainView>>,
    reached: Reached,
}

/// A lane that is loaded.
struct Loaded {
    mailbox: Arc<Mailbox>,
    pace: Pace,
    taken: Option<Taken>,
    /// How many hashes it waits for.
    wanted: usize,
    /// When its count was last asked for.
    asked_at: Option<Millis>,
}

/// What a lane needs to hear of its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Pace {
    /// Something waits or is out: every head, and its count and its balance soon.
    #[default]
    Busy,
    /// Everything is in blocks that are not final: every head.
    Settling,
    /// There is nothing to do.
    Resting,
}

/// What a lane has stored of the views it got.
#[derive(Debug, Clone, Copy)]
struct Taken {
    head: u64,
    /// The account's count that goes with what is stored.
    count: Option<Slot>,
}

/// A view for the lanes.
pub(crate) struct News {
    pub(crate) view: Arc<ChainView>,
    pub(crate) receipts: BTreeMap<LaneId, Vec<Receipt>>,
    /// Whose counts and balances were asked for at this head.
    pub(crate) asked: Vec<Account>,
    /// When they were.
    pub(crate) at: Millis,
    /// What was built on before may be gone: every lane looks at it.
    pub(crate) for_all: bool,
}

impl Loaded {
    fn head(&self) -> Option<u64> {
        self.taken.map(|taken| taken.head)
    }
}

/// As many views of a chain are remembered.
const PAST: usize = 16;

impl OfChain {
    /// What may be shown of the chain, after a lane or the chain has moved.
    fn advance(&mut self) {
        // A lane that has taken none yet holds the picture back.
        let Some(reached) = self.reached.by_all() else { return };
        if let Some(view) = self.past.iter().rev().find(|view| view.head.at.number <= reached) {
            self.shown = Some(view.clone());
        }
    }

    /// Takes a view as the newest.
    fn remember(&mut self, news: &News) {
        let at = news.view.head.at;
        if self.newest.as_ref().is_none_or(|before| before.head.at != at) {
            self.asked.clear();
        }
        self.asked.extend(news.asked.iter().map(|account| (*account, news.at)));
        if self.past.back().is_some_and(|last| last.head.at == at) {
            self.past.pop_back();
        }
        self.past.push_back(news.view.clone());
        if self.past.len() > PAST {
            self.past.pop_front();
        }
        self.newest = Some(news.view.clone());
    }

    fn want(&mut self, account: Account, hashes: impl Iterator<Item = TxHash>) {
        let new = hashes.filter(|hash| self.wanted.insert(*hash, account).is_none()).count();
        if let Some(lane) = self.lanes.get_mut(&account) {
            lane.wanted += new;
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

    /// A lane was loaded. It gets the newest view at once if its count belongs to that head; one from before the load
    /// would not do.
    pub(crate) fn enter(&self, lane: LaneId, mailbox: Arc<Mailbox>, hashes: impl Iterator<Item = TxHash>) {
        let mut inner = self.inner();
        let chain = inner.chains.entry(lane.chain).or_default();
        let asked_at = chain.asked.get(&lane.signer).copied();
        // What was asked about a lane that left since is not in later views of the head.
        let has_count = |view: &&Arc<ChainView>| view.counts.contains_key(&lane.signer);
        match chain.newest.as_ref().filter(|_| asked_at.is_some()).filter(has_count) {
            Some(view) => mailbox.view(view.clone(), Vec::new()),
            None => drop(chain.uncounted.insert(lane.signer)),
        }
        let loaded = Loaded { mailbox, pace: Pace::default(), taken: None, wanted: 0, asked_at };
        if let Some(before) = chain.lanes.insert(lane.signer, loaded) {
            chain.reached.leaves(before.head());
        }
        chain.reached.arrives(None);
        chain.want(lane.signer, hashes);
    }

    pub(crate) fn leave(&self, lane: LaneId) {
        let mut inner = self.inner();
        let Some(chain) = inner.chains.get_mut(&lane.chain) else { return };
        let Some(loaded) = chain.lanes.remove(&lane.signer) else { return };
        chain.uncounted.remove(&lane.signer);
        chain.reached.leaves(loaded.head());
        chain.advance();
        if loaded.wanted > 0 {
            chain.wanted.retain(|_, owner| *owner != lane.signer);
        }
        inner.followers.retain(|_, lanes| {
            lanes.remove(&lane);
            !lanes.is_empty()
        });
    }

    pub(crate) fn mailbox(&self, lane: LaneId) -> Option<Arc<Mailbox>> {
        let inner = self.inner();
        Some(inner.chains.get(&lane.chain)?.lanes.get(&lane.signer)?.mailbox.clone())
    }

    pub(crate) fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        let inner = self.inner();
        inner
            .chains
            .values()
            .flat_map(|chain| chain.lanes.values())
            .map(|lane| lane.mailbox.clone())
            .collect()
    }

    /// These attempts are stored and about to be sent.
    pub(crate) fn want(&self, lane: LaneId, hashes: impl Iterator<Item = TxHash>) {
        self.inner().chains.entry(lane.chain).or_default().want(lane.signer, hashes);
    }

    /// This lane wants to know when one of these moves.
    pub(crate) fn follow(&self, lane: LaneId, ids: &[TxId]) {
        let mut inner = self.inner();
        // A lane that was given back meanwhile asks again when it runs.
        let is_here = |chain: &OfChain| chain.lanes.contains_key(&lane.signer);
        if inner.chains.get(&lane.chain).is_some_and(is_here) {
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
            for lane in inner.followers.remove(&id).unwrap_or_default() {
                let loaded = inner.chains.get(&lane.chain).and_then(|chain| chain.lanes.get(&lane.signer));
                if let Some(loaded) = loaded {
                    loaded.mailbox.moved(id);
                }
            }
        }
    }

    /// These attempts' slots are final.
    pub(crate) fn forget(&self, lane: LaneId, hashes: &[TxHash]) {
        if hashes.is_empty() {
            return;
        }
        let mut inner = self.inner();
        let Some(chain) = inner.chains.get_mut(&lane.chain) else { return };
        let gone = hashes.iter().filter(|hash| chain.wanted.remove(*hash).is_some()).count();
        if let Some(loaded) = chain.lanes.get_mut(&lane.signer) {
            loaded.wanted = loaded.wanted.saturating_sub(gone);
        }
    }

    pub(crate) fn wants_any(&self, chain: ChainId) -> bool {
        self.inner().chains.get(&chain).is_some_and(|chain| !chain.wanted.is_empty())
    }

    /// Of these receipts, those of open attempts here, each with its lane.
    pub(crate) fn ours<'a>(&self, chain: ChainId, receipts: &'a [Receipt]) -> Vec<(LaneId, &'a Receipt)> {
        let inner = self.inner();
        let Some(wanted) = inner.chains.get(&chain).map(|chain| &chain.wanted) else { return Vec::new() };
        let owner = |receipt: &Receipt| wanted.get(&receipt.hash).copied();
        receipts
            .iter()
            .filter_map(|receipt| Some((LaneId { chain, signer: owner(receipt)? }, receipt)))
            .collect()
    }

    /// The accounts whose lanes are loaded here, and what each needs.
    pub(crate) fn paces(&self, chain: ChainId) -> BTreeMap<Account, Pace> {
        let inner = self.inner();
        let lanes = inner.chains.get(&chain).map(|chain| &chain.lanes);
        lanes.into_iter().flatten().map(|(account, lane)| (*account, lane.pace)).collect()
    }

    /// What this lane needs to hear, from its last turn on.
    pub(crate) fn goes_at(&self, lane: LaneId, pace: Pace) {
        let mut inner = self.inner();
        let chain = inner.chains.get_mut(&lane.chain);
        if let Some(loaded) = chain.and_then(|chain| chain.lanes.get_mut(&lane.signer)) {
            // Mail that came meanwhile may bring something to store: it is no rest before that was read.
            let rests = pace == Pace::Resting && !loaded.mailbox.has_mail();
            loaded.pace = if pace == Pace::Resting && !rests { Pace::Busy } else { pace };
        }
    }

    /// What a lane knows of its account is as old as this or older, and from another head than the newest.
    pub(crate) fn was_asked_before(&self, lane: LaneId, time: Millis) -> bool {
        let inner = self.inner();
        let Some(chain) = inner.chains.get(&lane.chain) else { return false };
        let asked_at = chain.lanes.get(&lane.signer).and_then(|loaded| loaded.asked_at);
        !chain.asked.contains_key(&lane.signer) && asked_at.is_some_and(|asked| asked <= time)
    }

    /// Lanes that wait for their first count since they were loaded.
    pub(crate) fn uncounted(&self, chain: ChainId) -> BTreeSet<Account> {
        self.inner().chains.get(&chain).map(|chain| chain.uncounted.clone()).unwrap_or_default()
    }

    pub(crate) fn has_uncounted(&self, chain: ChainId) -> bool {
        self.inner().chains.get(&chain).is_some_and(|chain| !chain.uncounted.is_empty())
    }

    pub(crate) fn view(&self, chain: ChainId) -> Option<Arc<ChainView>> {
        self.inner().chains.get(&chain)?.newest.clone()
    }

    /// A lane has stored what it was shown up to here.
    pub(crate) fn took(&self, lane: LaneId, view: Option<&ChainView>, count: Option<Slot>) {
        let mut inner = self.inner();
        let Some(chain) = inner.chains.get_mut(&lane.chain) else { return };
        let Some(loaded) = chain.lanes.get_mut(&lane.signer) else { return };
        let before = loaded.head();
        let Some(head) = view.map(|view| view.head.at.number).or(before) else { return };
        loaded.taken = Some(Taken { head, count });
        if before != Some(head) {
            chain.reached.leaves(before);
            chain.reached.arrives(Some(head));
            chain.advance();
        }
    }

    /// What callers are shown of a chain, and the newest view.
    pub(crate) fn shown(&self, chain: ChainId) -> (Option<Arc<ChainView>>, Option<Arc<ChainView>>) {
        let inner = self.inner();
        let chain = inner.chains.get(&chain);
        chain.map_or((None, None), |chain| (chain.shown.clone(), chain.newest.clone()))
    }

    /// The count that goes with what a lane that runs here has stored.
    pub(crate) fn shown_count(&self, lane: LaneId) -> Option<Slot> {
        self.inner().chains.get(&lane.chain)?.lanes.get(&lane.signer)?.taken?.count
    }

    /// Hands a new view to the lanes of the chain. One of the head they know goes only to those it has something for.
    pub(crate) fn publish(&self, id: ChainId, mut news: News) {
        let mut inner = self.inner();
        let chain = inner.chains.entry(id).or_default();
        let head = news.view.head.at;
        let is_new = news.for_all || chain.newest.as_ref().is_none_or(|before| before.head.at != head);
        let changed = news.view.status == ChainStatus::Changed;
        chain.remember(&news);
        for account in &news.asked {
            chain.uncounted.remove(account);
            if let Some(loaded) = chain.lanes.get_mut(account) {
                loaded.asked_at = Some(news.at);
            }
        }
        let asked: BTreeSet<Account> = news.asked.iter().copied().collect();
        let OfChain { lanes, uncounted, reached, .. } = &mut *chain;
        for (account, lane) in lanes {
            // A lane that was loaded after the counts were asked for gets the next view.
            if uncounted.contains(account) && !changed {
                continue;
            }
            let receipts = news.receipts.remove(&LaneId { chain: id, signer: *account }).unwrap_or_default();
            let is_its_own = asked.contains(account) || !receipts.is_empty() || news.for_all || changed;
            if is_its_own || (is_new && lane.pace != Pace::Resting) {
                // What it stores of this view is waited for, until its next turn says otherwise.
                lane.pace = if is_its_own { Pace::Busy } else { lane.pace };
                lane.mailbox.view(news.view.clone(), receipts);
            } else if is_new {
                lane.mailbox.view_for_later(news.view.clone());
                // It has nothing to store of it.
                let before = lane.head();
                if let Some(taken) = &mut lane.taken {
                    taken.head = head.number;
                    reached.leaves(before);
                    reached.arrives(Some(head.number));
                }
            }
        }
        chain.advance();
    }
}
