//! Authorizations (EIP-7702) on a real node: the sender's own, another account's, and whose word they are.

use alloy_primitives::{Address, U256, address};
use landfall_core::attempt::{Call, Draft, Sealed};
use landfall_core::ports::chain::{BlockAt, Chain, Codec as _};
use landfall_core::ports::signer::Signer;
use landfall_core::request::{Authorization, SignedAuthorization};
use landfall_core::{Account, Slot};

use crate::harness::node::Anvil;
use crate::harness::{DEV_CHAIN, chain, dynamic, signer, transfer, until};

/// Some code to delegate to: the address matters, not what is there.
const CODE: Address = address!("4200000000000000000000000000000000000042");

fn own() -> Authorization {
    Authorization { chain: Some(DEV_CHAIN), address: Account(CODE), signed: None }
}

/// As the engine does it: the authorization is signed first, then the transaction.
async fn sealed(chain: &dyn Chain, draft: &Draft) -> Sealed {
    let (signer, codec) = (signer(), chain.codec());
    let mut whole = draft.clone();
    if let Some(preimage) = codec.authorization(draft) {
        let signature = signer.sign(vec![preimage]).await.remove(0).unwrap();
        whole = draft.authorized(signature.r, signature.s, signature.y_parity);
    }
    let signature = signer.sign(vec![codec.preimage(&whole)]).await.remove(0).unwrap();
    codec.seal(&whole, &signature)
}

async fn mined(chain: &dyn Chain, sealed: &Sealed) {
    let report = chain.send(std::slice::from_ref(sealed)).await.remove(0);
    assert!(report.outcome.is_taken(), "{report:?}");
    let receipt = until("receipt", || async { chain.receipts(&[sealed.hash]).await.unwrap().pop() }).await;
    assert!(receipt.success);
}

// covers: M5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_senders_own_authorization_delegates_its_code_and_uses_up_two_slots() {
    let anvil = Anvil::start(&["--hardfork", "prague"]).await;
    let chain = chain(&[anvil.http()]);
    let me = signer().account();
    let mut draft = transfer(0, dynamic());
    draft.call.to = Some(me);
    draft.call.authorization_list = vec![own()];
    let estimated = chain.estimate(&[draft.call.clone(), Call::no_op(me)]).await;
    let (with, without) = (estimated[0].clone().unwrap(), estimated[1].clone().unwrap());
    assert!(with.0 >= without.0 + 25_000, "the authorization is paid for: {with} over {without}");
    draft.gas = with;
    mined(&chain, &sealed(&chain, &draft).await).await;
    let head = chain.block(BlockAt::Latest).await.unwrap().unwrap();
    assert_eq!(chain.counts(&[me], &head.at).await, Ok(vec![Slot(2)]));
    assert_eq!(chain.delegated(&[me], &head.at).await, Ok(vec![true]));
    // And back again.
    let mut back = transfer(2, dynamic());
    back.call.authorization_list = vec![Authorization { address: Account(Address::ZERO), ..own() }];
    back.gas = landfall_core::Gas(100_000);
    mined(&chain, &sealed(&chain, &back).await).await;
    let head = chain.block(BlockAt::Latest).await.unwrap().unwrap();
    assert_eq!(chain.counts(&[me], &head.at).await, Ok(vec![Slot(4)]));
    assert_eq!(chain.delegated(&[me], &head.at).await, Ok(vec![false]));
}

#[tokio::test]
async fn whose_word_an_authorization_is_follows_from_its_signature() {
    let chain = chain(&["http://127.0.0.1:1".to_owned()]);
    let codec = chain.codec();
    assert_eq!(codec.authority(&own()), None, "not signed");
    let mut draft = transfer(6, dynamic());
    draft.call.authorization_list = vec![own()];
    let preimage = codec.authorization(&draft).unwrap();
    assert_eq!(alloy_primitives::keccak256(&preimage.bytes), preimage.digest, "a remote signer can check it");
    let signature = signer().sign(vec![preimage]).await.remove(0).unwrap();
    let signed =
        draft.authorized(signature.r, signature.s, signature.y_parity).call.authorization_list.remove(0);
    assert_eq!(
        signed.signed.unwrap().count,
        Slot(7),
        "the count that the sender has once the transaction began"
    );
    assert_eq!(codec.authority(&signed), Some(signer().account()));
    let changed = Authorization { address: Account(Address::ZERO), ..signed.clone() };
    assert_ne!(codec.authority(&changed), Some(signer().account()));
    let nobody = SignedAuthorization { r: U256::ZERO, s: U256::ZERO, ..signed.signed.unwrap() };
    assert_eq!(codec.authority(&Authorization { signed: Some(nobody), ..signed }), None);
}

#[test]
fn the_senders_own_authorization_is_for_the_transactions_chain_also_if_none_is_said() {
    let mut said = transfer(0, dynamic());
    said.call.authorization_list = vec![own()];
    let mut unsaid = said.clone();
    unsaid.call.authorization_list = vec![Authorization { chain: None, ..own() }];
    let codec = landfall_chain::evm::EvmCodec;
    let digest = |draft: &Draft| codec.authorization(draft).map(|preimage| preimage.digest);
    assert_eq!(digest(&unsaid), digest(&said));
    assert_eq!(codec.preimage(&unsaid).digest, codec.preimage(&said).digest);
    let signed = |draft: &Draft| draft.authorized(U256::from(1), U256::from(2), false);
    assert_eq!(codec.preimage(&signed(&unsaid)).digest, codec.preimage(&signed(&said)).digest);
}
