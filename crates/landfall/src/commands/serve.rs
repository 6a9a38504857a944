//! `landfall serve`: the server.

use std::path::Path;

use anyhow::{Result, anyhow};
use landfall_server::BindError;

use crate::cli::Serve;
use crate::config::Config;
use crate::node::{Node, addressed, stop_signal};

/// The meaning of a server without a key, in words.
pub(crate) const OPEN: &str = "It is open: there is no API key, so whoever reaches this address can spend from every signer. The first \
    `landfall api-key create` ends that.";

pub(crate) async fn run(args: &Serve) -> Result<()> {
    let config = Config::load(&args.config, std::env::vars())?;
    for chain in &config.chain {
        for key in chain.generic_keys()? {
            tracing::warn!(
                chain = chain.id,
                "{key} on this chain; leave the key out of the configuration to use that"
            );
        }
    }
    let node = Node::start(&config).await.map_err(|error| addressed(error, "server.listen"));
    let node = node.map_err(|error| with_file(error, &args.config))?;
    let address = node.address()?;
    for lane in node.lanes() {
        let signer = node.shown(lane.signer);
        tracing::info!(chain = %lane.chain, %signer, "lane configured");
    }
    tracing::info!(%address, store = %config.store.shown(), node = %config.node.name, "Landfall listens");
    // For people and scripts that wait for it; everything else goes to the log.
    let scheme = if config.server.has_tls() { "https" } else { "http" };
    println!("Landfall listens on {scheme}://{address}");
    if let Some(health) = node.health_address() {
        tracing::info!(address = %health, "health is served beside");
        println!("Health is served on http://{health}");
    }
    if node.is_open() {
        tracing::warn!("{OPEN}");
        println!("{OPEN}");
    }
    node.run(stop_signal()).await
}

/// A command that the error advises, with the configuration that is in use.
fn with_file(error: anyhow::Error, config: &Path) -> anyhow::Error {
    match error.downcast_ref::<BindError>() {
        Some(BindError::NoKeys { .. } | BindError::NotOpen { .. }) => {
            let named = format!("--config {}", config.display());
            anyhow!("{}", error.to_string().replace("--config landfall.toml", &named))
        }
        _ => error,
    }
}
