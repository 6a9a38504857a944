//! # landfall-client
//!
//! Landfall's API for Rust programs. The `landfall` command line is one of them.
//!
//! ```no_run
//! use std::time::Duration;
//! use landfall_client::{Client, Payload, Submission};
//!
//! # async fn example() -> Result<(), landfall_client::Error> {
//! let landfall = Client::new("http://127.0.0.1:8645", None)?;
//! let payload = Payload::transfer("0xa0Ee7A142d267C1f36714E4a8F75612F20a79720", "1000000000000000000");
//! let submission = Submission::new(31_337, "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", payload).request_id("invoice-4711");
//! let accepted = landfall.submit(&submission).await?;
//! let tx = landfall.wait_until_ended(&accepted.tx_id, Duration::from_secs(120)).await?;
//! println!("{} {}", tx.tx_id, tx.state);
//! # Ok(()) }
//! ```
//!
//! What a server says beyond the named fields is kept in `rest`, so a newer server can be used with an older client and
//! nothing is lost on the way. The whole of the API is in `docs/openapi.json`; a call without a method of its own here is one
//! [`Client::get`] or [`Client::post`] away.
//!
//! This crate knows the API from the outside: no other crate of the workspace.

mod client;
mod error;
mod events;
mod types;

pub use client::Client;
pub use error::{Error, Problem};
pub use events::{Event, EventFilter, Events};
pub use types::{
    Accepted, ApiKey, BatchItem, CommandAccepted, JournalEntry, Lane, Page, Payload, Reason, Receipt, State,
    Submission, Transaction, TxFilter,
};
