//! Keeps what callers signed themselves, and sends it until it is final.
//!
//! ```text
//! a row in the audit log ─► a record ─► first send ─► kept ─► sent again and again ─► in a block ─► final: forgotten
//!                                │           └─ refused: the record is removed, then the caller is told
//!                                └─ a lower nonce is missing: held back until it comes, for an hour at most, if its sender can pay,
//!                                   and as long as a key of those who gave it is not revoked
//! ```
//!
//! One whose nonce another transaction took is forgotten when that is final. What a node says of the first send is the
//! caller's answer where it is a verdict; then nothing is kept. The records are in the store (`stored`), so another node, or the next
//! start, goes on; that two nodes send the same bytes does no harm. What is done again and again is in `rounds`, and how it ends
//! in `over`; all that goes to a node is an errand of the key's ([`super::errand`]).

mod givers;
mod kept;
mod over;
mod rounds;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::Bytes;
use landfall_core::attempt::Sealed;
use landfall_core::outcome::{SendOutcome, SendReport};
use landfall_core::ports::chain::{Chain, SignedTx};
use landfall_core::ports::records::{Records, RecordsWritten};
use landfall_core::request::Finality;
use landfall_core::view::{BlockRef, ChainView};
use landfall_core::{Account, ChainId, Slot, TxHash};
use landfall_engine::Handle;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use self::kept::{Id, Kept, Stage};
use self::over::Word;
use self::stored::FIRST_SEND;
use super::errand::Errands;
use super::error::{INVALID_INPUT, RpcError, UNAVAILABLE};
use super::first_send::{can_pay, count, gap, verdict};
use super::quota::{self, Claim, RawQuota};
use crate::access::{Audit, Caller, Keyring, Wrote};
use crate::metrics::Metrics;

/// A nonce may be this far above the account's count.
const FURTHEST: u64 = 1_000;
/// How long a caller waits for the first reading of the records after a start.
const FIRST_READ: Duration = Duration::from_secs(4);
/// The status of the audit log's row for one that a node refused.
const REFUSED: u16 = 422;

/// The answer to a first send; nothing before that.
type Verdict = Option<Result<(), RpcError>>;
type Sending = BTreeMap<Id, (watch::Receiver<Verdict>, Claim)>;

type All = BTreeMap<Id, Kept>;

/// Chains as a keeper sees them.
pub(crate) trait Chains: Send + Sync {
    /// A chain that is configured, and when something on it is final.
    fn chain(&self, chain: ChainId) -> Option<(Arc<dyn Chain>, Finality)>;
    /// The picture of it that callers may be shown.
    fn shown(&self, chain: ChainId) -> Option<Arc<ChainView>>;
}

impl Chains for Handle {
    fn chain(&self, chain: ChainId) -> Option<(Arc<dyn Chain>, Finality)> {
        let parts = self.parts().chains.get(&chain)?;
        Some((parts.chain.clone(), parts.settings.finality))
    }

    fn shown(&self, chain: ChainId) -> Option<Arc<ChainView>> {
        Self::shown(self, chain)
    }
}

/// Somebody who gives signed bytes for a chain.
#[derive(Clone)]
pub(super) struct Giver {
    pub(super) caller: Caller,
    pub(super) chain: ChainId,
    pub(super) adapter: Arc<dyn Chain>,
    /// The picture by which they are judged.
    pub(super) view: Arc<ChainView>,
}

impl Giver {
    /// A row of the audit log about these bytes.
    fn row(&self, signed: &SignedTx, status: u16) -> Wrote {
        let (method, path) = ("eth_sendRawTransaction".into(), format!("/rpc/{}", self.chain).into());
        let about = json!({ "hash": signed.hash, "from": signed.from.to_string() });
        Wrote { method, path, status, txs: Vec::new(), count: None, body: Some(about) }
    }
}

pub(crate) struct Keeper {
    chains: Arc<dyn Chains>,
    records: Arc<dyn Records>,
    keyring: Arc<Keyring>,
    audit: Audit,
    metrics: Arc<Metrics>,
    all: Mutex<All>,
    /// Those whose first send has no verdict yet.
    sending: Mutex<Sending>,
    /// Records of first sends that are not ours, and since when they have been seen: they may be removed again.
    unsure: Mutex<BTreeMap<Id, (u64, Instant)>>,
    /// Transactions that were forgotten since the last reading began.
    forgotten: Mutex<BTreeSet<Id>>,
    /// The accounts' counts, asked once at each head.
    counted: Mutex<BTreeMap<Whose, Counted>>,
    quota: RawQuota,
    /// The stored records were read: before that nobody knows what a key has kept.
    is_read: watch::Sender<bool>,
}

/// The API key whose transactions are looked at together, and on which chain.
type Whose = (ChainId, Option<Arc<str>>);

/// Accounts' counts at a head.
struct Counted {
    head: BlockRef,
    counts: BTreeMap<Account, Slot>,
}

impl Keeper {
    pub(crate) fn new(
        chains: Arc<dyn Chains>,
        records: Arc<dyn Records>,
        keyring: Arc<Keyring>,
        audit: Audit,
        metrics: Arc<Metrics>,
        quota: RawQuota,
    ) -> Self {
        Self {
            chains,
            records,
            keyring,
            audit,
            metrics,
            all: Mutex::default(),
            sending: Mutex::default(),
            unsure: Mutex::default(),
            forgotten: Mutex::default(),
            counted: Mutex::default(),
            quota,
            is_read: watch::channel(false).0,
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsure(&self) -> MutexGuard<'_, BTreeMap<Id, (u64, Instant)>> {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of one that is kept.
    pub(super) fn raw(&self, chain: ChainId, hash: TxHash) -> Option<Bytes> {
        self.all().get(&(chain, hash)).map(|kept| kept.raw.clone())
    }

    /// Keeps it and sends it; an error means that it is not kept, unless it says that this is not known. The same bytes again wait
    /// for the same verdict.
    pub(super) async fn send(
        self: &Arc<Self>,
        giver: Giver,
        signed: SignedTx,
        sealed: Sealed,
    ) -> Result<(), RpcError> {
        let mut read = self.is_read.subscribe();
        if tokio::time::timeout(FIRST_READ, read.wait_for(|is_read| *is_read)).await.is_err() {
            let text =
                "what is kept already has not been read yet since the start; nothing was kept: send it again";
            return Err(RpcError::coded(UNAVAILABLE, text, "store_unavailable"));
        }
        loop {
            let (mut verdict, is_mine) = self.verdict_of(&giver, &signed, &sealed)?;
            match verdict.wait_for(Option::is_some).await.ok().and_then(|said| said.clone()) {
                Some(Ok(())) if !is_mine => {}
                Some(verdict) => return verdict,
                None => return Err(unknown("the server stops")),
            }
            // Another caller's yes becomes its own: it must not go with that one's key.
            if self.join((giver.chain, sealed.hash), giver.caller.key.as_ref()).await? {
                return Ok(());
            }
        }
    }

    /// The verdict on these bytes, and whether it was begun for this giver.
    fn verdict_of(
        self: &Arc<Self>,
        giver: &Giver,
        signed: &SignedTx,
        sealed: &Sealed,
    ) -> Result<(watch::Receiver<Verdict>, bool), RpcError> {
        let id = (giver.chain, sealed.hash);
        let mut sending = self.sending();
        if let Some((verdict, _)) = sending.get(&id) {
            return Ok((verdict.clone(), false));
        }
        let key = giver.caller.key.clone();
        let bytes = sealed.raw.len();
        let claim =
            Claim { key, chain: giver.chain, from: signed.from, slot: signed.slot, bytes, waits: false };
        self.check(&sending, id, &claim)?;
        let (told, verdict) = watch::channel(None);
        sending.insert(id, (verdict.clone(), claim));
        drop(sending);
        let keeper = self.clone();
        let (giver, signed, sealed) = (giver.clone(), signed.clone(), sealed.clone());
        // A task of its own: others may wait for it when its caller hangs up.
        tokio::spawn(async move {
            // Also if it panics.
            let _sent = Sent { keeper: &keeper, id };
            told.send_replace(Some(keeper.send_first(&giver, &signed, sealed).await));
        });
        Ok((verdict, true))
    }

    /// Whether there is room for one more, beside those that are kept and those that are about to be.
    fn check(&self, sending: &Sending, id: Id, claim: &Claim) -> Result<(), RpcError> {
        let all = self.all();
        if all.contains_key(&id) {
            return Ok(());
        }
        let begun = sending.iter().filter(|(other, _)| **other != id && !all.contains_key(other));
        let begun = begun.map(|(_, (_, claim))| claim.share());
        quota::check(self.quota, all.iter().map(share).chain(begun), claim)
    }

    /// Lets go what yields until there is room for so many bytes more.
    async fn make_room(&self, bytes: usize) {
        loop {
            let least = quota::yields(self.all().iter().map(|one| (*one.0, share(one))), bytes);
            let Some((id, why)) = least else { return };
            let unsent = self.all().get(&id).filter(|kept| kept.never_sent).map(|kept| kept.givers.clone());
            let Some(givers) = unsent else {
                self.forget(id, why).await;
                continue;
            };
            if !self.forget_unsent(id, &givers, why).await {
                return;
            }
        }
    }

    async fn send_first(&self, giver: &Giver, signed: &SignedTx, sealed: Sealed) -> Result<(), RpcError> {
        let id = (giver.chain, sealed.hash);
        let key = giver.caller.key.as_ref();
        // Where it is kept already, whoever gave it, its verdict is no longer open.
        if self.join(id, key).await? {
            return Ok(());
        }
        let errands = Errands::of(giver.adapter.as_ref(), giver.caller.key.as_deref());
        let judged = self.judge(giver, errands, signed).await?;
        let is_held = match judged {
            Judged::Landed => return Ok(()),
            Judged::Held => true,
            Judged::Shown | Judged::Sent => false,
        };
        self.take_place(id, is_held, sealed.raw.len()).await?;
        let row = self.audit.wrote_first(&giver.caller, giver.row(signed, 200)).await?;
        let mut kept = Kept::new(giver.caller.key.clone(), signed.from, signed.slot, sealed.raw.clone());
        kept.never_sent = is_held;
        let stage = if is_held { Stage::Kept } else { Stage::First(row) };
        match self.records.write_records(vec![kept.write(id, 0, stage)]).await {
            Ok(RecordsWritten::Yes) => {}
            Ok(RecordsWritten::Changed) if self.join(id, key).await.unwrap_or(false) => return Ok(()),
            Ok(RecordsWritten::Changed) => return Err(unknown("another node was asked for the same")),
            // It may have been written all the same.
            Err(error) => return Err(unknown(&error.to_string())),
        }
        if is_held {
            tracing::debug!(chain = %id.0, hash = %id.1, "a lower nonce is missing; it is held back");
            kept.held_since = Some(Instant::now());
            self.all().insert(id, kept);
            self.audit.came_to_something(&giver.caller);
            return Ok(());
        }
        kept.sent_at = Some(Instant::now());
        let said = tokio::time::timeout(FIRST_SEND, errands.send(&sealed)).await;
        let said = said.unwrap_or_else(|_| SendReport::unheard());
        let fits = judged == Judged::Shown && said.outcome == SendOutcome::NonceTooLow;
        let Some(error) = verdict(said).filter(|_| !fits) else {
            self.audit.came_to_something(&giver.caller);
            self.keep(id, kept).await;
            return Ok(());
        };
        // Nobody is told no while somebody could still send it.
        match self.take_back(id, key).await {
            Ok(true) => {
                let code = error.data.as_ref().and_then(|data| data["code"].as_str()).map(str::to_owned);
                self.audit.wrote_in_vain(code, &giver.caller, giver.row(signed, REFUSED));
                Err(error)
            }
            Ok(false) => Ok(()),
            Err(store) => Err(unknown(&format!("a node refused it ({}), and {store}", error.message))),
        }
    }

    /// Its first send has said nothing against it. If that cannot be written, whoever reads the record does so later.
    async fn keep(&self, id: Id, kept: Kept) {
        let written = self.records.write_records(vec![kept.write(id, 1, Stage::Kept)]).await;
        if let Err(error) = written {
            tracing::warn!(chain = %id.0, hash = %id.1, %error, "a signed transaction is kept, and its record does not say so yet");
        }
        self.all().insert(id, kept);
    }

    /// The fate of bytes that are new here.
    async fn judge(
        &self,
        giver: &Giver,
        errands: Errands<'_>,
        signed: &SignedTx,
    ) -> Result<Judged, RpcError> {
        let count = count(errands, &giver.view, signed.from).await?;
        if signed.slot < count {
            let is_shown = matches!(errands.block_of(signed.hash).await, Ok(Some(_)));
            // One endpoint's word is not enough: what it says has landed would be sent by nobody.
            let counts = errands.counts_of_each(signed.from, giver.view.head.at.number).await;
            return match over::word(&counts, signed.slot) {
                Word::Used if is_shown => Ok(Judged::Landed),
                Word::Open | Word::Unheard if is_shown => Ok(Judged::Shown),
                Word::Open | Word::Unheard => Ok(Judged::Sent),
                Word::Used => {
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
        let is_next = signed.slot <= gap(count, &self.slots_of(giver.chain, signed.from));
        // Those before it may have been sent elsewhere.
        let pending = errands.pending(signed.from).await.unwrap_or(count);
        if is_next || signed.slot <= pending {
            return Ok(Judged::Sent);
        }
        can_pay(errands, &giver.view, signed).await?;
        Ok(Judged::Held)
    }

    /// A held-back transaction gets a place only where there is one; for others, held-back ones make room.
    async fn take_place(&self, id: Id, is_held: bool, bytes: usize) -> Result<(), RpcError> {
        self.claim(id, is_held)?;
        if !is_held {
            self.make_room(bytes).await;
        }
        Ok(())
    }

    /// Looks again whether there is room: it may have been thought to be kept.
    fn claim(&self, id: Id, waits: bool) -> Result<(), RpcError> {
        let mut sending = self.sending();
        let Some((_, claim)) = sending.get_mut(&id) else { return Ok(()) };
        claim.waits = waits;
        let claim = claim.clone();
        self.check(&sending, id, &claim)
    }

    /// The nonces of an account that are kept here, or about to be.
    fn slots_of(&self, chain: ChainId, from: Account) -> BTreeSet<Slot> {
        let sending = self.sending();
        let begun = sending
            .values()
            .map(|(_, claim)| claim)
            .filter(|claim| (claim.chain, claim.from) == (chain, from));
        let mut slots: BTreeSet<Slot> = begun.map(|claim| claim.slot).collect();
        let all = self.all();
        let of_account = all.iter().filter(|((of, _), kept)| *of == chain && kept.from == from);
        slots.extend(of_account.map(|(_, kept)| kept.slot));
        slots
    }
}

/// The fate of bytes that are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// They are in a block already, and two endpoints say that their nonce is used.
    Landed,
    /// One endpoint shows them in a block, and not all say that their nonce is used: they are sent and kept, and that it is too low is
    /// no answer then.
    Shown,
    Sent,
    Held,
}

fn share<'a>(((chain, _), kept): (&Id, &'a Kept)) -> quota::Share<'a> {
    let Kept { givers, from, raw, held_since, unheard_since, .. } = kept;
    quota::Share {
        key: givers.first().map(AsRef::as_ref),
        chain: *chain,
        from: *from,
        bytes: raw.len(),
        held_since: *held_since,
        used_since: *unheard_since,
    }
}

/// Nobody can say whether it is kept.
fn unknown(why: &str) -> RpcError {
    let text = format!("{why}, and whether it is kept is not known; send the same bytes again");
    RpcError::coded(INVALID_INPUT, text, "outcome_unknown")
}

/// A first send that is over, whichever way.
struct Sent<'a> {
    keeper: &'a Keeper,
    id: Id,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.keeper.sending().remove(&self.id);
    }
}
