//! `[webhooks]`: how events are delivered.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::secrets::check_env_name;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Webhooks {
    pub(crate) secret_env: String,
    pub(crate) secret_file: PathBuf,
    pub(crate) allow_private: bool,
    pub(crate) allow_http: bool,
    pub(crate) timeout_ms: u64,
    pub(crate) at_once: usize,
    pub(crate) retry_first_ms: u64,
    pub(crate) retry_longest_s: u64,
    pub(crate) give_up_after_s: u64,
    pub(crate) max_waiting: usize,
    pub(crate) rotation_s: u64,
}

impl Default for Webhooks {
    fn default() -> Self {
        let usual = landfall_server::webhooks::Webhooks::default();
        Self {
            secret_env: usual.secret_env,
            secret_file: PathBuf::new(),
            allow_private: usual.allow_private,
            allow_http: usual.allow_http,
            timeout_ms: u64::try_from(usual.timeout.as_millis()).unwrap_or(u64::MAX),
            at_once: usual.at_once,
            retry_first_ms: u64::try_from(usual.retry_first.as_millis()).unwrap_or(u64::MAX),
            retry_longest_s: usual.retry_longest.as_secs(),
            give_up_after_s: usual.give_up_after.as_secs(),
            max_waiting: usual.max_waiting,
            rotation_s: usual.rotation.as_secs(),
        }
    }
}

impl Webhooks {
    pub(super) fn check(&self) -> Result<()> {
        if !self.secret_env.is_empty() {
            check_env_name("webhooks.secret_env", &self.secret_env)?;
        }
        if self.timeout_ms == 0
            || self.retry_first_ms == 0
            || self.retry_longest_s == 0
            || self.give_up_after_s == 0
        {
            bail!("webhooks.timeout_ms, retry_first_ms, retry_longest_s and give_up_after_s must be above 0");
        }
        if !(1..=256).contains(&self.at_once) || !(1..=100_000).contains(&self.max_waiting) {
            bail!("webhooks.at_once may be 1 to 256, and webhooks.max_waiting 1 to 100000");
        }
        Ok(())
    }

    /// As the server takes them, with the secret that the environment has.
    pub(crate) fn settings(&self, secret: Option<&str>) -> landfall_server::webhooks::Webhooks {
        landfall_server::webhooks::Webhooks {
            secret: secret.and_then(landfall_server::webhooks::InstallationSecret::new),
            secret_env: self.secret_env.clone(),
            allow_private: self.allow_private,
            allow_loopback: false,
            allow_http: self.allow_http,
            timeout: Duration::from_millis(self.timeout_ms),
            at_once: self.at_once,
            retry_first: Duration::from_millis(self.retry_first_ms),
            retry_longest: Duration::from_secs(self.retry_longest_s),
            give_up_after: Duration::from_secs(self.give_up_after_s),
            max_waiting: self.max_waiting,
            rotation: Duration::from_secs(self.rotation_s),
        }
    }
}
