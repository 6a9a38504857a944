//! Leases. A session ends by the given clock; a lane whose session has ended is free, and taking it raises the token.

use std::collections::BTreeSet;
use std::time::Duration;

use landfall_core::ports::store::{Acquired, Holders};
use landfall_core::{LaneId, Millis, SessionId, Token};

use super::space::{Space, StoredSession};
use crate::rules;

/// Begins a session, without leases.
pub(super) fn open_session(
    space: &mut Space,
    session: SessionId,
    node: &str,
    now: Millis,
    lasting: Duration,
) {
    close_session(space, session);
    let stored = StoredSession { node: node.to_owned(), ends_at: after(now, lasting) };
    space.sessions.insert(session, stored);
}

/// Prolongs a session that has not ended.
pub(super) fn renew_session(space: &mut Space, session: SessionId, now: Millis, lasting: Duration) -> bool {
    match space.sessions.get_mut(&session) {
        Some(stored) if now < stored.ends_at => {
            stored.ends_at = after(now, lasting);
            true
        }
        _ => false,
    }
}

/// Ends a session and gives its leases back.
pub(super) fn close_session(space: &mut Space, session: SessionId) {
    if space.sessions.remove(&session).is_some() {
        for lane in space.lanes.values_mut().filter(|lane| lane.session == Some(session)) {
            lane.session = None;
        }
    }
}

/// Takes a lane that no other live session holds.
pub(super) fn acquire(
    space: &mut Space,
    lane: LaneId,
    session: SessionId,
    now: Millis,
) -> Result<Acquired, String> {
    if live(space, session, now).is_none() {
        return Err(rules::session_ended(session));
    }
    let holder = space.lanes.get(&lane).and_then(|lane| lane.session).filter(|holder| *holder != session);
    if let Some(holder) = holder
        && let Some(node) = live(space, holder, now)
    {
        return Ok(Acquired::HeldBy { node: node.to_owned(), session: holder });
    }
    let stored = space.lanes.entry(lane).or_default();
    stored.token = Token(stored.token.0.wrapping_add(1));
    stored.session = Some(session);
    Ok(Acquired::Yes { token: stored.token })
}

/// Gives a lane back, if it is still held under that token.
pub(super) fn release(space: &mut Space, lane: LaneId, session: SessionId, token: Token) {
    if let Some(stored) = space.lanes.get_mut(&lane)
        && stored.session == Some(session)
        && stored.token == token
    {
        stored.session = None;
    }
}

/// Who is there, and who has what.
pub(super) fn holders(space: &Space, now: Millis) -> Holders {
    let live: BTreeSet<SessionId> =
        space.sessions.iter().filter(|(_, stored)| now < stored.ends_at).map(|(id, _)| *id).collect();
    let held = space.lanes.iter().filter_map(|(lane, stored)| Some((*lane, stored.session?)));
    let held = held.filter(|(_, session)| live.contains(session)).collect();
    Holders { live, held }
}

/// The node of a session that has not ended.
pub(super) fn live(space: &Space, session: SessionId, now: Millis) -> Option<&str> {
    space.sessions.get(&session).filter(|stored| now < stored.ends_at).map(|stored| stored.node.as_str())
}

fn after(now: Millis, lasting: Duration) -> Millis {
    Millis(now.0.saturating_add(u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX)))
}
