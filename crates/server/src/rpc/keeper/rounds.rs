//! The keeper's rounds: what is kept is looked at again and again, sent where it is in no block, and forgotten when it is final
//! (`over`).
//!
//! Each key's transactions are looked at by themselves, side by side with those of others and with few questions at once. So no key
//! waits for what another one gave, and callers that send now find places.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, FuturesUnordered};
use landfall_core::attempt::Sealed;
use landfall_core::view::BlockRef;
use landfall_core::{Account, ChainId, Slot, TxHash};
use tokio::time::Instant;

use super::super::errand::Errands;
use super::super::first_send::gap;
use super::{Counted, Keeper, Kept, Whose};

/// One above a gap is held back for so long.
const HELD_LIMIT: Duration = Duration::from_secs(3_600);
/// How often it is looked what is to be done.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Bytes that are in no block are sent again after this time.
const AGAIN_AFTER: Duration = Duration::from_secs(20);
/// How often what other nodes keep is read, and how often while one of them may have died over a first send.
const READ_EVERY: Duration = Duration::from_secs(60);
const READ_SOON: Duration = Duration::from_secs(15);
/// As many of a key are sent in one look.
const MOST: usize = 100;
/// Errands of a key at once.
pub(super) const AT_ONCE: usize = 4;

/// Kept transactions of one key, and the nonces that are kept of each account, whoever gave them.
struct Mine {
    whose: Whose,
    kept: Vec<(TxHash, Kept)>,
    slots: Arc<BTreeMap<(ChainId, Account), BTreeSet<Slot>>>,
}

impl Keeper {
    /// Works until the server stops.
    pub(crate) async fn run(&self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut read_at: Option<Instant> = None;
        let (mut looks, mut under_way) = (FuturesUnordered::new(), BTreeSet::new());
        loop {
            let every = if self.unsure().is_empty() { READ_EVERY } else { READ_SOON };
            if read_at.is_none_or(|at| at.elapsed() >= every) {
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
            for mine in self.by_key(&under_way) {
                under_way.insert(mine.whose.clone());
                looks.push(self.look(mine));
            }
            let next = tokio::time::sleep(LOOK_EVERY);
            tokio::pin!(next);
            loop {
                tokio::select! {
                    biased;
                    () = &mut stop => return,
                    Some(whose) = looks.next() => { under_way.remove(&whose); }
                    () = &mut next => break,
                }
            }
        }
    }

    /// All that are kept, by key, but for those that are being looked at.
    fn by_key(&self, under_way: &BTreeSet<Whose>) -> Vec<Mine> {
        let mut of_keys: BTreeMap<Whose, Vec<(TxHash, Kept)>> = BTreeMap::new();
        let mut slots: BTreeMap<(ChainId, Account), BTreeSet<Slot>> = BTreeMap::new();
        for ((chain, hash), kept) in self.all().iter() {
            slots.entry((*chain, kept.from)).or_default().insert(kept.slot);
            of_keys.entry((*chain, kept.givers.first().cloned())).or_default().push((*hash, kept.clone()));
        }
        let count: usize = of_keys.values().map(Vec::len).sum();
        let held = of_keys.values().flatten().filter(|(_, kept)| kept.held_since.is_some()).count();
        self.metrics.set_raw_kept(count - held, held);
        self.counted().retain(|whose, _| of_keys.contains_key(whose));
        let slots = Arc::new(slots);
        let others = of_keys.into_iter().filter(|(whose, _)| !under_way.contains(whose));
        others.map(|(whose, kept)| Mine { whose, kept, slots: slots.clone() }).collect()
    }

    /// One look at those of a key on a chain.
    async fn look(&self, mine: Mine) -> Whose {
        let Mine { whose, mut kept, slots } = mine;
        let chain = whose.0;
        kept = self.without_orphans(&whose, kept).await;
        let (Some((adapter, finality)), Some(view)) = (self.chains.chain(chain), self.chains.shown(chain))
        else {
            return whose;
        };
        let errands = Errands::of(adapter.as_ref(), whose.1.as_deref());
        let accounts = kept.iter().map(|(_, kept)| kept.from).collect();
        let (counts, asked) = self.counts_at(&whose, errands, view.head.at, accounts).await;
        // Whoever has no count is asked for again.
        let counted = kept.into_iter().filter_map(|(hash, kept)| {
            let count = *counts.get(&kept.from)?;
            Some((hash, kept, count))
        });
        let (passed, open): (Vec<_>, Vec<_>) = counted.partition(|(_, kept, count)| kept.slot < *count);
        let passed = passed.into_iter().filter(|(_, kept, _)| asked.contains(&kept.from));
        let passed = passed.map(|(hash, kept, _)| (hash, kept)).collect();
        self.reopen(chain, &open);
        let unsettled = self.settle(&whose, errands, &view, finality, passed).await;
        let is_held = |kept: &Kept, count: Slot| {
            let slots = slots.get(&(chain, kept.from));
            kept.never_sent && slots.is_some_and(|slots| kept.slot > gap(count, slots))
        };
        let (held, open): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|(_, kept, count)| is_held(kept, *count));
        self.hold(chain, errands, held.into_iter().map(|(hash, kept, _)| (hash, kept))).await;
        let open = open.into_iter().map(|(hash, kept, _)| (hash, kept)).chain(unsettled);
        self.send_again(chain, errands, open.collect()).await;
        whose
    }

    /// Forgets what was never sent when all who gave it have lost their keys; what is left.
    async fn without_orphans(&self, whose: &Whose, kept: Vec<(TxHash, Kept)>) -> Vec<(TxHash, Kept)> {
        let (chain, Some(first)) = whose else { return kept };
        if !kept.iter().any(|(_, kept)| kept.never_sent) || !self.keyring.is_revoked(first).await {
            return kept;
        }
        let mut left = Vec::new();
        for (hash, kept) in kept {
            if kept.never_sent && self.is_orphan(&kept).await {
                let why = "its API key was revoked, and it had not been sent";
                self.forget_unsent((*chain, hash), &kept.givers, why).await;
            } else {
                left.push((hash, kept));
            }
        }
        left
    }

    async fn is_orphan(&self, kept: &Kept) -> bool {
        let Some(keys) = kept.givers.revocable() else { return false };
        for key in keys {
            if !self.keyring.is_revoked(key).await {
                return false;
            }
        }
        true
    }

    /// Transactions whose turn it is: the one that was not sent for longest first, and of an account the lowest nonce.
    async fn send_again(&self, chain: ChainId, errands: Errands<'_>, mut open: Vec<(TxHash, Kept)>) {
        open.retain(|(_, kept)| kept.sent_at.is_none_or(|at| at.elapsed() >= AGAIN_AFTER));
        open.sort_by_key(|(_, kept)| (kept.sent_at, kept.from, kept.slot));
        open.truncate(MOST);
        let again = open.into_iter().map(|(hash, kept)| async move {
            if !self.note_sent(chain, hash, &kept).await {
                return;
            }
            let report = errands.send(&Sealed { raw: kept.raw, hash }).await;
            tracing::debug!(%chain, %hash, outcome = report.outcome.name(), "a kept transaction was sent");
        });
        stream::iter(again).buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    /// It is about to be sent, and held back no longer. The record says so first, or another node could forget it; false if that
    /// could not be written, or there is no record any more.
    async fn note_sent(&self, chain: ChainId, hash: TxHash, kept: &Kept) -> bool {
        let id = (chain, hash);
        if kept.never_sent {
            match self.released(id).await {
                Ok(true) => {}
                Ok(false) => {
                    self.all().remove(&id);
                    return false;
                }
                Err(error) => {
                    tracing::warn!(%chain, %hash, %error, "a kept transaction cannot be sent yet: its record could not be written");
                    return false;
                }
            }
        }
        if let Some(kept) = self.all().get_mut(&id) {
            (kept.sent_at, kept.never_sent, kept.held_since) = (Some(Instant::now()), false, None);
        }
        true
    }

    /// Counts of these accounts at this head as far as they can be had, and which of them were asked for now: not those that a
    /// look before this one asked for.
    async fn counts_at(
        &self,
        whose: &Whose,
        errands: Errands<'_>,
        head: BlockRef,
        accounts: BTreeSet<Account>,
    ) -> (BTreeMap<Account, Slot>, BTreeSet<Account>) {
        let known = self.counted().remove(whose).filter(|known| known.head == head);
        let mut counts = known.map(|known| known.counts).unwrap_or_default();
        counts.retain(|account, _| accounts.contains(account));
        let missing: Vec<Account> =
            accounts.into_iter().filter(|account| !counts.contains_key(account)).collect();
        let asking = missing.into_iter().map(|account| async move {
            errands.count(account, &head).await.ok().map(|count| (account, count))
        });
        let told: Vec<_> = stream::iter(asking).buffer_unordered(AT_ONCE).collect().await;
        let told: BTreeMap<Account, Slot> = told.into_iter().flatten().collect();
        let asked = told.keys().copied().collect();
        counts.extend(told);
        self.counted().insert(whose.clone(), Counted { head, counts: counts.clone() });
        (counts, asked)
    }

    pub(super) fn counted(&self) -> MutexGuard<'_, BTreeMap<Whose, Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Transactions above a gap: held back, and in the end forgotten. They were never sent from here. One endpoint's word does not
    /// forget one: as long as another shows no gap below it, it is sent.
    async fn hold(&self, chain: ChainId, errands: Errands<'_>, held: impl Iterator<Item = (TxHash, Kept)>) {
        for (hash, kept) in held {
            let since = kept.held_since.unwrap_or_else(Instant::now);
            if since.elapsed() >= HELD_LIMIT {
                if errands.pending(kept.from).await.is_some_and(|pending| kept.slot <= pending) {
                    self.send_again(chain, errands, vec![(hash, kept)]).await;
                } else {
                    self.forget_unsent((chain, hash), &kept.givers, "a lower nonce did not come").await;
                }
            } else if let Some(kept) = self.all().get_mut(&(chain, hash)).filter(|kept| kept.never_sent) {
                // It may have been given again meanwhile.
                kept.held_since.get_or_insert_with(Instant::now);
            }
        }
    }
}
