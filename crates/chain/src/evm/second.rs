//! A second endpoint's word on receipts that one gave.
//!
//! Who gave which receipt is remembered, so that nobody is its own second witness, and one more question for a block says it
//! of all that is in it, whoever asks. What an endpoint says of a block that it has does not change; only where two differ
//! are they asked anew. An endpoint's last word stands until it says something else.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::B256;
use landfall_core::TxHash;
use landfall_core::view::{BlockRef, Receipt};
use landfall_core::witness::SecondWord;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::planted::{self, Planted};
use super::pool::Pool;
use super::receipts;
use super::rpc::Failure;

/// How many endpoints must say the same.
const WITNESSES: usize = 2;
/// So many blocks are remembered; those that were not asked about for longest are forgotten first.
const KEPT: usize = 256;
/// Endpoints that differ, or that could not answer, are asked again not oftener than this.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Words of endpoints on the receipts of the newest blocks.
#[derive(Default)]
pub(super) struct Words(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    blocks: HashMap<B256, (u64, Arc<OfBlock>)>,
    /// Counts the uses.
    used: u64,
}

/// One block.
#[derive(Default)]
struct OfBlock {
    /// Held by whoever asks: the others then know.
    asking: tokio::sync::Mutex<()>,
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    /// By the place of the endpoint in the configuration.
    words: BTreeMap<usize, Word>,
    /// Since when a second word is waited for; begins anew when endpoints differ.
    since: Option<Instant>,
    /// When somebody was last asked in vain, and what came of it.
    failed: Option<(Instant, String)>,
    /// That they differ was written to the log.
    told: bool,
}

/// Word of one endpoint on a block.
struct Word {
    /// All of it, so that what is not there is not in the block.
    whole: bool,
    /// The status of each; none: the block does not hold it.
    said: HashMap<TxHash, Option<bool>>,
    at: Instant,
}

impl Word {
    /// Its word on one; none if it has given none.
    fn on(&self, hash: &TxHash) -> Option<Option<bool>> {
        self.said.get(hash).copied().or(self.whole.then_some(None))
    }
}

/// Verdict of the words on one receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tally {
    Same,
    /// Two say the same, and something else.
    Other(Option<bool>),
    Differs,
    Lacking,
}

impl Said {
    fn tally(&self, receipt: &Receipt) -> Tally {
        let votes = |wanted: Option<bool>| {
            self.words.values().filter(|word| word.on(&receipt.hash) == Some(wanted)).count()
        };
        let (own, flipped) = (Some(receipt.success), Some(!receipt.success));
        if votes(own) >= WITNESSES {
            Tally::Same
        } else if let Some(other) = [flipped, None].into_iter().find(|other| votes(*other) >= WITNESSES) {
            Tally::Other(other)
        } else if votes(flipped) + votes(None) > 0 {
            Tally::Differs
        } else {
            Tally::Lacking
        }
    }

    /// The word of each, for people.
    fn sentence(&self, pool: &Pool, receipt: &Receipt) -> String {
        let says = |(at, word): (&usize, &Word)| {
            let name = &pool.all().get(*at)?.name;
            Some(match word.on(&receipt.hash)? {
                Some(true) => format!("{name} shows that it succeeded"),
                Some(false) => format!("{name} shows that it reverted"),
                None => format!("{name} shows the block without it"),
            })
        };
        self.words.iter().filter_map(says).collect::<Vec<_>>().join(", ")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Plain data: a panic elsewhere leaves it readable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Words {
    fn of(&self, block: B256) -> Arc<OfBlock> {
        let mut memory = lock(&self.0);
        memory.used += 1;
        let used = memory.used;
        let entry = memory.blocks.entry(block).or_default();
        entry.0 = used;
        let found = Arc::clone(&entry.1);
        if memory.blocks.len() > KEPT {
            let oldest = memory.blocks.iter().min_by_key(|(_, (used, _))| *used).map(|(hash, _)| *hash);
            oldest.map(|hash| memory.blocks.remove(&hash));
        }
        found
    }

    /// An endpoint gave all receipts of a block.
    pub(super) fn gave_block(&self, pool: &Pool, by: &Arc<Endpoint>, block: BlockRef, receipts: &[Receipt]) {
        let Some(at) = place(pool, by) else { return };
        let said = receipts.iter().map(|receipt| (receipt.hash, Some(receipt.success))).collect();
        let word = Word { whole: true, said, at: Instant::now() };
        lock(&self.of(block.hash).said).words.insert(at, word);
    }

    /// An endpoint gave these, of whatever blocks.
    pub(super) fn gave(&self, pool: &Pool, by: &Arc<Endpoint>, receipts: &[Receipt]) {
        let Some(at) = place(pool, by) else { return };
        for receipt in receipts {
            let of = self.of(receipt.block.hash);
            let mut said = lock(&of.said);
            let new = || Word { whole: false, said: HashMap::new(), at: Instant::now() };
            let word = said.words.entry(at).or_insert_with(new);
            word.said.insert(receipt.hash, Some(receipt.success));
        }
    }
}

/// Where an endpoint stands; none where there is no second one, and nothing is remembered.
fn place(pool: &Pool, endpoint: &Arc<Endpoint>) -> Option<usize> {
    if pool.all().len() < WITNESSES {
        return None;
    }
    pool.all().iter().position(|other| Arc::ptr_eq(other, endpoint))
}

/// The word of a second endpoint on each.
pub(super) async fn words(pool: &Pool, words: &Words, receipts: &[Receipt]) -> Vec<SecondWord> {
    if pool.all().len() < WITNESSES || planted::has(Planted::OneGivesReceipts) {
        return vec![SecondWord::Same; receipts.len()];
    }
    let mut by_block: BTreeMap<BlockRef, Vec<(usize, &Receipt)>> = BTreeMap::new();
    for (position, receipt) in receipts.iter().enumerate() {
        by_block.entry(receipt.block).or_default().push((position, receipt));
    }
    let mut found = BTreeMap::new();
    for (block, asked) in by_block {
        let of = words.of(block.hash);
        let wanted: Vec<&Receipt> = asked.iter().map(|(_, receipt)| *receipt).collect();
        let said = of_block(pool, &of, block, &wanted).await;
        found.extend(asked.iter().map(|(position, _)| *position).zip(said));
    }
    found.into_values().collect()
}

async fn of_block(pool: &Pool, of: &OfBlock, block: BlockRef, wanted: &[&Receipt]) -> Vec<SecondWord> {
    let _one = of.asking.lock().await;
    let mut shown: Vec<Receipt> = Vec::new();
    let mut failures = Vec::new();
    let hashes: Vec<TxHash> = wanted.iter().map(|receipt| receipt.hash).collect();
    for endpoint in pool.by_health() {
        if !is_asked(pool, of, &endpoint, wanted) {
            continue;
        }
        match ask(&endpoint, block, &hashes).await {
            Ok((whole, receipts)) => {
                take(pool, of, &endpoint, whole, &hashes, &receipts);
                shown.extend(receipts);
            }
            Err(failure) => failures.push((endpoint, failure)),
        }
    }
    let mut said = lock(&of.said);
    let now = Instant::now();
    if !failures.is_empty() {
        said.failed = Some((now, pool.none("give a receipt a second time", &failures).to_string()));
    }
    wanted.iter().map(|receipt| verdict(pool, &mut said, receipt, &shown, now)).collect()
}

/// Its word is needed: on something that is not settled by two, and it has given none, or not lately where they differ.
fn is_asked(pool: &Pool, of: &OfBlock, endpoint: &Arc<Endpoint>, wanted: &[&Receipt]) -> bool {
    let now = Instant::now();
    let lately = |at: Instant| now.saturating_duration_since(at) < ASKED_EVERY;
    let said = lock(&of.said);
    let word = place(pool, endpoint).and_then(|at| said.words.get(&at));
    let failed = said.failed.as_ref().is_some_and(|(at, _)| lately(*at));
    wanted.iter().any(|receipt| match (said.tally(receipt), word) {
        (Tally::Same, _) => false,
        (_, None) => !failed,
        (_, Some(word)) if word.on(&receipt.hash).is_none() => !failed,
        // What it said is of long ago, and something is wrong with it.
        (Tally::Differs | Tally::Other(_), Some(word)) => !lately(word.at),
        (Tally::Lacking, Some(_)) => false,
    })
}

/// Everything that an endpoint has of a block, or these of it.
async fn ask(
    endpoint: &Endpoint,
    block: BlockRef,
    hashes: &[TxHash],
) -> Result<(bool, Vec<Receipt>), Failure> {
    endpoint.vet().await?;
    match receipts::whole_block(endpoint, block).await? {
        Some(receipts) => Ok((true, receipts)),
        None => Ok((false, receipts::listed(endpoint, block, hashes).await?)),
    }
}

fn take(pool: &Pool, of: &OfBlock, by: &Arc<Endpoint>, whole: bool, hashes: &[TxHash], receipts: &[Receipt]) {
    let Some(at) = place(pool, by) else { return };
    let mut said: HashMap<TxHash, Option<bool>> = hashes.iter().map(|hash| (*hash, None)).collect();
    said.extend(receipts.iter().map(|receipt| (receipt.hash, Some(receipt.success))));
    let now = Instant::now();
    match lock(&of.said).words.entry(at) {
        std::collections::btree_map::Entry::Occupied(mut word) if !whole => {
            word.get_mut().said.extend(said);
            word.get_mut().at = now;
        }
        std::collections::btree_map::Entry::Occupied(mut word) => {
            word.insert(Word { whole, said, at: now });
        }
        std::collections::btree_map::Entry::Vacant(place) => {
            place.insert(Word { whole, said, at: now });
        }
    }
}

/// Verdict of the words; `shown` are receipts as they were given just now.
fn verdict(pool: &Pool, said: &mut Said, receipt: &Receipt, shown: &[Receipt], now: Instant) -> SecondWord {
    let differ = |said: &mut Said| {
        let text = said.sentence(pool, receipt);
        said.since = Some(now);
        if !std::mem::replace(&mut said.told, true) {
            let (chain, hash, block) = (pool.chain(), receipt.hash, receipt.block.number);
            tracing::error!(%chain, %hash, block, said = text, "endpoints disagree about a receipt: its transaction does not end");
        }
        SecondWord::Differs(text)
    };
    match said.tally(receipt) {
        Tally::Same => SecondWord::Same,
        Tally::Other(None) => SecondWord::Wrong(None),
        Tally::Other(Some(success)) => {
            let other = |shown: &&Receipt| shown.hash == receipt.hash && shown.success == success;
            match shown.iter().find(other) {
                Some(other) => SecondWord::Wrong(Some(Box::new(other.clone()))),
                None => differ(said),
            }
        }
        Tally::Differs => differ(said),
        Tally::Lacking => {
            let since = *said.since.get_or_insert(now);
            let why = said.failed.as_ref().map_or("no other one answers", |(_, why)| why.as_str()).to_owned();
            SecondWord::Lacking { waited: now.saturating_duration_since(since), why }
        }
    }
}
