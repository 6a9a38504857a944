//! The store's tests.
//!
//! - `cases/`: the conformance suite, ONE body of cases that runs on every adapter; a case's name is the sentence it
//!   proves, and `sqlite::…`, `memory::…` or `postgres::…` before it says where.
//! - `agreement`: random sequences of operations have the same answers on all adapters.
//! - `archive`: a chain that was started over is put away, on stores that outlive a process.
//! - `sqlite/`: what only a file can go through.
//! - `postgres/`: what only a database that many processes share can go through; a proxy in between breaks connections.
//! - `moving`: from a file to a database, killed at every step.
//! - `memory`: what only the memory adapter offers: expiry by a clock, and backups.
//!
//! An adapter joins the suite by a line in `adapters!` and a way to open it in `world`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where it fails")]

mod agreement;
mod archive;
mod cases;
mod fixtures;
mod memory;
mod moving;
mod postgres;
mod sqlite;
mod world;
