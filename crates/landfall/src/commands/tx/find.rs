//! The transaction that is meant: by its txId, the hash of an attempt, or its requestId.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use landfall_client::{Error, TxFilter};

use crate::cli::TxName;
use crate::client::Client;
use crate::exit::NotFound;

/// A requestId is looked for under each signer, up to so many.
const MOST_SIGNERS: usize = 100;

/// The server, and the txId there.
pub(super) async fn tx(name: &TxName) -> Result<(Client, String)> {
    let client = Client::of(&name.remote)?;
    let id = match kind(&name.id) {
        Kind::TxId => match client.transaction(&name.id).await {
            Ok(tx) => tx.tx_id,
            // Somebody may use such ids as requestIds.
            Err(error) if is_missing(&error) => match by_request(&client, name).await {
                Err(other) if other.is::<NotFound>() => return Err(error.into()),
                found => found?,
            },
            Err(error) => return Err(error.into()),
        },
        Kind::Hash => by_hash(&client, &name.id).await?,
        Kind::RequestId => by_request(&client, name).await?,
    };
    Ok((client, id))
}

enum Kind {
    TxId,
    Hash,
    RequestId,
}

fn kind(text: &str) -> Kind {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if text.strip_prefix("0x").is_some_and(|hex| hex.len() == 64 && is_hex(hex)) {
        return Kind::Hash;
    }
    let parts: Vec<&str> = text.split('-').collect();
    let is_id =
        parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|part| is_hex(part));
    if is_id { Kind::TxId } else { Kind::RequestId }
}

fn is_missing(error: &Error) -> bool {
    error.problem().is_some_and(|problem| problem.status == 404)
}

async fn by_hash(client: &Client, hash: &str) -> Result<String> {
    let filter = TxFilter { hash: Some(hash.to_owned()), limit: Some(1), ..TxFilter::default() };
    let found = client.transactions(&filter).await?.items.pop();
    let missing = || NotFound(format!("no transaction here has an attempt with the hash {hash}"));
    Ok(found.ok_or_else(missing)?.tx_id)
}

async fn by_request(client: &Client, name: &TxName) -> Result<String> {
    let request = &name.id;
    let signers: BTreeSet<String> = match &name.signer {
        Some(signer) => BTreeSet::from([signer.clone()]),
        None => client.lanes().await?.into_iter().map(|lane| lane.signer).collect(),
    };
    if signers.len() > MOST_SIGNERS {
        bail!("there are {} signers; say with --signer whose requestId {request} is", signers.len());
    }
    let mut found = Vec::new();
    for signer in signers {
        match client.by_request(&signer, request).await {
            Ok(tx) => found.push(tx),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match found.as_slice() {
        [tx] => Ok(tx.tx_id.clone()),
        [] => Err(NotFound(format!(
            "{request} is no txId and no hash, and no signer here has a transaction with that requestId"
        ))
        .into()),
        several => {
            let signers: Vec<&str> = several.iter().map(|tx| tx.signer.as_str()).collect();
            bail!(
                "several signers have used the requestId {request}; say which with --signer: {}",
                signers.join(", ")
            )
        }
    }
}
