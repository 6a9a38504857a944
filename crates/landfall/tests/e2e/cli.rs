//! The command line: what is typed, what is printed, and with which code it ends.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{
    CHAIN_ID, Chain, LIMIT, Output, RECEIVER, Server, Settings, free_port, program, run, secret_file, signal,
    signer, text, until, until_within,
};

/// Runs `landfall` with these words.
async fn landfall(folder: &Path, words: &[&str]) -> Output {
    let mut command = program(folder);
    command.args(words).env("SECRET", "correct horse").env("WRONG", "battery staple");
    run(command).await
}

impl Output {
    /// What was printed by a command that went well.
    #[track_caller]
    fn good(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.said);
        &self.stdout
    }

    /// The same as JSON.
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(self.good()).expect("nothing but JSON is printed")
    }

    /// Checks that it failed and said this.
    #[track_caller]
    fn bad(&self, code: i32, sentence: &str) {
        assert_eq!(self.code, Some(code), "{}", self.said);
        assert!(self.said.contains(sentence), "{}", self.said);
    }
}

#[tokio::test]
async fn a_key_made_on_the_command_line_signs_for_a_server() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let mut server = Server::prepare(&chain.url(), &Settings { signers: 0, ..Settings::default() });
    let folder = server.folder().to_owned();
    secret_file(&folder.join("password"), "correct horse\n");

    let made = landfall(&folder, &["key", "new", "a.json", "--password-env", "SECRET"]).await;
    let address = made.good().lines().next().unwrap().to_owned();
    assert!(address.starts_with("0x") && address.len() == 42, "{address}");
    let shown =
        landfall(&folder, &["key", "address", "--keystore", "a.json", "--password-file", "password"]).await;
    assert_eq!(shown.good().trim(), address);
    let shown =
        landfall(&folder, &["key", "address", "--keystore", "a.json", "--password-env", "SECRET", "--json"])
            .await;
    assert_eq!(shown.json(), json!({ "address": address }));
    let other = landfall(&folder, &["key", "new", "b.json", "--password-file", "password", "--json"]).await;
    assert_ne!(text(&other.json(), "address"), address);

    let before = std::fs::read(folder.join("a.json")).unwrap();
    let again = landfall(&folder, &["key", "new", "a.json", "--password-env", "SECRET"]).await;
    again.bad(1, "a.json");
    assert_eq!(std::fs::read(folder.join("a.json")).unwrap(), before, "a key is never overwritten");
    let wrong =
        landfall(&folder, &["key", "address", "--keystore", "a.json", "--password-env", "WRONG"]).await;
    wrong.bad(1, "password");
    assert!(!wrong.said.contains("battery staple"), "{}", wrong.said);
    landfall(&folder, &["key", "new", "c.json"]).await.bad(1, "--password-env");
    landfall(&folder, &["key", "address", "--private-key-env", "NOT_SET"]).await.bad(1, "NOT_SET is not set");

    let config = folder.join("landfall.toml");
    let mut toml = std::fs::read_to_string(&config).unwrap();
    toml.push_str(&format!(
        "[[signer]]\naddress = \"{address}\"\nkeystore = \"a.json\"\npassword_file = \"password\"\n"
    ));
    std::fs::write(&config, toml).unwrap();
    chain.call("anvil_setBalance", json!([address, "0xde0b6b3a7640000"])).await;
    server.spawn();
    server.until_ready().await;
    let body = json!({ "chainId": CHAIN_ID, "signer": address, "payload": { "to": RECEIVER, "value": "1" } });
    let id = server.api.submit(&body).await;
    server.api.until_state(&id, "confirmed").await;
    assert_eq!(chain.count(&address).await, 1);
    assert!(!server.log().contains("correct horse"));
}

#[tokio::test]
async fn transactions_and_lanes_are_sent_shown_and_steered_from_the_command_line() {
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let url = server.api.url().to_owned();
    let cli = async |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend(["--url", &url]);
        landfall(server.folder(), &all).await
    };

    let send = ["tx", "send", "--to", RECEIVER, "--value", "1.5gwei", "--request-id", "cli-1"];
    let waited = cli(&[&send[..], &["--wait"]].concat()).await;
    assert!(waited.good().contains("confirmed"), "{}", waited.stdout);
    assert!(!waited.stdout.contains('\u{1b}'), "no colours where there is no terminal");
    let sent = cli(&[&send[..], &["--json"]].concat()).await.json();
    assert_eq!(text(&sent, "state"), "confirmed", "the same key is the same transaction");
    let id = text(&sent, "txId");
    let again = cli(&[&send[..], &["--wait", "--json"]].concat()).await.json();
    assert_eq!((text(&again, "txId"), &again["payload"]["value"]), (id.clone(), &json!("1500000000")));

    let shown = cli(&["tx", "get", &id, "--journal"]).await;
    for word in ["confirmed", "cli-1", RECEIVER, "accepted", "signed", "mined", "what"] {
        assert!(shown.good().contains(word), "{word}: {}", shown.stdout);
    }
    let shown = cli(&["tx", "get", &id, "--journal", "--json"]).await.json();
    assert_eq!(shown["journal"][0]["type"], "accepted");
    let watched = cli(&["tx", "watch", &id]).await;
    assert!(watched.good().contains("confirmed"));
    let listed = cli(&["tx", "list", "--state", "confirmed"]).await;
    assert!(listed.good().contains(&id), "{}", listed.stdout);
    let listed = cli(&["tx", "list", "--limit", "1", "--signer", &signer(0), "--chain", "31337", "--json"])
        .await
        .json();
    assert_eq!(listed["items"][0]["txId"], json!(id));
    assert!(!cli(&["tx", "list", "--state", "failed"]).await.good().contains(&id));

    let lanes = cli(&["lane", "list"]).await;
    assert!(lanes.good().contains(&signer(0)) && lanes.stdout.contains("healthy"), "{}", lanes.stdout);
    assert_eq!(cli(&["lane", "list", "--json"]).await.json()["items"][0]["nextNonce"], 1);
    let lane = cli(&["lane", "show", "31337", &signer(0)]).await;
    assert!(lane.good().contains("next nonce   1"), "{}", lane.stdout);
    cli(&["lane", "pause", "31337", &signer(0)]).await.good();
    until("the lane is paused", async || {
        let lane = cli(&["lane", "show", "31337", &signer(0), "--json"]).await.json();
        (lane["paused"] == true).then_some(())
    })
    .await;
    let held = cli(&["tx", "send", "--to", RECEIVER, "--json"]).await.json();
    // With SQLite there are no leases, whoever is said to be dead.
    let session = until("the lane has an owner", async || {
        let session = server.api.lane(&signer(0)).await["owner"]["session"].clone();
        session.is_string().then(|| json!({ "session": session }))
    })
    .await;
    cli(&["lane", "break-lease", "31337", &signer(0), "--yes"]).await.bad(1, "no leases to break");
    let path = format!("/api/v1/lanes/31337/{}/break-lease", signer(0));
    server.api.post(&path, &session).await.expect_problem(409, "no_leases");
    cli(&["tx", "cancel", &text(&held, "txId"), "--json"]).await.json();
    // Not confirmed: the code says so.
    cli(&["tx", "watch", &text(&held, "txId")]).await.bad(3, "cancelled");
    cli(&["tx", "cancel", &text(&held, "txId")]).await.bad(1, "already_final");
    cli(&["lane", "resume", "31337", &signer(0)]).await.good();

    // Failures: a sentence and a code.
    let nobody = "00000000-0000-7000-8000-000000000000";
    cli(&["tx", "get", nobody]).await.bad(4, "not_found");
    cli(&["tx", "send", "--to", "me"]).await.bad(1, "bad_address");
    cli(&["tx", "send", "--to", RECEIVER, "--value", "much"]).await.bad(2, "1.5ether");
    cli(&["tx", "send", "--to", RECEIVER, "--signer", &signer(5)]).await.bad(4, "no lane fits");
    cli(&["lane", "show", "1", &signer(0)]).await.bad(4, "not_found");
    cli(&["tx", "dance"]).await.bad(2, "unrecognized subcommand");
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let silent = landfall(server.folder(), &["tx", "list", "--url", &nowhere]).await;
    silent.bad(6, "no server answers at");
    landfall(server.folder(), &["--help"]).await.good();
    landfall(server.folder(), &["--version"]).await.good();
}

/// Runs a line as a person would who pastes it.
async fn paste(line: &str) -> Value {
    let mut command = std::process::Command::new("bash");
    command.args(["-c", line]).stdin(Stdio::null());
    run(command).await.json()
}

#[tokio::test]
async fn the_curl_lines_that_dev_prints_land_a_transaction_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    let address = format!("127.0.0.1:{}", free_port());
    command.args(["dev", "--listen", &address]).stdout(Stdio::piped());
    let mut dev = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(dev.stdout.take().unwrap()).lines();
    let printed = async {
        let mut curls = Vec::new();
        let mut all = String::new();
        while curls.len() < 2 {
            let line = lines.next_line().await.unwrap().expect("dev goes on");
            all.push_str(&line);
            if line.starts_with("curl ") {
                curls.push(line);
            }
        }
        (curls, all)
    };
    let (curls, all) = tokio::time::timeout(LIMIT, printed).await.expect("dev says how to use it");
    assert!(all.contains(&signer(0)), "it names a funded signer: {all}");
    // The README shows the same lines, for the address that `landfall dev` has without flags.
    let readme = include_str!("../../../../README.md");
    let shown = readme.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let printed: Vec<String> = curls.iter().map(|line| line.replace(&address, "127.0.0.1:8645")).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), printed);

    let accepted = paste(&curls[0]).await;
    assert_eq!(text(&accepted, "state"), "accepted", "{accepted}");
    let done = until("it is confirmed", async || {
        let tx = paste(&curls[1]).await;
        (text(&tx, "state") == "confirmed").then_some(tx)
    })
    .await;
    assert_eq!(done["txId"], accepted["txId"]);
    assert_eq!(paste(&curls[0]).await["txId"], accepted["txId"], "pasted twice it is still one");

    signal("INT", dev.id().unwrap());
    let ended = until_within(Duration::from_secs(10), "dev ends", async || dev.try_wait().unwrap()).await;
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn the_demo_lands_everything_once_through_kills_and_faults_and_says_so_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let output = landfall(folder.path(), &["demo", "--count", "200", "--json"]).await;
    let summary = output.json();
    assert_eq!(summary["clean"], true, "{summary}");
    let counts = ["landedOnce", "landedTwice", "lost", "gaps"].map(|name| summary[name].as_u64());
    assert_eq!(counts, [Some(200), Some(0), Some(0), Some(0)], "{summary}");
    assert!(summary["kills"].as_u64() >= Some(5) && summary["reorganisedBlocks"] == 4, "{summary}");
    assert!(summary["faults"].is_object(), "{summary}");
}

#[tokio::test]
async fn the_simulator_repeats_a_seed_and_runs_many() {
    let folder = tempfile::tempdir().unwrap();
    let once = landfall(folder.path(), &["sim", "--seed", "7", "--json"]).await.json();
    let again = landfall(folder.path(), &["sim", "--seed", "7", "--json"]).await.json();
    assert_eq!(once["traceHash"], again["traceHash"]);
    assert_eq!(once["violations"], serde_json::json!([]));
    let readable = landfall(folder.path(), &["sim", "--seed", "7"]).await;
    let hash = once["traceHash"].as_str().unwrap();
    assert!(readable.good().contains(hash), "the trace ends with its hash");
    let many = landfall(folder.path(), &["sim", "--seeds", "4", "--from", "5", "--json"]).await.json();
    assert_eq!(many["runs"], 4);
    landfall(folder.path(), &["sim", "--seeds", "0"]).await.bad(2, "0 is not in");
}

#[test]
fn a_reader_that_goes_away_ends_a_command_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    // More than a pipe holds.
    let mut command = program(folder.path());
    command.arg("openapi").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8(ended.stderr).unwrap()), (Some(141), String::new()));
}
