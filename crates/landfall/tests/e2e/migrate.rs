//! A store is moved from SQLite to PostgreSQL with transactions under way, killed in the middle.

use std::path::Path;
use std::process::{Command, Stdio};

use landfall_pgtest::Cluster;
use serde_json::json;
use tokio_postgres::{Client, NoTls};

use crate::support::{
    Chain, LIMIT, Output, RECEIVER, Server, Settings, marker, number_of, program, run, signer, submission,
    until, until_within,
};

const COUNT: u64 = 24;

fn marked(number: u64) -> serde_json::Value {
    let signer = signer(usize::try_from(number % 2).unwrap());
    let mut body = submission(json!({ "to": RECEIVER, "value": "0", "data": marker(number), "gas": 30_000 }));
    body["signer"] = json!(signer);
    body["requestId"] = json!(format!("key-{number}"));
    body
}

fn migrate(folder: &Path, to: &str) -> Command {
    let mut command = program(folder);
    command.args(["migrate", "--from", "sqlite://landfall.db", "--to", to]);
    command
}

#[track_caller]
fn assert_failed(output: &Output, sentence: &str) {
    assert_eq!(output.code, Some(1), "{}", output.said);
    assert!(output.said.contains(sentence), "{}", output.said);
}

/// Every row that goes into the journal waits for a lock that this connection has.
async fn stop_at_the_journal(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute(
            "SELECT pg_advisory_lock(1);
             CREATE FUNCTION landfall.hold() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
             CREATE TRIGGER hold BEFORE INSERT ON landfall.journal FOR EACH ROW EXECUTE FUNCTION landfall.hold()",
        )
        .await
        .unwrap();
    client
}

#[tokio::test]
async fn a_store_with_transactions_under_way_is_moved_through_a_kill_and_each_lands_once() {
    let database = Cluster::start(landfall_pgtest::Settings::default()).unwrap();
    let chain = Chain::without_mining().await;
    let settings = Settings { signers: 2, max_in_flight: 4, lease: (4, 1, 1), ..Settings::default() };
    let mut server = Server::start(&chain.url(), settings.clone()).await;
    let api = server.api.clone();
    let folder = server.folder().to_owned();

    // Some final, some in the pool, most still waiting for a slot.
    let mut ids = Vec::new();
    for number in 0..COUNT {
        ids.push(api.submit(&marked(number)).await);
    }
    until("the windows are full", async || (chain.pooled().await == 8).then_some(())).await;
    chain.mine(3).await;
    api.until_state(&ids[0], "confirmed").await;
    until("the windows are full again", async || (chain.pooled().await == 8).then_some(())).await;

    let url = database.url();
    assert_failed(&run(migrate(&folder, &url)).await, "open in another Landfall");
    let journal = api.journal(&ids[0]).await;
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));

    // Killed while it copies.
    let mut look = migrate(&folder, &url);
    look.arg("--dry-run");
    let look = run(look).await;
    assert!(look.code == Some(0) && look.stdout.contains("journal"), "{}", look.said);
    let holder = stop_at_the_journal(&url).await;
    let mut first = migrate(&folder, &url);
    first.stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = tokio::process::Command::from(first).kill_on_drop(true).spawn().unwrap();
    until("it waits in the middle", async || {
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        let waiting: i64 = holder.query_one(waiting, &[]).await.unwrap().get(0);
        (waiting > 0).then_some(())
    })
    .await;
    first.kill().await.unwrap();
    // Its server process waits on; it notices that nobody is there when the lock is free.
    holder
        .batch_execute("SELECT pg_advisory_unlock(1); DROP TRIGGER hold ON landfall.journal")
        .await
        .unwrap();

    // Neither can be served.
    assert_failed(&server.run_to_end().await, "is being moved to postgres");
    let on_postgres = Settings { store_url: url.clone(), ..settings };
    let half = Server::prepare(&chain.url(), &on_postgres);
    assert_failed(&half.run_to_end().await, "is being filled from");

    let again = run(migrate(&folder, &url)).await;
    assert!(again.code == Some(0) && again.stdout.contains("moved to postgres"), "{}", again.said);
    assert!(!again.said.contains("landfall@"), "no password is shown: {}", again.said);
    let third = run(migrate(&folder, &url)).await;
    assert!(third.code == Some(0) && third.stdout.contains("nothing left to do"), "{}", third.said);
    assert_failed(&server.run_to_end().await, "was moved to postgres");

    let mut moved = Server::start(&chain.url(), on_postgres).await;
    let api = moved.api.clone();
    assert_eq!(api.journal(&ids[0]).await, journal, "the journal came along");
    let replay = api.post("/api/v1/tx", &marked(3)).await.expect(200);
    assert_eq!(replay["txId"], json!(ids[3]), "a retry finds what was moved");
    until_within(LIMIT, "every transaction ends", async || {
        chain.mine(1).await;
        let open = api.list("&state=accepted").await.len() + api.list("&state=signed").await.len();
        let out = api.list("&state=broadcast").await.len() + api.list("&state=mined").await.len();
        (open + out == 0).then_some(())
    })
    .await;
    for id in &ids {
        api.until_state(id, "confirmed").await;
    }
    let mut numbers: Vec<u64> = chain.landed().await.iter().filter_map(number_of).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..COUNT).collect::<Vec<_>>(), "each once");
    moved.terminate();
    assert_eq!(moved.ended().await.code(), Some(0));
}
