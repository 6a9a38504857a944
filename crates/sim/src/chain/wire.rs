//! Bytes that stand for signed transactions: readable, and as unforgeable as a simulation needs.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use landfall_core::attempt::{Draft, Sealed};
use landfall_core::ports::chain::Codec;
use landfall_core::ports::signer::{Preimage, Signature};
use landfall_core::request::Authorization;
use landfall_core::{Account, ChainId, TxHash};
use serde::{Deserialize, Serialize};

/// What a request's data says: whose it is, and how often it was replaced before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content {
    pub(crate) marker: u64,
    pub(crate) replaced: u8,
}

impl Content {
    const SHIFT: u32 = 56;

    #[must_use]
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let number = u64::from_be_bytes(data.try_into().ok()?);
        let replaced = u8::try_from(number >> Self::SHIFT).unwrap_or(u8::MAX);
        Some(Self { marker: number & ((1 << Self::SHIFT) - 1), replaced })
    }

    #[must_use]
    pub(crate) fn data(self) -> Bytes {
        (self.marker | u64::from(self.replaced) << Self::SHIFT).to_be_bytes().to_vec().into()
    }
}

/// What one byte string says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wire {
    pub(crate) chain: ChainId,
    pub(crate) from: Account,
    pub(crate) nonce: u64,
    pub(crate) data: Bytes,
    pub(crate) value: U256,
    pub(crate) gas: u64,
    pub(crate) cap: u128,
    pub(crate) tip: u128,
    /// The sender delegates its own code with it, or takes the delegation back (EIP-7702): the slot after is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delegates: Option<bool>,
}

impl Wire {
    fn of(draft: &Draft) -> Self {
        Self {
            chain: draft.lane.chain,
            from: draft.lane.signer,
            nonce: draft.slot.0,
            data: draft.call.data.clone(),
            value: draft.call.value.0,
            gas: draft.gas.0,
            cap: draft.fees.cap().0,
            tip: draft.fees.tip().0,
            delegates: own_authorization(draft).map(|item| !item.address.0.is_zero()),
        }
    }

    #[must_use]
    pub(crate) fn bytes(&self) -> Bytes {
        serde_json::to_vec(self).map(Bytes::from).unwrap_or_default()
    }

    #[must_use]
    pub(crate) fn read(raw: &[u8]) -> Option<Self> {
        serde_json::from_slice(raw).ok()
    }

    #[must_use]
    pub(crate) fn hash(&self) -> TxHash {
        TxHash(keccak256(self.bytes()))
    }

    /// Which request this carries out, and which content of it; none for a no-op.
    #[must_use]
    pub(crate) fn content(&self) -> Option<Content> {
        Content::read(&self.data)
    }

    /// The sender's own delegation, as a block shows it.
    pub(crate) fn authorizations(&self) -> Vec<Authorization> {
        let own = |on| Authorization {
            chain: None,
            address: if on { self.from } else { Account(Address::ZERO) },
            signed: None,
        };
        self.delegates.map(own).into_iter().collect()
    }

    /// Somebody else made it with our key: it carries no request, and is no no-op.
    #[must_use]
    pub(crate) fn is_strangers(&self) -> bool {
        self.content().is_none() && !self.value.is_zero()
    }

    /// The most it can cost.
    #[must_use]
    pub(crate) fn cost(&self) -> U256 {
        U256::from(self.cap).saturating_mul(U256::from(self.gas)).saturating_add(self.value)
    }
}

/// The codec of simulated chains.
pub(crate) struct WireCodec;

/// The sender's own word in a draft.
fn own_authorization(draft: &Draft) -> Option<&Authorization> {
    let by_sender =
        |item: &&Authorization| item.signed.is_none_or(|signed| signed.count == draft.slot.next());
    draft.call.authorization_list.iter().find(by_sender)
}

impl Codec for WireCodec {
    fn preimage(&self, draft: &Draft) -> Preimage {
        let bytes = Wire::of(draft).bytes();
        Preimage { digest: keccak256(&bytes), bytes }
    }

    fn authorization(&self, draft: &Draft) -> Option<Preimage> {
        let word = own_authorization(draft)?;
        let bytes = format!("{} at {}", word.address, draft.slot.next()).into_bytes();
        Some(Preimage { digest: keccak256(&bytes), bytes: bytes.into() })
    }

    fn seal(&self, draft: &Draft, _signature: &Signature) -> Sealed {
        let raw = Wire::of(draft).bytes();
        Sealed { hash: TxHash(B256::from(keccak256(&raw))), raw }
    }
}
