use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use async_trait::async_trait;
use landfall_core::attempt::{Call, Sealed};
use landfall_core::fees::FeeQuote;
use landfall_core::outcome::SendReport;
use landfall_core::ports::chain::{Codec, EndpointHealth, EstimateFailure, Taker};
use landfall_core::view::{Block, Receipt};
use landfall_core::{Account, ChainId, Gas, Millis, Price, TxHash, Wei};

use super::*;

const LANE: LaneId = LaneId { chain: ChainId(7), signer: Account(Address::repeat_byte(0xaa)) };
const OURS: TxHash = TxHash(B256::repeat_byte(1));
const THEIRS: TxHash = TxHash(B256::repeat_byte(2));

/// A chain of one account, whose count grows at some blocks.
struct Model {
    head: u64,
    /// From this block on the account has this count, in order.
    counts: Vec<(u64, u64)>,
    /// Blocks that no endpoint knows, and blocks at which no count can be read.
    unknown: BTreeSet<u64>,
    pruned: BTreeSet<u64>,
    /// Blocks at which an old count is shown.
    stale: BTreeMap<u64, u64>,
    /// The receipts and the account's transaction in the block that is asked for.
    receipts: Vec<TxHash>,
    taker: Result<Option<TxHash>, ()>,
    /// Words of a second endpoint on those receipts; none: there is none.
    second: Option<SecondWord>,
    calls: AtomicUsize,
}

fn model(head: u64, counts: &[(u64, u64)]) -> Model {
    Model {
        head,
        counts: counts.to_vec(),
        unknown: BTreeSet::new(),
        pruned: BTreeSet::new(),
        stale: BTreeMap::new(),
        receipts: vec![THEIRS],
        taker: Ok(Some(THEIRS)),
        second: None,
        calls: AtomicUsize::new(0),
    }
}

impl Model {
    fn count_at(&self, number: u64) -> u64 {
        self.counts.iter().rev().find(|(from, _)| *from <= number).map_or(0, |(_, count)| *count)
    }
}

fn at(number: u64) -> BlockRef {
    BlockRef { number, hash: keccak256(number.to_be_bytes()) }
}

fn unreachable() -> Error {
    Error::Unreachable { chain: LANE.chain, doing: "answer", text: "missing trie node".to_owned() }
}

#[async_trait]
impl Chain for Model {
    fn id(&self) -> ChainId {
        LANE.chain
    }

    fn codec(&self) -> &dyn Codec {
        panic!("nothing is signed here")
    }

    async fn block(&self, which: BlockAt) -> Result<Option<Block>, Error> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let BlockAt::Number(number) = which else { panic!("asked for {which:?}") };
        let known = number <= self.head && !self.unknown.contains(&number);
        Ok(known.then(|| Block {
            at: at(number),
            parent: at(number.saturating_sub(1)).hash,
            timestamp: Millis(number),
            gas_limit: Gas(30_000_000),
            base_fee: None,
        }))
    }

    async fn leads_to(&self, _: &BlockRef, _: &BlockRef) -> Result<bool, Error> {
        panic!("no block is judged here")
    }

    async fn head_hint(&self) {}

    async fn block_receipts(&self, block: &BlockRef) -> Result<Vec<Receipt>, Error> {
        let receipt = |hash: &TxHash| Receipt {
            hash: *hash,
            block: *block,
            index: 0,
            success: true,
            gas_used: Gas(21_000),
            gas_price: Price(1),
            data_fee: None,
            contract: None,
        };
        Ok(self.receipts.iter().map(receipt).collect())
    }

    async fn receipts(&self, _: &[TxHash]) -> Result<Vec<Receipt>, Error> {
        panic!("a receipt proves nothing here")
    }

    async fn second(&self, receipts: &[Receipt]) -> Vec<SecondWord> {
        vec![self.second.clone().unwrap_or(SecondWord::Same); receipts.len()]
    }

    async fn counts(&self, accounts: &[Account], block: &BlockRef) -> Result<Vec<Slot>, Error> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        assert_eq!((accounts, *block), (&[LANE.signer][..], at(block.number)));
        if self.pruned.contains(&block.number) {
            return Err(unreachable());
        }
        let shown = self.stale.get(&block.number).copied();
        Ok(vec![Slot(shown.unwrap_or_else(|| self.count_at(block.number)))])
    }

    async fn balances(&self, _: &[Account], _: &BlockRef) -> Result<Vec<landfall_core::Wei>, Error> {
        Err(unreachable())
    }

    async fn delegated(&self, _: &[Account], _: &BlockRef) -> Result<Vec<bool>, Error> {
        panic!("nobody asks for code here")
    }

    async fn pooled(&self, _: &[TxHash]) -> Result<Vec<bool>, Error> {
        panic!("nobody asks for the pool here")
    }

    async fn taker(&self, block: &BlockRef, account: Account, slot: Slot) -> Result<Option<Taker>, Error> {
        assert_eq!(account, LANE.signer);
        if !(self.count_at(block.number - 1)..self.count_at(block.number)).contains(&slot.0) {
            return Err(unreachable());
        }
        let hash = self.taker.map_err(|()| unreachable())?;
        Ok(hash.map(|hash| Taker {
            hash,
            to: None,
            value: Wei(U256::ZERO),
            data: Bytes::new(),
            authorizations: Vec::new(),
            receipt: None,
        }))
    }

    async fn fees(&self, _: &Block) -> Result<FeeQuote, Error> {
        panic!("nothing is priced here")
    }

    async fn estimate(&self, _: &[Call]) -> Vec<Result<Gas, EstimateFailure>> {
        panic!("nothing is estimated here")
    }

    async fn send(&self, _: &[Sealed]) -> Vec<SendReport> {
        panic!("nothing is sent here")
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        let health = EndpointHealth {
            name: "http://a".to_owned(),
            usable: true,
            head: None,
            finalized: None,
            lacks: Vec::new(),
            latency_ms: None,
            breaker_open: false,
            answers: BTreeMap::new(),
            trouble: None,
        };
        vec![health; if self.second.is_some() { 2 } else { 1 }]
    }
}

async fn found(model: &Model, slot: u64, up_to: u64) -> Result<Option<u64>, Error> {
    let block = passing_block(model, LANE, Slot(slot), up_to).await?;
    assert!(block.is_none_or(|block| block == at(block.number)));
    Ok(block.map(|block| block.number))
}

#[tokio::test]
async fn the_block_in_which_the_count_passed_is_found_wherever_it_is() {
    for head in 1..60 {
        for block in 1..=head {
            let model = model(head, &[(block, 6)]);
            assert_eq!(found(&model, 5, head).await, Ok(Some(block)), "block {block} of {head}");
        }
    }
}

#[tokio::test]
async fn a_node_that_shows_the_same_count_at_every_block_proves_nothing() {
    let model = model(60, &[(0, 6)]);
    assert_eq!(found(&model, 5, 60).await, Ok(None));
}

#[tokio::test]
async fn each_slot_has_its_own_block_also_where_the_count_jumps_by_several() {
    let model = model(500, &[(3, 1), (4, 2), (70, 5), (71, 6), (500, 9)]);
    let blocks = [3, 4, 70, 70, 70, 71, 500, 500, 500];
    for (slot, block) in (0..).zip(blocks) {
        assert_eq!(found(&model, slot, 500).await, Ok(Some(block)), "slot {slot}");
    }
}

#[tokio::test]
async fn a_block_that_is_not_final_yet_is_not_found() {
    let model = model(100, &[(90, 6)]);
    for (up_to, block) in [(88, None), (89, None), (90, Some(90)), (91, Some(90))] {
        assert_eq!(found(&model, 5, up_to).await, Ok(block), "final up to {up_to}");
    }
    assert_eq!(found(&model, 6, 100).await, Ok(None), "the count has not passed this slot");
}

#[tokio::test]
async fn a_count_that_cannot_be_read_is_an_error_and_an_unknown_block_is_none() {
    for missing in [1_000, 992, 960, 950, 949] {
        let mut pruned = model(1_000, &[(950, 6)]);
        pruned.pruned.insert(missing);
        let mut unknown = model(1_000, &[(950, 6)]);
        unknown.unknown.insert(missing);
        assert_eq!(found(&pruned, 5, 1_000).await, Err(unreachable()), "block {missing}");
        assert_eq!(found(&unknown, 5, 1_000).await, Ok(None), "block {missing}");
    }
}

#[tokio::test]
async fn a_node_that_keeps_little_history_is_asked_for_little() {
    let mut model = model(100_000, &[(99_990, 6)]);
    model.pruned = (0..99_900).collect();
    assert_eq!(found(&model, 5, 100_000).await, Ok(Some(99_990)));
}

#[tokio::test]
async fn a_hundred_thousand_blocks_take_a_few_dozen_questions() {
    for block in [1, 1, 2, 777, 50_000, 56_311, 56_312, 56_313, 99_000, 99_991, 99_992, 99_999, 100_000] {
        let model = model(100_000, &[(block, 6)]);
        assert_eq!(found(&model, 5, 100_000).await, Ok(Some(block)));
        let calls = model.calls.load(Ordering::Relaxed);
        assert!(calls <= 2 * 30, "{calls} questions for block {block}");
    }
}

async fn answer(model: &Model) -> LaneEvent {
    prove(model, LANE, Proof { slot: Slot(5), up_to: model.head, ours: vec![OURS] }).await
}

#[tokio::test]
async fn a_block_without_any_of_ours_proves_foreign_use_and_shows_the_taker() {
    let foreign = model(100, &[(90, 6)]);
    let event = answer(&foreign).await;
    let LaneEvent::Foreign { slot, block, taker } = &event else { panic!("{event:?}") };
    assert_eq!((*slot, *block), (Slot(5), at(90)));
    assert_eq!(taker.as_ref().map(|taker| taker.hash), Some(THEIRS));

    // An authorization or a creation by the account's own code: there is no transaction with that count.
    let otherwise = Model { taker: Ok(None), ..model(100, &[(90, 6)]) };
    let event = answer(&otherwise).await;
    assert!(matches!(event, LaneEvent::Foreign { taker: None, .. }), "{event:?}");
}

#[tokio::test]
async fn a_block_that_holds_one_of_ours_or_cannot_be_read_proves_nothing() {
    let base = || model(100, &[(90, 6)]);
    let cases = [
        ("its receipt is there", Model { receipts: vec![THEIRS, OURS], ..base() }),
        ("receipts are lost, the block is not", Model { receipts: vec![], taker: Ok(Some(OURS)), ..base() }),
        ("the block cannot be read whole", Model { taker: Err(()), ..base() }),
        ("no count can be read", Model { pruned: [100].into(), ..base() }),
        ("not final yet", model(100, &[(101, 6)])),
        ("an old count leads to a later block", Model { stale: [(92, 5)].into(), ..base() }),
        ("and further on", Model { stale: (60..100).map(|block| (block, 5)).collect(), ..base() }),
    ];
    for (case, model) in cases {
        let event = answer(&model).await;
        assert!(matches!(event, LaneEvent::Unproven { slot: Slot(5) }), "{case}: {event:?}");
    }
}

/// A transaction ends as the receipt of what took its slot says, and may be asked for again then.
#[tokio::test]
async fn what_took_a_slot_is_no_proof_before_two_endpoints_give_its_receipt() {
    let base = || model(100, &[(90, 6)]);
    let lacking = SecondWord::Lacking { waited: std::time::Duration::from_secs(100_000), why: String::new() };
    for word in [SecondWord::Differs("they differ".into()), SecondWord::Wrong(None), lacking] {
        let event = answer(&Model { second: Some(word.clone()), ..base() }).await;
        assert!(matches!(event, LaneEvent::Unproven { slot: Slot(5) }), "{word:?}: {event:?}");
    }
    let hidden = Model { second: Some(SecondWord::Same), receipts: vec![], ..base() };
    let event = answer(&hidden).await;
    assert!(matches!(event, LaneEvent::Unproven { slot: Slot(5) }), "one leaves it out: {event:?}");
    let event = answer(&Model { second: Some(SecondWord::Same), ..base() }).await;
    let LaneEvent::Foreign { taker: Some(taker), .. } = &event else { panic!("{event:?}") };
    assert!(taker.receipt.is_some());
}
