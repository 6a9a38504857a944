//! `landfall api-key`: who may call.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use super::audit;
use crate::cli::{ApiKey, NewApiKey};
use crate::client::Client;
use crate::config::{Config, Signer};
use crate::node::{Stores, open_store};
use crate::output::{self, Colour, coloured, text};
use crate::system::{SystemClock, SystemRandom};

const HEADER: [&str; 9] = ["id", "name", "role", "state", "signers", "chains", "rate", "created", "expires"];

pub(crate) async fn run(command: ApiKey) -> Result<()> {
    match command {
        ApiKey::Create(new) => create(&new).await,
        ApiKey::List { remote } => {
            let keys: Vec<Value> =
                Client::of(&remote)?.api_keys().await?.into_iter().map(|key| json!(key)).collect();
            if remote.json {
                output::json(&json!({ "items": keys, "nextCursor": null }));
            } else {
                let rows = keys.iter().map(row).collect();
                println!("{}", output::table(&HEADER, rows));
            }
            Ok(())
        }
        ApiKey::Revoke { id, remote } => {
            let key = Client::of(&remote)?.revoke_api_key(&id).await?;
            if remote.json {
                output::json(&json!(key));
            } else {
                println!("{} ({}) opens nothing any more", key.id, key.name);
            }
            Ok(())
        }
    }
}

async fn create(new: &NewApiKey) -> Result<()> {
    let signers = (!new.signer.is_empty()).then_some(&new.signer);
    let chains = (!new.chain.is_empty()).then_some(&new.chain);
    let mut body = json!({ "name": new.name, "role": new.role });
    let limits = [
        ("signers", json!(signers)),
        ("chains", json!(chains)),
        ("ratePerS", json!(new.rate)),
        ("expiresAt", json!(new.expires)),
    ];
    for (field, value) in limits {
        if !value.is_null() {
            body[field] = value;
        }
    }
    let (made, known) = match &new.config {
        Some(config) => {
            let config = Config::load(config, std::env::vars())?;
            let known = Known::configured(&config);
            (create_in_store(&config, body).await?, known)
        }
        None => {
            let client = Client::of(&new.remote)?;
            (json!(client.create_api_key(&body).await?), Known::served(&client).await)
        }
    };
    for said in known.warnings(new) {
        eprintln!("warning: {said}");
    }
    if new.remote.json {
        output::json(&made);
    } else {
        // The key alone on standard output, so that a script can keep it.
        println!("{}", text(&made, "key"));
        eprintln!(
            "{} ({}): keep it, it is not shown again. Callers send it as `Authorization: Bearer …`, these commands take it \
             from LANDFALL_API_KEY",
            text(&made, "name"),
            text(&made, "role")
        );
    }
    Ok(())
}

/// Where no server runs that could be asked, or none whose keys are at hand.
async fn create_in_store(config: &Config, body: Value) -> Result<Value> {
    let file = config.store.file();
    let is_new = file.as_ref().is_some_and(|file| !file.exists());
    let Stores { records, audit: log, .. } = open_store(config).await?;
    if let Some(file) = &file {
        eprintln!("{}", place(file, is_new));
    }
    audit::note(log.as_ref(), "api-key create", body.clone()).await?;
    let made =
        landfall_server::make_api_key(records, Arc::new(SystemClock), Arc::new(SystemRandom), body).await;
    made.map_err(|problem| anyhow!("{} ({})", problem.detail, problem.code.text()))
}

/// Says where the key is kept. Whoever stands in another folder than the server makes a store that no server uses.
fn place(file: &Path, is_new: bool) -> String {
    let file = file.display();
    if is_new {
        format!(
            "warning: there was no store {file}, and a new one was made: the key opens nothing on a server that uses another. If \
             store.url is relative, run this in the server's folder, or write the whole path there"
        )
    } else {
        format!("the key is made in the store {file}")
    }
}

/// Signers, in lower case, and chains that there are. None: not known here.
#[derive(Default)]
struct Known {
    signers: Option<BTreeSet<String>>,
    chains: Option<BTreeSet<u64>>,
}

impl Known {
    /// As the server has them. One that cannot be asked knows of none.
    async fn served(client: &Client) -> Self {
        let Ok(lanes) = client.lanes().await else { return Self::default() };
        Self {
            signers: Some(lanes.iter().map(|lane| lane.signer.to_lowercase()).collect()),
            chains: Some(lanes.iter().map(|lane| lane.chain_id).collect()),
        }
    }

    /// As the configuration has them. Signers are known if each has its address there.
    fn configured(config: &Config) -> Self {
        let address = |signer: &Signer| Some(signer.address?.to_string().to_lowercase());
        Self {
            signers: config.signer.iter().map(address).collect(),
            chains: Some(config.chain.iter().map(|chain| chain.id).collect()),
        }
    }

    fn warnings(&self, new: &NewApiKey) -> Vec<String> {
        let signers = new.signer.iter().filter(|signer| {
            self.signers.as_ref().is_some_and(|known| !known.contains(&signer.to_lowercase()))
        });
        let chains =
            new.chain.iter().filter(|chain| self.chains.as_ref().is_some_and(|known| !known.contains(chain)));
        let signers = signers
            .map(|signer| format!("no signer {signer} is configured, so the key opens nothing for it"));
        let chains =
            chains.map(|chain| format!("no chain {chain} is configured, so the key opens nothing on it"));
        signers.chain(chains).collect()
    }
}

fn row(key: &Value) -> Vec<String> {
    let state = match key["state"].as_str() {
        Some("good") => coloured("valid", Colour::Green),
        Some(other) => coloured(other, Colour::Red),
        None => String::new(),
    };
    let signers = key["signers"].as_array().map_or("all".to_owned(), |all| {
        let all: Vec<String> = all.iter().filter_map(Value::as_str).map(output::address).collect();
        all.join(" ")
    });
    let chains = key["chains"].as_array().map_or("all".to_owned(), |all| {
        let all: Vec<String> = all.iter().map(Value::to_string).collect();
        all.join(" ")
    });
    vec![
        text(key, "id"),
        text(key, "name"),
        text(key, "role"),
        state,
        signers,
        chains,
        if key["ratePerS"] == 0 { "no limit".to_owned() } else { text(key, "ratePerS") },
        output::ago(&text(key, "createdAt")),
        text(key, "expiresAt"),
    ]
}
