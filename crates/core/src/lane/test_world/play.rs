//! Steps, and the world that plays them.

use std::sync::Arc;

use alloy_primitives::U256;

use super::{CommitFate, Desk, ModelChain, payment};
use crate::attempt::Sealed;
use crate::journal::Entry;
use crate::lane::{Action, LaneEvent, Wants};
use crate::outcome::SendOutcome;
use crate::ports::store::CommandKind;
use crate::request::{
    After, AfterState, AskedFees, OnDisplaced, OnFailure, OnInsufficientFunds, Options, Payload, Speed,
};
use crate::settings::LaneSettings;
use crate::transaction::{Terms, TxState};
use crate::view::ChainStatus;
use crate::{Gas, Millis, Price, Slot, TxId, Wei};

/// What a caller asks for.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Ask {
    pub(in super::super) own_gas: bool,
    pub(in super::super) big: bool,
    pub(in super::super) ceiling_gwei: Option<u64>,
    pub(in super::super) asked_gwei: Option<u64>,
    pub(in super::super) deadline_in: Option<u64>,
    pub(in super::super) requeue: bool,
    pub(in super::super) fast: bool,
    /// Follow the nth one: until it is mined, and held if it fails.
    pub(in super::super) after: Option<(usize, bool, bool)>,
    /// The lane is handed what was stored, and not only told that there is something.
    pub(in super::super) handed_over: bool,
}

/// How an action goes.
#[derive(Debug, Clone)]
pub(in super::super) enum Fault {
    None,
    /// Done, and the answer is lost.
    AnswerLost,
    /// Not done, and no word of it.
    NotDone,
    /// Not done, but called done (sends only).
    Silent,
    /// This answer, whether the bytes were taken or not.
    Says {
        outcome: SendOutcome,
        taken: bool,
    },
    /// It can never work (estimates and signatures).
    Never,
    /// The account cannot pay (estimates).
    Funds,
}

/// One thing that happens in the world.
#[derive(Debug, Clone)]
pub(in super::super) enum Step {
    Admit(Ask),
    Cancel(usize),
    /// A new content: of its own gas, above the approval limit, under another ceiling.
    Replace(usize, Ask),
    SpeedUp(usize, Option<u64>, bool),
    CancelAll,
    /// So many slots, from so far above the chain's count.
    Fill(u64, u64),
    Reset,
    Disable,
    Approve(usize),
    Reject(usize),
    Pause,
    Resume,
    /// Carries an action out; its answer is on the way from now on.
    Act(usize, Fault),
    /// An answer arrives.
    Deliver(usize),
    /// Every action goes well and every answer arrives, in one turn.
    Settle,
    Tick(u64),
    ClockBack(u64),
    Mine {
        most: usize,
        success: bool,
    },
    Reorg {
        depth: u64,
        keep: bool,
        refill: u64,
    },
    Foreign,
    Evict(usize),
    BaseFee(u64),
    /// The account has so many gwei.
    Balance(u64),
    /// The watcher shows the chain, as it was `lag` blocks ago.
    Show {
        lag: u64,
        receipts: bool,
    },
    ShowOther,
    /// The watcher proves which slots went to strangers.
    Prove,
    Crash,
    /// The next turn's commit meets this.
    NextCommit(CommitFate),
    /// Bytes sent before a crash reach the pool after all.
    Ghost(usize),
}

#[derive(Debug)]
pub(in super::super) struct World {
    pub(in super::super) desk: Desk,
    pub(in super::super) chain: ModelChain,
    pub(in super::super) started: Vec<Action>,
    pub(in super::super) answers: Vec<LaneEvent>,
    /// Sends of lanes that are no more.
    ghosts: Vec<Sealed>,
    fate: CommitFate,
    /// Blocks below this were shown to the lane with their receipts.
    shown: u64,
    /// The chain took blocks back that may have been final for callers, and the lane has not seen it yet.
    unseen_reorg: bool,
    /// Transactions whose preparation or signature failed at some time: they may be overtaken.
    pub(in super::super) overtaken: std::collections::BTreeSet<TxId>,
}

impl World {
    pub(in super::super) fn new(settings: LaneSettings, finality: u64) -> Self {
        let desk = Desk::new(settings);
        let chain = ModelChain::new(Slot(5), finality, desk.now);
        Self {
            desk,
            chain,
            started: Vec::new(),
            answers: Vec::new(),
            ghosts: Vec::new(),
            fate: CommitFate::Done,
            shown: 1,
            unseen_reorg: false,
            overtaken: std::collections::BTreeSet::new(),
        }
    }

    pub(in super::super) fn play(&mut self, step: Step) {
        let now = self.desk.now;
        match step {
            Step::Admit(ask) => {
                let id = self.admit(&ask);
                let tx = self.desk.store.tx(id).clone();
                self.turn(vec![if ask.handed_over {
                    LaneEvent::Admitted(vec![tx])
                } else {
                    LaneEvent::Work
                }]);
            }
            Step::Cancel(nth) => self.command_on(nth, |tx| CommandKind::Cancel { tx }),
            Step::Replace(nth, ask) => self.replace_nth(nth, &ask),
            Step::SpeedUp(nth, gwei, fast) => {
                let fees = gwei.map_or(AskedFees::Market, |gwei| AskedFees::Dynamic {
                    max_fee: Some(Price::gwei(gwei)),
                    tip: None,
                });
                let speed = fast.then_some(Speed::Fast);
                self.command_on(nth, |tx| CommandKind::SpeedUp { tx, fees, speed });
            }
            Step::CancelAll => {
                let up_to = self.desk.store.txs.values().map(|tx| tx.order).max();
                self.command(CommandKind::CancelAll { up_to: up_to.unwrap_or_default() });
            }
            Step::Fill(above, slots) => {
                let from = Slot(self.desk.store.row.chain_count.unwrap_or_default().0 + above);
                self.command(CommandKind::Fill { from, to: Slot(from.0 + slots) });
            }
            Step::Reset => self.command(CommandKind::Reset),
            Step::Disable => self.command(CommandKind::Disable),
            Step::Approve(nth) => {
                self.command_on(nth, |tx| CommandKind::Approve { tx, version: None, held_for: None })
            }
            Step::Reject(nth) => {
                self.command_on(nth, |tx| CommandKind::Reject { tx, version: None, held_for: None })
            }
            Step::Pause => self.command(CommandKind::Pause),
            Step::Resume => self.command(CommandKind::Resume),
            Step::Act(nth, fault) => {
                if !self.started.is_empty() {
                    let action = self.started.remove(nth % self.started.len());
                    let answer = self.act(action, &fault);
                    self.answers.push(answer);
                }
            }
            Step::Deliver(nth) => {
                if !self.answers.is_empty() {
                    let answer = self.answers.remove(nth % self.answers.len());
                    self.turn(vec![answer]);
                }
            }
            Step::Settle => self.settle(),
            Step::Tick(millis) => {
                self.desk.pass(millis);
                self.turn(Vec::new());
            }
            Step::ClockBack(millis) => {
                self.desk.now = Millis(now.0.saturating_sub(millis));
                self.turn(Vec::new());
            }
            Step::Mine { most, success } => self.chain.mine(most, success, now),
            Step::Reorg { depth, keep, refill } => {
                self.chain.reorg(depth, keep, refill, now);
                self.unseen_reorg = self.chain.deep > 0;
                self.shown = self.shown.min(self.chain.head().at.number.saturating_sub(depth + refill));
            }
            Step::Foreign => self.chain.mine_foreign(now),
            Step::Evict(nth) => self.chain.evict(nth),
            Step::BaseFee(gwei) => self.chain.base_fee = Price::gwei(gwei),
            Step::Balance(gwei) => {
                // Nodes drop what cannot be paid any more.
                self.chain.set_balance(Price::gwei(gwei).cost(Gas(1)));
            }
            Step::Show { lag, receipts } => self.show(lag, receipts),
            Step::ShowOther => {
                let view = Arc::new(self.chain.other_view(now));
                self.turn(vec![LaneEvent::Chain { view, receipts: Vec::new() }]);
            }
            Step::Prove => self.prove(),
            Step::Crash => {
                self.desk.crash();
                self.forget();
                self.turn(Vec::new());
            }
            Step::NextCommit(fate) => self.fate = fate,
            Step::Ghost(nth) => {
                if !self.ghosts.is_empty() {
                    let sealed = self.ghosts.remove(nth % self.ghosts.len());
                    self.chain.send(&sealed);
                }
            }
        }
    }

    fn admit(&mut self, ask: &Ask) -> TxId {
        let number = self.desk.store.txs.len() as u64 + 1;
        let payload = paid(ask, number);
        let after = ask.after.and_then(|(nth, mined, hold)| {
            let state = if mined { AfterState::Mined } else { AfterState::Confirmed };
            let on_failure = if hold { OnFailure::Hold } else { OnFailure::Cancel };
            Some(After { tx: self.desk.store.nth(nth)?, state, on_failure })
        });
        let options = Options {
            speed: if ask.fast { Speed::Fast } else { Speed::Normal },
            max_fee_per_gas: ask.ceiling_gwei.map(Price::gwei),
            deadline: ask.deadline_in.map(|millis| Millis(self.desk.now.0 + millis)),
            on_displaced: ask.requeue.then_some(OnDisplaced::Requeue),
            on_insufficient_funds: OnInsufficientFunds::Hold,
            after,
            ..Options::default()
        };
        self.desk.admit(payload, options)
    }

    fn replace_nth(&mut self, nth: usize, ask: &Ask) {
        let number = 10_000 + self.desk.store.commands.len() as u64;
        let terms = Terms { max_fee_per_gas: ask.ceiling_gwei.map(Price::gwei), ..Terms::default() };
        let payload = Box::new(paid(ask, number));
        self.command_on(nth, |tx| CommandKind::Replace { tx, payload: payload.clone(), terms });
    }

    fn command_on(&mut self, nth: usize, kind: impl Fn(TxId) -> CommandKind) {
        if let Some(id) = self.desk.store.nth(nth) {
            self.command(kind(id));
        }
    }

    pub(in super::super) fn command(&mut self, mut kind: CommandKind) {
        // A person says what is seen.
        if let CommandKind::Approve { tx, held_for, .. } | CommandKind::Reject { tx, held_for, .. } =
            &mut kind
        {
            *held_for = self.desk.store.tx(*tx).status.forgotten_as;
        }
        self.desk.store.command(kind, self.desk.now);
        self.turn(vec![LaneEvent::Work]);
    }

    /// A turn of the loop, and what must hold after it.
    pub(in super::super) fn turn(&mut self, events: Vec<LaneEvent>) {
        let before: Vec<(TxId, TxState)> =
            self.desk.store.txs.values().map(|tx| (tx.id, tx.status.state)).collect();
        let fate = std::mem::replace(&mut self.fate, CommitFate::Done);
        self.desk.looks = self.chain.looks;
        match self.desk.turn_with(events, fate) {
            Some(actions) => self.started.extend(actions),
            None => self.forget(),
        }
        for (id, state) in before {
            // By what it was shown last the lane may end what the chain has just taken back; in the end that lands again.
            if !state.is_terminal() && self.desk.store.state(id).is_terminal() && !self.unseen_reorg {
                self.check_ending(id);
            }
        }
    }

    /// The lane was loaded anew: answers to the old one are dropped, what it sent is not.
    fn forget(&mut self) {
        for action in self.started.drain(..) {
            if let Action::Send(outgoing) = action {
                self.ghosts.extend(outgoing.into_iter().map(|one| one.sealed));
            }
        }
        self.answers.clear();
    }

    /// A transaction ends only as its slot's winner says.
    pub(in super::super) fn check_ending(&self, id: TxId) {
        let tx = self.desk.store.tx(id);
        let winner = tx.status.slot.and_then(|slot| self.chain.winner(slot));
        let bytes = tx.status.slot.is_some_and(|slot| {
            self.desk.store.attempts.range((slot, 0)..=(slot, u32::MAX)).any(|(_, a)| a.tx == Some(id))
        });
        let by_a_persons_word = |entry: &Entry| matches!(entry, Entry::CarriedOut { .. });
        if self.desk.store.journal_of(id).any(by_a_persons_word) {
            return;
        }
        if !bytes {
            assert!(
                !matches!(tx.status.state, TxState::Confirmed | TxState::Reverted),
                "{id} landed without bytes"
            );
            return;
        }
        let (block, winner) =
            winner.unwrap_or_else(|| panic!("{id} ended before the chain decided: {tx:#?}"));
        assert!(self.chain.is_final(block), "{id} ended before its winner was final");
        if let Some(draft) = &winner.draft {
            let won = tx.status.won.as_ref().map(|won| won.version);
            assert_eq!(won, Some(draft.version), "{id} says that another content won");
        }
        match (&winner.draft, tx.status.state) {
            (Some(draft), TxState::Confirmed) => {
                assert!(!draft.no_op && draft.tx == Some(id) && winner.success)
            }
            (Some(draft), TxState::Reverted) => {
                assert!(!draft.no_op && draft.tx == Some(id) && !winner.success)
            }
            (Some(draft), TxState::Cancelled | TxState::Expired | TxState::Failed) => {
                assert!(
                    draft.no_op && draft.tx == Some(id),
                    "{id} landed and is shown as {:?}",
                    tx.status.state
                );
            }
            (None, TxState::Cancelled | TxState::Expired | TxState::Failed) => {}
            (_, state) => panic!("{id} ended as {state:?}, but the winner is {winner:?}"),
        }
    }

    pub(in super::super) fn show(&mut self, lag: u64, receipts: bool) {
        self.chain.looks.0 += 1;
        self.desk.wants = Wants::Nothing;
        let view = Arc::new(self.chain.view(lag));
        let upto = view.head.at.number;
        let found = if receipts {
            let open: Vec<_> = self.desk.lane.open_hashes().collect();
            let new = self.shown..=upto;
            self.chain.receipts(&open).into_iter().filter(|r| new.contains(&r.block.number)).collect()
        } else {
            Vec::new()
        };
        self.shown = upto + 1;
        self.unseen_reorg = false;
        self.turn(vec![LaneEvent::Chain { view, receipts: found }]);
    }

    pub(in super::super) fn prove(&mut self) {
        let open: Vec<Slot> = self.desk.lane.slots.keys().copied().collect();
        let mut events = Vec::new();
        for slot in open {
            if let Some((block, winner)) = self.chain.winner(slot)
                && winner.draft.is_none()
                && block.at.number <= self.chain.finalized()
            {
                events.push(LaneEvent::Foreign { slot, block: block.at, taker: None });
            }
        }
        if !events.is_empty() {
            self.turn(events);
        }
    }

    pub(in super::super) fn settle(&mut self) {
        let started = std::mem::take(&mut self.started);
        let mut events = std::mem::take(&mut self.answers);
        for action in started {
            events.push(self.act(action, &Fault::None));
        }
        self.turn(events);
    }

    /// Faults have stopped: the world is honest until nothing is left to do.
    pub(in super::super) fn calm_down(&mut self, most: usize) {
        self.fate = CommitFate::Done;
        self.chain.base_fee = Price::gwei(1);
        self.chain.balance = self.chain.balance.map(|_| Wei(U256::MAX));
        self.chain.refuses_below_base = false;
        for _ in 0..most {
            for _ in 0..4 {
                self.settle();
            }
            self.desk.pass(2_000);
            self.chain.mine(100, true, self.desk.now);
            self.show(0, true);
            self.prove();
            self.help();
            if self.is_quiet() {
                return;
            }
        }
        let stuck: Vec<String> = self
            .desk
            .store
            .txs
            .values()
            .filter(|tx| !tx.status.state.is_terminal())
            .map(|tx| format!("{tx:#?}: {:?}", self.desk.lane.explain(tx.id, self.desk.now)))
            .collect();
        panic!(
            "never quiet: {stuck:#?}\n{:#?}\npool {:?} started {:?}",
            self.desk.lane, self.chain.pool, self.started
        );
    }

    /// People do what only they can.
    fn help(&mut self) {
        let held = self.desk.lane.hold();
        let status = self.desk.lane.view.as_ref().map(|view| view.status);
        if held.is_some() && status == Some(ChainStatus::Live) {
            self.command(CommandKind::Resume);
        }
        let asked: Vec<TxId> = self
            .desk
            .store
            .txs
            .values()
            .filter(|tx| !tx.status.state.is_terminal())
            .filter(|tx| {
                let status = &tx.status;
                status.state == TxState::AwaitingApproval || status.asks_approval || status.held.is_some()
            })
            .map(|tx| tx.id)
            .collect();
        for tx in asked {
            self.command(CommandKind::Approve { tx, version: None, held_for: None });
        }
    }

    fn is_quiet(&self) -> bool {
        self.desk.lane.is_idle()
            && self.started.is_empty()
            && self.answers.is_empty()
            && self.desk.store.txs.values().all(|tx| tx.status.state.is_terminal())
            && self.desk.store.commands.iter().all(|(_, done)| *done)
    }
}

fn paid(ask: &Ask, number: u64) -> Payload {
    let mut payload = payment(number);
    payload.gas = ask.own_gas.then_some(Gas(30_000));
    if ask.big {
        payload.value = Wei(U256::from(1_000_000 + number));
    }
    if let Some(gwei) = ask.asked_gwei {
        payload.fees = AskedFees::Dynamic { max_fee: Some(Price::gwei(gwei)), tip: None };
    }
    payload
}
