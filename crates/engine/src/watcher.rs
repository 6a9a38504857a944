//! Follows one chain for all its lanes.
//!
//! Blocks are linked by hash: a head whose parent is not the block we had is walked back until it meets one we know,
//! and what lay between is read again. Receipts come by block and are matched by hash to the open attempts of all
//! lanes, so the cost grows with blocks, not with transactions. A block counts as scanned only when its receipts were
//! read; one that could not be read is tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use landfall_core::ports::chain::{BlockAt, Chain, Error};
use landfall_core::ports::store::{ChainRecord, Write};
use landfall_core::request::Finality;
use landfall_core::settings::LaneSettings;
use landfall_core::view::{Block, BlockRef, ChainStatus, ChainView, Look, Receipt, Tag, Tags};
use landfall_core::witness::{Witness, Witnessed};
use landfall_core::{Account, ChainId, LaneId, Millis, Slot};
use tokio::time::Instant;

use crate::accounts::{Accounts, Answers, Due, Reasons};
use crate::directory::News;
use crate::parts::PlantedInEngine;
use crate::reader::Reader;
use crate::same_chain::{self, Word};
use crate::supervisor::Shared;
use crate::telemetry::{Fact, ReceiptCheck};
use crate::witnesses::Witnesses;

/// How many blocks back a walk goes at most; what lies deeper is found by looking up hashes.
const LONGEST_WALK: u64 = 256;
/// How many hashes are kept.
const KEPT: usize = 1_024;
/// A second endpoint's word on a first count is waited for so long in a look.
const AGREED_SOON: Duration = Duration::from_millis(300);
/// Kept below the scanned block where finality is by tag.
const TAG_DEPTH: u64 = 128;

pub(crate) struct Watcher {
    shared: Arc<Shared>,
    chain: Arc<dyn Chain>,
    /// How many blocks below the last scanned one are read again after a start.
    depth: u64,
    /// Where the chain has no `finalized` block: how deep one must lie to be remembered as what this chain is.
    settled_depth: u64,
    recent: BTreeMap<u64, B256>,
    reader: Reader,
    head_since: Millis,
    known: Option<Known>,
    status: ChainStatus,
    /// In words, while the endpoints show another chain.
    another: Option<String>,
    /// The last block that the chain called final.
    finalized: Option<BlockRef>,
    /// When a transaction is done here, unless its caller says otherwise.
    finality: Finality,
    tags: Tags,
    /// The chain has no tags by its configuration, and is not asked.
    untagged: bool,
    accounts: Accounts,
    /// The look that is under way.
    looked: Look,
    witnesses: Witnesses,
    /// A second endpoint is being asked for first counts; those that it says as well.
    agreeing: Option<tokio::task::JoinHandle<BTreeSet<(Account, Slot)>>>,
}

/// What the store remembers of the chain.
struct Known {
    genesis: B256,
    scanned: Option<BlockRef>,
    settled: Option<BlockRef>,
}

impl Watcher {
    pub(crate) fn new(shared: Arc<Shared>, chain: Arc<dyn Chain>, settings: &LaneSettings) -> Self {
        let depth = match settings.finality {
            Finality::Blocks(depth) => depth.max(8),
            Finality::Safe | Finality::Finalized => TAG_DEPTH,
        };
        Self {
            head_since: shared.parts.clock.now(),
            shared,
            reader: Reader::new(chain.clone()),
            chain,
            depth,
            settled_depth: depth.max(settings.watch_depth),
            recent: BTreeMap::new(),
            known: None,
            status: ChainStatus::Live,
            another: None,
            finalized: None,
            finality: settings.finality,
            tags: if settings.tags {
                Tags::default()
            } else {
                Tags { safe: Tag::Lacking, finalized: Tag::Lacking }
            },
            untagged: !settings.tags,
            accounts: Accounts::default(),
            looked: Look::default(),
            witnesses: Witnesses::new(settings.witness_wait),
            agreeing: None,
        }
    }

    pub(crate) async fn run(mut self) {
        let id = self.chain.id();
        let mut in_trouble = false;
        loop {
            match self.look().await {
                Ok(()) => {
                    if std::mem::take(&mut in_trouble) {
                        tracing::info!(chain = %id, "the chain is followed again");
                    }
                    self.shared.chain_trouble(id, self.another.clone());
                }
                Err(error) => {
                    if !std::mem::replace(&mut in_trouble, true) {
                        tracing::warn!(chain = %id, %error, "the chain cannot be followed; trying again");
                    }
                    self.shared.chain_trouble(id, Some(error.to_string()));
                }
            }
            self.shared.wait_for_poke(id, self.chain.head_hint()).await;
        }
    }

    /// One look at the chain: a new view if anything is new. Nothing of it counts before all of it has been read; what
    /// was read by hash is not read again.
    async fn look(&mut self) -> Result<(), Error> {
        let id = self.chain.id();
        self.looked = self.shared.directory.begin_look(id);
        if self.known.is_none() {
            self.known = Some(self.recall().await?);
        }
        let Some(head) = self.chain.block(BlockAt::Latest).await? else {
            return Err(self.unreachable("say what its head is", "no block".into()));
        };
        let before = self.shared.directory.view(id);
        let head = before.as_ref().map_or(head, |before| not_older(&self.recent, head, before.head));
        let is_new = self.recent.last_key_value().is_none_or(|(_, hash)| *hash != head.at.hash);
        match before {
            Some(before) if !is_new && self.status == ChainStatus::Live && before.head.at == head.at => {
                self.look_again(&before).await
            }
            Some(_) | None => {
                let looked = self.look_at(head, is_new).await;
                if looked.is_err() {
                    // The chain holds a head that nobody can show against whoever gave it.
                    self.chain.block(BlockAt::Hash(head.at.hash)).await.ok();
                }
                looked
            }
        }
    }

    /// The head is the one that was looked at: only lanes that were loaded since, that ask for it, or whose last answer is old,
    /// are asked about. A second endpoint may have shown more of it meanwhile.
    async fn look_again(&mut self, before: &ChainView) -> Result<(), Error> {
        let id = self.chain.id();
        let witnessed = self.witnessed(before.head.at.number).await;
        let (safe, finalized) = (before.witnessed.safe, before.witnessed.finalized);
        let witnessed = Witnessed { safe, finalized, ..witnessed };
        let is_more = !witnessed.counts_alike(&before.witnessed);
        let may_be_due = self.shared.directory.is_asked(id) || self.accounts.may_be_due(Instant::now());
        if !may_be_due && !is_more {
            return Ok(());
        }
        let at = &before.head.at;
        let reasons = self.reasons(at, BTreeSet::new(), false);
        let due = self.accounts.due(&reasons);
        if due.accounts.is_empty() && !is_more {
            return Ok(());
        }
        if !due.accounts.is_empty() {
            let mut answers = self.answers(&due, at).await?;
            answers.agreed = self.agreed(&due, &answers.counts).await;
            self.accounts.take(&reasons, &due, answers);
        }
        let view = Arc::new(ChainView { witnessed, accounts: self.accounts.views(), ..before.clone() });
        let (look, receipts, asked) = (self.looked, BTreeMap::new(), due.accounts);
        let news = News { look, view, receipts, asked, for_all: false };
        self.shared.directory.publish(id, news);
        Ok(())
    }

    async fn look_at(&mut self, head: Block, is_new: bool) -> Result<(), Error> {
        let id = self.chain.id();
        let blocks = self.walk_back(head).await?;
        let was_live = self.status == ChainStatus::Live;
        let another = self.judge(&blocks).await?;
        self.take_status(another);
        let receipts = self.receipts(&blocks).await?;
        let mined: BTreeSet<Account> = receipts.keys().map(|lane| lane.signer).collect();
        // What was asked on another fork, or below blocks that were not followed, does not hold any more.
        let all = !was_live || !self.goes_on(&blocks);
        let reasons = self.reasons(&head.at, mined, all);
        let due = self.accounts.due(&reasons);
        let (answers, fees, safe, finalized) = tokio::join!(
            self.answers(&due, &head.at),
            self.chain.fees(&head),
            self.tagged(BlockAt::Safe),
            self.tagged(BlockAt::Finalized),
        );
        let (mut answers, fees) = (answers?, fees?);
        answers.agreed = self.agreed(&due, &answers.counts).await;
        let safe = self.take_tag(Finality::Safe, safe);
        let finalized = self.take_tag(Finality::Finalized, finalized);
        self.accounts.take(&reasons, &due, answers);
        if self.status == ChainStatus::Live && self.adopt(&blocks) {
            tracing::info!(chain = %id, head = head.at.number, "the chain went over to another fork");
            self.shared.note(Fact::NewFork { chain: id });
        }
        if is_new {
            self.head_since = self.shared.parts.clock.now();
        }
        let shown = self.shown_by_each().await;
        let mut witnessed = self.witnesses.judge(&self.shared, id, head.at.number, &shown);
        // Where there are several, no endpoint alone says what is safe or final.
        let (safe, finalized) = match witnessed.several && !self.untagged {
            true => {
                let recent = &self.recent;
                self.witnesses.tags(&shown, |block| is_part(recent, block), &mut witnessed)
            }
            false => (safe, finalized),
        };
        // One that nobody could say this time is where it was: what is final stays so, as long as the chain goes
        // through it.
        let finalized = finalized.filter(|block| self.agrees(block));
        let finalized = finalized.or(self.finalized.filter(|block| self.agrees(block)));
        self.finalized = finalized;
        let settled = self.settled(&witnessed, finalized);
        let view = ChainView {
            status: self.status,
            witnessed,
            head,
            head_since: self.head_since,
            recent: Arc::new(self.recent.clone()),
            safe: safe.filter(|block| self.agrees(block)).map(|block| block.number),
            finalized: finalized.map(|block| block.number),
            tags: self.tags,
            fees,
            accounts: self.accounts.views(),
        };
        let found = receipts.values().map(|of_lane| of_lane.len() as u64).sum();
        self.shared.note(Fact::ReceiptChecked { chain: id, result: ReceiptCheck::Found, count: found });
        let (look, view, asked) = (self.looked, Arc::new(view), due.accounts);
        self.shared.directory.publish(id, News { look, view, receipts, asked, for_all: all });
        self.reader.forget();
        if is_new {
            self.remember(head, settled).await;
        }
        Ok(())
    }

    fn reasons(&self, head: &BlockRef, mined: BTreeSet<Account>, all: bool) -> Reasons {
        let (id, now) = (self.chain.id(), Instant::now());
        let (look, lanes) = (self.looked, self.shared.directory.paces(id));
        Reasons { look, head: *head, now, lanes, asking: self.shared.directory.asking(id), mined, all }
    }

    async fn answers(&self, due: &Due, at: &BlockRef) -> Result<Answers, Error> {
        let (counts, balances, codes) = tokio::join!(
            self.chain.counts(&due.accounts, at),
            self.chain.balances(&due.accounts, at),
            self.chain.delegated(&due.codes, at),
        );
        let (counts, balances, codes) = (counts?, balances.unwrap_or_default(), codes.unwrap_or_default());
        Ok(Answers { counts, balances, codes, agreed: Vec::new() })
    }

    /// Which first counts a second endpoint says as well. A slow one keeps nobody else waiting: what it says counts at a later look.
    async fn agreed(&mut self, due: &Due, counts: &[Slot]) -> Vec<bool> {
        if self.chain.endpoints().len() < 2 {
            return vec![true; due.first.len()];
        }
        if due.first.is_empty() {
            return Vec::new();
        }
        let said: BTreeMap<Account, Slot> =
            due.accounts.iter().copied().zip(counts.iter().copied()).collect();
        let first: Vec<(Account, Slot)> =
            due.first.iter().filter_map(|account| Some((*account, *said.get(account)?))).collect();
        let mut asked = self.agreeing.take().unwrap_or_else(|| {
            let (chain, first) = (self.chain.clone(), first.clone());
            tokio::spawn(async move {
                let agreed = chain.agreed(&first).await;
                first.into_iter().zip(agreed).filter(|(_, agreed)| *agreed).map(|(first, _)| first).collect()
            })
        });
        let agreed: BTreeSet<(Account, Slot)> = match tokio::time::timeout(AGREED_SOON, &mut asked).await {
            Ok(agreed) => agreed.unwrap_or_default(),
            Err(_) => {
                self.agreeing = Some(asked);
                BTreeSet::new()
            }
        };
        first.iter().map(|first| agreed.contains(first)).collect()
    }

    /// Whether this is the chain that the store knows; if not, what is shown in words. A chain is its genesis and the last block that was
    /// final: blocks that are linked to what was followed before are taken on their parents' word, a jump is looked at anew.
    async fn judge(&self, blocks: &[Block]) -> Result<Option<String>, Error> {
        let (Some(known), Some(lowest)) = (&self.known, blocks.first()) else { return Ok(None) };
        if self.shared.parts.timings.planted == Some(PlantedInEngine::AnyChainWillDo) {
            return Ok(None);
        }
        let below = lowest.at.number.checked_sub(1);
        let linked = below.is_some_and(|below| self.recent.get(&below) == Some(&lowest.parent))
            || self.recent.get(&lowest.at.number) == Some(&lowest.at.hash);
        let settled = known.settled;
        let head = blocks.last().map_or(lowest.at.number, |head| head.at.number);
        if !linked {
            let first = BlockRef { number: 0, hash: known.genesis };
            if let Some(shown) = self.replaced(first, head).await? {
                return Ok(Some(format!(
                    "another chain is shown: the first block is {} in the store, {shown}",
                    first.hash
                )));
            }
        }
        let Some(settled) = settled else { return Ok(None) };
        match blocks.iter().find(|block| block.at.number == settled.number) {
            Some(block) if block.at == settled => return Ok(None),
            None if linked => return Ok(None),
            Some(_) | None => {}
        }
        let is_followed = blocks.iter().any(|block| block.at.number == settled.number);
        match self.replaced(settled, head).await? {
            Some(shown) => Ok(Some(format!(
                "a block that was final has been replaced: block {} is {} in the store, {shown}",
                settled.number, settled.hash
            ))),
            None if is_followed => {
                let text =
                    format!("the blocks below the head go past block {}, which was final", settled.number);
                Err(self.unreachable("be followed", text))
            }
            None => Ok(None),
        }
    }

    /// The blocks that are shown in the place of one that was final, in words; none if it is still part of the chain. Endpoints that serve another
    /// chain than one that shows it are set aside, and what they gave is not taken.
    async fn replaced(&self, block: BlockRef, head: u64) -> Result<Option<String>, Error> {
        let shown = self.chain.shown(block.number).await;
        match same_chain::word(&shown, block.hash) {
            Word::Silent => {
                Err(self.unreachable("be followed", format!("nobody answers about block {}", block.number)))
            }
            Word::Lacked if head < block.number => {
                let text = format!("it has not reached block {}, which was final before", block.number);
                Err(self.unreachable("be followed", text))
            }
            Word::Lacked => {
                tracing::warn!(chain = %self.chain.id(), block = block.number, "no endpoint keeps this block, by which the chain is known; \
                    it is taken for the same");
                Ok(None)
            }
            Word::Replaced => Ok(Some(same_chain::words(&shown))),
            Word::Stands { others, again } => {
                others.into_iter().for_each(|place| self.chain.set_aside(place, &block));
                match again {
                    None => Ok(None),
                    Some(endpoint) => {
                        let (number, hash) = (block.number, block.hash);
                        let text =
                            format!("{endpoint} gave the head, and does not show block {number} ({hash})");
                        Err(self.unreachable("be followed", text))
                    }
                }
            }
        }
    }

    fn take_status(&mut self, another: Option<String>) {
        if let Some(why) = another.as_deref().filter(|_| self.status == ChainStatus::Live) {
            self.shared.note(Fact::DeepReorg { chain: self.chain.id() });
            tracing::error!(chain = %self.chain.id(), why, "the endpoints show another chain; its lanes hold");
        }
        self.status = if another.is_some() { ChainStatus::Changed } else { ChainStatus::Live };
        self.another = another;
    }

    async fn first_block(&self) -> Result<B256, Error> {
        let genesis = self.chain.block(BlockAt::Number(0)).await?;
        let genesis =
            genesis.ok_or_else(|| self.unreachable("show its first block", "block 0 is missing".into()))?;
        Ok(genesis.at.hash)
    }

    /// A tag may come from another endpoint than the head: it counts only where both show the same block.
    fn agrees(&self, block: &BlockRef) -> bool {
        is_part(&self.recent, block)
    }

    /// The head and every block below it that is new to us, oldest first.
    async fn walk_back(&mut self, head: Block) -> Result<Vec<Block>, Error> {
        let scanned = self.known.as_ref().and_then(|known| known.scanned);
        let floor = match (self.recent.is_empty(), scanned) {
            // The first look after a start: back to what was scanned, and below it as far as it may still change.
            (true, Some(scanned)) => scanned.number.min(head.at.number).saturating_sub(self.depth),
            (true, None) => head.at.number.saturating_sub(self.depth),
            (false, _) => 0,
        };
        let floor = floor.max(head.at.number.saturating_sub(LONGEST_WALK));
        let mut blocks = vec![head];
        let mut lowest = head;
        while lowest.at.number > floor {
            let below = lowest.at.number - 1;
            if self.recent.get(&below) == Some(&lowest.parent) {
                break;
            }
            let Some(parent) = self.reader.parent(&lowest).await? else {
                return Err(self.unreachable("show a parent block", format!("block {below} is missing")));
            };
            blocks.push(parent);
            lowest = parent;
        }
        blocks.reverse();
        Ok(blocks)
    }

    /// Receipts of open attempts in these blocks, by lane.
    async fn receipts(&mut self, blocks: &[Block]) -> Result<BTreeMap<LaneId, Vec<Receipt>>, Error> {
        let id = self.chain.id();
        let mut found: BTreeMap<LaneId, Vec<Receipt>> = BTreeMap::new();
        if !self.shared.directory.wants_any(id) {
            return Ok(found);
        }
        for block in blocks {
            if self.recent.get(&block.at.number) == Some(&block.at.hash) {
                continue;
            }
            let receipts = self.reader.receipts(&block.at).await?;
            for (lane, receipt) in self.shared.directory.ours(id, receipts) {
                found.entry(lane).or_default().push(receipt.clone());
            }
        }
        Ok(found)
    }

    /// These lie on top of what was seen.
    fn goes_on(&self, blocks: &[Block]) -> bool {
        blocks.first().is_some_and(|lowest| self.meets(lowest)) && !self.replaces(blocks)
    }

    fn meets(&self, lowest: &Block) -> bool {
        self.recent.get(&lowest.at.number.saturating_sub(1)) == Some(&lowest.parent)
            || self.recent.get(&lowest.at.number) == Some(&lowest.at.hash)
    }

    /// Others were seen with one of these numbers.
    fn replaces(&self, blocks: &[Block]) -> bool {
        let other =
            |block: &Block| self.recent.get(&block.at.number).is_some_and(|known| *known != block.at.hash);
        blocks.iter().any(other)
    }

    /// Takes these as the newest of the chain. True if they replace others.
    fn adopt(&mut self, blocks: &[Block]) -> bool {
        let (Some(lowest), Some(head)) = (blocks.first(), blocks.last()) else { return false };
        let replaced = self.replaces(blocks);
        // A walk that did not meet what we had leaves a hole: what lies below it is not known to be canonical.
        if !self.meets(lowest) {
            self.recent.clear();
        }
        self.recent.split_off(&lowest.at.number);
        self.recent.extend(blocks.iter().map(|block| (block.at.number, block.at.hash)));
        self.recent.split_off(&(head.at.number + 1));
        while self.recent.len() > KEPT {
            self.recent.pop_first();
        }
        replaced
    }

    /// The block with this tag; none if whoever answers has no such block. An error: nobody could say.
    async fn tagged(&self, tag: BlockAt) -> Result<Option<BlockRef>, Error> {
        if self.untagged {
            return Ok(None);
        }
        Ok(self.chain.block(tag).await?.map(|block| block.at))
    }

    /// What was answered. Finality by depth needs no tag; one that waits for a tag which is not there waits for ever.
    fn take_tag(&mut self, finality: Finality, answer: Result<Option<BlockRef>, Error>) -> Option<BlockRef> {
        let before = self.tags.of(finality);
        let tag = before.after(answer.as_ref().ok().map(Option::is_some));
        match finality {
            Finality::Safe => self.tags.safe = tag,
            Finality::Finalized => self.tags.finalized = tag,
            Finality::Blocks(_) => {}
        }
        if tag != before && tag == Tag::Lacking && finality == self.finality {
            let word = finality.tag().unwrap_or_default();
            tracing::warn!(
                chain = %self.chain.id(),
                "finality is {word:?}, and no endpoint knows a {word} block: what is mined does not become final until one \
                 does. Use other endpoints, or set finality to a number of blocks"
            );
        }
        answer.ok().flatten()
    }

    /// What the store remembers of the chain; for a new one, where it begins.
    async fn recall(&self) -> Result<Known, Error> {
        let stored = self.shared.parts.store.chain(self.chain.id()).await;
        let stored =
            stored.map_err(|error| self.unreachable("be recalled from the store", error.to_string()))?;
        Ok(match stored {
            Some(record) => {
                Known { genesis: record.genesis, scanned: Some(record.scanned), settled: record.settled }
            }
            None => Known { genesis: self.agreed_first_block().await?, scanned: None, settled: None },
        })
    }

    /// The first block of a chain that is new here. By it endpoints are told from those of another chain for ever, so all that answer
    /// must show the same.
    async fn agreed_first_block(&self) -> Result<B256, Error> {
        let shown = self.chain.shown(0).await;
        if let Some(words) = same_chain::disagreement(&shown) {
            let text = format!(
                "the endpoints serve different chains: of block 0 {words}. Take those of another chain out of the configuration"
            );
            return Err(self.unreachable("say which chain it is", text));
        }
        if self.chain.endpoints().len() > 1 && same_chain::shows(&shown) < 2 && !self.witnesses.has_waited() {
            let text = "the chain is new here, and two endpoints must show the same first block. The word of one counts after witness_wait_s"
                .to_owned();
            return Err(self.unreachable("say which chain it is", text));
        }
        self.first_block().await
    }

    /// The word of each endpoint on the chain, where there are several.
    async fn shown_by_each(&self) -> Vec<Witness> {
        if self.shared.parts.timings.planted == Some(PlantedInEngine::OneIsEnough) {
            return Vec::new();
        }
        self.chain.witnesses(&self.recent).await
    }

    /// How far up the chain is known to two endpoints.
    async fn witnessed(&mut self, head: u64) -> Witnessed {
        let shown = self.shown_by_each().await;
        self.witnesses.judge(&self.shared, self.chain.id(), head, &shown)
    }

    /// The newest block that says which chain this is: a final one, as far as two endpoints have shown it, or one whose word
    /// counts alone.
    fn settled(&self, witnessed: &Witnessed, finalized: Option<BlockRef>) -> Option<BlockRef> {
        let head = self.recent.last_key_value().map(|(number, _)| *number);
        let top = if witnessed.alone { head } else { witnessed.by_two }?;
        match finalized {
            Some(finalized) => Some(finalized).filter(|block| block.number <= top),
            None => {
                let number = top.checked_sub(self.settled_depth)?;
                self.recent.get(&number).map(|hash| BlockRef { number, hash: *hash })
            }
        }
    }

    async fn remember(&mut self, head: Block, settled: Option<BlockRef>) {
        if self.status != ChainStatus::Live {
            return;
        }
        let Some(known) = &mut self.known else { return };
        known.scanned = Some(head.at);
        known.settled = settled.max(known.settled);
        let record = ChainRecord {
            chain: self.chain.id(),
            genesis: known.genesis,
            scanned: head.at,
            settled: known.settled,
        };
        if let Err(error) = self.shared.writer.write(Write::Chain(Box::new(record))).await {
            tracing::warn!(%error, "the last scanned block could not be stored; a restart scans from an older one");
        }
    }

    fn unreachable(&self, doing: &'static str, text: String) -> Error {
        let chain: ChainId = self.chain.id();
        Error::Unreachable { chain, doing, text }
    }
}

/// A block that is among these, or below them.
fn is_part(recent: &BTreeMap<u64, B256>, block: &BlockRef) -> bool {
    match recent.get(&block.number) {
        Some(hash) => *hash == block.hash,
        None => recent.keys().next().is_some_and(|lowest| block.number < *lowest),
    }
}

/// The head, unless it is a block that others were seen on top of: then whoever showed it is behind, and what was seen
/// before still holds. A reorganisation shows another block with that number, or soon one above it.
fn not_older(recent: &BTreeMap<u64, B256>, head: Block, before: Block) -> Block {
    let known = |block: &Block| recent.get(&block.at.number) == Some(&block.at.hash);
    if head.at.number < before.at.number && known(&head) && known(&before) { before } else { head }
}

#[cfg(test)]
mod tests {
    use landfall_core::Gas;

    use super::*;

    fn block(number: u64, fork: u8) -> Block {
        Block {
            at: BlockRef { number, hash: B256::repeat_byte(fork) },
            parent: B256::ZERO,
            timestamp: Millis(number),
            gas_limit: Gas(30_000_000),
            base_fee: None,
        }
    }

    // covers: G1
    #[test]
    fn a_head_that_others_were_seen_on_top_of_takes_nothing_back_and_another_fork_does() {
        let recent: BTreeMap<u64, B256> = (5..=8).map(|n| (n, block(n, n as u8).at.hash)).collect();
        let before = block(8, 8);
        let cases = [
            (block(6, 6), before, "an endpoint that is behind"),
            (block(8, 8), before, "nothing new"),
            (block(9, 9), block(9, 9), "a new block"),
            (block(7, 77), block(7, 77), "a shorter fork"),
            (block(8, 88), block(8, 88), "another fork"),
            (block(4, 4), block(4, 4), "below what is known"),
        ];
        for (head, wanted, what) in cases {
            assert_eq!(not_older(&recent, head, before), wanted, "{what}");
        }
    }
}
