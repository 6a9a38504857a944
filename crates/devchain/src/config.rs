//! What a chain is started with. Every key has a default; only the clock must be given, because time is passed in.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use alloy_primitives::{Address, U256};

use crate::accounts::dev_accounts;

/// Unix time in seconds, as the caller sees it.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// When blocks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mining {
    /// A block every so often, empty or not.
    Interval(Duration),
    /// A block as soon as the pool holds something executable.
    Instant,
    /// Only when `mine` is called.
    Manual,
}

#[derive(Clone)]
pub struct Config {
    /// Where HTTP and WebSocket are served; port 0 takes a free one.
    pub listen: SocketAddr,
    pub chain_id: u64,
    pub mining: Mining,
    /// Without execution, nonces, pool rules, hashes and receipts stay real, but no EVM runs and balances are not looked at.
    pub execute: bool,
    pub clock: Clock,
    /// Balances at genesis.
    pub funded: Vec<(Address, U256)>,
    /// What every account shows at least, whoever it is. Only without execution, where nothing is ever paid.
    pub everyone_has: U256,
    pub gas_limit: u64,
    /// Base fee of block 1, in wei.
    pub base_fee: u64,
    /// Smallest tip the pool takes, in wei.
    pub min_tip: u128,
    /// Largest `gas limit × fee cap` a sender may offer over RPC, in wei; geth's default is one ether.
    pub fee_cap: Option<U256>,
    /// Gapped transactions kept per account; more are dropped silently.
    pub queue_per_account: usize,
    /// Transactions in the whole pool.
    pub pool_limit: usize,
    /// How far `safe` is behind the head.
    pub safe_depth: u64,
    /// How far `finalized` is behind the head.
    pub finalized_depth: u64,
    /// Blocks whose state can still be read, and so the deepest reorg.
    pub history: u64,
    /// Seed of the faults and of random evictions.
    pub seed: u64,
}

impl Config {
    /// The defaults: a chain like `anvil`'s (id 31337, ten public test accounts with 10,000 ether), mined by hand.
    pub fn new(clock: Clock) -> Self {
        let ether = U256::from(1_000_000_000_000_000_000u64);
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            chain_id: 31_337,
            mining: Mining::Manual,
            execute: true,
            clock,
            funded: dev_accounts().map(|a| (a.address, ether * U256::from(10_000))).collect(),
            everyone_has: U256::ZERO,
            gas_limit: 30_000_000,
            base_fee: 1_000_000_000,
            min_tip: 1,
            fee_cap: Some(ether),
            queue_per_account: 64,
            pool_limit: 20_000,
            safe_depth: 1,
            finalized_depth: 2,
            history: 256,
            seed: 0,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("chain_id", &self.chain_id)
            .field("mining", &self.mining)
            .field("execute", &self.execute)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
