//! The first send of what callers signed themselves: what is known of its sender, and what a node's answer means.

use std::collections::BTreeSet;

use landfall_core::outcome::{SendOutcome, SendReport};
use landfall_core::ports::chain::SignedTx;
use landfall_core::view::ChainView;
use landfall_core::{Account, Slot};
use serde_json::json;

use super::error::{INVALID_INPUT, RpcError, UNAVAILABLE};
use super::params::quantity;
use super::{Asker, look, pass};

/// The account's count at the head. The engine's own question: what a viewer asks cannot hold it up.
pub(super) async fn count(asker: &Asker, view: &ChainView, account: Account) -> Result<Slot, RpcError> {
    if let Some(count) = look::known(view, account) {
        return Ok(count);
    }
    match asker.adapter.counts(&[account], &view.head.at).await.as_deref() {
        Ok([count]) => Ok(*count),
        Ok(_) | Err(_) => look::counted_now(asker, account).await,
    }
}

/// The account's count with what a node's pool holds.
pub(super) async fn pending(asker: &Asker, account: Account) -> Option<Slot> {
    let asked = pass::read(asker, "eth_getTransactionCount", &json!([account.0, "pending"])).await.ok()?;
    asked.as_str().and_then(quantity).map(Slot)
}

/// Whether the sender could pay for it now: what nobody can send is not held.
pub(super) async fn can_pay(asker: &Asker, view: &ChainView, signed: &SignedTx) -> Result<(), RpcError> {
    let balance = match asker.adapter.balances(&[signed.from], &view.head.at).await.as_deref() {
        Ok([balance]) => *balance,
        Ok(_) | Err(_) => {
            let text = format!(
                "a lower nonce of {} is missing, and its balance, which must cover what is held back, could not be read; nothing \
                 was kept: send it again",
                signed.from
            );
            return Err(RpcError::coded(UNAVAILABLE, text, "chain_unavailable"));
        }
    };
    if balance >= signed.most {
        return Ok(());
    }
    let text = format!(
        "insufficient funds for gas * price + value: a lower nonce of {} is missing, and what is held back until it comes must be \
         covered: it needs up to {} wei, and there are {}; nothing was kept",
        signed.from, signed.most.0, balance.0
    );
    Err(RpcError::coded(INVALID_INPUT, text, "insufficient_funds"))
}

/// The lowest nonce from an account's count up that is not among these.
pub(super) fn gap(count: Slot, slots: Vec<Slot>) -> Slot {
    let slots: BTreeSet<Slot> = slots.into_iter().collect();
    let mut next = count;
    while slots.contains(&next) {
        next = Slot(next.0 + 1);
    }
    next
}

/// The meaning of a node's answer to the first send, for the caller: an error, or none where the bytes are kept and sent again.
pub(super) fn verdict(report: SendReport) -> Option<RpcError> {
    match report.outcome {
        SendOutcome::Accepted
        | SendOutcome::AlreadyKnown
        | SendOutcome::NonceTooHigh
        | SendOutcome::AccountLimit
        | SendOutcome::PoolFull
        | SendOutcome::Endpoint
        | SendOutcome::Unknown => None,
        SendOutcome::NonceTooLow
        | SendOutcome::ReplacementUnderpriced
        | SendOutcome::Underpriced
        | SendOutcome::FeeBelowBase
        | SendOutcome::InsufficientFunds
        | SendOutcome::Invalid
        | SendOutcome::Reverted
        | SendOutcome::NodePolicy
        | SendOutcome::NeverIncludable => {
            let text = report.text.unwrap_or_else(|| report.outcome.name().to_owned());
            Some(RpcError::coded(report.code.unwrap_or(INVALID_INPUT), text, report.outcome.name()))
        }
    }
}
