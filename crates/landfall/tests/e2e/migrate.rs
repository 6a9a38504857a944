//! A store is moved from SQLite to PostgreSQL with everything in it that can be under way, killed at every stage.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use landfall_pgtest::Cluster;
use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};

use crate::support::{
    Api, CHAIN_ID, Chain, LIMIT, Output, RECEIVER, Server, Settings, marker, number_of, pass, program, run,
    signer, submission, until, until_within,
};

/// Transactions of the lanes that work; those of the lanes that are paused come after them.
const COUNT: u64 = 24;
const PAUSED: usize = 2;
const TO_RESUME: usize = 3;

fn marked(number: u64, by: usize) -> Value {
    let mut body = submission(json!({ "to": RECEIVER, "value": "0", "data": marker(number), "gas": 30_000 }));
    body["signer"] = json!(signer(by));
    body["requestId"] = json!(format!("key-{number}"));
    body
}

fn working(number: u64) -> Value {
    marked(number, usize::try_from(number % 2).unwrap())
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

async fn steer(api: &Api, by: usize, verb: &str) {
    api.command(&format!("/api/v1/lanes/{CHAIN_ID}/{}/{verb}", signer(by))).await.expect(202);
    until(format!("{verb} is done"), async || {
        (api.lane(&signer(by)).await["paused"] == (verb == "pause")).then_some(())
    })
    .await;
}

/// A transaction whose history was removed: its id, key and end stay.
async fn one_of_long_ago(server: &mut Server, chain: &Chain) -> Value {
    let old = server.api.submit(&marked(1_000, 0)).await;
    let young = server.api.submit(&marked(1_001, 0)).await;
    chain.until_pooled(2).await;
    chain.mine(2).await;
    for id in [&old, &young] {
        server.api.until_state(id, "confirmed").await;
    }
    chain.mine(200).await;
    until("its history is removed", async || {
        pass(Duration::from_secs(2)).await;
        // A clock is believed as far as the newest block goes.
        chain.mine(1).await;
        server.restart_after_kill().await;
        let tx = server.api.tx(&old).await;
        (tx["removed"] == true).then_some(tx)
    })
    .await
}

/// Leaves a command that was taken and that no owner applied yet: what the server has between those two.
fn leave_resume_undone(folder: &Path) {
    let db = rusqlite::Connection::open(folder.join("landfall.db")).unwrap();
    let left = db
        .execute(
            "INSERT INTO command (namespace, id, lane, at, kind)
             SELECT namespace, randomblob(16), lane, at, kind FROM command WHERE kind LIKE '%esume%'",
            [],
        )
        .unwrap();
    assert_eq!(left, 1);
}

/// The database, and a way to stop a move in the middle of it.
struct Gate {
    client: Client,
}

impl Gate {
    async fn before(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
            .batch_execute(
                "CREATE FUNCTION landfall.hold() RETURNS trigger LANGUAGE plpgsql AS
                     $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;",
            )
            .await
            .unwrap();
        Self { client }
    }

    /// Starts a move and kills it when it comes to `event`. What it had sent by then and was not committed is gone.
    async fn kill_at(&self, event: &str, mut migrate: Command) {
        let table = event.split_whitespace().nth(2).unwrap();
        let hold = format!(
            "SELECT pg_advisory_lock(1);
             CREATE TRIGGER hold BEFORE {event} EXECUTE FUNCTION landfall.hold()"
        );
        self.client.batch_execute(&hold).await.unwrap();
        migrate.stdout(Stdio::null()).stderr(Stdio::null());
        let mut move_ = tokio::process::Command::from(migrate).kill_on_drop(true).spawn().unwrap();
        until(format!("it comes to {event}"), async || {
            assert!(move_.try_wait().unwrap().is_none(), "it ended without {event}");
            let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
            let waiting: i64 = self.client.query_one(waiting, &[]).await.unwrap().get(0);
            (waiting > 0).then_some(())
        })
        .await;
        move_.kill().await.unwrap();
        // Its server process has not noticed, and would go on.
        let end =
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        self.client.batch_execute(end).await.unwrap();
        let open = format!("SELECT pg_advisory_unlock(1); DROP TRIGGER hold ON {table}");
        self.client.batch_execute(&open).await.unwrap();
    }
}

#[tokio::test]
async fn a_store_with_everything_under_way_is_moved_through_kills_and_each_transaction_lands_once() {
    let database = Cluster::start(landfall_pgtest::Settings::default()).unwrap();
    let url = database.url();
    let chain = Chain::without_mining().await;
    let settings = Settings { signers: 4, max_in_flight: 4, lease: (4.0, 1.0, 1.0), ..Settings::default() };
    let forgetful = Settings { store: "keep_finished_days = 0.00002", ..settings.clone() };
    let mut server = Server::start(&chain.url(), forgetful).await;
    let removed = one_of_long_ago(&mut server, &chain).await;
    server.restart_with(4, &chain.url(), &settings).await;
    let api = server.api.clone();
    let folder = server.folder().to_owned();

    // Two lanes wait: one is paused, and so is the other, whose operator has just resumed it.
    let mut ids = Vec::new();
    steer(&api, PAUSED, "pause").await;
    for verb in ["pause", "resume", "pause"] {
        steer(&api, TO_RESUME, verb).await;
    }
    // Of the others some are final, some in the pool, most still wait for a slot.
    for number in 0..COUNT {
        ids.push(api.submit(&working(number)).await);
    }
    for (number, by) in [(COUNT, PAUSED), (COUNT + 1, TO_RESUME)] {
        ids.push(api.submit(&marked(number, by)).await);
    }
    chain.until_pooled(8).await;
    chain.mine(3).await;
    api.until_state(&ids[0], "confirmed").await;
    chain.until_pooled(8).await;

    assert_failed(&run(migrate(&folder, &url)).await, "open in another Landfall");
    let journal = api.journal(&ids[0]).await;
    let landed = api.tx(&ids[0]).await;
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(0));
    leave_resume_undone(&folder);
    let mut look = migrate(&folder, &url);
    look.arg("--dry-run");
    let look = run(look).await;
    assert!(look.code == Some(0) && look.stdout.contains("journal"), "{}", look.said);

    // Killed again and again, each time a little further.
    let on_postgres = Settings { store_url: url.clone(), ..settings };
    let half = Server::prepare(&chain.url(), &on_postgres);
    let gate = Gate::before(&url).await;
    for event in ["lane", "tx", "attempt", "journal", "command"] {
        let event = format!("INSERT ON landfall.{event} FOR EACH ROW");
        gate.kill_at(&event, migrate(&folder, &url)).await;
    }
    assert_failed(&server.run_to_end().await, "is being moved to postgres");
    assert_failed(&half.run_to_end().await, "is being filled from");
    // Everything is there and compared, and that is not said yet; then, the file is given up already.
    for state in [1, 2] {
        let event = format!("UPDATE ON landfall.moved_in FOR EACH ROW WHEN (NEW.state = {state})");
        gate.kill_at(&event, migrate(&folder, &url)).await;
    }
    assert_failed(&server.run_to_end().await, "was moved to postgres");
    assert_failed(&half.run_to_end().await, "is being filled from");

    let again = run(migrate(&folder, &url)).await;
    assert!(again.code == Some(0) && again.stdout.contains("moved to postgres"), "{}", again.said);
    assert!(!again.said.contains("landfall@"), "no password is shown: {}", again.said);
    let third = run(migrate(&folder, &url)).await;
    assert!(third.code == Some(0) && third.stdout.contains("nothing left to do"), "{}", third.said);
    assert_failed(&server.run_to_end().await, "was moved to postgres");

    // Nothing was mined meanwhile, so all of it is left to the server on the new database.
    let mut moved = Server::start(&chain.url(), on_postgres).await;
    let api = moved.api.clone();
    assert_eq!(api.journal(&ids[0]).await, journal, "the journal came along");
    assert_eq!(api.tx(&ids[0]).await["attempts"], landed["attempts"]);
    for (number, id) in (0..COUNT).zip(&ids) {
        let replay = api.post("/api/v1/tx", &working(number)).await.expect(200);
        assert_eq!(replay["txId"], json!(id), "a retry finds what was moved");
    }
    let late = api.post("/api/v1/tx", &marked(1_000, 0)).await.expect(200);
    assert_eq!((&late["txId"], &late["removed"]), (&removed["txId"], &json!(true)));
    until_within(LIMIT, "every transaction of a lane that works ends", async || {
        chain.mine(1).await;
        let mut open = 0;
        for state in ["accepted", "signed", "broadcast", "mined"] {
            open += api.list(&format!("&state={state}")).await.len();
        }
        (open == 1).then_some(())
    })
    .await;
    assert_eq!(api.lane(&signer(PAUSED)).await["paused"], true);
    let waiting = ids.len() - 2;
    assert_eq!(api.tx(&ids[waiting]).await["state"], "accepted", "its lane is paused still");
    steer(&api, PAUSED, "resume").await;
    chain.until_pooled(1).await;
    chain.mine(3).await;
    for id in &ids {
        api.until_state(id, "confirmed").await;
    }
    let mut numbers: Vec<u64> = chain.landed().await.iter().filter_map(number_of).collect();
    numbers.sort_unstable();
    let all: Vec<u64> = (0..COUNT + 2).chain([1_000, 1_001]).collect();
    assert_eq!(numbers, all, "each once");
    moved.terminate();
    assert_eq!(moved.ended().await.code(), Some(0));
}
