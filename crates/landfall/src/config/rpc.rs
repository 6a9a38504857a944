//! `[rpc]`: what callers may have of the nodes behind `/rpc`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use landfall_chain::evm::CallersConfig;
use landfall_server::Role;
use landfall_server::rpc::{Allow, Budget};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rpc {
    /// Lists of methods by the name of a role.
    #[serde(deserialize_with = "by_role")]
    pub(crate) allow: BTreeMap<String, Vec<String>>,
    pub(crate) max_answer_bytes: usize,
    pub(crate) max_batch_answer_bytes: usize,
    pub(crate) max_answer_bytes_in_flight: usize,
    pub(crate) answer_time_s: u64,
    pub(crate) batch_time_s: u64,
    pub(crate) requests_per_s: u32,
    pub(crate) max_at_once: usize,
}

fn by_role<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Lists {
        ByRole(BTreeMap<String, Vec<String>>),
        Other(IgnoredAny),
    }
    match Lists::deserialize(d)? {
        Lists::ByRole(lists) => Ok(lists),
        Lists::Other(_) => Err(D::Error::custom(
            "it has a list of methods for each role, such as allow = { viewer = [\"METHOD\"], admin = [\"METHOD\"] }",
        )),
    }
}

impl Default for Rpc {
    fn default() -> Self {
        let (budget, callers) = (Budget::default(), CallersConfig::default());
        Self {
            allow: BTreeMap::new(),
            max_answer_bytes: budget.answer,
            max_batch_answer_bytes: budget.batch,
            max_answer_bytes_in_flight: budget.in_flight,
            answer_time_s: callers.answer_time.as_secs(),
            batch_time_s: budget.batch_time.as_secs(),
            requests_per_s: 250,
            max_at_once: callers.at_once,
        }
    }
}

/// The most questions of callers that may be under way at once.
const MOST_AT_ONCE: usize = 10_000;

impl Rpc {
    pub(super) fn check(&self) -> Result<()> {
        self.allowed()?;
        let sizes = [self.max_answer_bytes, self.max_batch_answer_bytes, self.max_answer_bytes_in_flight];
        if sizes[0] == 0 || !sizes.is_sorted() {
            bail!(
                "rpc.max_answer_bytes must be above 0, rpc.max_batch_answer_bytes at least as much, and \
                 rpc.max_answer_bytes_in_flight at least as much again; they are {}, {} and {}",
                sizes[0],
                sizes[1],
                sizes[2]
            );
        }
        if self.answer_time_s == 0 || self.batch_time_s == 0 {
            bail!("rpc.answer_time_s and rpc.batch_time_s must be above 0");
        }
        if !(1..=MOST_AT_ONCE).contains(&self.max_at_once) {
            bail!("rpc.max_at_once is {}; it may be 1 to {MOST_AT_ONCE}", self.max_at_once);
        }
        Ok(())
    }

    fn allowed(&self) -> Result<Allow> {
        let mut lists = Vec::new();
        for (name, list) in &self.allow {
            let Some(role) = Role::from_name(name) else {
                let roles = Role::ALL.map(Role::name).join(", ");
                bail!("rpc.allow has a list for {name:?}; there are {roles}");
            };
            lists.push((role, list.as_slice()));
        }
        Allow::with(lists).map_err(|why| anyhow!(why))
    }

    /// As the server takes it.
    pub(crate) fn settings(
        &self,
        raw: landfall_server::rpc::RawQuota,
    ) -> Result<landfall_server::rpc::Settings> {
        let budget = Budget {
            answer: self.max_answer_bytes,
            batch: self.max_batch_answer_bytes,
            in_flight: self.max_answer_bytes_in_flight,
            batch_time: Duration::from_secs(self.batch_time_s),
        };
        Ok(landfall_server::rpc::Settings { allow: self.allowed()?, budget, raw })
    }

    /// As a chain takes it, whose questions of callers go to these endpoints.
    pub(crate) fn callers(&self, endpoints: &[String]) -> CallersConfig {
        CallersConfig {
            endpoints: endpoints.to_vec(),
            requests_per_s: self.requests_per_s,
            at_once: self.max_at_once,
            answer_time: Duration::from_secs(self.answer_time_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, std::iter::empty()).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn what_signs_or_sends_cannot_be_allowed_and_senseless_limits_are_named() {
        for (line, names) in [
            ("allow = { viewer = [\"eth_sign\"] }", "rpc.allow.viewer has \"eth_sign\""),
            ("allow = { admin = [\"eth_sendBundle\"] }", "never passed on"),
            ("allow = { operator = [\"personal_*\"] }", "rpc.allow.operator"),
            ("allow = { submitter = [\"eth_*\"] }", "Name the methods"),
            ("allow = { root = [] }", "root"),
            ("allow = [\"eth_call\"]", "allow = { viewer = ["),
            ("allow = { admin = [\"debug_setHead\"] }", "of debug_ only"),
            ("allow = { admin = [\"eth_\"] }", "stands for no method"),
            ("max_answer_bytes = 0", "rpc.max_answer_bytes"),
            ("max_batch_answer_bytes = 5", "rpc.max_batch_answer_bytes"),
            ("answer_time_s = 0", "rpc.answer_time_s"),
            ("max_at_once = 0", "rpc.max_at_once"),
        ] {
            let error = parse(&format!("[rpc]\n{line}")).unwrap_err();
            assert!(error.contains(names), "{line}: {error}");
        }
        let config = parse("[rpc]\nallow = { admin = [\"debug_trace*\"] }\nmax_at_once = 5").unwrap();
        assert_eq!(config.rpc.callers(&[]).at_once, 5);
    }
}
