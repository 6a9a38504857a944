//! Decisions by facts that had long changed.

use std::collections::BTreeMap;
use std::time::Duration;

use landfall_core::journal::{Entry, JournalRow};
use landfall_core::transaction::{ReasonCode, Transaction};
use landfall_core::view::BlockRef;
use landfall_core::{LaneId, Millis, Slot};

use super::Checkers;
use crate::world::Rule;

/// Where nothing hides the chain, every node has seen by then what a block changed.
const SEEN_BY_ALL: Duration = Duration::from_secs(10);

impl Checkers {
    /// Blocks of an endpoint that is on a fork of its own never become the chain's, and nothing else is taken back in such a world.
    pub(super) fn not_by_one(&self, tx: &Transaction, entries: &[JournalRow]) {
        let inner = self.world.lock();
        let Some(chain) = inner.chains.get(&tx.lane.chain) else { return };
        let is_shared = |block: &BlockRef| {
            let position = usize::try_from(block.number).ok();
            position.and_then(|position| chain.fork.get(position)).is_some_and(|of| of.header.at == *block)
        };
        let alone = entries.iter().find(|row| match &row.entry {
            Entry::Confirmed { block, .. } | Entry::Requeued { block, .. } => !is_shared(block),
            _ => false,
        });
        let text = alone.map(|row| format!("{} by a block of one endpoint: {:?}", tx.id, row.entry));
        drop(inner);
        if let Some(text) = text {
            self.world.violated(Rule::NotByOne, text);
        }
    }

    /// Nothing fails for want of money that its account has had for long.
    pub(super) fn fails_when_dry(&self, tx: &Transaction, entries: &[JournalRow]) {
        let empties = self.world.lock().empties.clone();
        let was_dry = |at: Millis| {
            let mut its_own = empties.iter().filter(|(lane, _, _)| *lane == tx.lane);
            its_own.any(|(_, from, until)| at >= *from && at <= until.after(SEEN_BY_ALL))
        };
        let failed = |row: &&JournalRow| match &row.entry {
            Entry::Failed { reason } => reason.code == ReasonCode::InsufficientFunds,
            _ => false,
        };
        if let Some(row) = entries.iter().filter(failed).find(|row| !was_dry(row.at)) {
            let text = format!("{} of {} when its account had money: {:?}", tx.id, tx.lane, row.entry);
            self.world.violated(Rule::JudgedByNow, text);
        }
    }

    /// When each slot was used by a stranger, as the chains show it.
    pub(super) fn taken_by_strangers(&self) -> BTreeMap<(LaneId, Slot), Millis> {
        let mut taken = BTreeMap::new();
        for block in self.forks().iter().flat_map(|fork| fork.iter()) {
            for (_, wire) in block.txs.iter().filter(|(_, wire)| wire.is_strangers()) {
                let lane = LaneId { chain: wire.chain, signer: wire.from };
                taken.insert((lane, Slot(wire.nonce)), block.header.timestamp);
            }
        }
        taken
    }

    /// No slot is bound that a stranger had used for long.
    pub(super) fn binds_what_is_free(
        &self,
        tx: &Transaction,
        entries: &[JournalRow],
        taken: &BTreeMap<(LaneId, Slot), Millis>,
    ) {
        for row in entries {
            let Entry::Signed { slot, attempt: 0, .. } = row.entry else { continue };
            if taken.get(&(tx.lane, slot)).is_some_and(|since| row.at > since.after(SEEN_BY_ALL)) {
                let text =
                    format!("{} was given slot {slot} of {}, which a stranger had used", tx.id, tx.lane);
                self.world.violated(Rule::JudgedByNow, text);
            }
        }
    }
}
