//! Rows of the audit log.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use landfall_core::Millis;
use landfall_core::TxId;
use landfall_core::audit::New;
use landfall_core::origin::optional_text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::Role;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Somebody who steers asked for something; written before anything is done.
    Asked,
    /// How that ended.
    Done,
    /// Something was handed over or changed.
    Wrote,
    /// Somebody was sent away.
    Refused,
    /// The command line changed the store itself.
    CommandLine,
    /// A server began to write.
    Began,
    /// A server ended in good order.
    Ended,
    /// Entries that could not be written.
    Lost,
}

/// A row's text. What is absent takes no room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub what: What,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_text")]
    pub key_id: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_text")]
    pub key_name: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_text")]
    pub node: Option<Arc<str>>,
    /// The number of the row with which the run of the server began that wrote this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// SHA-256 of a body that is too long to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The code of the problem that it was refused with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of the row that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The transactions that were stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tx_ids: Vec<TxId>,
    /// How many it stands for, where that is more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The same by status.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statuses: BTreeMap<u16, u64>,
}

impl Entry {
    #[must_use]
    pub fn new(what: What) -> Self {
        Self {
            what,
            key_id: None,
            key_name: None,
            role: None,
            address: None,
            node: None,
            run: None,
            method: None,
            path: None,
            body: None,
            body_digest: None,
            status: None,
            error: None,
            of: None,
            tx_ids: Vec::new(),
            count: None,
            statuses: BTreeMap::new(),
        }
    }

    /// The entry as it goes into the chain.
    pub fn sealed_at(&self, at: Millis) -> Result<New, serde_json::Error> {
        Ok(New { at, text: serde_json::to_string(self)? })
    }

    /// Takes in another that says the same of other transactions if there is room, or the very same once more.
    pub(super) fn takes(&mut self, other: &Self) -> bool {
        let names_others = !other.tx_ids.is_empty()
            && !self.tx_ids.is_empty()
            && self.tx_ids.len() + other.tx_ids.len() <= MOST_IDS
            && self.body.is_none()
            && other.body.is_none();
        let is_repeated = self.tx_ids.is_empty()
            && other.tx_ids.is_empty()
            && (&self.body, &self.body_digest) == (&other.body, &other.body_digest);
        let same = self.what == What::Wrote
            && other.what == What::Wrote
            && (names_others || is_repeated)
            && (&self.key_id, self.address, &self.method, &self.path, self.status)
                == (&other.key_id, other.address, &other.method, &other.path, other.status)
            && (&self.key_name, &self.error, self.of) == (&other.key_name, &other.error, other.of);
        if same {
            self.tx_ids.extend_from_slice(&other.tx_ids);
            self.count = Some(self.count.unwrap_or(1) + other.count.unwrap_or(1));
        }
        same
    }
}

/// So many transactions one row names.
pub(super) const MOST_IDS: usize = 256;
