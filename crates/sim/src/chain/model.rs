//! The chain itself: what is in blocks, what is in pools, what each endpoint shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{B256, U256, keccak256};
use landfall_core::outcome::SendOutcome;
use landfall_core::view::{Block as CoreBlock, BlockRef, Receipt};
use landfall_core::{Account, Gas, Millis, Price, TxHash, Wei};

use super::wire::Wire;

/// What an account has after a block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AccountState {
    pub(crate) count: u64,
    pub(crate) balance: U256,
    /// Its code is a delegation.
    pub(crate) delegated: bool,
}

/// A block with what follows from it.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) header: CoreBlock,
    pub(crate) txs: Vec<(TxHash, Wire)>,
    pub(crate) accounts: BTreeMap<Account, AccountState>,
    /// What the bytes of each of its transactions cost on top of gas.
    pub(crate) data_fee: u64,
}

/// Blocks from the first to the head.
pub(crate) type Fork = Arc<Vec<Arc<Block>>>;

/// What one endpoint has.
#[derive(Debug, Default)]
pub(crate) struct Endpoint {
    pub(crate) fork: Fork,
    pub(crate) pool: BTreeMap<(Account, u64), (TxHash, Wire)>,
    /// It shows nothing newer until then.
    pub(crate) stale_until: u64,
    pub(crate) down_until: u64,
}

pub(crate) const FIRST_BALANCE: u64 = 1_000_000_000_000_000_000;
const BLOCK_GAS_LIMIT: u64 = 30_000_000;
const BLOCK_TXS: usize = 200;
const QUEUED: u64 = 64;

/// What becomes of what was in blocks that are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is in the pools again.
    Pooled,
    Lost,
    /// The makers of the fork that won had other bytes for some slots: those that a stranger's had pushed aside.
    RivalsWin,
}

#[derive(Debug)]
pub(crate) struct ChainModel {
    pub(crate) fork: Fork,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) base_fee: u128,
    /// Makes every block of this chain different from those of another with the same id.
    pub(crate) salt: u64,
    pub(crate) halted_until: u64,
    pub(crate) reorgs: u64,
    /// What a stranger's bytes pushed out of the pools. Nodes that never saw the stranger's still have these.
    pub(crate) rivals: BTreeMap<(Account, u64), (TxHash, Wire)>,
    /// The latest time that any block said.
    pub(crate) latest: Millis,
    /// What the bytes of any transaction cost on top of gas.
    pub(crate) data_fee: u64,
    /// One endpoint is on a fork of its own.
    pub(crate) alone: Option<Alone>,
}

/// An endpoint that nobody follows: it makes blocks of its own, and shows them.
#[derive(Debug)]
pub(crate) struct Alone {
    pub(crate) endpoint: usize,
    fork: Fork,
    salt: u64,
    until: u64,
}

/// A base fee in ordinary times.
pub(crate) const BASE_FEE: u128 = 1_000_000_000;
/// What the chain pays to makers in ordinary times.
pub(crate) const TIP: u128 = 1_000_000_000;

impl ChainModel {
    #[must_use]
    pub(crate) fn new(salt: u64, accounts: &[Account], endpoints: usize, at_ms: u64) -> Self {
        let state = AccountState { balance: U256::from(FIRST_BALANCE), ..AccountState::default() };
        let accounts: BTreeMap<_, _> = accounts.iter().map(|account| (*account, state)).collect();
        let genesis = Block {
            header: header(0, B256::ZERO, salt, at_ms, BASE_FEE, &[]),
            txs: Vec::new(),
            accounts,
            data_fee: 0,
        };
        let fork: Fork = Arc::new(vec![Arc::new(genesis)]);
        let endpoints =
            (0..endpoints).map(|_| Endpoint { fork: fork.clone(), ..Endpoint::default() }).collect();
        Self {
            fork,
            endpoints,
            base_fee: BASE_FEE,
            salt,
            halted_until: 0,
            reorgs: 0,
            rivals: BTreeMap::new(),
            latest: Millis(at_ms),
            data_fee: 0,
            alone: None,
        }
    }

    #[must_use]
    pub(crate) fn head(&self) -> &Arc<Block> {
        head(&self.fork)
    }

    #[must_use]
    pub(crate) fn account(&self, account: &Account) -> AccountState {
        self.head().accounts.get(account).copied().unwrap_or_default()
    }

    /// Sets a balance, from the next block's state on.
    pub(crate) fn set_balance(&mut self, account: Account, balance: U256) {
        let blocks = Arc::make_mut(&mut self.fork);
        if let Some(last) = blocks.last_mut() {
            let mut accounts = last.accounts.clone();
            accounts.entry(account).or_default().balance = balance;
            let (header, txs) = (last.header, last.txs.clone());
            *last = Arc::new(Block { header, txs, accounts, data_fee: last.data_fee });
        }
    }

    /// Takes bytes into one endpoint's pool, by the pool's rules.
    pub(crate) fn admit(&mut self, endpoint: usize, wire: &Wire) -> SendOutcome {
        let hash = wire.hash();
        let Some(at) = self.endpoints.get_mut(endpoint) else { return SendOutcome::Unknown };
        let state = head(&at.fork).accounts.get(&wire.from).copied().unwrap_or_default();
        if wire.nonce < state.count {
            return SendOutcome::NonceTooLow;
        }
        let key = (wire.from, wire.nonce);
        if let Some((known, other)) = at.pool.get(&key) {
            if *known == hash {
                return SendOutcome::AlreadyKnown;
            }
            let enough =
                |new: u128, old: u128| new.saturating_mul(100) >= old.saturating_mul(110) && new > old;
            if !enough(wire.cap, other.cap) || !enough(wire.tip, other.tip) {
                return SendOutcome::ReplacementUnderpriced;
            }
        }
        if wire.cost().saturating_add(U256::from(self.data_fee)) > state.balance {
            return SendOutcome::InsufficientFunds;
        }
        let executable = (state.count..wire.nonce).all(|nonce| at.pool.contains_key(&(wire.from, nonce)));
        if !executable && wire.nonce > state.count + QUEUED {
            // As real pools do: a yes, and nothing kept.
            return SendOutcome::Accepted;
        }
        at.pool.insert(key, (hash, wire.clone()));
        SendOutcome::Accepted
    }

    /// Pools tell each other what they have; the better-paid of two for one slot wins.
    pub(crate) fn gossip(&mut self) {
        let all: Vec<Wire> =
            self.endpoints.iter().flat_map(|at| at.pool.values().map(|(_, wire)| wire.clone())).collect();
        for wire in all {
            for endpoint in 0..self.endpoints.len() {
                self.admit(endpoint, &wire);
            }
        }
    }

    /// Makes a block of what one endpoint's pool has, at that time of day. Nobody has seen it before the next [`Self::show`].
    pub(crate) fn mine(&mut self, endpoint: usize, at_ms: u64, empty: bool) -> Arc<Block> {
        let parent = self.head().clone();
        let mut accounts = parent.accounts.clone();
        let mut txs = Vec::new();
        let data_fee = U256::from(self.data_fee);
        if let Some(at) = self.endpoints.get(endpoint).filter(|_| !empty) {
            for ((from, nonce), (hash, wire)) in &at.pool {
                let state = accounts.entry(*from).or_default();
                let takes = *nonce == state.count
                    && wire.cap >= self.base_fee
                    && wire.cost().saturating_add(data_fee) <= state.balance
                    && txs.len() < BLOCK_TXS;
                if takes {
                    let price = wire.cap.min(self.base_fee.saturating_add(wire.tip));
                    let paid = U256::from(price).saturating_mul(U256::from(wire.gas));
                    state.count += if wire.delegates.is_some() { 2 } else { 1 };
                    state.delegated = wire.delegates.unwrap_or(state.delegated);
                    state.balance = state.balance.saturating_sub(paid).saturating_sub(data_fee);
                    txs.push((*hash, wire.clone()));
                }
            }
        }
        let number = parent.header.at.number + 1;
        let hashes: Vec<TxHash> = txs.iter().map(|(hash, _)| *hash).collect();
        let header = header(number, parent.header.at.hash, self.salt, at_ms, self.base_fee, &hashes);
        self.latest = self.latest.max(header.timestamp);
        let block = Arc::new(Block { header, txs, accounts, data_fee: self.data_fee });
        Arc::make_mut(&mut self.fork).push(block.clone());
        block
    }

    /// Endpoints that are not stale show the newest chain and drop from their pools what it has used.
    pub(crate) fn show(&mut self, now: u64) {
        if self.alone.as_ref().is_some_and(|alone| alone.until <= now) {
            self.alone = None;
        }
        let alone = self.alone.as_ref().map(|alone| alone.endpoint);
        for (place, at) in self.endpoints.iter_mut().enumerate() {
            if at.stale_until <= now && alone != Some(place) {
                at.fork = self.fork.clone();
                let accounts = &head(&self.fork).accounts;
                at.pool
                    .retain(|(from, nonce), _| accounts.get(from).is_none_or(|state| *nonce >= state.count));
            }
        }
    }

    /// A stranger's bytes reach every pool, and pay more than anyone.
    pub(crate) fn push_aside(&mut self, wire: &Wire) {
        let key = (wire.from, wire.nonce);
        for at in &mut self.endpoints {
            if let Some(ours) = at.pool.insert(key, (wire.hash(), wire.clone())) {
                self.rivals.entry(key).or_insert(ours);
            }
        }
    }

    /// An endpoint leaves the others: so many blocks below the head its own begin, and they are more than those of all others.
    pub(crate) fn leave(&mut self, endpoint: usize, back: u64, salt: u64, until: u64, at_ms: u64) {
        let Some(at) = self.endpoints.get_mut(endpoint) else { return };
        let stay = self.fork.len().saturating_sub(usize::try_from(back).unwrap_or(usize::MAX)).max(1);
        for (hash, wire) in self.fork.iter().skip(stay).flat_map(|block| &block.txs) {
            at.pool.entry((wire.from, wire.nonce)).or_insert_with(|| (*hash, wire.clone()));
        }
        let fork = Arc::new(self.fork.iter().take(stay).cloned().collect());
        self.alone = Some(Alone { endpoint, fork, salt: salt | 1, until });
        for _ in 0..back + 2 {
            self.mine_alone(at_ms);
        }
    }

    /// The next block of whoever is on a fork of its own.
    pub(crate) fn mine_alone(&mut self, at_ms: u64) {
        let Some(mut alone) = self.alone.take() else { return };
        std::mem::swap(&mut self.fork, &mut alone.fork);
        std::mem::swap(&mut self.salt, &mut alone.salt);
        self.mine(alone.endpoint, at_ms, false);
        std::mem::swap(&mut self.fork, &mut alone.fork);
        std::mem::swap(&mut self.salt, &mut alone.salt);
        if let Some(at) = self.endpoints.get_mut(alone.endpoint) {
            at.fork = alone.fork.clone();
            let accounts = &head(&alone.fork).accounts;
            at.pool.retain(|(from, nonce), _| accounts.get(from).is_none_or(|state| *nonce >= state.count));
        }
        self.alone = Some(alone);
    }

    /// Takes blocks back.
    pub(crate) fn reorg(&mut self, depth: u64, fate: Fate, salt: u64) {
        let blocks = Arc::make_mut(&mut self.fork);
        let stay = blocks.len().saturating_sub(usize::try_from(depth).unwrap_or(usize::MAX)).max(1);
        let removed = blocks.split_off(stay);
        self.salt = self.salt.wrapping_add(salt | 1);
        self.reorgs += 1;
        if fate == Fate::Lost {
            return;
        }
        for (hash, wire) in removed.iter().flat_map(|block| block.txs.iter()) {
            let key = (wire.from, wire.nonce);
            let rival = self.rivals.get(&key).filter(|_| fate == Fate::RivalsWin);
            for at in &mut self.endpoints {
                match rival {
                    Some(rival) => {
                        at.pool.insert(key, rival.clone());
                    }
                    None => {
                        at.pool.entry(key).or_insert_with(|| (*hash, wire.clone()));
                    }
                }
            }
        }
    }

    /// The receipt of a hash on one fork.
    #[must_use]
    pub(crate) fn receipt(fork: &Fork, hash: &TxHash) -> Option<Receipt> {
        fork.iter().rev().find_map(|block| {
            let index = block.txs.iter().position(|(other, _)| other == hash)?;
            Some(receipt(block, index))
        })
    }
}

/// The receipt of one transaction of a block.
#[must_use]
pub(crate) fn receipt(block: &Block, index: usize) -> Receipt {
    let (hash, wire) = &block.txs[index];
    let base = block.header.base_fee.unwrap_or_default().0;
    Receipt {
        hash: *hash,
        block: block.header.at,
        index: index as u64,
        success: true,
        gas_used: Gas(wire.gas),
        gas_price: Price(wire.cap.min(base.saturating_add(wire.tip))),
        data_fee: (block.data_fee > 0).then(|| Wei(U256::from(block.data_fee))),
        contract: None,
    }
}

/// The newest block of a fork; every fork has its first.
#[must_use]
#[expect(
    clippy::indexing_slicing,
    reason = "a fork is never empty: it is made with its genesis and never loses it"
)]
pub(crate) fn head(fork: &Fork) -> &Arc<Block> {
    &fork[fork.len() - 1]
}

fn header(number: u64, parent: B256, salt: u64, at_ms: u64, base_fee: u128, txs: &[TxHash]) -> CoreBlock {
    let text = format!("{number}/{parent}/{salt}/{at_ms}/{base_fee}/{txs:?}");
    CoreBlock {
        at: BlockRef { number, hash: keccak256(text) },
        parent,
        timestamp: Millis(at_ms / 1_000 * 1_000),
        gas_limit: Gas(BLOCK_GAS_LIMIT),
        base_fee: Some(Price(base_fee)),
    }
}
