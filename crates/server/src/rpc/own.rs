//! `landfall_*`: what the REST API says of a transaction, for programs that speak JSON-RPC. A transaction is named by its
//! txId or by any of its hashes.

use landfall_core::TxId;
use landfall_core::ports::store::TxRecord;
use serde_json::{Value, json};

use super::error::{NOT_FOUND, RpcError};
use super::params::{Params, hash};
use super::{Asker, look};
use crate::access::{Role, Turn, turn_to_look};
use crate::routes::tx;
use crate::{body, show};

/// The transaction that is named, and the turn to hold while it is looked at.
async fn find(asker: &Asker, params: &mut Params) -> Result<(TxRecord, Turn), RpcError> {
    let name = params.text("a txId, or the hash of a transaction")?;
    let missing = || {
        let text = format!("there is no transaction {name} of chain {} here", asker.chain);
        RpcError::coded(NOT_FOUND, text, "not_found")
    };
    let turn = turn_to_look(&asker.app, &asker.caller).await?;
    let found = match (hash(&name), name.parse::<TxId>()) {
        (Some(hash), _) => look::record(asker, hash).await?,
        (None, Ok(id)) => asker.app.handle.store().tx(id).await?,
        (None, Err(_)) => None,
    };
    let seen =
        |record: &TxRecord| record.tx.lane.chain == asker.chain && asker.caller.sees_lane(record.tx.lane);
    Ok((found.filter(seen).ok_or_else(missing)?, turn))
}

pub(super) async fn transaction(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let (record, _turn) = find(asker, &mut Params::of(params)?).await?;
    Ok(tx::shown(&asker.app, &asker.caller, &record).await?)
}

pub(super) async fn journal(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let (record, _turn) = find(asker, &mut Params::of(params)?).await?;
    let rows = asker.app.handle.store().journal(record.tx.id).await?;
    let addresses = asker.caller.addresses();
    Ok(rows.iter().map(|row| show::journal_row(row, addresses)).collect())
}

pub(super) async fn cancel(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let tx = find(asker, &mut Params::of(params)?).await?.0.tx;
    asker.caller.may(Role::Submitter, tx.lane)?;
    asker.must_be_good(Role::Submitter).await?;
    let by = asker.clone();
    let done = async move {
        let command = by.app.handle.cancel(&tx, &by.wish()).await?;
        by.wrote("landfall_cancel", Vec::new(), Some(json!({ "txId": tx.id })));
        Ok(json!({ "commandId": command, "txId": tx.id }))
    };
    asker.to_its_end(done).await
}

/// The second parameter is as the body of `POST /tx/{txId}/speed-up`.
pub(super) async fn speed_up(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let mut params = Params::of(params)?;
    let (record, _) = find(asker, &mut params).await?;
    asker.caller.may(Role::Submitter, record.tx.lane)?;
    asker.must_be_good(Role::Submitter).await?;
    let (fees, speed) = body::speed_up(params.next().unwrap_or_else(|| json!({})))?;
    let by = asker.clone();
    let done = async move {
        let command = by.app.handle.speed_up(&record, fees, speed, &by.wish()).await?;
        by.wrote("landfall_speedUp", Vec::new(), Some(json!({ "txId": record.tx.id })));
        Ok(json!({ "commandId": command, "txId": record.tx.id }))
    };
    asker.to_its_end(done).await
}
