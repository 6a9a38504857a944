//! A node of either kind behind one face, mined by hand.

use std::sync::Arc;

use landfall_devchain::{
    Config, Devchain,
    anvil::{Anvil, Options},
};
use serde_json::json;

use super::Rpc;

pub(crate) struct Node {
    pub(crate) rpc: Rpc,
    pub(crate) ws_url: String,
    mine: &'static str,
    _keep: Keep,
}

enum Keep {
    Devchain { _chain: Devchain },
    Anvil { _process: Anvil },
}

impl Node {
    pub(crate) async fn devchain() -> Self {
        let (chain, rpc) = start_with(|_| {}).await;
        Self { rpc, ws_url: chain.ws_url(), mine: "devchain_mine", _keep: Keep::Devchain { _chain: chain } }
    }

    pub(crate) async fn anvil() -> Self {
        let process = match Anvil::start(Options::default()).await {
            Ok(process) => process,
            Err(error) => panic!("{error}"),
        };
        Self {
            rpc: Rpc::new(process.http_url()),
            ws_url: process.ws_url(),
            mine: "evm_mine",
            _keep: Keep::Anvil { _process: process },
        }
    }

    /// Makes one block.
    pub(crate) async fn mine(&self) {
        self.rpc.call(self.mine, json!([])).await;
    }
}

/// The default chain with a clock that stands still; block times rise all the same.
pub(crate) fn config() -> Config {
    Config::new(Arc::new(|| 1_700_000_000))
}

pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> (Devchain, Rpc) {
    let mut config = config();
    change(&mut config);
    let chain = Devchain::start(config).await.unwrap();
    let rpc = Rpc::new(chain.http_url());
    (chain, rpc)
}
