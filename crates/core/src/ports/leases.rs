//! The part of the store port that says who may write a lane (L1).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;

use super::store::Error;
use crate::{LaneId, SessionId, Token};

/// A lease that was acquired: from now on writes carry this token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    Yes {
        token: Token,
    },
    /// Another live session has it.
    HeldBy {
        node: String,
        session: SessionId,
    },
}

/// Who is there, and who has what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holders {
    /// Sessions that have not ended.
    pub live: BTreeSet<SessionId>,
    /// Lanes that one of them holds.
    pub held: BTreeMap<LaneId, SessionId>,
    /// The last sign of life of those that another process may end.
    pub pulses: BTreeMap<SessionId, Pulse>,
}

/// A session's last renewal, or its beginning. No two have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    pub number: u64,
    /// How long its owner counts on it.
    pub lasting: Duration,
}

/// What became of the word of a person that a session is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// It has ended, and all that it held is free.
    Yes { lanes: u64 },
    /// It does not hold the lane.
    NotHeld,
    /// This store has one process at a time, which a lock stands for.
    NoLeases,
}

/// Who may write a lane (L1).
///
/// A session ends when its process closes it, or when another process has seen the same [`Pulse`] for as long as it lasts, by its own
/// monotonic clock. No clock of the store is asked: it may step.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Begins a session, which all its leases hang on.
    async fn open_session(&self, session: SessionId, node: &str, lasting: Duration) -> Result<(), Error>;
    /// Prolongs it; false if it has ended and must not be used any more.
    async fn renew_session(&self, session: SessionId, lasting: Duration) -> Result<bool, Error>;
    /// Ends it and gives its leases back.
    async fn close_session(&self, session: SessionId) -> Result<(), Error>;
    /// Ends another's session, if this is still its last sign of life; its lanes are free then. False: it gave another one, or is gone.
    async fn end_session(&self, session: SessionId, pulse: Pulse) -> Result<bool, Error>;
    /// Ends the session that holds this lane, if it is that one, whatever it does: a person says that it is dead.
    async fn break_lease(&self, lane: LaneId, session: SessionId) -> Result<Broken, Error>;
    /// Takes a lane that is free or whose owner's session has ended. Every acquisition raises the token.
    async fn acquire(&self, lane: LaneId, session: SessionId) -> Result<Acquired, Error>;
    /// Gives a lane back; its row and token stay.
    async fn release(&self, lane: LaneId, session: SessionId, token: Token) -> Result<(), Error>;
    /// Says where the process of a session can be reached. Only for callers who must know: nothing depends on it, and
    /// a store that only one process can use need not keep it.
    async fn advertise(&self, _session: SessionId, _address: &str) -> Result<(), Error> {
        Ok(())
    }
    /// What a live session said last.
    async fn address(&self, _session: SessionId) -> Result<Option<String>, Error> {
        Ok(None)
    }
    /// The live sessions and their lanes. Only a hint, old when it arrives: [`Self::acquire`] decides.
    async fn holders(&self) -> Result<Holders, Error>;
    /// Tells other processes that a lane has work for its owner. Only a hint: it may be lost or come twice, and the caller
    /// waits for nothing. What has work is found by [`Reads::lanes_with_work`](super::store::Reads::lanes_with_work).
    fn announce(&self, _lane: LaneId) {}
    /// Waits for such a hint from another process; for ever where processes cannot tell each other. One that is dropped
    /// while it waits has taken nothing.
    async fn announced(&self) -> LaneId {
        std::future::pending().await
    }
}
