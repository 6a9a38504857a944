//! Explanations that do not come from a lane's memory: its lane runs on another node, or on none. Said from what is stored.

use landfall_core::lane::{Hold, UnknownSlot, Until, also_delegates, in_block, taken_sentence};
use landfall_core::ports::store::{LaneRow, LaneSummary};
use landfall_core::transaction::{Transaction, TxState};
use landfall_core::{LaneId, SessionId, Slot};

use crate::handle::Handle;
use crate::mailbox::Question;

impl Handle {
    /// Nonces of a lane that the chain has used and the store does not know, with what used them as far as it was found out; or why they
    /// were not looked at here. A lane that nobody runs is taken by a node, so that it can be asked again.
    pub async fn unknown_nonces(
        &self,
        lane: LaneId,
        owner: Option<&(String, SessionId)>,
    ) -> Result<Vec<UnknownSlot>, String> {
        let (shared, chain) = (&self.shared, lane.chain);
        if shared.directory.has_seen_chain(lane)
            && let Some(unknown) = self.ask(lane, Question::Unknown).await
        {
            return Ok(unknown);
        }
        if let Some((node, session)) = owner.filter(|(_, session)| *session != shared.session) {
            let address = self.store().address(*session).await.ok().flatten();
            if *node == shared.parts.node || (address.is_some() && address == shared.parts.address) {
                let earlier = "an earlier run of this node held it when it ended, or when the copy was made; wait until its lease ends";
                return Err(earlier.to_owned());
            }
            let there = address.map_or_else(|| "ask there".to_owned(), |address| format!("ask {address}"));
            return Err(format!("node {node} runs it: {there}. If that node is gone, try again in a moment"));
        }
        if let Some(trouble) = shared.lane_troubles().remove(&lane) {
            return Err(trouble);
        }
        if self.runs(lane) {
            let why = shared.trouble_of(chain).unwrap_or_else(|| "try again in a moment".to_owned());
            return Err(format!(
                "this node runs it, and has not seen its account on chain {chain} yet: {why}"
            ));
        }
        if !shared.parts.signers.contains_key(&lane) {
            return Err("no node runs it, and no signer is configured for it here".to_owned());
        }
        shared.work_for(lane);
        Err("no node runs it yet: try again in a moment".to_owned())
    }

    /// Why a lane assigns no nonces. None if it does, or does not run here.
    pub async fn explain_lane(&self, lane: LaneId) -> Option<String> {
        let hold = self.hold(lane).await.map(|hold| hold.sentence());
        match hold.or_else(|| self.shared.lane_troubles().remove(&lane)) {
            Some(why) => Some(why),
            // A lane that does not run here holds as well.
            None => self.explain_older().await,
        }
    }

    /// Why every lane is on hold, if the store is an older copy.
    pub async fn explain_older(&self) -> Option<String> {
        self.older().await.ok().flatten().map(|why| Hold::StoreOlder { why }.sentence())
    }

    /// The same on any node: from its own words if it runs here, else from what its owner has stored.
    pub async fn explain_stored_lane(&self, summary: &LaneSummary) -> Option<String> {
        let told = self.explain_lane(summary.lane).await;
        if told.is_some() || self.runs(summary.lane) {
            return told;
        }
        stored_hold(&summary.row).map(|hold| hold.sentence())
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
        let older = self.older().await.ok().flatten().map(|why| Hold::StoreOlder { why });
        let hold = older.or_else(|| stored.as_ref().and_then(|lane| stored_hold(&lane.row)));
        let where_it_is = self.stored_place(tx, hold);
        let who = self.who_works(tx.lane, stored.as_ref());
        format!("{where_it_is}; {who}")
    }

    /// How far it has come, by what is stored.
    fn stored_place(&self, tx: &Transaction, hold: Option<Hold>) -> String {
        let status = &tx.status;
        if let Some(receipt) = &status.receipt {
            let chain = tx.lane.chain;
            let finality = tx.request.options.finality.unwrap_or(self.finality(chain));
            return in_block(self.view(chain).as_deref(), &receipt.block, finality);
        }
        let also = || hold.as_ref().map_or(String::new(), |hold| format!("; also, {}", hold.sentence()));
        if let Some(held) = &status.held {
            return format!("{}; waiting for a person to approve it or to reject it{}", held.text, also());
        }
        match (status.state, status.slot) {
            (TxState::AwaitingApproval, _) => {
                format!("waiting for a person to approve it{}{}", also_delegates(tx), also())
            }
            (TxState::Accepted | TxState::Simulated, None) => match hold {
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
fn stored_hold(row: &LaneRow) -> Option<Hold> {
    // A count from before an older store was accepted says nothing of what was settled since.
    let is_older = row.accepted_below.is_some_and(|below| row.chain_count < Some(below));
    if let (Some(history), Some(count)) = (row.history, row.chain_count)
        && count <= history
        && !is_older
    {
        return Some(Hold::FinalReplaced { slot: count });
    }
    if row.paused {
        return Some(Hold::Paused);
    }
    let (cursor, count) = (row.cursor?, row.chain_count?);
    let (last, until) = (Slot(count.0.saturating_sub(1)), Until::Person);
    if count > cursor {
        return Some(Hold::UnknownSlots { first: cursor, last, until });
    }
    row.compared_from.filter(|below| below.0 > 0).map(|below| Hold::NotCompared { below })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_from_before_an_acceptance_does_not_say_that_final_blocks_are_gone() {
        let (history, chain_count, cursor) = (Some(Slot(6)), Some(Slot(3)), Some(Slot(7)));
        let of =
            |accepted_below| LaneRow { history, chain_count, cursor, accepted_below, ..LaneRow::default() };
        assert_eq!(stored_hold(&of(None)), Some(Hold::FinalReplaced { slot: Slot(3) }));
        assert_eq!(stored_hold(&of(Some(Slot(3)))), Some(Hold::FinalReplaced { slot: Slot(3) }));
        assert_eq!(stored_hold(&of(Some(Slot(4)))), None);
    }

    #[test]
    fn a_lane_that_runs_elsewhere_holds_for_nonces_that_were_compared_with_nothing() {
        let (cursor, chain_count) = (Some(Slot(1_031)), Some(Slot(1_031)));
        let of = |compared_from| LaneRow { cursor, chain_count, compared_from, ..LaneRow::default() };
        assert_eq!(stored_hold(&of(Some(Slot(31)))), Some(Hold::NotCompared { below: Slot(31) }));
        assert_eq!(stored_hold(&of(Some(Slot(0)))), None);
        assert_eq!(stored_hold(&of(None)), None);
    }
}
