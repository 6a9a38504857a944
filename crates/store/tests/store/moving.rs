//! A store is moved from a file to a database: whole, once, and through a kill at any step.

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use landfall_core::audit::{New, Noted, Verifier};
use landfall_core::ports::audit::{AuditLog as _, Page};
use landfall_core::ports::store::{Admission, Forget, Leases, Older, Reads, Store, Write};
use landfall_core::transaction::TxState;
use landfall_core::{JournalSeq, Millis, Namespace, QueueOrder, Slot, Token};
use landfall_store::moving::{self, Error, Outcome, Step};
use landfall_store::sqlite::{OpenError, Options};
use landfall_store::{Postgres, Sqlite, postgres};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::cases::{everything, fill};
use crate::fixtures::*;
use crate::postgres::PATIENCE;
use crate::world::Database;

const SPACES: [&str; 2] = ["default", "other"];

/// A file with two namespaces, transactions under way, ended ones and one whose history was removed.
struct Moving {
    runtime: Runtime,
    folder: TempDir,
    database: Database,
    before: Vec<String>,
}

impl Moving {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let mut moving = Self {
            runtime: runtime.unwrap(),
            folder: TempDir::new().unwrap(),
            database: Database::new(),
            before: Vec::new(),
        };
        for space in SPACES {
            let store = moving.file(space).unwrap();
            let text = moving.runtime.block_on(async {
                fill(&store).await;
                forget_one(&store).await;
                let entry = |n| New { at: Millis(n), text: format!(r#"{{"in":"{space}","n":{n}}}"#) };
                store.append_audit((1..=5).map(entry).collect()).await.unwrap();
                store.trim_audit(Millis(3), 10, Millis(9)).await.unwrap();
                everything(&store).await
            });
            moving.before.push(text);
        }
        moving
    }

    fn location(&self) -> String {
        format!("sqlite://{}", self.folder.path().join("landfall.db").display())
    }

    fn file(&self, space: &str) -> Result<Sqlite, OpenError> {
        Sqlite::open(&self.location(), &Namespace(space.to_owned()), &Options::default())
    }

    fn served(&self) -> Result<Postgres, postgres::OpenError> {
        let space = Namespace("default".to_owned());
        self.runtime.block_on(Postgres::open(&self.database.url, &space, &self.database.options))
    }

    /// Moves it; ends as by a kill when it has said so many things.
    fn migrate(&self, killed_after: Option<usize>) -> Result<Result<Outcome, Error>, ()> {
        let mut said = 0;
        let mut report = |_| {
            said += 1;
            assert!(killed_after != Some(said), "killed here");
        };
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
        let run = || {
            let (url, options) = (&self.database.url, &self.database.options);
            self.runtime.block_on(moving::migrate(&self.location(), url, options, random.into(), &mut report))
        };
        catch_unwind(AssertUnwindSafe(run)).map_err(drop)
    }

    fn assert_all_there(&self) {
        self.runtime.block_on(async {
            for (space, before) in SPACES.iter().zip(&self.before) {
                let store = self.database.open_in(space).await;
                assert_eq!(&everything(&store).await, before);
                let rows = store.audit_rows(Page::After(0), 10).await.unwrap();
                assert_eq!(rows.iter().take(4).map(|row| row.seq).collect::<Vec<_>>(), [3, 4, 5, 6]);
                assert!(rows[0].text.contains(space), "{rows:?}");
                store.append_audit(vec![New { at: Millis(10), text: "{}".to_owned() }]).await.unwrap();
                let ends = store.audit_ends().await.unwrap();
                let mut verifier = Verifier::new(ends.anchor, Noted::default(), None);
                let rows = store.audit_rows(Page::After(0), 10).await.unwrap();
                rows.iter().for_each(|row| verifier.take(row));
                assert_eq!(verifier.end(ends.head).findings, [], "the chain goes on");
            }
            let store = self.database.open().await;
            goes_on(&store).await;
        });
    }
}

async fn forget_one(store: &dyn Store) {
    admit_new(store, keyed(lane(2), 50, "old")).await;
    admit_new(store, keyed(lane(2), 51, "newer")).await;
    let token = own(store, lane(2)).await;
    let mut end = turn(lane(2), token, 0);
    end.txs.push(update(50, TxState::Failed, None));
    end.journal.push(failed_entry(50));
    // What is newest stays, so something newer is told of.
    end.journal.push(failed_entry(51));
    commit(store, end).await.unwrap();
    let step = Forget { before: Millis(5_000), after: QueueOrder(0), limit: 100 };
    write_one(store, Write::Forget(step)).await.unwrap();
    assert!(store.kept(tx_id(50)).await.unwrap().is_some());
    admit_new(store, called(lane(2), 52, call(Some("a"), 7))).await;
    admit_new(store, called(lane(2), 53, call(None, 8))).await;
    let mut bound = bind(lane(2), token, 1, 53, 0);
    bound.txs[0].status.state = TxState::Confirmed;
    bound.txs[0].status.hash = Some(hash(1));
    bound.txs[0].status.first_hash = Some(hash(2));
    bound.closed.push(Slot(0));
    bound.journal.push(failed_entry(51));
    commit(store, bound).await.unwrap();
    admit_new(store, request(lane(2), 54)).await;
    write_one(store, Write::Forget(step)).await.unwrap();
    assert!(store.kept(tx_id(53)).await.unwrap().is_some());
}

/// Numbers, tokens and keys go on above what was moved.
async fn goes_on(store: &dyn Store) {
    let last = store.journal_after(JournalSeq(0), 1_000).await.unwrap().last().unwrap().seq;
    let newest = store.tx(tx_id(51)).await.unwrap().unwrap().tx.order;
    let new = admit_new(store, keyed(lane(1), 90, "new")).await;
    assert!(new.order > newest);
    let told = store.journal(tx_id(90)).await.unwrap();
    assert!(told[0].seq > last);
    assert_eq!(own(store, lane(1)).await, Token(2), "tokens go on upward");
    admit_new(store, request(lane(9), 91)).await;
    let kept = admit(store, keyed(lane(2), 95, "old")).await;
    assert!(!matches!(kept, Admission::New(_)), "the key stays taken: {kept:?}");
    // So do the nonces that callers gave.
    let known = admit(store, retried(&called(lane(2), 52, call(Some("a"), 7)), 96)).await;
    assert!(matches!(&known, Admission::Replay(tx) if tx.id == tx_id(52)), "{known:?}");
    let kept = admit(store, retried(&called(lane(2), 53, call(None, 8)), 97)).await;
    assert!(matches!(&kept, Admission::Removed(kept) if kept.id == tx_id(53)), "{kept:?}");
    assert!(store.kept_by_first_hash(lane(2).chain, hash(2)).await.unwrap().is_some());
}

#[test]
fn a_moved_store_has_everything_and_goes_on_from_there() {
    let moving = Moving::new();
    let Outcome::Moved(rows) = moving.migrate(None).unwrap().unwrap() else { panic!("it was moved before") };
    for table in ["namespace", "lane", "tx", "kept", "attempt", "journal", "command", "chain"] {
        assert!(rows.iter().any(|(name, count)| *name == table && *count > 0), "{table}: {rows:?}");
    }
    moving.assert_all_there();
    let refused = moving.file("default").unwrap_err().to_string();
    assert!(refused.contains("was moved to postgres") && refused.contains("store.url"), "{refused}");
    assert!(matches!(moving.migrate(None).unwrap().unwrap(), Outcome::WasMoved { .. }));
    assert!(moving::abandon(&moving.location()).is_err(), "too late");
}

/// A lane that the copy had never used is compared when it is first used, also if that is after the move.
#[test]
fn that_a_store_was_accepted_as_an_older_copy_is_moved_with_it() {
    let moving = Moving::new();
    let accept = |space: &str| {
        let store = moving.file(space).unwrap();
        assert!(moving.runtime.block_on(accept_all(&store)));
    };
    let archive = "default~7~1";
    drop(moving.file(archive).unwrap());
    let store = moving.file("default").unwrap();
    moving.runtime.block_on(store.take_for_older()).unwrap();
    drop(store);
    accept("default");
    // The other namespace still waits for a person's word, which no other database would wait for.
    let refused = moving.migrate(None).unwrap().unwrap_err();
    assert!(matches!(refused, Error::File(OpenError::Older { .. })), "{refused}");
    assert!(refused.to_string().contains("namespace other"), "{refused}");
    accept("other");
    let Outcome::Moved(rows) = moving.migrate(None).unwrap().unwrap() else { panic!("it was moved before") };
    assert!(rows.contains(&("older", 3)), "{rows:?}");
    moving.runtime.block_on(async {
        for space in SPACES {
            let store = moving.database.open_in(space).await;
            assert_eq!(store.older().await.unwrap(), None);
            assert_eq!(store.load_lane(lane(9)).await.unwrap().older, Some(Older::Accepted));
        }
        // Nobody serves it, and it is as it was.
        assert_eq!(moving.database.open_in(archive).await.older().await.unwrap(), Some(Older::Said));
    });
}

#[test]
fn a_move_that_is_killed_at_any_step_goes_on_when_it_is_started_again() {
    // The next run may die early as well.
    let mut killed_after = 1;
    loop {
        let moving = Moving::new();
        let whole = moving.migrate(Some(killed_after)).is_ok();
        if whole {
            break;
        }
        // Never both, and never one that is not whole.
        let (file, database) = (moving.file("default"), moving.served());
        assert!(file.is_err() || database.is_err(), "served twice after {killed_after}");
        if let Ok(file) = &file {
            let text = moving.runtime.block_on(everything(file));
            assert_eq!(text, moving.before[0], "the file is as it was");
        }
        drop((file, database));
        if moving.migrate(Some(1 + killed_after % 3)).is_err() {
            moving.migrate(None).unwrap().unwrap();
        }
        moving.assert_all_there();
        assert!(matches!(moving.file("default"), Err(OpenError::Moved { .. })));
        killed_after += 2;
    }
    assert!(killed_after > 15, "a run says what it does at every step: {killed_after}");
}

#[test]
fn a_half_filled_database_is_not_served_and_a_move_can_be_given_up() {
    let moving = Moving::new();
    moving.migrate(Some(8)).unwrap_err();
    let refused = moving.served().unwrap_err().to_string();
    assert!(refused.contains("being filled") && refused.contains("landfall migrate"), "{refused}");
    let refused = moving.file("default").unwrap_err().to_string();
    assert!(refused.contains("is being moved to postgres") && refused.contains("--abandon"), "{refused}");
    moving::abandon(&moving.location()).unwrap();
    // The file goes on, so what was copied is old by now.
    let store = moving.file("default").unwrap();
    moving.runtime.block_on(admit_new(&store, request(lane(1), 70)));
    drop(store);
    assert!(moving.served().is_err(), "what was copied is not served");
    moving.migrate(None).unwrap().unwrap();
    let store = moving.served().unwrap();
    assert!(moving.runtime.block_on(store.tx(tx_id(70))).unwrap().is_some());
}

#[test]
fn a_store_is_moved_to_nothing_that_is_in_use() {
    let moving = Moving::new();
    // A server has the file.
    let serving = moving.file("default").unwrap();
    assert!(matches!(moving.migrate(None).unwrap(), Err(Error::File(OpenError::InUse { .. }))));
    drop(serving);
    // Servers wait on the empty database.
    let waiting = moving.served().unwrap();
    moving.runtime.block_on(async { waiting.open_session(session(7), "node", LEASE).await.unwrap() });
    let alive = {
        let _in = moving.runtime.enter();
        keep_alive(waiting.clone(), 7)
    };
    assert!(matches!(moving.migrate(None).unwrap(), Err(Error::Served { .. })));
    alive.abort();
    moving.runtime.block_on(async { waiting.close_session(session(7)).await.unwrap() });
    // One that died is waited for, and then in nobody's way.
    let short = std::time::Duration::from_millis(300);
    moving.runtime.block_on(async { waiting.open_session(session(8), "dead", short).await.unwrap() });
    // One that opened it before a move began cannot begin its work.
    moving.migrate(Some(5)).unwrap_err();
    moving.runtime.block_on(async { waiting.open_session(session(7), "node", LEASE).await.unwrap_err() });
    // Another file does not get in between, once this one is there.
    moving.migrate(None).unwrap().unwrap();
    let mut other = Moving::new();
    other.database.url.clone_from(&moving.database.url);
    other.database.options.schema.clone_from(&moving.database.options.schema);
    assert!(matches!(other.migrate(None).unwrap(), Err(Error::NotEmpty { .. })));
    // Nor into a database that has forgotten what it did.
    let other = Moving::new();
    let restored = other.served().unwrap();
    other.runtime.block_on(restored.take_for_older()).unwrap();
    drop(restored);
    assert!(matches!(other.migrate(None).unwrap(), Err(Error::Older { .. })));
    // And a file finds its own database only.
    let elsewhere = Database::new();
    let options = elsewhere.options.clone();
    let moved = moving.runtime.block_on(moving::migrate(
        &moving.location(),
        &elsewhere.url,
        &options,
        3,
        &mut |_| {},
    ));
    assert!(matches!(moved, Err(Error::Elsewhere { .. })), "{moved:?}");
}

/// Nobody has served it before it is copied: that it is in its place was stored by the move itself.
#[test]
fn a_database_that_was_copied_right_after_the_move_is_older_when_it_is_put_back() {
    let mut moving = Moving::new();
    let root = moving.database.url.clone();
    let name = format!("moved_{:x}", RandomState::new().hash_one(0));
    let (server, _) = root.rsplit_once('/').unwrap();
    (moving.database.url, moving.database.options) =
        (format!("{server}/{name}"), postgres::Options::default());
    let ask = |sql: &str| {
        moving.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&root, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let asked = async {
                while client.batch_execute(sql).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("never done: {sql}"));
        });
    };
    ask(&format!("CREATE DATABASE {name}"));
    moving.migrate(None).unwrap().unwrap();
    ask(&format!("CREATE DATABASE {name}_backup TEMPLATE {name}"));
    drop(moving.served().unwrap());
    ask(&format!("DROP DATABASE {name} WITH (FORCE)"));
    ask(&format!("CREATE DATABASE {name} TEMPLATE {name}_backup"));
    let served = moving.served().unwrap();
    assert_eq!(moving.runtime.block_on(served.older()).unwrap(), Some(Older::Elsewhere));
    drop(served);
    for gone in [format!("{name}_backup"), name.clone()] {
        ask(&format!("DROP DATABASE {gone} WITH (FORCE)"));
    }
}

#[test]
fn what_was_changed_on_the_way_is_noticed() {
    let moving = Moving::new();
    let schema = moving.database.options.schema.clone();
    let mut report = |at: moving::Progress| {
        if at.step == Step::Verifying && at.table == "namespace" {
            // Somebody writes into the database between copying and comparing.
            let (url, schema) = (moving.database.url.clone(), schema.clone());
            std::thread::spawn(move || {
                tokio::runtime::Runtime::new().unwrap().block_on(async {
                    let (client, connection) =
                        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
                    tokio::spawn(connection);
                    let sql = format!("UPDATE {schema}.attempt SET raw = '\\x00' WHERE slot = 0");
                    client.batch_execute(&sql).await.unwrap();
                });
            })
            .join()
            .unwrap();
        }
    };
    let (url, options) = (&moving.database.url, &moving.database.options);
    let file = moving.location();
    let moved = moving.runtime.block_on(moving::migrate(&file, url, options, 7, &mut report));
    assert!(matches!(moved, Err(Error::Differs { table: "attempt", .. })), "{moved:?}");
    assert!(moving.served().is_err());
    drop(moving.file("default").unwrap());
    moving.migrate(None).unwrap().unwrap();
    moving.assert_all_there();
}
