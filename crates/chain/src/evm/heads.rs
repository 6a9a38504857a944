//! Blocks, and the word that there may be a new one.
//!
//! The head is asked of every usable endpoint at once: the freshest answer counts, and every answer tells how far its
//! endpoint lags. A head seen once is not taken back for an older one just because another endpoint answered; only
//! the endpoint that showed it may (a reorganisation), or time (the chain was restarted and that endpoint is gone).
//!
//! A head is one only if the blocks below it are there. Whoever follows the chain asks for them by hash; what nobody can show is held
//! against the endpoint that showed the head. After some such heads in a row its word is set aside for a while.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::B256;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use landfall_core::Gas;
use landfall_core::ports::chain::{BlockAt, BlockWord, Error, ShownBlock};
use landfall_core::view::{Block, BlockRef};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::abilities;
use super::classify::Trouble;
use super::config::Config;
use super::endpoint::Endpoint;
use super::health::{HeadDoubt, Standing};
use super::planted::{self, Planted};
use super::pool::Pool;
use super::receipts::unknown_block;
use super::rpc::{Ask, Failure, read};
use super::transport::Link;
use super::wire::{RawBlock, hex};

/// A subscription that says nothing for this many polling intervals is not waited for any longer.
const PATIENCE: u32 = 10;
/// How long it is waited for the block below a head that did not count before.
const TRIAL: Duration = Duration::from_secs(1);
/// How long endpoints that did not give the head are waited for, when all are asked for a block.
const SECOND_WAIT: Duration = Duration::from_secs(1);
/// So many blocks are remembered that must be there.
const MOST_CLAIMS: usize = 1_024;
/// How long to wait before a lost subscription is asked for again.
const RESUBSCRIBE: Duration = Duration::from_secs(2);

/// Follows a chain's head.
pub(super) struct Heads {
    pool: Arc<Pool>,
    poll: Duration,
    memory: Duration,
    newest: Mutex<Option<Seen>>,
    newest_safe: Mutex<Option<Seen>>,
    newest_finalized: Mutex<Option<Seen>>,
    claims: Mutex<Option<Claims>>,
    news: Arc<News>,
    /// The tasks that listen to subscriptions; they end with this.
    listeners: Mutex<Option<JoinSet<()>>>,
}

/// The newest head seen, where and when.
#[derive(Clone, Copy)]
struct Seen {
    number: u64,
    endpoint: usize,
    at: Instant,
}

/// The blocks that must be there if what endpoints have shown below the last head is true.
struct Claims {
    /// The endpoint that gave the last head.
    endpoint: usize,
    head: u64,
    blocks: HashMap<B256, Claim>,
    /// One of them is not there.
    broken: bool,
}

/// A block that must be there.
#[derive(Clone, Copy)]
struct Claim {
    number: u64,
    /// The endpoint that named it, with a block above it.
    by: usize,
}

/// Woken by subscriptions.
#[derive(Default)]
struct News {
    woken: Notify,
    listening: AtomicUsize,
}

type Look = (usize, Result<Block, Failure>);

impl Heads {
    pub(super) fn new(pool: &Arc<Pool>, config: &Config) -> Self {
        Self {
            pool: Arc::clone(pool),
            poll: config.poll_interval,
            memory: config.head_memory,
            newest: Mutex::new(None),
            newest_safe: Mutex::new(None),
            newest_finalized: Mutex::new(None),
            claims: Mutex::new(None),
            news: Arc::default(),
            listeners: Mutex::new(None),
        }
    }

    pub(super) async fn block(&self, at: BlockAt) -> Result<Option<Block>, Error> {
        match at {
            BlockAt::Latest => self.head().await.map(Some),
            BlockAt::Safe | BlockAt::Finalized | BlockAt::Number(_) | BlockAt::Hash(_) => self.find(at).await,
        }
    }

    async fn find(&self, at: BlockAt) -> Result<Option<Block>, Error> {
        let claimed = match at {
            BlockAt::Hash(hash) => {
                lock(&self.claims).as_ref().and_then(|claims| claims.blocks.get(&hash).copied())
            }
            BlockAt::Latest | BlockAt::Safe | BlockAt::Finalized | BlockAt::Number(_) => None,
        };
        let found = self.search(at, claimed.map(|claim| claim.number)).await?;
        if let Some(claim) = claimed {
            self.compare(claim, found.as_ref());
        }
        Ok(found.map(|(_, block)| block))
    }

    /// One block, with this number if one is given, asked of one endpoint after the other until one knows it. With it comes the place of
    /// that endpoint.
    async fn search(&self, at: BlockAt, number: Option<u64>) -> Result<Option<(usize, Block)>, Error> {
        let mut rounds = self.pool.rounds();
        let mut anyone_answered = false;
        loop {
            let mut failures = Vec::new();
            for endpoint in self.pool.by_health() {
                let Some(place) = self.pool.place(&endpoint) else { continue };
                match one(&endpoint, at).await {
                    Ok(Some(block)) if number.is_some_and(|number| block.at.number != number) => {
                        anyone_answered = true;
                    }
                    Ok(Some(block)) if self.is_news(place, at, block.at.number) => {
                        return Ok(Some((place, block)));
                    }
                    // Another endpoint has shown a newer one: this one is behind.
                    Ok(Some(_)) => anyone_answered = true,
                    Ok(None) => anyone_answered = true,
                    Err(failure) => failures.push((endpoint, failure)),
                }
            }
            if !rounds.another(&failures).await {
                return if anyone_answered {
                    Ok(None)
                } else {
                    Err(self.pool.none("read a block", &failures))
                };
            }
        }
    }

    /// A tag never goes back to an older block just because another endpoint answered.
    fn is_news(&self, place: usize, at: BlockAt, number: u64) -> bool {
        let newest = match at {
            BlockAt::Safe => &self.newest_safe,
            BlockAt::Finalized => &self.newest_finalized,
            BlockAt::Latest | BlockAt::Number(_) | BlockAt::Hash(_) => return true,
        };
        (!self.pool.is_aside(place) && self.accept(newest, place, number).is_ok())
            || planted::has(Planted::OlderTagTaken)
    }

    /// The freshest head of any endpoint. Those whose answers were lost are asked again if the others know none, or
    /// only an older one than was seen.
    async fn head(&self) -> Result<Block, Error> {
        let mut rounds = self.pool.rounds();
        loop {
            let mut failures = Vec::new();
            match self.look_around(&mut failures).await {
                Ok(head) => return Ok(head),
                Err(error) => {
                    if !rounds.another(&failures).await {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn look_around(&self, failures: &mut Vec<(Arc<Endpoint>, Failure)>) -> Result<Block, Error> {
        const DOING: &str = "read the head";
        self.try_again();
        let usable = self.pool.by_health();
        let all = self.pool.all();
        let several = all.len() > 1;
        // Tasks of their own: a slow endpoint's answer still tells how far it lags.
        let mut looking: FuturesUnordered<JoinHandle<Look>> = usable
            .into_iter()
            .filter_map(|endpoint| self.pool.place(&endpoint).map(|index| (index, endpoint)))
            .map(|(index, endpoint)| tokio::spawn(async move { (index, look(&endpoint, several).await) }))
            .collect();
        let last = lock(&self.newest).map(|seen| seen.endpoint);
        // Among equals the endpoint that gave the last head, so that two forks do not take turns.
        let rank = |at: usize, block: &Block| (block.at.number, Some(at) == last, Reverse(at));
        let mut best: Option<(usize, Block)> = None;
        while let Some(answer) = self.next(&mut looking, best.is_some()).await {
            match answer {
                (index, Ok(block)) if !self.counts(index, &block).await => {
                    let text = self.pool.with_doubt(index, |doubt| doubt.trouble().map(str::to_owned));
                    let failure = Failure::Unreadable(text.flatten().unwrap_or_default());
                    failures.extend(all.get(index).map(|e| (Arc::clone(e), failure)));
                }
                (index, Ok(block)) => {
                    if best.as_ref().is_none_or(|(at, known)| rank(index, &block) > rank(*at, known)) {
                        best = Some((index, block));
                    }
                }
                (index, Err(failure)) => failures.extend(all.get(index).map(|e| (Arc::clone(e), failure))),
            }
        }
        let Some((index, block)) = best else {
            return Err(self.pool.none(DOING, failures));
        };
        let block = Block { gas_limit: self.gas_limit(block.gas_limit), ..block };
        match self.accept(&self.newest, index, block.at.number) {
            Ok(()) => {
                self.claim(index, &block);
                Ok(block)
            }
            Err(_) if planted::has(Planted::OlderHeadTaken) => Ok(block),
            Err(known) => {
                let text = format!("block {known} was seen, the best answer now is {}", block.at.number);
                Err(Error::Unreachable { chain: self.pool.chain(), doing: DOING, text })
            }
        }
    }

    /// The most gas that a block can hold: the highest that an endpoint shows which is up. By the word of one that says too little
    /// transactions would be ended for good; one that has not said anything yet may say more.
    fn gas_limit(&self, shown: Gas) -> Gas {
        let said = self.pool.all().iter().enumerate().map(|(place, endpoint)| match endpoint.standing() {
            Standing::Resting => shown,
            Standing::Ready | Standing::Shaky if self.pool.is_aside(place) => shown,
            Standing::Ready | Standing::Shaky => endpoint.shown().gas_limit().unwrap_or(Gas(u64::MAX)),
        });
        said.fold(shown, Gas::max)
    }

    /// Looks whether endpoints that have shown another chain show this one by now. Nobody waits for it.
    fn try_again(&self) {
        for (place, endpoint) in self.pool.all().iter().enumerate() {
            let now = Instant::now();
            let Some(block) = self.pool.with_doubt(place, |doubt| doubt.tried_again(now)).flatten() else {
                continue;
            };
            let (pool, endpoint) = (Arc::clone(&self.pool), Arc::clone(endpoint));
            tokio::spawn(async move {
                let shown = one(&endpoint, BlockAt::Number(block.number)).await;
                if shown.is_ok_and(|shown| shown.is_some_and(|shown| shown.at == block)) {
                    pool.acquit(place);
                }
            });
        }
    }

    /// Blocks with this number, as each endpoint that is up shows them. Who gave the head is waited for, others a little unless it is the
    /// first block.
    pub(super) async fn shown(&self, number: u64) -> Vec<ShownBlock> {
        let all = self.pool.all();
        let giver = lock(&self.newest).map(|seen| seen.endpoint);
        let is_asked = |(place, endpoint): &(usize, &Arc<Endpoint>)| {
            endpoint.standing() != Standing::Resting && self.pool.elsewhere(*place).is_none()
        };
        let asking = all.iter().enumerate().filter(is_asked).map(|(place, endpoint)| async move {
            let (asked, gave_head) = (one(endpoint, BlockAt::Number(number)), giver == Some(place));
            // By its first block a chain is known for ever.
            let wait = if gave_head || number == 0 { endpoint.limit } else { SECOND_WAIT };
            let word = match tokio::time::timeout(wait, asked).await {
                Ok(Ok(Some(block))) => BlockWord::Is(block.at.hash),
                Ok(Ok(None) | Err(Failure::Refused(_) | Failure::Unreadable(_))) => BlockWord::Lacks,
                Ok(Err(Failure::Lost(_) | Failure::TurnedAway { .. })) | Err(_) => BlockWord::NoAnswer,
            };
            ShownBlock { place, endpoint: endpoint.name.to_string(), word, gave_head }
        });
        join_all(asking).await
    }

    /// An endpoint does not serve the chain with this block: what it has shown forbids others nothing.
    pub(super) fn set_aside(&self, place: usize, block: BlockRef) {
        self.pool.set_aside(place, block);
        let mut claims = lock(&self.claims);
        *claims = claims.take().filter(|claims| claims.endpoint != place);
        drop(claims);
        self.forget_newest(place);
    }

    /// Nothing that an endpoint has shown forbids others to show less.
    fn forget_newest(&self, place: usize) {
        for newest in [&self.newest, &self.newest_safe, &self.newest_finalized] {
            let mut newest = lock(newest);
            *newest = newest.filter(|seen| seen.endpoint != place);
        }
    }

    /// Whether an endpoint's head counts. One that was set aside for long enough is looked at again: the block below it must be there.
    async fn counts(&self, index: usize, head: &Block) -> bool {
        let is_on_trial =
            |doubt: &mut HeadDoubt| doubt.must_show().is_none() && doubt.is_on_trial(Instant::now());
        if self.pool.with_doubt(index, is_on_trial) == Some(true) {
            let number = head.at.number.checked_sub(1);
            let below = self.search(BlockAt::Hash(head.parent), number);
            match tokio::time::timeout(TRIAL, below).await {
                Ok(Ok(Some(_))) => self.pool.acquit(index),
                Ok(_) | Err(_) => {
                    self.pool.doubt(index, head.at.number);
                }
            }
        }
        !self.pool.is_aside(index)
    }

    /// A head is handed on: it, and the block below it, must be there.
    fn claim(&self, endpoint: usize, head: &Block) {
        let mut claims = lock(&self.claims);
        let known = claims.take().filter(|claims| claims.endpoint == endpoint);
        if known.as_ref().is_some_and(|claims| !claims.broken) {
            // Whoever was given its last head did not look in vain.
            self.pool.followed(endpoint);
        }
        let known = known.map(|claims| claims.blocks).filter(|blocks| blocks.len() < MOST_CLAIMS);
        let mut blocks = known.unwrap_or_default();
        blocks.insert(head.at.hash, Claim { number: head.at.number, by: endpoint });
        let below = head.at.number.checked_sub(1).map(|number| Claim { number, by: endpoint });
        blocks.extend(below.map(|below| (head.parent, below)));
        *claims = Some(Claims { endpoint, head: head.at.number, blocks, broken: false });
    }

    /// A block that must be there was asked for, and this was found.
    fn compare(&self, claim: Claim, found: Option<&(usize, Block)>) {
        let mut guard = lock(&self.claims);
        let Some(claims) = guard.as_mut() else { return };
        if let Some((by, block)) = found {
            let below = block.at.number.checked_sub(1).map(|number| Claim { number, by: *by });
            claims.blocks.extend(below.map(|below| (block.parent, below)));
            return;
        }
        if std::mem::replace(&mut claims.broken, true) || !self.pool.doubt(claim.by, claims.head) {
            return;
        }
        *guard = None;
        self.forget_newest(claim.by);
    }

    /// The next answer; once there is one, the others are waited for a little only.
    async fn next(&self, looking: &mut FuturesUnordered<JoinHandle<Look>>, have_one: bool) -> Option<Look> {
        loop {
            let answer = if have_one {
                tokio::time::timeout(self.pool.straggler_grace, looking.next()).await.ok().flatten()
            } else {
                looking.next().await
            };
            match answer? {
                Ok(look) => return Some(look),
                Err(error) => tracing::error!(%error, "a look at the head ended early"),
            }
        }
    }

    /// Takes a block as the newest of its kind, or says which newer one was seen.
    fn accept(&self, newest: &Mutex<Option<Seen>>, endpoint: usize, number: u64) -> Result<(), u64> {
        let now = Instant::now();
        let mut newest = lock(newest);
        match *newest {
            Some(seen)
                if number < seen.number
                    && endpoint != seen.endpoint
                    && now.saturating_duration_since(seen.at) < self.memory =>
            {
                Err(seen.number)
            }
            Some(_) | None => {
                *newest = Some(Seen { number, endpoint, at: now });
                Ok(())
            }
        }
    }

    /// Returns when there may be a new head.
    pub(super) async fn hint(&self) {
        self.listen();
        let subscribed = self.news.listening.load(Ordering::Relaxed) > 0;
        let limit = if subscribed { self.poll.saturating_mul(PATIENCE) } else { self.poll };
        tokio::select! {
            () = self.news.woken.notified() => {}
            () = tokio::time::sleep(limit) => {}
        }
    }

    /// Starts to listen to the endpoints that announce heads, if that has not been done.
    fn listen(&self) {
        let mut listeners = lock(&self.listeners);
        if listeners.is_some() {
            return;
        }
        let mut tasks = JoinSet::new();
        for endpoint in self.pool.all() {
            if matches!(endpoint.link, Link::Ws(_)) {
                tasks.spawn(subscribe(Arc::clone(endpoint), Arc::clone(&self.news)));
            }
        }
        *listeners = Some(tasks);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Plain data: a panic elsewhere leaves it readable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes whoever waits at every head that an endpoint announces, for ever.
async fn subscribe(endpoint: Arc<Endpoint>, news: Arc<News>) {
    let Link::Ws(link) = &endpoint.link else { return };
    loop {
        let subscription = match endpoint.vet().await {
            Ok(()) => link.new_heads(endpoint.next_id()).await,
            Err(failure) => Err(failure),
        };
        match subscription {
            Ok(mut heads) => {
                endpoint.quirks.no_subscriptions.store(false, Ordering::Relaxed);
                news.listening.fetch_add(1, Ordering::Relaxed);
                // Having missed some heads is as good a reason to look as seeing one.
                while matches!(
                    heads.recv().await,
                    Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_))
                ) {
                    news.woken.notify_one();
                }
                news.listening.fetch_sub(1, Ordering::Relaxed);
            }
            Err(failure) => {
                endpoint.quirks.no_subscriptions.store(true, Ordering::Relaxed);
                tracing::debug!(endpoint = %endpoint.name, %failure, "no subscription to new heads");
            }
        }
        tokio::time::sleep(RESUBSCRIBE).await;
    }
}

/// The head as one endpoint sees it; it is remembered as its word.
async fn look(endpoint: &Endpoint, is_one_of_several: bool) -> Result<Block, Failure> {
    let asked = Instant::now();
    let found = ask_head(endpoint, is_one_of_several).await;
    endpoint.shown().head(found.as_ref().ok(), asked);
    found
}

async fn ask_head(endpoint: &Endpoint, is_one_of_several: bool) -> Result<Block, Failure> {
    endpoint.vet().await?;
    abilities::probe(endpoint).await;
    if endpoint.is_due_for_finality() {
        // For the book: how far behind it is, and its own word on what is final. Trouble shows in the next question.
        one(endpoint, BlockAt::Finalized).await.ok();
        if is_one_of_several {
            one(endpoint, BlockAt::Safe).await.ok();
        }
    }
    let block = one(endpoint, BlockAt::Latest)
        .await?
        .ok_or_else(|| Failure::Unreadable("it has no latest block".to_owned()))?;
    if endpoint.is_past(block.timestamp) {
        in_sync(endpoint, block.at.number).await?;
    }
    endpoint.saw_head(block.at.number);
    Ok(block)
}

/// A head that is not of the present: the chain stands still, or this node has to catch up and says so. What it shows until then is the past.
async fn in_sync(endpoint: &Endpoint, head: u64) -> Result<(), Failure> {
    let progress = match endpoint.ask_for::<Value>(&Ask::new("eth_syncing", json!([]))).await {
        Ok(Value::Object(progress)) => progress,
        // In sync, or a node that does not know the method.
        Ok(_) | Err(_) => return Ok(()),
    };
    let number = |field| {
        let hex = progress.get(field).and_then(Value::as_str)?;
        u64::from_str_radix(hex.trim_start_matches("0x"), 16).ok()
    };
    let (current, highest) = (number("currentBlock"), number("highestBlock"));
    // It has every block, and is busy with an index.
    if current.is_some() && current >= highest {
        return Ok(());
    }
    let of = highest.map_or(String::new(), |highest| format!(" of {highest}"));
    let text = format!("it is syncing: it shows block {head}{of}");
    let failure = Failure::TurnedAway { trouble: Trouble::Syncing, code: None, text, wait: None };
    endpoint.note_failure(&failure);
    Err(failure)
}

/// Whether a block lies below a head, as an endpoint says that has the head.
pub(super) async fn leads_to(pool: &Pool, block: BlockRef, head: BlockRef) -> Result<bool, Error> {
    pool.first("find a block below the head", |endpoint| async move {
        let by_number = |number| Ask::new("eth_getBlockByNumber", json!([hex(number), false]));
        // Together, so that there is hardly a time in between in which a node could go over to another fork.
        let answers = endpoint.ask_all(&[by_number(head.number), by_number(block.number)]).await;
        let mut shown = answers.into_iter().map(|answer| {
            let found: Option<RawBlock> = read("eth_getBlockByNumber", &answer?)?;
            Ok::<_, Failure>(found.map(|found| found.read()).transpose()?.map(|found| found.at))
        });
        if shown.next().transpose()?.flatten() != Some(head) {
            return Err(unknown_block(head));
        }
        match shown.next().transpose()?.flatten() {
            Some(shown) => Ok(shown == block),
            None => Err(unknown_block(block)),
        }
    })
    .await
}

/// A block as one endpoint sees it; none if it says that it does not know it.
pub(super) async fn one(endpoint: &Endpoint, at: BlockAt) -> Result<Option<Block>, Failure> {
    endpoint.vet().await?;
    let (method, which, is_tag): (_, Value, _) = match at {
        BlockAt::Latest => ("eth_getBlockByNumber", json!("latest"), false),
        BlockAt::Safe => ("eth_getBlockByNumber", json!("safe"), true),
        BlockAt::Finalized => ("eth_getBlockByNumber", json!("finalized"), true),
        BlockAt::Number(number) => ("eth_getBlockByNumber", hex(number), false),
        BlockAt::Hash(hash) => ("eth_getBlockByHash", json!(hash), false),
    };
    let lacking = match at {
        BlockAt::Safe => endpoint.quirks.no_safe.load(Ordering::Relaxed),
        BlockAt::Finalized => endpoint.quirks.no_finalized.load(Ordering::Relaxed),
        BlockAt::Latest | BlockAt::Number(_) | BlockAt::Hash(_) => false,
    };
    if lacking {
        return Ok(None);
    }
    let raw = match endpoint.ask(&Ask::new(method, json!([which, false]))).await {
        Ok(raw) => raw,
        Err(Failure::TurnedAway { trouble: Trouble::Behind, .. }) => return Ok(None),
        // A chain without these tags says so in many ways.
        Err(Failure::Refused(_)) if is_tag => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let block = read::<RawBlock>(method, &raw)?.map(|block| block.read()).transpose()?;
    let is_other = |block: &Block| match at {
        BlockAt::Latest | BlockAt::Safe | BlockAt::Finalized => false,
        BlockAt::Number(number) => block.at.number != number,
        BlockAt::Hash(hash) => block.at.hash != hash,
    };
    if let Some(other) = block.as_ref().filter(|block| is_other(block)) {
        let BlockRef { number, hash } = other.at;
        return Err(Failure::Unreadable(format!(
            "it showed block {number} ({hash:#x}), which was not asked for"
        )));
    }
    if let Some(block) = &block {
        endpoint.shown().called(at, block.at);
        if at == BlockAt::Finalized {
            endpoint.saw_finalized(block.at.number);
        }
    }
    Ok(block)
}
