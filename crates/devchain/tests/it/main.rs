//! One test binary: `conformance` runs every case on devchain and on a real anvil; the rest is what only devchain does.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed; clippy knows test functions, but not their helpers"
)]

mod anvil;
mod bench_chain;
mod conformance;
mod control;
mod faults;
mod mining;
mod pool_texts;
mod proxy;
mod reorg;
mod support;
