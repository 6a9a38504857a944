//! The OpenAPI document: as committed, as served, as a page, and as a generator of requests reads it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Chain, Server, Settings, http_client, program, run, run_within, text, transfer_as};

const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")
}

#[tokio::test]
async fn the_document_is_the_same_in_the_folder_from_the_program_and_from_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    command.arg("openapi");
    let printed = run(command).await;
    assert!(printed.ok(), "{printed:?}");
    let kept = std::fs::read_to_string(committed()).unwrap();
    assert!(kept == printed.stdout, "run `cargo run -- openapi > docs/openapi.json`");

    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let answer = http_client().get(format!("{}/openapi.json", server.api.url())).send().await.unwrap();
    assert_eq!(answer.status(), 200, "it is open to everybody");
    assert_eq!(answer.text().await.unwrap(), kept);
}

#[tokio::test]
async fn the_page_shows_every_call_and_needs_nothing_else() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded()).await;
    let answer = http_client().get(format!("{}/docs", server.api.url())).send().await.unwrap();
    assert_eq!(answer.status(), 200, "it is open to everybody");
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("x-content-type-options"), "nosniff");
    let policy = header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let page = answer.text().await.unwrap();
    for loads in ["<script", "src=", "@import", "url(", "<link", "href=\"http"] {
        assert!(!page.contains(loads), "the page loads or runs something: {loads}");
    }
    let document: Value = serde_json::from_str(&std::fs::read_to_string(committed()).unwrap()).unwrap();
    for path in document["paths"].as_object().unwrap().values() {
        for call in path.as_object().unwrap().values() {
            assert!(page.contains(&format!("<details id=\"{}\">", text(call, "operationId"))), "{call}");
        }
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("<h3 id=\"schema-{name}\">")), "{name}");
    }
}

fn guarded() -> Settings {
    Settings { env: vec![("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned())], ..Settings::default() }
}

/// All checks but these: that what fits the schemas is accepted (a chain that is not configured fits, too), and what
/// supposes that a thing is gone after its `DELETE` (a revoked key stays to be seen).
/// A batch is good as a whole, however bad its items are: each has its own status. JSON-RPC says all of its own with 200.
const SETTINGS: &str = r#"
[checks]
positive_data_acceptance.enabled = false
use_after_free.enabled = false
ensure_resource_availability.enabled = false

[[operations]]
include-path = "/api/v1/tx/batch"
checks.negative_data_rejection.enabled = false

[[operations]]
include-path = "/rpc/{chain}"
checks.negative_data_rejection.enabled = false
"#;

/// Requests by the thousand, made from the served document by schemathesis, good ones and bad ones: no answer is a 5xx, and
/// none is one that the document does not have.
#[tokio::test]
async fn no_request_that_can_be_made_from_the_document_breaks_it() {
    let schemathesis = std::env::var("LANDFALL_SCHEMATHESIS")
        .expect("LANDFALL_SCHEMATHESIS names schemathesis; `cargo xtask test` provides it");
    let thorough = std::env::var_os("LANDFALL_THOROUGH").is_some();
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let server = Server::start(&chain.url(), guarded()).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let tx = admin.submit(&transfer_as("known")).await;
    admin.until_state(&tx, "confirmed").await;

    // The example is a transaction that is there, so that more than "not found" is seen.
    let served = admin.get("/openapi.json").await.expect(200);
    let example = served["components"]["schemas"]["TxId"]["examples"][0].as_str().expect("an example");
    let document = served.to_string().replace(example, &tx);
    std::fs::write(server.folder().join("openapi.json"), document).unwrap();

    std::fs::write(server.folder().join("schemathesis.toml"), SETTINGS).unwrap();
    let mut command = Command::new(schemathesis);
    command.current_dir(server.folder()).args(["run", "openapi.json", "--no-color"]);
    command.args(["--url", server.api.url(), "--header", &format!("Authorization: Bearer {ADMIN_KEY}")]);
    // Without it a made-up key would stand in this header, and few requests would come past the door.
    command.args(["--header", &format!("X-API-Key: {ADMIN_KEY}")]);
    // A stream has no end that could be looked at; its events are held to the document by other tests.
    command.args(["--exclude-path", "/api/v1/events", "--request-timeout", "20"]);
    // Each bound of each field takes minutes; a few requests by chance, the same every time, take seconds.
    if thorough {
        command.args(["--phases", "examples,coverage,fuzzing", "--max-examples", "30"]);
    } else {
        command.args(["--phases", "examples,fuzzing", "--max-examples", "5", "--seed", "6"]);
    }
    let limit = Duration::from_secs(if thorough { 840 } else { 180 });
    let output = run_within(limit, command).await;
    assert!(output.ok(), "{}", output.said);
    // It is as well as before.
    admin.get("/health/ready").await.expect(200);
    let log = server.log();
    assert!(!log.contains("panicked") && !log.contains("answered with a problem"), "{log}");
}
