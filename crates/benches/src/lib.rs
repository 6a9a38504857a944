//! # landfall-benches
//!
//! The hot path in pieces, to be measured: [`lane`] (decisions), [`signing`] (bytes and signatures), [`texts`] (what nodes
//! answer) and [`body`] (what callers send). [`cases`] names them.
//!
//! Two programs run the same pieces: `cargo bench -p landfall-benches` takes their time with criterion, and
//! `cargo xtask counts` counts their instructions under valgrind. So nothing here may read a clock, start a thread or draw
//! a number by chance. What the pieces do is what the engine does with them; no I/O belongs here, and no judgement of the
//! results beyond that the work was really done.

pub mod body;
pub mod cases;
pub mod lane;
pub mod signing;
pub mod texts;
