//! `landfall chain`: putting a chain away that was started over.

use std::time::Duration;

use anyhow::{Result, bail};
use landfall_core::{ChainId, Namespace};
use landfall_store::{Archived, Postgres, Sqlite};
use serde_json::json;

use crate::cli::Chain;
use crate::config::{Config, Store};
use crate::output;

/// How long a large database may take.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) async fn run(command: Chain) -> Result<()> {
    let Chain::Forget { id, config, yes, json } = command;
    let config = Config::load(&config, std::env::vars())?;
    if !yes {
        bail!(
            "this frees the request ids and slots of chain {id}. If that chain still exists, what was sent there could \
             be sent again. Say --yes if it was started over"
        );
    }
    let Some(archived) = archive(&config.store, ChainId(id)).await? else {
        bail!("nothing is stored of chain {id} in {}", config.store.shown());
    };
    let Archived { namespace, lanes, transactions } = archived;
    if json {
        output::json(&json!({ "namespace": namespace, "lanes": lanes, "transactions": transactions }));
    } else {
        println!(
            "chain {id} is put away: {lanes} lanes with {transactions} transactions are in the namespace {namespace}. \
             Start the server: the chain is new to it"
        );
    }
    Ok(())
}

async fn archive(store: &Store, chain: ChainId) -> Result<Option<Archived>> {
    let namespace = Namespace(store.namespace.clone());
    if store.is_postgres() {
        let options = landfall_store::postgres::Options { lease: PATIENCE, ..Default::default() };
        return Ok(Postgres::open(&store.url, &namespace, &options).await?.archive_chain(chain).await?);
    }
    let store = Sqlite::open(&store.url, &namespace, &landfall_store::sqlite::Options::default())?;
    Ok(store.archive_chain(chain).await?)
}
