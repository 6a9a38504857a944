//! What a caller asks for: the payload, the options, and the fingerprint that tells two requests apart.
//!
//! Values here are decoded and valid in form. What needs the configuration or the chain (a known signer, the block
//! gas limit) is checked by the engine's admission; JSON shapes belong to the server.

use std::sync::Arc;

use alloy_primitives::{B256, Bytes, U256, keccak256};
use serde::{Deserialize, Serialize};

use crate::{
    Account, ApiKeyId, CallerNonce, ChainId, Fingerprint, Gas, LaneId, Millis, Origin, Price, RequestId,
    Slot, TxId, Wei,
};

/// One thing to do on chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload {
    /// Absent: create a contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Account>,
    #[serde(default)]
    pub value: Wei,
    #[serde(default, skip_serializing_if = "no_bytes")]
    pub data: Bytes,
    /// Absent: estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas: Option<Gas>,
    #[serde(default, skip_serializing_if = "AskedFees::is_market")]
    pub fees: AskedFees,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_list: Vec<AccessItem>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorization_list: Vec<Authorization>,
}

impl Payload {
    /// The sender delegates its own code with it: the chain then uses up the slot after the transaction's as well.
    #[must_use]
    pub fn authorizes_sender(&self) -> bool {
        self.authorization_list.iter().any(|item| item.signed.is_none())
    }

    /// The delegation of the sender's own code, in words, for the person who is asked.
    #[must_use]
    pub fn delegation(&self, sender: Account) -> Option<String> {
        let item = self.authorization_list.iter().find(|item| item.signed.is_none())?;
        Some(match item.address.0.is_zero() {
            true => format!("takes the delegation of {sender} back"),
            false => {
                format!(
                    "lets the code at {} act for {sender}: it can spend all that account has",
                    item.address
                )
            }
        })
    }

    /// About how many bytes it takes in the store, rather too many than too few.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        const ENVELOPE: u64 = 256;
        const ADDRESS: u64 = 80;
        const STORAGE_KEY: u64 = 70;
        const OWN_AUTHORIZATION: u64 = 112;
        const SIGNED_AUTHORIZATION: u64 = 320;
        let data = 2 * self.data.len() as u64;
        let keys: usize = self.access_list.iter().map(|item| item.storage_keys.len()).sum();
        let authorizations = self.authorization_list.iter().map(|item| match item.signed {
            None => OWN_AUTHORIZATION,
            Some(_) => SIGNED_AUTHORIZATION,
        });
        let access = ADDRESS * self.access_list.len() as u64 + STORAGE_KEY * keys as u64;
        ENVELOPE + data + access + authorizations.sum::<u64>()
    }

    /// Both do the same on chain. Gas, fees and announced storage are no part of that: a retry may be dearer.
    #[must_use]
    pub fn does_the_same(&self, other: &Self) -> bool {
        let parts = |payload: &Self| (payload.to, payload.value);
        parts(self) == parts(other)
            && self.data == other.data
            && self.authorization_list == other.authorization_list
    }

    /// One number for what it does on chain: the same for contents that do the same, and for no others. It is stored, so it
    /// must never change.
    #[must_use]
    pub fn effect(&self) -> Fingerprint {
        let mut bytes = Vec::with_capacity(64 + self.data.len());
        bytes.push(u8::from(self.to.is_some()));
        bytes.extend_from_slice(self.to.map(|to| to.0).unwrap_or_default().as_slice());
        bytes.extend_from_slice(&self.value.0.to_be_bytes::<32>());
        bytes.extend_from_slice(&(self.data.len() as u64).to_be_bytes());
        bytes.extend_from_slice(&self.data);
        for item in &self.authorization_list {
            bytes.push(u8::from(item.chain.is_some()));
            bytes.extend_from_slice(&item.chain.map_or(0, |chain| chain.0).to_be_bytes());
            bytes.extend_from_slice(item.address.0.as_slice());
            bytes.push(u8::from(item.signed.is_some()));
            if let Some(signed) = &item.signed {
                bytes.extend_from_slice(&signed.count.0.to_be_bytes());
                bytes.extend_from_slice(&signed.r.to_be_bytes::<32>());
                bytes.extend_from_slice(&signed.s.to_be_bytes::<32>());
                bytes.push(u8::from(signed.y_parity));
            }
        }
        Fingerprint(keccak256(bytes))
    }
}

/// An account's word that its code may be that of another (EIP-7702).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// None: on any chain if it is signed by another account, and on the lane's if the sender itself is to sign it.
    pub chain: Option<ChainId>,
    /// Whose code it is to be; zero takes a delegation back.
    pub address: Account,
    /// Absent: by the sender itself, signed by its key when the slot is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignedAuthorization>,
}

/// The account's count that it holds for, and the account's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedAuthorization {
    pub count: Slot,
    pub r: U256,
    pub s: U256,
    pub y_parity: bool,
}

/// The first price a caller asks for; the ladder may rise above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AskedFees {
    /// By the chain's fee history and the speed.
    #[default]
    Market,
    /// A legacy transaction, with a price or the market's.
    #[serde(rename_all = "camelCase")]
    Legacy { gas_price: Option<Price> },
    /// An EIP-1559 transaction with either fee given.
    #[serde(rename_all = "camelCase")]
    Dynamic { max_fee: Option<Price>, tip: Option<Price> },
}

impl AskedFees {
    fn is_market(&self) -> bool {
        matches!(self, Self::Market)
    }

    /// The dearer of the two in each part. A cap below the tip would be no price, so the cap follows.
    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        let parts = |fees: Self| match fees {
            Self::Market => (None, None),
            Self::Legacy { gas_price } => (gas_price, None),
            Self::Dynamic { max_fee, tip } => (max_fee, tip),
        };
        let ((cap, tip), (more_cap, more_tip)) = (parts(self), parts(other));
        let (cap, tip) = (cap.max(more_cap), tip.max(more_tip));
        match self {
            Self::Legacy { .. } => Self::Legacy { gas_price: cap.max(tip) },
            Self::Market if cap.is_none() && tip.is_none() => Self::Market,
            Self::Market | Self::Dynamic { .. } => {
                Self::Dynamic { max_fee: cap.map(|cap| cap.max(tip.unwrap_or_default())), tip }
            }
        }
    }
}

/// Storage that a transaction announces (EIP-2930).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessItem {
    pub address: Account,
    pub storage_keys: Vec<B256>,
}

/// How fast it should land: which percentile of recent tips is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    Slow,
    #[default]
    Normal,
    Fast,
}

/// When a mined transaction is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finality {
    /// This many blocks on top of the including one.
    Blocks(u64),
    /// The chain's `safe` block has reached it.
    Safe,
    /// The chain's `finalized` block has reached it.
    Finalized,
}

impl Finality {
    /// The chain's own word for a block, where it is one.
    #[must_use]
    pub fn tag(self) -> Option<&'static str> {
        match self {
            Self::Blocks(_) => None,
            Self::Safe => Some("safe"),
            Self::Finalized => Some("finalized"),
        }
    }
}

/// What becomes of a transaction whose slot was provably taken by a foreign one (E11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisplaced {
    Requeue,
    Fail,
}

/// What becomes of a mined transaction whose block was replaced (F9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnReorg {
    /// The same bytes go out again for the same slot.
    #[default]
    Resend,
    /// Its slot gets a no-op; once that is final the transaction goes through the checks again, for a new slot.
    Cancel,
}

/// What becomes of a transaction that the account cannot pay for (E16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInsufficientFunds {
    #[default]
    Hold,
    Fail,
}

/// What another transaction must have come to before this one is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterState {
    #[default]
    Confirmed,
    /// In a block; it may still be reorganised away.
    Mined,
}

/// What becomes of a transaction when the one it was to follow does not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    #[default]
    Cancel,
    Hold,
}

/// The transaction that this one is to follow, in whatever lane of whatever chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct After {
    pub tx: TxId,
    #[serde(default, skip_serializing_if = "is_default")]
    pub state: AfterState,
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
}

/// How a transaction is to be carried. Every field has a default and is left out when unset, so that a field added
/// later does not change the fingerprints of requests made before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    #[serde(skip_serializing_if = "is_default")]
    pub speed: Speed,
    /// The most that any attempt may offer per gas; the chain's ceiling applies as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fee_per_gas: Option<Price>,
    /// Judged by block time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finality: Option<Finality>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_displaced: Option<OnDisplaced>,
    #[serde(skip_serializing_if = "is_default")]
    pub on_reorg: OnReorg,
    #[serde(skip_serializing_if = "is_default")]
    pub on_insufficient_funds: OnInsufficientFunds,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
    /// The caller's own JSON, handed back with it: at most 4 KB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
}

fn no_bytes(data: &Bytes) -> bool {
    data.as_ref().is_empty()
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The identity of a call in its lane, for as long as its transaction is known: the nonce that the caller gave, which need
/// not be that of the slot, and the API key that the call came with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallId {
    /// None where callers need no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<ApiKeyId>,
    pub nonce: CallerNonce,
}

impl CallId {
    /// The same call as it was stored before its caller had a key: by an earlier version, which stored none, or by a server that was
    /// open. Where keys are asked for, nobody can have made a call without one since. So a caller with a key that asks for what such a
    /// call did is taken to repeat it; whoever asks for something else makes a call of their own.
    #[must_use]
    pub fn before_keys(&self) -> Option<Self> {
        self.api_key.as_ref().map(|_| Self { api_key: None, nonce: self.nonce })
    }
}

/// Its caller waits for its hash (`eth_sendTransaction`): it gets slot and bytes as soon as its checks have passed, however
/// many are out. It is no part of the fingerprint: what is asked for is the same, whichever way it came.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "AtOnceFields", into = "AtOnceFields")]
pub struct AtOnce {
    /// Absent where the caller gave no nonce: then nothing tells a retry from another call.
    pub call: Option<CallId>,
}

/// [`AtOnce`] as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AtOnceFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nonce: Option<CallerNonce>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_key: Option<ApiKeyId>,
}

impl From<AtOnceFields> for AtOnce {
    fn from(AtOnceFields { nonce, api_key }: AtOnceFields) -> Self {
        Self { call: nonce.map(|nonce| CallId { api_key, nonce }) }
    }
}

impl From<AtOnce> for AtOnceFields {
    fn from(at_once: AtOnce) -> Self {
        match at_once.call {
            Some(CallId { api_key, nonce }) => Self { nonce: Some(nonce), api_key },
            None => Self { nonce: None, api_key: None },
        }
    }
}

/// A request as it is stored, once and unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    pub payload: Payload,
    #[serde(default)]
    pub options: Options,
    pub fingerprint: Fingerprint,
    pub accepted_at: Millis,
    /// The ended transaction that this one does again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<TxId>,
    /// Its caller waits for its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<AtOnce>,
    /// Who asked for it first. None in requests that were stored before it was.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::origin::shared")]
    pub origin: Option<Arc<Origin>>,
}

impl Request {
    /// The identity of the call that it came with, if its caller gave a nonce.
    #[must_use]
    pub fn call(&self) -> Option<&CallId> {
        self.at_once.as_ref()?.call.as_ref()
    }
}

/// A transaction on its way into the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTransaction {
    pub id: TxId,
    pub lane: LaneId,
    pub request: Request,
}

/// One number for what is asked: chain, payload and options, by decoded value.
///
/// The signer is not part of it: it is part of the key itself.
pub fn fingerprint(
    lane: &LaneId,
    payload: &Payload,
    options: &Options,
) -> Result<Fingerprint, serde_json::Error> {
    let text = serde_json::to_vec(&(lane.chain, payload, options))?;
    Ok(Fingerprint(keccak256(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Address;

    fn lane(chain: u64) -> LaneId {
        LaneId { chain: ChainId(chain), signer: Account(Address::ZERO) }
    }

    #[test]
    fn the_fingerprint_covers_chain_payload_and_options() {
        let payload = Payload { value: Wei(U256::from(1)), ..Payload::default() };
        let options = Options::default();
        let base = fingerprint(&lane(1), &payload, &options).unwrap();
        assert_eq!(base, fingerprint(&lane(1), &payload.clone(), &options).unwrap());
        assert_ne!(base, fingerprint(&lane(2), &payload, &options).unwrap());
        let dearer = Payload { value: Wei(U256::from(2)), ..payload.clone() };
        assert_ne!(base, fingerprint(&lane(1), &dearer, &options).unwrap());
        let address = Account(Address::ZERO);
        let delegates = Payload {
            authorization_list: vec![Authorization { chain: None, address, signed: None }],
            ..payload.clone()
        };
        assert_ne!(base, fingerprint(&lane(1), &delegates, &options).unwrap());
        let fast = Options { speed: Speed::Fast, ..options };
        assert_ne!(base, fingerprint(&lane(1), &payload, &fast).unwrap());
    }

    #[test]
    fn contents_that_do_the_same_have_the_same_effect_and_others_have_another() {
        let address = Account(Address::repeat_byte(1));
        let signed =
            SignedAuthorization { count: Slot(1), r: U256::from(2), s: U256::from(3), y_parity: true };
        let base = Payload {
            to: Some(address),
            value: Wei(U256::from(1)),
            data: Bytes::from_static(&[1, 2]),
            authorization_list: vec![Authorization { chain: None, address, signed: Some(signed) }],
            ..Payload::default()
        };
        let dearer = Payload {
            gas: Some(Gas(50_000)),
            fees: AskedFees::Legacy { gas_price: Some(Price::gwei(9)) },
            access_list: vec![AccessItem { address, storage_keys: Vec::new() }],
            ..base.clone()
        };
        assert!(base.does_the_same(&dearer));
        assert_eq!(base.effect(), dearer.effect());
        let list = |item: Authorization| vec![item];
        let others = [
            Payload { to: None, ..base.clone() },
            Payload { to: Some(Account(Address::repeat_byte(2))), ..base.clone() },
            Payload { value: Wei(U256::from(2)), ..base.clone() },
            Payload { data: Bytes::from_static(&[1, 2, 0]), ..base.clone() },
            Payload { authorization_list: Vec::new(), ..base.clone() },
            Payload {
                authorization_list: list(Authorization {
                    chain: Some(ChainId(0)),
                    address,
                    signed: Some(signed),
                }),
                ..base.clone()
            },
            Payload {
                authorization_list: list(Authorization { chain: None, address, signed: None }),
                ..base.clone()
            },
        ];
        let mut effects = vec![base.effect()];
        for other in others {
            assert!(!base.does_the_same(&other), "{other:?}");
            assert!(!effects.contains(&other.effect()), "{other:?}");
            effects.push(other.effect());
        }
    }

    #[test]
    fn a_call_is_read_from_requests_that_were_stored_before_keys_were() {
        let read = |text: &str| serde_json::from_str::<AtOnce>(text).unwrap().call;
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"nonce":5}"#), Some(CallId { api_key: None, nonce: CallerNonce(5) }));
        let keyed = CallId { api_key: Some(ApiKeyId("k".to_owned())), nonce: CallerNonce(5) };
        let text = serde_json::to_string(&AtOnce { call: Some(keyed.clone()) }).unwrap();
        assert_eq!(read(&text), Some(keyed));
        assert_eq!(serde_json::to_string(&AtOnce::default()).unwrap(), "{}");
    }

    /// Fingerprints are stored, and a request that is made again is known by its own.
    #[test]
    fn the_fingerprint_of_a_request_is_the_one_it_always_had() {
        let payload = Payload {
            to: Some(Account(Address::repeat_byte(7))),
            value: Wei(U256::from(1_000_000)),
            data: Bytes::from_static(&[1, 2, 3]),
            ..Payload::default()
        };
        let options = Options { deadline: Some(Millis(5)), ..Options::default() };
        let golden = fingerprint(&lane(31_337), &payload, &options).unwrap();
        assert_eq!(
            golden.0.to_string(),
            "0x908b9db8deb4650a2c62126ca28f305790b44e61620930257d8e291d524c4c04"
        );
    }

    #[test]
    fn a_request_says_who_asked_and_one_from_before_that_says_nothing() {
        let request = Request {
            request_id: None,
            payload: Payload::default(),
            options: Options::default(),
            fingerprint: Fingerprint(B256::ZERO),
            accepted_at: Millis(1),
            retry_of: None,
            at_once: None,
            origin: None,
        };
        let text = serde_json::to_string(&request).unwrap();
        assert!(!text.contains("origin"), "{text}");
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        let origin = Origin { key: Some("a".into()), name: "shop".into(), address: None };
        let asked = Request { origin: Some(Arc::new(origin)), ..request };
        let text = serde_json::to_string(&asked).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), asked);
    }

    #[test]
    fn unset_options_leave_no_trace_in_what_is_hashed() {
        assert_eq!(serde_json::to_string(&Options::default()).unwrap(), "{}");
    }
}
