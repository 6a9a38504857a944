//! Accepting a store that went back: a person's word, given when the chain shows nothing of ours on its way that the store does not
//! know.

use std::collections::{BTreeMap, BTreeSet};

use landfall_core::ports::store::{Command, CommandKind, Error as StoreError, Older};
use landfall_core::{CommandId, LaneId, Slot};
use serde_json::json;

use crate::handle::{Handle, SubmitError, not_written};

/// Why a store was not accepted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AcceptError {
    #[error("the store is not an older copy: there is nothing to accept")]
    NotOlder,
    #[error(
        "a node has transactions of {lane} up to nonce {last} in its pool that this store does not know: they may be ours, and may \
         still land. Wait until they have, or say despitePool (--despite-pool) if they are not ours"
    )]
    InPool { lane: LaneId, last: Slot },
    #[error(
        "no node says what of {lane} is in its pool ({why}), so nobody knows whether something of ours may still land. Try again \
         when a node answers, or say despitePool (--despite-pool)"
    )]
    PoolUnknown { lane: LaneId, why: String },
    #[error(transparent)]
    Submit(#[from] SubmitError),
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

    /// Takes the store as it is: every lane goes on once it has compared what it does not know with what waits.
    pub async fn accept_store(&self, despite_pool: bool) -> Result<BTreeMap<LaneId, CommandId>, AcceptError> {
        if self.older().await?.is_none() {
            return Err(AcceptError::NotOlder);
        }
        let parts = self.parts();
        let mut lanes: BTreeSet<LaneId> = parts.signers.keys().copied().collect();
        if !despite_pool {
            for lane in &lanes {
                self.refuse_if_pooled(*lane).await?;
            }
        }
        lanes.extend(self.store().lanes().await?.into_iter().map(|summary| summary.lane));
        let now = parts.clock.now();
        let command = |lane: LaneId| {
            let id = CommandId::new(now, parts.random.bits());
            Command { id, lane, kind: CommandKind::AcceptStore { seen: None }, at: now }
        };
        let commands: Vec<Command> = lanes.into_iter().map(command).collect();
        let ids = commands.iter().map(|command| (command.lane, command.id)).collect();
        let accepted = self.store().accept(commands).await;
        if !accepted.map_err(not_written)? {
            return Err(AcceptError::NotOlder);
        }
        tracing::warn!(node = %parts.node, "a person accepted the store, which is an older copy of itself");
        let ids: BTreeMap<LaneId, CommandId> = ids;
        ids.keys().for_each(|lane| self.shared().work_for(*lane));
        Ok(ids)
    }

    /// Nothing of the account is in a node's pool, beside what this store has bytes of.
    async fn refuse_if_pooled(&self, lane: LaneId) -> Result<(), AcceptError> {
        let unknown = |why: String| AcceptError::PoolUnknown { lane, why };
        let latest = self.count_at(lane, "latest").await.map_err(unknown)?;
        let pending = self.count_at(lane, "pending").await.map_err(unknown)?;
        let record = self.store().load_lane(lane).await?;
        let ours: BTreeSet<Slot> = record.attempts.iter().map(|attempt| attempt.slot).collect();
        let strange = (latest.0..pending.0).map(Slot).rfind(|slot| !ours.contains(slot));
        strange.map_or(Ok(()), |last| Err(AcceptError::InPool { lane, last }))
    }

    async fn count_at(&self, lane: LaneId, tag: &str) -> Result<Slot, String> {
        let chain = self.parts().chains.get(&lane.chain).ok_or("the chain is not configured")?;
        let params = json!([lane.signer.to_string(), tag]);
        let answer = chain.chain.ask("eth_getTransactionCount", &params).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let number = answer.trim().trim_matches('"').trim_start_matches("0x");
        u64::from_str_radix(number, 16).map(Slot).map_err(|_| format!("{answer} is no count"))
    }
}
