//! A real anvil, started for one test and ended with it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use landfall_core::ports::chain::{BlockAt, Chain};

use super::{chain, until};

pub(crate) struct Anvil {
    child: Child,
    port: u16,
}

impl Anvil {
    /// Starts one that mines every transaction at once, unless told otherwise.
    pub(crate) async fn start(more: &[&str]) -> Self {
        // Bound and let go: the system does not hand the same port out again at once.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::start_at(port, more).await
    }

    /// Ends it and starts a new one in its place, with nothing of the old.
    pub(crate) async fn restart(self) -> Self {
        let port = self.port;
        drop(self);
        Self::start_at(port, &[]).await
    }

    async fn start_at(port: u16, more: &[&str]) -> Self {
        let binary = std::env::var("LANDFALL_ANVIL").expect("run cargo xtask test, which installs anvil");
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--prune-history", "--silent"])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("anvil starts");
        let anvil = Self { child, port };
        let probe = chain(&[anvil.http()]);
        until("answer of anvil", || async { probe.block(BlockAt::Latest).await.ok() }).await;
        anvil
    }

    pub(crate) fn http(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn ws(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            self.child.wait().ok();
        }
    }
}
