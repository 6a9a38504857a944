//! Accepting a store that went back: a person's word, given when no endpoint's pool has anything of ours on its way that the store
//! does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use landfall_core::ports::chain::PoolLook;
use landfall_core::ports::store::{Acceptance, Command, CommandKind, Error as StoreError, Older};
use landfall_core::{ChainId, CommandId, LaneId, Origin, Slot};

use crate::handle::{Handle, SubmitError, not_written};

/// Why a store was not accepted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AcceptError {
    #[error("the store is not an older copy: there is nothing to accept")]
    NotOlder,
    #[error(
        "{endpoint} has transactions of {lane} in its pool that this store does not know, with the nonces {}: they may be ours, and \
         may still land. Wait until they have landed or are gone, or say despitePool (--despite-pool) if they are not ours", words(.slots)
    )]
    InPool { lane: LaneId, endpoint: String, slots: BTreeSet<Slot> },
    #[error(
        "{endpoint} does not tell what of {lane} is in its pool ({why}). A transaction of ours may wait there, ready or behind a \
         missing nonce, land later, and do what is signed anew a second time. Try again when it answers; if it never tells, wait as \
         long as a pool keeps transactions (geth: three hours), look at the account yourself where pools are shown, and then say \
         despitePool (--despite-pool)"
    )]
    PoolUnknown { lane: LaneId, endpoint: String, why: String },
    #[error(
        "the newest block that is seen of chain {chain} is {}: its endpoints may have to catch up, and what this store has forgotten may be in \
         blocks that they do not show yet. Try again when they show the present; if the chain makes no blocks, or this machine's clock \
         is ahead, say despiteOldHead (--despite-old-head)", aged(*.age)
    )]
    OldHead { chain: ChainId, age: Option<Duration> },
    #[error(
        "the lane {lane} was begun while the store was about to be accepted, and nobody has looked at its pools. Nothing was accepted: \
         run it again"
    )]
    Begun { lane: LaneId },
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

/// Facts that the person who accepts a store knows and the program does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Despite {
    /// Transactions in pools that the store does not know are not ours.
    pub pool: bool,
    /// The newest block that is seen is the newest there is.
    pub old_head: bool,
}

impl Despite {
    /// Whatever is found.
    pub const ALL: Self = Self { pool: true, old_head: true };
}

impl From<StoreError> for AcceptError {
    fn from(error: StoreError) -> Self {
        Self::Submit(error.into())
    }
}

impl Handle {
    /// Why the store is an older copy of itself, if it is.
    pub async fn older(&self) -> Result<Option<Older>, StoreError> {
        self.store().older().await
    }

    /// Takes the store as it is: every lane goes on once it has compared what it does not know with what waits. A lane that is begun
    /// meanwhile is looked at as well, in another round.
    pub async fn accept_store(
        &self,
        despite: Despite,
        by: Option<Arc<Origin>>,
    ) -> Result<BTreeMap<LaneId, CommandId>, AcceptError> {
        let mut rounds = 0;
        loop {
            if self.older().await?.is_none() {
                return Err(AcceptError::NotOlder);
            }
            let commands = self.words(despite, by.as_ref()).await?;
            let ids = commands.iter().map(|command| (command.lane, command.id)).collect();
            rounds += 1;
            match self.store().accept(commands).await.map_err(not_written)? {
                Acceptance::Yes => return Ok(self.was_accepted(ids)),
                Acceptance::NotOlder => return Err(AcceptError::NotOlder),
                Acceptance::Untold(lane) if rounds >= ROUNDS => return Err(AcceptError::Begun { lane }),
                Acceptance::Untold(_) => {}
            }
        }
    }

    /// A word for every lane, whose pools were looked at.
    async fn words(&self, despite: Despite, by: Option<&Arc<Origin>>) -> Result<Vec<Command>, AcceptError> {
        let parts = self.parts();
        // Another node may have signers and lanes that this one has not: what is accepted is looked at.
        let mut lanes: BTreeSet<LaneId> = parts.signers.keys().copied().collect();
        lanes.extend(self.store().lanes().await?.into_iter().map(|summary| summary.lane));
        if !despite.old_head {
            self.refuse_if_behind(&lanes)?;
        }
        let seen = match despite.pool {
            true => BTreeMap::new(),
            false => self.refuse_if_pooled(&lanes).await?,
        };
        let now = parts.clock.now();
        let command = |lane: LaneId| {
            let id = CommandId::new(now, parts.random.bits());
            let kind = CommandKind::AcceptStore { seen: seen.get(&lane).copied() };
            Command { id, lane, kind, at: now, by: by.cloned() }
        };
        Ok(lanes.into_iter().map(command).collect())
    }

    /// Wakes the lanes that were told.
    fn was_accepted(&self, ids: BTreeMap<LaneId, CommandId>) -> BTreeMap<LaneId, CommandId> {
        tracing::warn!(node = %self.parts().node, "a person accepted the store, which is an older copy of itself");
        ids.keys().for_each(|lane| self.shared().work_for(*lane));
        ids
    }

    /// The chains of these lanes are seen as they are now. One that this node has no endpoint of is told by its pools.
    fn refuse_if_behind(&self, lanes: &BTreeSet<LaneId>) -> Result<(), AcceptError> {
        let now = self.parts().clock.now();
        let chains: BTreeSet<ChainId> = lanes.iter().map(|lane| lane.chain).collect();
        for chain in chains.into_iter().filter(|chain| self.parts().chains.contains_key(chain)) {
            let view = self.shown(chain);
            if view.as_ref().is_none_or(|view| view.is_old(now)) {
                let age = view.map(|view| now.since(view.head.timestamp));
                return Err(AcceptError::OldHead { chain, age });
            }
        }
        Ok(())
    }

    /// Nothing of the accounts is in the pool of any endpoint, beside what this store has bytes of. What a pool is known to hold is told
    /// before a pool that is not known. Answers the highest count of each account that an endpoint showed: what left a pool is below.
    async fn refuse_if_pooled(
        &self,
        lanes: &BTreeSet<LaneId>,
    ) -> Result<BTreeMap<LaneId, Slot>, AcceptError> {
        let mut unknown = None;
        let mut seen = BTreeMap::new();
        for lane in lanes {
            let looks = match self.parts().chains.get(&lane.chain) {
                Some(chain) => chain.chain.pools(lane.signer).await,
                None => Vec::new(),
            };
            let record = self.store().load_lane(*lane).await?;
            let ours: BTreeSet<Slot> = record.attempts.iter().map(|attempt| attempt.slot).collect();
            if looks.is_empty() {
                let why = "it has no endpoint of that chain; accept the store through a node that has";
                unknown.get_or_insert((*lane, "this node".to_owned(), why.to_owned()));
            }
            for PoolLook { endpoint, found } in looks {
                let latest = found.as_ref().map(|pooled| pooled.latest).unwrap_or_default();
                seen.entry(*lane).and_modify(|seen: &mut Slot| *seen = latest.max(*seen)).or_insert(latest);
                match found.map(|pooled| pooled.beside(&ours, SHOWN)) {
                    Ok(slots) if slots.is_empty() => {}
                    Ok(slots) => return Err(AcceptError::InPool { lane: *lane, endpoint, slots }),
                    Err(why) => {
                        unknown.get_or_insert((*lane, endpoint, why));
                    }
                }
            }
        }
        match unknown {
            Some((lane, endpoint, why)) => Err(AcceptError::PoolUnknown { lane, endpoint, why }),
            None => Ok(seen),
        }
    }
}

/// How often lanes that were begun meanwhile are looked at anew.
const ROUNDS: u32 = 3;

/// How many nonces an error names.
const SHOWN: usize = 8;

fn aged(age: Option<Duration>) -> String {
    age.map_or("none yet".to_owned(), |age| format!("{} s old", age.as_secs()))
}

fn words(slots: &BTreeSet<Slot>) -> String {
    let shown: Vec<String> = slots.iter().map(Slot::to_string).collect();
    let more = if slots.len() < SHOWN { "" } else { " and maybe more" };
    format!("{}{more}", shown.join(", "))
}
