//! The whole of it, as a caller and the chain see it: the real binary over HTTP on a real anvil, killed and restarted.
//!
//! One file per subject. A test starts its own chain and its own server in a folder of its own and ends both; it
//! asserts on answers and on blocks, never on the inside. `support` starts, asks, waits and reads blocks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first thing that is not as it should be"
)]

mod access;
mod actions;
mod admission;
mod audit;
mod backup;
mod backup_calls;
mod backup_page;
mod backup_postgres;
mod bad_input;
mod bench;
mod bodies;
mod calls_together;
mod cli;
mod clients;
mod cluster;
mod concurrency;
mod deploy;
mod doors;
mod elsewhere;
mod endpoints;
mod events;
mod funds;
mod grpc;
mod help;
mod hostile;
mod hostile_callers;
mod import;
mod keys;
mod kills;
mod lapsed;
mod life;
mod matrix;
mod metrics;
mod migrate;
mod openapi;
mod own_clients;
mod partial;
mod pass_through;
mod people;
mod places;
mod postgres;
mod rates;
mod raw_sends;
mod readme;
mod refusals;
mod restart;
mod revoked;
mod rpc;
mod rpc_nonce;
mod secrets;
mod steering;
mod strangers;
mod stuck;
mod subscriptions;
mod support;
mod tls;
mod traces;
mod unit;
mod unread;
mod webhook_tokens;
mod webhooks;
