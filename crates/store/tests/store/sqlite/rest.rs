//! A store at rest: everything is in the one file, so that a plain copy of it is whole.

use std::fs;
use std::path::Path;
use std::time::Duration;

use landfall_core::ports::store::{Log, Older, Reads, Write};
use landfall_store::sqlite::{BackupError, OpenError, backup};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::open;
use crate::cases::everything;
use crate::fixtures::*;

/// How long a store may take to come to rest.
const LIMIT: Duration = Duration::from_secs(20);

/// Waits until the log beside the file is empty.
async fn rested(file: &Path) {
    let log = file.with_extension("db-wal");
    let begun = Instant::now();
    while fs::metadata(&log).is_ok_and(|data| data.len() > 0) {
        assert!(begun.elapsed() < LIMIT, "the log is still beside the file");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_plain_copy_of_a_store_at_rest_is_whole() {
    let folder = TempDir::new().unwrap();
    let (file, copy) = (folder.path().join("a.db"), folder.path().join("copy.db"));
    let store = open(&file).unwrap();
    let token = own(&store, lane(1)).await;
    for n in 0..50 {
        admit_new(&store, keyed(lane(1), n + 1, &format!("key-{n}"))).await;
        commit(&store, bind(lane(1), token, n, n + 1, n)).await.unwrap();
    }
    rested(&file).await;
    fs::copy(&file, &copy).unwrap();
    // With its mark it is not taken for an older copy.
    fs::copy(file.with_extension("db.mark"), copy.with_extension("db.mark")).unwrap();
    let copied = open(&copy).unwrap();
    assert_eq!(copied.older().await.unwrap(), None);
    assert_eq!(everything(&copied).await, everything(&store).await);
    drop(copied);

    // It comes to rest again after more of it, also while somebody asks all the time whether it is writable.
    admit_new(&store, keyed(lane(1), 100, "late")).await;
    let asking = async {
        loop {
            store.writable().await.unwrap();
            sleep(Duration::from_millis(100)).await;
        }
    };
    let copied = async {
        let begun = Instant::now();
        loop {
            fs::copy(&file, &copy).unwrap();
            if open(&copy).unwrap().tx(tx_id(100)).await.unwrap().is_some() {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "the copy still lacks it");
            sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        () = copied => {}
        () = asking => {}
    }
}

#[tokio::test]
async fn a_backup_of_a_store_in_use_is_the_store_as_it_was_at_one_moment() {
    let folder = TempDir::new().unwrap();
    let (file, copy) = (folder.path().join("a.db"), folder.path().join("copy.db"));
    let store = open(&file).unwrap();
    let token = own(&store, lane(1)).await;
    // Every commit admits one transaction and binds the one before it.
    let writing = async {
        for n in 1.. {
            let mut group = vec![Write::Admit(Box::new(request(lane(1), n)))];
            if n > 1 {
                group.push(Write::Lane(Box::new(bind(lane(1), token, n - 2, n - 1, n - 1))));
            }
            assert!(store.write(group).await.iter().all(Result::is_ok));
        }
    };
    let backups = async {
        for round in 0..5 {
            while store.lane(lane(1)).await.unwrap().is_none_or(|lane| lane.version.0 <= round * 20) {
                sleep(Duration::from_millis(1)).await;
            }
            let (from, to) = (file.to_str().unwrap().to_owned(), copy.clone());
            let made = tokio::task::spawn_blocking(move || backup(&from, &to, true)).await.unwrap().unwrap();
            let copied = open(&copy).unwrap();
            let loaded = copied.load_lane(lane(1)).await.unwrap();
            assert_eq!(loaded.older, Some(Older::NoMark), "it is not to be served without a person's word");
            let bound = loaded.bound.len() as u64;
            assert!(bound >= round * 20, "what was committed before is in it");
            assert_eq!((made.transactions, made.unfinished), (bound + 1, bound + 1));
            assert_eq!(made.journal.0 as u64, 2 * bound + 1);
            assert_eq!(loaded.attempts.len() as u64, bound);
            // The next one is to find nothing beside its name.
            drop(copied);
            fs::remove_file(copy.with_extension("db.lock")).unwrap();
        }
    };
    tokio::select! {
        () = writing => {}
        () = backups => {}
    }
}

#[tokio::test]
async fn a_backup_replaces_nothing_that_it_was_not_told_to() {
    let folder = TempDir::new().unwrap();
    let (file, copy) = (folder.path().join("a.db"), folder.path().join("copy.db"));
    let from = file.to_str().unwrap().to_owned();
    let missing = backup(&from, &copy, false).unwrap_err();
    assert!(matches!(missing, BackupError::Store(OpenError::Missing { .. })), "{missing}");
    let store = open(&file).unwrap();
    admit_new(&store, request(lane(1), 1)).await;
    fs::write(&copy, "mine").unwrap();
    assert!(matches!(backup(&from, &copy, false), Err(BackupError::Exists(_))));
    assert_eq!(fs::read(&copy).unwrap(), b"mine");
    assert!(matches!(backup(&from, &file, true), Err(BackupError::Itself(_))));
    for ending in ["-wal", "-shm", "-journal", ".lock", ".mark", ".mark.new"] {
        let beside = std::path::PathBuf::from(format!("{}{ending}", file.display()));
        let before = fs::read(&beside).ok();
        for force in [false, true] {
            let refused = backup(&from, &beside, force).unwrap_err();
            assert!(matches!(refused, BackupError::Beside { .. }), "{ending}: {refused}");
        }
        assert_eq!(fs::read(&beside).ok(), before, "{ending} is as it was");
    }
    let nowhere = folder.path().join("no/folder.db");
    assert!(matches!(backup(&from, &nowhere, false), Err(BackupError::Writing { .. })));
    let stranger = folder.path().join("stranger.db");
    rusqlite::Connection::open(&stranger).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    let refused = backup(stranger.to_str().unwrap(), &copy, true).unwrap_err();
    assert!(matches!(refused, BackupError::Store(OpenError::NotOurs { .. })), "{refused}");
    assert_eq!(fs::read(&copy).unwrap(), b"mine");
    // Also when the store is closed.
    drop(store);
    assert_eq!(backup(&from, &copy, true).unwrap().transactions, 1);
    assert!(!copy.with_extension("db.part").exists());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_backup_does_not_replace_what_lies_beside_a_store_by_a_link() {
    let folder = TempDir::new().unwrap();
    let (file, elsewhere) = (folder.path().join("a.db"), folder.path().join("elsewhere"));
    admit_new(&open(&file).unwrap(), request(lane(1), 1)).await;
    let mark = folder.path().join("a.db.mark");
    fs::rename(&mark, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &mark).unwrap();
    let before = fs::read(&elsewhere).unwrap();
    let refused = backup(file.to_str().unwrap(), &elsewhere, true).unwrap_err();
    assert!(matches!(refused, BackupError::Beside { .. }), "{refused}");
    assert_eq!(fs::read(&elsewhere).unwrap(), before);
}
