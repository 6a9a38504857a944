//! How far the transactions of one loaded lane are, by what was committed: this turns commits into facts to count (F2,
//! F20, E21).
//!
//! A commit says where a transaction stands then; where it stood before is remembered here, from what the store showed.
//! The journal of the commit is followed entry by entry, so that no step in between is missed. The distances from the
//! acceptance are told once for each transaction, as far as this load of the lane can know: one that is mined again
//! after a reorganisation and a restart is told again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use landfall_core::journal::{Entry, NewEntry, state_after};
use landfall_core::lane::{Lane, LaneEvent, Loaded};
use landfall_core::ports::store::{LaneCommit, LaneRecord};
use landfall_core::transaction::{ReasonCode, Transaction, TxState};
use landfall_core::{ChainId, Millis, TxId};

use crate::telemetry::{Fact, Milestone, Settled, Signed};

#[derive(Debug, Clone, Copy)]
struct Life {
    state: TxState,
    /// When it came into that state, or was last written before this load.
    since: Millis,
    accepted_at: Millis,
    /// The furthest milestone that was told.
    told: Option<Milestone>,
}

impl Life {
    fn of(tx: &Transaction) -> Self {
        let told = match tx.status.state {
            TxState::Accepted | TxState::Simulated | TxState::AwaitingApproval => None,
            TxState::Signed => Some(Milestone::Signed),
            TxState::Broadcast => Some(Milestone::Sent),
            TxState::Mined => Some(Milestone::Mined),
            TxState::Confirmed
            | TxState::Reverted
            | TxState::Failed
            | TxState::Cancelled
            | TxState::Expired => Some(Milestone::Final),
        };
        let (state, since) = (tx.status.state, tx.status.updated_at);
        Self { state, since, accepted_at: tx.request.accepted_at, told }
    }
}

/// The milestones that a state stands for, the last of which is its own. One that ends without having been sent has no
/// part in how long sending takes.
fn milestones(state: TxState) -> &'static [Milestone] {
    match state {
        TxState::Accepted | TxState::Simulated | TxState::AwaitingApproval => &[],
        TxState::Signed => &[Milestone::Signed],
        TxState::Broadcast => &[Milestone::Signed, Milestone::Sent],
        TxState::Mined => &[Milestone::Signed, Milestone::Sent, Milestone::Mined],
        TxState::Confirmed | TxState::Reverted | TxState::Failed | TxState::Cancelled | TxState::Expired => {
            &[Milestone::Final]
        }
    }
}

/// The transactions of one loaded lane.
#[derive(Debug)]
pub(crate) struct Lives {
    chain: ChainId,
    known: BTreeMap<TxId, Life>,
    /// Those that ended since the last load of waiting ones: one that is under way may still show them.
    ended: BTreeSet<TxId>,
    /// Those that were handed over, and that the lane may not have taken.
    handed_over: Vec<TxId>,
}

impl Lives {
    pub(crate) fn of(record: &LaneRecord) -> Self {
        let known = record.bound.iter().map(|tx| (tx.id, Life::of(tx))).collect();
        Self { chain: record.lane.chain, known, ended: BTreeSet::new(), handed_over: Vec::new() }
    }

    /// Before the lane takes these.
    pub(crate) fn take(&mut self, events: &[LaneEvent]) {
        for event in events {
            if let LaneEvent::Admitted(txs) = event {
                for tx in txs.iter().filter(|tx| !self.ended.contains(&tx.id)) {
                    self.known.entry(tx.id).or_insert_with(|| Life::of(tx));
                    self.handed_over.push(tx.id);
                }
            }
            if let LaneEvent::Loaded(Loaded { waiting, mentioned, .. }) = event {
                let ended = std::mem::take(&mut self.ended);
                let new = waiting
                    .iter()
                    .chain(mentioned)
                    .filter(|tx| !tx.status.state.is_terminal() && !ended.contains(&tx.id));
                for tx in new {
                    self.known.entry(tx.id).or_insert_with(|| Life::of(tx));
                }
            }
        }
    }

    /// After a turn: forgets those that the lane did not take. They stay in the store, and a load shows them again.
    pub(crate) fn forget_untaken(&mut self, lane: &Lane) {
        if self.handed_over.is_empty() || lane.is_loading() {
            return;
        }
        for id in std::mem::take(&mut self.handed_over) {
            if !lane.knows(id) {
                self.known.remove(&id);
            }
        }
    }

    /// What a commit means, once it is on disk.
    pub(crate) fn facts(&mut self, commit: &LaneCommit) -> Vec<Fact> {
        let chain = self.chain;
        let mut facts = Vec::new();
        for attempt in &commit.attempts {
            let what = match (attempt.no_op, attempt.ordinal) {
                (true, _) => Signed::NoOp,
                (false, 0) => Signed::First,
                (false, _) => Signed::Again,
            };
            facts.push(Fact::Signed { chain, what });
        }
        for NewEntry { tx, at, entry, by: _ } in &commit.journal {
            match entry {
                Entry::Reorged { .. } => facts.push(Fact::Reorged { chain }),
                Entry::FinalReorged { .. } => facts.push(Fact::DeepReorg { chain }),
                Entry::SingleWitness { .. } => facts.push(Fact::SingleWitness { chain }),
                _ => {}
            }
            facts.extend(settled(entry, commit, *tx).map(|how| Fact::Settled { chain, how }));
            if let Some(id) = tx {
                self.step(*id, *at, entry, &mut facts);
            }
        }
        if !commit.journal.is_empty() {
            facts.push(Fact::Journalled { entries: commit.journal.len() as u64 });
        }
        facts
    }

    fn step(&mut self, id: TxId, at: Millis, entry: &Entry, facts: &mut Vec<Fact>) {
        let Some(life) = self.known.get_mut(&id) else { return };
        let to = state_after(life.state, entry);
        if to == life.state {
            return;
        }
        facts.push(Fact::Moved {
            from: Some(life.state),
            to,
            stayed: at.since(life.since),
            tx: id,
            chain: self.chain,
            accepted_at: life.accepted_at,
            at,
        });
        for milestone in milestones(to).iter().copied().filter(|one| Some(*one) > life.told) {
            facts.push(Fact::Reached { chain: self.chain, milestone, after: since_accepted(life, at) });
        }
        life.told = life.told.max(milestones(to).last().copied());
        (life.state, life.since) = (to, at);
        if to.is_terminal() {
            self.known.remove(&id);
            self.ended.insert(id);
        }
    }
}

fn since_accepted(life: &Life, at: Millis) -> Duration {
    at.since(life.accepted_at)
}

/// How a slot ended with this entry, if one did.
fn settled(entry: &Entry, commit: &LaneCommit, tx: Option<TxId>) -> Option<Settled> {
    match entry {
        Entry::Confirmed { .. } | Entry::Reverted { .. } => Some(Settled::Won),
        Entry::Requeued { .. } => Some(Settled::Displaced),
        Entry::Failed { reason } if reason.code == ReasonCode::Displaced => Some(Settled::Displaced),
        Entry::Failed { .. } | Entry::Cancelled { .. } | Entry::Expired { .. } => {
            let update = commit.txs.iter().find(|update| Some(update.id) == tx)?;
            update.status.won.is_some().then_some(Settled::NoOp)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use alloy_primitives::{Address, B256, U256};
    use landfall_core::fees::Fees;
    use landfall_core::ports::store::{LaneRow, TxUpdate};
    use landfall_core::request::{Options, Payload, Request};
    use landfall_core::transaction::{Reason, Status, Won};
    use landfall_core::view::{BlockRef, Receipt};
    use landfall_core::{
        Account, ContentVersion, Fingerprint, Gas, LaneId, LaneVersion, Price, QueueOrder, Slot, Token,
        TxHash,
    };

    use super::*;

    /// So many handed over ones a lane takes.
    const TAKEN_AT_MOST: usize = 2_000;
    const LANE: LaneId = LaneId { chain: ChainId(7), signer: Account(Address::repeat_byte(0xaa)) };
    const HASH: TxHash = TxHash(B256::repeat_byte(1));
    const BLOCK: BlockRef = BlockRef { number: 3, hash: B256::repeat_byte(2) };

    fn tx() -> Transaction {
        let request = Request {
            request_id: None,
            payload: Payload { value: landfall_core::Wei(U256::from(1)), ..Payload::default() },
            options: Options::default(),
            fingerprint: Fingerprint(B256::ZERO),
            accepted_at: Millis(1_000),
            retry_of: None,
            at_once: None,
            origin: None,
        };
        let id = TxId::new(Millis(1_000), 1);
        let status = Status::accepted(Millis(1_000));
        Transaction { id, lane: LANE, order: QueueOrder(1), request: Arc::new(request), status }
    }

    fn record(bound: Vec<Transaction>) -> LaneRecord {
        let (token, version, row) = (Token(1), LaneVersion(1), LaneRow::default());
        LaneRecord {
            lane: LANE,
            token,
            version,
            row,
            bound,
            ended: Vec::new(),
            attempts: Vec::new(),
            highest_signed: None,
            older: None,
        }
    }

    fn commit(at: u64, status: Option<Status>, entries: impl IntoIterator<Item = Entry>) -> LaneCommit {
        let tx = tx().id;
        LaneCommit {
            lane: LANE,
            token: Token(1),
            version: LaneVersion(1),
            row: LaneRow::default(),
            txs: status.map(|status| TxUpdate { id: tx, status: Box::new(status) }).into_iter().collect(),
            attempts: Vec::new(),
            hints: Vec::new(),
            closed: Vec::new(),
            journal: entries
                .into_iter()
                .map(|entry| NewEntry { tx: Some(tx), at: Millis(at), entry, by: None })
                .collect(),
            commands_done: Vec::new(),
        }
    }

    fn loaded(tx: Transaction) -> Vec<LaneEvent> {
        vec![LaneEvent::Loaded(Loaded { waiting: vec![tx], asked: 1, ..Loaded::default() })]
    }

    fn signed() -> Entry {
        let fees = Fees::Legacy { gas_price: Price::gwei(1) };
        let (slot, version, gas) = (Slot(5), ContentVersion::FIRST, Gas(21_000));
        Entry::Signed { slot, attempt: 0, version, no_op: false, hash: HASH, fees, gas }
    }

    fn mined() -> Entry {
        let receipt = Receipt {
            hash: HASH,
            block: BLOCK,
            index: 0,
            success: true,
            gas_used: Gas(21_000),
            gas_price: Price::gwei(1),
            data_fee: None,
            contract: None,
        };
        Entry::Mined { receipt, version: ContentVersion::FIRST, no_op: false }
    }

    fn moves(facts: &[Fact]) -> Vec<(TxState, TxState, u128)> {
        let of = |fact: &Fact| match fact {
            Fact::Moved { from: Some(from), to, stayed, .. } => Some((*from, *to, stayed.as_millis())),
            _ => None,
        };
        facts.iter().filter_map(of).collect()
    }

    fn reached(facts: &[Fact]) -> Vec<(Milestone, u128)> {
        let of = |fact: &Fact| match fact {
            Fact::Reached { milestone, after, .. } => Some((*milestone, after.as_millis())),
            _ => None,
        };
        facts.iter().filter_map(of).collect()
    }

    #[test]
    fn every_step_is_counted_also_several_of_one_commit_and_each_distance_once() {
        let mut lives = Lives::of(&record(Vec::new()));
        lives.take(&loaded(tx()));
        let facts = lives.facts(&commit(1_500, None, [Entry::Simulated, signed()]));
        let (accepted, simulated) = (TxState::Accepted, TxState::Simulated);
        assert_eq!(moves(&facts), [(accepted, simulated, 500), (simulated, TxState::Signed, 0)]);
        assert_eq!(reached(&facts), [(Milestone::Signed, 500)]);
        // Nobody said that he had it, and then it is in a block.
        let facts = lives.facts(&commit(3_000, None, [mined()]));
        assert_eq!(moves(&facts), [(TxState::Signed, TxState::Mined, 1_500)]);
        assert_eq!(reached(&facts), [(Milestone::Sent, 2_000), (Milestone::Mined, 2_000)]);
        let facts = lives.facts(&commit(4_000, None, [Entry::Reorged { hash: HASH, block: BLOCK }, mined()]));
        let (mined, broadcast) = (TxState::Mined, TxState::Broadcast);
        assert_eq!(moves(&facts), [(mined, broadcast, 1_000), (broadcast, mined, 0)]);
        assert_eq!(reached(&facts), [], "told before");
        assert!(facts.contains(&Fact::Reorged { chain: LANE.chain }));
        let done = Entry::Confirmed { hash: HASH, block: BLOCK, version: ContentVersion::FIRST };
        let facts = lives.facts(&commit(9_000, None, [done]));
        assert_eq!(reached(&facts), [(Milestone::Final, 8_000)]);
        assert!(facts.contains(&Fact::Settled { chain: LANE.chain, how: Settled::Won }));
        // A load that was under way shows it as it was.
        lives.take(&loaded(tx()));
        assert!(lives.known.is_empty());
    }

    /// As those that a load shows; also when the word comes after the end.
    #[test]
    fn what_is_handed_over_is_counted() {
        let mut lives = Lives::of(&record(Vec::new()));
        lives.take(&[LaneEvent::Admitted(vec![tx()])]);
        let facts = lives.facts(&commit(1_500, None, [signed()]));
        assert_eq!(moves(&facts), [(TxState::Accepted, TxState::Signed, 500)]);
        assert_eq!(reached(&facts), [(Milestone::Signed, 500)]);
        let done = Entry::Confirmed { hash: HASH, block: BLOCK, version: ContentVersion::FIRST };
        lives.facts(&commit(9_000, None, [done]));
        lives.take(&[LaneEvent::Admitted(vec![tx()])]);
        assert!(lives.known.is_empty());
    }

    #[test]
    fn what_a_lane_leaves_in_the_store_is_not_remembered() {
        let full = u64::try_from(TAKEN_AT_MOST).unwrap();
        let mut lives = Lives::of(&record(Vec::new()));
        let settings = Arc::new(landfall_core::settings::LaneSettings::default());
        let mut lane = Lane::load(record(Vec::new()), settings, Millis(0));
        // As after the first load, which finds nothing.
        lane.plan(Millis(0));
        lane.apply(vec![LaneEvent::Loaded(Loaded { asked: 10, ..Loaded::default() })], Millis(0));
        for n in 0..3 * full {
            let tx = Transaction {
                id: TxId::new(Millis(n), 1),
                order: QueueOrder(i64::try_from(n).unwrap()),
                ..tx()
            };
            let events = vec![LaneEvent::Admitted(vec![tx])];
            lives.take(&events);
            lane.apply(events, Millis(0));
            lives.forget_untaken(&lane);
        }
        assert!(lives.known.len() <= TAKEN_AT_MOST && lives.handed_over.is_empty(), "{}", lives.known.len());
        assert!(lives.known.contains_key(&TxId::new(Millis(0), 1)), "the first one was taken");
    }

    #[test]
    fn what_was_told_before_a_restart_is_not_told_again() {
        let mut before = tx();
        before.status.state = TxState::Broadcast;
        let mut lives = Lives::of(&record(vec![before]));
        assert_eq!(reached(&lives.facts(&commit(2_000, None, [mined()]))), [(Milestone::Mined, 1_000)]);
    }

    #[test]
    fn an_end_without_a_slot_settles_none_and_one_by_its_no_op_does() {
        let reason = Reason { code: ReasonCode::CancelledByCaller, text: "enough".to_owned() };
        let cancelled = Entry::Cancelled { reason };
        let mut status = Status::accepted(Millis(1));
        for (won, wanted) in [(None, 0), (Some(Won { version: ContentVersion(2), hash: HASH }), 1)] {
            status.won = won;
            let mut lives = Lives::of(&record(vec![tx()]));
            let facts = lives.facts(&commit(2_000, Some(status.clone()), [cancelled.clone()]));
            let no_op = Fact::Settled { chain: LANE.chain, how: Settled::NoOp };
            assert_eq!(facts.iter().filter(|fact| **fact == no_op).count(), wanted);
        }
    }
}
