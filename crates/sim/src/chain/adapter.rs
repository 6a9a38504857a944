//! The chain port as a node sees it: calls take time, endpoints disagree, answers are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, U256};
use async_trait::async_trait;
use landfall_core::attempt::{Call, Sealed};
use landfall_core::fees::{DataFee, FeeQuote};
use landfall_core::outcome::{SendOutcome, SendReport, merge};
use landfall_core::ports::chain::{
    BlockAt, Chain, Codec, EndpointHealth, Error, EstimateFailure, PoolLook, Pooled, Taker,
};
use landfall_core::view::{Block, BlockRef, Receipt};
use landfall_core::witness::{SecondWord, Witness};
use landfall_core::{Account, ChainId, Gas, Price, Slot, TxHash, Wei};

use super::model::{ChainModel, Fork, TIP, head, receipt};
use super::wire::{Wire, WireCodec};
use crate::node::APPROVE_ABOVE;
use crate::planted::Planted;
use crate::scenario::Fault;
use crate::store::ProcessSession;
use crate::world::{Rule, World};

const GAS: u64 = 50_000;
const POLL_MS: u64 = 400;
/// Within this time every node sees that a chain started over.
const SEEN_WITHIN_MS: u64 = 10_000;
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// The refusals that are no verdict on the transaction.
const REFUSALS: &[SendOutcome] = &[
    SendOutcome::PoolFull,
    SendOutcome::Endpoint,
    SendOutcome::NodePolicy,
    SendOutcome::AccountLimit,
    SendOutcome::NonceTooHigh,
    SendOutcome::NonceTooLow,
    SendOutcome::InsufficientFunds,
    SendOutcome::Unknown,
];

/// Refusals for good, which may be lies about bytes that the node has.
const FINAL_REFUSALS: &[SendOutcome] =
    &[SendOutcome::Invalid, SendOutcome::Reverted, SendOutcome::NeverIncludable];

/// Refusals as too cheap, with or without a reason.
const CHEAP_REFUSALS: &[SendOutcome] =
    &[SendOutcome::ReplacementUnderpriced, SendOutcome::Underpriced, SendOutcome::FeeBelowBase];

/// Out of a thousand refusals of bytes that no node has met, so many are for good: those end a transaction.
const FIRST_IS_FINAL: u64 = 60;

pub(crate) struct SimChain {
    pub(crate) world: Arc<World>,
    pub(crate) node: usize,
    pub(crate) id: ChainId,
    /// The session of the process that has this.
    pub(crate) session: ProcessSession,
}

impl SimChain {
    /// The way to an endpoint: which one, and what chain it shows.
    async fn reach(&self, doing: &'static str) -> Result<(usize, Fork), Error> {
        self.reach_best(doing, |_| 0).await
    }

    /// An endpoint that has the block, where endpoints may be on forks of their own: the real pool asks others too.
    async fn reach_block(&self, doing: &'static str, at: &BlockRef) -> Result<(usize, Fork), Error> {
        let asks_on = self.world.scenario.forked;
        self.reach_best(doing, |fork| u64::from(asks_on && Self::find(fork, at).is_some())).await
    }

    async fn reach_best(
        &self,
        doing: &'static str,
        better: impl Fn(&Fork) -> u64 + Send,
    ) -> Result<(usize, Fork), Error> {
        self.world.pass(self.node).await;
        let now = self.world.now();
        let unreachable = |text: &str| Error::Unreachable { chain: self.id, doing, text: text.to_owned() };
        if self.world.gate(self.node).rpc_cut_until > now {
            tokio::time::sleep(TIME_LIMIT).await;
            return Err(unreachable("cut off"));
        }
        let mut inner = self.world.lock();
        let endpoints = inner.chains.get(&self.id).map_or(0, |chain| chain.endpoints.len());
        let first = usize::try_from(inner.rng.range(0, endpoints as u64)).unwrap_or(0);
        let Some(chain) = inner.chains.get(&self.id) else { return Err(unreachable("no such chain")) };
        // As a pool of endpoints does: another one is asked where the first does not answer.
        let up =
            (0..endpoints).map(|n| (first + n) % endpoints).filter(|n| chain.endpoints[*n].down_until <= now);
        let found = up.rev().max_by_key(|n| better(&chain.endpoints[*n].fork));
        found.map(|n| (n, chain.endpoints[n].fork.clone())).ok_or_else(|| unreachable("no endpoint answers"))
    }

    /// A node begins nothing after its session has ended, by the store's clock.
    fn may_act(&self) {
        let Some(session) = self.session.get() else { return };
        if self.world.session_ends(session).is_some_and(|ends| ends <= self.world.now()) {
            let text = format!("node {} sends on chain {} after its session's end", self.node, self.id);
            self.world.violated(Rule::ActsWhileItMay, text);
        }
    }

    /// Nothing is sent to a chain that started over, once that could be seen.
    fn is_the_same_chain(&self) {
        let since = self.world.lock().started_over_at;
        if since.is_some_and(|since| self.world.now() > since + SEEN_WITHIN_MS) {
            let text = format!("node {} sends to chain {}, which started over", self.node, self.id);
            self.world.violated(Rule::HoldsWhenUnsure, text);
        }
    }

    fn deliver(&self, endpoint: usize, wire: &Wire) -> SendOutcome {
        let hash = wire.hash();
        let mut inner = self.world.lock();
        let stored = inner.stored.contains(&hash);
        let is_asked = wire.value > APPROVE_ABOVE.0 || wire.delegates.is_some();
        let approved = !is_asked || wire.content().is_some_and(|content| inner.approved.contains(&content));
        inner.met.insert(hash);
        inner.sent.entry(hash).or_insert_with(|| wire.clone());
        let Some(chain) = inner.chains.get_mut(&self.id) else { return SendOutcome::Unknown };
        let outcome = chain.admit(endpoint, wire);
        drop(inner);
        if !stored {
            self.world
                .violated(Rule::StoredBeforeSent, format!("{hash} for slot {} of {}", wire.nonce, wire.from));
        }
        if !approved {
            let request = wire.content().map_or(0, |content| content.marker);
            let (slot, from, value) = (wire.nonce, wire.from, wire.value);
            let text =
                format!("request {request:x} in slot {slot} of {from} pays {value} and nobody said yes");
            self.world.violated(Rule::ApprovedFirst, text);
        }
        outcome
    }

    /// One endpoint's answer to one byte string.
    fn send_to(&self, endpoint: usize, wire: &Wire) -> SendOutcome {
        let world = &self.world;
        if world.strikes(Fault::LostRequest) {
            return SendOutcome::Unknown;
        }
        if world.strikes(Fault::LateDelivery) {
            self.deliver_later(endpoint, wire.clone());
            return SendOutcome::Unknown;
        }
        if world.strikes(Fault::SilentDrop) {
            return SendOutcome::Accepted;
        }
        if world.strikes(Fault::PoolFull) {
            return SendOutcome::PoolFull;
        }
        if world.strikes(Fault::Refusal) {
            return world.lock().rng.pick(REFUSALS).copied().unwrap_or(SendOutcome::Unknown);
        }
        if world.strikes(Fault::Verdict) {
            return self.refuse(wire);
        }
        let outcome = self.deliver(endpoint, wire);
        if world.strikes(Fault::Duplicate) {
            self.deliver(endpoint, wire);
        }
        if outcome == SendOutcome::AlreadyKnown && world.strikes(Fault::KnownRefused) {
            return SendOutcome::ReplacementUnderpriced;
        }
        if world.strikes(Fault::LostReply) { SendOutcome::Unknown } else { outcome }
    }

    /// A no, and nothing is taken. To bytes that are new everywhere it is seldom a final one, or little would ever land.
    fn refuse(&self, wire: &Wire) -> SendOutcome {
        let hash = wire.hash();
        let mut inner = self.world.lock();
        let met = inner.met.contains(&hash);
        let is_final = inner.rng.chance(if met { 500 } else { FIRST_IS_FINAL });
        let answers = if is_final { FINAL_REFUSALS } else { CHEAP_REFUSALS };
        inner.rng.pick(answers).copied().unwrap_or(SendOutcome::Unknown)
    }

    fn deliver_later(&self, endpoint: usize, wire: Wire) {
        let late = Duration::from_millis(self.world.range(1_000, 90_000));
        let again =
            Self { world: self.world.clone(), node: self.node, id: self.id, session: self.session.clone() };
        tokio::spawn(async move {
            tokio::time::sleep(late).await;
            again.deliver(endpoint, &wire);
        });
    }

    /// The number of the block that is called safe, or finalized, by whoever shows this fork.
    fn called(&self, fork: &Fork, finalized: bool) -> Option<u64> {
        let scenario = &self.world.scenario;
        let depth = scenario.finality + if finalized { scenario.deep } else { 0 };
        scenario.tagged.then(|| head(fork).header.at.number.saturating_sub(depth))
    }

    /// The word of one endpoint on the chain whose newest blocks are these.
    fn witness(&self, endpoint: usize, up: bool, fork: &Fork, recent: &BTreeMap<u64, B256>) -> Witness {
        let at = |number: u64| usize::try_from(number).ok().and_then(|n| fork.get(n)).map(|of| of.header.at);
        let same = |(number, hash): (&u64, &B256)| at(*number).map(|at| (at.number, at.hash == *hash));
        let newest = head(fork).header;
        Witness {
            endpoint: format!("rpc-{endpoint}"),
            up,
            head: Some(newest.at.number),
            agrees: recent.iter().rev().filter_map(same).find(|(_, same)| *same).map(|(number, _)| number),
            differs: recent.iter().filter_map(same).find(|(_, same)| !*same).map(|(number, _)| number),
            time: Some(newest.timestamp),
            safe: self.called(fork, false).and_then(at),
            finalized: self.called(fork, true).and_then(at),
        }
    }

    fn find(fork: &Fork, at: &BlockRef) -> Option<usize> {
        let position = usize::try_from(at.number).ok()?;
        fork.get(position).filter(|block| block.header.at == *at).map(|_| position)
    }
}

static CODEC: WireCodec = WireCodec;

#[async_trait]
impl Chain for SimChain {
    fn id(&self) -> ChainId {
        self.id
    }

    fn codec(&self) -> &dyn Codec {
        &CODEC
    }

    async fn block(&self, at: BlockAt) -> Result<Option<Block>, Error> {
        let asks_on = self.world.scenario.forked;
        // The real pool follows the highest head that anybody shows, and looks for a block by its hash everywhere.
        let has = |fork: &Fork| match at {
            BlockAt::Latest => head(fork).header.at.number,
            BlockAt::Hash(hash) => u64::from(fork.iter().rev().any(|block| block.header.at.hash == hash)),
            BlockAt::Number(_) | BlockAt::Safe | BlockAt::Finalized => 0,
        };
        let (_, fork) = self.reach_best("show a block", |fork| if asks_on { has(fork) } else { 0 }).await?;
        let number = |n: u64| usize::try_from(n).ok().and_then(|n| fork.get(n)).map(|block| block.header);
        Ok(match at {
            BlockAt::Latest => Some(head(&fork).header),
            BlockAt::Number(n) => number(n),
            BlockAt::Hash(hash) => {
                fork.iter().rev().find(|block| block.header.at.hash == hash).map(|b| b.header)
            }
            BlockAt::Safe => self.called(&fork, false).and_then(number),
            BlockAt::Finalized => self.called(&fork, true).and_then(number),
        })
    }

    async fn leads_to(&self, block: &BlockRef, head: &BlockRef) -> Result<bool, Error> {
        let doing = "judge a block";
        let (_, fork) = self.reach_block(doing, head).await?;
        if Self::find(&fork, head).is_none() {
            return Err(Error::Unreachable { chain: self.id, doing, text: "unknown head".into() });
        }
        Ok(Self::find(&fork, block).is_some())
    }

    async fn witnesses(&self, recent: &BTreeMap<u64, B256>) -> Vec<Witness> {
        if !self.world.scenario.forked {
            return Vec::new();
        }
        let now = self.world.now();
        let cut = self.world.gate(self.node).rpc_cut_until > now;
        let inner = self.world.lock();
        let endpoints = inner.chains.get(&self.id).map_or(&[][..], |chain| &chain.endpoints);
        let shown = endpoints.iter().enumerate();
        shown.map(|(n, of)| self.witness(n, !cut && of.down_until <= now, &of.fork, recent)).collect()
    }

    async fn second(&self, receipts: &[Receipt]) -> Vec<SecondWord> {
        let inner = self.world.lock();
        let endpoints = inner.chains.get(&self.id).map_or(&[][..], |chain| &chain.endpoints);
        let word = |receipt: &Receipt| {
            let shown = endpoints.iter().filter(|of| Self::find(&of.fork, &receipt.block).is_some()).count();
            match shown {
                0 | 1 if self.world.scenario.forked => {
                    SecondWord::Lacking { waited: Duration::ZERO, why: "nobody else has the block".into() }
                }
                _ => SecondWord::Same,
            }
        };
        receipts.iter().map(word).collect()
    }

    async fn head_hint(&self) {
        let jitter = self.world.range(0, 100);
        tokio::time::sleep(Duration::from_millis(POLL_MS + jitter)).await;
    }

    async fn block_receipts(&self, block: &BlockRef) -> Result<Vec<Receipt>, Error> {
        let (_, fork) = self.reach_block("show the receipts of a block", block).await?;
        let Some(position) = Self::find(&fork, block) else {
            return Err(Error::Unreachable {
                chain: self.id,
                doing: "show the receipts of a block",
                text: "unknown block".into(),
            });
        };
        let Some(found) = fork.get(position) else { return Ok(Vec::new()) };
        let mut receipts: Vec<Receipt> = (0..found.txs.len()).map(|index| receipt(found, index)).collect();
        receipts.retain(|_| !self.world.strikes(Fault::NullReceipt));
        Ok(receipts)
    }

    async fn receipts(&self, hashes: &[TxHash]) -> Result<Vec<Receipt>, Error> {
        let (_, fork) = self.reach("show receipts").await?;
        let asked = if self.world.has(Planted::NewestHashOnly) {
            &hashes[hashes.len().saturating_sub(1)..]
        } else {
            hashes
        };
        let mut found: Vec<Receipt> =
            asked.iter().filter_map(|hash| ChainModel::receipt(&fork, hash)).collect();
        found.retain(|_| !self.world.strikes(Fault::NullReceipt));
        Ok(found)
    }

    async fn counts(&self, accounts: &[Account], at: &BlockRef) -> Result<Vec<Slot>, Error> {
        let (endpoint, fork) = self.reach_block("count", at).await?;
        let Some(block) = Self::find(&fork, at).and_then(|position| fork.get(position)) else {
            return Err(Error::Unreachable { chain: self.id, doing: "count", text: "unknown block".into() });
        };
        let count = |account: &Account| block.accounts.get(account).map_or(0, |state| state.count);
        if self.world.has(Planted::PendingCount) {
            let inner = self.world.lock();
            let pool = inner.chains.get(&self.id).map(|chain| &chain.endpoints[endpoint].pool);
            let pending = |account: &Account| {
                let mut next = count(account);
                while pool.is_some_and(|pool| pool.contains_key(&(*account, next))) {
                    next += 1;
                }
                Slot(next)
            };
            return Ok(accounts.iter().map(pending).collect());
        }
        Ok(accounts.iter().map(|account| Slot(count(account))).collect())
    }

    async fn balances(&self, accounts: &[Account], at: &BlockRef) -> Result<Vec<Wei>, Error> {
        let (_, fork) = self.reach_block("show balances", at).await?;
        let Some(block) = Self::find(&fork, at).and_then(|position| fork.get(position)) else {
            return Err(Error::Unreachable {
                chain: self.id,
                doing: "show balances",
                text: "unknown block".into(),
            });
        };
        let balance =
            |account: &Account| block.accounts.get(account).map_or(Wei::default(), |s| Wei(s.balance));
        Ok(accounts.iter().map(balance).collect())
    }

    async fn delegated(&self, accounts: &[Account], at: &BlockRef) -> Result<Vec<bool>, Error> {
        let (_, fork) = self.reach_block("show code", at).await?;
        let Some(block) = Self::find(&fork, at).and_then(|position| fork.get(position)) else {
            return Err(Error::Unreachable {
                chain: self.id,
                doing: "show code",
                text: "unknown block".into(),
            });
        };
        let delegated = |account: &Account| block.accounts.get(account).is_some_and(|s| s.delegated);
        Ok(accounts.iter().map(delegated).collect())
    }

    async fn pooled(&self, hashes: &[TxHash]) -> Result<Vec<bool>, Error> {
        let (_, fork) = self.reach("show its pool").await?;
        let now = self.world.now();
        let inner = self.world.lock();
        let endpoints = inner.chains.get(&self.id).map_or(&[][..], |chain| &chain.endpoints);
        // Everybody who answers is asked.
        let up = || endpoints.iter().filter(|at| at.down_until <= now);
        let in_pool = |hash: &TxHash| up().any(|at| at.pool.values().any(|(other, _)| other == hash));
        Ok(hashes.iter().map(|hash| in_pool(hash) || ChainModel::receipt(&fork, hash).is_some()).collect())
    }

    async fn taker(&self, block: &BlockRef, account: Account, slot: Slot) -> Result<Option<Taker>, Error> {
        let (_, fork) = self.reach_block("show a block", block).await?;
        let unknown =
            |text: &str| Error::Unreachable { chain: self.id, doing: "show a block", text: text.into() };
        let Some(position) = Self::find(&fork, block) else { return Err(unknown("unknown block")) };
        let count_at = |position: usize| {
            fork.get(position).and_then(|block| block.accounts.get(&account)).map_or(0, |state| state.count)
        };
        let before = position.checked_sub(1).map_or(0, count_at);
        if !(before..count_at(position)).contains(&slot.0) {
            return Err(unknown("the slot was not used in this block"));
        }
        let Some(block) = fork.get(position) else { return Err(unknown("unknown block")) };
        let taken = block.txs.iter().find(|(_, wire)| wire.from == account && wire.nonce == slot.0);
        Ok(taken.map(|(hash, wire)| Taker {
            hash: *hash,
            to: Some(wire.from),
            value: Wei(wire.value),
            data: wire.data.clone(),
            authorizations: wire.authorizations(),
            receipt: None,
        }))
    }

    async fn fees(&self, _head: &Block) -> Result<FeeQuote, Error> {
        self.reach("quote fees").await?;
        let base = self.world.lock().chains.get(&self.id).map_or(0, |chain| chain.base_fee);
        let fixed = Wei(U256::from(self.world.scenario.data_fee));
        Ok(FeeQuote {
            base_fee: Some(Price(base)),
            slow: Price(TIP / 2),
            normal: Price(TIP),
            fast: Price(TIP * 2),
            data_fee: Some(DataFee { fixed, per_byte: Wei::default() }).filter(|_| !fixed.0.is_zero()),
        })
    }

    async fn estimate(&self, calls: &[Call]) -> Vec<Result<Gas, EstimateFailure>> {
        let reached = self.reach("estimate").await;
        calls
            .iter()
            .map(|call| match &reached {
                Err(error) => Err(EstimateFailure::Unavailable { text: error.to_string() }),
                Ok(_) if self.world.strikes(Fault::EstimateDown) => {
                    Err(EstimateFailure::Unavailable { text: "made to fail".into() })
                }
                Ok((_, fork)) => {
                    let balance = head(fork).accounts.get(&call.from).map(|state| state.balance);
                    if balance.is_none_or(|balance| balance < call.value.0)
                        || balance.is_some_and(|b| b.is_zero())
                    {
                        Err(EstimateFailure::InsufficientFunds { text: "the account is empty".into() })
                    } else {
                        Ok(Gas(GAS))
                    }
                }
            })
            .collect()
    }

    async fn send(&self, raw: &[Sealed]) -> Vec<SendReport> {
        self.may_act();
        self.is_the_same_chain();
        self.world.pass(self.node).await;
        let now = self.world.now();
        let cut = self.world.gate(self.node).rpc_cut_until > now;
        if cut {
            tokio::time::sleep(TIME_LIMIT).await;
        }
        let up: Vec<usize> = {
            let inner = self.world.lock();
            let endpoints = inner.chains.get(&self.id).map_or(&[][..], |chain| &chain.endpoints);
            (0..endpoints.len()).filter(|n| !cut && endpoints[*n].down_until <= now).collect()
        };
        let mut reports = Vec::with_capacity(raw.len());
        for sealed in raw {
            let Some(wire) = Wire::read(&sealed.raw) else { continue };
            let answers = up.iter().map(|endpoint| SendReport {
                outcome: self.send_to(*endpoint, &wire),
                endpoint: format!("rpc-{endpoint}"),
                code: None,
                text: None,
                latency_ms: 1,
            });
            let mut report = merge(answers.collect()).unwrap_or(SendReport {
                outcome: SendOutcome::Unknown,
                endpoint: "none".into(),
                code: None,
                text: Some("no endpoint answers".into()),
                latency_ms: 0,
            });
            if FINAL_REFUSALS.contains(&report.outcome) {
                self.world.lock().refused.extend(wire.content());
            }
            if self.world.has(Planted::AlreadyKnownIsFailure) && report.outcome == SendOutcome::AlreadyKnown {
                report.outcome = SendOutcome::Invalid;
            }
            self.world.trace(format_args!(
                "node {} sends slot {} of {}: {}",
                self.node,
                wire.nonce,
                wire.from,
                report.outcome.name()
            ));
            reports.push(report);
        }
        self.world.pass(self.node).await;
        reports
    }

    async fn pools(&self, account: Account) -> Vec<PoolLook> {
        self.world.pass(self.node).await;
        let now = self.world.now();
        let cut = self.world.gate(self.node).rpc_cut_until > now;
        let inner = self.world.lock();
        let endpoints = inner.chains.get(&self.id).map_or(&[][..], |chain| &chain.endpoints);
        let look = |(n, at): (usize, &super::model::Endpoint)| {
            let up = !cut && at.down_until <= now;
            let latest = head(&at.fork).accounts.get(&account).map_or(0, |state| state.count);
            let listed: BTreeSet<Slot> =
                at.pool.keys().filter(|(from, _)| *from == account).map(|(_, nonce)| Slot(*nonce)).collect();
            let ready = (latest..).take_while(|nonce| listed.contains(&Slot(*nonce))).count() as u64;
            let pooled = Pooled { latest: Slot(latest), pending: Slot(latest + ready), listed };
            PoolLook { endpoint: format!("rpc-{n}"), found: up.then_some(pooled).ok_or("cut off".to_owned()) }
        };
        endpoints.iter().enumerate().map(look).collect()
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        Vec::new()
    }
}
