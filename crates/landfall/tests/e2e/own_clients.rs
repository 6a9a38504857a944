//! The clients that come with Landfall, against a real server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use landfall_client::{BatchItem, Client, EventFilter, Payload, State, Submission, TxFilter};
use serde_json::json;

use crate::support::{CHAIN_ID, Chain, RECEIVER, Server, Settings, run, signer};

const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";

fn guarded() -> Settings {
    Settings { env: vec![("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned())], ..Settings::default() }
}

fn transfer(key: &str, wei: &str) -> Submission {
    let payload = Payload { gas: Some(21_000), ..Payload::transfer(RECEIVER, wei) };
    Submission::new(CHAIN_ID, signer(0), payload).request_id(key)
}

/// The code of a refusal.
fn code<T: std::fmt::Debug>(answer: Result<T, landfall_client::Error>) -> String {
    let error = answer.expect_err("a refusal");
    error.problem().unwrap_or_else(|| panic!("not a problem: {error:?}")).code.clone()
}

#[tokio::test]
async fn the_rust_client_does_what_the_api_does() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = Server::start(&chain.url(), guarded()).await;
    let landfall = Client::new(server.api.url(), Some(ADMIN_KEY)).unwrap();
    assert!(landfall.is_ready().await);
    let first = landfall.submit(&transfer("one", "1")).await.unwrap();
    assert_eq!(landfall.submit(&transfer("one", "1")).await.unwrap().tx_id, first.tx_id);
    assert_eq!(code(landfall.submit(&transfer("one", "2")).await), "request_id_reused");

    let ended = landfall.wait_until_ended(&first.tx_id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(ended.state, State::Confirmed);
    assert_eq!(ended.receipt.as_ref().unwrap().status, "success");
    // Nothing that the server said is lost on the way.
    assert_eq!(json!(ended), server.api.with_key(ADMIN_KEY).tx(&first.tx_id).await);
    assert_eq!(landfall.by_request(&signer(0), "one").await.unwrap().tx_id, first.tx_id);
    let journal = landfall.journal(&first.tx_id).await.unwrap();
    assert_eq!((journal[0].kind.as_str(), journal.last().unwrap().kind.as_str()), ("accepted", "confirmed"));
    assert_eq!(code(landfall.cancel(&first.tx_id).await), "already_final");
    assert_eq!(code(landfall.retry(&first.tx_id).await), "already_confirmed");
    // What is given as an id is one part of the path, whatever it has in it.
    assert_eq!(code(landfall.transaction("../lanes?x=").await), "not_found");

    let batch = landfall.submit_batch(&[transfer("two", "1"), transfer("three", "x")]).await.unwrap();
    let [BatchItem::Accepted(two), BatchItem::Refused(refused)] = &batch[..] else { panic!("{batch:?}") };
    assert_eq!(refused.code, "bad_amount");
    let of_two = EventFilter { after: Some(0), tx_id: Some(two.tx_id.clone()), ..EventFilter::default() };
    let mut events = landfall.events(of_two);
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "tx.confirmed") {
        names.push(events.next().await.unwrap().name);
    }
    assert_eq!(names[0], "tx.accepted");

    let filter = TxFilter { state: Some("confirmed".to_owned()), limit: Some(1), ..TxFilter::default() };
    let page = landfall.transactions(&filter).await.unwrap();
    assert_eq!((page.items.len(), page.items[0].tx_id.as_str()), (1, two.tx_id.as_str()));
    assert!(page.next_cursor.is_some());
    landfall.steer_lane(CHAIN_ID, &signer(0), "pause").await.unwrap();
    let waiting = landfall.submit(&transfer("four", "1")).await.unwrap();
    landfall.cancel(&waiting.tx_id).await.unwrap();
    landfall.steer_lane(CHAIN_ID, &signer(0), "resume").await.unwrap();
    let ended = landfall.wait_until_ended(&waiting.tx_id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(ended.state, State::Cancelled);
    assert_eq!(ended.reason.unwrap().code, "cancelled_by_caller");
    let again = landfall.retry(&waiting.tx_id).await.unwrap();
    let again = landfall.wait_until_ended(&again.tx_id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(again.state, State::Confirmed);
    let lane = landfall.lane(CHAIN_ID, &signer(0)).await.unwrap();
    assert_eq!((lane.in_flight, lane.paused), (0, false));
    assert_eq!(landfall.lanes().await.unwrap().len(), 1);

    let made = landfall.create_api_key(&json!({ "name": "a viewer", "role": "viewer" })).await.unwrap();
    let viewer = Client::new(server.api.url(), made.key.as_deref()).unwrap();
    assert_eq!(code(viewer.submit(&transfer("five", "1")).await), "forbidden");
    assert_eq!(landfall.revoke_api_key(&made.id).await.unwrap().state, "revoked");
    assert_eq!(landfall.api_keys().await.unwrap()[0].state, "revoked");
    let stranger = Client::new(server.api.url(), None).unwrap();
    assert_eq!(code(stranger.lanes().await), "unauthorized");
    assert_eq!(code(stranger.events(EventFilter::default()).next().await), "unauthorized");
}

#[tokio::test]
async fn the_rust_clients_listener_goes_on_after_the_server_was_killed() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), guarded()).await;
    let landfall = Client::new(server.api.url(), Some(ADMIN_KEY)).unwrap();
    let mut events = landfall.events(EventFilter { after: Some(0), ..EventFilter::default() });
    landfall.submit(&transfer("one", "1")).await.unwrap();
    let mut heard = vec![events.next().await.unwrap()];
    server.restart_after_kill().await;
    landfall.submit(&transfer("two", "1")).await.unwrap();
    while heard.iter().filter(|event| event.name == "tx.confirmed").count() < 2 {
        heard.push(events.next().await.unwrap());
    }
    assert!(heard.windows(2).all(|pair| pair[0].id < pair[1].id), "in order, none twice: {heard:?}");
    let accepted = heard.iter().filter(|event| event.name == "tx.accepted").count();
    assert_eq!(accepted, 2);
}

/// The folder of the TypeScript client, with its packages installed.
fn typescript() -> PathBuf {
    let folder = std::env::var("LANDFALL_TYPESCRIPT").expect(
        "LANDFALL_TYPESCRIPT names the folder of the TypeScript client; `cargo xtask test` provides it",
    );
    PathBuf::from(folder)
}

async fn node(folder: &Path, args: &[&str]) {
    let mut command = Command::new("node");
    command.args(args).current_dir(folder);
    let output = run(command).await;
    assert!(output.ok(), "node {}: {}", args.join(" "), output.said);
}

#[tokio::test]
async fn the_typescript_client_is_made_from_the_document_and_does_what_the_api_does() {
    let folder = typescript();
    let scratch = tempfile::tempdir().unwrap();
    let made = scratch.path().join("schema.ts");
    let made = made.to_str().unwrap();
    node(
        &folder,
        &["node_modules/openapi-typescript/bin/cli.js", "../../docs/openapi.json", "--output", made],
    )
    .await;
    let kept = std::fs::read_to_string(folder.join("src/schema.ts")).unwrap();
    assert!(
        kept == std::fs::read_to_string(made).unwrap(),
        "run `npm run generate` in clients/typescript: schema.ts is not what the document says"
    );
    let built = scratch.path().join("dist");
    let built = built.to_str().unwrap();
    node(&folder, &["node_modules/typescript/bin/tsc", "--outDir", built]).await;

    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = Server::start(&chain.url(), guarded()).await;
    node(&folder, &["test/program.mjs", built, server.api.url(), ADMIN_KEY, &signer(0), RECEIVER]).await;
}
