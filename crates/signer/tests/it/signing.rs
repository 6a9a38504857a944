//! What signatures are worth, checked by another implementation of the curve than the one that signs.

use alloy_primitives::{B256, Bytes, U256, uint};
use landfall_core::ports::signer::{Preimage, Signature, Signer};
use landfall_signer::LocalSigner;
use proptest::prelude::*;

use super::{FIRST, KEY, from_key};

/// Half the order of the curve: a larger `s` is refused by chains (EIP-2).
const HALF_ORDER: U256 = uint!(0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0_U256);

fn preimage(digest: [u8; 32]) -> Preimage {
    Preimage { bytes: Bytes::new(), digest: B256::from(digest) }
}

fn check(signer: &LocalSigner, digest: B256, signature: &Signature) {
    assert!(signature.s <= HALF_ORDER, "a high s");
    let given = alloy_primitives::Signature::new(signature.r, signature.s, signature.y_parity);
    assert_eq!(given.recover_address_from_prehash(&digest).unwrap(), signer.account().0);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

proptest! {
    #[test]
    fn a_signature_recovers_to_the_account_and_has_a_low_s(
        key in any::<[u8; 32]>(),
        digests in prop::collection::vec(any::<[u8; 32]>(), 1..8),
    ) {
        let Ok(signer) = from_key(&alloy_primitives::hex::encode(key)) else { return Ok(()) };
        let asked: Vec<_> = digests.into_iter().map(preimage).collect();
        let signatures = runtime().block_on(signer.sign(asked.clone()));
        for (request, signature) in asked.iter().zip(signatures) {
            check(&signer, request.digest, &signature.unwrap());
        }
    }
}

#[test]
fn the_same_digest_gets_the_same_signature() {
    let signer = from_key(KEY).unwrap();
    let answers = runtime().block_on(signer.sign(vec![preimage([7; 32]), preimage([7; 32])]));
    assert_eq!(answers[0], answers[1]);
    assert_eq!(signer.account().0, FIRST);
}

fn large_batch() -> Vec<Preimage> {
    (0..200_u8).map(|n| preimage([n; 32])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_batch_keeps_its_order_on_a_threaded_runtime() {
    check_batch().await;
}

#[tokio::test]
async fn a_large_batch_keeps_its_order_on_one_thread() {
    check_batch().await;
}

#[test]
fn a_large_batch_is_signed_without_any_tokio_runtime() {
    let signer = from_key(KEY).unwrap();
    let mut signing = signer.sign(large_batch());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(signing.as_mut().poll(&mut context).is_ready());
}

async fn check_batch() {
    let signer = from_key(KEY).unwrap();
    let answers = signer.sign(large_batch()).await;
    assert_eq!(answers.len(), 200);
    for (request, answer) in large_batch().iter().zip(answers) {
        check(&signer, request.digest, &answer.unwrap());
    }
}
