//! Which transaction of an account used a count, as the whole block shows it (E11).

use alloy_primitives::{Address, B256, U256, address};
use landfall_chain::evm::EvmCodec;
use landfall_core::ports::chain::{BlockAt, Chain, Codec, Error};
use landfall_core::ports::signer::Signer;
use landfall_core::request::{Authorization, SignedAuthorization};
use landfall_core::view::BlockRef;
use landfall_core::{Account, Slot, TxHash, Wei};
use serde_json::{Value, json};

use crate::harness::node::Anvil;
use crate::harness::stub::{Mood, Say, Stub, block};
use crate::harness::{BOB, DEV_CHAIN, chain, dynamic, seal, signer, transfer, until};

const AT: BlockRef = BlockRef { number: 5, hash: B256::repeat_byte(5) };
const ALICE: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const HASHES: [B256; 3] = [B256::repeat_byte(0x11), B256::repeat_byte(0x12), B256::repeat_byte(0x13)];

/// A block with a transfer of Bob's and two transactions of Alice's, with counts 6 and 7.
fn whole() -> Value {
    let mut block = block(AT.number, AT.hash, &[]);
    block["transactions"] = json!([
        { "hash": HASHES[0], "from": BOB, "nonce": "0x7", "to": ALICE, "value": "0x1", "input": "0x" },
        { "hash": HASHES[1], "from": ALICE, "nonce": "0x6", "to": BOB, "value": "0x0", "input": "0xabcd" },
        { "hash": HASHES[2], "from": ALICE, "nonce": "0x7", "to": null, "value": "0x9", "input": "0x60" },
    ]);
    block
}

/// What the account's count is before the block and at it.
fn counting(stub: &Stub, before: u64, at: u64) {
    stub.on("eth_getTransactionCount", move |params| {
        let block: B256 = serde_json::from_value(params[1]["blockHash"].clone()).unwrap();
        let count = if block == AT.hash { at } else { before };
        Say::Result(json!(format!("{count:#x}")))
    });
}

fn serving(stub: &Stub, block: Value) {
    stub.head(AT.number, AT.hash);
    counting(stub, 6, 8);
    stub.on("eth_getCode", |_| Say::Result(json!("0x")));
    stub.on("eth_getBlockByHash", move |params| {
        assert_eq!(*params, json!([AT.hash, true]));
        Say::Result(block.clone())
    });
}

#[tokio::test]
async fn the_taker_is_the_accounts_own_transaction_with_that_count() {
    let stub = Stub::start().await;
    serving(&stub, whole());
    let chain = chain(&[stub.url()]);
    let call = chain.taker(&AT, Account(ALICE), Slot(6)).await.unwrap().unwrap();
    assert_eq!((call.hash, call.to, call.value), (TxHash(HASHES[1]), Some(Account(BOB)), Wei(U256::ZERO)));
    assert_eq!(call.data.as_ref(), [0xab, 0xcd]);
    let creation = chain.taker(&AT, Account(ALICE), Slot(7)).await.unwrap().unwrap();
    assert_eq!((creation.hash, creation.to, creation.value), (TxHash(HASHES[2]), None, Wei(U256::from(9))));
}

/// By them a delegation is told from a call that is like it in all else, and from somebody else's.
#[tokio::test]
async fn the_taker_shows_each_of_its_authorizations_with_its_signature() {
    let authorization = |chain: u64, count: u64, y_parity: u8| {
        json!({
            "chainId": format!("{chain:#x}"), "address": BOB, "nonce": format!("{count:#x}"),
            "yParity": format!("{y_parity:#x}"), "r": "0x1", "s": "0x2",
        })
    };
    let mut block = whole();
    block["transactions"][1]["authorizationList"] =
        json!([authorization(DEV_CHAIN.0, 8, 1), authorization(0, 9, 0)]);
    let stub = Stub::start().await;
    serving(&stub, block);
    let call = chain(&[stub.url()]).taker(&AT, Account(ALICE), Slot(6)).await.unwrap().unwrap();
    let signed = |chain, count, y_parity| {
        let (r, s) = (U256::from(1), U256::from(2));
        let signed = Some(SignedAuthorization { count: Slot(count), r, s, y_parity });
        Authorization { chain, address: Account(BOB), signed }
    };
    assert_eq!(call.authorizations, [signed(Some(DEV_CHAIN), 8, true), signed(None, 9, false)]);
}

/// The block with an authorization of Alice's for her count 8, in Bob's transaction.
async fn authorized(count: u64) -> Value {
    let mut draft = transfer(count - 1, dynamic());
    draft.call.authorization_list =
        vec![Authorization { chain: Some(DEV_CHAIN), address: Account(BOB), signed: None }];
    let preimage = EvmCodec.authorization(&draft).unwrap();
    let signature = signer().sign(vec![preimage]).await.remove(0).unwrap();
    let mut block = whole();
    block["transactions"][0]["authorizationList"] = json!([{
        "chainId": format!("{:#x}", DEV_CHAIN.0), "address": BOB, "nonce": format!("{count:#x}"),
        "yParity": format!("{:#x}", u8::from(signature.y_parity)), "r": signature.r, "s": signature.s,
    }]);
    block
}

#[tokio::test]
async fn a_count_that_an_authorization_or_delegated_code_used_has_no_taker() {
    let stub = Stub::start().await;
    serving(&stub, authorized(8).await);
    counting(&stub, 6, 9);
    let chain = chain(&[stub.url()]);
    let found = async || chain.taker(&AT, Account(ALICE), Slot(8)).await;
    assert_eq!(found().await, Ok(None));
    // One for another count explains nothing, nor does nothing at all.
    serving(&stub, authorized(9).await);
    counting(&stub, 6, 9);
    assert!(found().await.is_err());
    serving(&stub, whole());
    counting(&stub, 6, 9);
    assert!(found().await.is_err());
    // What the account's own code created is in no list.
    stub.on("eth_getCode", |_| Say::Result(json!(format!("0xef0100{}", "11".repeat(20)))));
    assert_eq!(found().await, Ok(None));
}

// covers: G1, G9
#[tokio::test]
async fn a_block_that_did_not_use_the_slot_says_so_even_where_the_count_is_above_it() {
    let stub = Stub::start().await;
    serving(&stub, authorized(5).await);
    let chain = chain(&[stub.url()]);
    // A gateway showed an old count at the blocks before, so this block was taken for the one that used slot 5.
    let said = chain.taker(&AT, Account(ALICE), Slot(5)).await;
    let Err(Error::Unreadable { text, .. }) = said else { panic!("{said:?}") };
    assert!(text.contains("goes from 6 to 8"), "{text}");
    // It goes on showing the old count: then the block does not hold what would have used all of them.
    counting(&stub, 4, 8);
    assert!(chain.taker(&AT, Account(ALICE), Slot(5)).await.is_err());
    stub.on("eth_getCode", |_| Say::Error(-32000, "missing trie node"));
    assert!(chain.taker(&AT, Account(ALICE), Slot(5)).await.is_err());
}

#[tokio::test]
async fn a_block_that_no_endpoint_knows_is_an_error_and_not_a_missing_taker() {
    let stub = Stub::start().await;
    serving(&stub, Value::Null);
    let Err(Error::Unreachable { text, .. }) = chain(&[stub.url()]).taker(&AT, Account(ALICE), Slot(6)).await
    else {
        panic!()
    };
    assert!(text.contains("it does not know block 5"), "{text}");
}

#[tokio::test]
async fn a_block_that_is_not_whole_or_is_another_one_is_an_error_and_not_a_missing_taker() {
    let mut header = whole();
    header.as_object_mut().unwrap().remove("transactions");
    let hashes = block(AT.number, AT.hash, &HASHES);
    let other = block(AT.number, B256::repeat_byte(6), &[]);
    for answer in [header, hashes, other] {
        let stub = Stub::start().await;
        serving(&stub, answer.clone());
        let said = chain(&[stub.url()]).taker(&AT, Account(ALICE), Slot(6)).await;
        assert!(matches!(said, Err(Error::Unreadable { .. })), "{answer}: {said:?}");
    }
}

// covers: G9
#[tokio::test]
async fn where_there_are_two_endpoints_two_must_say_the_same() {
    let stubs = [Stub::start().await, Stub::start().await, Stub::start().await];
    for stub in &stubs {
        serving(stub, whole());
    }
    let chain = chain(&stubs.each_ref().map(Stub::url));
    let found = async || chain.taker(&AT, Account(ALICE), Slot(6)).await;
    assert_eq!(found().await.unwrap().unwrap().hash, TxHash(HASHES[1]));
    assert_eq!(stubs.each_ref().map(|stub| stub.asked("eth_getBlockByHash")), [1, 1, 0]);
    // One that does not know the block is passed over for the third.
    serving(&stubs[0], Value::Null);
    assert_eq!(found().await.unwrap().unwrap().hash, TxHash(HASHES[1]));
    // One that shows another block at that number does not follow this chain.
    serving(&stubs[0], whole());
    stubs[0].head(AT.number, B256::repeat_byte(6));
    assert_eq!(found().await.unwrap().unwrap().hash, TxHash(HASHES[1]));
    // With one left nothing is proven.
    stubs[1].mood(Mood::Http(500, ""));
    let Err(Error::Unreachable { text, .. }) = found().await else { panic!() };
    assert!(text.contains("two must agree"), "{text}");
}

// covers: G9
#[tokio::test]
async fn two_endpoints_that_disagree_on_who_took_a_slot_prove_nothing() {
    let (one, two) = (Stub::start().await, Stub::start().await);
    serving(&one, whole());
    let mut other = whole();
    other["transactions"][1]["hash"] = json!(B256::repeat_byte(0x14));
    serving(&two, other);
    let both = chain(&[one.url(), two.url()]);
    let said = both.taker(&AT, Account(ALICE), Slot(6)).await;
    let Err(Error::Unreadable { text, .. }) = said else { panic!("{said:?}") };
    assert!(text.contains("disagree"), "{text}");
    let mut without = whole();
    without["transactions"] = json!([]);
    serving(&two, without);
    assert!(both.taker(&AT, Account(ALICE), Slot(6)).await.is_err(), "one shows nothing of it");
    // Passed without a transaction, and both say so.
    for stub in [&one, &two] {
        serving(stub, authorized(8).await);
        counting(stub, 6, 9);
    }
    assert_eq!(both.taker(&AT, Account(ALICE), Slot(8)).await, Ok(None));
    counting(&two, 6, 8);
    assert!(both.taker(&AT, Account(ALICE), Slot(8)).await.is_err(), "one of them counts less");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_node_shows_who_took_a_count_in_which_block() {
    let anvil = Anvil::start(&[]).await;
    let chain = chain(&[anvil.http()]);
    let mut creation = transfer(1, dynamic());
    creation.call.to = None;
    creation.call.data = vec![0x00].into();
    let drafts = [transfer(0, dynamic()), creation];
    let mut sealed = Vec::new();
    for draft in &drafts {
        sealed.push(seal(&chain, draft).await);
    }
    chain.send(&sealed).await;
    let hashes = [sealed[0].hash, sealed[1].hash];
    let receipts = until("two receipts", || async {
        let receipts = chain.receipts(&hashes).await.unwrap();
        (receipts.len() == 2).then_some(receipts)
    })
    .await;
    let account = signer().account();
    for (draft, receipt) in drafts.iter().zip(&receipts) {
        let taker = chain.taker(&receipt.block, account, draft.slot).await.unwrap().unwrap();
        assert_eq!((taker.hash, taker.to), (receipt.hash, draft.call.to));
        assert_eq!((taker.value, taker.data), (draft.call.value, draft.call.data.clone()));
        // What is not used there is not said to be used by nobody.
        assert!(chain.taker(&receipt.block, account, Slot(2)).await.is_err());
        assert!(chain.taker(&receipt.block, Account(BOB), draft.slot).await.is_err());
    }
    let genesis = chain.block(BlockAt::Number(0)).await.unwrap().unwrap();
    assert!(chain.taker(&genesis.at, account, Slot(0)).await.is_err());
    let nowhere = BlockRef { number: 1, hash: B256::repeat_byte(9) };
    assert!(chain.taker(&nowhere, account, Slot(0)).await.is_err());
}
