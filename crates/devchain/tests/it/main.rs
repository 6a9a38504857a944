//! One test binary: `conformance` runs every case on devchain and on a real anvil; the rest is what only devchain does.

mod bench_chain;
mod conformance;
mod control;
mod faults;
mod mining;
mod pool_texts;
mod reorg;
mod support;
