//! Keeps what callers signed themselves, and sends it until it is final.
//!
//! ```text
//! kept (a record) ─► its turn? ─► sent ─► in a block ─► final: forgotten
//!                      │ no: a lower nonce is missing; held back until it comes, for an hour at most, if its sender can pay
//!                      └─ again and again, as long as it is not in a block
//! ```
//!
//! One whose nonce another transaction took is forgotten when that is final. What a node says of the first send is the
//! caller's answer where it is a verdict; then nothing is kept. The records are in the store, so another node, or the next
//! start, goes on; that two nodes send the same bytes does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::{Bytes, hex};
use landfall_core::attempt::Sealed;
use landfall_core::ports::chain::{Chain, SignedTx};
use landfall_core::ports::records::{Record, RecordKind, RecordQuery, RecordWrite, Records, RecordsWritten};
use landfall_core::ports::store::Error;
use landfall_core::request::Finality;
use landfall_core::view::{BlockRef, ChainView};
use landfall_core::{Account, ChainId, Slot, TxHash};
use landfall_engine::Handle;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::{INVALID_INPUT, RpcError, UNAVAILABLE};
use super::first_send::{can_pay, count, gap, pending, verdict};
use super::quota::{self, Claim, RawQuota};
use super::{Asker, look};

/// One above a gap is held back for so long.
const HELD_LIMIT: Duration = Duration::from_secs(3_600);
/// A nonce may be this far above the account's count.
const FURTHEST: u64 = 1_000;
/// How often it is looked what is to be done.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Bytes that are in no block are sent again after this time.
const AGAIN_AFTER: Duration = Duration::from_secs(20);
/// How often what other nodes keep is read.
const READ_EVERY: Duration = Duration::from_secs(60);
/// How long a caller waits for the first of that after a start.
const FIRST_READ: Duration = Duration::from_secs(4);
/// As many are sent at once.
const AT_ONCE: usize = 100;
const PAGE: u32 = 500;

/// One that is kept.
#[derive(Debug, Clone)]
struct Kept {
    /// The API key of whoever gave it.
    key: Option<Arc<str>>,
    from: Account,
    slot: Slot,
    raw: Bytes,
    sent_at: Option<Instant>,
    /// The head at which the account's count was first seen to have passed it.
    passed_at: Option<u64>,
    /// Since when a lower nonce has been missing.
    held_since: Option<Instant>,
}

/// Whether bytes that are kept were new.
enum Taken {
    New,
    Before,
}

/// What a first send is told; nothing before that.
type Verdict = Option<Result<(), RpcError>>;
type Sending = BTreeMap<(ChainId, TxHash), (watch::Receiver<Verdict>, Claim)>;

type All = BTreeMap<(ChainId, TxHash), Kept>;

pub(crate) struct Keeper {
    handle: Handle,
    records: Arc<dyn Records>,
    all: Mutex<All>,
    /// Those whose first send has no verdict yet.
    sending: Mutex<Sending>,
    /// The accounts' counts, asked once at each head.
    counted: Mutex<BTreeMap<ChainId, Counted>>,
    quota: RawQuota,
    /// The stored records were read: before that nobody knows what a key has kept.
    is_read: watch::Sender<bool>,
}

/// Accounts' counts at a head.
struct Counted {
    head: BlockRef,
    counts: BTreeMap<Account, Slot>,
}

fn id_of(chain: ChainId, hash: TxHash) -> String {
    format!("{chain}/{hash}")
}

impl Keeper {
    pub(crate) fn new(handle: Handle, records: Arc<dyn Records>, quota: RawQuota) -> Self {
        let (all, sending, counted) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { handle, records, all, sending, counted, quota, is_read: watch::channel(false).0 }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of one that is kept.
    pub(super) fn raw(&self, chain: ChainId, hash: TxHash) -> Option<Bytes> {
        self.all().get(&(chain, hash)).map(|kept| kept.raw.clone())
    }

    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps it and sends it; an error means that it is not kept. The same bytes again wait for the same verdict.
    pub(super) async fn send(asker: &Asker, signed: SignedTx, sealed: Sealed) -> Result<(), RpcError> {
        let (keeper, key) = (asker.app.keeper.clone(), (asker.chain, sealed.hash));
        let mut read = keeper.is_read.subscribe();
        if tokio::time::timeout(FIRST_READ, read.wait_for(|is_read| *is_read)).await.is_err() {
            let text =
                "what is kept already has not been read yet since the start; nothing was kept: send it again";
            return Err(RpcError::coded(UNAVAILABLE, text, "store_unavailable"));
        }
        let mut verdict = keeper.verdict_of(asker, key, signed, sealed)?;
        match verdict.wait_for(Option::is_some).await.ok().and_then(|said| said.clone()) {
            Some(verdict) => verdict,
            None => {
                let text = "the server stops, and whether it is kept is not known; send the same bytes again";
                Err(RpcError::coded(INVALID_INPUT, text, "outcome_unknown"))
            }
        }
    }

    fn verdict_of(
        self: Arc<Self>,
        asker: &Asker,
        key: (ChainId, TxHash),
        signed: SignedTx,
        sealed: Sealed,
    ) -> Result<watch::Receiver<Verdict>, RpcError> {
        let mut sending = self.sending();
        if let Some((verdict, _)) = sending.get(&key) {
            return Ok(verdict.clone());
        }
        let bytes = sealed.raw.len();
        let claim = Claim { key: asker.caller.key.clone(), chain: asker.chain, from: signed.from, bytes };
        self.check(&sending, key, &claim)?;
        let (told, verdict) = watch::channel(None);
        sending.insert(key, (verdict.clone(), claim));
        drop(sending);
        let (keeper, asker) = (self.clone(), asker.clone());
        // A task of its own: others may wait for it when its caller hangs up.
        tokio::spawn(async move {
            // Also if it panics.
            let _sent = Sent { keeper: &keeper, key };
            let said = keeper.send_first(&asker, &signed, sealed).await;
            // The same bytes again are nothing new.
            if let Ok(Taken::New) = said {
                let about = json!({ "hash": key.1, "from": signed.from.to_string() });
                asker.wrote("eth_sendRawTransaction", Vec::new(), Some(about));
            }
            told.send_replace(Some(said.map(|_| ())));
        });
        Ok(verdict)
    }

    /// Whether there is room for one more, beside those that are kept and those that are about to be.
    fn check(&self, sending: &Sending, key: (ChainId, TxHash), claim: &Claim) -> Result<(), RpcError> {
        let all = self.all();
        if all.contains_key(&key) {
            return Ok(());
        }
        let kept =
            all.iter().map(|((chain, _), kept)| (kept.key.as_deref(), *chain, kept.from, kept.raw.len()));
        let begun = sending.iter().filter(|(key, _)| !all.contains_key(key));
        let begun = begun.map(|(_, (_, claim))| (claim.key.as_deref(), claim.chain, claim.from, claim.bytes));
        quota::check(self.quota, kept.chain(begun), claim)
    }

    async fn send_first(&self, asker: &Asker, signed: &SignedTx, sealed: Sealed) -> Result<Taken, RpcError> {
        let (chain, hash) = (asker.chain, sealed.hash);
        if self.all().contains_key(&(chain, hash)) {
            return Ok(Taken::Before);
        }
        let view = look::head(asker).await?;
        let count = count(asker, &view, signed.from).await?;
        if signed.slot < count {
            return match asker.adapter.receipts(&[hash]).await {
                Ok(found) if !found.is_empty() => Ok(Taken::Before),
                Ok(_) | Err(_) => {
                    let text = format!("nonce too low: next nonce {count}, tx nonce {}", signed.slot);
                    Err(RpcError::coded(INVALID_INPUT, text, "nonce_too_low"))
                }
            };
        }
        if signed.slot.since(count) > FURTHEST {
            let text = format!(
                "nonce too high: next nonce {count}, tx nonce {}; at most {FURTHEST} are held back",
                signed.slot
            );
            return Err(RpcError::coded(INVALID_INPUT, text, "nonce_too_high"));
        }
        let is_held = |kept: Vec<Slot>| signed.slot > gap(count, kept);
        let mut may_be_pooled = false;
        if is_held(self.slots_of(chain, signed.from)) {
            // Those before it may have been sent elsewhere.
            may_be_pooled = signed.slot <= pending(asker, signed.from).await.unwrap_or(count);
            if !may_be_pooled {
                can_pay(asker, &view, signed).await?;
            }
        }
        let body = json!({
            "raw": sealed.raw, "from": signed.from.0, "nonce": signed.slot, "key": asker.caller.key,
        });
        let write = RecordWrite::new(RecordKind::RawTx, id_of(chain, hash), body);
        let taken = match self.records.write_records(vec![write]).await? {
            RecordsWritten::Yes => Taken::New,
            // Another node keeps it already: that is as good.
            RecordsWritten::Changed => Taken::Before,
        };
        let kept = Kept {
            key: asker.caller.key.clone(),
            from: signed.from,
            slot: signed.slot,
            raw: sealed.raw.clone(),
            sent_at: None,
            passed_at: None,
            held_since: None,
        };
        self.all().insert((chain, hash), kept);
        if !may_be_pooled && is_held(self.slots_of(chain, signed.from)) {
            tracing::debug!(%chain, %hash, "a lower nonce is missing; it is held back");
            return Ok(taken);
        }
        self.note_sent(chain, hash);
        let report = asker.adapter.send(&[sealed]).await.into_iter().next();
        match report.and_then(verdict) {
            Some(error) => {
                self.forget(chain, hash).await;
                Err(error)
            }
            None => Ok(taken),
        }
    }

    /// The nonces of an account that are kept here, one for each transaction.
    fn slots_of(&self, chain: ChainId, from: Account) -> Vec<Slot> {
        let all = self.all();
        let of_account = all.iter().filter(|((of, _), kept)| *of == chain && kept.from == from);
        of_account.map(|(_, kept)| kept.slot).collect()
    }

    fn note_sent(&self, chain: ChainId, hash: TxHash) {
        if let Some(kept) = self.all().get_mut(&(chain, hash)) {
            kept.sent_at = Some(Instant::now());
        }
    }

    async fn forget(&self, chain: ChainId, hash: TxHash) {
        self.all().remove(&(chain, hash));
        let id = id_of(chain, hash);
        let removed = async {
            let read = self.records.record(RecordKind::RawTx, &id).await?;
            let Some(record) = read else { return Ok(()) };
            let write = RecordWrite::remove(RecordKind::RawTx, &record);
            // One that changed meanwhile was removed by another node.
            let (RecordsWritten::Yes | RecordsWritten::Changed) =
                self.records.write_records(vec![write]).await?;
            Ok::<_, Error>(())
        };
        if let Err(error) = removed.await {
            tracing::warn!(%chain, %hash, %error, "a signed transaction could not be forgotten; it is looked at again");
        }
    }

    /// Works until the server stops.
    pub(crate) async fn run(&self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut read_at: Option<Instant> = None;
        loop {
            if read_at.is_none_or(|at| at.elapsed() >= READ_EVERY) {
                match self.read().await {
                    Ok(()) => {
                        read_at = Some(Instant::now());
                        self.is_read.send_replace(true);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the signed transactions that are kept could not be read")
                    }
                }
            }
            let chains: BTreeSet<ChainId> = self.all().keys().map(|(chain, _)| *chain).collect();
            for chain in chains {
                self.look(chain).await;
            }
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// What the store has: kept by an earlier run, or by another node.
    async fn read(&self) -> Result<(), Error> {
        let mut query = RecordQuery::all(RecordKind::RawTx, PAGE);
        loop {
            let page = self.records.records(&query).await?;
            let Some(last) = page.last().map(|record| record.id.clone()) else { return Ok(()) };
            let mut all = self.all();
            for (key, kept) in page.iter().filter_map(read) {
                all.entry(key).or_insert(kept);
            }
            drop(all);
            query.after = Some(last);
        }
    }

    /// One look at those of a chain.
    async fn look(&self, chain: ChainId) {
        let parts = self.handle.parts().chains.get(&chain);
        let (Some(parts), Some(view)) = (parts, self.handle.shown(chain)) else { return };
        let mine: BTreeMap<TxHash, Kept> = self
            .all()
            .iter()
            .filter(|((of, _), _)| *of == chain)
            .map(|((_, hash), kept)| (*hash, kept.clone()))
            .collect();
        let accounts: BTreeSet<Account> = mine.values().map(|kept| kept.from).collect();
        // A node that does not answer is asked again.
        let Some((counts, is_new)) =
            self.counts_at(chain, parts.chain.as_ref(), view.head.at, accounts).await
        else {
            return;
        };
        let (passed, open): (Vec<_>, Vec<_>) = mine
            .into_iter()
            .partition(|(_, kept)| counts.get(&kept.from).is_some_and(|count| kept.slot < *count));
        if is_new {
            self.settle(chain, parts.chain.as_ref(), &view, parts.settings.finality, passed).await;
        }
        let mut slots: BTreeMap<Account, Vec<Slot>> = BTreeMap::new();
        for (_, kept) in &open {
            slots.entry(kept.from).or_default().push(kept.slot);
        }
        let gap_of = |(account, slots): (Account, Vec<Slot>)| {
            (account, gap(counts.get(&account).copied().unwrap_or_default(), slots))
        };
        let gaps: BTreeMap<Account, Slot> = slots.into_iter().map(gap_of).collect();
        let is_held =
            |kept: &Kept| kept.sent_at.is_none() && gaps.get(&kept.from).is_some_and(|gap| kept.slot > *gap);
        let (held, open): (Vec<_>, Vec<_>) = open.into_iter().partition(|(_, kept)| is_held(kept));
        self.hold(chain, held).await;
        let again: Vec<Sealed> = open
            .into_iter()
            .filter(|(_, kept)| kept.sent_at.is_none_or(|at| at.elapsed() >= AGAIN_AFTER))
            .map(|(hash, kept)| Sealed { raw: kept.raw, hash })
            .take(AT_ONCE)
            .collect();
        if again.is_empty() {
            return;
        }
        for sealed in &again {
            self.note_sent(chain, sealed.hash);
        }
        for (sealed, report) in again.iter().zip(parts.chain.send(&again).await) {
            tracing::debug!(%chain, hash = %sealed.hash, outcome = report.outcome.name(), "a kept transaction was sent");
        }
    }

    /// Counts of these accounts at this head, and whether any of them was asked for now: not where a look before
    /// this one did.
    async fn counts_at(
        &self,
        chain: ChainId,
        adapter: &dyn Chain,
        head: BlockRef,
        accounts: BTreeSet<Account>,
    ) -> Option<(BTreeMap<Account, Slot>, bool)> {
        let mut counts = {
            let mut counted = self.counted();
            let known = counted.remove(&chain).filter(|known| known.head == head);
            known.map(|known| known.counts).unwrap_or_default()
        };
        let missing: Vec<Account> =
            accounts.iter().copied().filter(|account| !counts.contains_key(account)).collect();
        let asked = adapter.counts(&missing, &head).await.ok()?;
        let is_new = !missing.is_empty();
        counts.extend(missing.into_iter().zip(asked));
        counts.retain(|account, _| accounts.contains(account));
        self.counted().insert(chain, Counted { head, counts: counts.clone() });
        Some((counts, is_new))
    }

    fn counted(&self) -> MutexGuard<'_, BTreeMap<ChainId, Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those above a gap: held back, and in the end forgotten. They were never sent from here.
    async fn hold(&self, chain: ChainId, held: Vec<(TxHash, Kept)>) {
        for (hash, kept) in held {
            let since = kept.held_since.unwrap_or_else(Instant::now);
            if since.elapsed() >= HELD_LIMIT {
                tracing::info!(%chain, %hash, from = %kept.from, "a lower nonce did not come; it is forgotten");
                self.forget(chain, hash).await;
            } else if let Some(kept) = self.all().get_mut(&(chain, hash)) {
                kept.held_since = Some(since);
            }
        }
    }

    /// Those whose nonces are used up: by themselves, or by others.
    async fn settle(
        &self,
        chain: ChainId,
        adapter: &dyn Chain,
        view: &ChainView,
        finality: Finality,
        passed: Vec<(TxHash, Kept)>,
    ) {
        if passed.is_empty() {
            return;
        }
        let hashes: Vec<TxHash> = passed.iter().map(|(hash, _)| *hash).collect();
        let Ok(receipts) = adapter.receipts(&hashes).await else {
            // Looked at again at once, and not at the next block.
            self.counted().remove(&chain);
            return;
        };
        let receipts: BTreeMap<TxHash, BlockRef> =
            receipts.into_iter().map(|receipt| (receipt.hash, receipt.block)).collect();
        for (hash, kept) in passed {
            let head = view.head.at.number;
            let seen = kept.passed_at.filter(|at| *at <= head).unwrap_or(head);
            if let Some(kept) = self.all().get_mut(&(chain, hash)) {
                kept.passed_at = Some(seen);
            }
            let done = match receipts.get(&hash) {
                Some(block) => view.is_final(block, finality),
                // At least one block on top, however little was asked for.
                None => {
                    let finality = match finality {
                        Finality::Blocks(depth) => Finality::Blocks(depth.max(1)),
                        Finality::Safe | Finality::Finalized => finality,
                    };
                    view.final_number(finality).is_some_and(|newest| seen <= newest)
                }
            };
            if done {
                self.forget(chain, hash).await;
            }
        }
    }
}

/// A first send that is over, whichever way.
struct Sent<'a> {
    keeper: &'a Keeper,
    key: (ChainId, TxHash),
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.keeper.sending().remove(&self.key);
    }
}

fn read(record: &Record) -> Option<((ChainId, TxHash), Kept)> {
    let (chain, hash) = record.id.split_once('/')?;
    let text = |name: &str| record.body.get(name).and_then(Value::as_str);
    let kept = Kept {
        key: text("key").map(Arc::from),
        from: Account(text("from")?.parse().ok()?),
        slot: Slot(record.body.get("nonce")?.as_u64()?),
        raw: hex::decode(text("raw")?).ok()?.into(),
        sent_at: None,
        passed_at: None,
        held_since: None,
    };
    Some(((ChainId(chain.parse().ok()?), TxHash(hash.parse().ok()?)), kept))
}
