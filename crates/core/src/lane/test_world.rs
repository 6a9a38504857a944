//! A small deterministic world around one lane: a store, a chain and somebody who carries out actions.
//!
//! [`Desk`] runs the loop of the engine (apply, commit, plan) on a model store and holds the lane to its promises at
//! every turn. [`World`](play::World) adds a chain and plays a list of steps, faults among them.

mod carry;
mod chain;
mod play;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256, keccak256};

use super::{Action, Lane, LaneEvent, Plan, Wants};
use crate::attempt::{Draft, Sealed};
use crate::request::{Options, Payload, Request};
use crate::settings::LaneSettings;
use crate::view::Look;
use crate::{Account, ChainId, Fingerprint, Gas, LaneId, Millis, TxHash, Wei};

pub(super) use chain::ModelChain;
pub(super) use play::{Ask, Fault, Step, World};
pub(super) use store::{COMMANDS, ModelStore};

pub(super) const LANE: LaneId = LaneId { chain: ChainId(7), signer: Account(Address::repeat_byte(0xaa)) };

/// What becomes of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitFate {
    Done,
    /// It is on disk and nobody says so.
    AnswerLost,
    NotDone,
}

/// A lane, the store it is kept in and the time.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) lane: Lane,
    pub(super) store: ModelStore,
    pub(super) settings: Arc<LaneSettings>,
    pub(super) now: Millis,
    pub(super) wake_at: Option<Millis>,
    /// What the lane has asked for since it was last shown its account.
    pub(super) wants: Wants,
    /// The last look at the chain that has begun.
    pub(super) looks: Look,
}

impl Desk {
    pub(super) fn new(settings: LaneSettings) -> Self {
        let settings = Arc::new(settings);
        let mut store = ModelStore::default();
        let now = Millis(1_000_000);
        let lane = Lane::load(store.acquire(), settings.clone(), now);
        let (wants, looks) = (Wants::default(), Look::default());
        Self { lane, store, settings, now, wake_at: None, wants, looks }
    }

    /// One turn of the loop. `None`: the lane was thrown away and loaded again.
    pub(super) fn turn_with(&mut self, events: Vec<LaneEvent>, fate: CommitFate) -> Option<Vec<Action>> {
        self.lane.apply(events, self.now);
        if let Err(broken) = self.lane.verify() {
            panic!("{broken}\n{:#?}", self.lane);
        }
        let alarms = self.lane.take_alarms();
        assert!(alarms.is_empty(), "an honest chain raises no alarm: {alarms:?}");
        if let Some(commit) = self.lane.take_commit(self.now) {
            if fate != CommitFate::NotDone {
                let version = self.store.commit(commit, &self.settings).expect("the lane is owned");
                self.lane.committed(version);
            }
            if fate != CommitFate::Done {
                self.crash();
                return None;
            }
        }
        let Plan { mut actions, wake_at, wants } = self.lane.plan(self.now);
        self.wake_at = wake_at;
        if wants != Wants::Nothing {
            self.wants = wants;
        }
        if wants == Wants::Anew {
            self.lane.asked(self.looks);
        }
        self.check_actions(&actions);
        let next = self.check_rest(&actions);
        actions.extend(next);
        Some(actions)
    }

    /// Memory is lost; the lane is loaded from the store.
    pub(super) fn crash(&mut self) {
        self.lane = Lane::load(self.store.acquire(), self.settings.clone(), self.now);
        (self.wake_at, self.wants) = (None, Wants::Nothing);
        if let Err(broken) = self.lane.verify() {
            panic!("after loading: {broken}\n{:#?}", self.lane);
        }
    }

    fn check_actions(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Send(outgoing) => {
                    for one in outgoing {
                        let stored = self.store.attempts.values().any(|a| {
                            a.slot == one.slot && a.hash == one.sealed.hash && a.raw == one.sealed.raw
                        });
                        assert!(stored, "{:?} is sent before it is stored", one.sealed.hash);
                    }
                }
                Action::Sign(drafts) => {
                    let slots: BTreeSet<_> = drafts.iter().map(|draft| draft.slot).collect();
                    assert_eq!(slots.len(), drafts.len(), "one slot is signed twice at once");
                }
                Action::Load { .. }
                | Action::Prepare(_)
                | Action::Look(_)
                | Action::Second(_)
                | Action::Prove(_)
                | Action::Probe(_)
                | Action::Follow(_) => {}
            }
        }
    }

    /// Nothing that a look at every slot would do was left out, and nothing is asked for again while it is under way. One thing may be: a
    /// draft that is signed anew at a lower price makes room for another reservation, which the turn of its answer takes. What that
    /// leads to is to be started as well.
    fn check_rest(&mut self, started: &[Action]) -> Vec<Action> {
        self.lane.slots.look_at_all();
        self.lane.apply(Vec::new(), self.now);
        if let Err(broken) = self.lane.verify() {
            panic!("{broken}\n{:#?}", self.lane);
        }
        if let Some(more) = self.lane.take_commit(self.now) {
            // What the plan did may lead to a word about the account, and to nothing else.
            let notes = more.journal.iter().all(|new| new.tx.is_none());
            let missed =
                !notes || !more.txs.is_empty() || !more.attempts.is_empty() || !more.closed.is_empty();
            let is_next_turns = started.iter().any(|action| matches!(action, Action::Sign(_)))
                && self.settings.reserve_before_signing
                && more.attempts.is_empty()
                && more.closed.is_empty()
                && more.journal.iter().all(|new| {
                    new.tx.is_none() || matches!(new.entry, crate::journal::Entry::SlotReserved { .. })
                });
            assert!(!missed || is_next_turns, "a turn did not look at what has changed: {more:?}");
            let version = self.store.commit(more, &self.settings).expect("the lane is owned");
            self.lane.committed(version);
            if missed {
                let Plan { actions, wake_at, .. } = self.lane.plan(self.now);
                self.wake_at = wake_at;
                self.check_actions(&actions);
                return actions;
            }
        }
        let again = self.lane.plan(self.now);
        assert!(
            again.actions.is_empty(),
            "asked for again while under way, or not before: {:?}",
            again.actions
        );
        if let Some(at) = again.wake_at {
            assert!(
                self.wake_at.is_some_and(|wake| wake <= at),
                "it sleeps too long: {:?}, {at:?}",
                self.wake_at
            );
        }
        Vec::new()
    }

    /// Stores a new transaction.
    pub(super) fn admit(&mut self, payload: Payload, options: Options) -> crate::TxId {
        self.store.admit(request(payload, options, self.now))
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.now = Millis(self.now.0 + millis);
    }
}

/// A plain payment of `value`; the gas is to be estimated.
pub(super) fn payment(value: u64) -> Payload {
    Payload {
        to: Some(Account(Address::repeat_byte(0xbb))),
        value: Wei(U256::from(value)),
        ..Payload::default()
    }
}

/// As [`payment`], but brings its own gas.
pub(super) fn payment_with_gas(value: u64) -> Payload {
    Payload { gas: Some(Gas(21_000)), ..payment(value) }
}

pub(super) fn request(payload: Payload, options: Options, now: Millis) -> Request {
    Request {
        request_id: None,
        payload,
        options,
        fingerprint: Fingerprint(B256::ZERO),
        accepted_at: now,
        retry_of: None,
        at_once: None,
        origin: None,
    }
}

/// The same draft gives the same bytes, as real signatures do.
pub(super) fn seal(draft: &Draft) -> Sealed {
    let Draft { serial: _, lane, slot, tx, version, no_op, call, gas, fees } = draft;
    let text = format!("{:?}", (lane, slot, tx, version, no_op, call, gas, fees));
    let hash = keccak256(text);
    Sealed { raw: hash.to_vec().into(), hash: TxHash(hash) }
}
