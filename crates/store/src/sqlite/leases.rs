//! Leases. The file's lock stands for expiry: a session lives until it is closed or another process opens the file,
//! and no clock can end it. Tokens are raised by every acquisition and never go back.

use landfall_core::ports::store::Acquired;
use landfall_core::{LaneId, SessionId, Token};
use rusqlite::{OptionalExtension, params};

use super::error::Fault;
use super::rows::{self, bits, number};
use super::scope::Scope;
use crate::rules;

/// Begins a session, without leases.
pub(super) fn open_session(scope: &Scope<'_>, session: SessionId, node: &str) -> Result<(), Fault> {
    close_session(scope, session)?;
    scope
        .db
        .prepare_cached("INSERT INTO session (namespace, id, node) VALUES (?1, ?2, ?3)")?
        .execute(params![scope.namespace, session.0.as_bytes(), node])?;
    Ok(())
}

/// Is the session still there?
pub(super) fn is_open(scope: &Scope<'_>, session: SessionId) -> Result<bool, Fault> {
    Ok(node_of(scope, session.0.as_bytes())?.is_some())
}

/// Ends a session and gives its leases back.
pub(super) fn close_session(scope: &Scope<'_>, session: SessionId) -> Result<(), Fault> {
    let gone = scope
        .db
        .prepare_cached("DELETE FROM session WHERE namespace = ?1 AND id = ?2")?
        .execute(params![scope.namespace, session.0.as_bytes()])?;
    if gone > 0 {
        scope
            .db
            .prepare_cached(
                "UPDATE lane SET session = NULL
                 WHERE session = ?2 AND account IN (SELECT id FROM account WHERE namespace = ?1)",
            )?
            .execute(params![scope.namespace, session.0.as_bytes()])?;
    }
    Ok(())
}

/// Takes a lane that no other live session holds.
pub(super) fn acquire(scope: &mut Scope<'_>, lane: LaneId, session: SessionId) -> Result<Acquired, Fault> {
    if !is_open(scope, session)? {
        return Err(Fault::Refused(rules::session_ended(session)));
    }
    let key = scope.lane_or_new(lane)?;
    let holder: Option<Vec<u8>> = scope
        .db
        .prepare_cached("SELECT session FROM lane WHERE id = ?1")?
        .query_row([key.lane], |row| row.get(0))?;
    if let Some(holder) = holder
        && holder != session.0.as_bytes()
        && let Some(node) = node_of(scope, &holder)?
    {
        return Ok(Acquired::HeldBy { node, session: rows::session(&holder)? });
    }
    let token: i64 = scope
        .db
        .prepare_cached("UPDATE lane SET token = token + 1, session = ?2 WHERE id = ?1 RETURNING token")?
        .query_row(params![key.lane, session.0.as_bytes()], |row| row.get(0))?;
    Ok(Acquired::Yes { token: Token(number(token)) })
}

/// Gives a lane back, if it is still held under that token.
pub(super) fn release(
    scope: &mut Scope<'_>,
    lane: LaneId,
    session: SessionId,
    token: Token,
) -> Result<(), Fault> {
    if let Some(key) = scope.lane(lane)? {
        scope
            .db
            .prepare_cached("UPDATE lane SET session = NULL WHERE id = ?1 AND session = ?2 AND token = ?3")?
            .execute(params![key.lane, session.0.as_bytes(), bits(token.0)])?;
    }
    Ok(())
}

fn node_of(scope: &Scope<'_>, session: &[u8]) -> Result<Option<String>, Fault> {
    let node = scope
        .db
        .prepare_cached("SELECT node FROM session WHERE namespace = ?1 AND id = ?2")?
        .query_row(params![scope.namespace, session], |row| row.get(0))
        .optional()?;
    Ok(node)
}
