//! Sealed bytes are what they were drafted to be, as another implementation reads them.

use alloy_consensus::transaction::SignerRecoverable;
use alloy_consensus::{Transaction, TxEnvelope};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{B256, U256, keccak256};
use landfall_chain::evm::EvmCodec;
use landfall_core::fees::Fees;
use landfall_core::ports::chain::Codec;
use landfall_core::ports::signer::Signer;
use landfall_core::request::AccessItem;
use landfall_core::{Account, Gas, Price, Slot, Wei};
use proptest::prelude::*;

use crate::harness::{BOB, signer, transfer};

fn fees() -> impl Strategy<Value = Fees> {
    prop_oneof![
        any::<u64>().prop_map(|price| Fees::Legacy { gas_price: Price(u128::from(price)) }),
        (any::<u64>(), any::<u64>()).prop_map(|(cap, tip)| Fees::Dynamic {
            max_fee: Price(u128::from(cap.max(tip))),
            tip: Price(u128::from(tip.min(cap))),
        }),
    ]
}

proptest! {
    #[test]
    fn sealed_bytes_decode_to_the_draft_and_recover_to_the_signer(
        fees in fees(),
        slot in 0..u64::MAX,
        gas in any::<u64>(),
        value in any::<u128>(),
        data in prop::collection::vec(any::<u8>(), 0..200),
        create in any::<bool>(),
        storage in prop::option::of(any::<[u8; 32]>()),
    ) {
        let mut draft = transfer(0, fees);
        draft.slot = Slot(slot);
        draft.gas = Gas(gas);
        draft.call.value = Wei(U256::from(value));
        draft.call.data = data.into();
        if create {
            draft.call.to = None;
        }
        if let Some(key) = storage {
            draft.call.access_list =
                vec![AccessItem { address: Account(BOB), storage_keys: vec![B256::from(key)] }];
        }
        let preimage = EvmCodec.preimage(&draft);
        prop_assert_eq!(preimage.digest, keccak256(&preimage.bytes));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let signature = runtime.block_on(signer().sign(vec![preimage])).remove(0).unwrap();
        let sealed = EvmCodec.seal(&draft, &signature);
        prop_assert_eq!(sealed.hash.0, keccak256(&sealed.raw));

        let read = TxEnvelope::decode_2718_exact(&sealed.raw).unwrap();
        prop_assert_eq!(read.recover_signer().unwrap(), signer().account().0);
        prop_assert_eq!(read.chain_id(), Some(31_337));
        prop_assert_eq!(read.nonce(), slot);
        prop_assert_eq!(read.gas_limit(), gas);
        prop_assert_eq!(read.value(), U256::from(value));
        prop_assert_eq!(read.input(), &draft.call.data);
        prop_assert_eq!(read.to(), draft.call.to.map(|to| to.0));
        let kind = match (fees, storage) {
            (Fees::Legacy { .. }, None) => 0,
            (Fees::Legacy { .. }, Some(_)) => 1,
            (Fees::Dynamic { .. }, _) => 2,
        };
        prop_assert_eq!(read.tx_type() as u8, kind);
        prop_assert_eq!(read.max_fee_per_gas(), fees.cap().0);
        prop_assert_eq!(read.access_list().map_or(0, |list| list.0.len()), usize::from(storage.is_some()));
    }
}

/// How many damaged transactions are read: some in every test run, a million in `cargo xtask test --all`.
fn inputs() -> u64 {
    std::env::var("LANDFALL_FUZZ_INPUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(5_000)
}

#[tokio::test]
async fn whatever_bytes_come_as_a_signed_transaction_are_read_or_refused() {
    let mut good = Vec::new();
    for fees in [Fees::Legacy { gas_price: Price(7) }, Fees::Dynamic { max_fee: Price(9), tip: Price(2) }] {
        let draft = transfer(3, fees);
        let signature = signer().sign(vec![EvmCodec.preimage(&draft)]).await.remove(0).unwrap();
        good.push(EvmCodec.seal(&draft, &signature).raw.to_vec());
    }
    let mut state = 1_u64;
    let mut choose = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end.max(1)
    };
    let mut taken = 0_u64;
    for _ in 0..inputs() {
        let mut bytes = good[choose(good.len())].clone();
        for _ in 0..choose(4) {
            let at = choose(bytes.len());
            match choose(4) {
                0 if at < bytes.len() => bytes[at] ^= 1 << choose(8),
                1 => bytes.insert(at, choose(256) as u8),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        if let Ok(read) = EvmCodec.read(&bytes) {
            taken += 1;
            // Whatever is taken has the hash by which the chain will know it.
            assert_eq!(read.hash.0, keccak256(&bytes));
        }
    }
    assert!(taken > inputs() / 10 && taken < inputs(), "{taken}");
}
