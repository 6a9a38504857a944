//! What reaches a lane between two turns of its loop.
//!
//! Everything that can repeat is merged (a wake-up is a flag, of views only the newest counts) and everything else is
//! an answer to something the lane asked for, so a mailbox is bounded by the lane itself. Each load of a lane has its
//! own mailbox: answers to what an earlier load had asked for go nowhere.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use landfall_core::TxId;
use landfall_core::lane::{Hold, LaneEvent, UnknownSlot};
use landfall_core::transaction::Transaction;
use landfall_core::view::{ChainView, Receipt};
use tokio::sync::{Notify, oneshot};

/// A question to a lane. Without an answer the lane does not know, or has gone.
pub(crate) enum Question {
    /// Why a transaction has not moved on.
    Tx(TxId, oneshot::Sender<Option<String>>),
    /// Why the lane hands out no slots, if so.
    Hold(oneshot::Sender<Option<Hold>>),
    /// What used the slots that it does not know.
    Unknown(oneshot::Sender<Vec<UnknownSlot>>),
}

/// At most this many questions wait; more are answered "not known".
const QUESTIONS: usize = 1_024;

/// At most this many transactions wait to be taken.
const ADMITTED: usize = 2_000;

#[derive(Default)]
struct Inbox {
    work: bool,
    /// Transactions that were just stored, by the only process that stores any.
    admitted: Vec<Transaction>,
    /// Transactions that this lane's are to follow, and that moved.
    moved: BTreeSet<TxId>,
    stop: bool,
    view: Option<Arc<ChainView>>,
    /// A newer view that is no reason for a turn.
    later: Option<Arc<ChainView>>,
    receipts: Vec<Receipt>,
    answers: Vec<LaneEvent>,
    questions: Vec<Question>,
}

impl Inbox {
    fn is_empty(&self) -> bool {
        !self.work
            && self.admitted.is_empty()
            && self.moved.is_empty()
            && !self.stop
            && self.view.is_none()
            && self.answers.is_empty()
            && self.questions.is_empty()
    }
}

/// What was in a mailbox.
pub(crate) struct Mail {
    pub(crate) events: Vec<LaneEvent>,
    pub(crate) questions: Vec<Question>,
    /// Finish this turn and give the lane back.
    pub(crate) stop: bool,
}

#[derive(Default)]
pub(crate) struct Mailbox {
    inbox: Mutex<Inbox>,
    arrived: Notify,
    /// The store was asked for commands, had none, and got none since.
    no_commands: AtomicBool,
}

impl Mailbox {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store may have something new: transactions or commands.
    pub(crate) fn wake(&self) {
        self.no_commands.store(false, Ordering::Release);
        self.wake_for_txs();
    }

    /// The store has new transactions.
    pub(crate) fn wake_for_txs(&self) {
        self.inbox().work = true;
        self.arrived.notify_one();
    }

    /// These were just stored. What is too much to be kept is read from the store instead.
    pub(crate) fn admitted(&self, txs: Vec<Transaction>) {
        let mut inbox = self.inbox();
        if inbox.work || inbox.admitted.len() + txs.len() > ADMITTED {
            inbox.work = true;
            inbox.admitted = Vec::new();
        } else {
            inbox.admitted.extend(txs);
        }
        drop(inbox);
        self.arrived.notify_one();
    }

    /// May the store have commands? What is stored from here on is told by a wake-up.
    pub(crate) fn may_have_commands(&self) -> bool {
        !self.no_commands.swap(true, Ordering::AcqRel)
    }

    /// There are some, or it could not be read: they are read again until there are none.
    pub(crate) fn has_commands(&self) {
        self.no_commands.store(false, Ordering::Release);
    }

    /// Something was committed about a transaction that this lane asked about.
    pub(crate) fn moved(&self, id: TxId) {
        self.inbox().moved.insert(id);
        self.arrived.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.inbox().stop = true;
        self.arrived.notify_one();
    }

    /// A new picture of the chain; receipts of pictures that were not read yet stay.
    pub(crate) fn view(&self, view: Arc<ChainView>, receipts: Vec<Receipt>) {
        let mut inbox = self.inbox();
        inbox.view = Some(view);
        inbox.later = None;
        inbox.receipts.extend(receipts);
        drop(inbox);
        self.arrived.notify_one();
    }

    /// A new picture for the next turn, whatever brings that about.
    pub(crate) fn view_for_later(&self, view: Arc<ChainView>) {
        self.inbox().later = Some(view);
    }

    pub(crate) fn answer(&self, event: LaneEvent) {
        self.inbox().answers.push(event);
        self.arrived.notify_one();
    }

    pub(crate) fn ask(&self, question: Question) {
        let mut inbox = self.inbox();
        if inbox.questions.len() < QUESTIONS {
            inbox.questions.push(question);
        }
        drop(inbox);
        self.arrived.notify_one();
    }

    /// Something was left unread.
    pub(crate) fn has_mail(&self) -> bool {
        !self.inbox().is_empty()
    }

    /// Waits until something is there or `limit` has passed.
    pub(crate) async fn take(&self, limit: Duration) -> Mail {
        let arrived = async {
            while self.inbox().is_empty() {
                self.arrived.notified().await;
            }
        };
        // Running into the limit is an ordinary turn: a timer of the lane is due.
        tokio::time::timeout(limit, arrived).await.ok();
        let inbox = std::mem::take(&mut *self.inbox());
        let mut events = Vec::new();
        if inbox.work {
            events.push(LaneEvent::Work);
        } else if !inbox.admitted.is_empty() {
            events.push(LaneEvent::Admitted(inbox.admitted));
        }
        if !inbox.moved.is_empty() {
            events.push(LaneEvent::Moved(inbox.moved.into_iter().collect()));
        }
        events.extend(inbox.answers);
        if let Some(view) = inbox.later.or(inbox.view) {
            events.push(LaneEvent::Chain { view, receipts: inbox.receipts });
        }
        Mail { events, questions: inbox.questions, stop: inbox.stop }
    }
}
