//! The end of what is kept: its nonce is used up in a block that is final, by itself or by another transaction.
//!
//! One endpoint's word is enough to look, and not to forget: where there are several, two must say that the nonce is used.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use landfall_core::request::Finality;
use landfall_core::view::{BlockRef, ChainView};
use landfall_core::{Account, ChainId, Slot, TxHash};
use tokio::time::Instant;

use super::super::errand::{Count, Errands};
use super::rounds::AT_ONCE;
use super::{Keeper, Kept, Whose};

/// How many endpoints must say the same.
const WITNESSES: usize = 2;
/// Others that do not answer are waited for as long.
const UNHEARD_LIMIT: Duration = Duration::from_secs(3_600);

/// Whether a nonce is used up for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Used,
    /// Somebody says that it is not.
    Open,
    /// The endpoints that could say it do not answer.
    Unheard,
}

/// The word of all endpoints on a nonce, by the counts that each has given.
pub(super) fn word(counts: &[Count], slot: Slot) -> Word {
    let is_used = |said: &&Count| matches!(said, Count::Is(count) | Count::AtLeast(count) if *count > slot);
    let used = counts.iter().filter(is_used).count();
    let silent = counts.iter().filter(|said| matches!(said, Count::AtLeast(count) if *count <= slot)).count();
    match used {
        used if used >= WITNESSES.min(counts.len()) => Word::Used,
        used if used + silent >= WITNESSES.min(counts.len()) => Word::Unheard,
        _ => Word::Open,
    }
}

impl Keeper {
    /// Looks at those whose nonces an endpoint says are used up. What may not be forgotten is given back, to be sent again if it is
    /// in no block.
    pub(super) async fn settle(
        &self,
        whose: &Whose,
        errands: Errands<'_>,
        view: &ChainView,
        finality: Finality,
        passed: Vec<(TxHash, Kept)>,
    ) -> Vec<(TxHash, Kept)> {
        let looked = self.look_for(whose, errands, view, passed).await;
        // At least one block on top, however little was asked for.
        let finality = match finality {
            Finality::Blocks(depth) => Finality::Blocks(depth.max(1)),
            Finality::Safe | Finality::Finalized => finality,
        };
        let Some(newest) = view.final_number(finality) else { return Vec::new() };
        let done: Vec<_> = looked
            .into_iter()
            .filter(|(_, kept)| match kept.landed {
                Some(block) => view.is_final(&block, finality),
                None => kept.passed_at.is_some_and(|at| at <= newest),
            })
            .collect();
        let accounts: BTreeSet<Account> = done.iter().map(|(_, kept)| kept.from).collect();
        let asking = accounts
            .into_iter()
            .map(|account| async move { (account, errands.counts_of_each(account, newest).await) });
        let counts: BTreeMap<Account, Vec<Count>> =
            stream::iter(asking).buffer_unordered(AT_ONCE).collect().await;
        let mut open = Vec::new();
        for (hash, kept) in done {
            let counts = counts.get(&kept.from).map(Vec::as_slice).unwrap_or_default();
            match self.may_forget(whose.0, hash, &kept, word(counts, kept.slot)) {
                Some(why) => self.forget((whose.0, hash), why).await,
                None => open.push((hash, kept)),
            }
        }
        open
    }

    /// Why it may be forgotten, if it may.
    fn may_forget(&self, chain: ChainId, hash: TxHash, kept: &Kept, word: Word) -> Option<&'static str> {
        let unheard_since = match word {
            Word::Used if kept.landed.is_some() => return Some("it is final"),
            Word::Used => return Some("another transaction with its nonce is final"),
            Word::Open => None,
            Word::Unheard => Some(kept.unheard_since.unwrap_or_else(Instant::now)),
        };
        if unheard_since.is_some_and(|since| since.elapsed() >= UNHEARD_LIMIT) {
            return Some(
                "its nonce is used, by one endpoint's word; the others have not answered for an hour",
            );
        }
        if let Some(kept) = self.all().get_mut(&(chain, hash)) {
            kept.unheard_since = unheard_since;
        }
        None
    }

    /// Asks for the blocks that these are in, and notes what is said.
    async fn look_for(
        &self,
        whose: &Whose,
        errands: Errands<'_>,
        view: &ChainView,
        passed: Vec<(TxHash, Kept)>,
    ) -> Vec<(TxHash, Kept)> {
        let looked = passed.into_iter().map(|(hash, kept)| async move {
            let stands = kept.landed.filter(|block| view.shows(block));
            let block = match stands {
                Some(block) => Ok(Some(block)),
                None => errands.block_of(hash).await,
            };
            (hash, kept, block)
        });
        let looked: Vec<_> = stream::iter(looked).buffer_unordered(AT_ONCE).collect().await;
        let head = view.head.at.number;
        let mut told = Vec::new();
        for (hash, mut kept, block) in looked {
            let Ok(block) = block else {
                // Looked at again at once, and not at the next block.
                if let Some(counted) = self.counted().get_mut(whose) {
                    counted.counts.remove(&kept.from);
                }
                continue;
            };
            kept.passed_at = Some(kept.passed_at.filter(|at| *at <= head).unwrap_or(head));
            kept.landed = block;
            self.note_passed(whose.0, hash, kept.passed_at, block);
            told.push((hash, kept));
        }
        told
    }

    /// Transactions that are open again, after a reorganisation or another endpoint's word: what was seen of their end counts no more.
    pub(super) fn reopen(&self, chain: ChainId, open: &[(TxHash, Kept, Slot)]) {
        for (hash, kept, _) in open {
            if kept.passed_at.is_some() || kept.landed.is_some() {
                self.note_passed(chain, *hash, None, None);
            }
            if kept.unheard_since.is_some()
                && let Some(kept) = self.all().get_mut(&(chain, *hash))
            {
                kept.unheard_since = None;
            }
        }
    }

    fn note_passed(&self, chain: ChainId, hash: TxHash, passed_at: Option<u64>, landed: Option<BlockRef>) {
        if let Some(kept) = self.all().get_mut(&(chain, hash)) {
            (kept.passed_at, kept.landed) = (passed_at, landed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_used_by_the_word_of_two_or_of_the_only_one() {
        let (yes, no, none) = (Count::Is(Slot(8)), Count::Is(Slot(7)), Count::AtLeast(Slot(0)));
        let said = |counts: &[Count]| word(counts, Slot(7));
        assert_eq!(said(&[yes]), Word::Used);
        assert_eq!(said(&[no]), Word::Open);
        assert_eq!(said(&[none]), Word::Unheard);
        assert_eq!(said(&[yes, no]), Word::Open);
        assert_eq!(said(&[yes, none]), Word::Unheard);
        assert_eq!(said(&[yes, no, none]), Word::Unheard);
        assert_eq!(said(&[yes, no, yes]), Word::Used);
        assert_eq!(said(&[no, no, none]), Word::Open);
        let behind = |count| Count::AtLeast(Slot(count));
        assert_eq!(said(&[yes, behind(7)]), Word::Unheard, "it cannot know");
        assert_eq!(said(&[yes, behind(8)]), Word::Used);
    }
}
