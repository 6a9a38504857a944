//! The configuration: `landfall.toml` and `LANDFALL_…` variables. One struct per component, defaults beside the keys.
//!
//! `reference.rs` has a sentence for each key; the page in `docs/` and the file that `landfall config` prints are made
//! from it, and tests hold both to these structs.

mod env;
pub(crate) mod reference;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use alloy_primitives::U256;
use anyhow::{Context, Result, bail};
use landfall_core::request::Finality;
use landfall_core::{Account, ChainId, Price};
use serde::{Deserialize, Deserializer, Serialize};

/// Everything.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) server: Server,
    pub(crate) store: Store,
    pub(crate) node: Node,
    pub(crate) lease: Lease,
    pub(crate) chain: Vec<Chain>,
    pub(crate) signer: Vec<Signer>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    pub(crate) listen: SocketAddr,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_batch: usize,
    pub(crate) max_connections: usize,
    pub(crate) header_timeout_s: u64,
    pub(crate) body_timeout_s: u64,
}

impl Default for Server {
    fn default() -> Self {
        let limits = landfall_server::Limits::default();
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8645)),
            max_body_bytes: limits.body,
            max_batch: limits.batch,
            max_connections: limits.connections,
            header_timeout_s: limits.header_time.as_secs(),
            body_timeout_s: limits.body_time.as_secs(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) namespace: String,
    pub(crate) keep_finished_days: f64,
}

impl Store {
    pub(crate) fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres:") || self.url.starts_with("postgresql:")
    }

    /// The URL as logs may show it.
    pub(crate) fn shown(&self) -> String {
        if self.is_postgres() {
            landfall_store::postgres::without_password(&self.url)
        } else {
            self.url.clone()
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: "sqlite://landfall.db".to_owned(),
            namespace: "default".to_owned(),
            keep_finished_days: 90.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Node {
    pub(crate) name: String,
}

impl Default for Node {
    fn default() -> Self {
        Self { name: "landfall".to_owned() }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Lease {
    pub(crate) duration_s: u64,
    pub(crate) renew_s: u64,
    pub(crate) skew_s: u64,
}

impl Default for Lease {
    fn default() -> Self {
        Self { duration_s: 10, renew_s: 3, skew_s: 1 }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chain {
    pub(crate) id: u64,
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) rpc: Vec<String>,
    #[serde(default = "default::finality")]
    pub(crate) finality: ConfiguredFinality,
    #[serde(default = "default::poll_ms")]
    pub(crate) poll_ms: u64,
    #[serde(default = "default::max_in_flight")]
    pub(crate) max_in_flight: u64,
    #[serde(default = "default::resubmit_after_s")]
    pub(crate) resubmit_after_s: u64,
    #[serde(default = "default::bump_percent")]
    pub(crate) bump_percent: u32,
    #[serde(default = "default::max_fee_gwei")]
    pub(crate) max_fee_gwei: u64,
    #[serde(default)]
    pub(crate) max_spend_per_day_eth: f64,
    #[serde(default = "default::request_timeout_ms")]
    pub(crate) request_timeout_ms: u64,
}

mod default {
    use super::ConfiguredFinality;

    pub(super) fn finality() -> ConfiguredFinality {
        ConfiguredFinality::Blocks(20)
    }
    pub(super) fn poll_ms() -> u64 {
        500
    }
    pub(super) fn max_in_flight() -> u64 {
        16
    }
    pub(super) fn resubmit_after_s() -> u64 {
        60
    }
    pub(super) fn bump_percent() -> u32 {
        20
    }
    pub(super) fn max_fee_gwei() -> u64 {
        500
    }
    pub(super) fn request_timeout_ms() -> u64 {
        10_000
    }
}

/// A number of blocks, or a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ConfiguredFinality {
    Blocks(u64),
    Tag(FinalityTag),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FinalityTag {
    Safe,
    Finalized,
}

impl From<ConfiguredFinality> for Finality {
    fn from(configured: ConfiguredFinality) -> Self {
        match configured {
            ConfiguredFinality::Blocks(blocks) => Self::Blocks(blocks),
            ConfiguredFinality::Tag(FinalityTag::Safe) => Self::Safe,
            ConfiguredFinality::Tag(FinalityTag::Finalized) => Self::Finalized,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Signer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<Account>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) private_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keystore: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) password_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) password_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mnemonic_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) chains: Vec<u64>,
}

/// `rpc = "…"` means one; commas part several, as an environment variable needs.
fn one_or_many<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(d)? {
        OneOrMany::One(text) => text.split(',').map(|url| url.trim().to_owned()).collect(),
        OneOrMany::Many(urls) => urls,
    })
}

impl Config {
    /// Reads the file and the environment, and checks that they make sense together.
    pub(crate) fn load(file: &Path, vars: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| {
            format!(
                "the configuration {} cannot be read; write one (`landfall config` prints a commented example) \
                 or name another with --config",
                file.display()
            )
        })?;
        Self::parse(&text, vars)
            .with_context(|| format!("the configuration {} cannot be used", file.display()))
    }

    /// As [`Self::load`], from text.
    pub(crate) fn parse(text: &str, vars: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let mut table: toml::Table = text.parse()?;
        env::overlay(&mut table, vars)?;
        let config: Self = table.try_into()?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        let mut seen = BTreeMap::new();
        for (position, chain) in self.chain.iter().enumerate() {
            if seen.insert(chain.id, position).is_some() {
                bail!("chain {} is configured twice; give all its endpoints in one rpc list", chain.id);
            }
            if chain.rpc.iter().all(String::is_empty) {
                bail!("chain {} has no endpoint; give at least one in rpc", chain.id);
            }
            if chain.max_in_flight == 0 {
                bail!("chain {}: max_in_flight must be at least 1, or nothing would be sent", chain.id);
            }
            if chain.bump_percent < 10 {
                bail!(
                    "chain {}: bump_percent must be at least 10, which nodes ask of a replacement",
                    chain.id
                );
            }
            if !(0.0..=1e9).contains(&chain.max_spend_per_day_eth) {
                bail!("chain {}: max_spend_per_day_eth must be 0 (no budget) or a positive amount", chain.id);
            }
            if chain.resubmit_after_s == 0 || chain.poll_ms == 0 || chain.request_timeout_ms == 0 {
                bail!("chain {}: resubmit_after_s, poll_ms and request_timeout_ms must be above 0", chain.id);
            }
        }
        for signer in &self.signer {
            if let Some(unknown) = signer.chains.iter().find(|id| !seen.contains_key(id)) {
                bail!("a signer names chain {unknown}, which is not configured");
            }
        }
        let days = self.store.keep_finished_days;
        if !(0.0..=36_500.0).contains(&days) {
            bail!("store.keep_finished_days is {days}; it may be 0, for ever, or up to 36500");
        }
        let server = &self.server;
        if server.max_connections == 0 || server.header_timeout_s == 0 || server.body_timeout_s == 0 {
            bail!("server.max_connections, header_timeout_s and body_timeout_s must be above 0");
        }
        if self.lease.renew_s * 2 >= self.lease.duration_s || self.lease.skew_s >= self.lease.duration_s {
            bail!("lease.renew_s must be under half of lease.duration_s, and lease.skew_s below it");
        }
        Ok(())
    }
}

impl Store {
    /// None: for ever.
    pub(crate) fn keep_finished(&self) -> Option<Duration> {
        let seconds = self.keep_finished_days * 86_400.0;
        (seconds > 0.0).then(|| Duration::from_secs_f64(seconds))
    }
}

impl Chain {
    pub(crate) fn lane_settings(&self) -> landfall_core::settings::LaneSettings {
        landfall_core::settings::LaneSettings {
            finality: self.finality.into(),
            max_in_flight: self.max_in_flight,
            resubmit_after: Duration::from_secs(self.resubmit_after_s),
            bump_percent: self.bump_percent,
            max_fee: Price::gwei(self.max_fee_gwei),
            max_spend_per_day: self.max_spend_per_day(),
            on_displaced: match self.finality {
                ConfiguredFinality::Blocks(_) => landfall_core::request::OnDisplaced::Fail,
                ConfiguredFinality::Tag(_) => landfall_core::request::OnDisplaced::Requeue,
            },
            ..landfall_core::settings::LaneSettings::default()
        }
    }

    /// Counted in gwei, which is exact enough for a budget; none where it is 0.
    fn max_spend_per_day(&self) -> Option<landfall_core::Wei> {
        let gwei = (self.max_spend_per_day_eth * 1e9).round() as u128;
        (gwei > 0).then(|| landfall_core::Wei(U256::from(gwei) * U256::from(1_000_000_000_u64)))
    }

    pub(crate) fn chain_config(&self) -> landfall_chain::evm::Config {
        let mut config = landfall_chain::evm::Config::new(ChainId(self.id), self.rpc.clone());
        config.poll_interval = Duration::from_millis(self.poll_ms);
        config.request_timeout = Duration::from_millis(self.request_timeout_ms);
        config
    }
}

impl Signer {
    /// Where the key is, from the keys that are set.
    pub(crate) fn source(&self) -> Result<landfall_signer::Source> {
        use landfall_signer::{PasswordFrom, Source};
        let kinds = [self.private_key_env.is_some(), self.keystore.is_some(), self.mnemonic_env.is_some()];
        if kinds.iter().filter(|set| **set).count() != 1 {
            bail!("a signer needs exactly one of private_key_env, keystore or mnemonic_env");
        }
        if let Some(env) = &self.private_key_env {
            return Ok(Source::PrivateKey { env: env.clone() });
        }
        if let Some(env) = &self.mnemonic_env {
            return Ok(Source::Mnemonic { env: env.clone(), index: self.index.unwrap_or(0) });
        }
        let password = match (&self.password_env, &self.password_file) {
            (Some(env), None) => PasswordFrom::Env(env.clone()),
            (None, Some(file)) => PasswordFrom::File(file.clone()),
            _ => bail!("a keystore needs exactly one of password_env or password_file"),
        };
        Ok(Source::Keystore { path: self.keystore.clone().unwrap_or_default(), password })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, vars: &[(&str, &str)]) -> Result<Config> {
        Config::parse(text, vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
    }

    const SMALL: &str =
        "[[chain]]\nid = 1\nrpc = [\"http://127.0.0.1:1\"]\n[[signer]]\nprivate_key_env = \"K\"";

    #[test]
    fn what_is_not_set_has_the_documented_default() {
        let config = parse(SMALL, &[]).unwrap();
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:8645");
        assert_eq!(config.store.url, "sqlite://landfall.db");
        let chain = &config.chain[0];
        assert_eq!(Finality::from(chain.finality), Finality::Blocks(20));
        assert_eq!((chain.poll_ms, chain.max_in_flight, chain.resubmit_after_s), (500, 16, 60));
        assert_eq!((chain.bump_percent, chain.max_fee_gwei), (20, 500));
    }

    #[test]
    fn variables_win_over_the_file() {
        let vars = [
            ("LANDFALL_SERVER__LISTEN", "127.0.0.1:9000"),
            ("LANDFALL_CHAIN__0__RPC", "http://127.0.0.1:2,http://127.0.0.1:3"),
            ("LANDFALL_CHAIN__0__MAX_IN_FLIGHT", "64"),
            ("LANDFALL_CHAIN__0__FINALITY", "finalized"),
            ("LANDFALL_LOG", "debug"),
        ];
        let config = parse(SMALL, &vars).unwrap();
        assert_eq!(config.server.listen.port(), 9000);
        assert_eq!(config.chain[0].rpc.len(), 2);
        assert_eq!(config.chain[0].max_in_flight, 64);
        assert_eq!(Finality::from(config.chain[0].finality), Finality::Finalized);
    }

    #[test]
    fn a_misspelt_or_senseless_key_is_named() {
        for (text, vars, names) in [
            ("[server]\nlisten_on = \"x\"", &[][..], "listen_on"),
            (SMALL, &[("LANDFALL_CHAIN__0__MAX_IN_FLIHT", "1")][..], "max_in_fliht"),
            (SMALL, &[("LANDFALL_CHAIN__0__MAX_IN_FLIGHT", "0")][..], "max_in_flight"),
            (SMALL, &[("LANDFALL_CHAIN__0__BUMP_PERCENT", "5")][..], "bump_percent"),
            ("[[signer]]\nchains = [7]", &[][..], "chain 7"),
        ] {
            let error = format!("{:#}", parse(text, vars).unwrap_err());
            assert!(error.contains(names), "{error}");
        }
    }

    #[test]
    fn a_signer_names_one_place_for_its_key() {
        assert!(Signer::default().source().is_err());
        let two =
            Signer { private_key_env: Some("A".into()), mnemonic_env: Some("B".into()), ..Signer::default() };
        assert!(two.source().is_err());
    }
}
