//! Accounts and storage at the head, with an undo record per block.
//!
//! Older blocks are read by looking for the first later block that touched the value: what it overwrote is the answer.
//! Memory is the live state plus what the last `window` blocks changed. Rewinding plays the records back.

use std::collections::{HashMap, VecDeque};

use alloy_primitives::{Address, B256, Bytes, U256};
use revm::{bytecode::Bytecode, state::AccountInfo};

/// What one block overwrote.
#[derive(Debug, Default)]
struct Undo {
    infos: HashMap<Address, Option<AccountInfo>>,
    slots: HashMap<(Address, U256), U256>,
}

#[derive(Debug)]
pub(crate) struct State {
    infos: HashMap<Address, AccountInfo>,
    slots: HashMap<(Address, U256), U256>,
    /// Writes since the last seal: those of the block being built, or made by hand between blocks.
    open: Undo,
    /// One record per sealed block, the head's last.
    sealed: VecDeque<Undo>,
    head: u64,
    window: u64,
}

/// The asked block is older than the kept history.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("historical state of block {0} is not available")]
pub(crate) struct Pruned(pub(crate) u64);

impl State {
    pub(crate) fn new(funded: &[(Address, U256)], window: u64) -> Self {
        let infos = funded.iter().map(|(a, b)| (*a, AccountInfo::from_balance(*b))).collect();
        let window = window.max(1);
        Self { infos, slots: HashMap::new(), open: Undo::default(), sealed: VecDeque::new(), head: 0, window }
    }

    pub(crate) fn info(&self, address: Address) -> Option<&AccountInfo> {
        self.infos.get(&address)
    }

    pub(crate) fn nonce(&self, address: Address) -> u64 {
        self.info(address).map_or(0, |i| i.nonce)
    }

    pub(crate) fn balance(&self, address: Address) -> U256 {
        self.info(address).map_or(U256::ZERO, |i| i.balance)
    }

    pub(crate) fn slot(&self, address: Address, slot: U256) -> U256 {
        self.slots.get(&(address, slot)).copied().unwrap_or_default()
    }

    pub(crate) fn write_info(&mut self, address: Address, info: Option<AccountInfo>) {
        let before = match info {
            Some(info) => self.infos.insert(address, info),
            None => self.infos.remove(&address),
        };
        self.open.infos.entry(address).or_insert(before);
    }

    pub(crate) fn write_slot(&mut self, address: Address, slot: U256, value: U256) {
        let key = (address, slot);
        let before = if value.is_zero() { self.slots.remove(&key) } else { self.slots.insert(key, value) };
        self.open.slots.entry(key).or_insert(before.unwrap_or_default());
    }

    pub(crate) fn set_balance(&mut self, address: Address, balance: U256) {
        let mut info = self.info(address).cloned().unwrap_or_default();
        info.balance = balance;
        self.write_info(address, Some(info));
    }

    pub(crate) fn set_code(&mut self, address: Address, code: Bytes) {
        let info = self.info(address).cloned().unwrap_or_default();
        let code = Bytecode::new_raw(code);
        let info = AccountInfo { code_hash: code.hash_slow(), code: Some(code), ..info };
        self.write_info(address, Some(info));
    }

    /// Ends the block being built: its writes become history.
    pub(crate) fn seal(&mut self) {
        self.sealed.push_back(std::mem::take(&mut self.open));
        self.head += 1;
        while self.sealed.len() as u64 > self.window {
            self.sealed.pop_front();
        }
    }

    /// How many blocks can be taken back.
    pub(crate) fn depth(&self) -> u64 {
        self.sealed.len() as u64
    }

    /// Takes back unsealed writes and then `blocks` sealed blocks (at most `depth`).
    pub(crate) fn rewind(&mut self, blocks: u64) {
        let open = std::mem::take(&mut self.open);
        self.play_back(open);
        for _ in 0..blocks {
            let Some(undo) = self.sealed.pop_back() else { return };
            self.play_back(undo);
            self.head -= 1;
        }
    }

    fn play_back(&mut self, undo: Undo) {
        for (address, info) in undo.infos {
            match info {
                Some(info) => self.infos.insert(address, info),
                None => self.infos.remove(&address),
            };
        }
        for (key, value) in undo.slots {
            if value.is_zero() {
                self.slots.remove(&key)
            } else {
                self.slots.insert(key, value)
            };
        }
    }

    pub(crate) fn info_at(&self, block: u64, address: Address) -> Result<Option<AccountInfo>, Pruned> {
        let before = self.later(block)?.find_map(|undo| undo.infos.get(&address));
        Ok(before.cloned().unwrap_or_else(|| self.info(address).cloned()))
    }

    pub(crate) fn slot_at(&self, block: u64, address: Address, slot: U256) -> Result<U256, Pruned> {
        let before = self.later(block)?.find_map(|undo| undo.slots.get(&(address, slot)));
        Ok(before.copied().unwrap_or_else(|| self.slot(address, slot)))
    }

    /// The records after `block`, oldest first. At the head there are none: writes made by hand show at once.
    fn later(&self, block: u64) -> Result<impl Iterator<Item = &Undo>, Pruned> {
        let back = self.head.saturating_sub(block);
        if back > self.depth() {
            return Err(Pruned(block));
        }
        let skip = (self.depth() - back) as usize;
        let open = (back > 0).then_some(&self.open);
        Ok(self.sealed.iter().skip(skip).chain(open))
    }
}

/// The bytes of an account's code.
pub(crate) fn code_of(info: &AccountInfo) -> Bytes {
    info.code.as_ref().map(Bytecode::original_bytes).unwrap_or_default()
}

/// A stand-in for the state root: chained over what happened, not a trie root. Nothing here proves storage.
pub(crate) fn chained_root(parent: B256, receipts_root: B256, fork: u64) -> B256 {
    let mut bytes = [0u8; 72];
    bytes[..32].copy_from_slice(parent.as_slice());
    bytes[32..64].copy_from_slice(receipts_root.as_slice());
    bytes[64..].copy_from_slice(&fork.to_be_bytes());
    alloy_primitives::keccak256(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = Address::repeat_byte(1);

    fn balance_at(state: &State, block: u64) -> u64 {
        state.info_at(block, A).unwrap().map_or(0, |i| i.balance.to())
    }

    #[test]
    fn older_blocks_are_read_through_the_records_and_rewound_by_them() {
        let mut state = State::new(&[(A, U256::from(10))], 256);
        for balance in [11, 12, 12, 14] {
            if balance != 12 || state.head == 1 {
                state.set_balance(A, U256::from(balance));
            }
            state.write_slot(A, U256::ZERO, U256::from(balance));
            state.seal();
        }
        assert_eq!((0..5).map(|b| balance_at(&state, b)).collect::<Vec<_>>(), [10, 11, 12, 12, 14]);
        assert_eq!(state.slot_at(0, A, U256::ZERO).unwrap(), U256::ZERO);
        assert_eq!(state.slot_at(2, A, U256::ZERO).unwrap(), U256::from(12));

        state.rewind(3);
        assert_eq!(balance_at(&state, 1), 11);
        assert_eq!(state.slot(A, U256::ZERO), U256::from(11));
    }

    #[test]
    fn history_is_bounded() {
        let mut state = State::new(&[], 3);
        for n in 0..10u64 {
            state.set_balance(A, U256::from(n));
            state.seal();
        }
        assert_eq!(state.depth(), 3);
        assert_eq!(state.info_at(6, A), Err(Pruned(6)));
        assert_eq!(balance_at(&state, 7), 6);
    }
}
