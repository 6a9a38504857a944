//! The README, block by block, in its order: what it tells people to type works.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use crate::support::{Api, Chain, Output, account, free_port, program, run_within, text, until_within};

const README: &str = include_str!("../../../../README.md");

/// A first transaction is to land in this time from the start.
const FIRST: Duration = Duration::from_secs(60);

/// The blocks that a shell runs, in order.
fn blocks() -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in README.lines() {
        match (&mut open, line) {
            (None, "```bash" | "```sh") => open = Some(String::new()),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some(block), line) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

/// Runs a block in a shell whose `landfall`, and whose `cargo run --release --`, is the binary under test.
async fn shell(folder: &Path, block: &str, port: u16, rpc: &str) -> Output {
    let bin = folder.join("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(program(folder).get_program(), bin.join("landfall")).unwrap();
    }
    let block = block
        .replace("cargo run --release --", "landfall")
        .replace("127.0.0.1:8645", &format!("127.0.0.1:{port}"))
        // The server takes the shell's place, so that it ends with it.
        .replace("landfall serve", "exec landfall serve")
        .replace("0x…", &account(0).key.to_string());
    let mut bash = Command::new("bash");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LANDFALL_") {
            bash.env_remove(name);
        }
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    bash.arg("-euc").arg(block).current_dir(folder).env("PATH", path).stdin(Stdio::null());
    if !rpc.is_empty() {
        bash.env("LANDFALL_SERVER__LISTEN", format!("127.0.0.1:{port}")).env("LANDFALL_CHAIN__0__RPC", rpc);
    }
    run_within(Duration::from_secs(120), bash).await
}

#[tokio::test]
async fn every_block_does_what_it_says() {
    let blocks = blocks();
    let is = |block: &String, words: &str| block.contains(words);
    let order: Vec<&str> = blocks
        .iter()
        .map(|block| match block {
            block if is(block, "-- dev") => "dev",
            block if is(block, "/api/v1/tx ") => "first",
            block if is(block, "/rpc/31337") => "rpc",
            block if is(block, "-- demo") => "demo",
            block if is(block, "landfall serve") => "serve",
            block if block.trim() == "cargo xtask test" => "test",
            other => panic!("the README has a block that this test does not know: {other}"),
        })
        .collect();
    assert_eq!(order, ["dev", "first", "rpc", "demo", "serve", "test"]);
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();

    // The first block stays up while the next ones talk to it.
    let since = Instant::now();
    let mut dev = program(folder.path());
    dev.args(["dev", "--listen", &format!("127.0.0.1:{port}")]).stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(blocks[0].trim(), "cargo run --release -- dev");
    let mut dev = tokio::process::Command::from(dev).kill_on_drop(true).spawn().unwrap();
    let api = Api::at(&format!("http://127.0.0.1:{port}"));
    until_within(FIRST, "dev is ready", async || {
        let ready = api.try_send(api.request(reqwest::Method::GET, "/health/ready")).await?;
        (ready.status == 200).then_some(())
    })
    .await;
    let mut lines = blocks[1].lines();
    let (send, look) = (lines.next().unwrap(), lines.next().unwrap());
    let sent = shell(folder.path(), send, port, "").await;
    assert!(sent.ok() && sent.stdout.contains("\"state\":\"accepted\""), "{sent:?}");
    until_within(FIRST, "the first transaction has landed", async || {
        let seen = shell(folder.path(), look, port, "").await;
        seen.stdout.contains("\"state\":\"confirmed\"").then_some(())
    })
    .await;
    assert!(since.elapsed() < FIRST, "{:?}", since.elapsed());
    let again = shell(folder.path(), send, port, "").await;
    assert!(again.stdout.contains("\"nonce\":0"), "the same transaction: {again:?}");

    let sent = shell(folder.path(), &blocks[2], port, "").await;
    let answer: serde_json::Value = serde_json::from_str(&sent.stdout).unwrap();
    let hash = text(&answer, "result");
    until_within(FIRST, "what came by JSON-RPC has landed", async || {
        let found = api.get(&format!("/api/v1/tx?hash={hash}")).await.expect(200);
        (found["items"][0]["state"] == "confirmed").then_some(())
    })
    .await;
    dev.kill().await.unwrap();

    let demo = shell(folder.path(), &blocks[3], port, "").await;
    assert!(demo.ok() && demo.stdout.contains("landed exactly once"), "{demo:?}");

    // The last line stays up; the others have ended before it.
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let (setup, serve) = blocks[4].split_once("KEY_A").unwrap();
    let made = shell(folder.path(), setup, port, &chain.url()).await;
    assert!(made.ok(), "{made:?}");
    let key = made.stdout.lines().find(|line| line.starts_with("lf_")).expect("a key is printed").to_owned();
    let serve = format!("KEY_A{serve}");
    let url = chain.url();
    let serving = shell(folder.path(), &serve, port, &url);
    let called = async {
        let api = api.with_key(&key);
        until_within(FIRST, "the server lists its lane", async || {
            let lanes = api.try_send(api.request(reqwest::Method::GET, "/api/v1/lanes")).await?;
            (lanes.status == 200 && lanes.body["items"].as_array()?.len() == 1).then_some(())
        })
        .await;
    };
    tokio::select! {
        ended = serving => panic!("the server ended: {ended:?}"),
        () = called => {}
    }
}
