//! A lane's commit: fenced first, then everything one turn of its loop changed.

use std::collections::BTreeMap;

use landfall_core::attempt::Attempt;
use landfall_core::ports::store::{HintUpdate, LaneCommit};
use landfall_core::transaction::Status;
use landfall_core::{CommandId, LaneVersion, Slot, TxId};
use rusqlite::{OptionalExtension, params};

use super::error::Fault;
use super::rows::{self, bits, phase_code, state_code};
use super::scope::Scope;
use crate::rules::{self, Phase};

/// Where a transaction is before the commit.
#[derive(Clone, Copy)]
struct Place {
    order: i64,
    phase: i64,
    state: i64,
    slot: Option<i64>,
}

/// One lane's part of a database transaction.
struct Turn<'a, 's> {
    scope: &'a Scope<'s>,
    commit: &'a LaneCommit,
    lane: i64,
    places: BTreeMap<TxId, Place>,
}

/// Applies a commit if its token and version are the lane's.
pub(super) fn commit(scope: &mut Scope<'_>, commit: &LaneCommit) -> Result<LaneVersion, Fault> {
    let Some(key) = scope.lane(commit.lane)? else {
        return Err(Fault::Fenced(commit.lane));
    };
    // The fence is the first statement, so that a refused commit has changed nothing. Token 0 is nobody's.
    let moved = scope
        .db
        .prepare_cached(
            "UPDATE lane SET version = version + 1, details = ?4
             WHERE id = ?1 AND token = ?2 AND version = ?3 AND token <> 0",
        )?
        .execute(params![
            key.lane,
            bits(commit.token.0),
            bits(commit.version.0),
            serde_json::to_string(&commit.row)?,
        ])?;
    if moved == 0 {
        return Err(Fault::Fenced(commit.lane));
    }
    let mut turn = Turn { scope, commit, lane: key.lane, places: BTreeMap::new() };
    turn.update_txs()?;
    for attempt in &commit.attempts {
        turn.insert_attempt(attempt)?;
    }
    for hint in &commit.hints {
        turn.update_hints(hint)?;
    }
    for (first, last) in rules::runs(&commit.closed) {
        turn.close(first, last)?;
    }
    turn.write_journal()?;
    for command in &commit.commands_done {
        turn.finish_command(*command)?;
    }
    Ok(LaneVersion(commit.version.0.wrapping_add(1)))
}

impl Turn<'_, '_> {
    /// Updates rows so that slots are left before they are taken: what counts is what the commit leaves, not the
    /// order of its updates.
    fn update_txs(&mut self) -> Result<(), Fault> {
        let mut taking = Vec::new();
        for (id, status) in rules::last_updates(&self.commit.txs) {
            let place = self.place(id)?;
            let phase = Phase::of(status).map_err(Fault::Refused)?;
            let slot = status.slot.map(|slot| bits(slot.0));
            let stays = place.state == state_code(status.state) && place.slot == slot;
            if place.phase == phase_code(Phase::Done) && !stays {
                return Err(Fault::Refused(rules::has_ended(id)));
            }
            if place.phase == phase_code(phase) && place.slot == slot {
                self.update_in_place(place, status)?;
            } else if phase == Phase::Bound {
                if place.phase == phase_code(Phase::Bound) {
                    self.leave_slot(place)?;
                }
                taking.push((place, status, phase, slot));
            } else {
                self.update_moved(place, status, phase, slot)?;
            }
        }
        for (place, status, phase, slot) in taking {
            self.update_moved(place, status, phase, slot)?;
        }
        Ok(())
    }

    fn update_in_place(&self, place: Place, status: &Status) -> Result<(), Fault> {
        self.scope
            .db
            .prepare_cached("UPDATE tx SET state = ?2, status = ?3 WHERE ord = ?1")?
            .execute(params![place.order, state_code(status.state), serde_json::to_string(status)?])?;
        Ok(())
    }

    fn update_moved(
        &self,
        place: Place,
        status: &Status,
        phase: Phase,
        slot: Option<i64>,
    ) -> Result<(), Fault> {
        self.scope
            .db
            .prepare_cached("UPDATE tx SET phase = ?2, state = ?3, slot = ?4, status = ?5 WHERE ord = ?1")?
            .execute(params![
                place.order,
                phase_code(phase),
                state_code(status.state),
                slot,
                serde_json::to_string(status)?,
            ])?;
        Ok(())
    }

    fn leave_slot(&self, place: Place) -> Result<(), Fault> {
        self.scope
            .db
            .prepare_cached("UPDATE tx SET phase = 0, slot = NULL WHERE ord = ?1")?
            .execute([place.order])?;
        Ok(())
    }

    fn insert_attempt(&mut self, attempt: &Attempt) -> Result<(), Fault> {
        let tx = attempt.tx.map(|id| self.place(id)).transpose()?.map(|place| place.order);
        self.scope
            .db
            .prepare_cached(
                "INSERT INTO attempt (lane, slot, ordinal, tx, hash, raw, details, hints)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                self.lane,
                bits(attempt.slot.0),
                attempt.ordinal,
                tx,
                attempt.hash.0.as_slice(),
                attempt.raw.as_ref(),
                rows::attempt_details(attempt)?,
                serde_json::to_string(&attempt.hints)?,
            ])?;
        Ok(())
    }

    fn update_hints(&self, hint: &HintUpdate) -> Result<(), Fault> {
        let updated = self
            .scope
            .db
            .prepare_cached("UPDATE attempt SET hints = ?4 WHERE lane = ?1 AND slot = ?2 AND ordinal = ?3")?
            .execute(params![
                self.lane,
                bits(hint.slot.0),
                hint.ordinal,
                serde_json::to_string(&hint.hints)?
            ])?;
        if updated == 0 {
            return Err(Fault::Refused(rules::no_such_attempt(self.commit.lane, hint.slot, hint.ordinal)));
        }
        Ok(())
    }

    /// Slots are closed in runs: for each statement of this kind SQLite sets a table aside.
    fn close(&self, first: Slot, last: Slot) -> Result<(), Fault> {
        self.scope
            .db
            .prepare_cached(
                "UPDATE attempt SET open = 0 WHERE lane = ?1 AND slot BETWEEN ?2 AND ?3 AND open = 1",
            )?
            .execute(params![self.lane, bits(first.0), bits(last.0)])?;
        Ok(())
    }

    fn write_journal(&mut self) -> Result<(), Fault> {
        for new in &self.commit.journal {
            let tx = new.tx.map(|id| self.place(id)).transpose()?.map(|place| place.order);
            self.scope
                .db
                .prepare_cached("INSERT INTO journal (lane, tx, at, entry) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![self.lane, tx, bits(new.at.0), serde_json::to_string(&new.entry)?])?;
        }
        Ok(())
    }

    fn finish_command(&self, id: CommandId) -> Result<(), Fault> {
        let known = self
            .scope
            .db
            .prepare_cached("UPDATE command SET done = 1 WHERE id = ?1 AND namespace = ?2 AND lane = ?3")?
            .execute(params![id.0.as_bytes(), self.scope.namespace, self.lane])?;
        if known == 0 {
            return Err(Fault::Refused(rules::no_such_command(self.commit.lane, id)));
        }
        Ok(())
    }

    /// Where a transaction of this lane was before the commit.
    fn place(&mut self, id: TxId) -> Result<Place, Fault> {
        if let Some(place) = self.places.get(&id) {
            return Ok(*place);
        }
        let place = self
            .scope
            .db
            .prepare_cached(
                "SELECT ord, phase, state, slot FROM tx WHERE id = ?1 AND namespace = ?2 AND lane = ?3",
            )?
            .query_row(params![id.0.as_bytes(), self.scope.namespace, self.lane], |row| {
                Ok(Place { order: row.get(0)?, phase: row.get(1)?, state: row.get(2)?, slot: row.get(3)? })
            })
            .optional()?
            .ok_or_else(|| Fault::Refused(rules::no_such_tx(self.commit.lane, id)))?;
        self.places.insert(id, place);
        Ok(place)
    }
}
