//! What cannot start says why in a sentence, ends with a code other than 0, and gives no key away.

use std::net::TcpListener;
use std::process::Command;

use tempfile::TempDir;

use crate::support::{Output, Settings, account, free_port, program, run};

/// A folder with a configuration whose endpoint nobody listens at.
struct Folder {
    folder: TempDir,
    port: u16,
}

impl Folder {
    fn new() -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let nowhere = format!("http://127.0.0.1:{}", free_port());
        let text = Settings::default().toml(port, &nowhere);
        std::fs::write(folder.path().join("landfall.toml"), text).unwrap();
        Self { folder, port }
    }

    fn change(&self, from: &str, to: &str) {
        let file = self.folder.path().join("landfall.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(file, text.replacen(from, to, 1)).unwrap();
    }

    fn serve(&self) -> Command {
        let mut command = program(self.folder.path());
        command.args(["serve", "--config", "landfall.toml"]);
        command
    }

    /// Starts the server with this key, and expects that it does not start.
    async fn refuses(&self, key: Option<&str>, sentence: &str) -> Output {
        let mut command = self.serve();
        if let Some(key) = key {
            command.env("KEY_0", key);
        }
        let output = run(command).await;
        assert_eq!(output.code, Some(1), "{}", output.said);
        assert!(output.said.contains(sentence), "{}", output.said);
        assert!(output.said.contains("error: "), "{}", output.said);
        for n in 0..2 {
            let key = account(n).key.to_string();
            assert!(!output.said.contains(&key[2..]), "a key is in the output: {}", output.said);
        }
        output
    }
}

fn key(n: usize) -> String {
    account(n).key.to_string()
}

#[tokio::test]
async fn a_missing_or_senseless_configuration_is_named() {
    let folder = Folder::new();
    let mut command = program(folder.folder.path());
    command.args(["serve", "--config", "nowhere.toml"]);
    let output = run(command).await;
    assert_eq!(output.code, Some(1));
    assert!(output.said.contains("nowhere.toml cannot be read"), "{}", output.said);
    assert!(output.said.contains("landfall config"), "it says what to do: {}", output.said);

    folder.change("finality", "finallity");
    folder.refuses(Some(&key(0)), "finallity").await;
    let folder = Folder::new();
    folder.change("[[chain]]", "[[chain]");
    folder.refuses(Some(&key(0)), "landfall.toml cannot be used").await;
    let folder = Folder::new();
    folder.change("sqlite://landfall.db", "sqlite://nowhere/landfall.db");
    folder.refuses(Some(&key(0)), "does not exist").await;
    let folder = Folder::new();
    folder.change(
        "sqlite://landfall.db",
        "postgres://127.0.0.1:1/landfall\"\nwait_s = 1\nnamespace = \"default",
    );
    folder.refuses(Some(&key(0)), "cannot be reached").await;
}

#[tokio::test]
async fn a_key_that_is_missing_broken_or_anothers_is_told_without_showing_it() {
    let folder = Folder::new();
    folder.refuses(None, "environment variable KEY_0 is not set").await;
    let anothers = folder.refuses(Some(&key(1)), "belongs to").await;
    assert!(anothers.said.contains(&account(0).address.to_string()), "{}", anothers.said);
    let short = &key(0)[..40];
    let output = folder.refuses(Some(short), "64 hex digits").await;
    assert!(!output.said.contains(&short[2..]), "{}", output.said);
    let not_hex = key(0).replace('a', "g");
    let output = folder.refuses(Some(&not_hex), "not a hex digit").await;
    assert!(!output.said.contains(&not_hex[2..]), "{}", output.said);
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let folder = Folder::new();
    let _taken = TcpListener::bind(("127.0.0.1", folder.port)).unwrap();
    let output = folder.refuses(Some(&key(0)), "cannot listen on").await;
    assert!(output.said.contains(&folder.port.to_string()), "{}", output.said);
}

#[tokio::test]
async fn a_database_of_a_newer_version_or_of_another_program_is_left_as_it_is() {
    let folder = Folder::new();
    let file = folder.folder.path().join("landfall.db");
    let foreign = b"this is somebody's diary and not a database, long enough to be looked at".repeat(20);
    std::fs::write(&file, &foreign).unwrap();
    folder.refuses(Some(&key(0)), "is not a Landfall database").await;
    assert_eq!(std::fs::read(&file).unwrap(), foreign);

    std::fs::remove_file(&file).unwrap();
    let port = TcpListener::bind(("127.0.0.1", folder.port)).unwrap();
    // Far enough to make the database, and no further.
    folder.refuses(Some(&key(0)), "cannot listen on").await;
    drop(port);
    let db = rusqlite::Connection::open(&file).unwrap();
    db.pragma_update(None, "user_version", 999).unwrap();
    drop(db);
    let before = std::fs::read(&file).unwrap();
    folder.refuses(Some(&key(0)), "has schema version 999").await;
    assert_eq!(std::fs::read(&file).unwrap(), before);
}
