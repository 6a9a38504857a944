//! What people see: the right content, the right reason from any node, faults told as what they are, tables that can be read.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use landfall_pgtest::{Cluster, Stop};
use serde_json::{Value, json};

use crate::support::{
    CHAIN_ID, Chain, Database, Dev, Nodes, Output, QUICK_WEBHOOKS, RECEIVER, Server, Settings, free_port,
    program, run, signer, submission, text, transfer, until,
};

async fn landfall(folder: &Path, words: &[&str]) -> Output {
    let mut command = program(folder);
    command.args(words).env("SECRET", "correct horse");
    run(command).await
}

/// The same, as on a terminal with colours.
async fn coloured(folder: &Path, words: &[&str]) -> Output {
    let mut command = program(folder);
    command.args(words).env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
    run(command).await
}

#[track_caller]
fn ended(output: &Output, code: i32, told: &[&str]) {
    assert_eq!(output.code, Some(code), "{}", output.said);
    for sentence in told {
        assert!(output.said.contains(sentence), "{sentence}: {}", output.said);
    }
}

#[tokio::test]
async fn the_content_that_is_shown_is_the_newest_and_then_the_one_that_won() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let other = signer(5);
    let id = api.submit(&transfer()).await;
    api.until_state(&id, "broadcast").await;
    let payload = json!({ "payload": { "to": other, "value": "7000000000", "gas": 21_000 } });
    api.post(&format!("/api/v1/tx/{id}/replace"), &payload).await.expect(202);
    let shows = |tx: &Value| {
        (tx["payloadVersion"].clone(), text(&tx["payload"], "to"), tx["payload"]["value"].clone())
    };
    let newest = (json!(2), other.clone(), json!("7000000000"));
    let tx = api.until_tx(&id, "it has two versions", |tx| tx["version"] == 2).await;
    assert_eq!(shows(&tx), newest, "{tx:#}");
    let versions: Vec<_> =
        tx["contents"].as_array().unwrap().iter().map(|one| text(&one["payload"], "to")).collect();
    assert_eq!(versions, [RECEIVER.to_owned(), other.clone()]);
    api.until_tx(&id, "the second is in the pool", |tx| tx["attempts"][1]["accepted"] == true).await;
    chain.mine(3).await;
    let tx = api.until_state(&id, "confirmed").await;
    assert_eq!((&tx["wonVersion"], shows(&tx)), (&json!(2), newest), "{tx:#}");
    assert_eq!(shows(&api.list("").await[0]), shows(&tx), "lists show the same");
    let seen = landfall(server.folder(), &["tx", "get", &id, "--url", api.url()]).await;
    ended(&seen, 0, &[&other, "7 gwei", "2 of 2, which the chain took"]);

    // A cancel that wins does nothing; what was asked for is still shown.
    let id = api.submit(&transfer()).await;
    api.until_state(&id, "broadcast").await;
    api.command(&format!("/api/v1/tx/{id}/cancel")).await.expect(202);
    api.until_tx(&id, "the no-op is in the pool", |tx| tx["attempts"][1]["accepted"] == true).await;
    chain.mine(3).await;
    let tx = api.until_state(&id, "cancelled").await;
    assert_eq!(shows(&tx), (json!(1), RECEIVER.to_owned(), json!("1")), "{tx:#}");
    let seen = landfall(server.folder(), &["tx", "get", &text(&tx, "hash"), "--url", api.url()]).await;
    ended(&seen, 0, &["1 of 2; a no-op (version 2) took its nonce"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_own_the_lane_gives_the_reason_from_what_is_stored() {
    let database = Database::any();
    let nodes = Nodes::start(2, &database.url, 1, (10.0, 3.0, 1.0)).await;
    let taken = nodes.hand_over(&[0, 1], 1).await;
    let id = &taken[&0];
    nodes.api(0).until_state(id, "broadcast").await;
    let owner = nodes.busiest(0, &[]).await;
    let (other, name) = (1 - owner, nodes.nodes[owner].name.clone());
    let owned = format!("node {name} owns its lane");
    let why = |tx: &Value| text(tx, "stuckReason");

    let sent = nodes.api(other).until_state(id, "broadcast").await;
    assert_eq!(why(&sent), format!("sent with nonce 0, and in no block yet; {owned}"));
    nodes.chain.mine(1).await;
    let mined = nodes.api(other).until_tx(id, "it is mined", |tx| tx["state"] == "mined").await;
    let block = mined["receipt"]["blockNumber"].clone();
    assert_eq!(why(&mined), format!("block {block}, 0 of 1 confirmations; {owned}"));

    // What waits says why, and the lane does too.
    let lane = format!("/api/v1/lanes/{CHAIN_ID}/{}", signer(0));
    nodes.api(other).command(&format!("{lane}/pause")).await.expect(202);
    until("the lane is paused", async || {
        let lane = nodes.api(other).get(&lane).await.expect(200);
        (lane["holdReason"] == "an operator paused the lane" && lane["healthy"] == false).then_some(())
    })
    .await;
    let waiting = nodes.api(other).submit(&nodes.body(nodes.next_number() + 1)).await;
    let tx = nodes.api(other).tx(&waiting).await;
    assert_eq!(why(&tx), format!("waiting for a nonce: an operator paused the lane; {owned}"));
}

#[tokio::test]
async fn a_server_waits_for_its_database_and_for_nothing_that_waiting_does_not_mend() {
    let mut database = Cluster::start(landfall_pgtest::Settings::default()).unwrap();
    database.stop(Stop::Immediate).unwrap();
    let chain = Chain::without_mining().await;
    let on = |url: String| Settings { store_url: url, ..Settings::default() };
    let mut server = Server::prepare(&chain.url(), &on(database.url()));
    server.spawn();
    until("it says that it waits", async || {
        let log = server.log();
        (log.contains("waiting for the store") && log.contains("cannot be reached")).then_some(())
    })
    .await;
    database.start_again().unwrap();
    server.until_ready().await;
    server.api.submit(&transfer()).await;

    // Bounded, and the error says that it was waited for.
    let nowhere = on("postgres://me:s3cret@127.0.0.1:1/landfall".to_owned());
    let nowhere = Settings { store: "wait_s = 2", ..nowhere };
    let failed = Server::prepare(&chain.url(), &nowhere).run_to_end().await;
    ended(&failed, 1, &["cannot be reached", "it was waited for", "store.wait_s"]);
    assert!(!failed.said.contains("s3cret"), "{}", failed.said);
    // There is no such database, and there will be none.
    let (before, _) = database.url().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let failed = Server::prepare(&chain.url(), &on(format!("{before}/nothing"))).run_to_end().await;
    ended(&failed, 1, &["has no such database"]);
    assert!(!failed.said.contains("waiting for the store"), "{}", failed.said);
}

/// A certificate for this machine's address, signed by itself.
fn certificate(folder: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=landfall", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "server.key", "-out", "server.crt"])
        .current_dir(folder)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{made:?}");
}

#[tokio::test]
async fn faults_of_certificates_and_schemes_are_told_as_what_they_are() {
    let chain = Chain::without_mining().await;
    let tls = "tls_certificate = \"server.crt\"\ntls_key = \"server.key\"";
    let mut server = Server::prepare(&chain.url(), &Settings { server: tls, ..Settings::default() });
    certificate(server.folder());
    server.spawn();
    let plain = server.api.url().to_owned();
    let secure = plain.replace("http://", "https://");
    until("the banner is there", async || {
        server.printed().contains(&format!("Landfall listens on {secure}")).then_some(())
    })
    .await;
    let folder = server.folder();
    let ask = async |url: &str, more: &[&str]| {
        landfall(folder, &[&["lane", "list", "--url", url], more].concat()).await
    };
    ended(&ask(&secure, &["--cacert", "server.crt"]).await, 0, &[&signer(0)]);
    ended(&ask(&secure, &[]).await, 6, &["not trusted", "issuer is not known", "--cacert"]);
    let by_name = secure.replace("127.0.0.1", "localhost");
    ended(&ask(&by_name, &["--cacert", "server.crt"]).await, 6, &["not trusted", "another name"]);
    ended(&ask(&plain, &[]).await, 6, &["not in plain HTTP", "https://"]);
    ended(&ask(&secure, &["--cacert", "server.key"]).await, 1, &["server.key"]);
    ended(&ask(&secure, &["--cacert", "nowhere.pem"]).await, 1, &["nowhere.pem"]);

    let open = Server::start(&chain.url(), Settings::default()).await;
    until("the banner is there", async || {
        open.printed().contains(&format!("Landfall listens on {}", open.api.url())).then_some(())
    })
    .await;
    let secured = open.api.url().replace("http://", "https://");
    ended(&ask(&secured, &[]).await, 6, &["answers without TLS", "http://"]);
    let nobody = format!("http://127.0.0.1:{}", free_port());
    ended(&ask(&nobody, &[]).await, 6, &["no server answers at"]);
}

#[tokio::test]
async fn a_webhook_shows_its_description_and_a_test_that_was_not_delivered_is_a_failure() {
    let chain = Chain::without_mining().await;
    let server =
        Server::start(&chain.url(), Settings { sections: QUICK_WEBHOOKS, ..Settings::default() }).await;
    let cli = async |words: &[&str]| {
        landfall(server.folder(), &[words, &["--url", server.api.url()]].concat()).await
    };
    let nobody = format!("http://127.0.0.1:{}/hook", free_port());
    let made = cli(&["webhook", "create", &nobody, "--description", "orders of the shop"]).await;
    ended(&made, 0, &["orders of the shop"]);
    let id = made.stdout.lines().find_map(|line| line.strip_prefix("id")).unwrap().trim().to_owned();
    ended(&cli(&["webhook", "list"]).await, 0, &["orders of the shop", "healthy"]);
    ended(&cli(&["webhook", "test", &id]).await, 5, &["not delivered: "]);
    ended(&cli(&["webhook", "test", &id, "--json"]).await, 5, &["\"delivered\": false"]);
    ended(&cli(&["webhook", "test", "wh_nothing"]).await, 4, &["not_found"]);
    server.api.submit(&transfer()).await;
    until("it says when it gives up", async || {
        let shown = cli(&["webhook", "show", &id]).await;
        shown.stdout.contains("switched off after 3 days").then_some(())
    })
    .await;
}

/// What a terminal shows of a text.
fn seen(text: &str) -> String {
    let mut seen = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        seen.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    seen + rest
}

#[tokio::test]
async fn tables_with_colours_are_aligned_and_fit_eighty_columns() {
    let dev = Dev::start(Duration::from_millis(100)).await;
    let folder = tempfile::tempdir().unwrap();
    let url = dev.api.url();
    let sent = landfall(folder.path(), &["tx", "send", "--to", RECEIVER, "--wait", "--url", url]).await;
    ended(&sent, 0, &["confirmed"]);
    for (words, column) in [(["lane", "list"], "health"), (["tx", "list"], "state")] {
        let shown = coloured(folder.path(), &[&words[..], &["--url", url]].concat()).await;
        assert!(shown.stdout.contains('\u{1b}'), "{shown:?}");
        let shown = seen(&shown.stdout);
        let at = shown.lines().next().unwrap().find(column).unwrap();
        for line in shown.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            let letters: Vec<char> = line.chars().collect();
            assert!(letters[at - 1] == ' ' && letters[at] != ' ', "{column} begins at {at}:\n{shown}");
        }
        let plain = landfall(folder.path(), &[&words[..], &["--url", url]].concat()).await.stdout;
        assert!(plain.contains(&signer(0)) && !plain.contains('…'), "whole addresses for programs: {plain}");
    }
    // What the table shows names the lane.
    let short = format!("{}…{}", &signer(0)[..6], &signer(0)[38..]);
    for name in [short.as_str(), "0xf39f"] {
        let lane = landfall(folder.path(), &["lane", "show", "31337", name, "--url", url]).await;
        ended(&lane, 0, &[&signer(0), "balance      9999."]);
    }
    ended(&landfall(folder.path(), &["lane", "show", "31337", "0x", "--url", url]).await, 1, &["may be"]);
    ended(
        &landfall(folder.path(), &["lane", "show", "31337", "0xabcdef", "--url", url]).await,
        4,
        &["no lane"],
    );
}

#[tokio::test]
async fn a_transaction_without_request_id_gets_one_and_the_first_signer_of_a_development_chain_is_named() {
    let dev = Dev::start(Duration::from_millis(100)).await;
    let folder = tempfile::tempdir().unwrap();
    let cli =
        async |words: &[&str]| landfall(folder.path(), &[words, &["--url", dev.api.url()]].concat()).await;
    let sent = cli(&["tx", "send", "--to", RECEIVER, "--value", "1ether", "--wait"]).await;
    ended(&sent, 0, &["confirmed", "1 ether", "the first of 4 on development chain 31337", &signer(0)]);
    let made = sent.said.lines().find_map(|line| line.strip_prefix("requestId ")).unwrap().trim().to_owned();
    let again =
        cli(&["tx", "send", "--to", RECEIVER, "--value", "1ether", "--request-id", &made, "--json"]).await;
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((text(&again, "state"), text(&again, "requestId")), ("confirmed".into(), made.clone()));
    assert_eq!(dev.api.list("").await.len(), 1, "it was one transaction");
    let id = text(&again, "txId");
    for name in [id.as_str(), &made, &text(&again, "hash")] {
        ended(&cli(&["tx", "get", name]).await, 0, &[&id]);
    }
    ended(&cli(&["tx", "get", "nobody-knows"]).await, 4, &["nobody-knows", "requestId"]);
    ended(&cli(&["tx", "get", &format!("0x{:064x}", 7)]).await, 4, &["hash"]);
    let by_other = ["tx", "send", "--to", RECEIVER, "--signer", &signer(1), "--request-id", &made];
    ended(&cli(&by_other).await, 0, &[]);
    ended(&cli(&["tx", "get", &made]).await, 1, &["several signers", "--signer", &signer(1)]);
    ended(&cli(&["tx", "get", &made, "--signer", &signer(0)]).await, 0, &[&id]);
    // Nobody cancels everything by mistake.
    ended(&cli(&["lane", "cancel-all", "31337", &signer(0)]).await, 1, &["--yes"]);
    ended(&cli(&["lane", "pause", "31337", "0xf39F"]).await, 0, &["paused"]);
    ended(&cli(&["lane", "resume", "31337", "0xf39F"]).await, 0, &["healthy"]);
}

#[tokio::test]
async fn where_money_is_at_stake_no_signer_is_chosen_and_those_that_fit_are_listed() {
    let chain = Chain::without_mining().await;
    let server = Server::prepare(&chain.url(), &Settings { signers: 2, ..Settings::default() });
    // The chain is another one than the configuration says; nothing is sent, and it need not be reached.
    let file = server.folder().join("landfall.toml");
    let toml = std::fs::read_to_string(&file)
        .unwrap()
        .replace(&format!("id = {CHAIN_ID}"), "id = 137\ndevelopment = true");
    std::fs::write(&file, toml).unwrap();
    let mut server = server;
    server.spawn();
    server.until_ready().await;
    let sent = landfall(server.folder(), &["tx", "send", "--to", RECEIVER, "--url", server.api.url()]).await;
    let lane = |n: usize| format!("--chain 137 --signer {}", signer(n));
    ended(&sent, 1, &["several lanes fit", &lane(0), &lane(1)]);
}

#[tokio::test]
async fn a_key_gets_a_folder_of_its_own_and_what_is_missing_is_named_by_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let made = landfall(folder.path(), &["key", "new", "deep/keys/a.json", "--password-env", "SECRET"]).await;
    ended(&made, 0, &["0x"]);
    for made in ["deep", "deep/keys"] {
        let mode = std::fs::metadata(folder.path().join(made)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{made}");
    }
    let flags = ["--private-key-env", "--keystore", "--mnemonic-env"];
    ended(&landfall(folder.path(), &["key", "address"]).await, 2, &flags);
    let open = landfall(folder.path(), &["key", "address", "--keystore", "deep/keys/a.json"]).await;
    ended(&open, 2, &["--password-env", "--password-file"]);

    let taken = std::net::TcpListener::bind(("127.0.0.1", free_port())).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    ended(&landfall(folder.path(), &["dev", "--listen", &address]).await, 1, &[&address, "with --listen"]);
    let chain = ["dev", "--listen", "127.0.0.1:0", "--chain-listen", &address];
    ended(&landfall(folder.path(), &chain).await, 1, &[&address, "with --chain-listen"]);
    let server = Server::prepare("http://127.0.0.1:1", &Settings::default());
    let file = server.folder().join("landfall.toml");
    let toml = std::fs::read_to_string(&file).unwrap();
    let listen = server.api.url().trim_start_matches("http://").to_owned();
    std::fs::write(&file, toml.replace(&listen, &address)).unwrap();
    ended(&server.run_to_end().await, 1, &[&address, "with server.listen"]);
}

#[tokio::test]
async fn a_transaction_that_ends_without_success_is_told_by_the_code() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let reverts = submission(json!({ "value": "0", "data": "0x60006000fd", "gas": 100_000 }));
    let id = server.api.submit(&reverts).await;
    let watched = landfall(server.folder(), &["tx", "watch", &id, "--url", server.api.url()]).await;
    ended(&watched, 3, &["reverted"]);
}
