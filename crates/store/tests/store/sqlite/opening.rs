//! Every way in which a file cannot be opened says what happened, what it means and what to do, and changes nothing.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use landfall_core::Namespace;
use landfall_core::ports::store::{self, Acquired, Leases, Reads};
use landfall_store::Sqlite;
use landfall_store::sqlite::{OpenError, Options};
use tempfile::TempDir;

use super::open;
use crate::cases::everything;
use crate::fixtures::*;

/// A database with something in it, closed.
async fn filled(file: &Path) -> String {
    let store = open(file).unwrap();
    admit_new(&store, keyed(lane(1), 1, "a")).await;
    let token = own(&store, lane(1)).await;
    commit(&store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    everything(&store).await
}

fn refused(file: &Path) -> OpenError {
    open(file).unwrap_err()
}

fn folder() -> TempDir {
    TempDir::new().unwrap()
}

/// Sets a value in the file as another program would.
fn set(file: &Path, sql: &str) {
    let db = rusqlite::Connection::open(file).unwrap();
    db.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_file_opened_twice_in_one_process_is_refused_by_name() {
    let folder = folder();
    let file = folder.path().join("a.db");
    let first = open(&file).unwrap();
    let error = refused(&file);
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("a.db"), "{error}");
    let unusable = store::Error::from(error);
    assert!(matches!(unusable, store::Error::Unusable(text) if text.contains("Stop the other one")));
    admit_new(&first, request(lane(1), 1)).await;
    drop(first);
    assert!(open(&file).unwrap().tx(tx_id(1)).await.unwrap().is_some());
}

/// Callers' nonces as a program left them that stored them with the request alone.
#[tokio::test]
async fn callers_nonces_of_an_earlier_version_are_known_after_the_upgrade() {
    let folder = folder();
    let file = folder.path().join("a.db");
    let store = open(&file).unwrap();
    crate::cases::call_before_the_upgrade(&store).await;
    drop(store);
    set(
        &file,
        "DROP INDEX command_tx; DROP INDEX command_age; ALTER TABLE command DROP COLUMN tx;
         DROP TABLE audit; DROP TABLE audit_ends; DROP TABLE mark; DROP TABLE older;
         DROP INDEX tx_call; ALTER TABLE tx DROP COLUMN api_key; ALTER TABLE tx DROP COLUMN caller_nonce;
         DROP INDEX kept_call; DROP INDEX kept_first_hash; ALTER TABLE kept DROP COLUMN lane;
         ALTER TABLE kept DROP COLUMN api_key; ALTER TABLE kept DROP COLUMN caller_nonce;
         ALTER TABLE kept DROP COLUMN first_hash;
         UPDATE tx SET request = replace(request, '\"nonce\":6', '\"nonce\":5'); PRAGMA user_version = 8",
    );
    crate::cases::call_after_the_upgrade(&open(&file).unwrap()).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_second_name_of_the_same_file_meets_the_same_lock() {
    let folder = folder();
    let file = folder.path().join("a.db");
    let other = folder.path().join("b.db");
    let first = open(&file).unwrap();
    std::os::unix::fs::symlink(&file, &other).unwrap();
    assert!(matches!(refused(&other), OpenError::InUse { .. }));
    drop(first);
    open(&other).unwrap();
}

/// Not a test of its own: what the next test runs in another process.
#[test]
fn holds_a_database_open_when_asked_to() {
    let Ok(file) = std::env::var("LANDFALL_STORE_TEST_HOLD") else { return };
    let store = open(Path::new(&file)).unwrap();
    println!("\nopen");
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    drop(store);
}

#[tokio::test]
async fn a_file_open_in_another_process_is_refused_until_that_is_killed() {
    let folder = folder();
    let file = folder.path().join("a.db");
    let before = filled(&file).await;
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::opening::holds_a_database_open_when_asked_to", "--nocapture"])
        .env("LANDFALL_STORE_TEST_HOLD", &file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line == "open"), "the other process opens it");
    assert!(matches!(refused(&file), OpenError::InUse { .. }));
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(everything(&open(&file).unwrap()).await, before);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_as_it_is() {
    let folder = folder();
    let file = folder.path().join("a.db");
    let before = filled(&file).await;
    set(&file, "PRAGMA user_version = 99");
    let error = refused(&file);
    let OpenError::NewerSchema { found: 99, known, .. } = error else { panic!("{error}") };
    set(&file, &format!("PRAGMA user_version = {known}"));
    assert_eq!(everything(&open(&file).unwrap()).await, before);
}

// covers: A20
#[tokio::test]
async fn a_file_of_the_first_version_is_upgraded_with_everything_that_is_under_way() {
    let folder = folder();
    let file = folder.path().join("a.db");
    filled(&file).await;
    let store = open(&file).unwrap();
    let token = own(&store, lane(1)).await;
    admit_new(&store, keyed(lane(1), 2, "b")).await;
    let mut reserved = turn(lane(1), token, 1);
    reserved.row.cursor = Some(landfall_core::Slot(3));
    reserved.row.returned = [landfall_core::Slot(1)].into();
    reserved.txs.push(update(2, landfall_core::transaction::TxState::Accepted, Some(2)));
    commit(&store, reserved).await.unwrap();
    admit_new(&store, keyed(lane(1), 3, "c")).await;
    let mut more = turn(lane(1), token, 2);
    more.row = store.load_lane(lane(1)).await.unwrap().row;
    let mut far = attempt(7, 0, None);
    far.slot = landfall_core::Slot(u64::MAX);
    more.attempts = vec![attempt(1, 5, None), attempt(2, 5, None), far];
    commit(&store, more).await.unwrap();
    let mut before = store.load_lane(lane(1)).await.unwrap();
    drop(store);
    // As the first version left it, with one slot closed as it did that.
    set(
        &file,
        "DROP INDEX command_tx; DROP INDEX command_age; ALTER TABLE command DROP COLUMN tx;
         DROP TABLE audit; DROP TABLE audit_ends; DROP TABLE mark; DROP TABLE older; DROP TABLE kept; DROP TABLE moved; DROP TABLE record;
         DROP INDEX tx_call; ALTER TABLE tx DROP COLUMN api_key; ALTER TABLE tx DROP COLUMN caller_nonce;
         DROP INDEX attempt_apart; ALTER TABLE attempt DROP COLUMN apart; ALTER TABLE lane DROP COLUMN closed;
         CREATE INDEX attempt_open ON attempt (lane) WHERE open = 1;
         UPDATE attempt SET open = 0 WHERE slot = 1; PRAGMA user_version = 1",
    );
    before.attempts.retain(|attempt| attempt.slot.0 != 1);
    assert_eq!(before.attempts.len(), 3);

    let store = open(&file).unwrap();
    let after = store.load_lane(lane(1)).await.unwrap();
    assert_eq!(after.row, before.row, "the next slot and the returned one");
    assert_eq!(
        (after.bound, after.attempts),
        (before.bound, before.attempts),
        "bytes, and a slot without any"
    );
    assert_eq!(ids(&store.waiting(lane(1), 10).await.unwrap()), [tx_id(3)]);
    let again = retried(&keyed(lane(1), 1, "a"), 9);
    let replay = admit(&store, again).await;
    assert!(matches!(replay, store::Admission::Replay(tx) if tx.id == tx_id(1)));
    // Its owner goes on where the old one stopped.
    let token = own(&store, lane(1)).await;
    assert!(token > before.token);
    let mut next = bind(lane(1), token, before.version.0, 3, 3);
    next.attempts.push(attempt(2, 6, None));
    commit(&store, next).await.unwrap();
    let mut close = turn(lane(1), token, before.version.0 + 1);
    close.closed = vec![landfall_core::Slot(2), landfall_core::Slot(u64::MAX)];
    commit(&store, close).await.unwrap();
    let open: Vec<u64> =
        store.load_lane(lane(1)).await.unwrap().attempts.iter().map(|attempt| attempt.slot.0).collect();
    assert_eq!(open, [0, 3]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_lock_file_that_somebody_removed_lets_nobody_else_in() {
    let folder = folder();
    let file = folder.path().join("a.db");
    let first = open(&file).unwrap();
    fs::remove_file(folder.path().join("a.db.lock")).unwrap();
    let error = refused(&file);
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    admit_new(&first, request(lane(1), 1)).await;
    drop(first);
    assert!(open(&file).unwrap().tx(tx_id(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_few_bytes_of_something_else_are_refused_and_left_as_they_are() {
    let folder = folder();
    for junk in [&b"x"[..], b"hello", &[0; 100], &[b'S'; 511]] {
        let file = folder.path().join(format!("{}.db", junk.len()));
        fs::write(&file, junk).unwrap();
        let error = refused(&file);
        assert!(matches!(error, OpenError::NotOurs { .. }), "{error}");
        assert!(error.to_string().contains("not an SQLite file"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), junk);
    }
    let empty = folder.path().join("empty.db");
    fs::write(&empty, b"").unwrap();
    open(&empty).expect("an empty file is nobody's");
}

#[tokio::test]
async fn a_file_of_another_kind_is_refused_and_left_as_it_is() {
    let folder = folder();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "not a database at all, but quite long enough to be taken for one. ".repeat(40))
        .unwrap();
    let before = fs::read(&text).unwrap();
    let error = refused(&text);
    assert!(matches!(error, OpenError::NotOurs { .. }), "{error}");
    assert_eq!(fs::read(&text).unwrap(), before);

    let foreign = folder.path().join("other.db");
    set(&foreign, "CREATE TABLE things (x)");
    let before = fs::read(&foreign).unwrap();
    let error = refused(&foreign);
    assert!(matches!(error, OpenError::NotOurs { .. }), "{error}");
    assert_eq!(fs::read(&foreign).unwrap(), before);

    assert!(matches!(refused(folder.path()), OpenError::NotOurs { .. }), "nor a folder");
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_left_as_it_is() {
    let folder = folder();
    let file = folder.path().join("a.db");
    filled(&file).await;
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    for page in damaged.chunks_mut(4_096).skip(2) {
        page[..64].fill(0xee);
    }
    fs::write(&file, &damaged).unwrap();
    let error = refused(&file);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("restore a backup"));
    assert_eq!(fs::read(&file).unwrap(), damaged);
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(refused(&file), OpenError::Damaged { .. }), "nor one that was cut off");
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let folder = folder();
    let error = refused(&folder.path().join("missing").join("a.db"));
    assert!(matches!(error, OpenError::NoFolder { .. }), "{error}");
    assert!(error.to_string().contains("missing"), "{error}");
}

/// Whether the system keeps this process from writing what is write-protected. It does not for root.
fn protection_counts(folder: &Path) -> bool {
    fs::File::create(folder.join("probe")).is_err()
}

fn protect(path: &Path, protected: bool) {
    let mut permissions = fs::metadata(path).unwrap().permissions();
    permissions.set_readonly(protected);
    fs::set_permissions(path, permissions).unwrap();
}

#[tokio::test]
async fn a_write_protected_folder_or_file_is_refused_and_loses_nothing() {
    let folder = folder();
    let file = folder.path().join("a.db");
    let before = filled(&file).await;
    protect(folder.path(), true);
    let counts = protection_counts(folder.path());
    let fresh = open(&folder.path().join("b.db"));
    protect(folder.path(), false);
    // Root writes through protection, and then there is nothing to refuse.
    assert_eq!(matches!(fresh, Err(OpenError::ReadOnly { .. })), counts);
    protect(&file, true);
    let protected = open(&file);
    assert_eq!(matches!(protected, Err(OpenError::ReadOnly { .. })), counts);
    drop(protected);
    protect(&file, false);
    assert_eq!(everything(&open(&file).unwrap()).await, before);
}

#[tokio::test]
async fn a_removed_file_is_not_writable() {
    let folder = folder();
    let file = folder.path().join("a.db");
    let store = open(&file).unwrap();
    store.writable().await.unwrap();
    fs::remove_file(&file).unwrap();
    let error = store.writable().await.unwrap_err();
    assert!(matches!(&error, store::Error::Unusable(text) if text.contains("was removed")), "{error}");
}

#[tokio::test]
async fn a_url_and_a_path_name_the_same_file() {
    let folder = folder();
    let file = folder.path().join("a.db");
    let before = filled(&file).await;
    let url = format!("sqlite://{}", file.display());
    let store = Sqlite::open(&url, &Namespace::default(), &Options::default()).unwrap();
    assert_eq!(everything(&store).await, before);
}

#[tokio::test]
async fn sessions_of_a_process_that_crashed_hold_nothing() {
    let folder = folder();
    let file = folder.path().join("a.db");
    filled(&file).await;
    let store = open(&file).unwrap();
    assert!(!store.renew_session(session(1), LEASE).await.unwrap());
    assert_eq!(store.lane(lane(1)).await.unwrap().unwrap().owner, None);
    store.open_session(session(2), "node-1", LEASE).await.unwrap();
    assert_eq!(acquire(&store, lane(1), 2).await.0, 2);
}

#[tokio::test]
async fn a_session_does_not_end_by_time_while_the_file_is_open() {
    let folder = folder();
    let store = open(&folder.path().join("a.db")).unwrap();
    store.open_session(session(1), "node-1", Duration::ZERO).await.unwrap();
    store.open_session(session(2), "node-2", LEASE).await.unwrap();
    acquire(&store, lane(1), 1).await;
    assert!(matches!(store.acquire(lane(1), session(2)).await.unwrap(), Acquired::HeldBy { .. }));
    assert!(store.renew_session(session(1), Duration::ZERO).await.unwrap());
}

#[tokio::test]
async fn a_closed_store_leaves_no_log_beside_the_file() {
    let folder = folder();
    let file = folder.path().join("a.db");
    filled(&file).await;
    let log = fs::metadata(folder.path().join("a.db-wal")).map_or(0, |data| data.len());
    assert_eq!(log, 0);
}
