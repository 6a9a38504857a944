//! An EVM chain inside the process, with faults on demand.
//!
//! It executes real transactions on revm, keeps real blocks, receipts and a pool with geth's rules and words, and serves
//! JSON-RPC over HTTP and WebSocket. `landfall dev`, `landfall demo`, tests and benchmarks run against it; nothing here
//! knows Landfall.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use landfall_devchain::{Config, Devchain, Fault, Rule};
//!
//! let chain = Devchain::start(Config::new(Arc::new(|| 0))).await?;
//! chain.add_fault(Rule::sometimes(Fault::LoseReply, 0.1).on("eth_sendRawTransaction"));
//! chain.mine(1);
//! println!("{} holds {} transactions", chain.http_url(), chain.tx_count());
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: `tx` and `admit` (how a transaction gets in), `pool`, `mine` and `execute` (how it becomes part of a
//! block), `state` (what is left of it), `reorg`, `faults`, then `rpc` and `server`.

pub mod anvil;

mod accounts;
mod admit;
mod audit;
mod block;
mod chain;
mod config;
mod control;
mod devchain;
mod execute;
mod faults;
mod mine;
mod pool;
mod reject;
mod reorg;
mod rng;
mod rpc;
mod server;
mod state;
mod tx;
mod ws;

pub use accounts::{DevAccount, dev_accounts};
pub use audit::{Landed, Stats};
pub use config::{Clock, Config, Mining};
pub use control::Control;
pub use devchain::{Devchain, StartError};
pub use faults::{Fault, FaultCounts, Rule, RuleId};
pub use pool::PoolSize;
pub use reject::{Reject, Shortfall};
pub use reorg::{Removed, TooDeep};
