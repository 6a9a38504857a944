//! Admission: one row per signer and key, for ever, and one per call.

use landfall_core::journal::{Entry, NewEntry};
use landfall_core::ports::store::Admission;
use landfall_core::request::{CallId, NewTransaction};

use super::forget;
use super::space::Space;
use crate::rules;

/// Stores a transaction and its first journal entry, or says what is there already.
pub(super) fn admit(space: &mut Space, new: &NewTransaction) -> Result<Admission, String> {
    let by_key = new.request.request_id.as_ref();
    if let Some(kept) = by_key.and_then(|key| forget::by_request(space, new.lane.signer, key)) {
        return Ok(rules::kept_under_key(kept, new));
    }
    if let Some(kept) = space.kept.get(&new.id).cloned() {
        return rules::kept_under_id(kept, new);
    }
    let key = new.request.request_id.as_ref().map(|key| (new.lane.signer, key.clone()));
    let by_key = key.and_then(|key| space.by_key.get(&key)).and_then(|id| space.tx(*id));
    if let Some(existing) = by_key {
        return Ok(if rules::asks_the_same(existing, new) {
            Admission::Replay(existing.clone())
        } else {
            Admission::Conflict(existing.id)
        });
    }
    if let Some(existing) = space.tx(new.id) {
        if rules::is_again(existing, new) {
            return Ok(Admission::Replay(existing.clone()));
        }
        return Err(rules::id_taken(existing.id));
    }
    if let Some(known) = under_nonce(space, new) {
        return Ok(known);
    }
    let tx = rules::admitted(new, space.next_order());
    space.insert_tx(tx.clone());
    let (at, by) = (new.request.accepted_at, new.request.origin.clone());
    space.write_entry(new.lane, NewEntry { tx: Some(new.id), at, entry: Entry::Accepted, by });
    Ok(Admission::New(tx))
}

/// The transaction under the nonce that the caller gave, or under the same nonce from before keys.
fn under_nonce(space: &Space, new: &NewTransaction) -> Option<Admission> {
    let call = new.request.call()?;
    let before_keys = || under_call(space, new, call.before_keys()?)?.if_the_same();
    under_call(space, new, call.clone()).or_else(before_keys)
}

fn under_call(space: &Space, new: &NewTransaction, call: CallId) -> Option<Admission> {
    let call = (new.lane, call);
    if let Some(existing) = space.by_call.get(&call).and_then(|id| space.tx(*id)) {
        return Some(rules::under_nonce(existing.clone(), new));
    }
    let kept = space.kept_by_call.get(&call).and_then(|id| space.kept.get(id))?;
    Some(rules::kept_under_nonce(kept.clone(), new))
}
