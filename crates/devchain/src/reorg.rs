//! Taking blocks back. The head is rewound, the removed transactions go where the caller says, and a longer chain of
//! other blocks takes the place, so that every client sees the switch.

use std::sync::Arc;

use crate::{block::Block, chain::Chain, mine::Fill};

/// What becomes of the transactions in the removed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removed {
    /// Back to the pool; the new blocks are empty, so they wait for the next ordinary block.
    Repool,
    /// Back to the pool and, as far as they fit, into the new blocks.
    Remine,
    /// Gone, as if the node had never seen them.
    Drop,
}

#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("cannot take back {asked} blocks, only {possible}")]
pub struct TooDeep {
    pub asked: u64,
    pub possible: u64,
}

impl Chain {
    /// Replaces the last `depth` blocks by `depth + 1` new ones, which are returned.
    pub(crate) fn reorg(&mut self, depth: u64, removed: Removed) -> Result<Vec<Arc<Block>>, TooDeep> {
        let possible = self.state.depth();
        if depth > possible {
            return Err(TooDeep { asked: depth, possible });
        }
        self.state.rewind(depth);
        self.forks += 1;
        let kept = self.blocks.len() - depth as usize;
        let gone = self.blocks.split_off(kept);
        for block in &gone {
            self.by_hash.remove(&block.hash);
            for mined in &block.txs {
                self.places.remove(&mined.tx.hash);
            }
        }
        // The pool must see the lower nonces before anything is put back.
        self.follow();
        if removed != Removed::Drop {
            for mined in gone.iter().flat_map(|b| &b.txs) {
                self.put_back(mined.tx.clone());
            }
        }
        let fill = match removed {
            Removed::Remine => Fill::FromPool,
            Removed::Repool | Removed::Drop => Fill::Nothing,
        };
        Ok((0..=depth).map(|_| self.mine(fill)).collect())
    }

    /// A removed transaction returns unless somebody has taken its place meanwhile.
    fn put_back(&mut self, tx: Arc<crate::tx::Tx>) {
        if self.pool.at(tx.sender, tx.nonce()).is_none() {
            let next = self.state.nonce(tx.sender);
            self.pool.insert(tx, next);
        }
    }
}
