//! A crash at any moment: whatever part of the log had reached the disk, what is found are whole commits.

use std::fs;

use landfall_core::JournalSeq;
use landfall_core::ports::store::{Log, Reads, TxQuery, Write};
use tempfile::TempDir;

use super::open;
use crate::fixtures::*;

const COMMITS: u64 = 12;

#[tokio::test]
async fn a_log_cut_off_anywhere_shows_whole_commits_only() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db");
    let log = folder.path().join("a.db-wal");
    let store = open(&file).unwrap();
    let token = own(&store, lane(1)).await;
    // Commit n admits transactions 2n + 1 and 2n + 2 and binds the first of the commit before.
    for n in 0..COMMITS {
        let mut group: Vec<_> = [1, 2].map(|k| Write::Admit(Box::new(request(lane(1), 2 * n + k)))).into();
        if n > 0 {
            group.push(Write::Lane(Box::new(bind(lane(1), token, n - 1, 2 * n - 1, n))));
        }
        assert!(store.write(group).await.iter().all(Result::is_ok));
    }
    let (whole, log) = (fs::read(&file).unwrap(), fs::read(&log).unwrap());
    let mut seen = Vec::new();
    let cuts = (0..=log.len()).step_by(log.len() / 64).chain([log.len()]);
    for cut in cuts {
        let copy = TempDir::new().unwrap();
        let copied = copy.path().join("copy.db");
        fs::write(&copied, &whole).unwrap();
        fs::write(copy.path().join("copy.db-wal"), &log[..cut]).unwrap();
        // Before the schema itself had reached the disk, the copy is a new, empty database.
        let store = open(&copied).unwrap();
        let txs = store.txs(&TxQuery { limit: 1_000, ..TxQuery::default() }).await.unwrap().len();
        let commits = u64::try_from(txs / 2).unwrap();
        assert_eq!(txs % 2, 0, "half a commit at byte {cut}");
        let loaded = store.load_lane(lane(1)).await.unwrap();
        let bound = commits.saturating_sub(1);
        assert_eq!(loaded.version.0, bound, "at byte {cut}");
        assert_eq!(u64::try_from(loaded.bound.len()).unwrap(), bound);
        assert_eq!(u64::try_from(loaded.attempts.len()).unwrap(), bound);
        let entries = store.journal_after(JournalSeq(0), 1_000).await.unwrap().len();
        assert_eq!(u64::try_from(entries).unwrap(), 2 * commits + bound);
        seen.push(commits);
    }
    assert!(seen.is_sorted(), "more of the log shows more commits");
    assert_eq!((seen.first(), seen.last()), (Some(&0), Some(&COMMITS)));
}
