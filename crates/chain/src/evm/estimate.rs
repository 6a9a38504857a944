//! How much gas calls need, or why they cannot be done; one batch for all. That they cannot is said by an endpoint that has seen
//! the newest block, and borne out by a second one where one is up: a node alone ends no transaction by a lie.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use landfall_core::Gas;
use landfall_core::attempt::Call;
use landfall_core::outcome::SendOutcome;
use landfall_core::ports::chain::EstimateFailure;
use landfall_core::request::Authorization;
use serde_json::{Value, json};

use super::classify::Verdict;
use super::endpoint::Endpoint;
use super::health::Standing;
use super::pool::Pool;
use super::revert;
use super::rpc::{Answer, Ask, Failure, NodeError, read_some};
use super::wire::{Quantity, hex};

/// How many endpoints must say no.
const WITNESSES: usize = 2;

type Estimate = Result<Gas, EstimateFailure>;

/// A gas allowance from here on is the node's own limit, not what the account can pay for.
const NODE_ALLOWANCE: u64 = 10_000_000;

/// Words of endpoints on one call.
#[derive(Default)]
struct Words {
    yes: Option<Gas>,
    /// A no of an endpoint that has seen the newest block.
    no: Option<EstimateFailure>,
    /// How many said no, also of those that are behind.
    nos: usize,
    /// An endpoint that is up gave no answer this time.
    lost: bool,
    /// Why there is no verdict.
    why: Option<String>,
}

/// Asks one endpoint after the other for those calls that there is no verdict on yet. A no ends a transaction: it needs two.
pub(super) async fn all(pool: &Pool, calls: &[Call]) -> Vec<Estimate> {
    let mut words: Vec<Words> = calls.iter().map(|_| Words::default()).collect();
    let mut why: Vec<(Arc<Endpoint>, Failure)> = Vec::new();
    for endpoint in pool.by_health() {
        let (asked, open): (Vec<&Call>, Vec<&mut Words>) =
            calls.iter().zip(&mut words).filter(|(_, words)| words.is_open()).unzip();
        if open.is_empty() {
            break;
        }
        let answers = match endpoint.vet().await {
            Ok(()) => ask(&endpoint, &asked).await,
            Err(failure) => {
                let is_lost = matches!(failure, Failure::Lost(_)) && is_up(&endpoint);
                open.into_iter().for_each(|words| words.lost |= is_lost);
                why.push((endpoint, failure));
                continue;
            }
        };
        for ((call, words), answer) in asked.into_iter().zip(open).zip(answers) {
            words.lost |= matches!(answer, Err(Failure::Lost(_))) && is_up(&endpoint);
            let own = own_authorization(call).map_or(0, |_| AUTHORIZATION_GAS);
            let estimate = judge(answer).map(|gas| Gas(gas.0.saturating_add(own)));
            words.take(estimate, pool.is_behind(&endpoint), pool.lags(&endpoint));
        }
    }
    let text = pool.none("estimate gas", &why).to_string();
    words.into_iter().map(|words| words.verdict(&text)).collect()
}

/// It is asked again for what it did not answer.
fn is_up(endpoint: &Endpoint) -> bool {
    endpoint.standing() != Standing::Resting
}

impl Words {
    fn is_open(&self) -> bool {
        self.yes.is_none() && (self.no.is_none() || self.nos < WITNESSES)
    }

    fn take(&mut self, estimate: Estimate, is_behind: bool, lags: bool) {
        match estimate {
            // It may not know what the other one said no to.
            Ok(_) if self.no.is_some() && lags => {}
            Ok(gas) => self.yes = Some(gas),
            Err(EstimateFailure::Unavailable { text }) => self.why = Some(text),
            Err(no) => {
                self.nos += 1;
                let waits = matches!(no, EstimateFailure::InsufficientFunds { .. });
                if self.no.is_some() {
                    // Of two that differ, the one that ends nothing.
                    self.no = self.no.take().map(|first| if waits { no } else { first });
                } else if is_behind {
                    self.why = Some(format!("{} (by an endpoint that is behind)", text_of(&no)));
                } else {
                    self.no = Some(no);
                }
            }
        }
    }

    /// One no is enough only where no other endpoint is up.
    fn verdict(self, nobody: &str) -> Estimate {
        match (self.yes, self.no) {
            (Some(gas), _) => Ok(gas),
            (None, Some(no)) if self.nos < WITNESSES && self.lost => {
                let text = format!("{} (by one endpoint, and another gave no answer)", text_of(&no));
                Err(EstimateFailure::Unavailable { text })
            }
            (None, Some(no)) => Err(no),
            (None, None) => {
                Err(EstimateFailure::Unavailable { text: self.why.unwrap_or_else(|| nobody.to_owned()) })
            }
        }
    }
}

fn text_of(failure: &EstimateFailure) -> &str {
    let (EstimateFailure::Reverted { reason: text }
    | EstimateFailure::InsufficientFunds { text }
    | EstimateFailure::Invalid { text }
    | EstimateFailure::Unavailable { text }) = failure;
    text
}

/// On top of what is pending; on top of the head where the endpoint has no pending block.
async fn ask(endpoint: &Endpoint, calls: &[&Call]) -> Vec<Answer> {
    let quirk = &endpoint.quirks.no_pending_estimate;
    if !quirk.load(Ordering::Relaxed) {
        let answers = batch(endpoint, calls, "pending").await;
        let refused = answers
            .iter()
            .any(|answer| matches!(answer, Err(Failure::Refused(error)) if refuses_pending(endpoint, error)));
        if !refused {
            return answers;
        }
        tracing::info!(endpoint = %endpoint.name, "endpoint does not estimate on the pending block; using latest");
        quirk.store(true, Ordering::Relaxed);
    }
    batch(endpoint, calls, "latest").await
}

fn refuses_pending(endpoint: &Endpoint, error: &NodeError) -> bool {
    error.verdict == Verdict::Unknown && endpoint.table().is_bad_parameter(error.code, &error.message)
}

async fn batch(endpoint: &Endpoint, calls: &[&Call], at: &str) -> Vec<Answer> {
    let asks: Vec<_> = calls.iter().map(|call| Ask::new("eth_estimateGas", params(call, at))).collect();
    endpoint.ask_all(&asks).await
}

fn params(call: &Call, at: &str) -> Value {
    match own_authorization(call) {
        Some(own) => {
            let code = if own.address.0.is_zero() {
                "0x".to_owned()
            } else {
                format!("0xef0100{:x}", own.address.0)
            };
            json!([request(call), at, { call.from.0.to_string(): { "code": code } }])
        }
        None => json!([request(call), at]),
    }
}

/// The sender's own authorization. It cannot be signed before the slot is known, so the estimate is made as if the
/// sender had that code already, and what the authorization itself costs is added.
fn own_authorization(call: &Call) -> Option<&Authorization> {
    call.authorization_list.iter().find(|item| item.signed.is_none())
}

/// What an authorization costs before anything else (EIP-7702).
const AUTHORIZATION_GAS: u64 = 25_000;

fn request(call: &Call) -> Value {
    let mut request = json!({
        "from": call.from.0,
        "value": format!("{:#x}", call.value.0),
        "data": call.data,
    });
    if let Some(to) = call.to {
        request["to"] = json!(to.0);
    }
    if !call.access_list.is_empty() {
        request["accessList"] = json!(call.access_list);
    }
    let signed: Vec<Value> = call.authorization_list.iter().filter_map(authorization).collect();
    if !signed.is_empty() {
        request["authorizationList"] = json!(signed);
    }
    request
}

fn authorization(item: &Authorization) -> Option<Value> {
    let signed = item.signed?;
    Some(json!({
        "chainId": hex(item.chain.map_or(0, |chain| chain.0)), "address": item.address.0, "nonce": hex(signed.count.0),
        "yParity": hex(signed.y_parity.into()), "r": signed.r, "s": signed.s,
    }))
}

fn judge(answer: Answer) -> Estimate {
    match answer.and_then(|raw| read_some::<Quantity>("eth_estimateGas", &raw)) {
        Ok(gas) => Ok(Gas(gas.as_u64())),
        Err(Failure::Refused(error)) => Err(refusal(&error)),
        Err(Failure::Lost(text) | Failure::Unreadable(text) | Failure::TurnedAway { text, .. }) => {
            Err(EstimateFailure::Unavailable { text })
        }
    }
}

fn refusal(error: &NodeError) -> EstimateFailure {
    let text = error.message.clone();
    if let Some(allowance) = allowance(&text) {
        return if allowance < NODE_ALLOWANCE {
            EstimateFailure::InsufficientFunds { text }
        } else {
            EstimateFailure::Reverted { reason: text }
        };
    }
    match error.verdict {
        Verdict::Outcome(SendOutcome::Reverted) => {
            EstimateFailure::Reverted { reason: revert::reason(error) }
        }
        Verdict::Outcome(SendOutcome::InsufficientFunds) => EstimateFailure::InsufficientFunds { text },
        Verdict::Outcome(SendOutcome::Invalid | SendOutcome::NeverIncludable) => {
            EstimateFailure::Invalid { text }
        }
        Verdict::Outcome(_) | Verdict::Endpoint(_) | Verdict::Unknown => {
            EstimateFailure::Unavailable { text }
        }
    }
}

/// The number in "gas required exceeds allowance (21000)" or "… allowance: 21000".
///
/// A small one is what the account's balance buys. A large one is the node's own limit: the call runs until its gas
/// is gone, which is how a failing assertion or an endless loop looks.
fn allowance(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("gas required exceeds allowance")?;
    let digits = rest.trim_start_matches(['(', ':', ' ']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evm::classify::Table;

    fn refused(message: &str, data: Option<Value>) -> EstimateFailure {
        let verdict = Table::load().unwrap().classify(Some(-32000), message);
        refusal(&NodeError { code: -32000, message: message.into(), data, verdict })
    }

    #[test]
    fn an_allowance_that_the_balance_sets_is_a_matter_of_funds() {
        let text = "gas required exceeds allowance (0)".to_owned();
        assert_eq!(refused(&text, None), EstimateFailure::InsufficientFunds { text: text.clone() });
        for text in [
            "gas required exceeds allowance (50000000)",
            "Out of gas: gas required exceeds allowance: 30000000",
        ] {
            assert_eq!(refused(text, None), EstimateFailure::Reverted { reason: text.to_owned() });
        }
    }

    #[test]
    fn verdicts_are_told_from_the_lack_of_one() {
        let funds = refused("insufficient funds for transfer", None);
        assert!(matches!(funds, EstimateFailure::InsufficientFunds { .. }), "{funds:?}");
        let invalid = refused("intrinsic gas too low: gas 1, minimum needed 21000", None);
        assert!(matches!(invalid, EstimateFailure::Invalid { .. }), "{invalid:?}");
        for text in ["what is this", "nonce too low", "header not found"] {
            let open = refused(text, None);
            assert!(matches!(open, EstimateFailure::Unavailable { .. }), "{open:?}");
        }
        let reverted = refused("execution reverted: insufficient funds", None);
        let reason = "execution reverted: insufficient funds".to_owned();
        assert_eq!(reverted, EstimateFailure::Reverted { reason });
    }
}
