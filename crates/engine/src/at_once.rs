//! Callers that wait for a hash (`eth_sendTransaction`): their transactions are bound and signed as soon as they are checked,
//! in any lane and asked of any node.
//!
//! ```text
//! admitted as any other, with a mark ──► the lane's loop binds it beyond the window ──► slot and bytes on disk ──► the hash
//!   └── not in time: withdrawn, which ends it only if it still has no bytes ──► ended, or the hash after all
//! ```
//!
//! A caller that hears an error sends again. So one that has no bytes in time must not land later: it is withdrawn, and
//! the error is given when that is on disk. With a key of its own the caller can ask again instead, and it stays.
//!
//! The hash is that of the first bytes of all, also for one who asks again after others were signed.
//!
//! A store that went back has forgotten calls. One that is named by a nonce and made again is stored meanwhile, so that it can be
//! compared with what the chain has, and is not withdrawn: it may have landed, and its caller hears its hash when it asks again. One
//! without a nonce or a key cannot be told from another payment, and is refused, also by a node that does not run its lane.

use std::time::Duration;

use landfall_core::lane::Hold;
use landfall_core::ports::store::{Admission, CommandKind};
use landfall_core::transaction::{Status, Transaction, TxState};
use landfall_core::{LaneId, TxHash, TxId};
use tokio::time::Instant;

use crate::admission::Submission;
use crate::at_admission::ASK_EVERY;
use crate::awaited::{Awaited, Listening};
use crate::handle::{Handle, SubmitError};
use crate::mailbox::Question;

/// A lane that runs elsewhere tells nobody here: the store is asked, less and less often.
const ASK_AT_MOST_EVERY: Duration = Duration::from_millis(400);
/// Where the lane runs here, this is only in case a word was lost.
const ASK_ANYWAY: Duration = Duration::from_secs(1);
/// How long a withdrawal may take to be applied.
const WITHDRAW_LIMIT: Duration = Duration::from_secs(3);

/// The reason of one that was taken back, or goes on waiting, because its amount needs an approval.
pub const MUST_BE_APPROVED: &str = "a person must say yes to it first";

/// What became of a transaction whose hash was waited for.
#[derive(Debug, Clone)]
pub enum Told {
    /// Its bytes are on disk.
    Hash(TxHash),
    /// It ended without bytes; its status says why.
    Ended(Box<Status>),
    /// It had no bytes in time, and never will.
    Withdrawn { why: String },
    /// It has no bytes yet, and may still get some.
    Waiting { why: String },
}

/// Whoever reads the queue of the lane here is told that this one is waited for.
struct Hurried<'a> {
    awaited: &'a Awaited,
    lane: LaneId,
    id: TxId,
}

impl Drop for Hurried<'_> {
    fn drop(&mut self) {
        self.awaited.calm(self.lane, self.id);
    }
}

/// Nothing more is to be waited for.
fn is_known(status: &Status) -> bool {
    status.told_hash().is_some()
        || status.state.is_terminal()
        || status.state == TxState::AwaitingApproval
        || status.may_have_landed()
}

impl Handle {
    /// Stores a transaction whose hash is to be waited for with [`Self::hash_of`].
    pub async fn admit_at_once(
        &self,
        submission: Submission,
    ) -> Result<(Admission, Option<Listening>), SubmitError> {
        let lane = submission.lane;
        let is_named = submission.at_once.as_ref().is_some_and(|at_once| at_once.call.is_some());
        let stores = |hold: &Hold| match hold {
            Hold::NoView | Hold::Reading | Hold::LookingUp { .. } | Hold::FirstCount { .. } => true,
            hold => hold.is_of_older_store() && is_named,
        };
        // One that gives nobody a slot: then nothing is stored, unless it was before.
        if submission.request_id.is_none() {
            let why = match self.ask(lane, Question::Hold).await {
                Some(Some(hold)) if !stores(&hold) => Some(hold.sentence()),
                Some(None) => None,
                // Nobody runs it here, or it knows too little yet to say that the store went back.
                Some(Some(_)) | None if is_named => None,
                Some(Some(_)) | None => self.older().await?.map(|why| Hold::StoreOlder { why }.sentence()),
            };
            if let Some(why) = why {
                let known = self.known(&submission).await?;
                let answer = known.ok_or(SubmitError::NoSlot { lane, why });
                self.tell(&answer);
                return answer.map(|admission| (admission, None));
            }
        }
        self.admit_now(submission).await
    }

    /// Waits until the bytes are on disk. `listening` is what came with its admission; `gone` comes when the caller has
    /// hung up.
    pub async fn hash_of(
        &self,
        tx: &Transaction,
        listening: Option<Listening>,
        limit: Duration,
        gone: impl Future<Output = ()>,
    ) -> Told {
        let keyed = tx.request.request_id.is_some();
        if let Some(hash) = tx.status.told_hash() {
            return Told::Hash(hash);
        }
        if let Some(told) = self.told(tx, listening, Instant::now() + limit, gone).await {
            if let Some(why) = waits_for_word(&told) {
                return Told::Waiting { why };
            }
            let asked = awaits_approval(&told);
            if asked && !keyed {
                return self.withdraw(tx, MUST_BE_APPROVED.to_owned()).await;
            }
            if asked {
                return Told::Waiting { why: MUST_BE_APPROVED.to_owned() };
            }
            return answer(told);
        }
        let why = match self.explain(tx.lane, tx.id).await {
            Some(told) => told,
            None => self.explain_from_afar(tx).await,
        };
        let stays = keyed || (tx.request.call().is_some() && self.is_older(tx.lane).await);
        if stays { Told::Waiting { why } } else { self.withdraw(tx, why).await }
    }

    /// The store went back, and this lane has not gone on yet, as far as is known here.
    async fn is_older(&self, lane: LaneId) -> bool {
        let holds = self.hold(lane).await.is_some_and(|hold| hold.is_of_older_store());
        holds || self.older().await.is_ok_and(|older| older.is_some())
    }

    async fn withdraw(&self, tx: &Transaction, why: String) -> Told {
        if let Err(error) = self.command(tx.lane, CommandKind::Withdraw { tx: tx.id }).await {
            return Told::Waiting { why: format!("{why}; it could not be withdrawn: {error}") };
        }
        let until = Instant::now() + WITHDRAW_LIMIT;
        let mut told = self.told(tx, None, until, std::future::pending()).await;
        // A person's yes may be outstanding all the while.
        while told.as_ref().is_some_and(awaits_approval) {
            if Instant::now() >= until {
                told = None;
                break;
            }
            self.shared().pause(ASK_EVERY).await;
            told = self.told(tx, None, until, std::future::pending()).await;
        }
        if let Some(why) = told.as_ref().and_then(waits_for_word) {
            return Told::Waiting { why };
        }
        match told.map(answer) {
            Some(Told::Ended(status)) if status.state == TxState::Cancelled => Told::Withdrawn { why },
            Some(told) => told,
            None => Told::Waiting { why },
        }
    }

    /// The status with which it got bytes, ended, or came before a person.
    async fn told(
        &self,
        tx: &Transaction,
        mut before: Option<Listening>,
        until: Instant,
        gone: impl Future<Output = ()>,
    ) -> Option<Status> {
        let shared = self.shared();
        shared.awaited.hurry(tx.lane, tx.id);
        let _hurried = Hurried { awaited: &shared.awaited, lane: tx.lane, id: tx.id };
        tokio::pin!(gone);
        let mut pause = ASK_EVERY;
        loop {
            let mut listening = match before.take() {
                // It listens since before the transaction was stored, and nothing can have been missed.
                Some(listening) => listening,
                None => {
                    let listening = Listening::to(shared, tx.id);
                    let found = self.store().statuses(&[tx.id]).await.ok();
                    let status = found.and_then(|found| found.into_iter().next()).map(|(_, status)| status);
                    if let Some(status) = status.filter(is_known) {
                        return Some(status);
                    }
                    listening
                }
            };
            let again = if self.runs(tx.lane) { ASK_ANYWAY } else { pause };
            pause = (pause * 2).min(ASK_AT_MOST_EVERY);
            tokio::select! {
                biased;
                moved = listening.moved() => {
                    if let Some(status) = moved.filter(is_known) {
                        return Some(status);
                    }
                }
                () = tokio::time::sleep(again) => {}
                () = tokio::time::sleep_until(until) => return None,
                () = &mut gone => return None,
                () = shared.stopped() => return None,
            }
        }
    }
}

/// It may have landed before the store went back, and has not ended: a person must say so.
fn waits_for_word(status: &Status) -> Option<String> {
    let held = status.held.as_ref().filter(|_| status.may_have_landed() && !status.state.is_terminal())?;
    Some(format!("{}; an operator has to approve or reject it", held.text))
}

/// A person must say yes, and nothing was ever signed.
fn awaits_approval(status: &Status) -> bool {
    status.state == TxState::AwaitingApproval && status.told_hash().is_none()
}

fn answer(status: Status) -> Told {
    match status.told_hash() {
        Some(hash) => Told::Hash(hash),
        None => Told::Ended(Box::new(status)),
    }
}
