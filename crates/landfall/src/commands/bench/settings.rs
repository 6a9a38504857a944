//! Which settings a run had that are not the defaults. Where things are (addresses, folders, names) is not told.

use serde_json::{Map, Value};

use crate::config::{Chain, Config};

const PLACES: [&str; 6] = ["id", "rpc", "listen", "url", "namespace", "name"];

pub(super) fn changed(config: &Config) -> Value {
    let mut found = Map::new();
    let sections = |config: &Config| serde_json::to_value(config).unwrap_or_default();
    let (ours, defaults) = (sections(config), sections(&Config::default()));
    for (section, keys) in ours.as_object().into_iter().flatten() {
        differing(&mut found, &format!("{section}."), keys, &defaults[section]);
    }
    for chain in &config.chain {
        let Ok(plain) = Chain::new(chain.id, chain.rpc.clone()) else { continue };
        let of = |chain: &Chain| serde_json::to_value(chain).unwrap_or_default();
        differing(&mut found, "chain.", &of(chain), &of(&plain));
    }
    Value::Object(found)
}

fn differing(found: &mut Map<String, Value>, prefix: &str, ours: &Value, defaults: &Value) {
    for (key, value) in ours.as_object().into_iter().flatten() {
        if defaults.get(key) != Some(value) && !PLACES.contains(&key.as_str()) {
            found.insert(format!("{prefix}{key}"), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_and_is_no_place_is_told() {
        let mut chain = Chain::new(31_337, vec!["http://127.0.0.1:1".to_owned()]).unwrap();
        chain.spec.max_in_flight = 4_000;
        let mut config = Config { chain: vec![chain], ..Config::default() };
        config.store.url = "sqlite:///somewhere/else.db".to_owned();
        config.lease.duration_s = 11.0;
        let expected = serde_json::json!({ "chain.max_in_flight": 4_000, "lease.duration_s": 11.0 });
        assert_eq!(changed(&config), expected);
    }
}
