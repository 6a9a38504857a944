#![doc = include_str!("../README.md")]
//!
//! ## Reading order
//!
//! `tx` and `admit` (how a transaction gets in), `pool`, `mine` and `execute` (how it becomes part of a block), `state`
//! (what is left of it), `reorg`, `faults`, then `rpc` and `server`. `control` is what a caller holds. `proxy` and
//! `nemesis` need no chain of ours: they stand before and work on any node, such as `anvil`.

pub mod anvil;

mod accounts;
mod admit;
mod audit;
mod block;
mod chain;
mod config;
mod control;
mod cut;
mod devchain;
mod execute;
mod faults;
mod mine;
mod nemesis;
mod pool;
mod proxy;
mod reject;
mod reorg;
mod rng;
mod rpc;
mod server;
mod state;
mod traffic;
mod tx;
mod ws;

pub use accounts::{DevAccount, dev_accounts};
pub use audit::{Landed, Stats};
pub use config::{Clock, Config, Mining};
pub use control::Control;
pub use devchain::{Devchain, StartError};
pub use faults::{Fault, FaultCounts, Rule, RuleId};
pub use nemesis::{ChainTroubles, Ground, Nemesis};
pub use pool::PoolSize;
pub use proxy::{Proxy, ProxyCounts, Rates};
pub use reject::{Reject, Shortfall};
pub use reorg::{Removed, TooDeep};
pub use traffic::Traffic;
