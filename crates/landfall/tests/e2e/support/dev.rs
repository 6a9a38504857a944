//! `landfall dev` as a person starts it, on a port of its own.

use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Child;

use super::{Api, free_port, program, until};

pub(crate) struct Dev {
    pub(crate) api: Api,
    _folder: TempDir,
    _child: Child,
}

impl Dev {
    /// Starts one with a block after each such time, and waits until it can admit.
    pub(crate) async fn start(blocks_every: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = program(folder.path());
        command.args(["dev", "--listen", &address, "--block-ms", &blocks_every.as_millis().to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
        let api = Api::at(&format!("http://{address}"));
        until("dev is ready", async || {
            let ready = api.try_send(api.request(reqwest::Method::GET, "/health/ready")).await?;
            (ready.status == 200).then_some(())
        })
        .await;
        Self { api, _folder: folder, _child: child }
    }
}
