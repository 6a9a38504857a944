//! The audit port: rows that are only ever added, each linked to the one before it ([`crate::audit`]).
//!
//! Rules for every adapter:
//!
//! - All rows of a namespace are one chain: numbers follow each other without a gap, whoever appends, and however many at once.
//! - A group of entries is appended whole or not at all. What was answered as appended is on disk.
//! - The head, which is the number and the hash of the newest row, is kept apart from the rows and changes with them, in one commit.
//! - Rows are removed from the oldest up only, in the commit that moves the anchor there and appends a row that says so.

use async_trait::async_trait;

use super::store::Error;
use crate::Millis;
use crate::audit::{Ends, Link, New, Row};

/// Which rows to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// Rows after this number, oldest first.
    After(u64),
    /// Rows before this number, newest first, as far as the chain goes: none at or before its anchor.
    Before(u64),
}

/// The audit log of a store.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Appends entries in their order; the head after them. An error may mean that they were appended all the same.
    async fn append_audit(&self, entries: Vec<New>) -> Result<Link, Error>;
    /// Where the chain begins and ends.
    async fn audit_ends(&self) -> Result<Ends, Error>;
    async fn audit_rows(&self, page: Page, limit: u32) -> Result<Vec<Row>, Error>;
    /// How many rows have a number below 1, which nothing here gives.
    async fn unnumbered_audit(&self) -> Result<u64, Error>;
    /// Removes the oldest rows as far as they are from before this time ([`crate::audit::Cut`]), at most so many of them, and never the newest; says so in
    /// a row of this time. How many went. `now` is the time as far as it is believed.
    async fn trim_audit(&self, before: Millis, limit: u32, now: Millis) -> Result<u64, Error>;
}
