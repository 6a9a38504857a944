//! What is stored of an endpoint.

use std::collections::BTreeSet;

use landfall_core::journal::JournalRow;
use landfall_core::ports::records::{Record, RecordKind, RecordWrite};
use landfall_core::ports::store;
use landfall_core::{Account, ChainId, JournalSeq, Millis, SessionId};
use serde::{Deserialize, Serialize};

use super::Webhooks;
use super::secret::{EndpointSecret, InstallationSecret};
use super::time::Step;

/// One place that events are delivered to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) filter: Filter,
    pub(crate) created_at: Millis,
    pub(crate) switch: Switch,
    pub(crate) keys: Keys,
    /// Raised by whatever makes a courier's memory worthless: a replay, another filter, a row that was changed.
    #[serde(default)]
    pub(crate) epoch: u64,
    /// The session that carries it.
    #[serde(default)]
    pub(crate) claim: Option<Claim>,
    pub(crate) progress: Progress,
}

/// Which events are wanted; what is empty stands for all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Filter {
    pub(crate) events: BTreeSet<String>,
    pub(crate) chains: BTreeSet<ChainId>,
    pub(crate) signers: BTreeSet<Account>,
}

impl Filter {
    pub(crate) fn wants(&self, row: &JournalRow) -> bool {
        let Some(name) = row.entry.event() else { return false };
        (self.events.is_empty() || self.events.contains(name))
            && (self.chains.is_empty() || self.chains.contains(&row.lane.chain))
            && (self.signers.is_empty() || self.signers.contains(&row.lane.signer))
    }
}

/// Whether it is delivered to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Switch {
    On,
    Off { why: String, since: Millis },
}

/// Which secrets sign. The secrets themselves are derived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Keys {
    pub(crate) generation: u32,
    /// Tells the installation secret that they are derived from.
    pub(crate) check: String,
    #[serde(default)]
    pub(crate) retiring: Vec<Retiring>,
}

/// A secret that is used until its receiver knows the new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Retiring {
    pub(crate) generation: u32,
    pub(crate) until: Millis,
}

/// More secrets than this are never used at once.
const MOST_SECRETS: usize = 4;

impl Keys {
    pub(crate) fn first(secret: &InstallationSecret) -> Self {
        Self { generation: 1, check: secret.check(), retiring: Vec::new() }
    }

    /// A new secret; the old ones until their time, if they can still be derived.
    pub(crate) fn rotate(&mut self, secret: &InstallationSecret, now: Millis, until: Millis) {
        if self.check == secret.check() {
            self.retiring.retain(|old| old.until > now);
            self.retiring.push(Retiring { generation: self.generation, until });
            let surplus = self.retiring.len().saturating_sub(MOST_SECRETS - 1);
            self.retiring.drain(..surplus);
            self.retiring.retain(|old| old.until > now);
        } else {
            self.retiring.clear();
            self.check = secret.check();
        }
        self.generation = self.generation.saturating_add(1);
    }

    /// Those that sign now, the newest first.
    pub(crate) fn signing(
        &self,
        webhook: &str,
        secret: &InstallationSecret,
        now: Millis,
    ) -> Vec<EndpointSecret> {
        let old = self.retiring.iter().rev().filter(|old| old.until > now).map(|old| old.generation);
        std::iter::once(self.generation).chain(old).map(|number| secret.of(webhook, number)).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Claim {
    pub(crate) session: SessionId,
    pub(crate) node: String,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Progress {
    /// Every wanted event up to this one was delivered, or has a row.
    pub(crate) cursor: JournalSeq,
    /// Rows that wait to be tried.
    #[serde(default)]
    pub(crate) waiting: u64,
    /// When an event last got through.
    #[serde(default)]
    pub(crate) delivered_at: Option<Millis>,
    /// Since when nothing gets through, and what was said last.
    #[serde(default)]
    pub(crate) failing_since: Option<Millis>,
    #[serde(default)]
    pub(crate) last_failure: Option<String>,
    /// When it was last switched on: what failed before counts no more.
    #[serde(default)]
    pub(crate) resumed_at: Option<Millis>,
}

impl Progress {
    /// As far as it can be believed: nothing was later than now.
    pub(crate) fn believed(mut self, now: Millis) -> Self {
        self.times().for_each(|at| *at = (*at).min(now));
        self
    }

    /// The clock has stepped.
    pub(super) fn stepped(&mut self, step: Step) {
        self.times().for_each(|at| *at = step.moved(*at));
    }

    fn times(&mut self) -> impl Iterator<Item = &mut Millis> {
        let Self { delivered_at, failing_since, resumed_at, .. } = self;
        [delivered_at, failing_since, resumed_at].into_iter().flatten()
    }

    /// Nothing done yet; events after this one are delivered.
    pub(crate) fn from(cursor: JournalSeq) -> Self {
        Self {
            cursor,
            waiting: 0,
            delivered_at: None,
            failing_since: None,
            last_failure: None,
            resumed_at: None,
        }
    }
}

impl Endpoint {
    /// Why nothing is delivered, although it is on.
    pub(crate) fn hindrance(&self, settings: &Webhooks) -> Option<String> {
        let env = &settings.secret_env;
        match &settings.secret {
            None => Some(format!(
                "its events cannot be signed: the variable {env} is not set, or has under {} characters",
                InstallationSecret::LEAST_BYTES
            )),
            Some(secret) if secret.check() != self.keys.check => Some(format!(
                "its secret was derived from another value of {env}: set the old value again, or rotate this endpoint's \
                 secret and give the new one to the receiver"
            )),
            Some(_) => None,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.switch == Switch::On
    }
}

/// An endpoint as it was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stored {
    pub(crate) id: String,
    pub(crate) version: u64,
    pub(crate) endpoint: Endpoint,
}

impl Stored {
    pub(crate) fn read(record: Record) -> Result<Self, store::Error> {
        let endpoint = serde_json::from_value(record.body)
            .map_err(|error| store::Error::Corrupt { what: "a webhook", text: error.to_string() })?;
        Ok(Self { id: record.id, version: record.version, endpoint })
    }

    /// The write that makes `to` of it.
    pub(crate) fn change(&self, to: &Endpoint) -> Result<RecordWrite, store::Error> {
        let body = serde_json::to_value(to)
            .map_err(|error| store::Error::Corrupt { what: "a webhook", text: error.to_string() })?;
        Ok(RecordWrite {
            kind: RecordKind::Webhook,
            id: self.id.clone(),
            expected: self.version,
            body: Some(body),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotated_secret_signs_beside_its_successor_until_its_time() {
        let secret = InstallationSecret::new(&"x".repeat(32)).unwrap();
        let mut keys = Keys::first(&secret);
        let shown = |keys: &Keys, now| -> Vec<String> {
            keys.signing("wh", &secret, Millis(now)).iter().map(EndpointSecret::shown).collect()
        };
        let old = shown(&keys, 0);
        keys.rotate(&secret, Millis(10), Millis(100));
        let both = shown(&keys, 99);
        assert_eq!((both.len(), &both[1]), (2, &old[0]));
        assert_eq!(shown(&keys, 100), both[..1]);
        keys.rotate(&secret, Millis(50), Millis(50));
        let now = shown(&keys, 51);
        assert_eq!((now.len(), &now[1]), (2, &old[0]), "one that ends at once signs no more");
        for _ in 0..10 {
            keys.rotate(&secret, Millis(60), Millis(1_000));
        }
        assert_eq!(shown(&keys, 61).len(), MOST_SECRETS);
    }

    #[test]
    fn another_installation_secret_is_noticed_and_a_rotation_takes_it() {
        let (one, other) = ("x".repeat(32), "y".repeat(32));
        let (one, other) = (InstallationSecret::new(&one).unwrap(), InstallationSecret::new(&other).unwrap());
        let mut endpoint = Endpoint {
            url: String::new(),
            description: String::new(),
            filter: Filter::default(),
            created_at: Millis(0),
            switch: Switch::On,
            keys: Keys::first(&one),
            epoch: 0,
            claim: None,
            progress: Progress::from(JournalSeq(0)),
        };
        let with =
            |secret: Option<&InstallationSecret>| Webhooks { secret: secret.cloned(), ..Webhooks::default() };
        assert_eq!(endpoint.hindrance(&with(Some(&one))), None);
        assert!(endpoint.hindrance(&with(None)).unwrap().contains("LANDFALL_WEBHOOK_SECRET"));
        assert!(endpoint.hindrance(&with(Some(&other))).unwrap().contains("rotate"));
        endpoint.keys.rotate(&other, Millis(1), Millis(9));
        assert_eq!(endpoint.hindrance(&with(Some(&other))), None);
        assert_eq!(
            endpoint.keys.signing("wh", &other, Millis(2)).len(),
            1,
            "the old one cannot be derived any more"
        );
        let stored: Endpoint = serde_json::from_value(serde_json::to_value(&endpoint).unwrap()).unwrap();
        assert_eq!(stored, endpoint);
    }
}
