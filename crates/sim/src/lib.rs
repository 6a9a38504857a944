//! # landfall-sim
//!
//! Finds the bug before it finds a user's money: the real `core` and `engine`, several nodes of them, on one thread,
//! in simulated time, against a store, chains and a network made of chance. One seed fixes all of it.
//!
//! | file | what |
//! |---|---|
//! | `scenario.rs` | what a seed chooses, and the list of faults |
//! | `run.rs` | one run: trouble, then peace, then the questions |
//! | `world.rs` | what everything shares, and the rules |
//! | `node.rs`, `store.rs`, `chain/`, `signer.rs` | engines, and the ports they see |
//! | `database.rs` | PostgreSQL's locks, sessions and commits, as far as the fence needs them |
//! | `reader.rs` | one who reads the journal as it grows |
//! | `callers.rs`, `nemesis.rs` | who asks, and what strikes |
//! | `put_back.rs`, `unnoticed.rs`, `replaced.rs`, `persons.rs` | what goes on after that in special worlds, and the people there |
//! | `checkers.rs` | the rules, looked at from outside |
//! | `planted.rs` | bugs that must be found |
//! | `many.rs`, `shorten.rs` | many seeds, and making a failing one smaller |
//!
//! It must never know a real adapter: no sockets, no files, no threads inside a run.

mod callers;
mod chain;
mod checkers;
mod database;
mod many;
mod nemesis;
mod node;
mod nonces;
mod persons;
mod planted;
mod put_back;
mod reader;
mod replaced;
mod rng;
mod run;
mod scenario;
mod shorten;
mod signer;
mod store;
mod trace;
mod unnoticed;
mod world;

pub use many::{Many, Summary, many, seeds_to_find};
pub use planted::Planted;
pub use run::{Options, Report, run};
pub use scenario::{Fault, Scenario};
pub use shorten::shorten;
pub use world::{Rule, Violation};
