//! Removing the history of what ended long ago; see the SQLite adapter's file of the same name.

use std::ops::Bound;

use landfall_core::ports::store::{Forget, Forgotten, Kept};
use landfall_core::{Account, RequestId, TxId};

use super::space::Space;
use crate::rules;

/// Looks at the next transactions in their order and removes those that may go.
pub(super) fn forget(space: &mut Space, step: Forget) -> Forgotten {
    let mut removed = 0;
    let mut last = None;
    let limit = usize::try_from(step.limit).unwrap_or(usize::MAX);
    let later = (Bound::Excluded(step.after), Bound::Unbounded);
    let old: Vec<TxId> = space.by_order.range(later).take(limit).map(|(_, id)| *id).collect();
    let newest = space.by_order.last_key_value().map(|(_, id)| *id);
    let told = space.journal.last_key_value().and_then(|(_, row)| row.tx);
    let seen = old.len();
    space
        .commands
        .retain(|_, stored| !stored.done || stored.tx.is_some() || stored.command.at >= step.before);
    for id in old {
        let Some(tx) = space.tx(id) else { continue };
        if rules::is_young(tx, step.before) {
            return Forgotten { removed, next: None };
        }
        last = Some(tx.order);
        // The newest of all stays: the numbers of the next ones follow from it.
        let is_newest = newest == Some(id) || told == Some(id);
        if rules::may_go(tx, step.before) && !is_newest && !has_open_attempts(space, id) {
            remove(space, id);
            removed += 1;
        }
    }
    Forgotten { removed, next: last.filter(|_| seen >= limit) }
}

fn has_open_attempts(space: &Space, id: TxId) -> bool {
    space.attempts_of.get(&id).is_some_and(|keys| keys.iter().any(|key| space.open_attempts.contains(key)))
}

fn remove(space: &mut Space, id: TxId) {
    let Some(tx) = space.txs.remove(&id).map(|stored| stored.tx) else { return };
    let kept = Kept::of(&tx);
    space.commands.retain(|_, stored| !stored.done || stored.tx != Some(id));
    for stored in space.commands.values_mut().filter(|stored| stored.tx == Some(id)) {
        stored.tx = None;
    }
    space.by_order.remove(&tx.order);
    for key in space.attempts_of.remove(&id).into_iter().flatten() {
        if let Some(stored) = space.attempts.remove(&key)
            && let Some(keys) = space.by_hash.get_mut(&stored.attempt.hash)
        {
            keys.remove(&key);
        }
    }
    for number in space.journal_of.remove(&id).into_iter().flatten() {
        space.journal.remove(&number);
    }
    if let Some(key) = &kept.request_id {
        let key = (tx.lane.signer, key.clone());
        space.by_key.remove(&key);
        space.kept_by_key.insert(key, id);
    }
    if let Some(call) = &kept.call {
        let call = (tx.lane, call.id.clone());
        space.by_call.remove(&call);
        space.kept_by_call.insert(call, id);
    }
    space.kept.insert(id, kept);
}

/// What stayed under a signer's key.
pub(super) fn by_request(space: &Space, signer: Account, request: &RequestId) -> Option<Kept> {
    let id = space.kept_by_key.get(&(signer, request.clone()))?;
    space.kept.get(id).cloned()
}
