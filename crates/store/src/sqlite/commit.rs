//! A lane's commit: fenced first, then everything one turn of its loop changed.

use landfall_core::journal::told_together;
use landfall_core::ports::store::{HintUpdate, LaneCommit};
use landfall_core::transaction::Status;
use landfall_core::{CommandId, LaneVersion, TxId};
use rusqlite::{OptionalExtension, Statement, params};

use super::error::Fault;
use super::known::Place;
use super::rows::{self, bits, phase_code, state_code};
use super::scope::Scope;
use crate::closing::{self, Closing};
use crate::journal;
use crate::rules::{self, Phase};

/// One lane's part of a database transaction.
struct Turn<'a, 's> {
    scope: &'a mut Scope<'s>,
    commit: &'a LaneCommit,
    lane: i64,
    /// Below this slot everything is history; see [`crate::closing`].
    closed: i64,
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
    let closed = scope
        .db
        .prepare_cached("SELECT closed FROM lane WHERE id = ?1")?
        .query_row([key.lane], |row| row.get(0))?;
    let mut turn = Turn { scope, commit, lane: key.lane, closed };
    turn.update_txs()?;
    turn.insert_attempts()?;
    for hint in &commit.hints {
        turn.update_hints(hint)?;
    }
    turn.close_slots()?;
    turn.write_journal()?;
    turn.drop_ended();
    for command in &commit.commands_done {
        turn.finish_command(*command)?;
    }
    Ok(LaneVersion(commit.version.0.wrapping_add(1)))
}

impl Turn<'_, '_> {
    /// Updates rows so that slots are left before they are taken: what counts is what the commit leaves, not the
    /// order of its updates.
    fn update_txs(&mut self) -> Result<(), Fault> {
        if self.commit.txs.is_empty() {
            return Ok(());
        }
        let db = self.scope.db;
        let mut in_place = db.prepare_cached("UPDATE tx SET state = ?2, status = ?3 WHERE ord = ?1")?;
        let mut moved =
            db.prepare_cached("UPDATE tx SET phase = ?2, state = ?3, slot = ?4, status = ?5 WHERE ord = ?1")?;
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
                let text = serde_json::to_string(status)?;
                in_place.execute(params![place.order, state_code(status.state), text])?;
            } else if phase == Phase::Bound {
                if place.phase == phase_code(Phase::Bound) {
                    self.leave_slot(place)?;
                }
                taking.push((place, status, phase, slot));
            } else {
                update_moved(&mut moved, place, status, phase, slot)?;
                if status.ended_unsigned() {
                    self.free_nonce(place)?;
                }
            }
            let (phase, state) = (phase_code(phase), state_code(status.state));
            self.scope.known.is_at(id, Place { phase, state, slot, ..place });
        }
        for (place, status, phase, slot) in taking {
            update_moved(&mut moved, place, status, phase, slot)?;
        }
        Ok(())
    }

    /// Nothing was signed for it: the same call may be made again.
    fn free_nonce(&self, place: Place) -> Result<(), Fault> {
        self.scope
            .db
            .prepare_cached(
                "UPDATE tx SET api_key = NULL, caller_nonce = NULL WHERE ord = ?1 AND caller_nonce IS NOT NULL",
            )?
            .execute([place.order])?;
        Ok(())
    }

    /// What has ended is hardly asked for again.
    fn drop_ended(&mut self) {
        for update in self.commit.txs.iter().filter(|update| update.status.state.is_terminal()) {
            self.scope.known.drop_place(update.id);
        }
    }

    fn leave_slot(&self, place: Place) -> Result<(), Fault> {
        self.scope
            .db
            .prepare_cached("UPDATE tx SET phase = 0, slot = NULL WHERE ord = ?1")?
            .execute([place.order])?;
        Ok(())
    }

    fn insert_attempts(&mut self) -> Result<(), Fault> {
        if self.commit.attempts.is_empty() {
            return Ok(());
        }
        let mut insert = self.scope.db.prepare_cached(
            "INSERT INTO attempt (lane, slot, ordinal, tx, hash, raw, details, hints, apart)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        for attempt in &self.commit.attempts {
            let tx = attempt.tx.map(|id| self.place(id)).transpose()?.map(|place| place.order);
            insert.execute(params![
                self.lane,
                bits(attempt.slot.0),
                attempt.ordinal,
                tx,
                attempt.hash.0.as_slice(),
                attempt.raw.as_ref(),
                rows::attempt_details(attempt)?,
                serde_json::to_string(&attempt.hints)?,
                closing::is_apart(attempt.slot, self.closed),
            ])?;
        }
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

    fn close_slots(&self) -> Result<(), Fault> {
        if self.commit.closed.is_empty() {
            return Ok(());
        }
        let runs = closing::runs(&self.commit.closed);
        let mut open = None;
        for (first, last) in closing::gaps(self.closed, &runs) {
            open = self.lowest_open(first, last)?;
            if open.is_some() {
                break;
            }
        }
        let Closing { closed, rows } = closing::close(self.closed, &runs, open);
        if closed != self.closed {
            self.scope
                .db
                .prepare_cached("UPDATE lane SET closed = ?2 WHERE id = ?1")?
                .execute([self.lane, closed])?;
        }
        for (first, last) in rows {
            let sql = "UPDATE attempt SET open = 0 WHERE lane = ?1 AND slot BETWEEN ?2 AND ?3 AND open = 1";
            self.scope.db.prepare_cached(sql)?.execute([self.lane, first, last])?;
        }
        Ok(())
    }

    fn lowest_open(&self, first: i64, last: i64) -> Result<Option<i64>, Fault> {
        let sql = "SELECT slot FROM attempt WHERE lane = ?1 AND slot BETWEEN ?2 AND ?3 AND open = 1
             ORDER BY slot LIMIT 1";
        let mut lowest = self.scope.db.prepare_cached(sql)?;
        Ok(lowest.query_row([self.lane, first, last], |row| row.get(0)).optional()?)
    }

    fn write_journal(&mut self) -> Result<(), Fault> {
        if self.commit.journal.is_empty() {
            return Ok(());
        }
        let mut insert = self
            .scope
            .db
            .prepare_cached("INSERT INTO journal (seq, lane, tx, at, entry) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for told in told_together(&self.commit.journal) {
            let Some(last) = told.last() else { continue };
            let tx = last.tx.map(|id| self.place(id)).transpose()?.map(|place| place.order);
            let seq = self.scope.take_journal_numbers(told.len())?;
            insert.execute(params![seq, self.lane, tx, bits(last.at.0), journal::text(told)?])?;
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

    /// Where a transaction of this lane is.
    fn place(&mut self, id: TxId) -> Result<Place, Fault> {
        let place = match self.scope.known.place(id) {
            Some(place) => Some(place),
            None => self.read_place(id)?,
        };
        let owned = place.filter(|place| place.lane == self.lane);
        owned.ok_or_else(|| Fault::Refused(rules::no_such_tx(self.commit.lane, id)))
    }

    fn read_place(&mut self, id: TxId) -> Result<Option<Place>, Fault> {
        let sql = "SELECT lane, ord, phase, state, slot FROM tx WHERE id = ?1 AND namespace = ?2";
        let mut find = self.scope.db.prepare_cached(sql)?;
        let found = find.query_row(params![id.0.as_bytes(), self.scope.namespace], |row| {
            Ok(Place {
                lane: row.get(0)?,
                order: row.get(1)?,
                phase: row.get(2)?,
                state: row.get(3)?,
                slot: row.get(4)?,
            })
        });
        let found = found.optional()?;
        if let Some(place) = found {
            self.scope.known.is_at(id, place);
        }
        Ok(found)
    }
}

fn update_moved(
    update: &mut Statement<'_>,
    place: Place,
    status: &Status,
    phase: Phase,
    slot: Option<i64>,
) -> Result<(), Fault> {
    let (phase, state) = (phase_code(phase), state_code(status.state));
    update.execute(params![place.order, phase, state, slot, serde_json::to_string(status)?])?;
    Ok(())
}
