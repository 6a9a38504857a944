//! The files in `deploy/` are well-formed, and name only what is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::Value;

use crate::support::{account, program, run};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Every document of a YAML file.
fn yaml(file: &str) -> Vec<Value> {
    serde_yaml_ng::Deserializer::from_str(&text(file))
        .map(|document| {
            let mut value = serde_yaml_ng::Value::deserialize(document).unwrap();
            value.apply_merge().unwrap();
            serde_json::to_value(value).unwrap()
        })
        .collect()
}

/// The names that rules and dashboard may use: of a histogram, its three series.
fn known_metrics() -> BTreeSet<String> {
    let list = text("metrics.txt");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .flat_map(|line| {
            let mut words = line.split_whitespace();
            let (kind, name) = (words.next().unwrap(), words.next().unwrap().to_owned());
            match kind {
                "histogram" => ["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")).to_vec(),
                "counter" | "gauge" => vec![name],
                other => panic!("{other} is no kind of metric"),
            }
        })
        .collect()
}

fn assert_known(expression: &str) {
    let known = known_metrics();
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named: Vec<&str> = words.filter(|word| word.starts_with("landfall_")).collect();
    assert!(!named.is_empty(), "{expression}");
    for name in named {
        assert!(known.contains(name), "{name} is no metric: {expression}");
    }
    let depth = expression.chars().try_fold(0_i32, |depth, letter| match letter {
        '(' | '[' | '{' => Some(depth + 1),
        ')' | ']' | '}' => (depth > 0).then_some(depth - 1),
        _ => Some(depth),
    });
    assert_eq!(depth, Some(0), "brackets: {expression}");
}

#[test]
fn every_alert_names_known_metrics_and_says_what_to_do() {
    let files = yaml("prometheus/alerts.yaml");
    let rules = files[0]["groups"][0]["rules"].as_array().unwrap();
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule["alert"].as_str().unwrap()).collect();
    assert_eq!(names.len(), rules.len(), "each name once");
    for wanted in ["FencedSurge", "ReceiptBacklog", "ResubmitRate", "LaneHeld", "TwoWinners"] {
        assert!(names.contains(format!("Landfall{wanted}").as_str()), "{wanted}");
    }
    for rule in rules {
        assert_known(rule["expr"].as_str().unwrap());
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()));
        for part in ["summary", "description"] {
            assert!(rule["annotations"][part].as_str().is_some_and(|text| !text.is_empty()), "{rule}");
        }
    }
}

#[test]
fn every_panel_of_the_dashboard_names_known_metrics() {
    let board: Value = serde_json::from_str(&text("grafana/landfall.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    assert!(panels.len() > 10);
    let mut places = BTreeSet::new();
    for panel in panels {
        let place = (panel["gridPos"]["x"].as_u64(), panel["gridPos"]["y"].as_u64());
        assert!(places.insert(place), "two panels at {place:?}");
        for target in panel["targets"].as_array().unwrap() {
            assert_known(target["expr"].as_str().unwrap());
        }
    }
}

#[test]
fn three_nodes_in_compose_share_a_database_and_differ_in_name() {
    let files = yaml("docker/compose.yaml");
    let services = files[0]["services"].as_object().unwrap();
    let nodes: Vec<&Value> =
        services.iter().filter(|(name, _)| name.starts_with("node-")).map(|(_, node)| node).collect();
    assert_eq!(nodes.len(), 3);
    let of = |key: &str| -> BTreeSet<&str> {
        nodes.iter().map(|node| node["environment"][key].as_str().unwrap()).collect()
    };
    assert_eq!(of("LANDFALL_NODE__NAME").len(), 3);
    assert_eq!(of("LANDFALL_STORE__URL").len(), 1);
    for node in nodes {
        let check = node["healthcheck"]["test"].to_string();
        assert!(check.contains("/health/ready"), "{check}");
        assert!(
            deploy("docker").join(node["build"]["context"].as_str().unwrap()).join("Cargo.toml").exists()
        );
    }
}

#[test]
fn the_manifest_for_kubernetes_runs_three_nodes_of_which_two_stay() {
    let files = yaml("kubernetes/landfall.yaml");
    let of =
        |kind: &str| files.iter().find(|file| file["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"));
    let nodes = &of("StatefulSet")["spec"];
    assert_eq!(nodes["replicas"], 3);
    assert_eq!(of("PodDisruptionBudget")["spec"]["minAvailable"], 2);
    let labels = &nodes["template"]["metadata"]["labels"];
    for file in &files {
        let selector = match file["kind"].as_str().unwrap() {
            "Service" => &file["spec"]["selector"],
            "PodDisruptionBudget" | "StatefulSet" => &file["spec"]["selector"]["matchLabels"],
            _ => continue,
        };
        assert_eq!(selector, labels, "{}", file["kind"]);
    }
    let container = &nodes["template"]["spec"]["containers"][0];
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/health/live");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/health/ready");
    // No secret is written down: the URL and the keys come from the secret.
    for variable in container["env"].as_array().unwrap() {
        let source = &variable["valueFrom"];
        assert!(source.get("secretKeyRef").is_some() || source.get("fieldRef").is_some(), "{variable}");
    }
}

#[test]
fn the_unit_starts_the_server_and_stops_it_in_order() {
    let unit = text("systemd/landfall.service");
    for line in
        ["serve --config /etc/landfall/landfall.toml", "KillSignal=SIGTERM", "DynamicUser=yes", "LimitCORE=0"]
    {
        assert!(unit.contains(line), "{line}");
    }
}

#[tokio::test]
async fn the_configuration_for_containers_is_one_that_the_server_takes() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    command.arg("serve").arg("--config").arg(deploy("docker/landfall.toml"));
    command.env("LANDFALL_STORE__URL", "postgres://landfall:x@127.0.0.1:1/landfall");
    command.env("LANDFALL_NODE__NAME", "node-1").env("LANDFALL_CHAIN__0__RPC", "http://127.0.0.1:1");
    command.env("KEY_A", account(0).key.to_string());
    let output = run(command).await;
    assert!(output.said.contains("cannot be reached"), "it gets as far as the database: {}", output.said);
}
