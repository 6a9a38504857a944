//! The rules, checked while a run goes on and when it is over. They look at the chain and the store from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use landfall_core::attempt::Attempt;
use landfall_core::journal::{Entry, JournalRow, replay};
use landfall_core::ports::store::{Kept, Reads, TxQuery};
use landfall_core::request::AfterState;
use landfall_core::transaction::{ReasonCode, Transaction, TxState};
use landfall_core::{JournalSeq, LaneId, Millis, QueueOrder, Slot, TxId};
use landfall_store::Memory;

use crate::chain::model::Fork;
use crate::chain::wire::Content;
use crate::node::MAX_FEE;
use crate::nonces;
use crate::scenario::Fault;
use crate::world::{Rule, World};

/// More entries than this for one transaction are unbounded growth.
const MOST_ENTRIES: usize = 400;
/// More attempts than this for one slot are unbounded growth; the lane's own bound is below it.
const MOST_ATTEMPTS: usize = 80;
/// As much of a lane's journal is shown.
const MOST_JOURNAL: usize = 80;

/// From then on every node has seen that an account is empty.
const SEEN_TO_BE_EMPTY: std::time::Duration = std::time::Duration::from_secs(10);
/// In a quiet world a slot that was sent is not out of all pools for longer: probes come sooner, re-sends later.
const MOST_OUT_OF_POOLS_MS: u64 = 40_000;

mod facts;
mod prices;
mod wishes;

pub(crate) struct Checkers {
    world: Arc<World>,
    memory: Memory,
    finals: Mutex<BTreeMap<TxId, TxState>>,
    /// Since when the lowest open slot of a lane is in no pool.
    missing: Mutex<BTreeMap<(LaneId, u64), u64>>,
}

impl Checkers {
    #[must_use]
    pub(crate) fn new(world: Arc<World>, memory: Memory) -> Self {
        Self { world, memory, finals: Mutex::default(), missing: Mutex::default() }
    }

    /// What must hold at every moment.
    pub(crate) async fn always(&self) {
        self.lands_once();
        self.within_budget();
        let taken = self.world.scenario.is_plain_to_all().then(|| self.taken_by_strangers());
        for tx in self.all().await {
            self.final_stays(&tx);
            let Ok(Some(record)) = self.memory.tx(tx.id).await else { continue };
            let asked = marker(&tx).and_then(|marker| self.world.lock().asked.get(&marker).cloned());
            // One that was done again carries the same marker and has a slot of its own.
            let its_own = asked.as_ref().filter(|asked| asked.tx == Some(tx.id));
            let told_slot = its_own.and_then(|asked| asked.slot);
            let ceiling = asked.and_then(|asked| asked.max_fee).unwrap_or(u128::MAX).min(MAX_FEE.0);
            for attempt in &record.attempts {
                // A no-op must get through, so it may use the chain's whole ceiling.
                let ceiling = if attempt.no_op { MAX_FEE.0 } else { ceiling };
                if attempt.fees.cap().0 > ceiling {
                    let text = format!("{} of {} offers {:?}", attempt.hash, tx.id, attempt.fees);
                    self.world.violated(Rule::WithinCeiling, text);
                }
            }
            self.beats_the_former(&record.attempts);
            let entries = self.memory.journal(tx.id).await.unwrap_or_default();
            if entries.len() > MOST_ENTRIES || record.attempts.len() > MOST_ATTEMPTS {
                let text =
                    format!("{} has {} entries and {} attempts", tx.id, entries.len(), record.attempts.len());
                self.world.violated(Rule::Bounded, text);
            }
            self.slot_as_told(&record.tx, told_slot, &entries);
            if self.world.scenario.long_halt {
                self.quiet_while_halted(&record.tx, &entries);
            }
            self.expires_by_block_time(&record.tx, &entries);
            self.taken_is_carried(&record.tx, &entries);
            if self.world.scenario.forked {
                self.not_by_one(&record.tx, &entries);
            }
            if self.world.scenario.quiet {
                self.paid_for(&record.tx, &entries);
            }
            if let Some(taken) = &taken {
                self.fails_when_dry(&record.tx, &entries);
                self.binds_what_is_free(&record.tx, &entries, taken);
            }
            let told = replay(entries.iter().map(|row| &row.entry));
            let status = &record.tx.status;
            let agrees = told.is_some_and(|told| {
                told.state == status.state
                    && told.displaced == status.displaced
                    && (status.state.is_terminal() || told.slot == status.slot)
            });
            if !agrees {
                let text = format!(
                    "{} is {:?} in slot {:?}, its journal says {told:?}",
                    tx.id, status.state, status.slot
                );
                self.world.violated(Rule::JournalExplains, text);
            }
        }
    }

    /// A slot that a caller was told is on disk. A restored copy may have lost it.
    fn slot_as_told(&self, tx: &Transaction, told: Option<Slot>, entries: &[JournalRow]) {
        let Some(told) = told.filter(|_| self.world.scenario.rate(Fault::RestoredStore) == 0) else { return };
        let stored = |row: &JournalRow| match row.entry {
            Entry::Signed { slot, .. } | Entry::SlotReserved { slot } => slot == told,
            _ => false,
        };
        if !entries.is_empty() && !entries.iter().any(stored) {
            let text = format!("{} was told slot {told}, and never had it", tx.id);
            self.world.violated(Rule::SlotAsTold, text);
        }
    }

    /// In a world where nothing else goes wrong, a chain that stands still is left alone. What was under way when it
    /// stopped may still be seen and answered.
    fn quiet_while_halted(&self, tx: &Transaction, entries: &[JournalRow]) {
        let halts = self.world.lock().halts.clone();
        let grace = self.world.scenario.resubmit * 2 + std::time::Duration::from_secs(5);
        let halted = |row: &JournalRow| {
            halts.iter().any(|(chain, from, until)| {
                *chain == tx.lane.chain && row.at > from.after(grace) && row.at < *until
            })
        };
        // The status forgets a speed-up with the content it was for; the journal does not.
        let hurried = entries.iter().any(|row| matches!(row.entry, Entry::SpeedUpAsked { .. }));
        for row in entries.iter().filter(|row| halted(row)) {
            let loud = match &row.entry {
                // What a caller asks for meanwhile is done: another content, or a dearer attempt.
                Entry::Signed { attempt, version, .. } => {
                    *attempt > 0 && version.0 == 1 && tx.status.ending.is_none() && !hurried
                }
                Entry::Mined { .. } | Entry::Confirmed { .. } | Entry::Expired { .. } => true,
                Entry::EndingBegan { state, .. } => *state == TxState::Expired,
                _ => false,
            };
            if loud {
                self.world.violated(Rule::QuietWhileHalted, format!("{}: {:?}", tx.id, row.entry));
            }
        }
    }

    /// A content of which the journal says that a node has it does not begin to end because a node refuses it.
    fn taken_is_carried(&self, tx: &Transaction, entries: &[JournalRow]) {
        let mut newest = None;
        let mut taken = None;
        for row in entries {
            match &row.entry {
                Entry::Signed { no_op: false, version, .. } => newest = Some(*version),
                Entry::Broadcast { .. } | Entry::Mined { .. } => taken = newest,
                Entry::EndingBegan { reason, .. }
                    if matches!(reason.code, ReasonCode::Invalid | ReasonCode::WouldRevert)
                        && taken.is_some()
                        && taken == newest =>
                {
                    let text = format!("a node had {}, and it is given up: {}", tx.id, reason.text);
                    self.world.violated(Rule::TakenIsCarried, text);
                }
                _ => {}
            }
        }
    }

    /// Nothing expires before a block says that it is late.
    fn expires_by_block_time(&self, tx: &Transaction, entries: &[JournalRow]) {
        let expired = entries.iter().any(|row| match &row.entry {
            Entry::Expired { .. } => true,
            Entry::EndingBegan { state, .. } => *state == TxState::Expired,
            _ => false,
        });
        let latest = self.world.lock().chains.get(&tx.lane.chain).map(|chain| chain.latest);
        if let Some(deadline) =
            tx.deadline().filter(|deadline| expired && latest.is_some_and(|at| at <= *deadline))
        {
            let text = format!("{} expired for {deadline:?}, and no block is later than {latest:?}", tx.id);
            self.world.violated(Rule::ExpiresByBlockTime, text);
        }
    }

    /// An account that has been empty for a while gets no new slots, and no dearer attempts.
    fn paid_for(&self, tx: &Transaction, entries: &[JournalRow]) {
        let empties = self.world.lock().empties.clone();
        let is_empty = |row: &JournalRow| {
            empties.iter().any(|(lane, from, until)| {
                *lane == tx.lane && row.at > from.after(SEEN_TO_BE_EMPTY) && row.at < *until
            })
        };
        let costs = |row: &JournalRow| match row.entry {
            Entry::Signed { attempt, no_op, .. } => attempt > 0 || !no_op,
            _ => false,
        };
        if let Some(row) = entries.iter().find(|row| costs(row) && is_empty(row)) {
            let text = format!("{} when its account was empty: {:?}", tx.id, row.entry);
            self.world.violated(Rule::PaidFor, text);
        }
    }

    /// What a lane's contents have cost stays within its budget of so many days. No-ops are always allowed.
    fn within_budget(&self) {
        // What was final and counted at its price may land again at a dearer one, up to what its bytes offer.
        let Some(budget) =
            self.world.scenario.budget.filter(|_| self.world.scenario.rate(Fault::DeepReorg) == 0)
        else {
            return;
        };
        let days = self.world.lock().days;
        let mut spent: BTreeMap<LaneId, u128> = BTreeMap::new();
        for fork in self.forks() {
            for block in fork.iter() {
                let base = block.header.base_fee.unwrap_or_default().0;
                for (_, wire) in block.txs.iter().filter(|(_, wire)| wire.content().is_some()) {
                    let price = wire.cap.min(base.saturating_add(wire.tip));
                    let lane = LaneId { chain: wire.chain, signer: wire.from };
                    *spent.entry(lane).or_default() +=
                        price * u128::from(wire.gas) + u128::from(block.data_fee);
                }
            }
        }
        let most = u128::from(budget) * u128::from(days);
        if let Some((lane, fees)) = spent.into_iter().find(|(_, fees)| *fees > most) {
            let text =
                format!("lane {lane} has spent {fees} in {days} days, and {budget} are allowed for one");
            self.world.violated(Rule::WithinBudget, text);
        }
    }

    /// In a quiet world the lowest slot that was sent is in some pool, or soon will be.
    pub(crate) async fn back_in_the_pool(&self) {
        if !self.world.scenario.quiet {
            return;
        }
        let now = self.world.now();
        let mut lost = BTreeMap::new();
        for tx in self.all().await.iter().filter(|tx| tx.status.state == TxState::Broadcast) {
            let Some(slot) = tx.status.slot.filter(|slot| slot.0 == self.count(tx.lane)) else { continue };
            let inner = self.world.lock();
            let Some(chain) = inner.chains.get(&tx.lane.chain) else { continue };
            let key = (tx.lane.signer, slot.0);
            let pooled = chain.endpoints.iter().any(|at| at.pool.contains_key(&key));
            let broke = chain.account(&tx.lane.signer).balance.is_zero();
            drop(inner);
            if !pooled && !broke {
                let before = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
                let since = before.get(&(tx.lane, slot.0)).copied().unwrap_or(now);
                lost.insert((tx.lane, slot.0), since);
            }
        }
        if let Some(((lane, slot), since)) =
            lost.iter().find(|(_, since)| now - **since > MOST_OUT_OF_POOLS_MS)
        {
            let text = format!("slot {slot} of {lane} is in no pool since {since} ms");
            self.world.violated(Rule::BackInThePool, text);
        }
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = lost;
    }

    /// What must hold when everything was well for long enough.
    pub(crate) async fn at_the_end(&self) {
        self.always().await;
        let all = self.all().await;
        let contents = self.contents();
        let retried = self.world.lock().retried.clone();
        let mut winners: BTreeMap<(LaneId, u64), TxId> = BTreeMap::new();
        for tx in &all {
            if !self.changed_its_mind(tx).await {
                self.ended(tx, &contents, &retried);
            }
            if let (Some(slot), Some(_)) = (tx.status.slot, &tx.status.won)
                && let Some(other) = winners.insert((tx.lane, slot.0), tx.id)
            {
                let text = format!("slot {slot} of {} was won by {other} and {}", tx.lane, tx.id);
                self.world.violated(Rule::OneWinnerPerSlot, text);
            }
        }
        self.actions_held(&all).await;
        if self.world.scenario.quiet {
            self.only_the_lowest().await;
        }
        let known: BTreeMap<TxId, ()> = all.iter().map(|tx| (tx.id, ())).collect();
        let landed = self.landed();
        let asked = self.world.lock().asked.clone();
        for (marker, asked) in asked {
            let Some(tx) = asked.tx.filter(|tx| !known.contains_key(tx)) else { continue };
            match self.memory.kept(tx).await.ok().flatten() {
                Some(kept) if nonces::is_given(&asked.submission) && kept.call.is_none() => {}
                Some(kept) => self.kept_is_true(&kept, landed.get(&marker).copied().unwrap_or(0)),
                None => self
                    .world
                    .violated(Rule::AcceptedIsKept, format!("{} was accepted and is not there", asked.key)),
            }
        }
        for summary in self.memory.lanes().await.unwrap_or_default() {
            let count = self.count(summary.lane);
            let cursor = summary.row.cursor.map_or(count, |cursor| cursor.0);
            // Somebody else's use of a key may put the count above the cursor of a lane that has nothing to do.
            let foreign = self.world.scenario.rate(Fault::ForeignUse) > 0;
            if cursor > count || (cursor < count && !foreign) || !summary.row.returned.is_empty() {
                let text =
                    format!("lane {} handed out slots up to {cursor}, the chain used {count}", summary.lane);
                self.world.violated(Rule::NoGaps, text);
            }
        }
    }

    /// After a restore: what the chain has in a slot is not queued again, nor called failed, since a stranger took that slot.
    pub(crate) async fn nothing_is_given_up_that_landed(&self, since: Millis) {
        let forks = self.forks();
        let landed_there = |tx: &Transaction, slot: Option<Slot>| {
            let mut wires = forks.iter().flat_map(|fork| fork.iter()).flat_map(|block| &block.txs);
            wires.any(|(_, wire)| {
                wire.chain == tx.lane.chain
                    && wire.from == tx.lane.signer
                    && Some(Slot(wire.nonce)) == slot
                    // A content that the copy has never heard of cannot be told from a stranger's.
                    && tx.payloads().any(|payload| payload.data == wire.data && payload.value.0 == wire.value)
            })
        };
        for tx in self.all().await {
            let rows = self.memory.journal(tx.id).await.unwrap_or_default();
            let given_up = rows.iter().filter(|row| row.at > since).find(|row| match &row.entry {
                Entry::Requeued { slot, .. } => landed_there(&tx, Some(*slot)),
                Entry::Failed { reason } if reason.code == ReasonCode::Displaced => {
                    landed_there(&tx, tx.status.slot)
                }
                _ => false,
            });
            if let Some(row) = given_up {
                let text = format!("{} had landed, and after a restore: {:?}", tx.id, row.entry);
                self.world.violated(Rule::HoldsWhenUnsure, text);
            }
        }
    }

    /// The journal of the lane that the first violation names, or whose transaction it names: all about that transaction and about the
    /// lane itself, and the end of the rest.
    pub(crate) async fn journal_of_the_first_violation(&self) -> Vec<String> {
        let texts: Vec<String> =
            self.world.lock().violations.iter().map(|violation| violation.text.clone()).collect();
        let all = self.all().await;
        let named = |text: &String, tx: &Transaction| {
            let request = marker(tx).map(|marker| format!("request {marker:x} "));
            text.contains(&tx.id.to_string())
                || text.contains(&tx.lane.to_string())
                || request.is_some_and(|request| text.contains(&request))
        };
        // Some only say which call it was: the first that names a transaction or its lane leads there.
        let lane = texts.iter().find_map(|text| all.iter().find(|tx| named(text, tx)));
        let Some((lane, id)) = lane.map(|tx| (tx.lane, tx.id)) else { return Vec::new() };
        let rows = self.memory.journal_after(JournalSeq(0), u32::MAX).await.unwrap_or_default();
        let rows: Vec<_> = rows.into_iter().filter(|row| row.lane == lane).collect();
        let line = |row: &JournalRow| {
            let tx = row.tx.map_or_else(|| "the lane".to_owned(), |tx| tx.to_string());
            format!("{:>6}  {tx}  {:?}", row.seq, row.entry)
        };
        let end = rows.len().saturating_sub(MOST_JOURNAL);
        let shown = |(place, row): &(usize, &JournalRow)| *place >= end || row.tx.is_none_or(|tx| tx == id);
        rows.iter().enumerate().filter(shown).map(|(_, row)| line(row)).collect()
    }

    /// Transactions, commands and lanes that have something before them.
    pub(crate) async fn unfinished(&self) -> usize {
        // One that had ended and was taken back by the chain has no receipt until it has landed again.
        let taken_back = |tx: &Transaction| tx.status.won.is_some() && tx.status.receipt.is_none();
        let all = self.all().await;
        let mut unfinished = all.iter().filter(|tx| !tx.status.state.is_terminal() || taken_back(tx)).count();
        for summary in self.memory.lanes().await.unwrap_or_default() {
            unfinished += self.memory.commands(summary.lane, u32::MAX).await.unwrap_or_default().len();
            let ahead = summary.row.cursor.is_some_and(|cursor| cursor.0 > self.count(summary.lane));
            unfinished += usize::from(ahead || !summary.row.returned.is_empty());
        }
        unfinished
    }

    fn beats_the_former(&self, attempts: &[Attempt]) {
        for (place, attempt) in attempts.iter().enumerate() {
            let former = attempts[..place].iter().filter(|former| former.slot == attempt.slot);
            let beaten = |former: &Attempt| {
                let enough = |new: u128, old: u128| new * 100 >= old * 110;
                enough(attempt.fees.cap().0, former.fees.cap().0)
                    && enough(attempt.fees.tip().0, former.fees.tip().0)
            };
            if let Some(former) = former.into_iter().find(|former| !beaten(former)) {
                let text = format!("{} offers {:?} after {:?}", attempt.hash, attempt.fees, former.fees);
                self.world.violated(Rule::BeatsTheFormer, text);
            }
        }
    }

    /// What callers asked for on the way was done in its order. The journal's numbers are the order of commits.
    async fn actions_held(&self, all: &[Transaction]) {
        let rows = self.memory.journal_after(JournalSeq(0), u32::MAX).await.unwrap_or_default();
        let mut signed: BTreeMap<TxId, Vec<JournalSeq>> = BTreeMap::new();
        let mut landed: BTreeMap<(TxId, AfterState), JournalSeq> = BTreeMap::new();
        let mut cancelled: BTreeMap<LaneId, Vec<(JournalSeq, QueueOrder)>> = BTreeMap::new();
        let mut taken_back: BTreeSet<TxId> = BTreeSet::new();
        for row in &rows {
            match (&row.entry, row.tx) {
                (Entry::Signed { no_op: false, .. }, Some(tx)) => signed.entry(tx).or_default().push(row.seq),
                (Entry::Mined { .. }, Some(tx)) => {
                    landed.entry((tx, AfterState::Mined)).or_insert(row.seq);
                }
                (Entry::Confirmed { .. }, Some(tx)) => {
                    landed.entry((tx, AfterState::Confirmed)).or_insert(row.seq);
                }
                (Entry::FinalReorged { .. }, Some(tx)) => {
                    taken_back.insert(tx);
                }
                (Entry::AllCancelled { up_to, .. }, _) => {
                    cancelled.entry(row.lane).or_default().push((row.seq, *up_to));
                }
                _ => {}
            }
        }
        for tx in all {
            let Some(bytes) = signed.get(&tx.id) else { continue };
            let first = bytes.first().copied().unwrap_or_default();
            let last = bytes.last().copied().unwrap_or_default();
            for (at, up_to) in cancelled.get(&tx.lane).into_iter().flatten() {
                // What had won before and was taken back must land again.
                if tx.order <= *up_to && last > *at && !taken_back.contains(&tx.id) {
                    let text = format!("{} was signed at {last}, after all was cancelled at {at}", tx.id);
                    self.world.violated(Rule::CancelAllEndsAll, text);
                }
            }
            if let Some(after) = tx.after() {
                // Of one whose history was removed only its end is known, and not whether it was in a block before.
                if matches!(self.memory.kept(after.tx).await, Ok(Some(kept))
                    if kept.state == TxState::Confirmed || after.state == AfterState::Mined)
                {
                    continue;
                }
                let done =
                    landed.get(&(after.tx, after.state)).or(landed.get(&(after.tx, AfterState::Confirmed)));
                if done.is_none_or(|done| *done > first) {
                    let text =
                        format!("{} was signed at {first}, and {} landed at {done:?}", tx.id, after.tx);
                    self.world.violated(Rule::FollowsInOrder, text);
                }
            }
        }
    }

    /// The chain took back more than was final, and then decided otherwise: the journal says so.
    async fn changed_its_mind(&self, tx: &Transaction) -> bool {
        let rows = self.memory.journal(tx.id).await.unwrap_or_default();
        rows.iter().any(|row| match &row.entry {
            Entry::FinalLost { .. } => true,
            Entry::LandedAgain { version, .. } => {
                tx.status.won.as_ref().is_none_or(|won| won.version != *version)
            }
            _ => false,
        })
    }

    pub(crate) async fn all(&self) -> Vec<Transaction> {
        self.memory.txs(&TxQuery { limit: u32::MAX, ..TxQuery::default() }).await.unwrap_or_default()
    }

    fn forks(&self) -> Vec<Fork> {
        self.world.lock().chains.values().map(|chain| chain.fork.clone()).collect()
    }

    #[must_use]
    pub(crate) fn count(&self, lane: LaneId) -> u64 {
        self.world.lock().chains.get(&lane.chain).map_or(0, |chain| chain.account(&lane.signer).count)
    }

    /// The requests of some lanes.
    pub(crate) async fn markers_of(&self, lanes: impl Fn(LaneId) -> bool) -> Vec<u64> {
        self.all().await.iter().filter(|tx| lanes(tx.lane)).filter_map(marker).collect()
    }

    /// How often each request's content is in the chains.
    #[must_use]
    pub(crate) fn landed(&self) -> BTreeMap<u64, u64> {
        self.contents().into_iter().map(|(marker, contents)| (marker, contents.len() as u64)).collect()
    }

    /// How often each content is in the chains: a replaced one is another.
    pub(crate) fn landed_contents(&self) -> BTreeMap<Content, u64> {
        let mut times = BTreeMap::new();
        for content in self.contents().into_values().flatten() {
            *times.entry(content).or_default() += 1;
        }
        times
    }

    /// The contents of each request that are in the chains.
    fn contents(&self) -> BTreeMap<u64, Vec<Content>> {
        let mut contents: BTreeMap<u64, Vec<Content>> = BTreeMap::new();
        for fork in self.forks() {
            for content in fork.iter().flat_map(|block| &block.txs).filter_map(|(_, wire)| wire.content()) {
                contents.entry(content.marker).or_default().push(content);
            }
        }
        contents
    }

    fn lands_once(&self) {
        for (marker, times) in self.landed() {
            if times > 1 {
                self.world.violated(Rule::LandsOnce, format!("request {marker:x} landed {times} times"));
            }
        }
    }

    fn final_stays(&self, tx: &Transaction) {
        if !tx.status.state.is_terminal() {
            let before = self.finals.lock().unwrap_or_else(PoisonError::into_inner).get(&tx.id).copied();
            if let Some(before) = before {
                let text = format!("{} was {} and is {}", tx.id, before.name(), tx.status.state.name());
                self.world.violated(Rule::FinalStays, text);
            }
            return;
        }
        let mut finals = self.finals.lock().unwrap_or_else(PoisonError::into_inner);
        let before = finals.insert(tx.id, tx.status.state);
        drop(finals);
        if let Some(before) = before.filter(|before| *before != tx.status.state) {
            let text = format!("{} was {} and is {}", tx.id, before.name(), tx.status.state.name());
            self.world.violated(Rule::FinalStays, text);
        }
    }

    /// What stayed of a transaction says how it ended, and the chain shows the same.
    fn kept_is_true(&self, kept: &Kept, landed: u64) {
        let before = self.finals.lock().unwrap_or_else(PoisonError::into_inner).get(&kept.id).copied();
        if before.is_some_and(|before| before != kept.state) {
            self.world
                .violated(Rule::FinalStays, format!("{} was {before:?}, what stayed says {kept:?}", kept.id));
        }
        // Whether the chain changed its mind after finality was told by the journal, which is gone.
        let may_differ =
            self.world.scenario.rate(Fault::DeepReorg) > 0 || self.world.lock().retried.contains(&kept.id);
        if !may_differ && (kept.state == TxState::Confirmed) != (landed == 1) {
            let text =
                format!("{} stayed as {}, and the chain has it {landed} times", kept.id, kept.state.name());
            self.world.violated(Rule::FinalIsTrue, text);
        }
    }

    /// It lost its slot to somebody else, and was to fail then.
    fn was_displaced(&self, tx: &Transaction) -> bool {
        let displaced = tx.status.reason.as_ref().is_some_and(|reason| reason.code == ReasonCode::Displaced);
        displaced && self.world.scenario.fail_displaced && self.world.scenario.rate(Fault::ForeignUse) > 0
    }

    /// All who were asked refused it for good, before any had taken it.
    fn was_refused(&self, tx: &Transaction) -> bool {
        let code = tx.status.reason.as_ref().map(|reason| reason.code);
        let refused = &self.world.lock().refused;
        matches!(code, Some(ReasonCode::Invalid | ReasonCode::WouldRevert))
            && tx.payloads().filter_map(|payload| Content::read(&payload.data)).any(|c| refused.contains(&c))
    }

    /// It has ended, and as the chain shows.
    fn ended(&self, tx: &Transaction, contents: &BTreeMap<u64, Vec<Content>>, retried: &BTreeSet<TxId>) {
        let state = tx.status.state;
        if !state.is_terminal() {
            let two = if tx.takes_two_slots() { ", and takes two" } else { "" };
            let text =
                format!("{} is {} in slot {:?} of {}{two}", tx.id, state.name(), tx.status.slot, tx.lane);
            self.world.violated(Rule::Ends, text);
            return;
        }
        let Some(marker) = marker(tx) else { return };
        // A call that ended unsigned may have been made again: what landed is then the later one's.
        if tx.request.call().is_some() && tx.status.ended_unsigned() {
            return;
        }
        // One that was done again carries the same content: only that it landed once can be told, and is.
        if retried.contains(&tx.id) {
            return;
        }
        let landed = contents.get(&marker).map_or(0, Vec::len);
        let asked = self.world.lock().asked.get(&marker).cloned();
        let said = state == TxState::Confirmed;
        if said != (landed == 1) {
            let text = format!("{} ended {}, and the chain has it {landed} times", tx.id, state.name());
            self.world.violated(Rule::FinalIsTrue, text);
        } else if said && contents.get(&marker).and_then(|all| all.first().copied()) != content_that_won(tx) {
            let text =
                format!("{} says that version {:?} won, and the chain has another", tx.id, tx.status.won);
            self.world.violated(Rule::FinalIsTrue, text);
        } else if !said
            && asked.is_some_and(|asked| !asked.may_end_otherwise)
            && !self.was_displaced(tx)
            && !self.was_refused(tx)
            && !self.world.lock().cancelled_lanes.contains(&tx.lane)
        {
            let text = format!("{} ended {} for no reason: {:?}", tx.id, state.name(), tx.status.reason);
            self.world.violated(Rule::FinalIsTrue, text);
        }
    }
}

/// Which request a transaction is.
fn marker(tx: &Transaction) -> Option<u64> {
    Content::read(&tx.request.payload.data).map(|content| content.marker)
}

/// What the transaction says that the chain took.
fn content_that_won(tx: &Transaction) -> Option<Content> {
    let version = tx.status.won.as_ref()?.version;
    let later = usize::try_from(version.0).ok()?.checked_sub(2);
    let payload = match later.map(|place| tx.status.later.get(place)) {
        None => &tx.request.payload,
        Some(Some(landfall_core::transaction::Content::Payload(payload))) => payload,
        Some(_) => return None,
    };
    Content::read(&payload.data)
}
