//! Every example of every help page, run as it is printed: beside a `landfall dev`, or not at all for a reason that is given here.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::support::{Api, CHAIN_ID, Dev, Output, RECEIVER, account, program, run, signer, text, until};

const QUICK: Duration = Duration::from_millis(100);
/// Nothing is mined while a test runs.
const NEVER: Duration = Duration::from_secs(3_600);

/// What must be so before an example is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Before {
    /// Nothing: it needs no server.
    Nothing,
    /// A configuration in the folder.
    Configuration,
    /// The same, and a store that no server runs on.
    Store,
    /// A key in the folder.
    Key,
    /// A server on which `invoice-17` is confirmed and a webhook exists.
    Landed,
    /// One on which nothing happened.
    Fresh,
    /// One on which `invoice-17` is in flight for ever.
    InFlight,
    /// One on which `invoice-17` was cancelled.
    Cancelled,
    /// One on which `invoice-17` waits for a person, since what it was to follow was cancelled.
    Held,
}

enum How {
    /// It ends with this code.
    Ends(Before, i32),
    /// Only its flags are checked (by a test of the binary), for this reason.
    NotRun(#[expect(dead_code, reason = "it is for whoever reads this")] &'static str),
}

/// By the words it begins with; the first that fits counts. They are run in this order, those that need the same on one server.
const HOW: &[(&str, How)] = &[
    ("landfall dev", How::NotRun("it goes on until it is stopped; it is what the others are run beside")),
    ("landfall demo", How::NotRun("it takes a while; `cli.rs` and `hostile.rs` run it")),
    ("landfall serve", How::NotRun("it goes on until it is stopped; `readme.rs` runs it")),
    ("LANDFALL_SERVER__LISTEN=", How::NotRun("it goes on until it is stopped")),
    ("landfall bench", How::NotRun("it takes minutes; `bench.rs` runs it")),
    ("landfall sim", How::NotRun("it takes minutes; `cli.rs` runs it")),
    ("landfall migrate", How::NotRun("it needs a PostgreSQL of its own; `migrate.rs` runs it")),
    ("landfall import openzeppelin", How::NotRun("it needs another relayer's files; `import.rs` runs it")),
    ("landfall import keystores", How::Ends(Before::Key, 0)),
    ("landfall chain forget", How::NotRun("it needs a store with that chain; `restart.rs` runs it")),
    (
        "landfall chain accept-reorg",
        How::NotRun("it needs a chain that replaced a final block; `endpoints.rs` runs it"),
    ),
    ("landfall backup", How::NotRun("it needs a store; `backup.rs` runs it")),
    ("landfall store show", How::Ends(Before::Landed, 0)),
    ("landfall store older --yes", How::Ends(Before::Store, 0)),
    // It asks.
    ("landfall store older", How::Ends(Before::Store, 1)),
    ("landfall store accept", How::NotRun("it needs a store that went back; `backup.rs` runs it")),
    ("landfall config", How::Ends(Before::Nothing, 0)),
    ("landfall openapi", How::Ends(Before::Nothing, 0)),
    ("KEY_PASSWORD=correct-horse landfall key new", How::Ends(Before::Nothing, 0)),
    ("landfall key address --keystore", How::Ends(Before::Key, 0)),
    ("landfall key address", How::Ends(Before::Nothing, 0)),
    ("landfall api-key create --name me", How::Ends(Before::Configuration, 0)),
    ("landfall api-key list", How::Ends(Before::Fresh, 0)),
    // There is no key of that id: not found.
    ("landfall api-key revoke", How::Ends(Before::Fresh, 4)),
    ("landfall webhook delete", How::Ends(Before::Fresh, 0)),
    // From here on this server wants keys.
    ("landfall api-key create", How::Ends(Before::Fresh, 0)),
    ("landfall lane break-lease", How::NotRun("it needs a PostgreSQL and a dead node; `cluster.rs` runs it")),
    ("landfall lane fill", How::Ends(Before::InFlight, 0)),
    ("landfall tx speed-up", How::Ends(Before::InFlight, 0)),
    ("landfall tx replace", How::Ends(Before::InFlight, 0)),
    ("landfall tx cancel", How::Ends(Before::InFlight, 0)),
    ("landfall lane cancel-all", How::Ends(Before::InFlight, 0)),
    ("landfall tx retry", How::Ends(Before::Cancelled, 0)),
    ("landfall tx approve", How::Ends(Before::Held, 0)),
    ("landfall tx reject", How::Ends(Before::Held, 0)),
    ("landfall tx settle", How::NotRun("it needs a nonce that was used by hand; `stuck.rs` runs it")),
    ("landfall audit verify --config", How::NotRun("it needs a store, and a hash of it; `audit.rs` runs it")),
    ("landfall audit export", How::Ends(Before::Landed, 0)),
    (
        "landfall audit verify --file",
        How::NotRun("it needs what `audit export` has written; `audit.rs` runs it"),
    ),
    ("landfall audit", How::Ends(Before::Landed, 0)),
    ("landfall tx", How::Ends(Before::Landed, 0)),
    ("landfall lane", How::Ends(Before::Landed, 0)),
    // Nobody listens there: not delivered.
    ("landfall webhook test", How::Ends(Before::Landed, 5)),
    ("landfall webhook", How::Ends(Before::Landed, 0)),
];

/// The help of a command, and of all below it.
async fn pages(folder: &Path, words: &[String], found: &mut Vec<String>) {
    let mut command = program(folder);
    command.args(words).arg("--help");
    let help = run(command).await;
    assert!(help.ok(), "{words:?}: {help:?}");
    let commands = help.stdout.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let names = commands.lines().take_while(|line| !line.is_empty());
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        let below = [words, &[name.to_owned()]].concat();
        Box::pin(pages(folder, &below, found)).await;
    }
    found.push(help.stdout);
}

fn examples(page: &str) -> impl Iterator<Item = &str> {
    let block = page.split_once("\nExample").map_or("", |(_, rest)| rest);
    block.lines().skip(1).take_while(|line| !line.is_empty()).map(str::trim)
}

/// Runs a line as a person would who pastes it.
async fn paste(folder: &Path, line: &str, url: &str) -> Output {
    let bin = folder.join("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(program(folder).get_program(), bin.join("landfall")).unwrap();
    }
    let mut bash = Command::new("bash");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LANDFALL_") {
            bash.env_remove(name);
        }
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    bash.arg("-euc").arg(line).current_dir(folder).stdin(Stdio::null()).env("PATH", path);
    bash.env("LANDFALL_URL", url)
        .env("KEY_A", account(0).key.to_string())
        .env("KEY_PASSWORD", "correct-horse");
    run(bash).await
}

const INVOICE: &str = "landfall tx send --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --data 0xa9059cbb --request-id invoice-17 --speed fast";
const WEBHOOK: &str = "landfall webhook create http://127.0.0.1:1/hook --json";

/// A server as an example needs it, and the id of a webhook there.
async fn prepared(before: Before, folder: &Path) -> (Option<Dev>, String) {
    let good = async |line: &str, url: &str| {
        let done = paste(folder, line, url).await;
        assert!(done.ok(), "{line}: {done:?}");
        done.stdout
    };
    match before {
        Before::Nothing => return (None, String::new()),
        Before::Configuration => {
            good("landfall config > landfall.toml", "").await;
            return (None, String::new());
        }
        Before::Store => {
            good("landfall config > landfall.toml", "").await;
            good("landfall api-key create --name me --role admin --config landfall.toml", "").await;
            return (None, String::new());
        }
        Before::Key => {
            good("landfall key new keys/a.json --password-env KEY_PASSWORD", "").await;
            return (None, String::new());
        }
        Before::Landed | Before::Fresh | Before::InFlight | Before::Cancelled | Before::Held => {}
    }
    let dev = Dev::start(if before == Before::Landed { QUICK } else { NEVER }).await;
    let url = dev.api.url().to_owned();
    let made: serde_json::Value = serde_json::from_str(&good(WEBHOOK, &url).await).unwrap();
    match before {
        Before::Landed => {
            good(&format!("{INVOICE} --wait"), &url).await;
        }
        Before::InFlight => {
            let sent: serde_json::Value =
                serde_json::from_str(&good(&format!("{INVOICE} --json"), &url).await).unwrap();
            dev.api.until_state(&text(&sent, "txId"), "broadcast").await;
        }
        Before::Cancelled => {
            pause(&dev.api).await;
            good(INVOICE, &url).await;
            good("landfall tx cancel invoice-17", &url).await;
            until_ended(&dev.api, "invoice-17").await;
        }
        Before::Held => {
            pause(&dev.api).await;
            let body = |request: &str| {
                json!({ "chainId": CHAIN_ID, "signer": signer(0), "requestId": request,
                        "payload": { "to": RECEIVER, "value": "1" } })
            };
            let first = dev.api.submit(&body("first")).await;
            let mut held = body("invoice-17");
            held["options"] = json!({ "after": { "txId": first, "onFailure": "hold" } });
            let held = dev.api.submit(&held).await;
            dev.api.command(&format!("/api/v1/tx/{first}/cancel")).await.expect(202);
            dev.api.until_tx(&held, "it is held", |tx| tx["held"].is_object()).await;
        }
        Before::Nothing | Before::Configuration | Before::Store | Before::Key | Before::Fresh => {}
    }
    (Some(dev), text(&made, "id"))
}

async fn pause(api: &Api) {
    api.command(&format!("/api/v1/lanes/{CHAIN_ID}/{}/pause", signer(0))).await.expect(202);
    until("it is paused", async || (api.lane(&signer(0)).await["paused"] == true).then_some(())).await;
}

async fn until_ended(api: &Api, request: &str) {
    let path = format!("/api/v1/tx/by-request?signer={}&requestId={request}", signer(0));
    until("it has ended", async || (api.get(&path).await.expect(200)["state"] == "cancelled").then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_of_every_help_page_works_as_it_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    pages(folder.path(), &[], &mut all).await;
    let mut lines: Vec<&str> = all.iter().flat_map(|page| examples(page)).collect();
    lines.sort_unstable();
    lines.dedup();
    assert!(lines.len() > 40, "{lines:?}");
    let place = |line: &&str| HOW.iter().position(|(words, _)| line.starts_with(words));
    lines.sort_by_key(place);
    let mut servers: BTreeMap<Before, (Option<Dev>, String)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in lines {
        let Some(at) = place(&line) else { panic!("nobody has said how this example is checked: {line}") };
        let How::Ends(before, code) = &HOW[at].1 else { continue };
        let own = tempfile::tempdir().unwrap();
        // What needs files has a folder of its own; a person says only once what becomes of one that is held.
        let has_files = matches!(before, Before::Configuration | Before::Store | Before::Key);
        let shared = !has_files && !matches!(before, Before::Nothing | Before::Held);
        let ready = match servers.remove(before).filter(|_| shared) {
            Some(ready) => ready,
            None => prepared(*before, own.path()).await,
        };
        let url = ready.0.as_ref().map_or(String::new(), |dev| dev.api.url().to_owned());
        let output = paste(own.path(), &line.replace("wh_…", &ready.1), &url).await;
        servers.insert(*before, ready);
        if output.code != Some(*code) {
            wrong.push(format!("{line}\n  ended with {:?} instead of {code}: {}", output.code, output.said));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
