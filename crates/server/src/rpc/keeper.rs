//! Keeps what callers signed themselves, and sends it until it is final.
//!
//! ```text
//! kept (a record) ─► its turn? ─► sent ─► in a block ─► final: forgotten
//!                      │ no: a lower nonce is missing; held back until it comes
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
use landfall_core::view::ChainView;
use landfall_core::{Account, ChainId, Slot, TxHash};
use landfall_engine::Handle;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::error::{INVALID_INPUT, LIMIT, RpcError};
use super::params::quantity;
use super::{Asker, look};

/// As many are kept at once.
const MOST: usize = 10_000;
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
}

type All = BTreeMap<(ChainId, TxHash), Kept>;

pub(crate) struct Keeper {
    handle: Handle,
    records: Arc<dyn Records>,
    all: Mutex<All>,
}

fn id_of(chain: ChainId, hash: TxHash) -> String {
    format!("{chain}/{hash}")
}

impl Keeper {
    pub(crate) fn new(handle: Handle, records: Arc<dyn Records>) -> Self {
        Self { handle, records, all: Mutex::default() }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of one that is kept.
    pub(super) fn raw(&self, chain: ChainId, hash: TxHash) -> Option<Bytes> {
        self.all().get(&(chain, hash)).map(|kept| kept.raw.clone())
    }

    /// Keeps it and sends it; an error means that it is not kept.
    pub(super) async fn send(
        &self,
        asker: &Asker,
        signed: &SignedTx,
        sealed: Sealed,
    ) -> Result<(), RpcError> {
        let (chain, hash) = (asker.chain, sealed.hash);
        if self.all().contains_key(&(chain, hash)) {
            return Ok(());
        }
        if self.all().len() >= MOST {
            let text =
                format!("{MOST} signed transactions are being kept already; ask again when some have landed");
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
        };
        self.all().insert((chain, hash), kept);
        if signed.slot > pending && !self.follows_kept(chain, signed.from, count, signed.slot) {
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

    /// All nonces from the account's count up to this one are kept here.
    fn follows_kept(&self, chain: ChainId, from: Account, count: Slot, slot: Slot) -> bool {
        let all = self.all();
        let of_account = all.iter().filter(|((of, _), kept)| *of == chain && kept.from == from);
        let slots: BTreeSet<Slot> = of_account.map(|(_, kept)| kept.slot).collect();
        (count.0..slot.0).all(|lower| slots.contains(&Slot(lower)))
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
        let again: Vec<Sealed> = open
            .into_iter()
            .filter(|(_, kept)| kept.sent_at.is_none_or(|at| at.elapsed() >= AGAIN_AFTER))
            .filter(|(_, kept)| {
                let count = counts.get(&kept.from).copied().unwrap_or_default();
                kept.sent_at.is_some() || self.follows_kept(chain, kept.from, count, kept.slot)
            })
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
        for (hash, kept) in passed {
            let head = view.head.at.number;
            let seen = kept.passed_at.filter(|at| *at <= head).unwrap_or(head);
            if let Some(kept) = self.all().get_mut(&(chain, hash)) {
                kept.passed_at = Some(seen);
            }
            let done = match receipts.iter().find(|receipt| receipt.hash == hash) {
                Some(receipt) => view.is_final(&receipt.block, finality),
                None => match finality {
                    Finality::Blocks(depth) => head.saturating_sub(seen) >= depth.max(1),
                    Finality::Safe => view.safe.is_some_and(|safe| safe >= seen),
                    Finality::Finalized => view.finalized.is_some_and(|finalized| finalized >= seen),
                },
            };
            if done {
                self.forget(chain, hash).await;
            }
        }
    }
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
