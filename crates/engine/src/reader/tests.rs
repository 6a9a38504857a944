use std::sync::Mutex;

use alloy_primitives::keccak256;
use async_trait::async_trait;
use landfall_core::attempt::{Call, Sealed};
use landfall_core::fees::FeeQuote;
use landfall_core::outcome::SendReport;
use landfall_core::ports::chain::{Codec, EndpointHealth, EstimateFailure, Taker};
use landfall_core::{Account, ChainId, Gas, Millis, Price, Slot, TxHash, Wei};

use super::*;

/// A chain that answers every second question only.
#[derive(Default)]
struct EverySecond {
    asked: Mutex<Vec<B256>>,
    /// What it calls the blocks it is asked for, if not by their names.
    misnames: bool,
    /// It does not lose its answers but says that it does not know the block.
    denies: bool,
    /// The first word on this block names another one below it.
    lies_about: Option<u64>,
}

impl EverySecond {
    fn answers(&self, hash: B256) -> Result<(), Error> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(hash);
        if asked.len().is_multiple_of(2) {
            return Ok(());
        }
        Err(Error::Unreachable { chain: ChainId(7), doing: "answer", text: "the reply was lost".to_owned() })
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn at(number: u64) -> BlockRef {
    BlockRef { number, hash: keccak256(number.to_be_bytes()) }
}

#[async_trait]
impl Chain for EverySecond {
    fn id(&self) -> ChainId {
        ChainId(7)
    }

    fn codec(&self) -> &dyn Codec {
        panic!("nothing is signed here")
    }

    async fn block(&self, which: BlockAt) -> Result<Option<Block>, Error> {
        let BlockAt::Hash(hash) = which else { panic!("asked for {which:?}") };
        let answer = self.answers(hash);
        if self.denies && answer.is_err() {
            return Ok(None);
        }
        answer?;
        let Some(number) = (0..64).find(|number| at(*number).hash == hash) else { return Ok(None) };
        let is_first = self.asked.lock().unwrap().iter().filter(|asked| **asked == hash).count() <= 2;
        let parent = match self.lies_about == Some(number) && is_first {
            true => B256::ZERO,
            false => at(number.saturating_sub(1)).hash,
        };
        let hash = if self.misnames { at(99).hash } else { hash };
        Ok(Some(Block {
            at: BlockRef { number, hash },
            parent,
            timestamp: Millis(1),
            gas_limit: Gas(30_000_000),
            base_fee: None,
        }))
    }

    async fn leads_to(&self, _: &BlockRef, _: &BlockRef) -> Result<bool, Error> {
        panic!("no block is judged here")
    }

    async fn head_hint(&self) {}

    async fn block_receipts(&self, block: &BlockRef) -> Result<Vec<Receipt>, Error> {
        self.answers(block.hash)?;
        Ok(vec![Receipt {
            hash: TxHash(block.hash),
            block: *block,
            index: 0,
            success: true,
            gas_used: Gas(21_000),
            gas_price: Price(1),
            data_fee: None,
            contract: None,
        }])
    }

    async fn receipts(&self, _: &[TxHash]) -> Result<Vec<Receipt>, Error> {
        panic!("receipts are read by block")
    }

    async fn counts(&self, _: &[Account], _: &BlockRef) -> Result<Vec<Slot>, Error> {
        panic!("nothing is counted here")
    }

    async fn balances(&self, _: &[Account], _: &BlockRef) -> Result<Vec<Wei>, Error> {
        panic!("nothing is weighed here")
    }

    async fn delegated(&self, _: &[Account], _: &BlockRef) -> Result<Vec<bool>, Error> {
        panic!("nobody asks for code here")
    }

    async fn pooled(&self, _: &[TxHash]) -> Result<Vec<bool>, Error> {
        panic!("nobody asks for the pool here")
    }

    async fn taker(&self, _: &BlockRef, _: Account, _: Slot) -> Result<Option<Taker>, Error> {
        panic!("nothing is proven here")
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
        Vec::new()
    }
}

/// One look at these blocks; it ends at the first answer that is lost.
async fn look(reader: &mut Reader, blocks: u64) -> Result<(), Error> {
    for number in 0..blocks {
        assert!(reader.block(at(number).hash).await?.is_some());
        assert_eq!(reader.receipts(&at(number)).await?.len(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_look_that_failed_is_gone_on_with_until_it_has_read_everything() {
    let chain = Arc::new(EverySecond::default());
    let mut reader = Reader::new(chain.clone());
    let mut looks = 1;
    while look(&mut reader, 20).await.is_err() {
        looks += 1;
        assert!(looks < 100, "it begins anew each time");
    }
    assert_eq!(chain.asked(), 80, "twenty blocks and their receipts, each asked for until it was answered");
    reader.forget();
    look(&mut reader, 1).await.unwrap_err();
    assert_eq!(chain.asked(), 81, "what was forgotten is asked for again");
}

#[tokio::test]
async fn a_block_that_has_another_name_is_not_kept() {
    let chain = Arc::new(EverySecond { misnames: true, ..EverySecond::default() });
    let mut reader = Reader::new(chain.clone());
    for _ in 0..4 {
        reader.block(at(1).hash).await.ok();
    }
    assert_eq!(chain.asked(), 4);
}

/// One look from a head down to the first block; it ends at the first that is missing.
async fn walk(reader: &mut Reader, head: u64) -> bool {
    let parent = at(head - 1).hash;
    let (timestamp, gas_limit) = (Millis(1), Gas(30_000_000));
    let mut lowest = Some(Block { at: at(head), parent, timestamp, gas_limit, base_fee: None });
    while let Some(block) = lowest.filter(|block| block.at.number > 0) {
        lowest = reader.parent(&block).await.unwrap();
    }
    lowest.is_some()
}

#[tokio::test]
async fn a_way_down_is_gone_on_with_where_blocks_are_often_missing() {
    for lies_about in [None, Some(20)] {
        let chain = Arc::new(EverySecond { denies: true, lies_about, ..EverySecond::default() });
        let mut reader = Reader::new(chain.clone());
        let mut looks = 1;
        while !walk(&mut reader, 40).await {
            looks += 1;
            assert!(looks < 200, "it begins anew each time");
        }
        assert!(chain.asked() < 8 * 40, "asked {} times for forty blocks", chain.asked());
    }
}
