//! After a store was put back: what is paid twice, and what is not paid at all.

use std::collections::BTreeMap;

use landfall_core::journal::Entry;
use landfall_core::ports::store::Reads;
use landfall_core::transaction::ReasonCode;
use landfall_core::{JournalSeq, LaneId, TxHash};

use super::Checkers;
use crate::chain::wire::Content;
use crate::put_back::Truth;
use crate::world::Rule;

/// The bytes that carried a content out, by nonce.
type Landings = BTreeMap<u64, TxHash>;

impl Checkers {
    fn landings(&self) -> BTreeMap<(LaneId, Content), Landings> {
        let mut landings: BTreeMap<(LaneId, Content), Landings> = BTreeMap::new();
        for block in self.forks().iter().flat_map(|fork| fork.iter()) {
            for (hash, wire) in &block.txs {
                let lane = LaneId { chain: wire.chain, signer: wire.from };
                if let Some(content) = wire.content() {
                    landings.entry((lane, content)).or_default().insert(wire.nonce, *hash);
                }
            }
        }
        landings
    }

    /// What was signed after the store was put back does nothing more often than it is wanted, also if kept bytes do the same later.
    pub(crate) fn pays_nothing_twice(&self, truth: &Truth) {
        for ((lane, content), landings) in self.landings() {
            let wanted = truth.wanted(content);
            let new = landings.iter().find(|(_, hash)| !truth.before.contains(*hash));
            if let Some((nonce, hash)) = new.filter(|_| landings.len() > wanted) {
                let (marker, slots) = (content.marker, landings.keys().collect::<Vec<_>>());
                let text = format!(
                    "request {marker:x} is wanted {wanted} times and was sent again by {hash} in slot {nonce}: {lane}, slots {slots:?}"
                );
                self.world.violated(Rule::LandsOnce, text);
            }
        }
    }

    /// What a lane had seen used by what it does not know, it does not give out again, also if that was taken back meanwhile.
    pub(crate) async fn gives_out_nothing_seen(&self, truth: &Truth) {
        for row in self.memory.journal_after(JournalSeq(0), u32::MAX).await.unwrap_or_default() {
            let Entry::Signed { slot, hash, .. } = row.entry else { continue };
            let known = truth.cursors.get(&row.lane).copied().unwrap_or(0);
            let seen = truth.shown.get(&row.lane).is_some_and(|shown| (known..*shown).contains(&slot.0));
            if seen && !truth.before.contains(&hash) {
                let text = format!("slot {slot} of {} was taken back and given out again", row.lane);
                self.world.violated(Rule::HoldsWhenUnsure, text);
            }
        }
    }

    /// Where all who did the same were there to be compared, those that a lane calls landed by itself are those that had landed.
    pub(crate) async fn tells_apart(&self, truth: &Truth) {
        let landings = self.landings();
        for wish in &truth.wishes {
            let lane = wish.submission.lane;
            let (Some(id), Some(below)) = (wish.tx, truth.compared_below.get(&lane)) else { continue };
            let has_bytes = self.memory.tx(id).await.ok().flatten().is_none_or(|tx| !tx.attempts.is_empty());
            let rows = self.memory.journal(id).await.unwrap_or_default();
            let carried_out = rows.iter().any(|row| match row.entry {
                Entry::CarriedOut { slot, .. } => slot.0 < *below,
                _ => false,
            });
            if has_bytes || !carried_out {
                continue;
            }
            let content = Content { marker: wish.marker, replaced: 0 };
            let own = |hash: &TxHash| wish.first.is_some() && truth.by_hash.get(hash) == wish.first.as_ref();
            if !landings.get(&(lane, content)).is_some_and(|landings| landings.values().any(own)) {
                let text = format!("{id} is called landed, and it was another one of {:x}", wish.marker);
                self.world.violated(Rule::TellsApart, text);
            }
        }
    }

    /// Everything has ended, and every wish was carried out.
    pub(crate) async fn wishes_are_carried_out(&self, truth: &Truth) {
        let mut given_up = truth.unwanted.clone();
        for tx in self.all().await {
            if !tx.status.state.is_terminal() {
                let (state, slot) = (tx.status.state.name(), tx.status.slot);
                let text =
                    format!("{} is {state} in slot {slot:?} of {}: {:?}", tx.id, tx.lane, tx.status.held);
                self.world.violated(Rule::Ends, text);
            }
            let displaced =
                tx.status.reason.as_ref().is_some_and(|reason| reason.code == ReasonCode::Displaced);
            if let Some(content) = Content::read(&tx.request.payload.data).filter(|_| displaced) {
                *given_up.entry(content.marker).or_default() += 1;
            }
        }
        let mut landed: BTreeMap<u64, usize> = BTreeMap::new();
        for ((_, content), landings) in self.landings() {
            *landed.entry(content.marker).or_default() += landings.len();
        }
        for wish in &truth.wishes {
            let known = match wish.tx {
                Some(tx) => self.memory.tx(tx).await.ok().flatten().is_some(),
                None => false,
            };
            if !known {
                let text = format!("wish {:x} was handed in as {:?} and is not there", wish.marker, wish.tx);
                self.world.violated(Rule::AcceptedIsKept, text);
                continue;
            }
            let of = |counts: &BTreeMap<u64, usize>| counts.get(&wish.marker).copied().unwrap_or(0);
            let wanted = truth.wishes.iter().filter(|other| other.marker == wish.marker).count();
            if of(&landed) + of(&given_up) < wanted {
                let (marker, landed) = (wish.marker, of(&landed));
                let text = format!("request {marker:x} is wanted {wanted} times and landed {landed} times");
                self.world.violated(Rule::AcceptedIsKept, text);
            }
        }
    }
}
