//! `landfall store` and `landfall backup`: a copy of the store, and a store that went back.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use landfall_core::Namespace;
use landfall_core::ports::store::{Older, Reads as _};
use landfall_store::{Postgres, Sqlite, postgres, sqlite};
use serde_json::{Value, json};

use super::{audit, unknown};
use crate::cli::{Backup, Store, StoreAccept, StoreOlder};
use crate::client::Client;
use crate::config::{self, Config};
use crate::exit::Exit;
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

pub(crate) async fn run(command: Store) -> Result<ExitCode> {
    match command {
        Store::Show { remote } => {
            let state = Client::of(&remote)?.store().await?;
            if remote.json {
                output::json(&state);
            } else if state["older"] == true {
                println!(
                    "{}. Hand all requests in again, then `landfall store accept` (docs/backup.md)",
                    text(&state, "why")
                );
            } else {
                println!("{}", not_older(&state));
            }
            Ok(ExitCode::SUCCESS)
        }
        Store::Accept(args) => accept(&args).await,
        Store::Older(args) => older(&args).await,
    }
}

/// The sentence for a store that is no older copy, or none any more.
fn not_older(state: &Value) -> String {
    let still = match state["comparing"].as_u64() {
        None | Some(0) => return "the store is not an older copy".to_owned(),
        Some(1) => "1 lane still compares".to_owned(),
        Some(lanes) => format!("{lanes} lanes still compare"),
    };
    format!(
        "the store is not an older copy any more: it was accepted, and {still} what it had forgotten (`landfall lane list`)"
    )
}

/// How long a large database may take.
const PATIENCE: Duration = Duration::from_secs(600);

async fn older(args: &StoreOlder) -> Result<ExitCode> {
    let config = Config::load(&args.config, std::env::vars())?;
    let shown = config.store.shown();
    if !args.yes {
        bail!(
            "this takes the store ({shown}) for an older copy of itself: every lane is on hold, and nothing is signed, until \
             `landfall store accept`. It is for a store that was put back in a way that it cannot notice, such as recovery to a point \
             in time, a snapshot of a disk, or an SQLite file together with its mark (docs/backup.md). Stop the server, and say --yes if \
             that was done"
        );
    }
    let why = take_for_older(&config.store).await?.map(|why| why.sentence()).unwrap_or_default();
    if args.json {
        output::json(&json!({ "older": true, "why": why }));
    } else {
        println!(
            "{shown}: {why}. Every lane is on hold. Start the server, have callers hand in every request again that they made since, \
             with its request id, and then run `landfall store accept` (docs/backup.md)"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Says it to the store itself, on which no server may run; the reason that it has then.
async fn take_for_older(store: &config::Store) -> Result<Option<Older>> {
    let namespace = Namespace(store.namespace.clone());
    if store.is_postgres() {
        let options = postgres::Options { lease: PATIENCE, ..Default::default() };
        let store = Postgres::open(&store.url, &namespace, &options).await?;
        audit::note(&store, "store older", json!({})).await?;
        store.take_for_older().await?;
        return Ok(store.older().await?);
    }
    let store = match Sqlite::open_existing(&store.url, &namespace, &sqlite::Options::default()) {
        Err(sqlite::OpenError::InUse { file }) => {
            return Err(anyhow!(
                "a server runs on the database {}, and its lanes would not hear of it. Stop it, then try again",
                file.display()
            ));
        }
        opened => opened?,
    };
    audit::note(&store, "store older", json!({})).await?;
    store.take_for_older().await?;
    Ok(store.older().await?)
}

async fn accept(args: &StoreAccept) -> Result<ExitCode> {
    let client = Client::of(&args.remote)?;
    let state = client.store().await?;
    if state["older"] != true {
        bail!("the store is not an older copy: there is nothing to accept");
    }
    let is_blind = args.yes && args.despite_unseen;
    let lanes = if is_blind { Vec::new() } else { lanes(&client).await? };
    if !args.yes {
        // For admins only; others go on without.
        let keys = client.api_keys().await.unwrap_or_default().into_iter().map(|key| json!(key));
        let keys: Vec<Value> = keys.filter(|key| key["state"] == "good").collect();
        let waiting = waiting(&client).await?;
        return show(&lanes, &keys, &waiting, &state, args.remote.json);
    }
    let unseen: Vec<String> = lanes.iter().filter_map(not_looked_at).collect();
    if !unseen.is_empty() {
        bail!(
            "{}\nNothing was accepted. Look at each of them with `landfall store accept` through the node that runs it, and then say \
             --despite-unseen as well",
            unseen.join("\n")
        );
    }
    let accepted = client.accept_store(args.despite_pool, args.despite_old_head).await?;
    if args.remote.json {
        output::json(&accepted);
    } else {
        let count = accepted["lanes"].as_array().map_or(0, Vec::len);
        let told = if count == 1 { "1 lane was".to_owned() } else { format!("{count} lanes were") };
        println!(
            "accepted; {told} told. Each goes on when what used the nonces that the store does not know is final and was \
             compared with what waits: `landfall lane list`"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Every lane with what used its nonces, once the server has looked at it or another node is known to run it.
async fn lanes(client: &Client) -> Result<Vec<Value>> {
    // Only a lane that is asked for by itself says it. The server begins to look when it is asked, so all are asked before one is waited for.
    let deadline = unknown::soon();
    let names: Vec<(u64, String)> =
        client.lanes().await?.into_iter().map(|lane| (lane.chain_id, lane.signer)).collect();
    let mut lanes = Vec::new();
    for (chain, signer) in &names {
        lanes.push(json!(client.lane(*chain, signer).await?));
    }
    for ((chain, signer), lane) in names.iter().zip(&mut lanes) {
        if unknown::not_looked_at(lane).is_some() {
            *lane = unknown::lane(client, *chain, signer, deadline).await?;
        }
    }
    Ok(lanes)
}

/// A sentence about a lane that the server has not looked at.
fn not_looked_at(lane: &Value) -> Option<String> {
    let why = unknown::not_looked_at(lane)?;
    let (signer, chain) = (text(lane, "signer"), text(lane, "chainId"));
    Some(format!("{signer} on chain {chain} was not looked at here: {why}"))
}

/// Transactions of a page, and how many pages are read: enough to see who floods.
const PAGE: usize = 500;
const PAGES: usize = 20;

/// The transactions that wait and were handed in by one API key.
#[derive(Debug, Default, PartialEq, Eq)]
struct Waiting {
    /// By id and name of the key.
    by_key: BTreeMap<(String, String), u64>,
    /// There are more than were counted.
    more: bool,
}

impl Waiting {
    fn take(&mut self, tx: &Value) {
        let by = &tx["submittedBy"];
        let key = (text(by, "keyId"), text(by, "name"));
        *self.by_key.entry(key).or_default() += 1;
    }

    fn json(&self) -> Vec<Value> {
        let one = |((id, name), count): (&(String, String), &u64)| json!({ "keyId": id, "name": name, "transactions": count });
        self.by_key.iter().map(one).collect()
    }
}

/// Everything that would be sent after the acceptance, by the key that handed it in.
async fn waiting(client: &Client) -> Result<Waiting> {
    let mut waiting = Waiting::default();
    for state in ["accepted", "simulated", "awaiting_approval"] {
        let mut cursor = String::new();
        for page in 0.. {
            if page == PAGES {
                waiting.more = true;
                break;
            }
            let read: Value = client.get(&format!("/api/v1/tx?state={state}&limit={PAGE}{cursor}")).await?;
            read["items"].as_array().into_iter().flatten().for_each(|tx| waiting.take(tx));
            match read["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
    }
    Ok(waiting)
}

/// The lanes and nonces that would be accepted. Nothing is, and the exit code is that of every command that wants `--yes` and did not get it.
fn show(
    lanes: &[Value],
    keys: &[Value],
    waiting: &Waiting,
    state: &Value,
    as_json: bool,
) -> Result<ExitCode> {
    if as_json {
        output::json(&json!({
            "accepted": false, "why": state["why"], "lanes": lanes, "apiKeys": keys, "waiting": waiting.json(),
        }));
    } else {
        println!("{}\n", text(state, "why"));
        println!("{}\n", output::table(&HEADER, lanes.iter().map(row).collect()));
        for lane in lanes.iter().filter(|lane| !unknown::of(lane).is_empty()) {
            let (signer, chain) = (text(lane, "signer"), text(lane, "chainId"));
            println!(
                "Nonces of {signer} on chain {chain} that the chain has used and the store does not know:"
            );
            println!("{}\n", unknown::table(unknown::of(lane)));
        }
        for lane in lanes {
            if let Some(not_shown) = unknown::not_shown(lane) {
                println!("{} on chain {}: {not_shown}\n", text(lane, "signer"), text(lane, "chainId"));
            }
        }
        for unseen in lanes.iter().filter_map(not_looked_at) {
            println!("{unseen}\nNonces that the store does not know may be missing above.\n");
        }
        if !keys.is_empty() {
            let row = |key: &Value| {
                let [id, name, role, made] =
                    ["id", "name", "role", "createdAt"].map(|field| text(key, field));
                vec![id, name, role, output::ago(&made)]
            };
            println!(
                "These API keys are valid. Revoke again what was revoked since the copy was made, and make anew what was made since:"
            );
            println!("{}\n", output::table(&["id", "name", "role", "made"], keys.iter().map(row).collect()));
        }
        if !waiting.by_key.is_empty() {
            let row = |((id, name), count): (&(String, String), &u64)| {
                vec![id.clone(), name.clone(), count.to_string()]
            };
            println!(
                "Transactions that wait: sent after the acceptance unless they do the same as one above, or are cancelled. By the API key \
                 that handed them in; to revoke a key does not cancel what it handed in:"
            );
            let rows = waiting.by_key.iter().map(row).collect();
            println!("{}", output::table(&["key", "name", "transactions"], rows));
            println!("{}", if waiting.more { "There are more; these are the newest.\n" } else { "" });
        }
        println!(
            "Nothing was accepted. Have callers hand in all requests again first, with their request ids: what did the same as one of \
             these nonces then ends as landed, or waits for a person: always in a lane that this copy had never used (next nonce -), where more \
             wait than landed, or where it was cancelled or awaits an approval. The rest is sent. Say --yes when they have (docs/backup.md)."
        );
    }
    Ok(Exit::Failed.into())
}

const HEADER: [&str; 6] = ["chain", "signer", "next nonce", "chain count", "waiting", "in flight"];

fn row(lane: &Value) -> Vec<String> {
    let [chain, signer, next, waiting, in_flight] =
        ["chainId", "signer", "nextNonce", "waiting", "inFlight"].map(|field| text(lane, field));
    vec![chain, signer, next, unknown::chain_count(lane), waiting, in_flight]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_counted_by_the_key_that_handed_it_in() {
        let mut waiting = Waiting::default();
        for (id, name) in [("a1", "shop"), ("b2", "thief"), ("b2", "thief")] {
            waiting.take(&json!({ "txId": "…", "submittedBy": { "keyId": id, "name": name } }));
        }
        waiting.take(&json!({ "txId": "…", "submittedBy": null }));
        let counted: Vec<(String, u64)> =
            waiting.by_key.iter().map(|((_, name), count)| (name.clone(), *count)).collect();
        assert_eq!(counted, [("-".to_owned(), 1), ("shop".to_owned(), 1), ("thief".to_owned(), 2)]);
    }

    #[test]
    fn a_store_that_was_accepted_says_how_many_lanes_still_compare() {
        assert_eq!(not_older(&json!({ "older": false })), "the store is not an older copy");
        assert!(not_older(&json!({ "older": false, "comparing": 1 })).contains("1 lane still compares what"));
        assert!(not_older(&json!({ "older": false, "comparing": 2 })).contains("2 lanes still compare what"));
    }
}
