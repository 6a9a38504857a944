//! What is known of a chain by its id: `specs/chains.toml`, compiled in. Pure.
//!
//! A chain that is not listed is like `[family.other]`. Whoever configures a chain starts from its spec and changes what
//! they know better.

use landfall_core::ChainId;
use landfall_core::request;
use serde::{Deserialize, Serialize};

/// A chain's ways. The file's head says what each key means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    pub finality: Finality,
    pub tags: bool,
    pub poll_ms: u64,
    pub max_in_flight: u64,
    pub delegated_in_flight: u64,
    pub mempool: bool,
    pub tips: bool,
    pub min_tip_wei: u64,
    pub min_price_wei: u64,
    pub replacement_percent: u32,
    pub gas_headroom_percent: u32,
    pub data_fee: DataFeeKind,
    pub tx_types: Vec<u8>,
    pub max_tx_gas: u64,
    pub max_tx_bytes: u64,
    pub calldata_floor: bool,
    pub first_alone: bool,
}

/// A number of blocks, or a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Finality {
    Blocks(u64),
    Tag(FinalityTag),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalityTag {
    Safe,
    Finalized,
}

impl From<Finality> for request::Finality {
    fn from(configured: Finality) -> Self {
        match configured {
            Finality::Blocks(blocks) => Self::Blocks(blocks),
            Finality::Tag(FinalityTag::Safe) => Self::Safe,
            Finality::Tag(FinalityTag::Finalized) => Self::Finalized,
        }
    }
}

/// How a rollup charges for a transaction's bytes on its parent chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataFeeKind {
    None,
    /// Part of the gas: the estimate has it.
    InGas,
    /// On top of the gas; the `GasPriceOracle` contract tells a bound.
    OpStack,
}

const FILE: &str = include_str!("../specs/chains.toml");
const UNLISTED: &str = "other";
const DEVELOPMENT: &str = "development";

/// The file cannot be used: never at run time, since a test reads it.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("the table of chains cannot be read: {0}")]
    Unreadable(#[from] toml::de::Error),
    #[error("the table of chains names no family {0:?}")]
    NoFamily(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    family: toml::Table,
    chain: Vec<toml::Table>,
}

impl Table {
    fn load() -> Result<Self, SpecError> {
        Ok(toml::from_str(FILE)?)
    }

    fn family(&self, name: &str) -> Result<&toml::Table, SpecError> {
        let family = self.family.get(name).and_then(toml::Value::as_table);
        family.ok_or_else(|| SpecError::NoFamily(name.to_owned()))
    }

    fn entry(&self, id: ChainId) -> Option<&toml::Table> {
        self.chain.iter().find(|chain| id_of(chain) == Some(id))
    }

    /// The keys of a chain, from the most general to its own.
    fn keys(&self, id: ChainId) -> Result<toml::Table, SpecError> {
        let mut keys = self.family(UNLISTED)?.clone();
        let Some(entry) = self.entry(id) else { return Ok(keys) };
        let family = entry.get("family").and_then(toml::Value::as_str).unwrap_or(UNLISTED);
        keys.extend(self.family(family)?.clone());
        let own = entry.iter().filter(|(key, _)| !matches!(key.as_str(), "id" | "name" | "family"));
        keys.extend(own.map(|(key, value)| (key.clone(), value.clone())));
        Ok(keys)
    }
}

fn id_of(chain: &toml::Table) -> Option<ChainId> {
    let id = chain.get("id").and_then(toml::Value::as_integer)?;
    u64::try_from(id).ok().map(ChainId)
}

fn text_of(chain: &toml::Table, key: &str) -> String {
    chain.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned()
}

impl Spec {
    /// What is known of this chain.
    pub fn of(id: ChainId) -> Result<Self, SpecError> {
        Ok(Table::load()?.keys(id)?.try_into()?)
    }

    /// What holds for a chain of which nothing is known.
    pub fn unlisted() -> Result<Self, SpecError> {
        Ok(Table::load()?.family(UNLISTED)?.clone().try_into()?)
    }

    /// The chains that something is known of, with their names.
    pub fn listed() -> Result<Vec<(ChainId, String)>, SpecError> {
        Ok(Table::load()?
            .chain
            .iter()
            .filter_map(|chain| Some((id_of(chain)?, text_of(chain, "name"))))
            .collect())
    }

    /// The name of a chain that something is known of.
    pub fn name_of(id: ChainId) -> Result<Option<String>, SpecError> {
        Ok(Table::load()?.entry(id).map(|chain| text_of(chain, "name")))
    }

    /// A chain for play: anvil, hardhat, the devchain.
    pub fn is_development(id: ChainId) -> Result<bool, SpecError> {
        Ok(Table::load()?.entry(id).is_some_and(|chain| text_of(chain, "family") == DEVELOPMENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn table() -> Table {
        Table::load().unwrap()
    }

    fn ids() -> Vec<u64> {
        table().chain.iter().map(|chain| chain["id"].as_integer().unwrap() as u64).collect()
    }

    #[test]
    fn every_entry_is_complete_known_and_makes_sense() {
        let table = table();
        let known: BTreeSet<&String> = table.family("other").unwrap().keys().collect();
        for (name, family) in &table.family {
            let family = family.as_table().unwrap();
            assert!(family.keys().all(|key| known.contains(key)), "{name} has a key that is not known");
        }
        assert_eq!(ids().iter().collect::<BTreeSet<_>>().len(), ids().len(), "a chain is listed twice");
        for chain in &table.chain {
            assert!(chain.contains_key("name") && chain.contains_key("family"), "{chain:?}");
            let own = chain.keys().filter(|key| !["id", "name", "family"].contains(&key.as_str()));
            assert!(own.into_iter().all(|key| known.contains(key)), "{chain:?}");
        }
        for id in ids().into_iter().chain([999_999]) {
            let spec = Spec::of(ChainId(id)).unwrap();
            assert!(
                spec.tags || matches!(spec.finality, Finality::Blocks(_)),
                "{id}: a tag it does not have"
            );
            assert!(spec.poll_ms >= 100 && spec.max_in_flight >= 1 && spec.delegated_in_flight >= 1, "{id}");
            assert!(spec.max_in_flight <= 16, "{id}: reth peers drop what is beyond");
            assert!(spec.delegated_in_flight <= spec.max_in_flight, "{id}");
            assert!(spec.min_tip_wei >= 1 && spec.min_price_wei >= 1, "{id}");
            assert!((1..=200).contains(&spec.replacement_percent), "{id}");
            assert!(spec.tx_types.contains(&0) && !spec.tx_types.contains(&3), "{id}: blobs are not sent");
            assert!(spec.max_tx_gas == 0 || spec.max_tx_gas >= 1 << 24, "{id}");
        }
    }

    /// What a chain is known for, in a line.
    fn line(id: u64) -> String {
        let s = Spec::of(ChainId(id)).unwrap();
        let finality = match s.finality {
            Finality::Blocks(blocks) => blocks.to_string(),
            Finality::Tag(FinalityTag::Safe) => "safe".to_owned(),
            Finality::Tag(FinalityTag::Finalized) => "finalized".to_owned(),
        };
        let fee = match s.data_fee {
            DataFeeKind::None => "none",
            DataFeeKind::InGas => "in_gas",
            DataFeeKind::OpStack => "op_stack",
        };
        format!(
            "{finality} poll={} window={}/{} mempool={} tips={} tip>={} price>={} +{}% gas+{}% {fee} {:?} gas<={} bytes<={}{}{}",
            s.poll_ms,
            s.max_in_flight,
            s.delegated_in_flight,
            s.mempool,
            s.tips,
            s.min_tip_wei,
            s.min_price_wei,
            s.replacement_percent,
            s.gas_headroom_percent,
            s.tx_types,
            s.max_tx_gas,
            s.max_tx_bytes,
            if s.calldata_floor { " floor" } else { "" },
            if s.first_alone { " first alone" } else { "" },
        )
    }

    #[test]
    fn each_known_chain_has_its_ways() {
        const ETHEREUM: &str = "finalized poll=1500 window=16/1 mempool=true tips=true tip>=1 price>=1 +10% gas+20% none [0, 1, 2, 4] gas<=16777216 bytes<=131072 floor";
        const OP: &str = "safe poll=500 window=16/1 mempool=true tips=true tip>=1 price>=1 +10% gas+20% op_stack [0, 1, 2, 4] gas<=0 bytes<=131072 floor";
        const BASE: &str = "safe poll=500 window=16/4 mempool=true tips=true tip>=1 price>=1 +10% gas+20% op_stack [0, 1, 2, 4] gas<=0 bytes<=131072 floor";
        const ARBITRUM: &str = "safe poll=250 window=16/1 mempool=false tips=false tip>=1 price>=1 +10% gas+50% in_gas [0, 1, 2, 4] gas<=0 bytes<=95000";
        const POLYGON: &str = "finalized poll=500 window=16/1 mempool=true tips=true tip>=25000000000 price>=1 +10% gas+20% none [0, 1, 2, 4] gas<=0 bytes<=131072 floor";
        const BSC: &str = "finalized poll=500 window=16/1 mempool=true tips=true tip>=50000000 price>=50000000 +10% gas+20% none [0, 1, 2, 4] gas<=0 bytes<=131072 floor";
        const AVALANCHE: &str = "finalized poll=500 window=16/1 mempool=true tips=true tip>=1 price>=1 +10% gas+20% none [0, 1, 2] gas<=0 bytes<=131072";
        const ZKSYNC: &str = "20 poll=500 window=16/1 mempool=true tips=false tip>=1 price>=1 +10% gas+40% in_gas [0, 2] gas<=0 bytes<=131072";
        const OTHER: &str = "20 poll=500 window=16/1 mempool=true tips=true tip>=1 price>=1 +10% gas+20% none [0, 1, 2, 4] gas<=0 bytes<=131072";
        const FLOW: &str = "20 poll=500 window=16/1 mempool=true tips=true tip>=1 price>=1 +10% gas+20% none [0, 1, 2, 4] gas<=0 bytes<=131072 first alone";
        let golden: &[(u64, &str)] = &[
            (747, FLOW),
            (545, FLOW),
            (1, ETHEREUM),
            (11_155_111, ETHEREUM),
            (560_048, ETHEREUM),
            (10, OP),
            (11_155_420, OP),
            (130, OP),
            (480, OP),
            (7_777_777, OP),
            (8453, BASE),
            (84_532, BASE),
            (42_161, ARBITRUM),
            (42_170, ARBITRUM),
            (421_614, ARBITRUM),
            (137, POLYGON),
            (80_002, POLYGON),
            (56, BSC),
            (97, BSC),
            (43_114, AVALANCHE),
            (43_113, AVALANCHE),
            (324, ZKSYNC),
            (300, ZKSYNC),
            (31_337, OTHER),
            (1337, OTHER),
        ];
        for (id, expected) in golden {
            assert_eq!(line(*id), *expected, "chain {id}");
        }
        let told: BTreeSet<u64> = golden.iter().map(|(id, _)| *id).collect();
        assert_eq!(told, ids().into_iter().collect(), "every listed chain has a row here");
        assert_eq!(line(999_999), OTHER, "a chain that is not listed");
    }
}
