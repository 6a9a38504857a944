//! The same server on PostgreSQL: all a user changes is the URL.

use std::time::Duration;

use landfall_pgtest::{Cluster, Stop};
use serde_json::json;

use crate::support::{Chain, RECEIVER, Server, Settings, marker, number_of, signer, submission};

fn on(url: String) -> Settings {
    Settings { store_url: url, lease: (4.0, 1.0, 1.0), ..Settings::default() }
}

fn marked(number: u64) -> serde_json::Value {
    submission(json!({ "to": RECEIVER, "value": "0", "data": marker(number), "gas": 30_000 }))
}

#[tokio::test]
async fn a_server_on_postgres_lands_transactions_through_restarts_of_itself_and_of_the_database() {
    let mut database = Cluster::start(landfall_pgtest::Settings::default()).unwrap();
    let chain = Chain::with_blocks_every(Duration::from_millis(500)).await;
    let mut server = Server::start(&chain.url(), on(database.url())).await;
    let api = server.api.clone();

    let first = api.submit(&marked(0)).await;
    assert_eq!(api.until_state(&first, "confirmed").await["nonce"], 0);

    // Killed: its lease must run out before the next process gets the lane.
    let second = api.submit(&marked(1)).await;
    server.restart_after_kill().await;
    api.until_state(&second, "confirmed").await;

    // The database goes down as in a crash and comes back, with the server running on.
    let third = api.submit(&marked(2)).await;
    database.stop(Stop::Immediate).unwrap();
    let down = api.send(api.request(reqwest::Method::POST, "/api/v1/tx").json(&marked(3))).await;
    assert!(down.status >= 500, "nothing is acknowledged that is not stored: {down:?}");
    database.start_again().unwrap();
    server.until_ready().await;
    api.until_state(&third, "confirmed").await;
    let last = api.submit(&marked(4)).await;
    api.until_state(&last, "confirmed").await;

    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));
    let numbers: Vec<u64> = chain.landed().await.iter().filter_map(number_of).collect();
    let landed: Vec<u64> = numbers.iter().copied().filter(|number| *number != 3).collect();
    assert_eq!(landed, [0, 1, 2, 4], "each once, in order");
    assert_eq!(chain.count(&signer(0)).await, u64::try_from(numbers.len()).unwrap());
    assert!(!server.log().contains("landfall@"), "the log does not show the password");
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_said_in_words() {
    let chain = Chain::without_mining().await;
    let nowhere = on("postgres://me:s3cret@127.0.0.1:1/landfall".to_owned());
    let server = Server::prepare(&chain.url(), &Settings { store: "wait_s = 0", ..nowhere });
    let output = server.run_to_end().await;
    assert_eq!(output.code, Some(1));
    assert!(
        output.said.contains("cannot be reached") && output.said.contains("store.url"),
        "{}",
        output.said
    );
    assert!(!output.said.contains("s3cret"), "{}", output.said);
}
