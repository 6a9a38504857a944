//! One kept transaction, in memory and as a record of the store.
//!
//! A record is written before the first send, and says so until that has a verdict. Until then it belongs to whoever sends: a refusal
//! removes it again, so that nobody else may send it. Each step names the version it saw, so two nodes cannot both have their way.

use std::sync::Arc;

use alloy_primitives::{Bytes, hex};
use landfall_core::ports::records::{Record, RecordKind, RecordWrite};
use landfall_core::view::BlockRef;
use landfall_core::{Account, ChainId, Slot, TxHash};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::givers::Givers;

/// The name of a kept transaction.
pub(super) type Id = (ChainId, TxHash);

/// A transaction that is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) givers: Givers,
    pub(super) from: Account,
    pub(super) slot: Slot,
    pub(super) raw: Bytes,
    pub(super) sent_at: Option<Instant>,
    /// The head at which the account's count was first seen to have passed it.
    pub(super) passed_at: Option<u64>,
    /// The block that it was seen in.
    pub(super) landed: Option<BlockRef>,
    /// Since when a second endpoint's word on its end has been missing.
    pub(super) unheard_since: Option<Instant>,
    /// No node of this installation has sent it: a lower nonce was missing when it was given. The record says so too, and only such a
    /// transaction may be forgotten because the lower nonce does not come.
    pub(super) never_sent: bool,
    /// Since when this node has seen that a lower nonce is missing.
    pub(super) held_since: Option<Instant>,
}

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its first send has no verdict yet; the number of the audit log's row tells it from others of the same bytes.
    First(u64),
    Kept,
}

/// A record, read.
pub(super) struct Stored {
    pub(super) id: Id,
    pub(super) version: u64,
    pub(super) stage: Stage,
    pub(super) kept: Kept,
}

impl Kept {
    pub(super) fn new(key: Option<Arc<str>>, from: Account, slot: Slot, raw: Bytes) -> Self {
        let (sent_at, passed_at, landed, unheard_since, held_since) = (None, None, None, None, None);
        let never_sent = false;
        let givers = Givers::new(key);
        Self { givers, from, slot, raw, sent_at, passed_at, landed, unheard_since, never_sent, held_since }
    }

    /// Takes over what the record says of one that was never sent. Its hour begins anew with a new giver.
    pub(super) fn learn(&mut self, stored: Self) {
        if !self.never_sent {
            return;
        }
        if !stored.never_sent || self.givers.lacks(&stored.givers) {
            self.held_since = None;
        }
        (self.never_sent, self.givers) = (stored.never_sent, stored.givers);
    }

    /// Its record from here on, which is at this version now.
    pub(super) fn write(&self, id: Id, expected: u64, stage: Stage) -> RecordWrite {
        let mut body = json!({ "raw": self.raw, "from": self.from.0, "nonce": self.slot });
        self.givers.write(&mut body);
        if let Stage::First(row) = stage {
            body["first"] = json!(row);
        }
        if self.never_sent {
            body["neverSent"] = json!(true);
        }
        RecordWrite { kind: RecordKind::RawTx, id: name(id), expected, body: Some(body) }
    }
}

/// The id of its record.
pub(super) fn name((chain, hash): Id) -> String {
    format!("{chain}/{hash}")
}

pub(super) fn read(record: &Record) -> Option<Stored> {
    let (chain, hash) = record.id.split_once('/')?;
    let text = |name: &str| record.body.get(name).and_then(Value::as_str);
    let slot = Slot(record.body.get("nonce")?.as_u64()?);
    let raw = hex::decode(text("raw")?).ok()?.into();
    let mut kept = Kept::new(None, Account(text("from")?.parse().ok()?), slot, raw);
    kept.givers = Givers::read(&record.body);
    kept.never_sent = record.body.get("neverSent").and_then(Value::as_bool).unwrap_or_default();
    let stage = record.body.get("first").and_then(Value::as_u64).map_or(Stage::Kept, Stage::First);
    let id = (ChainId(chain.parse().ok()?), TxHash(hash.parse().ok()?));
    Some(Stored { id, version: record.version, stage, kept })
}
