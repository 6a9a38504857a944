//! `landfall store` and `landfall backup`: a copy of the store, and a store that went back.

use anyhow::{Result, bail};
use landfall_store::sqlite;
use serde_json::{Value, json};

use super::lane::unknown_nonce;
use crate::cli::{Backup, Store, StoreAccept};
use crate::client::Client;
use crate::config::Config;
use crate::output::{self, text};

/// Copies the store of a configuration, whether a server runs on it or not.
pub(crate) fn backup(args: &Backup) -> Result<()> {
    let config = Config::load(&args.config, std::env::vars())?;
    if config.store.is_postgres() {
        bail!(
            "the store is a PostgreSQL database ({}), which is copied by PostgreSQL's own programs: pg_dump, or your provider's \
             backups. docs/backup.md says how, and what to do when one is put back",
            config.store.shown()
        );
    }
    let made = sqlite::backup(&config.store.url, &args.file, args.force)?;
    if args.json {
        output::json(&json!({
            "file": args.file.display().to_string(),
            "from": made.from.display().to_string(),
            "bytes": made.bytes,
            "journal": made.journal,
            "transactions": made.transactions,
            "unfinished": made.unfinished,
        }));
    } else {
        println!(
            "{} holds {} up to journal number {}: {} transactions, {} of them unfinished ({} bytes)",
            args.file.display(),
            made.from.display(),
            made.journal,
            made.transactions,
            made.unfinished,
            made.bytes
        );
    }
    Ok(())
}

pub(crate) async fn run(command: Store) -> Result<()> {
    match command {
        Store::Show { remote } => {
            let state = Client::new(&remote.url)?.store().await?;
            if remote.json {
                output::json(&state);
            } else if state["older"] == true {
                println!("{}", text(&state, "why"));
            } else {
                println!("the store is not an older copy");
            }
            Ok(())
        }
        Store::Accept(args) => accept(&args).await,
    }
}

async fn accept(args: &StoreAccept) -> Result<()> {
    let client = Client::new(&args.remote.url)?;
    let state = client.store().await?;
    if state["older"] != true {
        bail!("the store is not an older copy: there is nothing to accept");
    }
    let lanes: Vec<Value> = client.lanes().await?.into_iter().map(|lane| json!(lane)).collect();
    if !args.remote.json {
        println!("{}\n", text(&state, "why"));
        println!("{}\n", output::table(&HEADER, lanes.iter().map(row).collect()));
        lanes.iter().for_each(show_unknown);
    }
    if !args.yes {
        bail!(
            "nothing was accepted. Have callers hand in all requests again first, with their request ids: what has landed ends as \
             landed then, and the rest is sent. Say --yes when they have (docs/backup.md)"
        );
    }
    let accepted = client.accept_store(args.despite_pool).await?;
    if args.remote.json {
        output::json(&accepted);
    } else {
        let count = accepted["lanes"].as_array().map_or(0, Vec::len);
        println!(
            "accepted; {count} lanes were told. Each goes on when what used the nonces that the store does not know is final and was \
             compared with what waits: `landfall lane list`"
        );
    }
    Ok(())
}

const HEADER: [&str; 6] = ["chain", "signer", "next nonce", "chain count", "waiting", "in flight"];

fn row(lane: &Value) -> Vec<String> {
    ["chainId", "signer", "nextNonce", "chainCount", "waiting", "inFlight"]
        .map(|field| text(lane, field))
        .into()
}

/// Nonces that the chain has and the store does not, and what they did, as far as the server knows it.
fn show_unknown(lane: &Value) {
    for unknown in lane["unknownNonces"].as_array().into_iter().flatten() {
        println!("{}: {}", text(lane, "signer"), unknown_nonce(unknown));
    }
}
