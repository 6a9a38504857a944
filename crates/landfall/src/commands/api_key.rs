//! `landfall api-key`: who may call.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use super::audit;
use crate::cli::{ApiKey, NewApiKey};
use crate::client::Client;
use crate::config::Config;
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
    let made = match &new.config {
        Some(config) => create_in_store(config, body).await?,
        None => json!(Client::of(&new.remote)?.create_api_key(&body).await?),
    };
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
async fn create_in_store(config: &Path, body: Value) -> Result<Value> {
    let config = Config::load(config, std::env::vars())?;
    let Stores { records, audit: log, .. } = open_store(&config).await?;
    audit::note(log.as_ref(), "api-key create", body.clone()).await?;
    let made =
        landfall_server::make_api_key(records, Arc::new(SystemClock), Arc::new(SystemRandom), body).await;
    made.map_err(|problem| anyhow!("{} ({})", problem.detail, problem.code.text()))
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
        text(key, "ratePerS"),
        output::ago(&text(key, "createdAt")),
        text(key, "expiresAt"),
    ]
}
