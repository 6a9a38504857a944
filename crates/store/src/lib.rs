//! # landfall-store
//!
//! The adapters behind the store port ([`landfall_core::ports::store`]): [`sqlite`] for one process with everything
//! in one file, [`postgres`] for many processes on one database, [`memory`] for the simulator and tests. One conformance
//! suite (`tests/store`) holds all to the same behaviour, and a property test holds them to the same answers.
//!
//! An adapter knows the port and nothing else of Landfall. It decides nothing about transactions: what a commit says
//! is stored whole, or refused. The few rules that do not depend on where rows live are in `rules.rs`, so that the
//! adapters cannot drift apart. [`moving`] moves a store from a file to PostgreSQL. [`faulty`] wraps any store and makes its commits fail or lose their answers.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod archive;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod closing;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod columns;
mod command_text;
pub mod faulty;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod journal;
pub mod memory;
#[cfg(all(feature = "sqlite", feature = "postgres"))]
pub mod moving;
#[cfg(feature = "postgres")]
pub mod postgres;
mod rules;
#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use archive::Archived;
pub use faulty::{Fault, Faulty};
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
