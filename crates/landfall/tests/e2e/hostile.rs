//! The hostile chain: a real anvil that reorganises, forgets, halts and has fee spikes, behind two endpoints that lose a
//! third of all replies, lag and disagree, and a server that is killed. `landfall demo --hostile` is that run; it reads
//! the node itself at its end. What its checks see when something is off is tested beside them.

use std::time::Duration;

use serde_json::Value;

use crate::support::{program, run_within};

/// It takes about a minute; a busy machine gets this long.
const LIMIT: Duration = Duration::from_secs(345);

/// The variable that repeats what went wrong.
const SEED: &str = "LANDFALL_HOSTILE_SEED";

async fn hostile(args: &[&str], anvil: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    command.args(["demo", "--hostile", "--json"]).args(args);
    if anvil {
        let path = std::env::var_os("LANDFALL_ANVIL").expect("LANDFALL_ANVIL names an anvil");
        command.env("LANDFALL_ANVIL", path);
    } else {
        command.env("PATH", folder.path());
    }
    let output = run_within(LIMIT, command).await;
    assert_eq!(output.code, Some(0), "{}", output.said);
    serde_json::from_str(&output.stdout).expect("JSON")
}

#[track_caller]
fn all_well(summary: &Value, count: u64) {
    let counted = |name: &str| summary[name].as_u64();
    assert_eq!((&summary["clean"], counted("landedOnce")), (&Value::Bool(true), Some(count)), "{summary:#}");
    for wrong in ["landedTwice", "lost", "gaps", "overCeiling", "notConfirmed", "differing"] {
        assert_eq!(counted(wrong), Some(0), "{wrong}: {summary:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_transactions_over_five_signers_land_once_on_a_hostile_anvil() {
    let seed = std::env::var(SEED).unwrap_or_else(|_| (rand::random::<u16>()).to_string());
    eprintln!("to repeat what went wrong: {SEED}={seed}");
    let summary = hostile(&["--count", "2000", "--lanes", "5", "--seed", &seed], true).await;
    all_well(&summary, 2_000);
    assert_eq!(summary["chain"], "anvil");
    assert!(summary["kills"].as_u64() >= Some(5), "{summary:#}");
    // Nothing is proven by a run in which nothing went wrong.
    let faults = &summary["faults"];
    let share = |name: &str, of: &str| {
        faults[name].as_f64().unwrap_or_default() / faults[of].as_f64().unwrap_or(f64::INFINITY)
    };
    assert!(share("lostReplies", "requests") > 0.2, "{faults}");
    assert!(share("duplicated", "sends") > 0.05, "{faults}");
    for fault in ["limited", "nullReceipts", "stale", "lostRequests", "badGateways", "swallowed", "delayed"] {
        assert!(faults[fault].as_u64() > Some(0), "{fault}: {faults}");
    }
    let troubles = &summary["chainTroubles"];
    for trouble in ["reorgs", "dropped"] {
        assert!(troubles[trouble].as_u64() > Some(0), "{trouble}: {troubles}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_anvil_the_hostile_demo_runs_on_the_built_in_chain_and_says_so() {
    let summary = hostile(&["--count", "100", "--lanes", "2", "--kills", "1"], false).await;
    all_well(&summary, 100);
    assert_eq!(summary["chain"], "devchain");
}
