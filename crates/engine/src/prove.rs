//! Proving who took a slot: the final block in which the account's count passed it, and what of the account's is in it.

use landfall_core::lane::{LaneEvent, Proof};
use landfall_core::ports::chain::{BlockAt, Chain, Error};
use landfall_core::view::BlockRef;
use landfall_core::witness::SecondWord;
use landfall_core::{LaneId, Slot};

#[cfg(test)]
mod tests;

/// Looks for the block in which the count passed the slot. Everything is asked of blocks that are final, so answers of
/// different endpoints speak of the same chain; what cannot be read proves nothing.
pub(crate) async fn prove(chain: &dyn Chain, lane: LaneId, proof: Proof) -> LaneEvent {
    let slot = proof.slot;
    let found = async {
        let Some(block) = passing_block(chain, lane, slot, proof.up_to).await? else { return Ok(None) };
        let receipts = chain.block_receipts(&block).await?;
        if let Some(receipt) = receipts.iter().find(|receipt| proof.ours.contains(&receipt.hash)) {
            tracing::debug!(hash = %receipt.hash, "the slot is ours after all; its receipt will be found");
            return Ok(None);
        }
        let mut taker = chain.taker(&block, lane.signer, slot).await?;
        // A node that has lost its receipts may show none where the block holds our transaction (H1).
        if taker.as_ref().is_some_and(|taker| proof.ours.contains(&taker.hash)) {
            tracing::debug!(chain = %lane.chain, %slot, "the block holds one of ours, but its receipt is not shown");
            return Ok(None);
        }
        if let Some(taker) = &mut taker {
            taker.receipt = receipts.into_iter().find(|receipt| receipt.hash == taker.hash);
            // A transaction may end as this says, so it is no word of one endpoint alone; nor is that there is none.
            let words = chain.second(taker.receipt.as_slice()).await;
            let is_known = match words.first() {
                Some(word) => *word == SecondWord::Same,
                None => chain.endpoints().len() < 2,
            };
            if !is_known {
                let hash = taker.hash;
                tracing::debug!(chain = %lane.chain, %slot, %hash, ?words, "no two endpoints give the receipt of what took the slot");
                return Ok(None);
            }
        }
        Ok::<_, Error>(Some(LaneEvent::Foreign { slot, block, taker }))
    };
    match found.await {
        Ok(Some(event)) => event,
        Ok(None) => LaneEvent::Unproven { slot },
        Err(error) => {
            tracing::debug!(chain = %lane.chain, %slot, %error, "who took the slot could not be found out yet");
            LaneEvent::Unproven { slot }
        }
    }
}

/// The first block at which the account's count is above the slot; none if that is not final yet. Steps back in growing
/// strides from the newest final block, then halves the distance: nodes that keep little history are asked for little.
async fn passing_block(
    chain: &dyn Chain,
    lane: LaneId,
    slot: Slot,
    up_to: u64,
) -> Result<Option<BlockRef>, Error> {
    let passed_at = async |number: u64| {
        let Some(block) = chain.block(BlockAt::Number(number)).await? else { return Ok(None) };
        let counts = chain.counts(&[lane.signer], &block.at).await?;
        let passed = counts.first().is_some_and(|count| *count > slot);
        Ok::<_, Error>(Some((block.at, passed)))
    };
    let Some((mut found, true)) = passed_at(up_to).await? else { return Ok(None) };
    let mut high = up_to;
    let mut stride = 8;
    let mut low = loop {
        let below = high.saturating_sub(stride);
        match passed_at(below).await? {
            Some((block, true)) if below > 0 => (found, high) = (block, below),
            // Nobody has sent anything in the first block: this node does not look at the block it is asked about.
            Some((_, true)) => return Ok(None),
            Some((_, false)) => break below,
            None => return Ok(None),
        }
        stride = stride.saturating_mul(4);
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match passed_at(middle).await? {
            Some((block, true)) => (found, high) = (block, middle),
            Some((_, false)) => low = middle,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}
