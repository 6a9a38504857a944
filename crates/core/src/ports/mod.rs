//! What Landfall needs from the outside, as traits. Adapters implement them and know nothing else of Landfall.
//!
//! | port | adapters |
//! |---|---|
//! | [`store`] | SQLite, PostgreSQL, memory |
//! | [`records`], [`audit`] | the same three |
//! | [`chain`] | EVM over JSON-RPC |
//! | [`signer`] | local keys |
//! | [`clock`] | the system's, the simulator's |

pub mod audit;
pub mod chain;
pub mod clock;
pub mod leases;
pub mod older;
pub mod records;
pub mod reorg;
pub mod signer;
pub mod store;
