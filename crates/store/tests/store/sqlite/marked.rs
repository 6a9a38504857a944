//! A process that is killed at any moment never makes a store look older than it is.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use landfall_core::ports::store::{Acceptance, CommandKind, Log, Reads};
use landfall_core::{JournalSeq, Namespace};
use landfall_store::Sqlite;
use landfall_store::sqlite::Options;
use tempfile::TempDir;

use crate::fixtures::*;

/// Marks are written and the log is moved all the time, so that kills meet them.
fn restless(file: &Path) -> Sqlite {
    let options = Options { beat: Duration::from_millis(1), ..Options::default() };
    Sqlite::open(file.to_str().unwrap(), &Namespace::default(), &options).unwrap()
}

/// Not a test of its own: what the next tests run in another process, and kill.
#[test]
fn writes_until_it_is_killed_when_asked_to() {
    let Ok(file) = std::env::var("LANDFALL_STORE_TEST_WRITE") else { return };
    let run = async {
        loop {
            let store = restless(Path::new(&file));
            say("opened");
            let word = command(lane(1), 1, CommandKind::AcceptStore { seen: None });
            if store.accept(vec![word]).await.unwrap() == Acceptance::Yes {
                say("accepted");
            }
            let end = store.journal_after(JournalSeq(0), 1_000_000).await.unwrap().len() as u64;
            for n in 1..=20 {
                admit_new(&store, request(lane(1), end + n)).await;
                say(&format!("stored {}", end + n));
                if n % 5 == 0 {
                    // Long enough to be taken for rest.
                    tokio::time::sleep(Duration::from_millis(6)).await;
                }
            }
        }
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(run);
}

fn say(text: &str) {
    println!("\n{text}");
    std::io::stdout().flush().unwrap();
}

fn write_in_another_process(file: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::marked::writes_until_it_is_killed_when_asked_to", "--nocapture"])
        .env("LANDFALL_STORE_TEST_WRITE", file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets the process write, kills it some microseconds after it said its nth line, and gives back what it said.
fn write_and_kill(file: &Path, lines: usize, then: Duration) -> Vec<String> {
    let mut child = write_in_another_process(file);
    let out = BufReader::new(child.stdout.take().unwrap());
    let (tell, told) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if ["opened", "accepted", "stored"].iter().any(|word| line.starts_with(word)) {
                let _gone = tell.send(line);
            }
        }
    });
    let mut said: Vec<String> =
        (0..lines).map_while(|_| told.recv_timeout(Duration::from_secs(20)).ok()).collect();
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < then {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    said.extend(told.try_iter());
    said
}

/// How often, by default and with more time.
fn rounds(few: u64) -> u64 {
    if std::env::var("LANDFALL_THOROUGH").is_ok_and(|set| set == "1") { few * 8 } else { few }
}

/// A number that looks like chance, and is the same in every run.
fn chance(round: u64, below: u64) -> u64 {
    (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
        % below
}

#[tokio::test]
async fn a_kill_at_any_moment_never_makes_a_store_look_older() {
    let mut folder = TempDir::new().unwrap();
    for round in 0..rounds(40) {
        if round % 8 == 0 {
            // The making of the file is met as well.
            folder = TempDir::new().unwrap();
        }
        let file = folder.path().join("a.db");
        let lines = usize::try_from(chance(round, 40)).unwrap();
        let said = write_and_kill(&file, lines, Duration::from_micros(chance(round + 7, 4_000)));
        let store = restless(&file);
        assert_eq!(store.older().await.unwrap(), None, "round {round}, after {:?}", said.last());
        assert!(!said.iter().any(|line| line == "accepted"), "round {round}: nothing was to be accepted");
        for line in said.iter().filter_map(|line| line.strip_prefix("stored ")) {
            let number = line.parse().unwrap();
            assert!(store.tx(tx_id(number)).await.unwrap().is_some(), "round {round}: {number} is lost");
        }
    }
}

#[tokio::test]
async fn a_kill_while_an_older_store_is_accepted_leaves_it_accepted_or_not() {
    for round in 0..rounds(16) {
        let folder = TempDir::new().unwrap();
        let (file, copy) = (folder.path().join("a.db"), folder.path().join("copy.db"));
        drop(restless(&file));
        fs::copy(&file, &copy).unwrap();
        admit_new(&restless(&file), request(lane(1), 500)).await;
        fs::copy(&copy, &file).unwrap();
        // From its first line on it is about to accept, and has accepted at its second.
        let said = write_and_kill(&file, 1, Duration::from_micros(chance(round, 5_000)));
        let store = restless(&file);
        let older = store.older().await.unwrap().is_some();
        let open = store.commands(lane(1), 10).await.unwrap().len();
        assert_eq!(older, open == 0, "round {round}: the acceptance is whole or not there");
        assert!(!older || !said.iter().any(|line| line == "accepted"), "round {round}: {said:?}");
        drop(store);
        // And so it stays.
        assert_eq!(restless(&file).older().await.unwrap().is_some(), older, "round {round}");
    }
}

/// A mark as it lies beside a file.
struct Told {
    text: String,
    /// The number of the last journal entry.
    journal: u64,
    /// How often the log was moved.
    moves: u64,
}

fn marked(file: &Path) -> Told {
    let text = fs::read_to_string(file.with_extension("db.mark")).unwrap();
    let mark: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |name: &str| mark[name].as_u64().unwrap();
    Told { journal: number("journal"), moves: number("moves"), text }
}

#[tokio::test]
async fn a_store_that_never_rests_is_marked_so_that_a_copy_from_seconds_ago_is_noticed() {
    let folder = TempDir::new().unwrap();
    let (file, copy) = (folder.path().join("a.db"), folder.path().join("copy.db"));
    let open = || Sqlite::open(file.to_str().unwrap(), &Namespace::default(), &Options::default()).unwrap();
    admit_new(&open(), request(lane(1), 1)).await;
    fs::copy(&file, &copy).unwrap();

    let store = open();
    let at_copy = marked(&file);
    let begun = tokio::time::Instant::now();
    let mut number = 1;
    while marked(&file).journal < at_copy.journal + 10 {
        number += 1;
        admit_new(&store, request(lane(1), number)).await;
        // Not so many that the log would have to be moved, which is marked as well, and never so few that it would be rest.
        let (before, stored) = (marked(&file).journal, tokio::time::Instant::now());
        while marked(&file).journal == before && stored.elapsed() < Duration::from_millis(40) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{number} were stored, and the mark is as it was");
    }
    let at_kill = marked(&file);
    assert_eq!(at_kill.moves, at_copy.moves, "the log was not moved");
    drop(store);
    // As if it had been killed then, and the copy put back.
    fs::copy(&copy, &file).unwrap();
    fs::write(file.with_extension("db.mark"), at_kill.text).unwrap();
    assert!(open().older().await.unwrap().is_some());
}
