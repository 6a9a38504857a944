//! A chain as the simulator has it: blocks, forks, pools behind endpoints that lag, and accounts that can be empty.
//!
//! [`wire`] turns drafts into bytes and back, [`model`] is the chain itself, [`adapter`] is the port that a node sees.

pub(crate) mod adapter;
pub(crate) mod model;
pub(crate) mod wire;
