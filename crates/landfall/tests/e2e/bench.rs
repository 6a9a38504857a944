//! `landfall bench`, short: that it runs, that everything lands once, and what its JSON is called.

use serde_json::{Value, json};

use crate::support::{Database, program, run};

/// Runs `landfall bench … --json` and gives what it printed.
async fn bench(words: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    command.arg("bench").args(words).arg("--json");
    let output = run(command).await;
    assert_eq!(output.code, Some(0), "{}", output.said);
    serde_json::from_str(&output.stdout).expect("nothing but JSON is printed")
}

/// What a run tells, whatever its mode.
fn check(result: &Value, mode: &str, count: u64) {
    assert_eq!(result["mode"], mode);
    assert_eq!(result["count"], count);
    assert_eq!(result["landed_once"], true);
    for name in [
        "landed_per_s",
        "accept_p50_ms",
        "accept_p99_ms",
        "final_p50_ms",
        "final_p99_ms",
        "store_bytes_per_tx",
        "store_commits",
        "rows_per_tx",
        "rpc_requests_per_tx",
        "rpc_methods_per_tx",
        "sign_limit_per_s",
        "store_limit_per_s",
        "landed_to_sign_limit",
        "landed_to_store_limit",
    ] {
        assert!(result[name].as_f64().is_some_and(|number| number > 0.0), "{name} in {result:#}");
    }
    for name in ["cpu_s", "rss_mb"] {
        for process in ["server", "chain", "load"] {
            assert!(result[name][process].is_number(), "{name}.{process} in {result:#}");
        }
    }
    assert!(result["rss_mb"]["server"].as_f64().is_some_and(|mb| mb > 1.0), "{result:#}");
    // Each is sent at least once, and rows are at least the transaction's own.
    assert!(result["rpc_methods"]["eth_sendRawTransaction"].as_u64() >= Some(count), "{result:#}");
    assert!(result["rows_per_tx"].as_f64() >= Some(3.0), "{result:#}");
    assert!(result["final_p50_ms"].as_f64() <= result["final_p99_ms"].as_f64());
    assert_eq!(result["settings"]["chain.finality"], 2);
}

#[tokio::test]
async fn batches_land_once_and_the_run_is_told_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.svg");
    let words = ["--count", "300", "--batch", "50", "--signers", "2", "--plot", file.to_str().unwrap()];
    let result = bench(&words).await;
    check(&result, "batch", 300);
    assert_eq!(result["batch"], 50);
    assert_eq!(result["durability"], "journal_mode=wal, synchronous=FULL");
    let drawn = std::fs::read_to_string(file).unwrap();
    for name in ["accepted", "sent", "final"] {
        assert!(drawn.contains(&format!(">{name}</text>")), "{drawn}");
    }
}

#[tokio::test]
async fn single_requests_and_json_rpc_land_once() {
    for mode in ["single", "rpc"] {
        let words = ["--mode", mode, "--count", "200", "--signers", "12", "--connections", "16"];
        let result = bench(&words).await;
        check(&result, mode, 200);
        assert_eq!(result["signers"], 12);
    }
}

#[tokio::test]
async fn two_nodes_on_one_database_land_each_once() {
    let database = Database::any();
    let words = ["--store", &database.url, "--nodes", "2", "--count", "300", "--signers", "4"];
    let result = bench(&words).await;
    check(&result, "batch", 300);
    assert_eq!(result["store"], "PostgreSQL");
    assert!(result["durability"].as_str().unwrap().starts_with("synchronous_commit=on"), "{result:#}");
}

#[tokio::test]
async fn a_killed_server_is_ready_again_and_loses_none() {
    let result = bench(&["--restart", "500", "--signers", "3", "--window", "50"]).await;
    assert_eq!(result["landed_once"], true);
    assert_eq!(result["unfinished"], 500);
    assert!(result["ready_s"].as_f64().is_some_and(|s| s > 0.0));
}

#[tokio::test]
async fn a_full_store_is_compared_with_an_empty_one() {
    for (option, count) in [("--waiting", "2000"), ("--finished", "2048")] {
        let result = bench(&[option, count, "--runs", "1", "--signers", "2"]).await;
        assert_eq!(result["scenario"], option.trim_start_matches("--"));
        assert_eq!(result["none_lost"], true);
        assert!(result["rss_mb"]["filled"].as_f64().is_some_and(|mb| mb > 1.0), "{result:#}");
        assert!(result["full_to_empty"].as_f64().is_some_and(|ratio| ratio > 0.0), "{result:#}");
    }
}

#[tokio::test]
async fn a_scenario_excludes_another_and_several_nodes_need_a_database() {
    let folder = tempfile::tempdir().unwrap();
    for (words, sentence) in [
        (json!(["--waiting", "1", "--idle", "1"]), "cannot be used with"),
        (json!(["--nodes", "2"]), "several nodes need a database"),
        (json!(["--failover"]), "--failover needs a database"),
        (json!(["--store", "mysql://x"]), "write sqlite, or postgres://"),
    ] {
        let mut command = program(folder.path());
        command.arg("bench").args(words.as_array().unwrap().iter().filter_map(Value::as_str));
        let output = run(command).await;
        assert_ne!(output.code, Some(0));
        assert!(output.said.contains(sentence), "{}", output.said);
    }
}
