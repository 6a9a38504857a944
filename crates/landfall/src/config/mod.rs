//! The configuration: `landfall.toml` and `LANDFALL_…` variables. One struct per component, defaults beside the keys.
//!
//! `reference.rs` has a sentence for each key; `printed.rs` makes the page in `docs/` and the file that `landfall config`
//! prints from it, and tests hold both to these structs.

mod access;
mod env;
mod errors;
mod lease;
pub(crate) mod printed;
mod reference;
mod resolve;
mod rpc;
pub(crate) mod secrets;
mod server;
mod signer;
mod store;
mod unknown;
mod webhooks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use alloy_primitives::U256;
use anyhow::{Context, Result, anyhow, bail};
use landfall_chain::spec::{DataFeeKind, Finality, Spec};
use landfall_core::settings::{Allocation, LaneSettings, TxLimits};
use landfall_core::{ChainId, Gas, Price};
use serde::{Deserialize, Deserializer, Serialize};

pub(crate) use access::Access;
pub(crate) use lease::Lease;
pub(crate) use rpc::Rpc;
pub(crate) use server::Server;
pub(crate) use signer::Signer;
pub(crate) use store::Store;
pub(crate) use webhooks::Webhooks;

/// Everything. What may hold a secret is left out where it is shown for people who debug.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) server: Server,
    pub(crate) store: Store,
    pub(crate) node: Node,
    pub(crate) lease: Lease,
    pub(crate) metrics: Metrics,
    pub(crate) traces: Traces,
    pub(crate) access: Access,
    pub(crate) rpc: Rpc,
    pub(crate) webhooks: Webhooks,
    pub(crate) trades: Trades,
    pub(crate) chain: Vec<Chain>,
    pub(crate) signer: Vec<Signer>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Node {
    pub(crate) name: String,
}

impl Default for Node {
    fn default() -> Self {
        Self { name: crate::system::host_name() }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Metrics {
    pub(crate) mask_signers: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Traces {
    pub(crate) otlp: String,
    pub(crate) sample: f64,
}

impl Default for Traces {
    fn default() -> Self {
        Self { otlp: String::new(), sample: 1.0 }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Trades {
    pub(crate) max_head_age_s: u64,
}

impl Default for Trades {
    fn default() -> Self {
        Self { max_head_age_s: 60 }
    }
}

/// A chain: what is said of it here, and for the rest what is known of it by its id.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chain {
    pub(crate) id: u64,
    #[serde(default, deserialize_with = "one_or_many")]
    pub(crate) rpc: Vec<String>,
    #[serde(default, deserialize_with = "one_or_many")]
    pub(crate) caller_rpc: Vec<String>,
    #[serde(default)]
    pub(crate) caller_rpc_file: PathBuf,
    #[serde(default)]
    pub(crate) rpc_file: PathBuf,
    #[serde(default)]
    pub(crate) development: bool,
    #[serde(default = "default::resubmit_after_s")]
    pub(crate) resubmit_after_s: u64,
    #[serde(default = "default::bump_percent")]
    pub(crate) bump_percent: u32,
    #[serde(default = "default::max_fee_gwei")]
    pub(crate) max_fee_gwei: u64,
    #[serde(default)]
    pub(crate) max_spend_per_day_eth: f64,
    #[serde(default)]
    pub(crate) low_balance_eth: f64,
    #[serde(default)]
    pub(crate) checks: bool,
    #[serde(default = "default::max_signed_ahead")]
    pub(crate) max_signed_ahead: u64,
    #[serde(default = "default::max_waiting")]
    pub(crate) max_waiting: u64,
    #[serde(default = "default::max_waiting_bytes")]
    pub(crate) max_waiting_bytes: u64,
    #[serde(default = "default::watch_depth")]
    pub(crate) watch_depth: u64,
    #[serde(default = "default::witness_wait_s")]
    pub(crate) witness_wait_s: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) approve_above_wei: Option<landfall_core::Wei>,
    #[serde(default = "default::reset_above_returned")]
    pub(crate) reset_above_returned: usize,
    #[serde(default = "default::request_timeout_ms")]
    pub(crate) request_timeout_ms: u64,
    #[serde(default = "default::requests_per_s", deserialize_with = "one_or_more_numbers")]
    pub(crate) requests_per_s: Vec<u32>,
    /// Its keys stand beside the others. What the file leaves out was filled in before it is read.
    #[serde(flatten)]
    pub(crate) spec: Spec,
}

mod default {
    pub(super) fn resubmit_after_s() -> u64 {
        60
    }
    pub(super) fn bump_percent() -> u32 {
        20
    }
    pub(super) fn max_fee_gwei() -> u64 {
        500
    }
    pub(super) fn max_signed_ahead() -> u64 {
        1_000
    }
    pub(super) fn max_waiting() -> u64 {
        1_000_000
    }
    pub(super) fn max_waiting_bytes() -> u64 {
        1 << 30
    }
    pub(super) fn watch_depth() -> u64 {
        64
    }
    pub(super) fn witness_wait_s() -> u64 {
        600
    }
    pub(super) fn reset_above_returned() -> usize {
        64
    }
    pub(super) fn request_timeout_ms() -> u64 {
        10_000
    }
    pub(super) fn requests_per_s() -> Vec<u32> {
        vec![0]
    }
}

/// One number for all endpoints, or one for each.
fn one_or_more_numbers<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMore {
        One(u32),
        More(Vec<u32>),
    }
    Ok(match OneOrMore::deserialize(d)? {
        OneOrMore::One(number) => vec![number],
        OneOrMore::More(numbers) => numbers,
    })
}

/// Gives every chain the keys that it does not set, from what is known of it by its id.
fn fill_in_specs(table: &mut toml::Table) -> Result<()> {
    let Some(toml::Value::Array(chains)) = table.get_mut("chain") else { return Ok(()) };
    for chain in chains.iter_mut().filter_map(toml::Value::as_table_mut) {
        let Some(id) = chain.get("id").and_then(toml::Value::as_integer) else { continue };
        let Ok(id) = u64::try_from(id) else { continue };
        for (key, value) in toml::Table::try_from(Spec::of(ChainId(id))?)? {
            chain.entry(key).or_insert(value);
        }
    }
    Ok(())
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
            .and_then(Self::with_files)
            .with_context(|| format!("the configuration {} cannot be used", file.display()))
    }

    /// As [`Self::load`], from text.
    pub(crate) fn parse(text: &str, vars: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let mut table = text.parse::<toml::Table>().map_err(|error| errors::syntax(text, &error))?;
        unknown::check_file(text, &table)?;
        env::overlay(&mut table, vars)?;
        fill_in_specs(&mut table)?;
        let mut config = table.clone().try_into::<Self>().map_err(|error| errors::value(&table, &error))?;
        if config.node.name.is_empty() {
            config.node = Node::default();
        }
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        let mut seen = BTreeMap::new();
        for (position, chain) in self.chain.iter().enumerate() {
            if seen.insert(chain.id, position).is_some() {
                bail!("chain {} is configured twice; give all its endpoints in one rpc list", chain.id);
            }
            let by_file = !chain.rpc_file.as_os_str().is_empty();
            if by_file && !chain.rpc.is_empty() {
                bail!("chain {} has rpc and rpc_file; keep one of them", chain.id);
            }
            if !by_file && chain.rpc.iter().all(String::is_empty) {
                bail!(
                    "chain {} has no endpoint; give at least one in rpc, or in the file rpc_file",
                    chain.id
                );
            }
            if !chain.caller_rpc_file.as_os_str().is_empty() && !chain.caller_rpc.is_empty() {
                bail!("chain {} has caller_rpc and caller_rpc_file; keep one of them", chain.id);
            }
            if chain.caller_rpc.iter().any(String::is_empty) {
                bail!(
                    "chain {}: caller_rpc has an empty entry; leave it out, and callers' questions go to rpc",
                    chain.id
                );
            }
            chain.check()?;
        }
        for (position, signer) in self.signer.iter().enumerate() {
            signer.check().map_err(|error| anyhow!("signer {position}: {error}"))?;
            if let Some(unknown) = signer.chains.iter().find(|id| !seen.contains_key(id)) {
                bail!("a signer names chain {unknown}, which is not configured");
            }
            let here = |chain: &&Chain| signer.chains.is_empty() || signer.chains.contains(&chain.id);
            let asks = self.chain.iter().filter(here).find(|chain| chain.approve_above_wei.is_some());
            if let (Allocation::Admission, Some(chain)) = (signer.allocation, asks) {
                bail!(
                    "a signer assigns nonces at admission, and chain {} asks a person about large values: a nonce \
                     cannot wait for a person. Leave out approve_above_wei, or use allocation = \"dispatch\"",
                    chain.id
                );
            }
        }
        let days = self.store.keep_finished_days;
        if !(0.0..=36_500.0).contains(&days) {
            bail!("store.keep_finished_days is {days}; it may be 0, for ever, or up to 36500");
        }
        self.server.check()?;
        if !(0.0..=1.0).contains(&self.traces.sample) {
            bail!("traces.sample is {}; it is a share of the transactions, from 0 to 1", self.traces.sample);
        }
        self.access.check()?;
        self.rpc.check()?;
        self.webhooks.check()?;
        self.lease.check()?;
        let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic());
        if !is_plain(&self.node.name) {
            bail!("node.name is {:?}; use letters, digits and dashes", self.node.name);
        }
        Ok(())
    }
}

/// Endpoints are URLs. What stands there may hold a key, and is not shown.
fn check_urls(chain: u64, key: &str, urls: &[String]) -> Result<()> {
    let is_url = |url: &String| {
        let schemes = ["http://", "https://", "ws://", "wss://"];
        schemes
            .iter()
            .any(|scheme| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
    };
    match urls.iter().position(|url| !is_url(url)) {
        Some(wrong) => bail!(
            "chain {chain}: endpoint {} of {key} does not begin with http://, https://, ws:// or wss://; write it as \
             https://node.example.com (what stands there is not shown, since it may hold a key)",
            wrong + 1
        ),
        None => Ok(()),
    }
}

/// The most slots of a lane that may be bound at once.
const MOST_SLOTS: u64 = 100_000;
/// More than the largest transaction takes in the store.
const LARGEST_WAITING: u64 = 1 << 20;

impl Chain {
    /// A chain with the defaults of its id.
    pub(crate) fn new(id: u64, rpc: Vec<String>) -> Result<Self> {
        Ok(Self {
            id,
            rpc,
            caller_rpc: Vec::new(),
            caller_rpc_file: PathBuf::new(),
            rpc_file: PathBuf::new(),
            development: false,
            resubmit_after_s: default::resubmit_after_s(),
            bump_percent: default::bump_percent(),
            max_fee_gwei: default::max_fee_gwei(),
            max_spend_per_day_eth: 0.0,
            low_balance_eth: 0.0,
            checks: false,
            max_signed_ahead: default::max_signed_ahead(),
            max_waiting: default::max_waiting(),
            max_waiting_bytes: default::max_waiting_bytes(),
            watch_depth: default::watch_depth(),
            witness_wait_s: default::witness_wait_s(),
            approve_above_wei: None,
            reset_above_returned: default::reset_above_returned(),
            request_timeout_ms: default::request_timeout_ms(),
            requests_per_s: default::requests_per_s(),
            spec: Spec::of(ChainId(id))?,
        })
    }

    fn check(&self) -> Result<()> {
        let (id, spec) = (self.id, &self.spec);
        if spec.max_in_flight == 0 || spec.delegated_in_flight == 0 {
            bail!(
                "chain {id}: max_in_flight and delegated_in_flight must be at least 1, or nothing would be sent"
            );
        }
        if self.max_waiting == 0 {
            bail!("chain {id}: max_waiting must be at least 1, or nothing would be taken in");
        }
        if self.max_waiting_bytes < LARGEST_WAITING {
            bail!(
                "chain {id}: max_waiting_bytes must be at least {LARGEST_WAITING}, or the largest transaction would never be taken in"
            );
        }
        if spec.max_in_flight > MOST_SLOTS || self.max_signed_ahead > MOST_SLOTS {
            bail!(
                "chain {id}: max_in_flight and max_signed_ahead may be up to {MOST_SLOTS}; what is in flight is held in \
                 memory"
            );
        }
        if spec.replacement_percent == 0 || self.bump_percent < spec.replacement_percent {
            let rule = spec.replacement_percent.max(1);
            bail!("chain {id}: bump_percent must be at least {rule}, which nodes ask of a replacement");
        }
        if !(0.0..=1e9).contains(&self.max_spend_per_day_eth) {
            bail!("chain {id}: max_spend_per_day_eth must be 0 (no budget) or a positive amount");
        }
        if !(0.0..=1e9).contains(&self.low_balance_eth) {
            bail!("chain {id}: low_balance_eth must be 0 (no threshold) or a positive amount");
        }
        if self.resubmit_after_s == 0 || spec.poll_ms == 0 || self.request_timeout_ms == 0 {
            bail!("chain {id}: resubmit_after_s, poll_ms and request_timeout_ms must be above 0");
        }
        if !spec.tags && matches!(spec.finality, Finality::Tag(_)) {
            bail!("chain {id} has no safe or finalized block; give finality as a number of blocks");
        }
        if let Some(kind) = spec.tx_types.iter().find(|kind| !matches!(kind, 0 | 1 | 2 | 4)) {
            bail!("chain {id}: tx_types has {kind}; Landfall sends types 0, 1, 2 and 4");
        }
        if !spec.tx_types.contains(&0) && !spec.tx_types.contains(&2) {
            bail!("chain {id}: tx_types must have 0 or 2, or a no-op could not be sent");
        }
        if self.requests_per_s.is_empty() {
            bail!("chain {id}: requests_per_s is a number, or one for each endpoint; 0 for no limit");
        }
        Ok(())
    }

    /// Keys that are set to what holds for chains nobody knows, although more is known of this one: copied from an
    /// example for another chain, most likely.
    pub(crate) fn generic_keys(&self) -> Result<Vec<String>> {
        let table = |spec: &Spec| toml::Table::try_from(spec);
        let (set, known, usual) =
            (table(&self.spec)?, table(&Spec::of(ChainId(self.id))?)?, table(&Spec::unlisted()?)?);
        let copied = set
            .iter()
            .filter(|(key, value)| known.get(*key) != Some(*value) && usual.get(*key) == Some(*value));
        let sentence = |(key, value): (&String, &toml::Value)| {
            let known = known.get(key).map_or_else(String::new, ToString::to_string);
            format!("{key} is {value}, and {known} is known to fit")
        };
        Ok(copied.map(sentence).collect())
    }

    pub(crate) fn lane_settings(&self) -> LaneSettings {
        let spec = &self.spec;
        LaneSettings {
            finality: spec.finality.into(),
            tags: spec.tags,
            max_in_flight: spec.max_in_flight,
            delegated_in_flight: spec.delegated_in_flight,
            gapless: !spec.mempool,
            first_alone: spec.first_alone,
            estimate_each_attempt: spec.data_fee == DataFeeKind::InGas,
            resubmit_after: Duration::from_secs(self.resubmit_after_s),
            bump_percent: self.bump_percent,
            replacement_percent: spec.replacement_percent,
            max_fee: Price::gwei(self.max_fee_gwei),
            max_spend_per_day: wei_of(self.max_spend_per_day_eth),
            low_balance: wei_of(self.low_balance_eth),
            checks: self.checks,
            max_signed_ahead: self.max_signed_ahead,
            max_waiting: self.max_waiting,
            max_waiting_bytes: self.max_waiting_bytes,
            watch_depth: self.watch_depth,
            witness_wait: (self.witness_wait_s > 0).then(|| Duration::from_secs(self.witness_wait_s)),
            approve_above: self.approve_above_wei,
            reset_above_returned: Some(self.reset_above_returned),
            gas_headroom_percent: spec.gas_headroom_percent,
            on_displaced: match spec.finality {
                Finality::Blocks(_) => landfall_core::request::OnDisplaced::Fail,
                Finality::Tag(_) => landfall_core::request::OnDisplaced::Requeue,
            },
            limits: TxLimits {
                types: spec.tx_types.clone(),
                gas: (spec.max_tx_gas > 0).then_some(Gas(spec.max_tx_gas)),
                bytes: (spec.max_tx_bytes > 0).then_some(spec.max_tx_bytes),
                calldata_floor: spec.calldata_floor,
            },
            ..LaneSettings::default()
        }
    }

    pub(crate) fn chain_config(&self) -> landfall_chain::evm::Config {
        let mut config = landfall_chain::evm::Config::new(ChainId(self.id), self.rpc.clone());
        config.poll_interval = Duration::from_millis(self.spec.poll_ms);
        config.request_timeout = Duration::from_millis(self.request_timeout_ms);
        config.requests_per_s.clone_from(&self.requests_per_s);
        config.pricing = (&self.spec).into();
        config
    }
}

/// Counted in gwei, which is exact enough for budgets and thresholds; none where it is 0.
fn wei_of(eth: f64) -> Option<landfall_core::Wei> {
    let gwei = (eth * 1e9).round() as u128;
    (gwei > 0).then(|| landfall_core::Wei(U256::from(gwei) * U256::from(1_000_000_000_u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, vars: &[(&str, &str)]) -> Result<Config> {
        Config::parse(text, vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
    }

    const SMALL: &str =
        "[[chain]]\nid = 31337\nrpc = [\"http://127.0.0.1:1\"]\n[[signer]]\nprivate_key_env = \"K\"";

    #[test]
    fn what_is_not_set_has_the_documented_default() {
        let config = parse(SMALL, &[]).unwrap();
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:8645");
        assert_eq!(config.store.url, "sqlite://landfall.db");
        let chain = &config.chain[0];
        assert_eq!(chain.spec.finality, Finality::Blocks(20));
        let spec = &chain.spec;
        assert_eq!((spec.poll_ms, spec.max_in_flight, chain.resubmit_after_s), (500, 16, 60));
        assert_eq!((chain.bump_percent, chain.max_fee_gwei), (20, 500));
        assert_eq!(*chain, Chain::new(31_337, chain.rpc.clone()).unwrap());
    }

    // covers: E10, F5, M6
    #[test]
    fn what_is_known_of_a_chain_by_its_id_is_its_default_and_reaches_its_lanes() {
        let chain = |id: u64, more: &str| {
            let text = format!("[[chain]]\nid = {id}\nrpc = \"http://127.0.0.1:1\"\n{more}");
            parse(&text, &[]).unwrap().chain.remove(0)
        };
        let ethereum = chain(1, "").lane_settings();
        assert_eq!(ethereum.finality, landfall_core::request::Finality::Finalized);
        assert_eq!(ethereum.limits.gas, Some(Gas(1 << 24)));
        assert!(!ethereum.gapless);
        let arbitrum = chain(42_161, "");
        assert!(arbitrum.lane_settings().gapless && !arbitrum.chain_config().pricing.tips);
        assert_eq!(chain(8453, "").lane_settings().delegated_in_flight, 4);
        assert_eq!(chain(137, "").chain_config().pricing.min_tip, Price::gwei(25));
        assert_eq!(chain(324, "").lane_settings().limits.types, [0, 2]);
        let changed = chain(137, "min_tip_wei = 30000000000\nfinality = 3\nmempool = false");
        assert_eq!(changed.chain_config().pricing.min_tip, Price::gwei(30));
        assert_eq!(changed.lane_settings().finality, landfall_core::request::Finality::Blocks(3));
        assert!(changed.lane_settings().gapless);
    }

    #[test]
    fn a_key_copied_from_another_chain_is_named_and_one_that_was_thought_about_is_not() {
        let chain = |id: u64, more: &str| {
            let text = format!("[[chain]]\nid = {id}\nrpc = \"http://127.0.0.1:1\"\n{more}");
            parse(&text, &[]).unwrap().chain.remove(0).generic_keys().unwrap()
        };
        let copied = chain(137, "min_tip_wei = 1\nfinality = 20\npoll_ms = 500");
        assert_eq!(copied.len(), 2, "{copied:?}");
        assert!(copied.iter().any(|key| key.starts_with("min_tip_wei is 1, and 25000000000 ")), "{copied:?}");
        assert_eq!(chain(137, "min_tip_wei = 30000000000\nfinality = 3"), [""; 0]);
        assert_eq!(chain(31_337, "finality = 20"), [""; 0]);
    }

    // covers: L1, L4
    #[test]
    fn thresholds_checks_and_depth_reach_the_lanes() {
        let asked = [
            ("LANDFALL_CHAIN__0__LOW_BALANCE_ETH", "0.25"),
            ("LANDFALL_CHAIN__0__MAX_SPEND_PER_DAY_ETH", "2.5"),
            ("LANDFALL_CHAIN__0__CHECKS", "true"),
            ("LANDFALL_CHAIN__0__WATCH_DEPTH", "7"),
        ];
        let settings = parse(SMALL, &asked).unwrap().chain[0].lane_settings();
        let eth = |hundredths: u64| {
            Some(landfall_core::Wei(U256::from(hundredths) * U256::from(10_000_000_000_000_000_u64)))
        };
        assert_eq!((settings.low_balance, settings.max_spend_per_day), (eth(25), eth(250)));
        assert_eq!((settings.checks, settings.watch_depth), (true, 7));
        let settings = parse(SMALL, &[]).unwrap().chain[0].lane_settings();
        assert_eq!((settings.low_balance, settings.max_spend_per_day), (None, None));
        assert_eq!((settings.checks, settings.watch_depth), (false, LaneSettings::default().watch_depth));
        assert_eq!(settings.witness_wait, Some(Duration::from_secs(600)));
        let wait = |text| {
            let asked = [("LANDFALL_CHAIN__0__WITNESS_WAIT_S", text)];
            parse(SMALL, &asked).unwrap().chain[0].lane_settings().witness_wait
        };
        assert_eq!((wait("0"), wait("5")), (None, Some(Duration::from_secs(5))));
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
        assert_eq!(config.chain[0].spec.max_in_flight, 64);
        assert_eq!(
            config.chain[0].spec.finality,
            Finality::Tag(landfall_chain::spec::FinalityTag::Finalized)
        );
    }

    #[test]
    fn a_misspelt_or_senseless_key_is_named() {
        for (text, vars, names) in [
            ("[server]\nlisten_on = \"x\"", &[][..], "listen_on"),
            (SMALL, &[("LANDFALL_CHAIN__0__MAX_IN_FLIHT", "1")][..], "max_in_fliht"),
            (SMALL, &[("LANDFALL_CHAIN__0__MAX_IN_FLIGHT", "0")][..], "max_in_flight"),
            (SMALL, &[("LANDFALL_CHAIN__0__BUMP_PERCENT", "5")][..], "bump_percent"),
            ("[[chain]]\nid = 5\nrpc = \"x\"\ntx_types = [3]", &[][..], "tx_types"),
            ("[[chain]]\nid = 5\nrpc = \"x\"\ntags = false\nfinality = \"safe\"", &[][..], "no safe"),
            ("[[signer]]\nchains = [7]", &[][..], "chain 7"),
        ] {
            let error = format!("{:#}", parse(text, vars).unwrap_err());
            assert!(error.contains(names), "{error}");
        }
    }
}
