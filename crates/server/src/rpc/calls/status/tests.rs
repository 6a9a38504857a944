//! The status of calls goes by what is stored, whatever a node shows of them.

use std::sync::Arc;

use alloy_primitives::{Address, Bytes};
use landfall_core::attempt::{Attempt, SendHints};
use landfall_core::fees::Fees;
use landfall_core::request::{Options, Payload, Request, fingerprint};
use landfall_core::transaction::{Status, Transaction, Won};
use landfall_core::view::BlockRef;
use landfall_core::{ChainId, ContentVersion, Gas, Millis, Price, QueueOrder, Slot, TxId, Wei};

use super::*;

const CALL: TxHash = TxHash(B256::repeat_byte(1));
const NO_OP: TxHash = TxHash(B256::repeat_byte(2));
const BLOCK: BlockRef = BlockRef { number: 9, hash: B256::repeat_byte(9) };

fn attempt(hash: TxHash) -> Attempt {
    Attempt {
        slot: Slot(0),
        ordinal: 0,
        tx: None,
        version: ContentVersion::FIRST,
        no_op: hash == NO_OP,
        hash,
        raw: Bytes::new(),
        gas: Gas(21_000),
        fees: Fees::Dynamic { max_fee: Price::gwei(30), tip: Price::gwei(1) },
        value: Wei::default(),
        created_at: Millis(2),
        hints: SendHints::default(),
    }
}

fn mined(hash: TxHash, success: bool) -> Receipt {
    let (gas_used, gas_price) = (Gas(21_000), Price::gwei(1));
    Receipt { hash, block: BLOCK, index: 0, success, gas_used, gas_price, data_fee: None, contract: None }
}

/// One in this state; what is signed for it is the call, and the no-op of a cancel.
fn record(state: TxState, receipt: Option<Receipt>) -> TxRecord {
    let lane = LaneId { chain: ChainId(7), signer: Account(Address::repeat_byte(0xaa)) };
    let (payload, options, accepted_at) = (Payload::default(), Options::default(), Millis(1));
    let fingerprint = fingerprint(&lane, &payload, &options).unwrap();
    let (request_id, retry_of, at_once, origin) = (None, None, None, None);
    let request =
        Request { request_id, payload, options, fingerprint, accepted_at, retry_of, at_once, origin };
    let won = receipt.as_ref().filter(|_| state.is_terminal());
    let won = won.map(|receipt| Won { version: ContentVersion::FIRST, hash: receipt.hash });
    let status = Status { state, receipt, won, ..Status::accepted(accepted_at) };
    let (id, order) = (TxId::new(accepted_at, 1), QueueOrder(1));
    let tx = Transaction { id, lane, order, request: Arc::new(request), status };
    TxRecord { tx, attempts: vec![attempt(CALL), attempt(NO_OP)] }
}

fn yes(state: TxState) -> TxRecord {
    record(state, Some(mined(CALL, true)))
}

fn none(state: TxState) -> TxRecord {
    record(state, None)
}

fn shown(block: B256) -> Shown {
    let logs = json!([{ "data": "0x" }]);
    let (block_number, gas_used) = (json!("0x9"), json!("0x1"));
    Shown { logs, transaction_hash: CALL, block_hash: Some(block), block_number, gas_used }
}

/// The number, where the node shows the receipts of so many of them.
fn told(records: &[TxRecord], node_shows: usize) -> (u16, usize) {
    let calls = records.iter().map(Call::of).enumerate();
    let shown = calls.map(|(at, call)| call.told((at < node_shows).then(|| shown(BLOCK.hash))));
    let (fates, receipts): (Vec<_>, Vec<_>) = shown.unzip();
    (number(&fates), receipts.into_iter().flatten().count())
}

#[test]
fn what_landed_is_never_told_as_what_did_not_whatever_the_node_shows() {
    use TxState::{Accepted, Cancelled, Confirmed, Failed, Mined, Reverted};
    let reverted = || record(Reverted, Some(mined(CALL, false)));
    let cancelled = || record(Cancelled, Some(mined(NO_OP, true)));
    let cases = [
        (vec![yes(Confirmed)], 0, (200, 1)),
        (vec![yes(Confirmed), yes(Confirmed)], 1, (200, 2)),
        (vec![yes(Mined), yes(Mined)], 2, (200, 2)),
        (vec![yes(Mined), yes(Mined)], 1, (100, 1)),
        (vec![yes(Mined)], 0, (100, 0)),
        (vec![yes(Mined), none(Accepted)], 1, (100, 1)),
        (vec![yes(Mined), cancelled()], 1, (100, 1)),
        (vec![yes(Confirmed), cancelled()], 0, (600, 1)),
        (vec![yes(Confirmed), reverted()], 2, (600, 2)),
        (vec![reverted(), none(Cancelled)], 0, (500, 1)),
        (vec![record(Mined, Some(mined(CALL, false)))], 1, (100, 1)),
        (vec![record(Mined, Some(mined(NO_OP, true)))], 0, (100, 0)),
        (vec![cancelled()], 0, (400, 0)),
        (vec![none(Failed), none(Cancelled)], 0, (400, 0)),
        (vec![], 0, (100, 0)),
    ];
    for (records, node_shows, wanted) in cases {
        let states: Vec<_> = records.iter().map(|record| record.tx.status.state).collect();
        assert_eq!(told(&records, node_shows), wanted, "{states:?}, the node shows {node_shows}");
    }
}

#[test]
fn what_a_reorganisation_or_a_restore_left_open_is_under_way() {
    // The block that made it final is gone, and its bytes are sent again.
    let mut back = none(TxState::Confirmed);
    back.tx.status.won = Some(Won { version: ContentVersion::FIRST, hash: CALL });
    assert_eq!(told(&[back], 0), (100, 0));
    // The no-op of a cancel was taken back, and the call landed instead.
    assert_eq!(told(&[yes(TxState::Cancelled)], 1), (200, 1));
    let reason = |code| Some(Reason { code, text: String::new() });
    let mut held = none(TxState::Expired);
    held.tx.status.held = reason(ReasonCode::MayHaveLanded);
    assert_eq!(told(std::slice::from_ref(&held), 0), (100, 0));
    held.tx.status.reason = reason(ReasonCode::LandedBefore);
    assert_eq!(told(&[held], 0), (200, 0), "a person said so");
}

#[test]
fn a_receipt_is_what_is_stored_and_a_node_adds_the_logs_of_that_block_only() {
    let call = |shown: Option<Shown>| Call::of(&yes(TxState::Confirmed)).told(shown).1.unwrap();
    let stored = json!({
        "logs": [], "status": "0x1", "blockHash": BLOCK.hash, "blockNumber": "0x9", "gasUsed": "0x5208",
        "transactionHash": CALL,
    });
    assert_eq!(call(None), stored);
    assert_eq!(call(Some(shown(B256::ZERO))), stored, "another block's");
    let mut with_logs = stored.clone();
    with_logs["logs"] = json!([{ "data": "0x" }]);
    assert_eq!(call(Some(shown(BLOCK.hash))), with_logs);
}
