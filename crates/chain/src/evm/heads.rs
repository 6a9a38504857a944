//! Blocks, and the word that there may be a new one.
//!
//! The head is asked of every usable endpoint at once: the freshest answer counts, and every answer tells how far its
//! endpoint lags. A head seen once is not taken back for an older one just because another endpoint answered; only
//! the endpoint that showed it may (a reorganisation), or time (the chain was restarted and that endpoint is gone).

use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use landfall_core::ports::chain::{BlockAt, Error};
use landfall_core::view::{Block, BlockRef};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::abilities;
use super::classify::Trouble;
use super::config::Config;
use super::endpoint::Endpoint;
use super::planted::{self, Planted};
use super::pool::Pool;
use super::receipts::unknown_block;
use super::rpc::{Ask, Failure, read};
use super::transport::Link;
use super::wire::{RawBlock, hex};

/// A subscription that says nothing for this many polling intervals is not waited for any longer.
const PATIENCE: u32 = 10;
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

    /// One block, asked of one endpoint after the other until one knows it.
    async fn find(&self, at: BlockAt) -> Result<Option<Block>, Error> {
        let mut rounds = self.pool.rounds();
        let mut anyone_answered = false;
        loop {
            let mut failures = Vec::new();
            for endpoint in self.pool.by_health() {
                match one(&endpoint, at).await {
                    Ok(Some(block)) if self.is_news(&endpoint, at, block.at.number) => {
                        return Ok(Some(block));
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
    fn is_news(&self, endpoint: &Arc<Endpoint>, at: BlockAt, number: u64) -> bool {
        let newest = match at {
            BlockAt::Safe => &self.newest_safe,
            BlockAt::Finalized => &self.newest_finalized,
            BlockAt::Latest | BlockAt::Number(_) | BlockAt::Hash(_) => return true,
        };
        let position = self.pool.all().iter().position(|other| Arc::ptr_eq(other, endpoint));
        position.is_some_and(|position| self.accept(newest, position, number).is_ok())
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
        let usable = self.pool.by_health();
        let all = self.pool.all();
        let several = all.len() > 1;
        let position = |endpoint: &Arc<Endpoint>| all.iter().position(|other| Arc::ptr_eq(other, endpoint));
        // Tasks of their own: a slow endpoint's answer still tells how far it lags.
        let mut looking: FuturesUnordered<JoinHandle<Look>> = usable
            .into_iter()
            .filter_map(|endpoint| position(&endpoint).map(|index| (index, endpoint)))
            .map(|(index, endpoint)| tokio::spawn(async move { (index, look(&endpoint, several).await) }))
            .collect();
        let last = lock(&self.newest).map(|seen| seen.endpoint);
        let mut best: Option<(usize, Block)> = None;
        while let Some(answer) = self.next(&mut looking, best.is_some()).await {
            match answer {
                (index, Ok(block)) => {
                    // Among equals the endpoint that gave the last head, so that two forks do not take turns.
                    let rank = |at: usize, block: &Block| (block.at.number, Some(at) == last, Reverse(at));
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
        match self.accept(&self.newest, index, block.at.number) {
            Ok(()) => Ok(block),
            Err(_) if planted::has(Planted::OlderHeadTaken) => Ok(block),
            Err(known) => {
                let text = format!("block {known} was seen, the best answer now is {}", block.at.number);
                Err(Error::Unreachable { chain: self.pool.chain(), doing: DOING, text })
            }
        }
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
    endpoint.saw_head(block.at.number);
    Ok(block)
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
    if let Some(block) = &block {
        endpoint.shown().called(at, block.at);
        if at == BlockAt::Finalized {
            endpoint.saw_finalized(block.at.number);
        }
    }
    Ok(block)
}
