//! An OpenZeppelin relayer's `config.json`, its networks and its keystores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::found::{Found, FoundChain, FoundPassword, FoundSigner, is_keystore};

/// What a network may be made from, at most so many steps.
const DEEPEST: usize = 10;
const GWEI: f64 = 1e9;
const ETHER: f64 = 1e18;

pub(super) fn read(config: &Path, networks: Option<&Path>) -> Result<Found> {
    let document = json_of(config)?;
    let networks = Networks::read(&document, config, networks)?;
    let mut found = Found { from: config.display().to_string(), ..Found::default() };
    let mut used: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for relayer in list(&document, "relayers") {
        let id = text(relayer, "id");
        if text(relayer, "network_type") != "evm" {
            found.notes.push(format!(
                "relayer {id} is for {}, which is not an EVM chain, and was left out",
                text(relayer, "network_type")
            ));
            continue;
        }
        let name = text(relayer, "network");
        let network = networks.find(&name).with_context(|| {
            format!("relayer {id} is for network {name:?}, which is in none of the network files; name their folder with --networks")
        })?;
        let chain = network.chain_id.with_context(|| format!("network {name:?} has no chain_id"))?;
        used.entry(text(relayer, "signer_id")).or_default().insert(chain);
        take_relayer(&mut found, relayer, &id, chain, &network);
    }
    for signer in list(&document, "signers") {
        let id = text(signer, "id");
        let Some(chains) = used.remove(&id) else {
            found.notes.push(format!("signer {id} is used by no relayer of an EVM chain and was left out"));
            continue;
        };
        match local(signer, config, &id, &mut found.notes)? {
            Some((keystore, password)) => found.signers.push(FoundSigner::new(id, keystore, password, chains)),
            None => found.notes.push(format!(
                "signer {id} is of type {:?}; Landfall signs with keys in files, in variables or from a mnemonic",
                text(signer, "type")
            )),
        }
    }
    for (id, _) in used {
        found.notes.push(format!("there is no signer {id:?} in the file, although a relayer names it"));
    }
    // A chain without a key would only be polled.
    let wanted: BTreeSet<u64> =
        found.signers.iter().flat_map(|signer| signer.chains.iter().copied()).collect();
    found.chains.retain(|id, _| wanted.contains(id));
    for notification in list(&document, "notifications") {
        let url = text(notification, "url");
        if !url.is_empty() {
            found.notes.push(format!(
                "notifications went to {url}; make a webhook for it when the server runs: `landfall webhook create {url}`"
            ));
        }
    }
    Ok(found)
}

/// What a relayer says of its chain. Two of one chain: the lower ceiling and the higher threshold count.
fn take_relayer(found: &mut Found, relayer: &Value, id: &str, chain: u64, network: &Network) {
    let entry = found.chains.entry(chain).or_insert_with(|| FoundChain {
        name: network.name.clone(),
        finality: network.confirmations,
        ..FoundChain::default()
    });
    let custom = urls(&relayer["custom_rpc_urls"]);
    let rpc = if custom.is_empty() { &network.rpc } else { &custom };
    for url in rpc {
        if !entry.rpc.contains(url) {
            entry.rpc.push(url.clone());
        }
    }
    let policies = &relayer["policies"];
    if let Some(cap) = amount(&policies["gas_price_cap"]) {
        let gwei = (cap / GWEI).ceil().max(1.0) as u64;
        entry.max_fee_gwei = Some(entry.max_fee_gwei.map_or(gwei, |known| known.min(gwei)));
    }
    if let Some(least) = amount(&policies["min_balance"]).filter(|least| *least > 0.0) {
        let eth = least / ETHER;
        entry.low_balance_eth = Some(entry.low_balance_eth.map_or(eth, |known: f64| known.max(eth)));
    }
    if relayer["paused"] == true {
        found
            .notes
            .push(format!("relayer {id} was paused there; its lane is not: `landfall lane pause` does that"));
    }
    if let Some(map) = policies.as_object() {
        for name in map.keys().filter(|name| !["gas_price_cap", "min_balance"].contains(&name.as_str())) {
            found.notes.push(format!("relayer {id}: the policy {name} has no counterpart and was left out"));
        }
    }
}

/// The file of a local key and where its password is.
fn local(
    signer: &Value,
    config: &Path,
    id: &str,
    notes: &mut Vec<String>,
) -> Result<Option<(PathBuf, FoundPassword)>> {
    if text(signer, "type") != "local" {
        return Ok(None);
    }
    let path = PathBuf::from(text(&signer["config"], "path"));
    // Paths there are from where the program was started, which is the folder above the configuration's.
    let above = config.parent().and_then(Path::parent).map(|folder| folder.join(&path));
    let keystore = [Some(path.clone()), above].into_iter().flatten().find(|file| file.is_file());
    let Some(keystore) = keystore else {
        bail!(
            "the keystore of signer {id} is not at {}; run this from the folder where that relayer is started",
            path.display()
        );
    };
    if !is_keystore(&keystore) {
        bail!("{} is not a keystore", keystore.display());
    }
    let passphrase = &signer["config"]["passphrase"];
    let password = match text(passphrase, "type").as_str() {
        "env" => text(passphrase, "value"),
        _ => {
            let name =
                format!("PASSWORD_{}", id.to_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
            notes.push(format!(
                "the password of signer {id} stands in the file in clear; it was not copied. Give it in the variable {name}"
            ));
            name
        }
    };
    Ok(Some((keystore, FoundPassword::Env(password))))
}

/// One network, with what it has from others.
#[derive(Debug, Clone, Default)]
struct Network {
    name: String,
    chain_id: Option<u64>,
    rpc: Vec<String>,
    confirmations: Option<u64>,
}

struct Networks(BTreeMap<String, Value>);

impl Networks {
    /// From the file itself, from the folder that it names, and from the one that the caller names.
    fn read(document: &Value, config: &Path, named: Option<&Path>) -> Result<Self> {
        let mut all = BTreeMap::new();
        let mut folders: Vec<PathBuf> = named.map(Path::to_path_buf).into_iter().collect();
        match &document["networks"] {
            Value::Array(items) => all.extend(items.iter().map(|item| (text(item, "network"), item.clone()))),
            Value::String(folder) => {
                let above = config.parent().and_then(Path::parent).map(|above| above.join(folder));
                folders.extend(
                    [Some(PathBuf::from(folder)), above].into_iter().flatten().find(|folder| folder.is_dir()),
                );
            }
            _ => folders.extend(
                config.parent().map(|folder| folder.join("networks")).filter(|folder| folder.is_dir()),
            ),
        }
        for folder in folders {
            let entries =
                std::fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
            for file in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                if file.extension().is_some_and(|ending| ending == "json") {
                    let document = json_of(&file)?;
                    all.extend(list(&document, "networks").map(|item| (text(item, "network"), item.clone())));
                }
            }
        }
        Ok(Self(all))
    }

    fn find(&self, name: &str) -> Option<Network> {
        self.made(name, DEEPEST)
    }

    /// A network may be made from another, and say only what differs.
    fn made(&self, name: &str, left: usize) -> Option<Network> {
        let item = self.0.get(name)?;
        let parent = item["from"].as_str().filter(|_| left > 0).and_then(|from| self.made(from, left - 1));
        let mut network = Network { name: name.to_owned(), ..parent.unwrap_or_default() };
        let rpc = urls(&item["rpc_urls"]);
        if !rpc.is_empty() {
            network.rpc = rpc;
        }
        network.chain_id = item["chain_id"].as_u64().or(network.chain_id);
        network.confirmations = item["required_confirmations"].as_u64().or(network.confirmations);
        Some(network)
    }
}

fn json_of(file: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", file.display()))
}

fn list<'a>(document: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    document[name].as_array().into_iter().flatten()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Amounts are numbers, or texts of them.
fn amount(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// One, several, or several with weights.
fn urls(value: &Value) -> Vec<String> {
    match value {
        Value::String(url) => vec![url.clone()],
        Value::Array(items) => {
            let url = |item: &Value| item.as_str().or_else(|| item["url"].as_str()).map(str::to_owned);
            items.iter().filter_map(url).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn folder(config: &Value) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("config/keys");
        std::fs::create_dir_all(&keys).unwrap();
        let key = json!({ "crypto": {}, "address": "f39fd6e51aad88f6f4ce6ab8827279cfffb92266" });
        std::fs::write(keys.join("a.json"), key.to_string()).unwrap();
        let file = folder.path().join("config/config.json");
        std::fs::write(&file, config.to_string()).unwrap();
        (folder, file)
    }

    fn signer(kind: &str, passphrase: Value) -> Value {
        json!({ "id": "a-1", "type": kind, "config": { "path": "config/keys/a.json", "passphrase": passphrase } })
    }

    #[test]
    fn relayers_networks_and_keys_become_lanes_and_nothing_is_left_out_in_silence() {
        let (_folder, file) = folder(&json!({
            "relayers": [
                { "id": "one", "network": "child", "network_type": "evm", "signer_id": "a-1", "paused": true,
                  "policies": { "gas_price_cap": 30_000_000_000_u64, "min_balance": "500000000000000000",
                                "whitelist_receivers": ["0x1"] } },
                { "id": "two", "network": "devnet", "network_type": "solana", "signer_id": "a-1" },
            ],
            "signers": [signer("local", json!({ "type": "env", "value": "PASS" })), { "id": "kms", "type": "aws_kms" }],
            "notifications": [{ "id": "n", "url": "https://example.com/hook" }],
            "networks": [
                { "network": "parent", "chain_id": 10, "rpc_urls": ["https://a"], "required_confirmations": 3 },
                { "network": "child", "from": "parent", "chain_id": 11, "rpc_urls": [{ "url": "https://b", "weight": 5 }] },
            ],
        }));
        let found = read(&file, None).unwrap();
        let config = crate::config::Config::parse(&found.toml().unwrap(), std::iter::empty()).unwrap();
        assert_eq!(
            (config.chain.len(), config.chain[0].id, &config.chain[0].rpc),
            (1, 11, &vec!["https://b".to_owned()])
        );
        assert_eq!(config.chain[0].spec.finality, landfall_chain::spec::Finality::Blocks(3));
        assert_eq!((config.chain[0].max_fee_gwei, config.chain[0].low_balance_eth), (30, 0.5));
        let signer = &config.signer[0];
        assert_eq!(signer.address.unwrap().to_string(), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!((signer.password_env.as_deref(), &signer.chains), (Some("PASS"), &vec![11]));
        let notes = found.notes.join("\n");
        for told in [
            "one was paused",
            "whitelist_receivers",
            "two is for solana",
            "signer kms",
            "`landfall webhook create https://example.com/hook`",
        ] {
            assert!(notes.contains(told), "{told}: {notes}");
        }
    }

    #[test]
    fn a_password_in_clear_is_not_copied() {
        let (_folder, file) = folder(&json!({
            "relayers": [{ "id": "one", "network": "n", "network_type": "evm", "signer_id": "a-1", "custom_rpc_urls": ["https://c"] }],
            "signers": [signer("local", json!({ "type": "plain", "value": "very secret" }))],
            "networks": [{ "network": "n", "chain_id": 5, "rpc_urls": ["https://a"] }],
        }));
        let found = read(&file, None).unwrap();
        let text = found.toml().unwrap();
        assert!(text.contains("password_env = \"PASSWORD_A_1\"") && text.contains("https://c"), "{text}");
        assert!(!format!("{text}{:?}", found.notes).contains("very secret"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let relayer = json!({ "id": "one", "network": "n", "network_type": "evm", "signer_id": "a-1" });
        let (_folder, file) =
            folder(&json!({ "relayers": [relayer], "signers": [signer("local", json!({}))] }));
        let error = format!("{:#}", read(&file, None).unwrap_err());
        assert!(error.contains("--networks"), "{error}");
        let (_folder, file) = folder(&json!({ "relayers": [], "signers": [] }));
        assert!(read(&file, None).unwrap().toml().is_err());
    }
}
