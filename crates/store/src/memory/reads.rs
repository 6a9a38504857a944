//! Look-ups, in the order the port asks for.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use landfall_core::attempt::Attempt;
use landfall_core::journal::JournalRow;
use landfall_core::ports::store::{
    Command, CommandKind, Kept, LaneRecord, LaneSummary, Older, TxQuery, TxRecord,
};
use landfall_core::request::CallId;
use landfall_core::transaction::Transaction;
use landfall_core::{
    Account, CallerNonce, ChainId, CommandId, JournalSeq, LaneId, QueueOrder, RequestId, Slot, TxHash, TxId,
};

use super::leases;
use super::space::{AttemptKey, Space, StoredLane};
use crate::command_text::command_text;

fn size(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn slots_of(lane: LaneId) -> RangeInclusive<(LaneId, Slot)> {
    (lane, Slot(0))..=(lane, Slot(u64::MAX))
}

fn orders_of(lane: LaneId) -> RangeInclusive<(LaneId, QueueOrder)> {
    (lane, QueueOrder(i64::MIN))..=(lane, QueueOrder(i64::MAX))
}

fn attempts_of(lane: LaneId) -> RangeInclusive<AttemptKey> {
    (lane, Slot(0), 0)..=(lane, Slot(u64::MAX), u32::MAX)
}

pub(super) fn load_lane(space: &Space, lane: LaneId) -> LaneRecord {
    let stored = space.lanes.get(&lane).cloned().unwrap_or_default();
    let bound = space.bound.range(slots_of(lane)).filter_map(|(_, id)| space.tx(*id)).cloned();
    let attempts: Vec<Attempt> =
        space.open_attempts.range(attempts_of(lane)).filter_map(|key| attempt(space, key)).collect();
    let with_attempts: BTreeSet<TxId> = attempts.iter().filter_map(|attempt| attempt.tx).collect();
    let ended = with_attempts.into_iter().filter_map(|id| space.tx(id));
    let mut ended: Vec<_> = ended.filter(|tx| tx.status.state.is_terminal()).cloned().collect();
    ended.sort_by_key(|tx| (tx.status.slot, tx.order));
    let (awaits, was_used) = (awaits_acceptance(space, lane), stored.row.cursor.is_some());
    LaneRecord {
        ended,
        lane,
        token: stored.token,
        version: stored.version,
        row: stored.row,
        bound: bound.collect(),
        attempts,
        highest_signed: space.attempts.range(attempts_of(lane)).next_back().map(|((_, slot, _), _)| *slot),
        older: Older::of_lane(space.older.clone(), awaits, was_used),
    }
}

/// A person has accepted the store, and this lane has not gone on yet.
fn awaits_acceptance(space: &Space, lane: LaneId) -> bool {
    let open = open_commands(space, lane, &BTreeSet::new(), u32::MAX);
    open.iter().any(|command| matches!(command.kind, CommandKind::AcceptStore { .. }))
}

fn attempt(space: &Space, key: &AttemptKey) -> Option<Attempt> {
    space.attempts.get(key).map(|stored| stored.attempt.clone())
}

pub(super) fn waiting(space: &Space, lane: LaneId, limit: u32) -> Vec<Transaction> {
    let orders = space.waiting.range(orders_of(lane)).take(size(limit));
    orders.filter_map(|(_, order)| by_order(space, *order)).cloned().collect()
}

pub(super) fn waiting_bytes(space: &Space, lane: LaneId) -> Result<u64, serde_json::Error> {
    let mut bytes = 0;
    for tx in space.waiting.range(orders_of(lane)).filter_map(|(_, order)| by_order(space, *order)) {
        bytes += serde_json::to_string(&*tx.request)?.len() + serde_json::to_string(&tx.status)?.len();
    }
    for command in open_commands(space, lane, &BTreeSet::new(), u32::MAX) {
        bytes += command_text(&command)?.len();
    }
    Ok(bytes as u64)
}

fn by_order(space: &Space, order: QueueOrder) -> Option<&Transaction> {
    space.by_order.get(&order).and_then(|id| space.tx(*id))
}

pub(super) fn open_commands(
    space: &Space,
    lane: LaneId,
    taken: &BTreeSet<CommandId>,
    limit: u32,
) -> Vec<Command> {
    let open = space.open_commands.range((lane, 0)..=(lane, u64::MAX)).map(|(_, id)| id);
    let open = open.filter(|id| !taken.contains(id)).take(size(limit));
    open.filter_map(|id| space.commands.get(id)).map(|stored| stored.command.clone()).collect()
}

pub(super) fn lanes_with_work(space: &Space) -> Vec<LaneId> {
    let has_work = |lane: &LaneId| {
        space.waiting.range(orders_of(*lane)).next().is_some()
            || space.bound.range(slots_of(*lane)).next().is_some()
            || space.open_attempts.range(attempts_of(*lane)).next().is_some()
            || space.open_commands.range((*lane, 0)..=(*lane, u64::MAX)).next().is_some()
    };
    space.lanes.keys().copied().filter(has_work).collect()
}

pub(super) fn tx(space: &Space, id: TxId) -> Option<TxRecord> {
    let tx = space.tx(id)?.clone();
    let keys = space.attempts_of.get(&id).into_iter().flatten();
    Some(TxRecord { tx, attempts: keys.filter_map(|key| attempt(space, key)).collect() })
}

pub(super) fn tx_by_request(space: &Space, signer: Account, request: &RequestId) -> Option<TxRecord> {
    let id = space.by_key.get(&(signer, request.clone()))?;
    tx(space, *id)
}

pub(super) fn tx_by_call(space: &Space, lane: LaneId, call: &CallId) -> Option<Transaction> {
    let id = space.by_call.get(&(lane, call.clone()))?;
    space.tx(*id).cloned()
}

pub(super) fn kept_by_call(space: &Space, lane: LaneId, call: &CallId) -> Option<Kept> {
    let id = space.kept_by_call.get(&(lane, call.clone()))?;
    space.kept.get(id).cloned()
}

pub(super) fn nonces_from(space: &Space, lane: LaneId, from: &CallId, limit: u32) -> Vec<CallerNonce> {
    let mut nonces: BTreeSet<CallerNonce> = BTreeSet::new();
    for first in [Some(from.clone()), from.before_keys()].into_iter().flatten() {
        let last = CallId { nonce: CallerNonce(u64::MAX), ..first.clone() };
        let calls = (lane, first)..=(lane, last);
        let known = space.by_call.range(calls.clone()).chain(space.kept_by_call.range(calls));
        nonces.extend(known.map(|((_, call), _)| call.nonce));
    }
    nonces.into_iter().take(size(limit)).collect()
}

pub(super) fn kept_by_first_hash(space: &Space, chain: ChainId, hash: TxHash) -> Option<Kept> {
    let is_it = |kept: &&Kept| kept.lane.chain == chain && kept.first_hash == Some(hash);
    space.kept.values().find(is_it).cloned()
}

pub(super) fn txs(space: &Space, query: &TxQuery) -> Vec<Transaction> {
    let end = query.before.unwrap_or(QueueOrder(i64::MAX));
    let with_hash: Option<BTreeSet<TxId>> = query.hash.map(|hash| {
        let keys = space.by_hash.get(&hash).into_iter().flatten();
        keys.filter_map(|key| attempt(space, key)?.tx).collect()
    });
    let asked = |tx: &&Transaction| {
        query.state.is_none_or(|state| tx.status.state == state)
            && query.signer.is_none_or(|signer| tx.lane.signer == signer)
            && query.chain.is_none_or(|chain| tx.lane.chain == chain)
            && with_hash.as_ref().is_none_or(|ids| ids.contains(&tx.id))
    };
    let newest_first = space.by_order.range(..end).rev().filter_map(|(_, id)| space.tx(*id));
    newest_first.filter(asked).take(size(query.limit)).cloned().collect()
}

pub(super) fn journal(space: &Space, tx: TxId) -> Vec<JournalRow> {
    let numbers = space.journal_of.get(&tx).into_iter().flatten();
    numbers.filter_map(|number| space.journal.get(number)).cloned().collect()
}

pub(super) fn journal_after(space: &Space, after: JournalSeq, limit: u32) -> Vec<JournalRow> {
    let first = JournalSeq(after.0.saturating_add(1));
    space.journal.range(first..).map(|(_, row)| row).take(size(limit)).cloned().collect()
}

pub(super) fn lanes(space: &Space) -> Vec<LaneSummary> {
    space.lanes.iter().map(|(lane, stored)| summary(space, *lane, stored)).collect()
}

pub(super) fn lane(space: &Space, lane: LaneId) -> Option<LaneSummary> {
    space.lanes.get(&lane).map(|stored| summary(space, lane, stored))
}

fn summary(space: &Space, lane: LaneId, stored: &StoredLane) -> LaneSummary {
    let owner = stored.session.and_then(|session| Some((session, leases::live(space, session)?)));
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    LaneSummary {
        lane,
        token: stored.token,
        version: stored.version,
        owner: owner.map(|(session, live)| (live.node.clone(), session)),
        owned_until: owner.map(|(_, live)| live.until),
        row: stored.row.clone(),
        waiting: count(space.waiting.range(orders_of(lane)).count()),
        bound: count(space.bound.range(slots_of(lane)).count()),
    }
}
