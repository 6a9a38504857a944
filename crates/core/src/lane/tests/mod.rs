//! What the lane promises, held against a model world: a file for each step of a transaction's life, and random lists
//! of steps for all of them together.

mod admit;
mod after;
mod alarm;
mod allocate;
mod behind;
mod broadcast;
mod budget;
mod cancel_all;
mod cheap;
mod check;
mod clock;
mod command;
mod counts;
mod delegate;
mod doubt;
mod explain;
mod fill;
mod finish;
mod funds;
mod guards;
mod held;
mod hurry;
mod keep;
mod not_compared;
mod older;
mod pair;
mod probe;
mod properties;
mod prove;
mod put_back;
mod refuse;
mod replace;
mod reprice;
mod reset;
mod settle;
mod settled;
mod sign;
mod stranger;
mod unpaid;
mod watch;
mod window;
mod witness;

use std::sync::Arc;

use alloy_primitives::Address;

use super::test_world::{Fault, Step, World, payment_with_gas};
use super::{Action, Draft, LaneEvent, Sent, Wants};
use crate::attempt::Attempt;
use crate::journal::Entry;
use crate::outcome::{SendOutcome, SendReport};
use crate::ports::store::CommandKind;
use crate::request::{Finality, Options, Payload};
use crate::settings::LaneSettings;
use crate::{Account, TxId};
use crate::{Price, Slot};

/// Two blocks on top are final, for the chain as well; four slots may be out.
fn settings() -> LaneSettings {
    LaneSettings {
        finality: Finality::Blocks(2),
        watch_depth: 2,
        max_in_flight: 4,
        max_fee: Price::gwei(50),
        delegate_to: [Address::repeat_byte(0xcc), Address::with_last_byte(0xc0)].map(Account).into(),
        ..LaneSettings::default()
    }
}

/// A world whose lane has seen the chain. The account's first slot is 5.
fn world(settings: LaneSettings) -> World {
    let mut world = World::new(settings, 2);
    world.show(0, true);
    world.rest();
    world
}

fn remote() -> LaneSettings {
    LaneSettings { reserve_before_signing: true, ..settings() }
}

/// A kind of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Load,
    Prepare,
    Sign,
    Send,
    Look,
    Second,
    Prove,
    Follow,
    Probe,
}

fn kind(action: &Action) -> Kind {
    match action {
        Action::Load { .. } => Kind::Load,
        Action::Prepare(_) => Kind::Prepare,
        Action::Sign(_) => Kind::Sign,
        Action::Send(_) => Kind::Send,
        Action::Look(_) => Kind::Look,
        Action::Second(_) => Kind::Second,
        Action::Prove(_) => Kind::Prove,
        Action::Follow(_) => Kind::Follow,
        Action::Probe(_) => Kind::Probe,
    }
}

impl World {
    fn submit_as(&mut self, payload: Payload, options: Options) -> TxId {
        let id = self.desk.admit(payload, options);
        self.turn(vec![LaneEvent::Work]);
        id
    }

    /// A payment that brings its own gas.
    fn submit(&mut self) -> TxId {
        let number = self.desk.store.txs.len() as u64 + 1;
        self.submit_as(payment_with_gas(number), Options::default())
    }

    fn started(&self, wanted: Kind) -> bool {
        self.started.iter().any(|action| kind(action) == wanted)
    }

    /// Takes an action away without carrying it out.
    fn take(&mut self, wanted: Kind) -> Action {
        let at = self.started.iter().position(|action| kind(action) == wanted);
        let at = at.unwrap_or_else(|| panic!("no {wanted:?} among {:?}", self.started));
        self.started.remove(at)
    }

    /// Carries one action out and delivers its answer.
    fn carry(&mut self, wanted: Kind, fault: Fault) {
        let action = self.take(wanted);
        let answer = self.act(action, &fault);
        self.turn(vec![answer]);
    }

    /// Every action goes well, until none is left and hints are written.
    fn rest(&mut self) {
        for _ in 0..20 {
            if !self.started.is_empty() {
                self.settle();
                continue;
            }
            if self.desk.wants != Wants::Nothing {
                self.show(0, true);
                continue;
            }
            if self.desk.lane.changes.is_empty() {
                return;
            }
            self.wait(1_000);
        }
        panic!("no rest: {:?}", self.started);
    }

    /// A transaction that the pool has.
    fn broadcast(&mut self) -> TxId {
        let id = self.submit();
        self.rest();
        id
    }

    /// One block of everything, shown to the lane.
    fn block(&mut self) {
        self.chain.mine(100, true, self.desk.now);
        self.show(0, true);
    }

    /// Blocks until what is mined is final.
    fn finalise(&mut self) {
        for _ in 0..3 {
            self.block();
            self.rest();
        }
    }

    /// Transactions that wait after a store was accepted are sent once everything that was forgotten is used up, and that is final.
    fn use_up_forgotten(&mut self) {
        for _ in 0..3 {
            self.finalise();
        }
    }

    /// Time passes and the lane thinks.
    fn wait(&mut self, millis: u64) {
        self.desk.pass(millis);
        self.turn(Vec::new());
    }

    fn cancel(&mut self, tx: TxId) {
        self.command(CommandKind::Cancel { tx });
        self.carry(Kind::Load, Fault::None);
    }

    fn drafts(&mut self) -> Vec<Draft> {
        match self.take(Kind::Sign) {
            Action::Sign(drafts) => drafts,
            other => panic!("{other:?}"),
        }
    }

    fn attempts(&self, slot: u64) -> Vec<Attempt> {
        self.desk.store.attempts.values().filter(|attempt| attempt.slot == Slot(slot)).cloned().collect()
    }

    fn told(&self, id: TxId, what: impl Fn(&Entry) -> bool) -> usize {
        self.desk.store.journal_of(id).filter(|entry| what(entry)).count()
    }

    /// The node says this about everything that is being sent, and takes nothing.
    fn say(&mut self, outcome: SendOutcome) {
        self.carry(Kind::Send, Fault::Says { outcome, taken: false });
    }

    /// The lane is loaded from a store as earlier versions left it: a slot was given up to a stranger although the chain
    /// may still take it back, and its attempts are watched.
    fn watched_still(&mut self, slot: u64, watch_depth: u64) {
        self.desk.store.closed.remove(&Slot(slot));
        self.desk.store.row.history = None;
        self.desk.settings = Arc::new(LaneSettings { watch_depth, ..(*self.desk.settings).clone() });
        self.play(Step::Crash);
    }

    fn slot_of(&self, id: TxId) -> Option<u64> {
        self.desk.store.tx(id).status.slot.map(|slot| slot.0)
    }
}

fn sent(attempt: &Attempt, outcome: SendOutcome) -> LaneEvent {
    let report = SendReport { outcome, endpoint: "node".into(), code: None, text: None, latency_ms: 1 };
    LaneEvent::Sent(vec![Sent { slot: attempt.slot, hash: attempt.hash, report }])
}
