//! What a caller of the chain port sees: against endpoints that misbehave on command, and against a real node.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod anvil;
mod codec;
mod failover;
mod harness;
mod heads;
mod pacing;
mod quirks;
mod second;
mod secrecy;
mod sending;
mod setcode;
mod sockets;
mod taker;
mod waiting;
mod witness;
