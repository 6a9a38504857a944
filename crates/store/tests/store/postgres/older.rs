//! Databases that were restored or moved: each is noticed once, stays noticed, and is used again when a person says so.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use landfall_core::Namespace;
use landfall_core::ports::store::{Acceptance, CommandKind, LaneRow, Leases as _, Log, Older, Reads};
use landfall_store::Postgres;
use landfall_store::postgres::Options;
use tokio_postgres::{Client, NoTls};

use super::PATIENCE;
use crate::fixtures::*;
use crate::world::Database;

/// Databases of a test's own, in the cluster of all.
struct Own {
    root: Client,
    url: String,
    name: String,
}

impl Own {
    async fn new() -> Self {
        let url = Database::new().url;
        let (root, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let name = format!("own_{:x}", RandomState::new().hash_one(0));
        root.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        Self { root, url, name }
    }

    fn url_of(&self, name: &str) -> String {
        let (server, _) = self.url.rsplit_once('/').unwrap();
        format!("{server}/{name}")
    }

    async fn open_in(&self, namespace: &str) -> Postgres {
        let namespace = Namespace(namespace.to_owned());
        Postgres::open(&self.url_of(&self.name), &namespace, &Options::default()).await.unwrap()
    }

    async fn open(&self) -> Postgres {
        self.open_in("default").await
    }

    async fn older(&self) -> Option<Older> {
        self.open().await.older().await.unwrap()
    }

    async fn raw(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url_of(&self.name), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("SET search_path = landfall").await.unwrap();
        client
    }

    /// Makes one database of another, once nobody is connected to that.
    async fn copy(&self, from: &str, to: &str) {
        let copied = async {
            while self.root.batch_execute(&format!("CREATE DATABASE {to} TEMPLATE {from}")).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, copied).await.expect("it is copied");
    }

    fn backup(&self) -> String {
        format!("{}_backup", self.name)
    }

    async fn back_up(&self) {
        self.copy(&self.name, &self.backup()).await;
    }

    /// Puts the backup where the database was.
    async fn put_back(&self) {
        self.root.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await.unwrap();
        self.copy(&self.backup(), &self.name).await;
    }

    async fn end(self) {
        for name in [self.backup(), self.name.clone()] {
            self.root.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.unwrap();
        }
    }
}

async fn accept(store: &Postgres, n: u64) -> bool {
    let word = command(lane(1), n, CommandKind::AcceptStore { seen: None });
    store.accept(vec![word]).await.unwrap() == Acceptance::Yes
}

#[tokio::test]
async fn a_database_that_stays_where_it_is_is_never_older() {
    let own = Own::new().await;
    for n in 1..=3 {
        let store = own.open().await;
        assert_eq!(store.older().await.unwrap(), None);
        admit_new(&store, request(lane(1), n)).await;
        assert_eq!(store.load_lane(lane(1)).await.unwrap().older, None);
        assert!(!accept(&store, 900).await, "there is nothing to accept");
        assert!(store.commands(lane(1), 10).await.unwrap().is_empty());
    }
    assert_eq!(own.open_in("another").await.older().await.unwrap(), None);
    // Nor is one of a version that did not store its place.
    let before = "ALTER TABLE command DROP COLUMN tx; DROP TABLE audit, audit_ends, place, older;
         UPDATE landfall_schema SET version = 8, runs_with = 7";
    own.raw().await.batch_execute(before).await.unwrap();
    assert_eq!(own.older().await, None);
    own.end().await;
}

#[tokio::test]
async fn a_backup_in_the_place_of_a_newer_database_is_older_until_it_is_accepted() {
    let own = Own::new().await;
    admit_new(&own.open().await, keyed(lane(1), 1, "key-1")).await;
    own.back_up().await;
    own.put_back().await;
    let elsewhere = Some(Older::Elsewhere);
    assert_eq!(own.older().await, elsewhere);
    // Every lane is told, also one that the copy has never heard of; it is noticed once, and stays so.
    let store = own.open().await;
    assert_eq!(store.load_lane(lane(1)).await.unwrap().older, elsewhere);
    assert_eq!(store.load_lane(lane(9)).await.unwrap().older, elsewhere);
    admit_new(&store, keyed(lane(1), 2, "key-2")).await;
    assert_eq!(own.older().await, elsewhere);

    assert!(accept(&store, 900).await);
    assert!(accept(&store, 900).await, "the same word, whose answer was lost");
    assert_eq!(store.commands(lane(1), 10).await.unwrap().len(), 1);
    // A lane that has not gone on by that word yet is older, however often it is loaded.
    let store = own.open().await;
    assert_eq!(store.older().await.unwrap(), None);
    assert_eq!(store.load_lane(lane(1)).await.unwrap().older, Some(Older::Accepted));
    // One that the store has never used is compared when it is first loaded, whoever accepted the store.
    assert_eq!(store.load_lane(lane(9)).await.unwrap().older, Some(Older::Accepted));
    let token = own_lane(&store).await;
    let mut done = turn(lane(1), token, 0);
    done.row.cursor = Some(landfall_core::Slot(0));
    done.commands_done = vec![store.commands(lane(1), 10).await.unwrap()[0].id];
    commit(&store, done).await.unwrap();
    assert_eq!(store.load_lane(lane(1)).await.unwrap().older, None);
    assert!(!accept(&store, 901).await, "once");
    store.close_session(session(1)).await.unwrap();
    assert_eq!(own.older().await, None);
    own.end().await;
}

async fn own_lane(store: &Postgres) -> landfall_core::Token {
    crate::fixtures::own(store, lane(1)).await
}

#[tokio::test]
async fn an_acceptance_that_no_lane_has_heard_of_is_not_valid_for_a_database_that_is_restored_later() {
    let own = Own::new().await;
    own.open().await.take_for_older().await.unwrap();
    assert!(accept(&own.open().await, 900).await);
    own.back_up().await;
    own.put_back().await;
    let store = own.open().await;
    assert_eq!(store.older().await.unwrap(), Some(Older::Elsewhere));
    assert!(store.commands(lane(1), 10).await.unwrap().is_empty());
    own.end().await;
}

#[tokio::test]
async fn every_namespace_of_the_database_accepts_for_itself() {
    let own = Own::new().await;
    drop(own.open_in("other").await);
    own.back_up().await;
    // This one is not in the copy: what it did is forgotten all the same.
    admit_new(&own.open().await, request(lane(1), 1)).await;
    own.put_back().await;
    let store = own.open().await;
    assert_eq!(store.older().await.unwrap(), Some(Older::Elsewhere));
    assert!(accept(&store, 900).await);
    assert_eq!(store.older().await.unwrap(), None);
    let third = own.open_in("third").await;
    assert_eq!(third.older().await.unwrap(), Some(Older::Elsewhere), "it may have been there as well");
    let other = own.open_in("other").await;
    for (store, n) in [(&other, 901), (&third, 902)] {
        assert!(accept(store, n).await);
        assert_eq!(store.older().await.unwrap(), None);
    }
    assert_eq!(own.open_in("fourth").await.older().await.unwrap(), None);
    own.end().await;
}

#[tokio::test]
async fn a_namespace_that_is_made_in_an_older_copy_is_as_old_as_the_strictest_there() {
    let database = Database::new();
    let (first, second) = (database.open_in("first").await, database.open_in("second").await);
    drop(database.open_in("first~7~1").await);
    first.take_for_older().await.unwrap();
    assert!(accept_all(&first).await);
    let third = database.open_in("third").await;
    assert_eq!(third.older().await.unwrap(), Some(Older::Said), "the second one still is");
    for store in [&second, &third] {
        assert!(accept_all(store).await);
    }
    let fourth = database.open_in("fourth").await;
    assert_eq!(fourth.older().await.unwrap(), None, "nobody accepts an archive");
    assert_eq!(fourth.load_lane(lane(9)).await.unwrap().older, Some(Older::Accepted));
}

/// Counts that the chain showed before count no more by a person's word, and by nothing else: bytes that a reorganisation took back may land.
#[tokio::test]
async fn taking_a_database_for_an_older_copy_forgets_what_the_chain_showed_before() {
    let own = Own::new().await;
    for name in ["default", "other"] {
        store_older_count(&own.open_in(name).await).await;
    }
    own.back_up().await;
    own.put_back().await;
    let store = own.open().await;
    assert_eq!(store.older().await.unwrap(), Some(Older::Elsewhere));
    assert_eq!(store.load_lane(lane(1)).await.unwrap().row, with_older_count());
    store.take_for_older().await.unwrap();
    for name in ["default", "other"] {
        let loaded = own.open_in(name).await.load_lane(lane(1)).await.unwrap();
        assert_eq!(loaded.row, LaneRow { older_count: None, ..with_older_count() });
    }
    own.end().await;
}

#[tokio::test]
async fn tables_that_were_dropped_and_made_again_are_older() {
    let own = Own::new().await;
    admit_new(&own.open().await, request(lane(1), 1)).await;
    let again = "ALTER TABLE lane RENAME TO was; CREATE TABLE lane (LIKE was INCLUDING ALL);
         INSERT INTO lane SELECT * FROM was";
    own.raw().await.batch_execute(again).await.unwrap();
    assert_eq!(own.older().await, Some(Older::Elsewhere));
    own.end().await;
}

/// Some providers keep the question for themselves.
#[tokio::test]
async fn a_user_that_may_not_ask_for_the_clusters_number_is_served_by_the_rest() {
    let own = Own::new().await;
    let raw = own.raw().await;
    let role = format!("{}_user", own.name);
    let may = async |may: bool| {
        let word = if may { "GRANT" } else { "REVOKE" };
        let preposition = if may { "TO" } else { "FROM" };
        let sql = format!("{word} EXECUTE ON FUNCTION pg_control_system() {preposition} PUBLIC");
        raw.batch_execute(&sql).await.unwrap();
    };
    raw.batch_execute(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'x'; CREATE SCHEMA landfall AUTHORIZATION {role}"
    ))
    .await
    .unwrap();
    let (_, place) = own.url.split_once('@').unwrap();
    let (server, _) = place.split_once('/').unwrap();
    let url = format!("postgres://{role}:x@{server}/{}", own.name);
    let open = async || Postgres::open(&url, &Namespace::default(), &Options::default()).await.unwrap();
    let cluster =
        async || -> Option<i64> { raw.query_one("SELECT cluster FROM place", &[]).await.unwrap().get(0) };
    may(false).await;
    assert_eq!(open().await.older().await.unwrap(), None);
    assert_eq!(cluster().await, None);
    may(true).await;
    assert_eq!(open().await.older().await.unwrap(), None);
    let learnt = cluster().await;
    assert!(learnt.is_some());
    may(false).await;
    assert_eq!(open().await.older().await.unwrap(), None);
    assert_eq!(cluster().await, learnt, "it is not forgotten");
    raw.batch_execute("UPDATE place SET cluster = 7").await.unwrap();
    assert_eq!(open().await.older().await.unwrap(), None);
    may(true).await;
    assert_eq!(open().await.older().await.unwrap(), Some(Older::Elsewhere), "a dump of another cluster");
    drop(raw);
    let root = tokio_postgres::connect(&own.url, NoTls).await.unwrap();
    tokio::spawn(root.1);
    own.end().await;
    root.0.batch_execute(&format!("DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_person_may_say_that_a_database_went_back_when_no_node_is_at_work() {
    let database = Database::new();
    let store = database.open().await;
    admit_new(&store, request(lane(1), 1)).await;
    store.open_session(session(2), "busy", LEASE).await.unwrap();
    let busy = keep_alive(database.open().await, 2);
    let refused = store.take_for_older().await.unwrap_err().to_string();
    assert!(refused.contains("busy is at work"), "{refused}");
    assert_eq!(store.older().await.unwrap(), None);
    busy.abort();
    store.close_session(session(2)).await.unwrap();
    // A restore by disk brings the sessions of dead nodes along.
    store.open_session(session(3), "dead", Duration::from_millis(300)).await.unwrap();
    store.take_for_older().await.unwrap();
    store.take_for_older().await.unwrap();
    let store = database.open().await;
    assert_eq!(store.older().await.unwrap(), Some(Older::Said));
    assert_eq!(store.load_lane(lane(1)).await.unwrap().older, Some(Older::Said));
    assert_eq!(database.open_in("other").await.older().await.unwrap(), Some(Older::Said), "see above");
    assert!(accept(&store, 900).await);
    // Said again before a lane has gone on.
    store.take_for_older().await.unwrap();
    assert!(store.commands(lane(1), 10).await.unwrap().is_empty());
    assert_eq!(store.older().await.unwrap(), Some(Older::Said));
}

#[tokio::test]
async fn a_person_says_that_a_database_went_back_for_every_namespace_of_it() {
    let database = Database::new();
    let (store, other) = (database.open().await, database.open_in("other").await);
    admit_new(&other, request(lane(1), 1)).await;
    other.open_session(session(2), "busy", LEASE).await.unwrap();
    let busy = keep_alive(database.open_in("other").await, 2);
    let refused = store.take_for_older().await.unwrap_err().to_string();
    assert!(refused.contains("busy is at work") && refused.contains("the namespace other"), "{refused}");
    assert_eq!(store.older().await.unwrap(), None);
    busy.abort();
    other.close_session(session(2)).await.unwrap();
    // One that died in the other namespace is waited for, and not for ever.
    other.open_session(session(3), "dead", Duration::from_millis(300)).await.unwrap();
    store.take_for_older().await.unwrap();
    for store in [&store, &other] {
        assert_eq!(store.older().await.unwrap(), Some(Older::Said));
        assert_eq!(store.load_lane(lane(1)).await.unwrap().older, Some(Older::Said));
    }
    // Said again, before a lane of the other namespace has gone on by a word that was given there.
    assert!(accept(&other, 900).await);
    store.take_for_older().await.unwrap();
    assert!(other.commands(lane(1), 10).await.unwrap().is_empty());
    assert_eq!(other.older().await.unwrap(), Some(Older::Said));
}

/// The acceptance is committed while the lane is loaded: between a look for its row and a look at why the store is older, if these are two.
#[tokio::test]
async fn a_lane_without_a_row_that_is_loaded_while_the_store_is_accepted_hears_of_the_acceptance() {
    let own = Own::new().await;
    own.open().await.take_for_older().await.unwrap();
    let store = own.open().await;
    let raw = own.raw().await;
    raw.batch_execute("BEGIN; LOCK TABLE older IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let loading = tokio::spawn(async move { store.load_lane(lane(9)).await.unwrap().older });
    let waits = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'older'::regclass)";
    let waiting = async {
        while !raw.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it looks whether the store is older");
    let (chain, signer) = (i64::try_from(lane(9).chain.0).unwrap(), lane(9).signer.0);
    let accepted = "WITH made AS (INSERT INTO lane (namespace, chain, signer)
             SELECT id, $1, $2 FROM namespace RETURNING id, namespace)
         INSERT INTO command (namespace, id, lane, at, kind)
         SELECT namespace, gen_random_uuid(), id, 0, '{\"type\":\"accept_store\"}' FROM made";
    raw.execute(accepted, &[&chain, &signer.as_slice()]).await.unwrap();
    raw.batch_execute("DELETE FROM older; COMMIT").await.unwrap();
    assert_eq!(loading.await.unwrap(), Some(Older::Accepted));
    own.end().await;
}

/// Its row is made and not committed when the store is accepted, and it would look whether the store is older right after.
#[tokio::test]
async fn a_lane_that_is_begun_while_the_store_is_accepted_is_waited_for() {
    let own = Own::new().await;
    own.open().await.take_for_older().await.unwrap();
    let store = own.open().await;
    let raw = own.raw().await;
    raw.batch_execute("BEGIN").await.unwrap();
    let (chain, signer) = (i64::try_from(lane(9).chain.0).unwrap(), lane(9).signer.0);
    let begin = "INSERT INTO lane (namespace, chain, signer) SELECT id, $1, $2 FROM namespace";
    raw.execute(begin, &[&chain, &signer.as_slice()]).await.unwrap();
    let accepting = tokio::spawn(async move {
        let word = command(lane(9), 900, CommandKind::AcceptStore { seen: None });
        let answer = store.accept(Vec::new()).await.unwrap();
        (answer, store.older().await.unwrap(), store.accept(vec![word]).await.unwrap())
    });
    let waits = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'lane'::regclass)";
    let waiting = async {
        while !raw.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) && !accepting.is_finished() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it waits for the lane");
    raw.batch_execute("COMMIT").await.unwrap();
    let (answer, older, again) = accepting.await.unwrap();
    assert_eq!(answer, Acceptance::Untold(lane(9)));
    assert_eq!(older, Some(Older::Said), "nothing was done");
    assert_eq!(again, Acceptance::Yes);
    own.end().await;
}
