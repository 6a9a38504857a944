//! An EVM chain behind one or more JSON-RPC endpoints.
//!
//! Reading order, from the wire upwards:
//!
//! - `transport`, `rpc`: one packet out, one packet in; what can come back
//! - `name`, `health`, `pace`, `abilities`, `endpoint`, `batch`: one endpoint, what it is called, how it is doing, how fast
//!   it may be asked, what it cannot do
//! - `pool`: the endpoints of a chain in order of health; failover
//! - `heads`, `receipts`, `second`, `counts`, `fees`, `data_fee`, `estimate`, `send`, `pooled`, `waiting`, `taker`,
//!   `witness`: one file for each question of the port
//! - `callers`: what callers ask, beside all of that and without a trace in it
//! - `codec`, `classify`, `revert`, `wire`: pure: bytes, texts, revert data, JSON shapes
//! - `seeded`, `planted`: all of this on made-up endpoints that misbehave, in tests; bugs that must be found there

mod abilities;
mod batch;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod callers;
mod classify;
mod codec;
mod config;
mod counts;
mod data_fee;
mod endpoint;
mod estimate;
mod fees;
mod heads;
mod health;
mod name;
mod outbox;
mod pace;
mod planted;
mod pool;
mod pooled;
mod receipts;
mod revert;
mod rpc;
mod second;
#[cfg(test)]
mod seeded;
mod send;
mod taker;
mod transport;
mod waiting;
mod wire;
mod witness;

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::B256;
use async_trait::async_trait;
use landfall_core::attempt::{Call, Sealed};
use landfall_core::fees::FeeQuote;
use landfall_core::outcome::SendReport;
use landfall_core::ports::chain::{
    AskError, BlockAt, Chain, Codec, EndpointHealth, Error, EstimateFailure, PoolLook, Room, ShownBlock,
    Taker, Way,
};
use landfall_core::ports::clock::Clock;
use landfall_core::view::{Block, BlockRef, Receipt};
use landfall_core::witness::{SecondWord, Witness};
use landfall_core::{Account, ChainId, Gas, Slot, TxHash, Wei};

use callers::Callers;
pub use codec::EvmCodec;
pub use config::{BuildError, CallersConfig, Config, Pricing};
use heads::Heads;
use pool::Pool;
use second::Words;

/// One EVM chain.
pub struct EvmChain {
    codec: EvmCodec,
    pool: Arc<Pool>,
    /// Callers' questions, and what they signed themselves: neither holds the other up.
    questions: Callers,
    sends: Callers,
    heads: Heads,
    /// Words of endpoints on receipts.
    words: Words,
    pricing: Pricing,
}

impl EvmChain {
    /// Builds the chain without asking anything of its endpoints: one that is down now may be up later.
    pub fn new(config: Config, clock: Arc<dyn Clock>) -> Result<Self, BuildError> {
        let pool = Arc::new(Pool::new(&config, Arc::clone(&clock))?);
        let questions = Callers::new(&config, &pool, &clock)?;
        let sends = Callers::new(&config, &pool, &clock)?;
        Ok(Self::over(pool, questions, sends, &config))
    }

    fn over(pool: Arc<Pool>, questions: Callers, sends: Callers, config: &Config) -> Self {
        let heads = Heads::new(&pool, config);
        let (words, pricing) = (Words::default(), config.pricing);
        Self { codec: EvmCodec, pool, questions, sends, heads, words, pricing }
    }

    fn callers(&self, room: &dyn Room) -> &Callers {
        match room.way() {
            Way::Questions => &self.questions,
            Way::Sends => &self.sends,
        }
    }
}

#[async_trait]
impl Chain for EvmChain {
    fn id(&self) -> ChainId {
        self.pool.chain()
    }

    fn codec(&self) -> &dyn Codec {
        &self.codec
    }

    async fn block(&self, at: BlockAt) -> Result<Option<Block>, Error> {
        self.heads.block(at).await
    }

    async fn leads_to(&self, block: &BlockRef, head: &BlockRef) -> Result<bool, Error> {
        heads::leads_to(&self.pool, *block, *head).await
    }

    async fn shown(&self, number: u64) -> Vec<ShownBlock> {
        self.heads.shown(number).await
    }

    fn set_aside(&self, place: usize, block: &BlockRef) {
        self.heads.set_aside(place, *block);
    }

    async fn witnesses(&self, recent: &BTreeMap<u64, B256>) -> Vec<Witness> {
        witness::of(&self.pool, recent).await
    }

    async fn head_hint(&self) {
        self.heads.hint().await;
    }

    async fn block_receipts(&self, block: &BlockRef) -> Result<Vec<Receipt>, Error> {
        receipts::of_block(&self.pool, &self.words, *block).await
    }

    async fn receipts(&self, hashes: &[TxHash]) -> Result<Vec<Receipt>, Error> {
        receipts::of_hashes(&self.pool, &self.words, hashes).await
    }

    async fn second(&self, receipts: &[Receipt]) -> Vec<SecondWord> {
        second::words(&self.pool, &self.words, receipts).await
    }

    async fn counts(&self, accounts: &[Account], at: &BlockRef) -> Result<Vec<Slot>, Error> {
        counts::at(&self.pool, accounts, *at).await
    }

    async fn agreed(&self, counts: &[(Account, Slot)]) -> Vec<bool> {
        counts::agreed(&self.pool, counts).await
    }

    async fn balances(&self, accounts: &[Account], at: &BlockRef) -> Result<Vec<Wei>, Error> {
        counts::balances(&self.pool, accounts, *at).await
    }

    async fn delegated(&self, accounts: &[Account], at: &BlockRef) -> Result<Vec<bool>, Error> {
        counts::delegated(&self.pool, accounts, *at).await
    }

    async fn pooled(&self, hashes: &[TxHash]) -> Result<Vec<bool>, Error> {
        pooled::shown(&self.pool, hashes).await
    }

    async fn taker(&self, block: &BlockRef, account: Account, slot: Slot) -> Result<Option<Taker>, Error> {
        taker::find(&self.pool, *block, account, slot).await
    }

    async fn fees(&self, head: &Block) -> Result<FeeQuote, Error> {
        fees::quote(&self.pool, *head, &self.pricing).await
    }

    async fn estimate(&self, calls: &[Call]) -> Vec<Result<Gas, EstimateFailure>> {
        estimate::all(&self.pool, calls).await
    }

    async fn send(&self, raw: &[Sealed]) -> Vec<SendReport> {
        send::all(&self.pool, raw).await
    }

    async fn send_for(&self, raw: &Sealed, owner: &str) -> SendReport {
        self.sends.send(raw, owner).await
    }

    async fn ask(
        &self,
        method: &str,
        params: &serde_json::Value,
        room: &dyn Room,
    ) -> Result<String, AskError> {
        self.callers(room).ask(method, params, room).await
    }

    async fn ask_each(
        &self,
        method: &str,
        params: &serde_json::Value,
        room: &dyn Room,
    ) -> Vec<Result<String, AskError>> {
        self.callers(room).ask_each(method, params, room).await
    }

    async fn pools(&self, account: Account) -> Vec<PoolLook> {
        waiting::of(&self.pool, account).await
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        self.pool.report()
    }
}
