//! Ends the sessions of nodes that died (L1): nothing was heard of them for as long as they last, by this node's monotonic clock.
//!
//! Every node watches all others. Whichever is first ends the session, if it has given no sign of life until then; its lanes are free.
//! A node that only seemed dead finds its session gone and its writes refused. A person may be quicker ([`Handle::break_lease`]).

use landfall_core::ports::store::{Broken, Error, Holders};
use landfall_core::silence::Silence;
use landfall_core::{LaneId, Millis, SessionId};
use tokio::time::Instant;

use crate::handle::Handle;
use crate::supervisor::Shared;

/// What this node has heard of the others.
pub(crate) struct Watch {
    begun: Instant,
    silence: Silence,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), silence: Silence::default() }
    }

    /// Takes in what the store has just shown, and takes out of it whose session was ended.
    pub(crate) async fn look(&mut self, shared: &Shared, holders: &mut Holders) {
        holders.pulses.remove(&shared.session);
        for (session, pulse) in self.silence.look(&holders.pulses, self.begun.elapsed()) {
            match shared.parts.store.end_session(session, pulse).await {
                Ok(true) => {
                    let silent_for = pulse.lasting;
                    tracing::warn!(%session, ?silent_for, "a session was ended: its node gives no sign of life");
                    leave(holders, session);
                }
                // Another node was faster, or it lives after all: the next look shows it.
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%session, %error, "a dead session could not be ended; trying again")
                }
            }
        }
    }
}

fn leave(holders: &mut Holders, session: SessionId) {
    holders.live.remove(&session);
    holders.pulses.remove(&session);
    holders.held.retain(|_, holder| *holder != session);
}

/// What became of a person's word that the owner of a lane is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakLease {
    Broken {
        lanes: u64,
    },
    /// It is this process, which lives.
    Own,
    /// That session does not hold the lane.
    NotHeld,
    /// The store has one process at a time, and a lock instead of leases.
    NoLeases,
}

impl Handle {
    /// Ends the session that holds a lane, by the word of a person that it is dead; all that it held is free. Should it live, the fence
    /// refuses its writes, and it begins anew.
    pub async fn break_lease(&self, lane: LaneId, session: SessionId) -> Result<BreakLease, Error> {
        // Nobody's session breaks nothing: it only shows whether there are leases.
        let is_own = session == self.shared.session;
        let asked = if is_own { SessionId::new(Millis(0), 0) } else { session };
        Ok(match self.shared.parts.store.break_lease(lane, asked).await? {
            Broken::Yes { lanes } => {
                let node = &self.shared.parts.node;
                tracing::warn!(%session, lanes, %node, "a person said that this session is dead; what it held is free");
                self.shared.work_for(lane);
                BreakLease::Broken { lanes }
            }
            Broken::NotHeld if is_own => BreakLease::Own,
            Broken::NotHeld => BreakLease::NotHeld,
            Broken::NoLeases => BreakLease::NoLeases,
        })
    }
}
