//! All keys, as they were a moment ago: the store is asked once a second at most, however many callers there are and
//! whatever keys they show. How it is asked, and what holds while it does not answer, is in [`super::looks`].

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use landfall_core::Millis;
use landfall_core::ports::clock::{Clock, Random};
use landfall_core::ports::records::{RecordWrite, Records, RecordsWritten};
use landfall_core::ports::store::Error;
use tokio::time::Instant;

use super::admin::{Admin, AdminKey};
use super::caller::Caller;
use super::key::{ApiKey, Hash, Shown};
use super::looks::{KIND, Kept, Looks, MOST, REVOKED, Snapshot};
use super::quota::{Quotas, Shares};
use super::rate::Rates;
use super::role::Role;
use crate::problem::{Code, Problem};

/// What the configuration says about access.
#[derive(Debug, Clone)]
pub struct Policy {
    /// As long as there is no key, everybody may do everything: by the operator's word, and only if `loopback` is so too.
    pub open: bool,
    /// Whoever reaches the server is on the same machine.
    pub loopback: bool,
    /// A key of an administrator that is not in the store.
    pub admin_key: Option<AdminKey>,
    /// Requests per second of a key that does not say otherwise; 0: no limit.
    pub rate_per_s: u32,
    /// How much one key may have.
    pub shares: Shares,
    /// Everybody may read the metrics.
    pub open_metrics: bool,
    /// How long the audit log is kept; none: for ever.
    pub keep_audit: Option<Duration>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            open: false,
            loopback: false,
            admin_key: None,
            rate_per_s: 1_000,
            shares: Shares::default(),
            open_metrics: false,
            keep_audit: None,
        }
    }
}

pub(crate) struct Keyring {
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    policy: Policy,
    admin: Admin,
    looks: Looks,
    rates: Rates,
    quotas: Arc<Quotas>,
}

/// A key that is to be made.
#[derive(Debug, Clone)]
pub(crate) struct NewKey {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// None: all.
    pub(crate) signers: Option<Vec<landfall_core::Account>>,
    /// None: all.
    pub(crate) chains: Option<Vec<landfall_core::ChainId>>,
    pub(crate) rate_per_s: Option<u32>,
    pub(crate) expires_at: Option<Millis>,
}

/// A key that was made. The text is shown to nobody again.
pub(crate) struct Made {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) key: ApiKey,
}

impl Keyring {
    pub(crate) fn new(
        records: Arc<dyn Records>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        policy: Policy,
    ) -> Self {
        let (admin, quotas) = (Admin::new(policy.admin_key.clone()), Arc::new(Quotas::new(policy.shares)));
        let (looks, rates) = (Looks::new(records.clone()), Rates::default());
        Self { records, clock, random, policy, admin, looks, rates, quotas }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// There is a key, or was one: from then on every caller needs one.
    pub(crate) async fn any(&self) -> Result<bool, Error> {
        Ok(self.admin.is_configured() || !self.looks.snapshot().await?.keys.is_empty())
    }

    /// Everybody may do everything.
    pub(crate) async fn is_open(&self) -> Result<bool, Error> {
        Ok(self.policy.open && self.policy.loopback && !self.any().await?)
    }

    /// The places that each key holds.
    pub(crate) fn quotas(&self) -> &Arc<Quotas> {
        &self.quotas
    }

    /// Who shows these headers. None: nobody, since no key is shown.
    pub(crate) async fn caller(&self, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
        let Some(text) = shown(headers) else {
            return Ok(self.is_open().await?.then(Caller::anyone));
        };
        // A key of the store does not wait for the administrator's file, nor that one for the store.
        let stored = match Shown::read(&text) {
            Some(shown) => self.looks.snapshot().await.map(|snapshot| self.opened(&snapshot, &shown)),
            None => Ok(None),
        };
        if let Ok(Some(caller)) = stored {
            return Ok(Some(caller));
        }
        if let Some(admin) = self.admin.now().await.filter(|admin| admin.is_of(&text)) {
            let name = self.admin.name();
            let mut caller = Caller::with(name.into(), name, Role::Admin, None, None);
            caller.admin = Some(admin);
            return Ok(Some(caller));
        }
        stored?;
        // Every key that opens nothing is told the same.
        Err(Problem::new(Code::Unauthorized, "the API key is not known, was revoked or has expired"))
    }

    /// Who shows a key of the store that is good.
    fn opened(&self, snapshot: &Snapshot, shown: &Shown) -> Option<Caller> {
        let (id, kept) = snapshot.keys.get_key_value(shown.id.as_str())?;
        let key = &kept.key;
        if !key.hash.is_of(&shown.secret) || !key.is_good(self.clock.now()) {
            return None;
        }
        let mut caller =
            Caller::with(id.clone(), &key.name, key.role, key.signers.clone(), key.chains.clone());
        caller.per_s = key.rate_per_s.unwrap_or(self.policy.rate_per_s);
        Some(caller)
    }

    /// A caller that was let in may stay: its key is still good, or the server is still open. Where that cannot be looked up, it
    /// may not.
    pub(crate) async fn still(&self, caller: &Caller) -> bool {
        match caller.key.as_deref() {
            None => self.is_open().await.unwrap_or(false),
            Some(_) if caller.admin.is_some() => self.admin.now().await == caller.admin,
            Some(id) => self.looks.snapshot().await.is_ok_and(|snapshot| self.is_good(&snapshot, id)),
        }
    }

    /// The key of a caller is known to be no longer good.
    pub(crate) async fn has_revoked(&self, caller: &Caller) -> bool {
        match caller.key.as_deref() {
            None => false,
            Some(_) if caller.admin.is_some() => self.admin.now().await != caller.admin,
            Some(id) => self.looks.snapshot().await.is_ok_and(|snapshot| !self.is_good(&snapshot, id)),
        }
    }

    /// Says no to a caller whose key was revoked since its request began: what changes something is not done by such a key, however
    /// long its body or its batch takes.
    pub(crate) async fn must_be_good(&self, caller: &Caller) -> Result<(), Problem> {
        if !self.has_revoked(caller).await {
            return Ok(());
        }
        let detail = "the API key was revoked or has expired while this was on its way; it was not done";
        Err(Problem::new(Code::Unauthorized, detail))
    }

    /// A key of the store is known to have been revoked. That goes by no clock.
    pub(crate) async fn is_revoked(&self, id: &str) -> bool {
        let revoked =
            |snapshot: Arc<Snapshot>| snapshot.keys.get(id).is_some_and(|kept| kept.key.revoked_at.is_some());
        self.looks.snapshot().await.is_ok_and(revoked)
    }

    fn is_good(&self, snapshot: &Snapshot, id: &str) -> bool {
        snapshot.keys.get(id).is_some_and(|kept| kept.key.is_good(self.clock.now()))
    }

    /// Counts what a caller asks for, and says no when that is too often.
    pub(crate) fn charge(&self, caller: &Caller, cost: usize) -> Result<(), Problem> {
        let (Some(key), true) = (&caller.key, caller.per_s > 0) else { return Ok(()) };
        let (per_s, cost) = (f64::from(caller.per_s), u32::try_from(cost).unwrap_or(u32::MAX));
        self.rates.take(key, per_s, f64::from(cost), Instant::now()).map_err(|wait| {
            let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
            let detail = format!(
                "this API key may ask {} times per second; ask again in {seconds} s. What was asked now was not done",
                caller.per_s
            );
            Problem { retry_after: Some(seconds), ..Problem::new(Code::RateLimited, detail) }
        })
    }

    /// Counts what a caller was given beyond what it was charged for before.
    pub(crate) fn owe(&self, caller: &Caller, cost: usize) {
        if let (Some(key), true) = (&caller.key, caller.per_s > 0 && cost > 0) {
            let cost = u32::try_from(cost).unwrap_or(u32::MAX);
            self.rates.owe(key, f64::from(caller.per_s), f64::from(cost), Instant::now());
        }
    }

    /// Makes a key. What comes back has its text, which is kept nowhere.
    pub(crate) async fn make(&self, new: NewKey, by: Option<&str>) -> Result<Made, Problem> {
        let snapshot = self.looks.read().await?;
        let mut revoked: Vec<&Arc<Kept>> =
            snapshot.keys.values().filter(|kept| kept.key.revoked_at.is_some()).collect();
        if snapshot.keys.len() - revoked.len() >= MOST {
            let detail = format!("there are {MOST} keys already; revoke some first");
            return Err(Problem::new(Code::TooManyKeys, detail));
        }
        let shown = Shown::new([self.random.bits(), self.random.bits(), self.random.bits()]);
        let key = ApiKey {
            name: new.name,
            role: new.role,
            signers: new.signers.map(|signers| signers.into_iter().collect()),
            chains: new.chains.map(|chains| chains.into_iter().collect()),
            rate_per_s: new.rate_per_s,
            hash: Hash::of(&shown.secret),
            created_at: self.clock.now(),
            created_by: by.map(str::to_owned),
            expires_at: new.expires_at,
            revoked_at: None,
            revoked_by: None,
        };
        let mut writes = vec![RecordWrite::new(KIND, shown.id.clone(), document(&key)?)];
        if revoked.len() > REVOKED {
            revoked.sort_by_key(|kept| kept.key.revoked_at);
            let old = revoked.iter().take(revoked.len() - REVOKED);
            writes.extend(old.map(|kept| RecordWrite::remove(KIND, &kept.record)));
        }
        let written = self.records.write_records(writes).await;
        self.looks.forget();
        match written? {
            RecordsWritten::Yes => Ok(Made { text: shown.text(), id: shown.id, key }),
            RecordsWritten::Changed => Err(changed_meanwhile()),
        }
    }

    /// Every key there is or was, newest first.
    pub(crate) async fn list(&self) -> Result<Vec<(String, ApiKey)>, Error> {
        let snapshot = self.looks.read().await?;
        let mut list: Vec<_> =
            snapshot.keys.iter().map(|(id, kept)| (id.to_string(), kept.key.clone())).collect();
        list.sort_by_key(|(_, key)| std::cmp::Reverse(key.created_at));
        Ok(list)
    }

    /// Ends a key. Doing it again changes nothing.
    pub(crate) async fn revoke(&self, id: &str, by: Option<&str>) -> Result<ApiKey, Problem> {
        let snapshot = self.looks.read().await?;
        let missing = || Problem::new(Code::NotFound, format!("there is no API key {id} here"));
        let kept = snapshot.keys.get(id).ok_or_else(missing)?;
        let mut key = kept.key.clone();
        if key.revoked_at.is_some() {
            return Ok(key);
        }
        key.revoked_at = Some(self.clock.now());
        key.revoked_by = by.map(str::to_owned);
        let change = RecordWrite::change(KIND, &kept.record, document(&key)?);
        let written = self.records.write_records(vec![change]).await;
        self.looks.forget();
        match written? {
            RecordsWritten::Yes => Ok(key),
            RecordsWritten::Changed => Err(changed_meanwhile()),
        }
    }
}

/// Says no to what was opened with a key that is not known to be good any more.
pub(crate) fn no_longer_good() -> Problem {
    let detail =
        "the API key was revoked or has expired, or it cannot be looked up just now; show one that is good";
    Problem::new(Code::Unauthorized, detail)
}

fn document(key: &ApiKey) -> Result<serde_json::Value, Problem> {
    serde_json::to_value(key).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

fn changed_meanwhile() -> Problem {
    Problem::new(
        Code::ChangedMeanwhile,
        "somebody else changed it at the same moment; nothing was changed now",
    )
}

/// Whether a request shows a key, good or not.
pub(super) fn shows_one(headers: &HeaderMap) -> bool {
    headers.contains_key("x-api-key") || headers.contains_key(header::AUTHORIZATION)
}

/// The key that a request shows: as a bearer token, in its own header, or as the password of a URL.
fn shown(headers: &HeaderMap) -> Option<String> {
    if let Some(key) = headers.get("x-api-key") {
        return Some(key.to_str().unwrap_or_default().trim().to_owned());
    }
    let text = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or_default();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        let decoded = BASE64_STANDARD.decode(rest.trim()).unwrap_or_default();
        let decoded = String::from_utf8(decoded).unwrap_or_default();
        return Some(decoded.split_once(':').map_or(String::new(), |(_, password)| password.to_owned()));
    }
    Some(rest.trim().to_owned())
}
