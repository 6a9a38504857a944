//! The files in `deploy/` are well-formed, and name only what is there: flags, settings, metrics and their labels,
//! paths, commands.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use landfall_server::metrics::{Kind, METRICS};
use serde::Deserialize as _;
use serde_json::Value;

use crate::support::{program, run};

fn root(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(root(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
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

/// The words of a text, by what a name is made of.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

/// The labels of a series, if there is one of this name: Prometheus adds the instance, a histogram its buckets.
fn labels_of(series: &str) -> Option<BTreeSet<&'static str>> {
    METRICS.iter().find_map(|metric| {
        let end = series.strip_prefix(metric.name)?;
        let own: &[&str] = match (metric.kind, end) {
            (Kind::Histogram, "_bucket") => &["le"],
            (Kind::Histogram, "_sum" | "_count") | (Kind::Counter | Kind::Gauge, "") => &[],
            _ => return None,
        };
        Some(metric.labels.iter().chain(own).chain(&["instance"]).copied().collect())
    })
}

/// What is between a bracket and the one that closes it, for each place where `before` and the bracket stand.
fn inside<'t>(text: &'t str, before: &str, close: char) -> Vec<&'t str> {
    let parts = text.match_indices(before).map(|(at, _)| &text[at + before.len()..]);
    parts.map(|rest| rest.split(close).next().unwrap_or_default()).collect()
}

/// Checks an expression; answers the labels that its result has.
#[track_caller]
fn check(expression: &str) -> BTreeSet<&'static str> {
    let mut depth = Vec::new();
    for letter in expression.chars() {
        match letter {
            '(' => depth.push(')'),
            '[' => depth.push(']'),
            '{' => depth.push('}'),
            ')' | ']' | '}' => assert_eq!(depth.pop(), Some(letter), "brackets: {expression}"),
            _ => {}
        }
    }
    assert!(depth.is_empty(), "brackets: {expression}");
    let mut shared: Option<BTreeSet<&str>> = None;
    let mut rest = expression;
    while let Some(at) = rest.find("landfall_") {
        let name = words(&rest[at..]).next().unwrap();
        rest = &rest[at + name.len()..];
        let labels = labels_of(name).unwrap_or_else(|| panic!("{name} is no metric: {expression}"));
        if let Some(chosen) = rest.strip_prefix('{') {
            for choice in chosen.split('}').next().unwrap().split(',') {
                let label = choice.split(['=', '!']).next().unwrap().trim();
                assert!(labels.contains(label), "{name} has no label {label}: {expression}");
            }
        }
        shared = Some(match shared {
            Some(shared) => shared.intersection(&labels).copied().collect(),
            None => labels,
        });
    }
    let shared = shared.unwrap_or_else(|| panic!("no metric is named: {expression}"));
    let mut by = BTreeSet::new();
    for list in inside(expression, "by (", ')') {
        for label in list.split(',').map(str::trim) {
            let known = shared.get(label);
            by.extend(known);
            assert!(known.is_some(), "not every metric has the label {label}: {expression}");
        }
    }
    let adds_up =
        ["sum", "max", "min", "avg"].iter().any(|word| words(expression).any(|found| found == *word));
    if adds_up { by } else { shared }
}

#[test]
fn every_alert_names_metrics_and_labels_that_exist_and_says_what_to_do() {
    let files = yaml("deploy/prometheus/alerts.yaml");
    let rules = files[0]["groups"][0]["rules"].as_array().unwrap();
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule["alert"].as_str().unwrap()).collect();
    assert_eq!(names.len(), rules.len(), "each name once");
    for wanted in ["FencedSurge", "ReceiptBacklog", "ResubmitRate", "LaneHeld", "TwoWinners"] {
        assert!(names.contains(format!("Landfall{wanted}").as_str()), "{wanted}");
    }
    for rule in rules {
        let labels = check(rule["expr"].as_str().unwrap());
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()));
        for part in ["summary", "description"] {
            let text = rule["annotations"][part].as_str().unwrap();
            assert!(!text.is_empty(), "{rule}");
            for label in inside(text, "$labels.", ' ') {
                assert!(labels.contains(label), "{label} is not known when this is said: {text}");
            }
        }
    }
}

#[test]
fn every_panel_of_the_dashboard_names_metrics_and_variables_that_exist() {
    let board: Value = serde_json::from_str(&text("deploy/grafana/landfall.json")).unwrap();
    let variables = board["templating"]["list"].as_array().unwrap();
    let variables: BTreeSet<&str> = variables.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let panels = board["panels"].as_array().unwrap();
    assert!(panels.len() > 10);
    let (mut places, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let place = (panel["gridPos"]["x"].as_u64(), panel["gridPos"]["y"].as_u64());
        assert!(places.insert(place), "two panels at {place:?}");
        assert!(ids.insert(panel["id"].as_u64()), "two panels of one id: {panel}");
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            check(expression);
            for at in expression.split('$').skip(1) {
                let name = words(at).next().unwrap();
                assert!(variables.contains(name) || name.starts_with("__"), "${name}: {expression}");
            }
        }
    }
}

#[test]
fn three_nodes_in_compose_share_a_database_and_differ_in_name() {
    let files = yaml("deploy/docker/compose.yaml");
    let services = files[0]["services"].as_object().unwrap();
    let nodes: Vec<&Value> =
        services.iter().filter(|(name, _)| name.starts_with("node-")).map(|(_, node)| node).collect();
    assert_eq!(nodes.len(), 3);
    let of = |key: &str| -> BTreeSet<&str> {
        nodes.iter().map(|node| node["environment"][key].as_str().unwrap()).collect()
    };
    assert_eq!(of("LANDFALL_NODE__NAME").len(), 3);
    // The same on all: also what webhooks' secrets are derived from, and which chain it is that the endpoint shows.
    for shared in
        ["LANDFALL_STORE__URL", "LANDFALL_WEBHOOK_SECRET", "LANDFALL_CHAIN__0__ID", "LANDFALL_CHAIN__0__RPC"]
    {
        assert_eq!(of(shared).len(), 1, "{shared}");
    }
    assert!(!text("deploy/docker/landfall.toml").contains("31337"), "the id belongs to the endpoint");
    for node in nodes {
        let check = node["healthcheck"]["test"].to_string();
        assert!(check.contains(":8645/health/ready"), "{check}");
        let context = root("deploy/docker").join(node["build"]["context"].as_str().unwrap());
        assert!(context.join("Cargo.toml").exists());
        assert!(context.join(node["build"]["dockerfile"].as_str().unwrap()).exists());
    }
}

#[test]
fn the_manifest_for_kubernetes_runs_three_nodes_of_which_two_stay() {
    let files = yaml("deploy/kubernetes/landfall.yaml");
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
    assert_eq!(container["ports"][0]["containerPort"], 8645);
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/health/live");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/health/ready");
    let names: BTreeSet<&str> =
        container["env"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in ["LANDFALL_WEBHOOK_SECRET", "LANDFALL_CHAIN__0__ID", "LANDFALL_CHAIN__0__RPC"] {
        assert!(names.contains(name), "{name}");
    }
    // No secret is written down: the URL and the keys come from the secret.
    for variable in container["env"].as_array().unwrap() {
        let source = &variable["valueFrom"];
        assert!(source.get("secretKeyRef").is_some() || source.get("fieldRef").is_some(), "{variable}");
    }
}

#[test]
fn kubernetes_lets_only_callers_in_keeps_metadata_services_out_and_never_runs_two_versions_at_once() {
    let files = yaml("deploy/kubernetes/landfall.yaml");
    let of =
        |kind: &str| files.iter().find(|file| file["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"));
    let (nodes, policy) = (&of("StatefulSet")["spec"], &of("NetworkPolicy")["spec"]);
    assert_eq!(policy["podSelector"]["matchLabels"], nodes["template"]["metadata"]["labels"]);
    assert_eq!(policy["policyTypes"], serde_json::json!(["Ingress", "Egress"]));
    for rule in policy["ingress"].as_array().unwrap() {
        let from = rule["from"].as_array().expect("not from everywhere");
        assert!(from.iter().all(|one| one["podSelector"]["matchLabels"].is_object()), "{rule}");
    }
    for rule in policy["egress"].as_array().unwrap() {
        assert!(!rule["ports"].as_array().unwrap().is_empty(), "not to every port: {rule}");
    }
    let text = policy["egress"].to_string();
    for service in
        ["169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32", "fd00:ec2::/32", "fd20:ce::/64"]
    {
        assert!(text.contains(service), "{service}");
    }
    // "Stop all nodes first": a changed image must not roll through them.
    assert_eq!(nodes["updateStrategy"]["type"], "OnDelete");

    let pod = &nodes["template"]["spec"];
    let container = &pod["containers"][0];
    let (_, digest) = container["image"].as_str().unwrap().split_once("@sha256:").expect("pinned by digest");
    assert_eq!(digest.len(), 64);
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let own = &container["securityContext"];
    assert_eq!([&own["allowPrivilegeEscalation"], &own["privileged"]], [false, false]);
    assert_eq!(own["readOnlyRootFilesystem"], true);
    assert_eq!(own["capabilities"]["drop"], serde_json::json!(["ALL"]));
}

#[test]
fn no_file_opens_the_metrics_to_whoever_has_no_key() {
    for file in ["deploy/docker/landfall.toml", "deploy/systemd/landfall.toml", "deploy/docker/compose.yaml"]
    {
        assert!(!text(file).to_lowercase().contains("open_metrics"), "{file}");
    }
    let manifest = text("deploy/kubernetes/landfall.yaml");
    assert!(!manifest.to_lowercase().contains("open_metrics") && !manifest.contains("prometheus.io/scrape"));
}

#[tokio::test]
async fn the_manifest_for_kubernetes_passes_its_published_schema_and_a_wrong_one_does_not() {
    let validate = std::env::var("LANDFALL_KUBERNETES_VALIDATE")
        .expect("LANDFALL_KUBERNETES_VALIDATE names kubernetes-validate; `cargo xtask test` provides it");
    let folder = tempfile::tempdir().unwrap();
    let looked_at = |file: &Path| {
        let mut command = std::process::Command::new(&validate);
        command.arg("--strict").arg(file);
        run(command)
    };
    let manifest = root("deploy/kubernetes/landfall.yaml");
    let good = looked_at(&manifest).await;
    assert!(good.ok(), "{}", good.said);
    let documents = yaml("deploy/kubernetes/landfall.yaml").len();
    assert_eq!(good.said.matches(" passed for resource ").count(), documents, "{}", good.said);
    let wrong = folder.path().join("wrong.yaml");
    std::fs::write(&wrong, text("deploy/kubernetes/landfall.yaml").replace("policyTypes:", "policyKinds:"))
        .unwrap();
    assert!(!looked_at(&wrong).await.ok(), "a key that there is not is found");
}

#[test]
fn the_unit_is_well_formed_and_the_image_is_built_with_the_compiler_that_is_asked_for() {
    let unit = text("deploy/systemd/landfall.service");
    let sections: Vec<&str> = unit.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(sections, ["[Unit]", "[Service]", "[Install]"]);
    for line in unit.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '['])) {
        let (key, _) = line.split_once('=').unwrap_or_else(|| panic!("{line}"));
        assert!(key.chars().all(|letter| letter.is_ascii_alphanumeric()), "{line}");
    }
    for line in ["KillSignal=SIGTERM", "DynamicUser=yes", "LimitCORE=0"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    let version = format!("ARG RUST_IMAGE=rust:{}-", env!("CARGO_PKG_RUST_VERSION"));
    assert!(text("deploy/docker/Dockerfile").lines().any(|line| line.starts_with(&version)), "{version}");
    for kept in
        text("deploy/docker/Dockerfile.dockerignore").lines().filter_map(|line| line.strip_prefix('!'))
    {
        assert!(root(kept).exists(), "{kept} is named for the build and is not there");
    }
}

/// How a file starts the program.
struct Start {
    whose: &'static str,
    args: Vec<String>,
    /// The names of the variables it gets.
    variables: Vec<String>,
}

fn starts() -> Vec<Start> {
    let unit = text("deploy/systemd/landfall.service");
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    // The service's user may not read what root keeps: the file is handed over under a name.
    let (handed, file) = value("LoadCredential=").split_once(':').unwrap();
    let under = format!("${{CREDENTIALS_DIRECTORY}}/{handed}");
    let by_unit =
        value("ExecStart=").split_whitespace().skip(1).map(|word| word.replace(&under, file)).collect();
    let name = value("Environment=").split('=').next().unwrap().to_owned();

    let image = text("deploy/docker/Dockerfile");
    let command = image.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    let compose = &yaml("deploy/docker/compose.yaml")[0]["services"]["node-2"]["environment"];
    let compose = compose.as_object().unwrap().keys().cloned().collect();

    let files = yaml("deploy/kubernetes/landfall.yaml");
    let nodes = files.iter().find(|file| file["kind"] == "StatefulSet").unwrap();
    let container = &nodes["spec"]["template"]["spec"]["containers"][0];
    let args = serde_json::from_value(container["args"].clone()).unwrap();
    let names = container["env"].as_array().unwrap().iter();
    let names = names.map(|one| one["name"].as_str().unwrap().to_owned()).collect();
    vec![
        Start { whose: "the unit", args: by_unit, variables: vec![name] },
        Start { whose: "compose", args: serde_json::from_str(command).unwrap(), variables: compose },
        Start { whose: "kubernetes", args, variables: names },
    ]
}

#[tokio::test]
async fn the_program_is_started_with_flags_and_settings_that_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let with = |args: &[String], variables: &[String]| {
        let mut command = program(folder.path());
        let config = root("deploy/docker/landfall.toml").display().to_string();
        command.args(args.iter().map(|one| one.replace("/etc/landfall/landfall.toml", &config)));
        for name in variables.iter().filter(|name| name.starts_with("LANDFALL_")) {
            let value = match name.as_str() {
                "LANDFALL_CHAIN__0__RPC" => "http://127.0.0.1:1",
                "LANDFALL_CHAIN__0__ID" => "137",
                "LANDFALL_STORE__URL" => "postgres://landfall:x@127.0.0.1:1/landfall",
                _ => "some-value",
            };
            command.env(name, value);
        }
        command.env("LANDFALL_STORE__URL", "postgres://landfall:x@127.0.0.1:1/landfall");
        command.env("LANDFALL_STORE__WAIT_S", "0").env("LANDFALL_CHAIN__0__RPC", "http://127.0.0.1:1");
        command.env("LANDFALL_CHAIN__0__ID", "137");
        // Not one of those that everybody knows.
        let key: String =
            (0..32).map(|n: u8| format!("{:02x}", n.wrapping_mul(37).wrapping_add(11))).collect();
        command.env("KEY_A", key);
        run(command)
    };
    for Start { whose, args, variables } in starts() {
        assert!(args.iter().any(|one| one == "/etc/landfall/landfall.toml"), "{whose}: {args:?}");
        let output = with(&args, &variables).await;
        assert!(
            output.said.contains("cannot be reached"),
            "{whose} gets as far as the database: {}",
            output.said
        );
    }
    // What is not known is refused, so the above says something.
    let args = ["serve", "--config", "/etc/landfall/landfall.toml"].map(str::to_owned);
    let output = with(&args, &["LANDFALL_NODE__TITLE".to_owned()]).await;
    assert!(!output.said.contains("cannot be reached") && output.said.contains("title"), "{}", output.said);
}

#[tokio::test]
async fn every_command_and_file_that_the_pages_name_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let pages = ["deploy/README.md", "deploy/prometheus/alerts.yaml", "docs/migrate.md", "docs/scale.md"];
    let mut commands = BTreeSet::new();
    for page in pages {
        let text = text(page);
        // In back quotes, or a line of its own in a block of commands.
        let lines =
            text.lines().filter(|line| line.starts_with("landfall ")).map(|line| &line["landfall ".len()..]);
        for line in inside(&text, "`landfall ", '`').into_iter().chain(lines) {
            let is_word =
                |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
            let name: Vec<&str> =
                line.split_whitespace().take_while(|word| is_word(word) && !word.starts_with('-')).collect();
            let flags = line.split_whitespace().filter(|word| word.starts_with("--"));
            commands.insert((name.join(" "), flags.map(str::to_owned).collect::<Vec<_>>()));
        }
        let at = root(page);
        for link in inside(&text, "](", ')') {
            let file = link.split('#').next().unwrap();
            let is_there = file.contains("://") || at.parent().unwrap().join(file).exists();
            assert!(is_there, "{page} names {link}");
        }
    }
    assert!(commands.len() > 4, "{commands:?}");
    for (name, flags) in commands {
        let mut command = program(folder.path());
        command.args(name.split_whitespace()).arg("--help");
        let help = run(command).await;
        assert_eq!(help.code, Some(0), "landfall {name}: {}", help.said);
        assert!(help.stdout.contains(&format!("landfall {name}")), "landfall {name}: {}", help.said);
        for flag in flags {
            assert!(help.stdout.contains(&flag), "landfall {name} has no {flag}");
        }
    }
}
