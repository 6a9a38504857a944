//! # landfall-chain
//!
//! Chains behind the [`Chain`](landfall_core::ports::chain::Chain) port. [`evm`] speaks JSON-RPC to one or more
//! Ethereum nodes or gateways; [`spec`] is what is known of chains by their id.
//!
//! What belongs here: bytes on the wire, endpoints and their moods, the texts that nodes answer with. What does not:
//! what an answer means for a slot or a transaction. The differences between nodes are data, in `specs/`.

pub mod evm;
pub mod spec;
