//! Which lanes are loaded here, which hashes they wait for, and what each was last shown of its chain.
//!
//! A new head is a turn of every lane that has something under way. One that is at rest finds the newest view when it
//! wakes, and is woken only by what is about itself: its own count and balance, a receipt, another fork. So a thousand
//! lanes without work cost nothing at a block. What it knows of its account may have become old meanwhile: then it asks before it
//! goes on ([`Directory::wants_head`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use landfall_core::view::{ChainStatus, ChainView, Look, Receipt};
use landfall_core::{Account, ChainId, LaneId, Millis, Slot, TxHash, TxId};
use tokio::time::Instant;

use crate::mailbox::Mailbox;

mod reached;
#[cfg(test)]
pub(crate) mod tests;

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
    /// Lanes that ask for their account. None: at the newest head; else by a look that begins after this one.
    asking: BTreeMap<Account, Option<Look>>,
    /// The last look that has begun.
    begun: Look,
    newest: Option<Arc<ChainView>>,
    /// Since when its head is known.
    head_since: Option<Instant>,
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
}

/// What a lane needs to hear of its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Pace {
    /// It has never had a slot: its count is asked of a second endpoint until that says the same.
    Beginning,
    /// Something is to be given a slot: every head, and its count and its balance at each.
    Giving,
    /// Something is out, or the lane holds: every head, and its count and its balance soon.
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
    /// As far as its count may be shown.
    up_to: Option<Slot>,
}

/// A view for the lanes.
pub(crate) struct News {
    /// The look that found it out.
    pub(crate) look: Look,
    pub(crate) view: Arc<ChainView>,
    pub(crate) receipts: BTreeMap<LaneId, Vec<Receipt>>,
    /// Whose counts and balances were asked for at this head.
    pub(crate) asked: Vec<Account>,
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
            self.head_since = Some(Instant::now());
        }
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
    /// would not do, nor one that only one endpoint gave where the lane begins with it.
    pub(crate) fn enter(
        &self,
        lane: LaneId,
        pace: Pace,
        mailbox: Arc<Mailbox>,
        hashes: impl Iterator<Item = TxHash>,
    ) {
        let mut inner = self.inner();
        let chain = inner.chains.entry(lane.chain).or_default();
        let is_of_head = |view: &&Arc<ChainView>| {
            let account = view.accounts.get(&lane.signer).filter(|account| account.at == view.head.at);
            account.is_some_and(|account| account.agreed || pace != Pace::Beginning)
        };
        match chain.newest.as_ref().filter(is_of_head) {
            Some(view) => mailbox.view(view.clone(), Vec::new()),
            None => drop(chain.uncounted.insert(lane.signer)),
        }
        let loaded = Loaded { mailbox, pace, taken: None, wanted: 0 };
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
        chain.asking.remove(&lane.signer);
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

    /// A look at the chain begins.
    pub(crate) fn begin_look(&self, chain: ChainId) -> Look {
        let mut inner = self.inner();
        let begun = &mut inner.chains.entry(chain).or_default().begun;
        begun.0 += 1;
        *begun
    }

    /// This lane wants its account at the newest head. False if it is being asked for already.
    pub(crate) fn wants_head(&self, lane: LaneId) -> bool {
        let mut inner = self.inner();
        let Some(chain) = inner.chains.get_mut(&lane.chain) else { return false };
        let asks = chain.lanes.contains_key(&lane.signer)
            && !chain.uncounted.contains(&lane.signer)
            && !chain.asking.contains_key(&lane.signer);
        if asks {
            chain.asking.insert(lane.signer, None);
        }
        asks
    }

    /// This lane wants its account as a look shows it that has not begun yet: one after the look that is told.
    pub(crate) fn wants_anew(&self, lane: LaneId) -> Look {
        let mut inner = self.inner();
        let chain = inner.chains.entry(lane.chain).or_default();
        if chain.lanes.contains_key(&lane.signer) {
            chain.asking.insert(lane.signer, Some(chain.begun));
        }
        chain.begun
    }

    /// Lanes whose accounts are asked about, whatever is known: they were just loaded, or want it.
    pub(crate) fn asking(&self, chain: ChainId) -> BTreeSet<Account> {
        let inner = self.inner();
        let Some(chain) = inner.chains.get(&chain) else { return BTreeSet::new() };
        chain.uncounted.iter().chain(chain.asking.keys()).copied().collect()
    }

    pub(crate) fn is_asked(&self, chain: ChainId) -> bool {
        let inner = self.inner();
        let chain = inner.chains.get(&chain);
        chain.is_some_and(|chain| !chain.uncounted.is_empty() || !chain.asking.is_empty())
    }

    pub(crate) fn view(&self, chain: ChainId) -> Option<Arc<ChainView>> {
        self.inner().chains.get(&chain)?.newest.clone()
    }

    /// How long the head of the newest view has been the same.
    pub(crate) fn head_age(&self, chain: ChainId) -> Option<Duration> {
        self.inner().chains.get(&chain)?.head_since.map(|since| since.elapsed())
    }

    /// The time by the newest block of any chain, and what has passed since it came.
    pub(crate) fn block_time(&self) -> Option<Millis> {
        let inner = self.inner();
        let time = |chain: &OfChain| {
            let time = chain.newest.as_ref()?.time()?;
            Some(time.after(chain.head_since?.elapsed()))
        };
        inner.chains.values().filter_map(time).max()
    }

    /// A lane has stored what it was shown up to here.
    pub(crate) fn took(&self, lane: LaneId, view: Option<&ChainView>, up_to: Option<Slot>) {
        let mut inner = self.inner();
        let Some(chain) = inner.chains.get_mut(&lane.chain) else { return };
        let Some(loaded) = chain.lanes.get_mut(&lane.signer) else { return };
        let before = loaded.head();
        let Some(head) = view.map(|view| view.head.at.number).or(before) else { return };
        loaded.taken = Some(Taken { head, up_to });
        if before != Some(head) {
            chain.reached.leaves(before);
            chain.reached.arrives(Some(head));
            chain.advance();
        }
    }

    /// A lane that runs here has seen its chain since it was loaded.
    pub(crate) fn has_seen_chain(&self, lane: LaneId) -> bool {
        let inner = self.inner();
        let chain = inner.chains.get(&lane.chain);
        chain.and_then(|chain| chain.lanes.get(&lane.signer)).is_some_and(|loaded| loaded.taken.is_some())
    }

    /// What callers are shown of a chain, and the newest view.
    pub(crate) fn shown(&self, chain: ChainId) -> (Option<Arc<ChainView>>, Option<Arc<ChainView>>) {
        let inner = self.inner();
        let chain = inner.chains.get(&chain);
        chain.map_or((None, None), |chain| (chain.shown.clone(), chain.newest.clone()))
    }

    /// As far as the count of a lane that runs here may be shown, by what it has stored.
    pub(crate) fn shown_up_to(&self, lane: LaneId) -> Option<Slot> {
        self.inner().chains.get(&lane.chain)?.lanes.get(&lane.signer)?.taken?.up_to
    }

    /// Hands a new view to the lanes of the chain. One of the head they know goes only to those it has something for, unless
    /// more of it counts.
    pub(crate) fn publish(&self, id: ChainId, mut news: News) {
        let mut inner = self.inner();
        let chain = inner.chains.entry(id).or_default();
        let head = news.view.head.at;
        // A block that a second endpoint has shown since may end what waits for that.
        let is_known = |before: &Arc<ChainView>| {
            before.head.at == head && before.witnessed.counts_alike(&news.view.witnessed)
        };
        let is_new = news.for_all || !chain.newest.as_ref().is_some_and(is_known);
        let changed = news.view.status == ChainStatus::Changed;
        chain.remember(&news);
        for account in &news.asked {
            chain.uncounted.remove(account);
            if chain.asking.get(account).is_some_and(|begun| begun.is_none_or(|begun| begun < news.look)) {
                chain.asking.remove(account);
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
                lane.pace = match lane.pace {
                    Pace::Settling | Pace::Resting if is_its_own => Pace::Busy,
                    pace => pace,
                };
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
