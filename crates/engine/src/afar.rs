//! Explanations that do not come from a lane's memory: its lane runs on another node, or on none. Said from what is stored.

use landfall_core::lane::{Hold, UnknownSlot, Until, in_block, taken_sentence};
use landfall_core::ports::store::LaneSummary;
use landfall_core::transaction::{Transaction, TxState};
use landfall_core::{LaneId, Slot};

use crate::handle::Handle;
use crate::mailbox::Question;

impl Handle {
    /// What used the nonces of a lane that it does not know, as far as it was found out. Nothing if it does not run here.
    pub async fn unknown_nonces(&self, lane: LaneId) -> Vec<UnknownSlot> {
        self.ask(lane, Question::Unknown).await.unwrap_or_default()
    }

    /// Why a lane assigns no nonces. None if it does, or does not run here.
    pub async fn explain_lane(&self, lane: LaneId) -> Option<String> {
        let hold = self.hold(lane).await.map(|hold| hold.sentence());
        match hold.or_else(|| self.shared.lane_troubles().remove(&lane)) {
            Some(why) => Some(why),
            // A lane that does not run here holds as well.
            None => self.older().await.ok().flatten().map(|why| Hold::StoreOlder { why }.sentence()),
        }
    }

    /// The same on any node: from its own words if it runs here, else from what its owner has stored.
    pub async fn explain_stored_lane(&self, summary: &LaneSummary) -> Option<String> {
        let told = self.explain_lane(summary.lane).await;
        if told.is_some() || self.runs(summary.lane) {
            return told;
        }
        stored_hold(summary).map(|hold| hold.sentence())
    }

    /// What can be said of a transaction that is not in its lane's memory here.
    pub async fn explain_from_afar(&self, tx: &Transaction) -> String {
        if !self.shared.parts.signers.contains_key(&tx.lane) {
            let known = "no signer is configured for its lane any more";
            return if tx.is_waiting() {
                format!("{known}; configure {} again to go on, or cancel it", tx.lane)
            } else {
                format!(
                    "{known}: nothing can be signed for its nonce, and what was signed may still land; configure {} again \
                     to go on",
                    tx.lane
                )
            };
        }
        let stored = self.store().lane(tx.lane).await.ok().flatten();
        let where_it_is = self.stored_place(tx, stored.as_ref());
        let who = self.who_works(tx.lane, stored.as_ref());
        format!("{where_it_is}; {who}")
    }

    /// How far it has come, by what is stored.
    fn stored_place(&self, tx: &Transaction, lane: Option<&LaneSummary>) -> String {
        let status = &tx.status;
        if let Some(receipt) = &status.receipt {
            let chain = tx.lane.chain;
            let finality = tx.request.options.finality.unwrap_or(self.finality(chain));
            return in_block(self.view(chain).as_deref(), &receipt.block, finality);
        }
        if let Some(held) = &status.held {
            return format!("{}; waiting for a person to approve it or to reject it", held.text);
        }
        match (status.state, status.slot) {
            (TxState::AwaitingApproval, _) => "waiting for a person to approve it".to_owned(),
            (TxState::Accepted | TxState::Simulated, None) => match lane.and_then(stored_hold) {
                Some(hold) => format!("waiting for a nonce: {}", hold.sentence()),
                None => "waiting for a nonce".to_owned(),
            },
            (_, Some(nonce)) if status.taken.is_some() => {
                status.taken.as_deref().map_or(String::new(), |taken| taken_sentence(tx, nonce, taken))
            }
            (_, Some(nonce)) if status.displaced => {
                format!("the chain has used nonce {nonce}, but shows no receipt for any of our attempts")
            }
            (TxState::Broadcast, Some(nonce)) => format!("sent with nonce {nonce}, and in no block yet"),
            (_, Some(nonce)) => format!("signed for nonce {nonce}, and in no block yet"),
            (_, None) => "waiting for a nonce".to_owned(),
        }
    }

    /// Who goes on with it.
    fn who_works(&self, lane: LaneId, stored: Option<&LaneSummary>) -> String {
        if self.runs(lane) {
            return "this node is bringing its lane up to date".to_owned();
        }
        if let Some(trouble) = self.shared.lane_troubles().remove(&lane) {
            return trouble;
        }
        match stored.and_then(|lane| lane.owner.as_ref()) {
            Some((_, session)) if *session == self.shared.session => {
                "this node is loading its lane".to_owned()
            }
            Some((node, _)) => format!("node {node} owns its lane"),
            None => "no node owns its lane yet; one takes it within seconds".to_owned(),
        }
    }
}

/// Why the owner assigns no nonces, as far as it has stored why.
fn stored_hold(lane: &LaneSummary) -> Option<Hold> {
    let row = &lane.row;
    if let (Some(history), Some(count)) = (row.history, row.chain_count)
        && count <= history
    {
        return Some(Hold::FinalReplaced { slot: count });
    }
    if row.paused {
        return Some(Hold::Paused);
    }
    let (cursor, count) = (row.cursor?, row.chain_count?);
    let (last, until) = (Slot(count.0.saturating_sub(1)), Until::Person);
    (count > cursor).then_some(Hold::UnknownSlots { first: cursor, last, until })
}
