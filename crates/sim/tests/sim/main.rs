//! The simulator in CI: a fixed set of seeds, a set of new ones, the same seed twice, and every planted bug.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod seeds;
mod teeth;
