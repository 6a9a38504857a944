//! Confirmations: the blocks on top of a receipt's, as a hash-linked list, and what a listener must be told of it (L9).
//!
//! The list is read from one view, so it never mixes two forks. A listener who knows the list up to some block is told
//! the blocks that came since; if that block is no longer part of it, it is told the whole list as a new fork.

use alloy_primitives::B256;

use crate::view::{BlockRef, ChainView, Receipt, Standing};

/// What a listener is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmations {
    /// What the listener knew is not part of the chain any more: these blocks take its place.
    pub new_fork: bool,
    /// The including block first, where the listener knew nothing or another fork; then those on top of it.
    pub blocks: Vec<BlockRef>,
}

/// The including block and those on top of it, lowest first, at most `most` of them; none while the view does not show it.
#[must_use]
pub fn list(view: &ChainView, receipt: &Receipt, most: u64) -> Vec<BlockRef> {
    if view.standing(&receipt.block) != Standing::Canonical {
        return Vec::new();
    }
    let end = receipt.block.number.saturating_add(most);
    let above = view.recent.range(receipt.block.number..=end);
    above.map(|(number, hash)| BlockRef { number: *number, hash: *hash }).collect()
}

/// What a listener who has seen the list up to the block with the hash `known` must be told.
#[must_use]
pub fn since(list: &[BlockRef], known: Option<&B256>) -> Confirmations {
    let Some(known) = known else { return Confirmations { new_fork: false, blocks: list.to_vec() } };
    match list.iter().position(|block| block.hash == *known) {
        Some(at) => Confirmations { new_fork: false, blocks: list[at + 1..].to_vec() },
        None => Confirmations { new_fork: true, blocks: list.to_vec() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;
    use proptest::prelude::*;

    fn block(number: u64, fork: u64) -> BlockRef {
        BlockRef { number, hash: keccak256(format!("{number} {fork}")) }
    }

    /// A listener who applies what it is told.
    fn listen(mut known: Vec<BlockRef>, now: &[BlockRef]) -> Vec<BlockRef> {
        let told = since(now, known.last().map(|block| &block.hash));
        if told.new_fork {
            known.clear();
        }
        known.extend(told.blocks);
        known
    }

    proptest! {
        // covers: L14
        #[test]
        fn a_listener_always_ends_with_the_list_as_it_is(
            before in 0u64..30, shared in 0u64..30, after in 0u64..30,
        ) {
            let first: Vec<BlockRef> = (0..before).map(|n| block(n, 1)).collect();
            let shared = shared.min(before);
            let second: Vec<BlockRef> = (0..shared)
                .map(|n| block(n, 1))
                .chain((shared..shared + after).map(|n| block(n, 2)))
                .collect();
            let heard = listen(Vec::new(), &first);
            prop_assert_eq!(&heard, &first);
            let told = since(&second, heard.last().map(|block| &block.hash));
            prop_assert_eq!(told.new_fork, shared < before, "a broken prefix, and only that, is a new fork");
            prop_assert_eq!(listen(heard, &second), second);
        }
    }
}
