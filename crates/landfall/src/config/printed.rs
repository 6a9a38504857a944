//! The commented example file and the page in `docs/`, made from `reference.rs`.

use anyhow::Result;
use landfall_chain::spec::Spec;
use landfall_core::ChainId;
use toml::Table;

use super::reference::{KEYS, Key};

/// The chain that the example is for if nobody names another.
const USUAL_CHAIN: u64 = 31_337;

fn section(path: &str) -> &str {
    path.split('.').next().unwrap_or_default()
}

fn name(key: &Key) -> &str {
    key.path.rsplit('.').next().unwrap_or_default()
}

fn is_list(section: &str) -> bool {
    matches!(section, "chain" | "signer")
}

/// The commented example file, for a chain and its endpoints where they are named.
///
/// What is known of a chain by its id is commented out: a line that the operator did not write must never win over it,
/// whatever id the file gets later.
pub(crate) fn example(chain: Option<u64>, rpc: &[String]) -> Result<String> {
    let id = chain.unwrap_or(USUAL_CHAIN);
    let known = Table::try_from(Spec::of(ChainId(id))?)?;
    let called = Spec::name_of(ChainId(id))?.unwrap_or_else(|| "not listed".to_owned());
    let mut text = String::from(
        "# Landfall's configuration: every key with its default.\n\
         # Each can also be set as a variable: LANDFALL_SERVER__LISTEN, LANDFALL_CHAIN__0__RPC, …\n",
    );
    let (mut current, mut by_chain) = ("", false);
    for key in KEYS {
        let section = section(key.path);
        if section != current {
            current = section;
            text.push_str(&if is_list(section) {
                format!("\n[[{section}]]\n")
            } else {
                format!("\n[{section}]\n")
            });
        }
        if key.by_chain && !by_chain {
            by_chain = true;
            text.push_str(&format!(
                "#\n# From here on: what is known of the chain by its id; shown is chain {id} ({called}).\n\
                 # Leave these lines as they are, unless you know better.\n#\n"
            ));
        }
        let value = match key.path {
            "chain.id" => id.to_string(),
            "chain.rpc" if !rpc.is_empty() => toml::Value::from(rpc.to_vec()).to_string(),
            "signer.chains" => format!("[{id}]"),
            _ if key.by_chain => known.get(name(key)).map_or(key.value.to_owned(), ToString::to_string),
            _ => key.value.to_owned(),
        };
        let mark = if key.optional || key.by_chain { "# " } else { "" };
        text.push_str(&format!("# {}\n{mark}{} = {value}\n", key.sentence, name(key)));
    }
    Ok(text)
}

/// The page in `docs/`.
pub(crate) fn page() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         `landfall serve` reads `landfall.toml`, or the file named by `--config`. Every key can also be set as an\n\
         environment variable: `LANDFALL_` and the path in capitals, its steps parted by two underscores, entries of\n\
         lists by their number (`LANDFALL_CHAIN__0__RPC`; several URLs parted by commas). A variable wins over the file.\n\
         A key that Landfall does not know is an error.\n\n\
         This page is made from the code: `landfall config --markdown > docs/configuration.md`. `landfall config` prints\n\
         the same as a commented file, and `landfall config --chain 137 --rpc https://…` prints it for that chain.\n\n\
         Keys marked *by chain* have the default that is known of the chain by its id\n\
         ([crates/chain/specs/chains.toml](../crates/chain/specs/chains.toml)); shown is that of chain 31337, and of chains\n\
         that are not listed there. Leave them out unless you know better: the printed file has them commented out.\n",
    );
    let mut current = "";
    for key in KEYS {
        let section = section(key.path);
        if section != current {
            current = section;
            let title = if is_list(section) { format!("[[{section}]]") } else { format!("[{section}]") };
            text.push_str(&format!(
                "\n## `{title}`\n\n| key | default or example | what it does |\n|---|---|---|\n"
            ));
        }
        let note = match (key.optional, key.by_chain) {
            (true, _) => " (optional)",
            (false, true) => " (by chain)",
            (false, false) => "",
        };
        text.push_str(&format!("| `{}`{note} | `{}` | {} |\n", name(key), key.value, key.sentence));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Chain, Config, Signer};

    fn parse(text: &str) -> Config {
        Config::parse(text, std::iter::empty()).unwrap()
    }

    fn minimal(id: u64) -> Vec<Chain> {
        parse(&format!("[[chain]]\nid = {id}\nrpc = \"http://127.0.0.1:8545\"")).chain
    }

    #[test]
    fn the_example_parses_and_says_the_defaults() {
        let config = parse(&example(None, &[]).unwrap());
        assert_eq!((config.server, config.store), Default::default());
        assert_eq!(config.webhooks, Default::default());
        assert_eq!((config.rpc, config.access), Default::default());
        assert_eq!((config.node, config.lease, config.metrics), Default::default());
        assert_eq!(config.chain, minimal(31_337));
    }

    #[test]
    fn the_example_with_another_id_has_what_is_known_of_that_chain() {
        let printed = example(None, &[]).unwrap();
        for (id, name) in Spec::listed().unwrap() {
            let edited = printed.replace("\nid = 31337\n", &format!("\nid = {id}\n"));
            assert!(edited.contains(&format!("\nid = {id}\n")));
            assert_eq!(parse(&edited).chain, minimal(id.0), "{name}");
        }
    }

    #[test]
    fn the_example_for_a_chain_shows_its_values_and_they_are_its_defaults() {
        let rpc = vec!["https://a.example".to_owned(), "wss://b.example/?k=\"".to_owned()];
        for (id, name) in Spec::listed().unwrap() {
            let printed = example(Some(id.0), &rpc).unwrap();
            let chain = parse(&printed).chain.remove(0);
            assert_eq!((chain.id, &chain.rpc), (id.0, &rpc));
            let expected = Chain { rpc: rpc.clone(), ..minimal(id.0).remove(0) };
            assert_eq!(chain, expected, "{name}");
            // What is commented out is true as well.
            let by_chain = KEYS.iter().filter(|key| key.by_chain);
            let all = by_chain.fold(printed, |text, key| {
                text.replace(&format!("\n# {} = ", super::name(key)), &format!("\n{} = ", super::name(key)))
            });
            assert_eq!(parse(&all).chain, [expected], "{name}");
        }
        let polygon = example(Some(137), &[]).unwrap();
        assert!(
            polygon.contains("# min_tip_wei = 25000000000\n") && polygon.contains("Polygon"),
            "{polygon}"
        );
    }

    #[test]
    fn every_key_has_a_sentence_and_no_other_has() {
        let signer = Signer {
            address: Some(
                "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().map(landfall_core::Account).unwrap(),
            ),
            private_key_env: Some(String::new()),
            private_key_file: Some("f".into()),
            keystore: Some("k".into()),
            password_env: Some(String::new()),
            password_file: Some("p".into()),
            mnemonic_env: Some(String::new()),
            mnemonic_file: Some("m".into()),
            index: Some(0),
            chains: vec![31337],
            allocation: landfall_core::settings::Allocation::Dispatch,
            on_unknown_slots: landfall_core::settings::OnUnknownSlots::Hold,
            delegate_to: Vec::new(),
        };
        let mut config = parse(&example(None, &[]).unwrap());
        config.signer = vec![signer];
        config.chain[0].approve_above_wei = Some(landfall_core::Wei::default());
        let table = toml::Table::try_from(&config).unwrap();
        let mut paths = Vec::new();
        for (section, value) in &table {
            let entries = match value {
                toml::Value::Array(list) => list[0].as_table().unwrap(),
                other => other.as_table().unwrap(),
            };
            paths.extend(entries.keys().map(|name| format!("{section}.{name}")));
        }
        let mut documented: Vec<String> = KEYS.iter().map(|key| key.path.to_owned()).collect();
        paths.sort();
        documented.sort();
        assert_eq!(paths, documented);
    }

    #[test]
    fn the_page_in_docs_is_the_one_the_code_makes() {
        let committed = include_str!("../../../../docs/configuration.md");
        assert_eq!(committed, page(), "run: landfall config --markdown > docs/configuration.md");
    }
}
