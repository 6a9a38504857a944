//! # landfall-core
//!
//! The product: what a transaction, a lane, a slot and an attempt are, and the two functions that move them,
//! [`Lane::apply`](lane::Lane::apply) and [`Lane::plan`](lane::Lane::plan).
//!
//! Everything here is pure: no I/O, no clock, no randomness, no threads. Time comes in as [`Millis`], the outside
//! world as [`LaneEvent`](lane::LaneEvent)s, and what should be done about it goes out as
//! [`LaneCommit`](ports::store::LaneCommit)s and [`Action`](lane::Action)s. The traits in [`ports`] are what
//! adapters implement; this crate must never know one of them.

pub mod attempt;
pub mod audit;
pub mod confirmations;
pub mod fees;
pub mod ids;
pub mod journal;
pub mod lane;
pub mod origin;
pub mod outcome;
pub mod ports;
pub mod request;
pub mod settings;
pub mod silence;
pub mod transaction;
pub mod units;
pub mod view;
pub mod witness;

pub use ids::{
    Account, ApiKeyId, CallerNonce, ChainId, CommandId, ContentVersion, Fingerprint, JournalSeq, LaneId,
    LaneVersion, Namespace, QueueOrder, RequestId, SessionId, Slot, Token, TxHash, TxId,
};
pub use origin::Origin;
pub use units::{Gas, Millis, Price, Wei};
