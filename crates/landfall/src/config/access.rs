//! `[access]`: who may call, how often, and how much each may take.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use landfall_server::AdminKey;
use serde::{Deserialize, Serialize};

use super::secrets::{Files, check_env_name};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Access {
    pub(crate) open: bool,
    pub(crate) admin_key_env: String,
    pub(crate) admin_key_file: PathBuf,
    pub(crate) loose_files: bool,
    pub(crate) rate_per_s: u32,
    pub(crate) max_connections_per_key: usize,
    pub(crate) max_bytes_in_flight_per_key: usize,
    pub(crate) max_listeners_per_key: usize,
    pub(crate) max_sockets_per_key: usize,
    pub(crate) max_raw_bytes_per_key: usize,
    pub(crate) max_raw_accounts_per_key: usize,
    pub(crate) open_metrics: bool,
    pub(crate) keep_audit_days: f64,
}

impl Default for Access {
    fn default() -> Self {
        let usual = landfall_server::Policy::default();
        Self {
            open: false,
            admin_key_env: "LANDFALL_ADMIN_KEY".to_owned(),
            admin_key_file: PathBuf::new(),
            loose_files: false,
            rate_per_s: usual.rate_per_s,
            max_connections_per_key: landfall_server::Limits::default().connections_per_key,
            max_bytes_in_flight_per_key: landfall_server::Limits::default().bytes_per_key,
            max_listeners_per_key: usual.shares.listeners,
            max_sockets_per_key: usual.shares.sockets,
            max_raw_bytes_per_key: usual.shares.raw_bytes,
            max_raw_accounts_per_key: usual.shares.raw_accounts,
            open_metrics: false,
            keep_audit_days: 365.0,
        }
    }
}

/// A key that an administrator made up must be long enough that nobody guesses it.
const SHORTEST_ADMIN_KEY: usize = 32;

impl Access {
    pub(super) fn check(&self) -> Result<()> {
        if !self.admin_key_env.is_empty() {
            check_env_name("access.admin_key_env", &self.admin_key_env)?;
        }
        let days = self.keep_audit_days;
        if !(0.0..=36_500.0).contains(&days) {
            bail!("access.keep_audit_days is {days}; it may be 0, for ever, or up to 36500");
        }
        let shares = [
            self.max_connections_per_key,
            self.max_bytes_in_flight_per_key,
            self.max_listeners_per_key,
            self.max_sockets_per_key,
            self.max_raw_bytes_per_key,
            self.max_raw_accounts_per_key,
        ];
        if shares.contains(&0) {
            bail!(
                "access.max_connections_per_key, max_bytes_in_flight_per_key, max_listeners_per_key, max_sockets_per_key, \
                 max_raw_bytes_per_key and max_raw_accounts_per_key must be above 0"
            );
        }
        Ok(())
    }

    /// How much of what callers signed themselves is kept.
    pub(crate) fn raw_quota(&self) -> landfall_server::rpc::RawQuota {
        landfall_server::rpc::RawQuota {
            bytes: self.max_raw_bytes_per_key,
            accounts: self.max_raw_accounts_per_key,
        }
    }

    /// Limits of callers, with those of one key.
    pub(crate) fn limits(&self, limits: landfall_server::Limits) -> landfall_server::Limits {
        landfall_server::Limits {
            connections_per_key: self.max_connections_per_key,
            bytes_per_key: self.max_bytes_in_flight_per_key,
            ..limits
        }
    }

    pub(crate) fn files(&self) -> Files {
        if self.loose_files { Files::Loose } else { Files::Strict }
    }

    /// How long the audit log is kept; none: for ever.
    pub(crate) fn keep_audit(&self) -> Option<Duration> {
        let keep = self.keep_audit_days * 86_400.0;
        (keep > 0.0).then(|| Duration::from_secs_f64(keep))
    }

    /// With the administrator's key, if the environment or a file has one.
    pub(crate) fn policy(&self) -> Result<landfall_server::Policy> {
        Ok(landfall_server::Policy {
            open: self.open,
            admin_key: self.admin_key()?,
            rate_per_s: self.rate_per_s,
            shares: landfall_server::Shares {
                listeners: self.max_listeners_per_key,
                sockets: self.max_sockets_per_key,
                raw_bytes: self.max_raw_bytes_per_key,
                raw_accounts: self.max_raw_accounts_per_key,
            },
            open_metrics: self.open_metrics,
            keep_audit: self.keep_audit(),
            ..landfall_server::Policy::default()
        })
    }

    fn admin_key(&self) -> Result<Option<AdminKey>> {
        let name = &self.admin_key_env;
        let in_env = (!name.is_empty()).then(|| std::env::var(name).ok()).flatten();
        let in_env = in_env.filter(|key| !key.is_empty());
        if self.admin_key_file.as_os_str().is_empty() {
            let Some(key) = in_env else { return Ok(None) };
            long_enough(name, &key)?;
            return Ok(Some(AdminKey::given(key)));
        }
        if in_env.is_some() {
            bail!("the administrator's key is in access.admin_key_file and in {name}; keep one of them");
        }
        let (files, file) = (self.files(), self.admin_key_file.clone());
        // One that cannot be used is told now, and not when it is needed.
        in_file(files, &file)?;
        Ok(Some(AdminKey::kept(Arc::new(move || {
            in_file(files, &file).map_err(|error| format!("{error:#}"))
        }))))
    }
}

const FILE_KEY: &str = "access.admin_key_file";

/// Bytes of a file with a key.
const LONGEST_FILE: u64 = 64 << 10;

fn in_file(files: Files, file: &Path) -> Result<String> {
    // It is read while the server runs: what is no file could be read for ever.
    if let Ok(found) = super::secrets::path(file).and_then(|file| Ok(std::fs::metadata(file)?))
        && (!found.is_file() || found.len() > LONGEST_FILE)
    {
        bail!("{FILE_KEY}: {} is not a regular file of at most {LONGEST_FILE} bytes", file.display());
    }
    let key = files.read(FILE_KEY, file)?.trim().to_owned();
    long_enough(FILE_KEY, &key)?;
    Ok(key)
}

fn long_enough(place: &str, key: &str) -> Result<()> {
    if key.len() < SHORTEST_ADMIN_KEY {
        bail!(
            "the key in {place} is shorter than {SHORTEST_ADMIN_KEY} characters, which can be guessed; make one with \
             `openssl rand -hex 32`"
        );
    }
    Ok(())
}
