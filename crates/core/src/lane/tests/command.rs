use super::super::test_world::{COMMANDS, Fault, Step, World, payment, payment_with_gas};
use super::{Kind, remote, settings, world};
use crate::journal::Entry;
use crate::lane::{Hold, LaneEvent};
use crate::ports::store::CommandKind;
use crate::request::{OnDisplaced, Options};
use crate::settings::LaneSettings;
use crate::transaction::{TxState, Whose};
use crate::{Slot, Wei};

#[test]
fn before_any_bytes_a_cancel_ends_it_at_once_and_leaves_nothing_behind() {
    let limit = Some(Wei(alloy_primitives::U256::from(100)));
    let stages: [(&str, LaneSettings, u64, &[Kind]); 5] = [
        ("not loaded", settings(), 1, &[]),
        ("being estimated", settings(), 1, &[Kind::Load]),
        ("being signed", settings(), 1, &[Kind::Load, Kind::Prepare]),
        ("reserved", remote(), 1, &[Kind::Load, Kind::Prepare]),
        (
            "awaiting approval",
            LaneSettings { approve_above: limit, ..settings() },
            1_000,
            &[Kind::Load, Kind::Prepare],
        ),
    ];
    for (stage, settings, value, done) in stages {
        let mut world = world(settings);
        let id = world.submit_as(payment(value), Options::default());
        for kind in done {
            world.carry(*kind, Fault::None);
        }
        world.command(CommandKind::Cancel { tx: id });
        world.carry(Kind::Load, Fault::None);
        assert_eq!(world.desk.store.state(id), TxState::Cancelled, "{stage}");
        assert_eq!(world.slot_of(id), None, "{stage}");
        world.rest();
        assert!(world.desk.lane.is_idle(), "{stage}");
        assert!(world.desk.store.attempts.is_empty(), "{stage}");
    }
}

#[test]
fn with_stored_bytes_a_cancel_is_decided_by_the_chain() {
    for (stage, sent) in [("signed", false), ("broadcast", true)] {
        let mut world = world(settings());
        let id = world.submit();
        world.carry(Kind::Load, Fault::None);
        world.carry(Kind::Sign, Fault::None);
        if sent {
            world.rest();
        }
        world.cancel(id);
        assert!(!world.desk.store.state(id).is_terminal(), "{stage}");
        world.rest();
        let made = world.attempts(5);
        assert!(made.len() == 2 && made[1].no_op && made[1].tx == Some(id), "{stage}");
        world.finalise();
        assert_eq!(world.desk.store.state(id), TxState::Cancelled, "{stage}");
    }
}

// covers: K3
#[test]
fn a_no_op_gets_the_gas_that_the_chain_asks_for() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.cancel(id);
    world.carry(Kind::Prepare, Fault::None);
    let drafts = world.drafts();
    assert!(drafts[0].no_op);
    // The chain says 40 000, and a fifth is added.
    assert_eq!(drafts[0].gas, crate::Gas(48_000));
}

#[test]
fn a_cancel_of_a_mined_transaction_matters_only_after_a_reorg() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.block();
    world.cancel(id);
    world.rest();
    assert_eq!(world.attempts(5).len(), 1);
    world.chain.reorg(1, false, 1, world.desk.now);
    world.show(0, true);
    world.calm_down(20);
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
}

#[test]
fn a_cancel_of_an_ended_transaction_is_done_and_changes_nothing() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.finalise();
    world.cancel(id);
    world.rest();
    assert_eq!(world.desk.store.state(id), TxState::Confirmed);
    assert!(world.desk.store.commands.iter().all(|(_, done)| *done));
}

#[test]
fn a_second_cancel_adds_nothing() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.cancel(id);
    world.cancel(id);
    world.rest();
    assert_eq!(world.attempts(5).len(), 2);
    assert_eq!(world.desk.store.tx(id).status.later.len(), 1);
}

#[test]
fn a_cancel_gets_its_no_op_in_a_pause_too() {
    let mut world = world(settings());
    let id = world.broadcast();
    world.command(CommandKind::Pause);
    world.rest();
    world.cancel(id);
    world.rest();
    world.finalise();
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
}

#[test]
fn a_pause_stops_new_slots_outlives_a_crash_and_ends_with_a_resume() {
    let mut world = world(settings());
    let out = world.broadcast();
    world.command(CommandKind::Pause);
    world.rest();
    let waiting = world.submit();
    world.rest();
    world.play(Step::Crash);
    world.finalise();
    assert_eq!(world.desk.store.state(out), TxState::Confirmed, "what is out goes on");
    assert_eq!(world.desk.store.state(waiting), TxState::Accepted);
    assert_eq!(world.desk.lane.hold(), Some(Hold::Paused));
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.desk.store.state(waiting), TxState::Broadcast);
}

#[test]
fn unknown_slots_hold_the_lane_until_an_operator_resumes_it() {
    let mut world = world(settings());
    world.broadcast();
    world.finalise();
    world.play(Step::Foreign);
    world.play(Step::Foreign);
    world.play(Step::Crash);
    world.finalise();
    let id = world.submit();
    world.rest();
    assert!(matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { first: Slot(6), last: Slot(7), .. })));
    assert_eq!(world.slot_of(id), None);
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.slot_of(id), Some(8));
}

#[test]
fn a_slot_that_was_being_signed_when_a_stranger_took_it_is_let_go() {
    let mut world = world(settings());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    let sign = world.take(Kind::Sign);
    world.play(Step::Foreign);
    world.show(0, true);
    let late = world.act(sign, &Fault::None);
    world.turn(vec![late]);
    assert!(world.desk.store.attempts.is_empty());
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!(world.slot_of(id), Some(6));
}

#[test]
fn a_reserved_slot_that_a_stranger_took_holds_and_a_resume_sends_its_transaction_back_to_the_queue() {
    let mut world = world(remote());
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    let sign = world.take(Kind::Sign);
    world.play(Step::Foreign);
    world.show(0, true);
    assert!(matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { first: Slot(5), last: Slot(5), .. })));
    let late = world.act(sign, &Fault::None);
    world.turn(vec![late]);
    world.prove();
    assert!(world.desk.store.attempts.is_empty());
    assert_eq!(world.desk.store.state(id), TxState::Accepted);
    world.command(CommandKind::Resume);
    world.rest();
    assert_eq!((world.slot_of(id), world.desk.store.state(id)), (Some(6), TxState::Broadcast));
}

#[test]
fn commands_that_one_reading_does_not_show_are_read_by_the_next_without_a_word() {
    let mut world = world(settings());
    world.play(Step::Pause);
    let id = world.submit();
    world.rest();
    for kind in std::iter::repeat_n(CommandKind::Pause, 2 * COMMANDS).chain([CommandKind::Cancel { tx: id }])
    {
        world.desk.store.command(kind, world.desk.now);
    }
    // However many there are, their lane hears of them once.
    world.turn(vec![LaneEvent::Work]);
    for _ in 0..5 {
        world.rest();
        world.wait(20);
    }
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
}

/// A lane that holds since it was loaded: the chain has used slot 5, and nobody here knows by whom.
fn held() -> World {
    let mut world = world(settings());
    world.play(Step::Foreign);
    world.play(Step::Crash);
    world.show(0, true);
    assert!(matches!(world.desk.lane.hold(), Some(Hold::UnknownSlots { .. })));
    world
}

impl World {
    /// Time passes, and everything that is asked for goes well.
    fn read_on(&mut self) {
        for _ in 0..8 {
            self.rest();
            self.wait(20);
        }
    }

    /// More than are read at once wait for the chain, and behind them comes a pause, which does not. Then the chain is seen.
    fn pause_behind_many(&mut self, waits: &CommandKind) {
        for kind in std::iter::repeat_n(waits.clone(), 3 * COMMANDS).chain([CommandKind::Pause]) {
            self.desk.store.command(kind, self.desk.now);
        }
        for _ in 0..8 {
            self.settle();
            self.wait(20);
        }
        assert!(self.desk.store.row.paused);
        assert_eq!(self.open_commands(), 3 * COMMANDS, "the chain was not seen");
        self.show(0, true);
        self.read_on();
    }

    fn open_commands(&self) -> usize {
        self.desk.store.commands.iter().filter(|(_, done)| !done).count()
    }
}

#[test]
fn a_resume_is_read_however_many_fills_wait_for_it() {
    for crashes in [false, true] {
        let mut world = held();
        let fills = 3 * COMMANDS as u64;
        for n in 0..fills {
            world.command(CommandKind::Fill { from: Slot(6), to: Slot(6 + n) });
        }
        world.read_on();
        assert_eq!(world.open_commands(), 3 * COMMANDS, "the lane holds");
        world.command(CommandKind::Resume);
        if crashes {
            world.play(Step::Crash);
            world.show(0, true);
        }
        world.read_on();
        assert_eq!(world.desk.lane.hold(), None);
        for _ in 0..fills {
            world.finalise();
            world.read_on();
        }
        assert_eq!(world.open_commands(), 0, "in the end all are done");
    }
}

/// Until the chain is seen none of them can be done.
#[test]
fn a_pause_is_read_however_many_resets_wait_for_the_chain() {
    let mut world = world(settings());
    world.play(Step::Crash);
    world.pause_behind_many(&CommandKind::Reset);
    assert_eq!(world.open_commands(), 0);
}

/// They are followed once the chain still shows what they are about.
#[test]
fn a_pause_is_read_however_many_words_on_a_taken_nonce_wait_for_the_chain() {
    let (mut world, id) = super::prove::taken(super::prove::wishing(OnDisplaced::Requeue));
    let taker = super::prove::like(&payment_with_gas(1));
    let hash = taker.hash;
    world.proven(5, Some(taker));
    world.play(Step::Crash);
    let settle = CommandKind::Settle { tx: id, whose: Whose::Foreign, hash };
    world.pause_behind_many(&settle);
    assert_eq!((world.open_commands(), world.slot_of(id)), (0, None), "it waits for another nonce");
}

#[test]
fn a_cancel_is_read_however_many_fills_wait() {
    let mut world = held();
    let id = world.submit();
    for n in 0..2 * COMMANDS as u64 {
        world.command(CommandKind::Fill { from: Slot(6), to: Slot(6 + n) });
    }
    world.command(CommandKind::Cancel { tx: id });
    world.read_on();
    assert_eq!(world.desk.store.state(id), TxState::Cancelled);
}

/// However many come in between, and whatever waits before them.
#[test]
fn pauses_and_resumes_are_taken_in_their_order() {
    for last in [CommandKind::Pause, CommandKind::Resume] {
        let mut world = world(settings());
        let other = if last == CommandKind::Pause { CommandKind::Resume } else { CommandKind::Pause };
        world.play(Step::Fill(3_000, 0));
        let first = std::iter::repeat_n([last.clone(), other], COMMANDS).flatten();
        for kind in first.chain([last.clone()]) {
            world.desk.store.command(kind, world.desk.now);
        }
        world.turn(vec![LaneEvent::Work]);
        world.read_on();
        assert_eq!(world.desk.store.row.paused, last == CommandKind::Pause);
        assert_eq!(world.open_commands(), 0);
    }
}

#[test]
fn a_pause_that_comes_after_a_resume_counts_although_the_resume_takes_longer() {
    for crashes in [false, true] {
        let mut world = held();
        let id = world.submit();
        world.carry(Kind::Load, Fault::None);
        world.command(CommandKind::Pause);
        world.carry(Kind::Load, Fault::None);
        world.command(CommandKind::Resume);
        world.carry(Kind::Load, Fault::None);
        assert!(!world.desk.store.row.paused && world.open_commands() == 1, "who took it is not known yet");
        world.command(CommandKind::Pause);
        world.carry(Kind::Load, Fault::None);
        assert!(world.desk.store.row.paused && world.open_commands() == 1, "the resume goes on");
        if crashes {
            world.play(Step::Crash);
            world.show(0, true);
        }
        world.turn(vec![LaneEvent::Work]);
        world.read_on();
        assert_eq!(world.open_commands(), 0);
        assert_eq!(world.desk.lane.hold(), Some(Hold::Paused));
        assert_eq!(world.slot_of(id), None);
        world.command(CommandKind::Resume);
        world.read_on();
        assert_eq!(world.slot_of(id), Some(6));
    }
}

#[test]
fn a_resume_that_is_read_before_the_chain_was_seen_counts_when_it_is() {
    let mut world = held();
    let id = world.submit();
    world.rest();
    world.desk.store.command(CommandKind::Resume, world.desk.now);
    world.play(Step::Crash);
    world.carry(Kind::Load, Fault::None);
    assert_eq!(world.open_commands(), 1, "nothing of the chain is known");
    world.show(0, true);
    world.read_on();
    assert_eq!((world.open_commands(), world.slot_of(id)), (0, Some(6)));
}

/// A script that repeats it until the lane goes on.
#[test]
fn a_resume_that_is_repeated_adds_nothing() {
    let mut world = held();
    let id = world.submit();
    world.carry(Kind::Load, Fault::None);
    for _ in 0..3 * COMMANDS {
        world.command(CommandKind::Resume);
        world.carry(Kind::Load, Fault::None);
    }
    assert_eq!(world.open_commands(), 1);
    world.read_on();
    assert_eq!((world.open_commands(), world.slot_of(id)), (0, Some(6)));
}

/// Entries that were asked for name who asked, done at once or later; entries that the lane makes by itself name nobody.
#[test]
fn what_a_command_leads_to_says_who_asked_and_nothing_else_does() {
    let mut world = world(settings());
    let id = world.submit();
    world.rest();
    world.command(CommandKind::Pause);
    world.rest();
    world.command(CommandKind::Fill { from: Slot(6), to: Slot(6) });
    world.rest();
    world.cancel(id);
    world.rest();
    world.finalise();
    let asked = |entry: &Entry| {
        matches!(entry, Entry::LanePaused { .. } | Entry::LaneFilled { .. } | Entry::EndingBegan { .. })
    };
    let journal = &world.desk.store.journal;
    assert_eq!(journal.iter().filter(|new| asked(&new.entry)).count(), 3, "{journal:?}");
    for new in journal {
        assert_eq!(new.by.is_some(), asked(&new.entry), "{new:?}");
    }
}
