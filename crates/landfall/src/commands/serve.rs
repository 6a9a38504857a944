//! `landfall serve`: the server.

use anyhow::Result;

use crate::cli::Serve;
use crate::config::Config;
use crate::node::{Node, stop_signal};

pub(crate) async fn run(args: &Serve) -> Result<()> {
    let config = Config::load(&args.config, std::env::vars())?;
    let node = Node::start(&config).await?;
    let address = node.address()?;
    for lane in node.lanes() {
        let signer = node.shown(lane.signer);
        tracing::info!(chain = %lane.chain, %signer, "lane configured");
    }
    tracing::info!(%address, store = %config.store.shown(), node = %config.node.name, "Landfall listens");
    // For people and scripts that wait for it; everything else goes to the log.
    println!("Landfall listens on http://{address}");
    node.run(stop_signal()).await
}
