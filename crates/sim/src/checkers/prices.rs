//! What is made dearer, and why.

use std::collections::{BTreeMap, BTreeSet};

use landfall_core::journal::Entry;
use landfall_core::ports::store::Reads;
use landfall_core::{ContentVersion, JournalSeq, LaneId, Slot, TxId};

use super::Checkers;
use crate::world::Rule;

/// As the journal tells it so far.
#[derive(Default)]
struct Told {
    /// Slots in no block.
    open: BTreeMap<LaneId, BTreeSet<Slot>>,
    /// Where each transaction was last signed, and as which content.
    signed: BTreeMap<TxId, (Slot, ContentVersion)>,
    /// Those whose callers asked for more haste.
    hurried: BTreeSet<TxId>,
}

impl Checkers {
    /// In a quiet world: only the lowest open slot is made dearer, unless its caller asks for it, by a speed-up or by another
    /// content. The journal's numbers are the order of commits.
    pub(super) async fn only_the_lowest(&self) {
        let rows = self.memory.journal_after(JournalSeq(0), u32::MAX).await.unwrap_or_default();
        let mut told = Told::default();
        for row in &rows {
            let Some(tx) = row.tx else { continue };
            let open = told.open.entry(row.lane).or_default();
            match &row.entry {
                Entry::Signed { slot, version, .. } => {
                    let is_dearer = told.signed.insert(tx, (*slot, *version)) == Some((*slot, *version));
                    let lowest = open.first().copied();
                    open.insert(*slot);
                    if is_dearer && lowest < Some(*slot) && !told.hurried.contains(&tx) {
                        let text =
                            format!("{tx} is made dearer, and slot {lowest:?} is open: {:?}", row.entry);
                        self.world.violated(Rule::OnlyTheLowest, text);
                    }
                }
                Entry::SpeedUpAsked { .. } => {
                    told.hurried.insert(tx);
                }
                Entry::Mined { .. } => {
                    if let Some((slot, _)) = told.signed.get(&tx) {
                        open.remove(slot);
                    }
                }
                _ => {}
            }
        }
    }
}
