//! Leases. A session lasts until it is closed, or ended by another that has heard nothing of it; a lane whose session has ended is
//! free, and taking it raises the token.

use std::time::Duration;

use landfall_core::ports::store::{Acquired, Broken, Holders, Pulse};
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
    let pulse = next_pulse(space, lasting);
    let stored = StoredSession { node: node.to_owned(), pulse, until: now.after(lasting) };
    space.sessions.insert(session, stored);
}

fn next_pulse(space: &mut Space, lasting: Duration) -> Pulse {
    space.last_pulse += 1;
    Pulse { number: space.last_pulse, lasting }
}

/// Prolongs a session that has not ended.
pub(super) fn renew_session(space: &mut Space, session: SessionId, now: Millis, lasting: Duration) -> bool {
    let pulse = next_pulse(space, lasting);
    let Some(stored) = space.sessions.get_mut(&session) else { return false };
    (stored.pulse, stored.until) = (pulse, now.after(lasting));
    true
}

/// Ends a session that gave no other sign of life.
pub(super) fn end_session(space: &mut Space, session: SessionId, pulse: Pulse) -> bool {
    let is_silent = space.sessions.get(&session).is_some_and(|stored| stored.pulse.number == pulse.number);
    is_silent && space.sessions.remove(&session).is_some()
}

/// Ends the session that holds a lane.
pub(super) fn break_lease(space: &mut Space, lane: LaneId, session: SessionId) -> Broken {
    let holds = space.lanes.get(&lane).is_some_and(|stored| stored.session == Some(session));
    if !holds || space.sessions.remove(&session).is_none() {
        return Broken::NotHeld;
    }
    let lanes = space.lanes.values().filter(|lane| lane.session == Some(session)).count();
    Broken::Yes { lanes: lanes as u64 }
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
pub(super) fn acquire(space: &mut Space, lane: LaneId, session: SessionId) -> Result<Acquired, String> {
    if live(space, session).is_none() {
        return Err(rules::session_ended(session));
    }
    let holder = space.lanes.get(&lane).and_then(|lane| lane.session).filter(|holder| *holder != session);
    if let Some(holder) = holder
        && let Some(stored) = live(space, holder)
    {
        return Ok(Acquired::HeldBy { node: stored.node.clone(), session: holder });
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
pub(super) fn holders(space: &Space) -> Holders {
    let pulses = space.sessions.iter().map(|(session, stored)| (*session, stored.pulse)).collect();
    let held = space.lanes.iter().filter_map(|(lane, stored)| Some((*lane, stored.session?)));
    let held = held.filter(|(_, session)| space.sessions.contains_key(session)).collect();
    Holders { live: space.sessions.keys().copied().collect(), held, pulses }
}

/// A session that has not ended.
pub(super) fn live(space: &Space, session: SessionId) -> Option<&StoredSession> {
    space.sessions.get(&session)
}
