//! Files that are put in the place of newer ones: each is noticed, stays noticed, and is used again when a person says so.

use std::fs;
use std::path::{Path, PathBuf};

use landfall_core::ports::store::{Acceptance, CommandKind, LaneRow, Log, Older, Reads};
use landfall_core::{JournalSeq, Namespace};
use landfall_store::Sqlite;
use landfall_store::sqlite::{OpenError, Options};
use tempfile::TempDir;

use super::open;
use crate::fixtures::*;

/// A folder with a database, a copy of it with two transactions, and the database grown to five since.
struct Copied {
    _folder: TempDir,
    file: PathBuf,
    copy: PathBuf,
}

impl Copied {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let (file, copy) = (folder.path().join("a.db"), folder.path().join("copy.db"));
        let this = Self { _folder: folder, file, copy };
        this.admit(1..=2).await;
        fs::copy(&this.file, &this.copy).unwrap();
        fs::copy(mark(&this.file), mark(&this.copy)).unwrap();
        this.admit(3..=5).await;
        this
    }

    async fn admit(&self, numbers: std::ops::RangeInclusive<u64>) {
        let store = open(&self.file).unwrap();
        for n in numbers {
            admit_new(&store, keyed(lane(1), n, &format!("key-{n}"))).await;
        }
    }

    fn put_back(&self) {
        fs::copy(&self.copy, &self.file).unwrap();
    }

    async fn older(&self) -> Option<Older> {
        open(&self.file).unwrap().older().await.unwrap()
    }
}

fn mark(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.mark", file.display()))
}

fn behind(journal: i64, mark: i64) -> Option<Older> {
    Some(Older::Behind { journal: JournalSeq(journal), mark: JournalSeq(mark) })
}

async fn accept(store: &Sqlite) -> bool {
    let word = command(lane(1), 900, CommandKind::AcceptStore { seen: None });
    store.accept(vec![word]).await.unwrap() == Acceptance::Yes
}

#[tokio::test]
async fn a_store_that_goes_on_is_never_older() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db");
    for n in 1..=3 {
        let store = open(&file).unwrap();
        assert_eq!(store.older().await.unwrap(), None);
        admit_new(&store, request(lane(1), n)).await;
        assert!(!accept(&store).await, "there is nothing to accept");
        assert!(store.commands(lane(1), 10).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_copy_in_the_place_of_a_newer_store_is_older_until_it_is_accepted() {
    let copied = Copied::new().await;
    copied.put_back();
    assert_eq!(copied.older().await, behind(2, 5));
    // Every lane is told, also one that the copy has never heard of.
    let store = open(&copied.file).unwrap();
    assert_eq!(store.load_lane(lane(1)).await.unwrap().older, behind(2, 5));
    assert_eq!(store.load_lane(lane(9)).await.unwrap().older, behind(2, 5));
    // What comes in meanwhile raises its number past the mark's, and it is older all the same.
    drop(store);
    copied.admit(6..=20).await;
    assert_eq!(copied.older().await, behind(2, 5));

    let store = open(&copied.file).unwrap();
    assert!(accept(&store).await);
    assert_eq!(store.older().await.unwrap(), None);
    assert_eq!(store.commands(lane(1), 10).await.unwrap()[0].kind, CommandKind::AcceptStore { seen: None });
    // A lane that has not gone on by that word yet is older, however often it is loaded.
    assert_eq!(store.load_lane(lane(1)).await.unwrap().older, Some(Older::Accepted));
    let token = own(&store, lane(1)).await;
    let mut done = turn(lane(1), token, 0);
    done.row.cursor = Some(landfall_core::Slot(0));
    done.commands_done = vec![store.commands(lane(1), 10).await.unwrap()[0].id];
    commit(&store, done).await.unwrap();
    assert_eq!(store.load_lane(lane(1)).await.unwrap().older, None);
    // One that the store has never used is compared when it is first loaded.
    assert_eq!(store.load_lane(lane(9)).await.unwrap().older, Some(Older::Accepted));
    assert!(!accept(&store).await, "once");
    drop(store);
    assert_eq!(copied.older().await, None);
}

#[tokio::test]
async fn what_was_accepted_is_a_new_line_and_copies_of_the_old_one_are_older() {
    let copied = Copied::new().await;
    let newest = copied.file.with_extension("newest");
    fs::copy(&copied.file, &newest).unwrap();
    copied.put_back();
    let store = open(&copied.file).unwrap();
    assert!(accept(&store).await);
    drop(store);
    // The newest copy of the line before has a higher number, and lacks what was done since.
    fs::copy(&newest, &copied.file).unwrap();
    assert_eq!(copied.older().await, Some(Older::OtherLine));
}

#[tokio::test]
async fn an_acceptance_that_no_lane_has_heard_of_is_not_valid_for_a_later_copy() {
    let copied = Copied::new().await;
    copied.put_back();
    let store = open(&copied.file).unwrap();
    assert!(accept(&store).await);
    drop(store);
    // This copy holds the acceptance for lane 1.
    fs::copy(&copied.file, &copied.copy).unwrap();
    copied.admit(6..=8).await;
    copied.put_back();
    let store = open(&copied.file).unwrap();
    assert!(store.older().await.unwrap().is_some());
    assert!(store.commands(lane(1), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_file_without_its_mark_is_older() {
    let copied = Copied::new().await;
    fs::remove_file(mark(&copied.file)).unwrap();
    assert_eq!(copied.older().await, Some(Older::NoMark));
    // It gets none before it is accepted.
    assert_eq!(copied.older().await, Some(Older::NoMark));
    assert!(accept(&open(&copied.file).unwrap()).await);
    assert_eq!(copied.older().await, None);

    fs::write(mark(&copied.file), "not a mark").unwrap();
    assert_eq!(copied.older().await, Some(Older::BadMark));
}

#[tokio::test]
async fn an_empty_database_where_another_was_is_older() {
    let copied = Copied::new().await;
    fs::remove_file(&copied.file).unwrap();
    assert_eq!(copied.older().await, Some(Older::OtherLine));
}

/// Nothing can tell it: the lanes see by the chain that they are behind.
#[tokio::test]
async fn a_copy_that_is_put_back_with_its_own_mark_is_not_noticed_here() {
    let copied = Copied::new().await;
    copied.put_back();
    fs::copy(mark(&copied.copy), mark(&copied.file)).unwrap();
    assert_eq!(copied.older().await, None);
}

#[tokio::test]
async fn a_database_from_before_there_were_marks_gets_its_first_one() {
    let copied = Copied::new().await;
    let db = rusqlite::Connection::open(&copied.file).unwrap();
    db.execute_batch(
        "DROP INDEX command_tx; DROP INDEX command_age; ALTER TABLE command DROP COLUMN tx;
         DROP TABLE audit; DROP TABLE audit_ends; DROP TABLE mark; DROP TABLE older; PRAGMA user_version = 9",
    )
    .unwrap();
    drop(db);
    let unmarked = copied.file.with_extension("unmarked");
    fs::copy(&copied.file, &unmarked).unwrap();
    fs::remove_file(mark(&copied.file)).unwrap();
    assert_eq!(copied.older().await, None);
    assert!(mark(&copied.file).exists());
    // A backup from before the upgrade has no line at all.
    fs::copy(&unmarked, &copied.file).unwrap();
    assert_eq!(copied.older().await, Some(Older::OtherLine));
}

/// The moment between a commit and the mark that follows it, held open: no mark can be written.
#[tokio::test]
async fn a_mark_that_could_not_follow_its_commit_makes_nothing_older() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db");
    let in_the_way = PathBuf::from(format!("{}.mark.new", file.display()));
    // When the file is made,
    fs::create_dir(&in_the_way).unwrap();
    let error = open(&file).unwrap_err();
    assert!(error.to_string().contains("a.db.mark"), "{error}");
    fs::remove_dir(&in_the_way).unwrap();
    let store = open(&file).unwrap();
    assert_eq!(store.older().await.unwrap(), None);
    // after any commit,
    fs::create_dir(&in_the_way).unwrap();
    admit_new(&store, request(lane(1), 1)).await;
    drop(store);
    fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(open(&file).unwrap().older().await.unwrap(), None);
    // and when an older copy is accepted.
    fs::remove_file(mark(&file)).unwrap();
    let stranger = TempDir::new().unwrap();
    drop(open(&stranger.path().join("b.db")).unwrap());
    fs::copy(mark(&stranger.path().join("b.db")), mark(&file)).unwrap();
    let store = open(&file).unwrap();
    fs::create_dir(&in_the_way).unwrap();
    assert!(accept(&store).await);
    drop(store);
    fs::remove_dir(&in_the_way).unwrap();
    let store = open(&file).unwrap();
    assert_eq!(store.older().await.unwrap(), None);
    assert_eq!(store.commands(lane(1), 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn every_namespace_of_the_file_accepts_for_itself() {
    let copied = Copied::new().await;
    let space = |name: &str| {
        let namespace = Namespace(name.to_owned());
        Sqlite::open(copied.copy.to_str().unwrap(), &namespace, &Options::default()).unwrap()
    };
    drop(space("other"));
    let other = copied.copy.with_extension("both");
    fs::copy(&copied.copy, &other).unwrap();
    admit_new(&space("other"), request(lane(1), 7)).await;
    fs::copy(&other, &copied.copy).unwrap();
    assert!(accept(&space("default")).await);
    assert_eq!(space("default").older().await.unwrap(), None);
    assert!(space("other").older().await.unwrap().is_some());
    assert!(accept(&space("other")).await);
    assert_eq!(space("other").older().await.unwrap(), None);
}

#[tokio::test]
async fn a_newer_log_beside_a_file_that_was_put_back_is_not_mixed_into_it() {
    let copied = Copied::new().await;
    let store = open(&copied.file).unwrap();
    admit_new(&store, request(lane(1), 6)).await;
    // As a kill leaves it: the log has what came last, the file what came before.
    let log = PathBuf::from(format!("{}-wal", copied.file.display()));
    let kept = fs::read(&log).unwrap();
    assert!(!kept.is_empty());
    drop(store);
    fs::write(&log, &kept).unwrap();
    copied.put_back();
    let before = fs::read(&copied.file).unwrap();
    let error = open(&copied.file).unwrap_err();
    assert!(matches!(error, OpenError::StrangeLog { .. }), "{error}");
    assert!(error.to_string().contains("a.db-wal"), "{error}");
    assert_eq!(fs::read(&copied.file).unwrap(), before);
    assert_eq!(fs::read(&log).unwrap(), kept);
    fs::remove_file(&log).unwrap();
    assert_eq!(copied.older().await, behind(2, 6));
}

#[cfg(unix)]
#[tokio::test]
async fn the_mark_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let copied = Copied::new().await;
    let mode = fs::metadata(mark(&copied.file)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!copied.file.with_extension("db.mark.new").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_where_the_next_mark_is_written_leads_nowhere() {
    let folder = TempDir::new().unwrap();
    let (file, other) = (folder.path().join("a.db"), folder.path().join("other"));
    fs::write(&other, "of somebody else").unwrap();
    let link = PathBuf::from(format!("{}.new", mark(&file).display()));
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let store = open(&file).unwrap();
    admit_new(&store, request(lane(1), 1)).await;
    drop(store);
    assert_eq!(fs::read_to_string(&other).unwrap(), "of somebody else");
    assert!(fs::read_to_string(mark(&file)).unwrap().contains("lineage"));
    assert_eq!(open(&file).unwrap().older().await.unwrap(), None);
}

/// The name under which a backup is made may be the store's own.
#[tokio::test]
async fn a_backup_is_not_made_where_the_store_is() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db.part");
    let store = open(&file).unwrap();
    admit_new(&store, request(lane(1), 1)).await;
    let from = file.display().to_string();
    let refused = landfall_store::sqlite::backup(&from, &folder.path().join("a.db"), true).unwrap_err();
    assert!(refused.to_string().contains("belongs to it"), "{refused}");
    drop(store);
    assert!(open(&file).unwrap().tx(tx_id(1)).await.unwrap().is_some());
}

/// The only way for a copy that came with its own mark.
#[tokio::test]
async fn a_person_may_say_that_a_file_went_back() {
    let copied = Copied::new().await;
    copied.put_back();
    fs::copy(mark(&copied.copy), mark(&copied.file)).unwrap();
    let running = open(&copied.file).unwrap();
    let again =
        Sqlite::open_existing(copied.file.to_str().unwrap(), &Namespace::default(), &Options::default());
    assert!(matches!(again.unwrap_err(), OpenError::InUse { .. }));
    drop(running);
    open(&copied.file).unwrap().take_for_older().await.unwrap();
    assert_eq!(copied.older().await, Some(Older::Said));
    let store = open(&copied.file).unwrap();
    assert_eq!(store.load_lane(lane(1)).await.unwrap().older, Some(Older::Said));
    assert!(accept(&store).await);
    assert_eq!(store.load_lane(lane(1)).await.unwrap().older, Some(Older::Accepted));
    // Said again before a lane has gone on.
    store.take_for_older().await.unwrap();
    assert!(store.commands(lane(1), 10).await.unwrap().is_empty());
    drop(store);
    assert_eq!(copied.older().await, Some(Older::Said));
    let nowhere = copied.file.with_extension("nowhere");
    let missing =
        Sqlite::open_existing(nowhere.to_str().unwrap(), &Namespace::default(), &Options::default());
    assert!(matches!(missing.unwrap_err(), OpenError::Missing { .. }));
    assert!(!nowhere.exists(), "none is made");
}

#[tokio::test]
async fn a_person_says_that_a_file_went_back_for_every_namespace_of_it() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("landfall.db");
    let file = file.to_str().unwrap();
    let enter = |name: &str| Sqlite::open(file, &Namespace(name.to_owned()), &Options::default()).unwrap();
    for name in ["one", "other"] {
        admit_new(&enter(name), request(lane(1), 1)).await;
    }
    enter("one").take_for_older().await.unwrap();
    for name in ["other", "one"] {
        let store = enter(name);
        assert_eq!(store.older().await.unwrap(), Some(Older::Said), "{name}");
        assert_eq!(store.load_lane(lane(1)).await.unwrap().older, Some(Older::Said), "{name}");
    }
    // Said again, before a lane of the other namespace has gone on by a word that was given there.
    assert!(accept(&enter("other")).await);
    enter("one").take_for_older().await.unwrap();
    let other = enter("other");
    assert_eq!(other.older().await.unwrap(), Some(Older::Said));
    assert!(other.commands(lane(1), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_namespace_that_is_first_served_in_an_older_copy_is_as_old_as_the_strictest_there() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db");
    let open_in = |name: &str| {
        let namespace = Namespace(name.to_owned());
        Sqlite::open(file.to_str().unwrap(), &namespace, &Options::default()).unwrap()
    };
    drop(open_in("other"));
    drop(open_in("default~7~1"));
    open_in("default").take_for_older().await.unwrap();
    assert!(accept_all(&open_in("other")).await);
    // The copy may have been made before this one was there, and nobody has looked at what it forgot.
    let said = Some(Older::Said);
    assert_eq!(open_in("third").older().await.unwrap(), said);
    for name in ["default", "third"] {
        let store = open_in(name);
        assert_eq!(store.older().await.unwrap(), said);
        assert!(accept_all(&store).await);
    }
    let store = open_in("fourth");
    assert_eq!(store.older().await.unwrap(), None, "nobody accepts an archive");
    assert_eq!(store.load_lane(lane(9)).await.unwrap().older, Some(Older::Accepted));
    drop(store);
    open_in("fourth").take_for_older().await.unwrap();
    assert_eq!(open_in("fifth").older().await.unwrap(), said);
}

/// Counts that the chain showed before count no more by a person's word, and by nothing else: bytes that a reorganisation took back may land.
#[tokio::test]
async fn taking_a_file_for_an_older_copy_forgets_what_the_chain_showed_before() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db");
    let open_in = |name: &str| {
        let namespace = Namespace(name.to_owned());
        Sqlite::open(file.to_str().unwrap(), &namespace, &Options::default()).unwrap()
    };
    for name in ["default", "other"] {
        store_older_count(&open_in(name)).await;
    }
    fs::remove_file(mark(&file)).unwrap();
    let store = open(&file).unwrap();
    assert_eq!(store.older().await.unwrap(), Some(Older::NoMark));
    assert_eq!(store.load_lane(lane(1)).await.unwrap().row, with_older_count());
    store.take_for_older().await.unwrap();
    drop(store);
    for name in ["default", "other"] {
        let loaded = open_in(name).load_lane(lane(1)).await.unwrap();
        assert_eq!(loaded.row, LaneRow { older_count: None, ..with_older_count() });
    }
}

#[tokio::test]
async fn a_file_is_accepted_only_with_a_word_for_every_lane_that_it_has() {
    let copied = Copied::new().await;
    copied.put_back();
    let store = open(&copied.file).unwrap();
    own(&store, lane(2)).await;
    let word = |n| command(lane(n), 900 + u64::from(n), CommandKind::AcceptStore { seen: None });
    let refused = store.accept(vec![word(1), word(3)]).await.unwrap();
    assert_eq!(refused, Acceptance::Untold(lane(2)));
    assert_eq!(store.older().await.unwrap(), behind(2, 5));
    assert!(store.commands(lane(1), 10).await.unwrap().is_empty());
    assert!(store.lane(lane(3)).await.unwrap().is_none(), "nothing was done");
    assert_eq!(store.accept(vec![word(1), word(2), word(3)]).await.unwrap(), Acceptance::Yes);
    for n in 1..=3 {
        assert_eq!(store.commands(lane(n), 10).await.unwrap().len(), 1);
    }
}
