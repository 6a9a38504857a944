//! A lane's commit: fenced first, then everything checked, and only then anything changed.

use std::collections::{BTreeMap, BTreeSet};

use landfall_core::ports::store::{Error, LaneCommit, WriteError};
use landfall_core::transaction::Status;
use landfall_core::{LaneId, LaneVersion, Slot, TxId};

use super::space::Space;
use crate::rules::{self, Phase};

/// Applies a commit if its token and version are the lane's.
pub(super) fn commit(space: &mut Space, commit: &LaneCommit) -> Result<LaneVersion, WriteError> {
    let fenced = || WriteError::Fenced { lane: commit.lane };
    let lane = space.lanes.get(&commit.lane).ok_or_else(fenced)?;
    // Token 0 is nobody's.
    if lane.token != commit.token || lane.version != commit.version || lane.token.0 == 0 {
        return Err(fenced());
    }
    let updates =
        check(space, commit).map_err(|text| WriteError::Failed(Error::Failed { doing: "write", text }))?;
    Ok(apply(space, commit, updates))
}

type Updates<'a> = BTreeMap<TxId, (&'a Status, Phase)>;

/// Could everything in the commit be stored? Answers what it leaves each transaction at.
fn check<'a>(space: &Space, commit: &'a LaneCommit) -> Result<Updates<'a>, String> {
    let mut updates = Updates::new();
    for (id, status) in rules::last_updates(&commit.txs) {
        owned(space, commit.lane, id)?;
        let stays = |before: &Status| before.state == status.state && before.slot == status.slot;
        if space.tx(id).is_some_and(|tx| tx.status.state.is_terminal() && !stays(&tx.status)) {
            return Err(rules::has_ended(id));
        }
        updates.insert(id, (status, Phase::of(status)?));
    }
    check_slots(space, commit.lane, &updates)?;
    let mut added = BTreeSet::new();
    for attempt in &commit.attempts {
        if let Some(id) = attempt.tx {
            owned(space, commit.lane, id)?;
        }
        let key = (commit.lane, attempt.slot, attempt.ordinal);
        if space.attempts.contains_key(&key) || !added.insert(key) {
            return Err(format!(
                "lane {} has an attempt {} in slot {} already",
                commit.lane, attempt.ordinal, attempt.slot
            ));
        }
    }
    for hint in &commit.hints {
        let key = (commit.lane, hint.slot, hint.ordinal);
        if !space.attempts.contains_key(&key) && !added.contains(&key) {
            return Err(rules::no_such_attempt(commit.lane, hint.slot, hint.ordinal));
        }
    }
    for id in commit.journal.iter().filter_map(|entry| entry.tx) {
        owned(space, commit.lane, id)?;
    }
    for id in &commit.commands_done {
        if space.commands.get(id).is_none_or(|stored| stored.command.lane != commit.lane) {
            return Err(rules::no_such_command(commit.lane, *id));
        }
    }
    Ok(updates)
}

fn owned(space: &Space, lane: LaneId, id: TxId) -> Result<(), String> {
    match space.tx(id) {
        Some(tx) if tx.lane == lane => Ok(()),
        _ => Err(rules::no_such_tx(lane, id)),
    }
}

/// One live transaction per slot, once all updates are made.
fn check_slots(space: &Space, lane: LaneId, updates: &Updates<'_>) -> Result<(), String> {
    let mut taken: BTreeMap<Slot, TxId> = BTreeMap::new();
    for (id, (status, phase)) in updates {
        let (Phase::Bound, Some(slot)) = (phase, status.slot) else { continue };
        let before = space.bound.get(&(lane, slot)).filter(|holder| !updates.contains_key(holder));
        if let Some(other) = taken.insert(slot, *id).or(before.copied()) {
            return Err(format!("slot {slot} of lane {lane} is bound to transaction {other}"));
        }
    }
    Ok(())
}

fn apply(space: &mut Space, commit: &LaneCommit, updates: Updates<'_>) -> LaneVersion {
    for id in updates.keys() {
        space.leave_phase(*id);
    }
    for (id, (status, phase)) in updates {
        space.enter_phase(id, status, phase);
    }
    for attempt in &commit.attempts {
        space.insert_attempt(commit.lane, attempt);
    }
    for hint in &commit.hints {
        if let Some(stored) = space.attempts.get_mut(&(commit.lane, hint.slot, hint.ordinal)) {
            stored.attempt.hints = hint.hints.clone();
        }
    }
    for slot in &commit.closed {
        space.close(commit.lane, *slot);
    }
    for new in &commit.journal {
        space.write_entry(commit.lane, new.clone());
    }
    for id in &commit.commands_done {
        space.finish_command(*id);
    }
    let lane = space.lanes.entry(commit.lane).or_default();
    lane.row = commit.row.clone();
    lane.version = LaneVersion(commit.version.0.wrapping_add(1));
    lane.version
}
