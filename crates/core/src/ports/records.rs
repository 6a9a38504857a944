//! The records port: small documents that the door keeps beside the transactions, such as API keys, webhooks and the audit log.
//!
//! The engine knows nothing of them, and no transaction depends on one. What every adapter must hold to:
//!
//! - A group of writes is done whole or not at all, and only if every record is at the version its writer saw.
//! - A record that is made is at version 1; every change raises it by one.
//! - Records of a kind are listed by the bytes of their ids.
//! - What was answered as written is on disk.

use async_trait::async_trait;
use serde_json::Value;

use super::store::Error;

/// What a record is. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum RecordKind {
    /// Who may call, by the id of the key.
    ApiKey = 1,
    /// What operators did, by time.
    Audit = 2,
    /// Where events are delivered to, and how far that is.
    Webhook = 3,
    /// Deliveries that have to be tried again, or were given up: by webhook and event.
    Delivery = 4,
    /// Transactions that callers signed themselves, by hash.
    RawTx = 5,
    /// Calls that were handed over together (EIP-5792), by their id.
    Calls = 6,
    /// What the door remembers of itself.
    Door = 7,
}

impl RecordKind {
    #[must_use]
    pub fn number(self) -> i16 {
        self as i16
    }
}

/// A stored document.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub id: String,
    pub version: u64,
    pub body: Value,
}

/// A change to one record.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordWrite {
    pub kind: RecordKind,
    pub id: String,
    /// The version it must be at; 0: there must be none.
    pub expected: u64,
    /// What it says from now on; none: it is removed.
    pub body: Option<Value>,
}

impl RecordWrite {
    /// A record that must not exist yet.
    pub fn new(kind: RecordKind, id: impl Into<String>, body: Value) -> Self {
        Self { kind, id: id.into(), expected: 0, body: Some(body) }
    }

    /// A change to a record as it was read.
    #[must_use]
    pub fn change(kind: RecordKind, read: &Record, body: Value) -> Self {
        Self { kind, id: read.id.clone(), expected: read.version, body: Some(body) }
    }

    /// The end of a record as it was read.
    #[must_use]
    pub fn remove(kind: RecordKind, read: &Record) -> Self {
        Self { kind, id: read.id.clone(), expected: read.version, body: None }
    }
}

/// What became of a group of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum RecordsWritten {
    Yes,
    /// A record was at another version, so nothing was written: read again.
    Changed,
}

/// Which records to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordQuery {
    pub kind: RecordKind,
    /// Only ids that begin with this.
    pub prefix: String,
    /// The last id of the page before.
    pub after: Option<String>,
    /// From the greatest id down.
    pub descending: bool,
    pub limit: u32,
}

impl RecordQuery {
    #[must_use]
    pub fn all(kind: RecordKind, limit: u32) -> Self {
        Self { kind, prefix: String::new(), after: None, descending: false, limit }
    }
}

/// Documents.
#[async_trait]
pub trait Records: Send + Sync {
    /// An error may mean that it was written all the same: read again.
    async fn write_records(&self, writes: Vec<RecordWrite>) -> Result<RecordsWritten, Error>;
    async fn record(&self, kind: RecordKind, id: &str) -> Result<Option<Record>, Error>;
    async fn records(&self, query: &RecordQuery) -> Result<Vec<Record>, Error>;
    /// Removes records of a kind whose ids are below this one, whatever their version, a few at a time; how many went.
    async fn trim_records(&self, kind: RecordKind, below: &str, limit: u32) -> Result<u64, Error>;
}
