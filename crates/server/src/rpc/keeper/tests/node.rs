//! A chain behind endpoints that say what a test wants, and a store that can be slow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256};
use landfall_core::attempt::{Call, Draft, Sealed};
use landfall_core::fees::FeeQuote;
use landfall_core::outcome::{SendOutcome, SendReport};
use landfall_core::ports::chain::{
    AskError, BlockAt, Chain, Codec, EndpointHealth, Error, EstimateFailure, Room, Taker,
};
use landfall_core::ports::records::{Record, RecordKind, RecordQuery, RecordWrite, Records, RecordsWritten};
use landfall_core::ports::signer::{Preimage, Signature};
use landfall_core::ports::store;
use landfall_core::request::Finality;
use landfall_core::view::{Block, BlockRef, ChainStatus, ChainView, Receipt, Tags};
use landfall_core::witness::Witnessed;
use landfall_core::{Account, ChainId, Gas, Millis, Price, Slot, TxHash, Wei};
use landfall_store::Memory;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::rpc::keeper::Chains;

pub(super) const CHAIN: ChainId = ChainId(31_337);
pub(super) const BASE_FEE: u128 = 1_000;

/// Words of one endpoint, on whatever account or transaction it is asked about.
#[derive(Debug, Clone, Default)]
pub(super) struct Says {
    pub(super) count: u64,
    /// Transactions in its pool that nobody gave here.
    pub(super) pooled: u64,
    pub(super) balance: u128,
    /// The block that every transaction is in.
    pub(super) block: Option<u64>,
    pub(super) is_dead: bool,
    /// It has seen no block after this one.
    pub(super) stuck_at: Option<u64>,
}

/// A chain with endpoints.
pub(super) struct Nodes {
    pub(super) endpoints: Mutex<Vec<Says>>,
    pub(super) head: AtomicU64,
    /// The answer to every send, after this time.
    answer: Mutex<(SendOutcome, Option<i64>, Duration)>,
    sent: Mutex<Vec<TxHash>>,
}

pub(super) fn block(number: u64) -> BlockRef {
    BlockRef { number, hash: B256::from(U256::from(number)) }
}

impl Nodes {
    pub(super) fn new(endpoints: usize) -> Arc<Self> {
        let says = Says { balance: u128::MAX, ..Says::default() };
        Arc::new(Self {
            endpoints: Mutex::new(vec![says; endpoints]),
            head: AtomicU64::new(10),
            answer: Mutex::new((SendOutcome::Accepted, None, Duration::ZERO)),
            sent: Mutex::default(),
        })
    }

    pub(super) fn answer(&self, outcome: SendOutcome, after: Duration) {
        *self.answer.lock().unwrap() = (outcome, Some(-32_000), after);
    }

    pub(super) fn at(&self, endpoint: usize, change: impl FnOnce(&mut Says)) {
        change(&mut self.endpoints.lock().unwrap()[endpoint]);
    }

    /// How often bytes were sent.
    pub(super) fn sent(&self, hash: TxHash) -> usize {
        self.sent.lock().unwrap().iter().filter(|sent| **sent == hash).count()
    }

    /// Blocks come, a few seconds apart.
    pub(super) async fn mine(&self, blocks: u64) {
        for _ in 0..blocks {
            self.head.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    }

    pub(super) fn view(&self) -> ChainView {
        let head = self.head.load(Ordering::SeqCst);
        let at = block(head);
        let base_fee = Some(Price(BASE_FEE));
        let timestamp = Millis(0);
        let fees = FeeQuote { base_fee, slow: Price(1), normal: Price(1), fast: Price(1), data_fee: None };
        ChainView {
            status: ChainStatus::Live,
            head: Block { at, parent: block(head - 1).hash, timestamp, gas_limit: Gas(30_000_000), base_fee },
            head_since: timestamp,
            recent: Arc::new((0..=head).map(|number| (number, block(number).hash)).collect()),
            witnessed: Witnessed::by_one(head),
            safe: None,
            finalized: None,
            tags: Tags::default(),
            fees,
            accounts: BTreeMap::new(),
        }
    }

    fn word(&self, says: &Says, method: &str, params: &Value) -> Result<String, AskError> {
        if says.is_dead {
            return Err(unreachable().into());
        }
        let lacks =
            |at: &str| says.stuck_at.is_some_and(|newest| at.parse::<U256>().unwrap() > U256::from(newest));
        Ok(match method {
            "eth_blockNumber" => {
                json!(U256::from(says.stuck_at.unwrap_or_else(|| self.head.load(Ordering::SeqCst))))
            }
            "eth_getTransactionCount"
                if params[1].as_str().is_some_and(|at| at.starts_with("0x") && lacks(at)) =>
            {
                let message = "header not found".to_owned();
                return Err(AskError::Node { code: -32_000, message, data: None });
            }
            "eth_getTransactionCount" if params[1] == "pending" => {
                json!(U256::from(says.count + says.pooled))
            }
            "eth_getTransactionCount" => json!(U256::from(says.count)),
            "eth_getBalance" => json!(U256::from(says.balance)),
            "eth_getTransactionByHash" => match says.block.map(block) {
                Some(at) => json!({ "blockHash": at.hash, "blockNumber": U256::from(at.number) }),
                None => Value::Null,
            },
            _ => return Err(unreachable().into()),
        }
        .to_string())
    }
}

fn unreachable() -> Error {
    Error::Unreachable { chain: CHAIN, doing: "answer", text: "nobody is there".to_owned() }
}

/// As the keeper sees it.
pub(super) struct Seen(pub(super) Arc<Nodes>);

impl Chains for Seen {
    fn chain(&self, _chain: ChainId) -> Option<(Arc<dyn Chain>, Finality)> {
        Some((self.0.clone(), Finality::Blocks(2)))
    }

    fn shown(&self, _chain: ChainId) -> Option<Arc<ChainView>> {
        Some(Arc::new(self.0.view()))
    }
}

impl Codec for Nodes {
    fn preimage(&self, _draft: &Draft) -> Preimage {
        Preimage { digest: B256::ZERO, bytes: Bytes::new() }
    }
    fn seal(&self, _draft: &Draft, _signature: &Signature) -> Sealed {
        Sealed { raw: Bytes::new(), hash: TxHash(B256::ZERO) }
    }
}

#[tonic::async_trait]
impl Chain for Nodes {
    fn id(&self) -> ChainId {
        CHAIN
    }
    fn codec(&self) -> &dyn Codec {
        self
    }
    async fn block(&self, _at: BlockAt) -> Result<Option<Block>, Error> {
        Err(unreachable())
    }
    async fn leads_to(&self, _block: &BlockRef, _head: &BlockRef) -> Result<bool, Error> {
        Err(unreachable())
    }
    async fn head_hint(&self) {}
    async fn block_receipts(&self, _block: &BlockRef) -> Result<Vec<Receipt>, Error> {
        Err(unreachable())
    }
    async fn receipts(&self, _hashes: &[TxHash]) -> Result<Vec<Receipt>, Error> {
        Err(unreachable())
    }
    async fn counts(&self, _accounts: &[Account], _at: &BlockRef) -> Result<Vec<Slot>, Error> {
        Err(unreachable())
    }
    async fn balances(&self, _accounts: &[Account], _at: &BlockRef) -> Result<Vec<Wei>, Error> {
        Err(unreachable())
    }
    async fn delegated(&self, _accounts: &[Account], _at: &BlockRef) -> Result<Vec<bool>, Error> {
        Err(unreachable())
    }
    async fn pooled(&self, _hashes: &[TxHash]) -> Result<Vec<bool>, Error> {
        Err(unreachable())
    }
    async fn taker(&self, _block: &BlockRef, _account: Account, _slot: Slot) -> Result<Option<Taker>, Error> {
        Err(unreachable())
    }
    async fn fees(&self, _head: &Block) -> Result<FeeQuote, Error> {
        Err(unreachable())
    }
    async fn estimate(&self, _calls: &[Call]) -> Vec<Result<Gas, EstimateFailure>> {
        Vec::new()
    }
    async fn send(&self, raw: &[Sealed]) -> Vec<SendReport> {
        let (outcome, code, after) = *self.answer.lock().unwrap();
        tokio::time::sleep(after).await;
        self.sent.lock().unwrap().extend(raw.iter().map(|sealed| sealed.hash));
        let text = Some("as the node said it".to_owned());
        raw.iter()
            .map(|_| SendReport {
                outcome,
                endpoint: "a".to_owned(),
                code,
                text: text.clone(),
                latency_ms: 1,
            })
            .collect()
    }
    async fn ask(&self, method: &str, params: &Value, _room: &dyn Room) -> Result<String, AskError> {
        let says = self.endpoints.lock().unwrap().iter().find(|says| !says.is_dead).cloned();
        self.word(&says.unwrap_or(Says { is_dead: true, ..Says::default() }), method, params)
    }
    async fn ask_each(
        &self,
        method: &str,
        params: &Value,
        _room: &dyn Room,
    ) -> Vec<Result<String, AskError>> {
        self.endpoints.lock().unwrap().iter().map(|says| self.word(says, method, params)).collect()
    }
    fn endpoints(&self) -> Vec<EndpointHealth> {
        Vec::new()
    }
}

/// A store whose lists are read at once and handed over when they are let.
pub(super) struct Slow {
    pub(super) records: Memory,
    pub(super) lists: Semaphore,
    /// Removals fail.
    pub(super) is_stuck: AtomicBool,
}

impl Slow {
    pub(super) fn new(records: Memory) -> Arc<Self> {
        Arc::new(Self { records, lists: Semaphore::new(0), is_stuck: AtomicBool::new(false) })
    }
}

#[tonic::async_trait]
impl Records for Slow {
    async fn write_records(&self, writes: Vec<RecordWrite>) -> Result<RecordsWritten, store::Error> {
        if self.is_stuck.load(Ordering::SeqCst) && writes.iter().any(|write| write.body.is_none()) {
            return Err(store::Error::Failed { doing: "remove", text: "the disk is full".to_owned() });
        }
        self.records.write_records(writes).await
    }
    async fn record(&self, kind: RecordKind, id: &str) -> Result<Option<Record>, store::Error> {
        self.records.record(kind, id).await
    }
    async fn records(&self, query: &RecordQuery) -> Result<Vec<Record>, store::Error> {
        let page = self.records.records(query).await;
        self.lists.acquire().await.unwrap().forget();
        page
    }
    async fn trim_records(&self, kind: RecordKind, below: &str, limit: u32) -> Result<u64, store::Error> {
        self.records.trim_records(kind, below, limit).await
    }
}

/// Ids of what the store has.
pub(super) async fn stored(records: &dyn Records) -> BTreeSet<String> {
    let page = records.records(&RecordQuery::all(RecordKind::RawTx, 100_000)).await.unwrap();
    page.into_iter().map(|record| record.id).collect()
}
