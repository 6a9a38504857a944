//! `wallet_getCallsStatus`: how far calls are that were handed over together (EIP-5792).
//!
//! All numbers but 100 are final to a wallet: whoever hears that nothing landed pays again. So the number and what a receipt says
//! come from the store, and the node is asked only for logs, which are not stored.
//!
//! | number | the calls |
//! |---|---|
//! | 200 | each is in a block and did what was asked; of one that is not final yet, its logs are there |
//! | 400 | none landed, and none can |
//! | 500 | at least one reverted, none did what was asked, and all have ended |
//! | 600 | some did what was asked and others did not, and all have ended |
//! | 100 | anything else |

use alloy_primitives::B256;
use landfall_core::ports::records::{Record, RecordKind};
use landfall_core::ports::store::{Kept, TxRecord};
use landfall_core::transaction::{Reason, ReasonCode, TxState};
use landfall_core::view::Receipt;
use landfall_core::{Account, LaneId, TxHash};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::error::{REJECTED, RpcError};
use super::super::params::{Params, hex};
use super::super::{Asker, pass};
use super::{LONGEST_ID, MOST, key, record_id};
use crate::access::turn_to_look;
use crate::problem::quoted;

const UNKNOWN_ID: i64 = 5730;
/// Nodes that have thrown old history away answer so.
const PRUNED: i64 = 4444;

/// How one call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It may still land or not. So may one that is not stored: it is being handed over, or whoever hands the same over again adds it.
    Open,
    /// In a block, and it did what was asked.
    Landed,
    /// The same, for good.
    Done,
    Reverted,
    /// Nothing of it landed, for good.
    Nothing,
}

/// One call, as the store has it.
#[derive(Debug)]
struct Call {
    fate: Fate,
    trace: Option<Trace>,
}

/// By what a call that landed is found on the chain.
#[derive(Debug)]
enum Trace {
    Receipt(Receipt),
    /// The receipt is stored no more, or never was.
    Hash(TxHash),
}

/// A receipt as a node shows it, as much as is used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(default)]
    logs: Value,
    transaction_hash: TxHash,
    block_hash: Option<B256>,
    #[serde(default)]
    block_number: Value,
    #[serde(default)]
    gas_used: Value,
}

pub(in crate::rpc) async fn status(asker: &Asker, params: Value) -> Result<Value, RpcError> {
    let id = Params::of(params)?.text("the id of calls")?;
    let unknown = || {
        let text = format!("there are no calls with the id {} here", quoted(&id));
        RpcError::coded(UNKNOWN_ID, text, "not_found")
    };
    if id.len() > LONGEST_ID {
        return Err(unknown());
    }
    let (from, record) = find(asker, &id).await?.ok_or_else(unknown)?;
    let count = record.get("calls").and_then(Value::as_u64).unwrap_or_default();
    let (mut fates, mut receipts) = (Vec::new(), Vec::new());
    for position in 0..usize::try_from(count).unwrap_or(MOST) {
        let call = stored(asker, from, &id, position).await?;
        let shown = match &call.trace {
            Some(trace) => shown(asker, trace.hash()).await?,
            None => None,
        };
        let (fate, receipt) = call.told(shown);
        receipts.extend(receipt);
        fates.push(fate);
    }
    Ok(json!({
        "version": "2.0.0",
        "id": id,
        "chainId": hex(asker.chain.0),
        "status": number(&fates),
        "atomic": count == 1,
        "receipts": receipts,
    }))
}

/// The calls with this id, of an account that the caller sees.
async fn find(asker: &Asker, id: &str) -> Result<Option<(Account, Value)>, RpcError> {
    let lanes = asker.app.handle.parts().signers.keys();
    let seen = lanes.filter(|lane| lane.chain == asker.chain && asker.caller.sees_lane(**lane));
    let mut found = None;
    for LaneId { signer, .. } in seen {
        let record = asker.app.records.record(RecordKind::Calls, &record_id(*signer, id)).await?;
        let of_chain =
            |record: &Record| record.body.get("chainId").and_then(Value::as_u64) == Some(asker.chain.0);
        let Some(record) = record.filter(of_chain) else { continue };
        if found.replace((*signer, record.body)).is_some() {
            let text =
                format!("several accounts have calls with the id {id:?}; ask with a key for one of them");
            return Err(RpcError::coded(REJECTED, text, "request_id_reused"));
        }
    }
    Ok(found)
}

async fn stored(asker: &Asker, from: Account, id: &str, position: usize) -> Result<Call, RpcError> {
    let (store, key) = (asker.app.handle.store(), key(id, position)?);
    let _turn = turn_to_look(&asker.app, &asker.caller).await?;
    if let Some(record) = store.tx_by_request(from, &key).await? {
        return Ok(Call::of(&record));
    }
    // Its history may have been removed: what it ended as stays.
    let kept = store.kept_by_request(from, &key).await?;
    Ok(kept.as_ref().map_or(Call { fate: Fate::Open, trace: None }, Call::of_kept))
}

impl Call {
    fn of(record: &TxRecord) -> Self {
        let status = &record.tx.status;
        // Its own no-op took the nonce: of the call nothing landed.
        let is_no_op = |hash| record.attempts.iter().any(|attempt| attempt.hash == hash && attempt.no_op);
        let receipt = status.receipt.as_ref().filter(|receipt| !is_no_op(receipt.hash));
        let carried_out_by = record.carried_out_by();
        // A reorganisation took back what was final, and its bytes are sent again.
        let is_reopened = status.won.is_some() && status.receipt.is_none() && carried_out_by.is_none();
        let fate = match (status.state, receipt.map(|receipt| receipt.success)) {
            _ if is_reopened => Fate::Open,
            (TxState::Confirmed, None | Some(true)) => Fate::Done,
            (TxState::Reverted, None | Some(false)) => Fate::Reverted,
            // One that had ended otherwise may land after a reorganisation.
            (_, Some(true)) => Fate::Landed,
            (TxState::Failed | TxState::Cancelled | TxState::Expired, None) => {
                ended(status.reason.as_ref(), status.may_have_landed())
            }
            _ => Fate::Open,
        };
        let trace = receipt.cloned().map(Trace::Receipt).or(carried_out_by.map(Trace::Hash));
        Self { fate, trace }
    }

    fn of_kept(kept: &Kept) -> Self {
        let fate = match kept.state {
            TxState::Confirmed => Fate::Done,
            TxState::Reverted => Fate::Reverted,
            TxState::Failed | TxState::Cancelled | TxState::Expired => ended(kept.reason.as_ref(), false),
            _ => Fate::Open,
        };
        let landed = matches!(kept.state, TxState::Confirmed | TxState::Reverted);
        Self { fate, trace: kept.hash.filter(|_| landed).map(Trace::Hash) }
    }

    /// How it stands, and its receipt, by what a node shows of it. The logs of one that is not final are waited for.
    fn told(&self, shown: Option<Shown>) -> (Fate, Option<Value>) {
        let receipt = self.trace.as_ref().and_then(|trace| receipt(self.fate, trace, shown));
        let waits = self.fate == Fate::Landed && receipt.is_none();
        (if waits { Fate::Open } else { self.fate }, receipt)
    }
}

/// How one stands that has ended without a block of its own. After a restore of the store it may be what was paid before.
fn ended(reason: Option<&Reason>, may_have_landed: bool) -> Fate {
    if reason.is_some_and(|reason| reason.code == ReasonCode::LandedBefore) {
        return Fate::Done;
    }
    if may_have_landed { Fate::Open } else { Fate::Nothing }
}

impl Trace {
    fn hash(&self) -> TxHash {
        match self {
            Self::Receipt(receipt) => receipt.hash,
            Self::Hash(hash) => *hash,
        }
    }
}

/// The number of EIP-5792.
fn number(fates: &[Fate]) -> u16 {
    let is = |fate: Fate| move |other: &Fate| *other == fate;
    if fates.is_empty() || fates.iter().any(is(Fate::Open)) {
        100
    } else if fates.iter().all(|fate| matches!(fate, Fate::Landed | Fate::Done)) {
        200
    } else if fates.iter().any(is(Fate::Landed)) {
        100
    } else if fates.iter().any(is(Fate::Done)) {
        600
    } else if fates.iter().any(is(Fate::Reverted)) {
        500
    } else {
        400
    }
}

/// As much of a receipt as EIP-5792 names. A node that shows none, or another block, has no logs to give: of what is final the rest is
/// told without them.
fn receipt(fate: Fate, trace: &Trace, shown: Option<Shown>) -> Option<Value> {
    let status = |success: bool| if success { "0x1" } else { "0x0" };
    let shown = shown.filter(|shown| shown.logs.is_array() && shown.transaction_hash == trace.hash());
    match trace {
        Trace::Receipt(receipt) => {
            let shown = shown.filter(|shown| shown.block_hash == Some(receipt.block.hash));
            let is_final = matches!(fate, Fate::Done | Fate::Reverted);
            let logs = shown.map(|shown| shown.logs).or(is_final.then(|| json!([])))?;
            Some(json!({
                "logs": logs,
                "status": status(receipt.success),
                "blockHash": receipt.block.hash,
                "blockNumber": hex(receipt.block.number),
                "gasUsed": hex(receipt.gas_used.0),
                "transactionHash": receipt.hash,
            }))
        }
        Trace::Hash(hash) => shown.map(|shown| {
            json!({
                "logs": shown.logs,
                "status": status(fate == Fate::Done),
                "blockHash": shown.block_hash,
                "blockNumber": shown.block_number,
                "gasUsed": shown.gas_used,
                "transactionHash": hash,
            })
        }),
    }
}

async fn shown(asker: &Asker, hash: TxHash) -> Result<Option<Shown>, RpcError> {
    let method = "eth_getTransactionReceipt";
    match pass::read(asker, method, &json!([hash])).await {
        Ok(shown) => serde_json::from_value(shown).map_err(|error| pass::unreadable(method, &error)),
        Err(error) if error.code == PRUNED => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
