//! The commits of lanes, many in one database transaction.
//!
//! First the lanes' rows are locked, in their order. Under the locks nobody else changes anything of these lanes, so
//! what is read then stays true: each commit is checked whole, and one that is stale or contradicts what is stored is
//! left out without harm to the others. What remains is written table by table, the fence first.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::ClientWrapper;
use landfall_core::journal::told_together;
use landfall_core::ports::store::LaneCommit;
use landfall_core::transaction::{Status, TxState};
use landfall_core::{LaneId, LaneVersion, Slot, TxId};
use tokio_postgres::{Error, Row, Statement};
use uuid::Uuid;

use super::error::Fault;
use super::group::Value;
use super::known::OfLane;
use super::leases::lives;
use super::rows::{self, bits, ended_code, phase_code, state_code};
use crate::closing::{self, Closing};
use crate::journal;
use crate::rules::{self, Phase};

/// One statement, so that lanes are locked one after the other: an update of many rows takes them in any order.
pub(super) const LOCK: &str = "SELECT id FROM lane WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE";

/// Read by a statement of its own, after the locks were waited for. A lane whose session has ended is nobody's.
pub(super) const HEADS: &str = concat!(
    "SELECT lane.id, lane.token, lane.version, lane.closed, lane.session IS NULL OR COALESCE(",
    lives!(),
    ", false)
     FROM lane LEFT JOIN session ON session.namespace = lane.namespace AND session.id = lane.session
     WHERE lane.id = ANY ($1::bigint[])"
);

pub(super) const PLACES: &str =
    "SELECT id, lane, ord, phase, state, slot FROM tx WHERE id = ANY ($1::uuid[])";

/// The fence (L2): every commit raises its lane's version, under its token, in the transaction that writes.
pub(super) const FENCE: &str = concat!(
    "UPDATE lane
     SET version = lane.version + 1, details = u.details, closed = u.closed
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[])
        AS u (id, token, version, details, closed)
     WHERE lane.id = u.id AND lane.token = u.token AND lane.version = u.version AND lane.token <> 0
        AND (lane.session IS NULL OR EXISTS (SELECT 1 FROM session WHERE session.namespace = lane.namespace
            AND session.id = lane.session AND ",
    lives!(),
    "))"
);

pub(super) const LEAVE: &str = "UPDATE tx SET phase = 0, slot = NULL WHERE ord = ANY ($1::bigint[])";

pub(super) const UPDATE: &str =
    "UPDATE tx SET phase = u.phase, state = u.state, ended = u.ended, slot = u.slot, status = u.status
     FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::smallint[], $5::bigint[], $6::text[], $7::uuid[])
        AS u (ord, phase, state, ended, slot, status, id)
     WHERE tx.ord = u.ord AND tx.id = u.id";

/// Nothing was signed for these: the same calls may be made again.
pub(super) const FREE: &str = "UPDATE tx SET api_key = NULL, caller_nonce = NULL
     WHERE ord = ANY ($1::bigint[]) AND caller_nonce IS NOT NULL";

pub(super) const ATTEMPTS: &str =
    "INSERT INTO attempt (lane, slot, ordinal, tx, hash, raw, details, hints, apart)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bytea[], $6::bytea[],
        $7::text[], $8::text[], $9::boolean[])";

pub(super) const HINTS: &str = "UPDATE attempt SET hints = u.hints
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) AS u (lane, slot, ordinal, hints)
     WHERE attempt.lane = u.lane AND attempt.slot = u.slot AND attempt.ordinal = u.ordinal
     RETURNING attempt.lane, attempt.slot, attempt.ordinal";

pub(super) const CLOSE: &str = "UPDATE attempt SET open = false
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (lane, first, last)
     WHERE attempt.lane = u.lane AND attempt.slot BETWEEN u.first AND u.last AND attempt.open";

/// The lowest open slot of each stretch of slots that has one.
pub(super) const OPEN: &str = "SELECT u.lane, lowest.slot
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (lane, first, last)
     CROSS JOIN LATERAL (SELECT slot FROM attempt
        WHERE attempt.lane = u.lane AND attempt.slot BETWEEN u.first AND u.last AND attempt.open
        ORDER BY slot LIMIT 1) AS lowest";

pub(super) const DONE: &str = "UPDATE command SET done = true
     FROM unnest($2::uuid[], $3::bigint[]) AS u (id, lane)
     WHERE command.namespace = $1 AND command.id = u.id AND command.lane = u.lane
     RETURNING command.id, command.lane";

/// One statement from taking the numbers to writing the rows: the counter's lock is held for that and for the commit.
pub(super) const JOURNAL: &str =
    "WITH taken AS (UPDATE journal_end SET last = last + $2 WHERE namespace = $1 RETURNING last - $2 AS base)
     INSERT INTO journal (namespace, seq, lane, tx, at, entry)
     SELECT $1, taken.base + u.position, u.lane, u.tx, u.at, u.entry
     FROM taken, unnest($3::bigint[], $4::bigint[], $5::uuid[], $6::bigint[], $7::text[])
        AS u (position, lane, tx, at, entry)";

/// Where a lane is, as its locked row says.
#[derive(Clone, Copy)]
pub(super) struct Head {
    token: i64,
    version: i64,
    /// Below this slot everything is history; see [`crate::closing`].
    pub(super) closed: i64,
    /// It is given back, or its owner's session lives.
    live: bool,
}

pub(super) fn heads(found: &[Row]) -> Result<BTreeMap<i64, Head>, Fault> {
    found
        .iter()
        .map(|row| {
            let (token, version) = (row.try_get(1)?, row.try_get(2)?);
            let head = Head { token, version, closed: row.try_get(3)?, live: row.try_get(4)? };
            Ok((row.try_get(0)?, head))
        })
        .collect()
}

/// Where a transaction is before the commit.
#[derive(Clone, Copy)]
pub(super) struct Place {
    order: i64,
    phase: i16,
    state: i16,
    slot: Option<i64>,
}

impl Place {
    /// Where it is when it was just admitted.
    pub(super) fn admitted(order: i64) -> Self {
        let (phase, state) = (phase_code(Phase::Waiting), state_code(TxState::Accepted));
        Self { order, phase, state, slot: None }
    }
}

/// Where the transactions are that the commits name, by lane too: an id of another namespace is another transaction.
pub(super) struct Places {
    read: BTreeMap<(i64, TxId), Place>,
    /// What was remembered of lanes, for commits that pass their fence.
    known: BTreeMap<i64, OfLane>,
}

impl Places {
    pub(super) fn of(found: &[Row], known: BTreeMap<i64, OfLane>) -> Result<Self, Fault> {
        let places = found.iter().map(|row| {
            let place = Place {
                order: row.try_get(2)?,
                phase: row.try_get(3)?,
                state: row.try_get(4)?,
                slot: row.try_get(5)?,
            };
            Ok(((row.try_get(1)?, TxId(row.try_get(0)?)), place))
        });
        Ok(Self { read: places.collect::<Result<_, Fault>>()?, known })
    }

    fn get(&self, number: i64, id: TxId) -> Option<Place> {
        let known = self.known.get(&number).and_then(|of_lane| of_lane.get(&id));
        known.or_else(|| self.read.get(&(number, id))).copied()
    }

    fn owned(&self, number: i64, lane: LaneId, id: TxId) -> Result<Place, Fault> {
        self.get(number, id).ok_or_else(|| Fault::Refused(rules::no_such_tx(lane, id)))
    }

    /// Where the lane's transactions are after its commit, as far as it is known. What has ended is hardly asked for again.
    pub(super) fn after(&mut self, number: i64, commit: &LaneCommit) -> OfLane {
        let mut of_lane = self.known.remove(&number).unwrap_or_default();
        for (id, status) in rules::last_updates(&commit.txs) {
            let place = of_lane.remove(&id).or_else(|| self.read.get(&(number, id)).copied());
            let (Some(place), Ok(phase)) = (place, Phase::of(status)) else { continue };
            if !status.state.is_terminal() {
                let (phase, state) = (phase_code(phase), state_code(status.state));
                let slot = status.slot.map(|slot| bits(slot.0));
                of_lane.insert(id, Place { phase, state, slot, ..place });
            }
        }
        of_lane
    }
}

/// Every transaction that a commit names.
pub(super) fn named(commit: &LaneCommit) -> impl Iterator<Item = TxId> {
    let updated = commit.txs.iter().map(|update| update.id);
    let attempted = commit.attempts.iter().filter_map(|attempt| attempt.tx);
    updated.chain(attempted).chain(commit.journal.iter().filter_map(|entry| entry.tx))
}

/// What decides how the slots of a commit are closed.
pub(super) struct Lowest {
    closed: i64,
    runs: Vec<(Slot, Slot)>,
    /// The lowest open slot among those that are not closed now.
    open: Option<i64>,
}

impl Lowest {
    /// Reads what stays open between the slots that are closed: nothing, where they follow each other.
    pub(super) async fn read(
        db: &ClientWrapper,
        statement: &Statement,
        commits: &[(i64, &LaneCommit, Head)],
    ) -> Result<Vec<Self>, Error> {
        let mut all = Vec::with_capacity(commits.len());
        let mut gaps = (Vec::new(), Vec::new(), Vec::new());
        for (lane, commit, head) in commits {
            let runs = closing::runs(&commit.closed);
            for (first, last) in closing::gaps(head.closed, &runs) {
                gaps.0.push(*lane);
                gaps.1.push(first);
                gaps.2.push(last);
            }
            // What the commit stores itself is not there yet.
            let stays =
                |slot: &i64| *slot >= head.closed && !commit.closed.contains(&Slot(rows::number(*slot)));
            let open = commit.attempts.iter().map(|attempt| bits(attempt.slot.0)).filter(stays).min();
            all.push(Self { closed: head.closed, runs, open });
        }
        if gaps.0.is_empty() {
            return Ok(all);
        }
        for row in db.query(statement, &[&gaps.0, &gaps.1, &gaps.2]).await? {
            let (lane, slot): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let found = commits.iter().zip(&mut all).find(|((number, ..), _)| *number == lane);
            if let Some((_, lowest)) = found {
                lowest.open = Some(lowest.open.map_or(slot, |open| open.min(slot)));
            }
        }
        Ok(all)
    }
}

/// What a look under the lock says of a commit.
pub(super) enum Verdict {
    /// It may be written.
    Write,
    /// It is on disk: an earlier try of it landed, and only its answer was lost.
    Landed,
}

/// Judges a commit by its lane's row. `again`: it was tried before and may have landed.
///
/// A version that is one higher under the same token was made by this commit: nobody else has the token, and its
/// owner has one commit under way at a time.
pub(super) fn judge(commit: &LaneCommit, head: Option<Head>, again: bool) -> Result<Verdict, Fault> {
    let fenced = Fault::Fenced(commit.lane);
    let Some(head) = head else { return Err(fenced) };
    // Token 0 is nobody's.
    if head.token != bits(commit.token.0) || head.token == 0 {
        return Err(fenced);
    }
    if head.version == bits(commit.version.0) {
        return if head.live { Ok(Verdict::Write) } else { Err(fenced) };
    }
    let next = bits(next_version(commit).0);
    if again && head.version == next { Ok(Verdict::Landed) } else { Err(fenced) }
}

pub(super) fn next_version(commit: &LaneCommit) -> LaneVersion {
    LaneVersion(commit.version.0.wrapping_add(1))
}

/// A change to one row.
struct Change<'a> {
    id: TxId,
    place: Place,
    status: &'a Status,
    phase: Phase,
    slot: Option<i64>,
}

/// What passed the checks, column by column.
#[derive(Default)]
pub(super) struct Rows<'a> {
    commits: Vec<(usize, &'a LaneCommit)>,
    fences: FenceColumns,
    leaving: Vec<i64>,
    txs: TxColumns,
    /// Rows whose callers' nonces are free again.
    freed: Vec<i64>,
    attempts: AttemptColumns<'a>,
    hints: BTreeMap<(i64, i64, i64), (usize, String)>,
    /// Slots that are closed in the rows of their attempts: lane, first, last.
    closed: (Vec<i64>, Vec<i64>, Vec<i64>),
    done: BTreeMap<(Uuid, i64), usize>,
    journal: JournalColumns,
}

#[derive(Default)]
struct FenceColumns {
    lanes: Vec<i64>,
    tokens: Vec<i64>,
    versions: Vec<i64>,
    details: Vec<String>,
    closed: Vec<i64>,
}

#[derive(Default)]
struct TxColumns {
    ords: Vec<i64>,
    phases: Vec<i16>,
    states: Vec<i16>,
    ended: Vec<Option<i16>>,
    slots: Vec<Option<i64>>,
    statuses: Vec<String>,
    ids: Vec<Uuid>,
}

#[derive(Default)]
struct AttemptColumns<'a> {
    lanes: Vec<i64>,
    slots: Vec<i64>,
    ordinals: Vec<i64>,
    txs: Vec<Option<Uuid>>,
    hashes: Vec<&'a [u8]>,
    raws: Vec<&'a [u8]>,
    details: Vec<String>,
    hints: Vec<String>,
    apart: Vec<bool>,
}

#[derive(Default)]
struct JournalColumns {
    positions: Vec<i64>,
    lanes: Vec<i64>,
    txs: Vec<Option<Uuid>>,
    times: Vec<i64>,
    entries: Vec<String>,
}

impl<'a> Rows<'a> {
    /// Adds so many journal entries about one transaction: the time of the last of them, and their text.
    pub(super) fn journal(&mut self, lane: i64, tx: Option<TxId>, count: usize, at: i64, entry: String) {
        let before = self.journal.positions.last().copied().unwrap_or(0);
        self.journal.positions.push(before.saturating_add_unsigned(count as u64));
        self.journal.lanes.push(lane);
        self.journal.txs.push(tx.map(|id| id.0));
        self.journal.times.push(at);
        self.journal.entries.push(entry);
    }

    /// Checks a commit whole, then adds it; one that is refused has added nothing.
    pub(super) fn add(
        &mut self,
        index: usize,
        commit: &'a LaneCommit,
        lane: i64,
        closing: &Lowest,
        places: &Places,
    ) -> Result<(), Fault> {
        let changes = changes(commit, lane, places)?;
        let others = commit.attempts.iter().filter_map(|attempt| attempt.tx);
        for id in others.chain(commit.journal.iter().filter_map(|entry| entry.tx)) {
            places.owned(lane, commit.lane, id)?;
        }
        let details = serde_json::to_string(&commit.row)?;
        let statuses = texts(changes.iter().map(|change| change.status))?;
        let hints = texts(commit.hints.iter().map(|hint| &hint.hints))?;
        let entries = told_together(&commit.journal).map(journal::text).collect::<Result<Vec<_>, _>>()?;
        self.add_attempts(lane, closing.closed, commit)?;

        self.commits.push((index, commit));
        self.fences.lanes.push(lane);
        self.fences.tokens.push(bits(commit.token.0));
        self.fences.versions.push(bits(commit.version.0));
        self.fences.details.push(details);
        let Closing { closed, rows } = closing::close(closing.closed, &closing.runs, closing.open);
        self.fences.closed.push(closed);
        for (first, last) in rows {
            self.closed.0.push(lane);
            self.closed.1.push(first);
            self.closed.2.push(last);
        }
        self.leaving.extend(leaving(&changes));
        for (change, status) in changes.iter().zip(statuses) {
            self.txs.ords.push(change.place.order);
            self.txs.phases.push(phase_code(change.phase));
            self.txs.states.push(state_code(change.status.state));
            self.txs.ended.push(ended_code(change.status.state));
            self.txs.slots.push(change.slot);
            self.txs.statuses.push(status);
            self.txs.ids.push(change.id.0);
            if change.status.ended_unsigned() {
                self.freed.push(change.place.order);
            }
        }
        for (hint, text) in commit.hints.iter().zip(hints) {
            self.hints.insert((lane, bits(hint.slot.0), i64::from(hint.ordinal)), (index, text));
        }
        for id in &commit.commands_done {
            self.done.insert((id.0, lane), index);
        }
        for (told, text) in told_together(&commit.journal).zip(entries) {
            if let Some(last) = told.last() {
                self.journal(lane, last.tx, told.len(), bits(last.at.0), text);
            }
        }
        Ok(())
    }

    fn add_attempts(&mut self, lane: i64, closed: i64, commit: &'a LaneCommit) -> Result<(), Fault> {
        let details = commit.attempts.iter().map(rows::attempt_details).collect::<Result<Vec<_>, _>>()?;
        let hints = texts(commit.attempts.iter().map(|attempt| &attempt.hints))?;
        for ((attempt, details), hints) in commit.attempts.iter().zip(details).zip(hints) {
            let columns = &mut self.attempts;
            columns.lanes.push(lane);
            columns.slots.push(bits(attempt.slot.0));
            columns.ordinals.push(i64::from(attempt.ordinal));
            columns.txs.push(attempt.tx.map(|id| id.0));
            columns.hashes.push(attempt.hash.0.as_slice());
            columns.raws.push(attempt.raw.as_ref());
            columns.details.push(details);
            columns.hints.push(hints);
            columns.apart.push(closing::is_apart(attempt.slot, closed));
        }
        Ok(())
    }

    /// The commits that are in it, by their place in the group.
    pub(super) fn commits(&self) -> impl Iterator<Item = (usize, &'a LaneCommit)> {
        self.commits.iter().copied()
    }

    pub(super) async fn fence(&self, db: &ClientWrapper, statement: &Statement) -> Result<bool, Error> {
        let FenceColumns { lanes, tokens, versions, details, closed } = &self.fences;
        if lanes.is_empty() {
            return Ok(true);
        }
        let moved = db.execute(statement, &[lanes, tokens, versions, details, closed]).await?;
        Ok(usize::try_from(moved).is_ok_and(|moved| moved == lanes.len()))
    }

    /// Empties slots that another transaction of the same commit takes: what counts is what a commit leaves, not the
    /// order of its updates.
    pub(super) async fn leave_slots(&self, db: &ClientWrapper, statement: &Statement) -> Result<(), Error> {
        if !self.leaving.is_empty() {
            db.execute(statement, &[&self.leaving]).await?;
        }
        Ok(())
    }

    /// False if one of them is not where it was remembered to be.
    pub(super) async fn update_txs(&self, db: &ClientWrapper, statement: &Statement) -> Result<bool, Error> {
        let TxColumns { ords, phases, states, ended, slots, statuses, ids } = &self.txs;
        if ords.is_empty() {
            return Ok(true);
        }
        let updated = db.execute(statement, &[ords, phases, states, ended, slots, statuses, ids]).await?;
        Ok(usize::try_from(updated).is_ok_and(|updated| updated == ords.len()))
    }

    pub(super) async fn free_nonces(&self, db: &ClientWrapper, statement: &Statement) -> Result<(), Error> {
        if !self.freed.is_empty() {
            db.execute(statement, &[&self.freed]).await?;
        }
        Ok(())
    }

    pub(super) async fn insert_attempts(
        &self,
        db: &ClientWrapper,
        statement: &Statement,
    ) -> Result<(), Error> {
        let AttemptColumns { lanes, slots, ordinals, txs, hashes, raws, details, hints, apart } =
            &self.attempts;
        if !lanes.is_empty() {
            let columns: &[Value<'_>] = &[lanes, slots, ordinals, txs, hashes, raws, details, hints, apart];
            db.execute(statement, columns).await?;
        }
        Ok(())
    }

    /// Answers the commits that name an attempt nobody stored.
    pub(super) async fn update_hints(
        &self,
        db: &ClientWrapper,
        statement: &Statement,
    ) -> Result<Vec<(usize, Fault)>, Error> {
        if self.hints.is_empty() {
            return Ok(Vec::new());
        }
        let mut columns = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ((lane, slot, ordinal), (_, text)) in &self.hints {
            columns.0.push(*lane);
            columns.1.push(*slot);
            columns.2.push(*ordinal);
            columns.3.push(text.as_str());
        }
        let found = db.query(statement, &[&columns.0, &columns.1, &columns.2, &columns.3]).await?;
        let found: BTreeSet<(i64, i64, i64)> = found
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
            .collect::<Result<_, Error>>()?;
        let missing = self.hints.iter().filter(|(key, _)| !found.contains(key));
        Ok(missing
            .filter_map(|((_, slot, ordinal), (index, _))| {
                let slot = Slot(rows::number(*slot));
                let ordinal = u32::try_from(*ordinal).unwrap_or(u32::MAX);
                let text = rules::no_such_attempt(self.lane_of(*index)?, slot, ordinal);
                Some((*index, Fault::Refused(text)))
            })
            .collect())
    }

    pub(super) async fn close_slots(&self, db: &ClientWrapper, statement: &Statement) -> Result<(), Error> {
        let (lanes, first, last) = &self.closed;
        if !lanes.is_empty() {
            db.execute(statement, &[lanes, first, last]).await?;
        }
        Ok(())
    }

    /// Answers the commits that finish a command nobody inserted.
    pub(super) async fn finish_commands(
        &self,
        db: &ClientWrapper,
        statement: &Statement,
        namespace: i64,
    ) -> Result<Vec<(usize, Fault)>, Error> {
        if self.done.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, lanes): (Vec<Uuid>, Vec<i64>) = self.done.keys().copied().unzip();
        let found = db.query(statement, &[&namespace, &ids, &lanes]).await?;
        let found: BTreeSet<(Uuid, i64)> =
            found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, Error>>()?;
        let missing = self.done.iter().filter(|(key, _)| !found.contains(key));
        Ok(missing
            .filter_map(|((id, _), index)| {
                let text = rules::no_such_command(self.lane_of(*index)?, landfall_core::CommandId(*id));
                Some((*index, Fault::Refused(text)))
            })
            .collect())
    }

    pub(super) async fn write_journal(
        &self,
        db: &ClientWrapper,
        statement: &Statement,
        namespace: i64,
    ) -> Result<(), Error> {
        let JournalColumns { positions, lanes, txs, times, entries } = &self.journal;
        if let Some(count) = positions.last() {
            db.execute(statement, &[&namespace, count, positions, lanes, txs, times, entries]).await?;
        }
        Ok(())
    }

    fn lane_of(&self, index: usize) -> Option<LaneId> {
        self.commits.iter().find(|(at, _)| *at == index).map(|(_, commit)| commit.lane)
    }
}

/// What the commit does to each transaction's row.
fn changes<'a>(commit: &'a LaneCommit, lane: i64, places: &Places) -> Result<Vec<Change<'a>>, Fault> {
    let mut changes = Vec::new();
    for (id, status) in rules::last_updates(&commit.txs) {
        let place = places.owned(lane, commit.lane, id)?;
        let phase = Phase::of(status).map_err(Fault::Refused)?;
        let slot = status.slot.map(|slot| bits(slot.0));
        let stays = place.state == state_code(status.state) && place.slot == slot;
        if place.phase == phase_code(Phase::Done) && !stays {
            return Err(Fault::Refused(rules::has_ended(id)));
        }
        changes.push(Change { id, place, status, phase, slot });
    }
    Ok(changes)
}

/// The rows whose slot another one of the same commit takes.
fn leaving(changes: &[Change<'_>]) -> Vec<i64> {
    let taken: BTreeMap<i64, i64> = changes
        .iter()
        .filter(|change| change.phase == Phase::Bound)
        .filter_map(|change| Some((change.slot?, change.place.order)))
        .collect();
    changes
        .iter()
        .filter(|change| change.place.phase == phase_code(Phase::Bound))
        .filter(|change| {
            let taker = change.place.slot.and_then(|slot| taken.get(&slot));
            taker.is_some_and(|order| *order != change.place.order)
        })
        .map(|change| change.place.order)
        .collect()
}

fn texts<'t, T: serde::Serialize + 't>(values: impl Iterator<Item = &'t T>) -> Result<Vec<String>, Fault> {
    values.map(|value| Ok(serde_json::to_string(value)?)).collect()
}
