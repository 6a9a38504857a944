//! What can be asked of a transaction or a lane that exists, and what is refused at once because it cannot be done.
//!
//! What is accepted here is a stored command; whether it comes in time, the chain decides. What is refused here was seen
//! in the store a moment ago: the lane's owner looks again when it applies a command.

use std::collections::BTreeSet;
use std::sync::Arc;

use landfall_core::fees::{Fees, content_ceiling};
use landfall_core::lane::{MOST_CONTENTS, MOST_SLOTS};
use landfall_core::ports::store::{Admission, CommandKind, Error as StoreError, TxQuery, TxRecord};
use landfall_core::request::{AskedFees, Options, Payload, Speed};
use landfall_core::transaction::{ReasonCode, Terms, Transaction, TxState, Whose};
use landfall_core::{
    CommandId, ContentVersion, LaneId, Origin, Price, QueueOrder, RequestId, Slot, TxHash, TxId,
};

use crate::admission::{self, Refused, Submission};
use crate::crowd;
use crate::handle::{Handle, SubmitError};
use crate::queues::{Load, Room};

/// How something is asked for: under which key, and by whom.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// The same key on the same lane is the same command.
    pub key: Option<RequestId>,
    pub by: Option<Arc<Origin>>,
}

/// Why something cannot be done to what exists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cannot {
    #[error("it is {}; only a transaction that has not ended can be changed", .0.name())]
    AlreadyFinal(TxState),
    #[error("it is on its way to {}, by a no-op with its nonce; nothing can take that back", .0.name())]
    Ending(TxState),
    #[error("it has had {0} contents, which is the most; cancel it and hand over a new transaction")]
    TooManyContents(u32),
    #[error(
        "to replace what is out it would have to offer {needed}, and its ceiling is {ceiling}; replace it with a higher \
         options.maxFeePerGas, as far as the chain's own ceiling allows, or wait"
    )]
    AtCeiling { needed: Price, ceiling: Price },
    #[error("its newest content has had {0} attempts, which is the most; the same bytes go on being sent")]
    TooManyAttempts(usize),
    #[error("nobody is asked about it: it is {}", .0.name())]
    NotAsked(TxState),
    #[error("version {asked} is not what is asked about; its newest content is version {newest}")]
    OtherVersion { asked: ContentVersion, newest: ContentVersion },
    #[error(
        "it was replaced since it was handed over, and has {newest} versions: look at the newest one, and say which one was looked \
         at (`version`)"
    )]
    VersionNeeded { newest: ContentVersion },
    #[error("there is nothing to settle: nothing unknown that does the same has taken its nonce; it is {}", .0.name())]
    NotTaken(TxState),
    #[error(
        "there is nothing to settle: it has no nonce, and may have landed before the store went back. Approve it if it is another \
         payment, or reject it if it has landed (landfall tx approve, landfall tx reject)"
    )]
    MayHaveLanded,
    #[error(
        "its nonce was taken by {taken} by now, and not by {looked_at}; look at that one, and say whose it was"
    )]
    OtherTaker { looked_at: TxHash, taken: TxHash },
    #[error("nonce {slot} is in use{}; it ends only on chain", .tx.map_or(String::new(), |tx| format!(" by transaction {tx}")))]
    SlotBound { slot: Slot, tx: Option<TxId> },
    #[error("the chain has used nonce {slot}: the account's count is {count}")]
    SlotUsed { slot: Slot, count: Slot },
    #[error("nonce {from} cannot be filled before nonce {next}, which comes first: a hole would be left")]
    SlotGap { from: Slot, next: Slot },
    #[error("it is {}; it can be done again only after it ended without success", .0.name())]
    NotEnded(TxState),
    #[error(
        "it was confirmed: doing it again would do it twice; hand over a new transaction if that is meant"
    )]
    Succeeded,
}

/// Why nothing was taken in.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SteerError {
    #[error(transparent)]
    Cannot(#[from] Cannot),
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl From<StoreError> for SteerError {
    fn from(error: StoreError) -> Self {
        Self::Submit(error.into())
    }
}

impl From<Refused> for SteerError {
    fn from(refused: Refused) -> Self {
        Self::Submit(refused.into())
    }
}

/// What a cancel of everything found at the time (R10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllCancelled {
    pub command: CommandId,
    /// Without a slot: they end at once.
    pub waiting: u64,
    /// With a slot: a no-op is sent for each, and the chain decides.
    pub in_flight: u64,
    /// Of those in flight, already in a block: it is too late unless the block is lost.
    pub mined: u64,
}

/// A command under a known key asks for what is stored. What the server fills in itself does not count.
pub(crate) fn asks_the_same(known: &CommandKind, asked: &CommandKind) -> bool {
    match (known, asked) {
        (CommandKind::CancelAll { .. }, CommandKind::CancelAll { .. }) => true,
        (CommandKind::Approve { tx, .. }, CommandKind::Approve { tx: other, .. })
        | (CommandKind::Reject { tx, .. }, CommandKind::Reject { tx: other, .. }) => tx == other,
        (CommandKind::Settle { tx, whose, .. }, CommandKind::Settle { tx: other, whose: others, .. }) => {
            tx == other && whose == others
        }
        (known, asked) => known == asked,
    }
}

fn open(tx: &Transaction) -> Result<(), Cannot> {
    if tx.status.state.is_terminal() { Err(Cannot::AlreadyFinal(tx.status.state)) } else { Ok(()) }
}

impl Handle {
    /// Ends it without its content, if the chain lets us.
    ///
    /// Asking again while it is ending, or before that was heard, asks for what is under way: it is answered, and nothing is stored.
    pub async fn cancel(&self, tx: &Transaction, wish: &Wish) -> Result<CommandId, SteerError> {
        let kind = CommandKind::Cancel { tx: tx.id };
        if let Some(known) = self.known_command(tx.lane, &kind, wish.key.as_ref()).await? {
            return Ok(known);
        }
        open(tx)?;
        if tx.status.ending.is_some() {
            // Whatever its ending came from, one more row is all there ever is.
            let again = Wish { key: cancel_key(tx.id), by: wish.by.clone() };
            return self.on_tx(tx, kind, &again, |_| Ok(())).await;
        }
        if wish.key.is_none() {
            let waiting = self.store().open_commands(tx.lane, &BTreeSet::new(), crowd::MOST_COMMANDS).await?;
            if let Some(same) = waiting.into_iter().find(|command| command.kind == kind) {
                return Ok(same.id);
            }
        }
        self.on_tx(tx, kind, wish, |_| Ok(())).await
    }

    /// Gives it another content.
    pub async fn replace(
        &self,
        tx: &Transaction,
        payload: Payload,
        terms: Terms,
        wish: &Wish,
    ) -> Result<CommandId, SteerError> {
        let kind = CommandKind::Replace { tx: tx.id, payload: Box::new(payload.clone()), terms };
        if let Some(known) = self.known_command(tx.lane, &kind, wish.key.as_ref()).await? {
            return Ok(known);
        }
        open(tx)?;
        let room = self.room_to_replace(tx, &payload).await?;
        let answer = self.replace_in(tx, payload, terms, kind, wish).await;
        match &answer {
            Ok(_) | Err(SteerError::Submit(SubmitError::Unknown(_))) => drop(room),
            Err(_) => room.into_iter().for_each(Room::give_back),
        }
        answer
    }

    /// Room for another content of one that waits, which keeps those before. One that is out already has its nonce, and must not be
    /// kept from its rescue; nor is what an administrator does on an older copy of the store.
    async fn room_to_replace(&self, tx: &Transaction, payload: &Payload) -> Result<Option<Room>, SteerError> {
        // Who asks, times and terms.
        const REST: u64 = 768;
        let came = self.shared().queues.came();
        if tx.status.slot.is_some() || self.older().await?.is_some() {
            return Ok(None);
        }
        admission::check_signer(self.parts(), tx.lane)?;
        let load = Load { transactions: 0, bytes: REST + payload.stored_bytes() };
        Ok(Some(self.room(tx.lane, load, came).await?.set_out()))
    }

    async fn replace_in(
        &self,
        tx: &Transaction,
        payload: Payload,
        terms: Terms,
        kind: CommandKind,
        wish: &Wish,
    ) -> Result<CommandId, SteerError> {
        self.on_tx(tx, kind, wish, |handle| {
            if let Some(ending) = &tx.status.ending {
                return Err(Cannot::Ending(ending.state()).into());
            }
            if tx.version().0 >= MOST_CONTENTS {
                return Err(Cannot::TooManyContents(MOST_CONTENTS).into());
            }
            if payload.authorizes_sender() && !tx.takes_two_slots() {
                let why = "it would use up a second slot, which a replacement does not have; cancel this one and \
                           hand over a new one";
                return Err(Refused::BadAuthorization { position: 0, why: why.to_owned() }.into());
            }
            let parts = handle.parts();
            let max_fee = terms.max_fee_per_gas.or(tx.max_fee_per_gas());
            let view = handle.view(tx.lane.chain);
            let now = parts.clock.now();
            admission::check(parts, tx.lane, view.as_deref(), &payload, max_fee, terms.deadline, now)?;
            Ok(())
        })
        .await
    }

    /// A dearer attempt now.
    pub async fn speed_up(
        &self,
        record: &TxRecord,
        fees: AskedFees,
        speed: Option<Speed>,
        wish: &Wish,
    ) -> Result<CommandId, SteerError> {
        let tx = &record.tx;
        self.on_tx(tx, CommandKind::SpeedUp { tx: tx.id, fees, speed }, wish, |handle| {
            let chains = &handle.parts().chains;
            let chain = chains.get(&tx.lane.chain).ok_or(Refused::UnknownChain(tx.lane.chain))?;
            let top = content_ceiling(chain.settings.max_fee, chain.settings.replacement_percent);
            let ceiling = match tx.max_fee_per_gas() {
                _ if tx.is_no_op() => chain.settings.max_fee,
                Some(asked) => asked.min(top),
                None => top,
            };
            admission::check_fees(fees, ceiling)?;
            let live = || record.attempts.iter().filter(|attempt| Some(attempt.slot) == tx.status.slot);
            let made = live().filter(|attempt| attempt.version == tx.version()).count();
            if made >= chain.settings.max_attempts as usize {
                return Err(Cannot::TooManyAttempts(made).into());
            }
            let highest = live().map(|attempt| Fees::cap(&attempt.fees)).max();
            match highest.map(|cap| cap.raised_by(chain.settings.replacement_percent)) {
                Some(needed) if needed > ceiling => Err(Cannot::AtCeiling { needed, ceiling }.into()),
                Some(_) | None => Ok(()),
            }
        })
        .await
    }

    /// A person's yes or no to a content, or to going on without a transaction that was to come first.
    pub async fn decide(
        &self,
        tx: &Transaction,
        yes: bool,
        version: Option<ContentVersion>,
        wish: &Wish,
    ) -> Result<CommandId, SteerError> {
        let newest = tx.version();
        let asked = version;
        let version = version.unwrap_or(newest);
        let held_for = tx.status.forgotten_as.filter(|_| tx.status.may_have_landed());
        let kind = if yes {
            CommandKind::Approve { tx: tx.id, version: Some(version), held_for }
        } else {
            CommandKind::Reject { tx: tx.id, version: Some(version), held_for }
        };
        self.on_tx(tx, kind, wish, |_| {
            let status = &tx.status;
            let is_asked = status.state == TxState::AwaitingApproval || status.asks_approval;
            if !is_asked && status.held.is_none() {
                return Err(Cannot::NotAsked(status.state).into());
            }
            if version != newest {
                return Err(Cannot::OtherVersion { asked: version, newest }.into());
            }
            // Whoever looked at an older one would speak of what nobody has seen.
            if asked.is_none() && newest > ContentVersion::FIRST {
                return Err(Cannot::VersionNeeded { newest }.into());
            }
            Ok(())
        })
        .await
    }

    /// A person's word on whose transaction took its nonce and does the same. Also of one that has ended, if its block was lost.
    /// `looked_at`: the one that the person saw, if it was said; a word on it is none on another.
    pub async fn settle(
        &self,
        tx: &Transaction,
        whose: Whose,
        looked_at: Option<TxHash>,
        wish: &Wish,
    ) -> Result<CommandId, SteerError> {
        let taken = tx.status.taken.as_deref().map(|taken| taken.hash);
        let asked = |hash: TxHash| CommandKind::Settle { tx: tx.id, whose, hash };
        if let Some(hash) = looked_at.or(taken).or(tx.status.hash)
            && let Some(known) = self.known_command(tx.lane, &asked(hash), wish.key.as_ref()).await?
        {
            return Ok(known);
        }
        let Some(hash) = taken else {
            open(tx)?;
            let waits_for_word = tx.status.slot.is_none() && tx.status.may_have_landed();
            let not_taken = Cannot::NotTaken(tx.status.state);
            return Err(if waits_for_word { Cannot::MayHaveLanded } else { not_taken }.into());
        };
        if let Some(looked_at) = looked_at.filter(|looked_at| *looked_at != hash) {
            return Err(Cannot::OtherTaker { looked_at, taken: hash }.into());
        }
        Ok(self.command_keyed(tx.lane, asked(hash), wish).await?)
    }

    /// A command on a transaction: a known key is answered as before, an ended transaction is refused.
    async fn on_tx(
        &self,
        tx: &Transaction,
        kind: CommandKind,
        wish: &Wish,
        check: impl FnOnce(&Self) -> Result<(), SteerError>,
    ) -> Result<CommandId, SteerError> {
        if let Some(known) = self.known_command(tx.lane, &kind, wish.key.as_ref()).await? {
            return Ok(known);
        }
        open(tx)?;
        check(self)?;
        Ok(self.command_keyed(tx.lane, kind, wish).await?)
    }

    /// Cancels everything of a lane that has not ended.
    pub async fn cancel_all(&self, lane: LaneId, wish: &Wish) -> Result<AllCancelled, SteerError> {
        let of_lane = TxQuery { signer: Some(lane.signer), chain: Some(lane.chain), ..TxQuery::default() };
        let newest = self.store().txs(&TxQuery { limit: 1, ..of_lane.clone() }).await?;
        let up_to = newest.first().map_or(QueueOrder(0), |tx| tx.order);
        let mined = TxQuery { state: Some(TxState::Mined), limit: u32::MAX, ..of_lane };
        let mined = self.store().txs(&mined).await?.len() as u64;
        let summary = self.store().lane(lane).await?;
        let command = self.command_keyed(lane, CommandKind::CancelAll { up_to }, wish).await?;
        let (waiting, in_flight) = summary.map_or((0, 0), |summary| (summary.waiting, summary.bound));
        Ok(AllCancelled { command, waiting, in_flight, mined: mined.min(in_flight) })
    }

    /// Uses free slots up by no-ops.
    pub async fn fill(
        &self,
        lane: LaneId,
        from: Slot,
        to: Slot,
        wish: &Wish,
    ) -> Result<CommandId, SteerError> {
        let kind = CommandKind::Fill { from, to };
        if let Some(known) = self.known_command(lane, &kind, wish.key.as_ref()).await? {
            return Ok(known);
        }
        let record = self.store().load_lane(lane).await?;
        let seen = self.view(lane.chain).and_then(|view| view.count(&lane.signer));
        if let Some(count) = seen.or(record.row.chain_count)
            && from < count
        {
            return Err(Cannot::SlotUsed { slot: from, count }.into());
        }
        let range = from..=to;
        let bound = record.bound.iter().filter_map(|tx| Some((tx.status.slot?, Some(tx.id))));
        let filled = record.attempts.iter().map(|attempt| (attempt.slot, attempt.tx));
        if let Some((slot, tx)) = bound.chain(filled).filter(|(slot, _)| range.contains(slot)).min() {
            return Err(Cannot::SlotBound { slot, tx }.into());
        }
        if let Some(next) = record.row.cursor.max(seen)
            && from > next
        {
            return Err(Cannot::SlotGap { from, next }.into());
        }
        Ok(self.command_keyed(lane, kind, wish).await?)
    }

    /// The most slots that one fill may have.
    #[must_use]
    pub fn most_filled(&self) -> u64 {
        MOST_SLOTS
    }

    /// Does an ended transaction again, as a new one that names it. A transaction has one retry: asking again gives the same.
    pub async fn retry(
        &self,
        tx: &Transaction,
        options: Option<Options>,
        by: Option<Arc<Origin>>,
    ) -> Result<Admission, SteerError> {
        match tx.status.state {
            TxState::Confirmed => return Err(Cannot::Succeeded.into()),
            _ if has_landed_before(tx) => return Err(Cannot::Succeeded.into()),
            state if !state.is_terminal() => return Err(Cannot::NotEnded(state).into()),
            _ => {}
        }
        let options = options.unwrap_or_else(|| Options {
            speed: tx.speed(),
            max_fee_per_gas: tx.max_fee_per_gas(),
            // The old deadline has passed, or would soon.
            deadline: None,
            ..tx.request.options.clone()
        });
        let submission = Submission {
            lane: tx.lane,
            request_id: retry_key(tx.id),
            payload: tx.payload().clone(),
            options,
            at_once: None,
            origin: by,
        };
        Ok(self.submit_retry(submission, tx.id).await?)
    }

    /// The transaction that does this one again.
    pub async fn retried_as(&self, tx: &Transaction) -> Result<Option<TxId>, StoreError> {
        let Some(key) = retry_key(tx.id).filter(|_| tx.status.state.is_terminal()) else { return Ok(None) };
        let found = self.store().tx_by_request(tx.lane.signer, &key).await?;
        let retry = found.filter(|record| record.tx.request.retry_of == Some(tx.id));
        Ok(retry.map(|record| record.tx.id))
    }
}

/// A person said that it had landed before the store was put back.
fn has_landed_before(tx: &Transaction) -> bool {
    tx.status.reason.as_ref().is_some_and(|reason| reason.code == ReasonCode::LandedBefore)
}

/// The key under which a cancel is stored that changes nothing any more: one for each transaction.
fn cancel_key(id: TxId) -> Option<RequestId> {
    RequestId::parse(&format!("cancel:{id}")).ok()
}

/// The key under which a retry is stored: one for each transaction.
fn retry_key(id: TxId) -> Option<RequestId> {
    RequestId::parse(&format!("retry:{id}")).ok()
}
