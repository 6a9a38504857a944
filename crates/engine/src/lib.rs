//! # landfall-engine
//!
//! Runs lanes: reads and writes through the ports, decides nothing. The decisions are in `landfall-core`.
//!
//! ```text
//! Handle ── admit ──► Writer ──► store
//!    └─ wakes ─► Supervisor ─ acquires leases, starts ─► lane task ◄── Mailbox ◄── Watcher, actions
//! ```
//!
//! | file | what |
//! |---|---|
//! | `handle.rs` | what callers hold: submit, commands, look-ups, explanations |
//! | `afar.rs` | explanations of what runs on another node, or on none |
//! | `admission.rs` | which submissions are taken in |
//! | `at_admission.rs`, `awaited.rs` | lanes that hand out slots at admission |
//! | `at_once.rs` | callers that wait for a hash, in any lane |
//! | `steer.rs` | what can be asked of a transaction or a lane that exists |
//! | `writer.rs` | group commit |
//! | `supervisor.rs` | the session, leases, which lanes run here |
//! | `silent.rs` | ending the sessions of dead nodes |
//! | `spread.rs` | which node a lane belongs to |
//! | `lane_task.rs` | the loop of one lane: events, apply, commit, plan, start |
//! | `keyless.rs` | ending what waits in lanes without signer |
//! | `actions.rs` | doing what a plan asks for |
//! | `prove.rs` | finding out who took a slot |
//! | `watcher.rs`, `accounts.rs` | following one chain for all its lanes, and whose count is asked when |
//! | `witnesses.rs` | how far a chain is known to two endpoints |
//! | `retention.rs` | removing the history of what ended long ago |
//! | `telemetry.rs`, `lives.rs`, `gauges.rs` | what is counted and measured, and how lanes are named in logs |
//! | `mailbox.rs`, `directory.rs` | how events reach a lane |
//!
//! The crate knows ports only: no database, no RPC client. It spawns its tasks through one [`tasks::Tasks`], so that
//! dropping an engine ends all of it at once, as a crash would.

mod accept;
mod accounts;
mod actions;
mod admission;
mod afar;
mod at_admission;
mod at_once;
mod awaited;
mod crowd;
mod directory;
mod gauges;
mod handle;
mod keyless;
mod lane_task;
mod lives;
mod mailbox;
mod parts;
mod prove;
mod queues;
mod reader;
mod remembered;
mod retention;
mod same_chain;
mod silent;
mod spread;
mod steer;
mod supervisor;
mod tasks;
mod telemetry;
#[cfg(test)]
mod tests;
mod time;
mod watcher;
mod witnesses;
mod writer;

pub use accept::{AcceptError, Despite};
pub use admission::{Refused, Submission};
pub use at_once::{MUST_BE_APPROVED, Told};
pub use awaited::Listening;
pub use gauges::Gauges;
pub use handle::{ChainHealth, Engine, Handle, Health, SubmitError};
pub use parts::{ChainParts, Parts, PlantedInEngine, Timings};
pub use silent::BreakLease;
pub use steer::{AllCancelled, Cannot, SteerError, Wish};
pub use telemetry::{
    Fact, Meter, Milestone, ReceiptCheck, Renewal, Settled, ShownLane, ShownSigner, Signed, Submitted,
    Telemetry, WriteEnd,
};
