//! Keeps what callers signed themselves, and sends it until it is final.
//!
//! ```text
//! kept (a record) ─► its turn? ─► sent ─► in a block ─► final: forgotten
//!                      │ no: a lower nonce is missing; held back until it comes, for an hour at most
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
use landfall_core::outcome::{SendOutcome, SendReport};
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

use super::error::{INVALID_INPUT, LIMIT, RpcError};
use super::params::quantity;
use super::{Asker, look};

/// As many are kept at once.
const MOST: usize = 10_000;
/// And as many of one account.
const MOST_OF_ONE: usize = 64;
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
/// As many are sent at once.
const AT_ONCE: usize = 100;
const PAGE: u32 = 500;

/// One that is kept.
#[derive(Debug, Clone)]
struct Kept {
    from: Account,
    slot: Slot,
    raw: Bytes,
    sent_at: Option<Instant>,
    /// The head at which the account's count was first seen to have passed it.
    passed_at: Option<u64>,
    /// Since when a lower nonce has been missing.
    held_since: Option<Instant>,
}

/// What a first send is told; nothing before that.
type Verdict = Option<Result<(), RpcError>>;
type Sending = BTreeMap<(ChainId, TxHash), watch::Receiver<Verdict>>;

type All = BTreeMap<(ChainId, TxHash), Kept>;

pub(crate) struct Keeper {
    handle: Handle,
    records: Arc<dyn Records>,
    all: Mutex<All>,
    /// Those whose first send has no verdict yet.
    sending: Mutex<Sending>,
}

fn id_of(chain: ChainId, hash: TxHash) -> String {
    format!("{chain}/{hash}")
}

impl Keeper {
    pub(crate) fn new(handle: Handle, records: Arc<dyn Records>) -> Self {
        Self { handle, records, all: Mutex::default(), sending: Mutex::default() }
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
        let mut verdict = keeper.verdict_of(asker, key, signed, sealed);
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
    ) -> watch::Receiver<Verdict> {
        let mut sending = self.sending();
        if let Some(verdict) = sending.get(&key) {
            return verdict.clone();
        }
        let (told, verdict) = watch::channel(None);
        sending.insert(key, verdict.clone());
        drop(sending);
        let (keeper, asker) = (self.clone(), asker.clone());
        // A task of its own: others may wait for it when its caller hangs up.
        tokio::spawn(async move {
            // Also if it panics.
            let _sent = Sent { keeper: &keeper, key };
            let said = keeper.send_first(&asker, &signed, sealed).await;
            told.send_replace(Some(said));
        });
        verdict
    }

    async fn send_first(&self, asker: &Asker, signed: &SignedTx, sealed: Sealed) -> Result<(), RpcError> {
        let (chain, hash) = (asker.chain, sealed.hash);
        if self.all().contains_key(&(chain, hash)) {
            return Ok(());
        }
        if self.all().len() >= MOST {
            let text =
                format!("{MOST} signed transactions are being kept already; ask again when some have landed");
            return Err(RpcError::coded(LIMIT, text, "rate_limited"));
        }
        if self.slots_of(chain, signed.from).len() >= MOST_OF_ONE {
            let text = format!(
                "{MOST_OF_ONE} signed transactions of {} are being kept already; ask again when some have landed",
                signed.from
            );
            return Err(RpcError::coded(LIMIT, text, "rate_limited"));
        }
        let (count, pending) = self.counts(asker, signed.from).await?;
        if signed.slot < count {
            return match asker.adapter.receipts(&[hash]).await {
                Ok(found) if !found.is_empty() => Ok(()),
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
        let body = json!({ "raw": sealed.raw, "from": signed.from.0, "nonce": signed.slot });
        let write = RecordWrite::new(RecordKind::RawTx, id_of(chain, hash), body);
        // Another node may keep it already: that is as good.
        let (RecordsWritten::Yes | RecordsWritten::Changed) = self.records.write_records(vec![write]).await?;
        let kept = Kept {
            from: signed.from,
            slot: signed.slot,
            raw: sealed.raw.clone(),
            sent_at: None,
            passed_at: None,
            held_since: None,
        };
        self.all().insert((chain, hash), kept);
        if signed.slot > pending && signed.slot > gap(count, self.slots_of(chain, signed.from)) {
            tracing::debug!(%chain, %hash, "a lower nonce is missing; it is held back");
            return Ok(());
        }
        self.note_sent(chain, hash);
        let report = asker.adapter.send(&[sealed]).await.into_iter().next();
        match report.and_then(verdict) {
            Some(error) => {
                self.forget(chain, hash).await;
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// The account's count at the head, and with what its node's pool holds.
    async fn counts(&self, asker: &Asker, account: Account) -> Result<(Slot, Slot), RpcError> {
        let view = look::head(asker).await?;
        let count = look::counted(asker, &view, account).await?;
        let asked = asker.adapter.ask("eth_getTransactionCount", &json!([account.0, "pending"])).await.ok();
        let pending = asked.and_then(|text| quantity(text.trim_matches('"'))).map_or(count, Slot);
        Ok((count, pending.max(count)))
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
                    Ok(()) => read_at = Some(Instant::now()),
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
        let accounts: Vec<Account> =
            mine.values().map(|kept| kept.from).collect::<BTreeSet<_>>().into_iter().collect();
        // A node that does not answer is asked again.
        let Ok(counts) = parts.chain.counts(&accounts, &view.head.at).await else { return };
        let counts: BTreeMap<Account, Slot> = accounts.into_iter().zip(counts).collect();
        let (passed, open): (Vec<_>, Vec<_>) = mine
            .into_iter()
            .partition(|(_, kept)| counts.get(&kept.from).is_some_and(|count| kept.slot < *count));
        self.settle(chain, parts.chain.as_ref(), &view, parts.settings.finality, passed).await;
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
        let Ok(receipts) = adapter.receipts(&hashes).await else { return };
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

/// The lowest nonce from an account's count up that is not among these.
fn gap(count: Slot, slots: Vec<Slot>) -> Slot {
    let slots: BTreeSet<Slot> = slots.into_iter().collect();
    let mut next = count;
    while slots.contains(&next) {
        next = Slot(next.0 + 1);
    }
    next
}

fn read(record: &Record) -> Option<((ChainId, TxHash), Kept)> {
    let (chain, hash) = record.id.split_once('/')?;
    let text = |name: &str| record.body.get(name).and_then(Value::as_str);
    let kept = Kept {
        from: Account(text("from")?.parse().ok()?),
        slot: Slot(record.body.get("nonce")?.as_u64()?),
        raw: hex::decode(text("raw")?).ok()?.into(),
        sent_at: None,
        passed_at: None,
        held_since: None,
    };
    Some(((ChainId(chain.parse().ok()?), TxHash(hash.parse().ok()?)), kept))
}

/// What a node's answer to the first send means for the caller: an error, or none where the bytes are kept and sent again.
fn verdict(report: SendReport) -> Option<RpcError> {
    match report.outcome {
        SendOutcome::Accepted
        | SendOutcome::AlreadyKnown
        | SendOutcome::NonceTooHigh
        | SendOutcome::AccountLimit
        | SendOutcome::PoolFull
        | SendOutcome::Endpoint
        | SendOutcome::Unknown => None,
        SendOutcome::NonceTooLow
        | SendOutcome::ReplacementUnderpriced
        | SendOutcome::Underpriced
        | SendOutcome::FeeBelowBase
        | SendOutcome::InsufficientFunds
        | SendOutcome::Invalid
        | SendOutcome::Reverted
        | SendOutcome::NodePolicy
        | SendOutcome::NeverIncludable => {
            let text = report.text.unwrap_or_else(|| report.outcome.name().to_owned());
            Some(RpcError::coded(report.code.unwrap_or(INVALID_INPUT), text, report.outcome.name()))
        }
    }
}
