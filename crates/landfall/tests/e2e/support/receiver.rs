//! A webhook receiver: a Node.js program that verifies with the public Standard Webhooks library, in `receiver.js`.

use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::{free_port, http_client, until};

const VARIABLE: &str = "LANDFALL_STANDARDWEBHOOKS";
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/support/receiver.js");

pub(crate) struct Receiver {
    port: u16,
    folder: TempDir,
    child: Option<Child>,
}

/// One request that it took.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    /// `webhook-id`.
    pub(crate) id: String,
    /// The library found the signature right.
    pub(crate) verified: bool,
    /// How many signatures there were.
    pub(crate) signatures: u64,
    pub(crate) body: Value,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let mut receiver = Self { port: free_port(), folder: tempfile::tempdir().unwrap(), child: None };
        receiver.spawn().await;
        receiver
    }

    /// Starts it, with all that it had taken.
    pub(crate) async fn spawn(&mut self) {
        let library = std::env::var(VARIABLE)
            .unwrap_or_else(|_| panic!("{VARIABLE} names no folder; `cargo xtask test` provides it"));
        let mut command = Command::new("node");
        command.arg(PROGRAM).arg(self.port.to_string()).arg(self.folder.path());
        command.env(VARIABLE, library).stdin(Stdio::null()).kill_on_drop(true);
        self.child = Some(command.spawn().expect("node starts"));
        until("the receiver listens", async || self.seen().await).await;
    }

    pub(crate) async fn kill(&mut self) {
        self.child.take().expect("the receiver runs").kill().await.expect("the receiver is killed");
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    /// How it is to behave from now on.
    pub(crate) async fn control(&self, control: Value) {
        let url = format!("http://127.0.0.1:{}/control", self.port);
        let answer = http_client().put(url).json(&control).send().await.expect("the receiver answers");
        assert!(answer.status().is_success());
    }

    pub(crate) async fn behaves(&self, mode: &str) {
        self.control(json!({ "mode": mode })).await;
    }

    /// How many requests it has seen since it was started.
    pub(crate) async fn seen(&self) -> Option<u64> {
        let url = format!("http://127.0.0.1:{}/count", self.port);
        http_client().get(url).send().await.ok()?.json().await.ok()
    }

    /// Everything that it ever took, in order.
    pub(crate) fn taken(&self) -> Vec<Taken> {
        let text = std::fs::read_to_string(self.folder.path().join("taken.jsonl")).unwrap_or_default();
        // The last line may be on its way.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let read = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            Taken {
                id: line["id"].as_str().expect("an id").to_owned(),
                verified: line["verified"] == true,
                signatures: line["signatures"].as_u64().expect("a count"),
                body: line["body"].clone(),
            }
        };
        lines.map(read).collect()
    }
}
