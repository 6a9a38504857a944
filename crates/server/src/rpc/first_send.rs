//! The first send of what callers signed themselves: what is known of its sender, and what a node's answer means.

use std::collections::BTreeSet;

use alloy_primitives::U256;
use landfall_core::outcome::{SendOutcome, SendReport};
use landfall_core::ports::chain::SignedTx;
use landfall_core::view::ChainView;
use landfall_core::{Account, Slot, Wei};

use super::errand::Errands;
use super::error::{INVALID_INPUT, RpcError, UNAVAILABLE};
use super::look;

/// The account's count at the head.
pub(super) async fn count(
    errands: Errands<'_>,
    view: &ChainView,
    account: Account,
) -> Result<Slot, RpcError> {
    match look::known(view, account) {
        Some(count) => Ok(count),
        None => errands.count(account, &view.head.at).await,
    }
}

/// Whether the sender could pay for it now, at its own price and at the base fee: what nobody can send is not held, and an empty
/// account takes no place. A price below the base fee is none of this: that may fall.
pub(super) async fn can_pay(
    errands: Errands<'_>,
    view: &ChainView,
    signed: &SignedTx,
) -> Result<(), RpcError> {
    let balance = match errands.balance(signed.from, &view.head.at).await {
        Ok(balance) => balance,
        Err(_) => {
            let text = format!(
                "a lower nonce of {} is missing, and its balance, which must cover what is held back, could not be read; nothing \
                 was kept: send it again",
                signed.from
            );
            return Err(RpcError::coded(UNAVAILABLE, text, "chain_unavailable"));
        }
    };
    let base_fee = view.head.base_fee.or(view.fees.base_fee).unwrap_or_default();
    let least = U256::from(base_fee.0).saturating_mul(U256::from(signed.gas.0));
    let needed = signed.most.max(Wei(least));
    if balance >= needed {
        return Ok(());
    }
    let text = format!(
        "insufficient funds for gas * price + value: a lower nonce of {} is missing, and what is held back until it comes must be \
         covered: it needs up to {} wei, and there are {}; nothing was kept",
        signed.from, needed.0, balance.0
    );
    Err(RpcError::coded(INVALID_INPUT, text, "insufficient_funds"))
}

/// The lowest nonce from an account's count up that is not among these.
pub(super) fn gap(count: Slot, slots: &BTreeSet<Slot>) -> Slot {
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
