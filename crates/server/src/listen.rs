//! One who listens to what happens: the journal from a place on, as far as the listener wants and may hear it. Server-sent events
//! and gRPC's watch are two ways to write down what this gives.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use landfall_core::journal::JournalRow;
use landfall_core::ports::store::Error;
use landfall_core::{Account, ChainId, JournalSeq, TxId};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use crate::access::{Caller, Place, Quota};
use crate::problem::{Code, Problem};
use crate::serve::App;
use crate::{event, tail};

/// Rows that are read at once, and kept as they are told until the listener has taken them.
const PAGE: u32 = 100;
/// How long a store that does not answer is left alone.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How often it is looked whether the key of one to whom nothing happens is still good.
const JUDGE_EVERY: Duration = Duration::from_secs(15);

/// What a listener wants to hear of.
pub(crate) struct Wanted {
    /// Whoever asked is told of its own signers only.
    pub(crate) caller: Caller,
    /// None: from now on.
    pub(crate) after: Option<JournalSeq>,
    pub(crate) chain: Option<ChainId>,
    pub(crate) signer: Option<Account>,
    pub(crate) tx: Option<TxId>,
    /// Empty: all.
    pub(crate) types: BTreeSet<String>,
}

impl Wanted {
    pub(crate) fn everything(caller: Caller) -> Self {
        Self { caller, after: None, chain: None, signer: None, tx: None, types: BTreeSet::new() }
    }

    fn hears(&self, row: &JournalRow, name: &str) -> bool {
        self.caller.sees_lane(row.lane)
            && self.chain.is_none_or(|chain| row.lane.chain == chain)
            && self.signer.is_none_or(|signer| row.lane.signer == signer)
            && self.tx.is_none_or(|tx| row.tx == Some(tx))
            && (self.types.is_empty() || self.types.contains(name))
    }
}

/// Something that happened.
pub(crate) struct Heard {
    pub(crate) seq: JournalSeq,
    pub(crate) name: &'static str,
    pub(crate) data: Value,
}

/// Reason why nothing more is heard.
pub(crate) enum Ended {
    ServerStops,
    /// The listener's key is not known to be good any more.
    KeyIsOver,
}

pub(crate) struct Listener {
    app: App,
    wanted: Wanted,
    after: JournalSeq,
    ready: VecDeque<Heard>,
    reader: event::Reader,
    /// It has heard all that was there, and is told of what is new.
    caught_up: bool,
    _place: OwnedSemaphorePermit,
    _of_key: Place,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.app.metrics.listeners(-1);
    }
}

impl Listener {
    pub(crate) async fn new(app: App, wanted: Wanted) -> Result<Self, Problem> {
        let of_key = app.keyring.quotas().take(&wanted.caller, Quota::Listeners)?;
        // Listeners stay for long: they must not take the places of all other callers.
        let place = app.listeners.clone().try_acquire_owned().map_err(|_| {
            let most = app.limits.listeners;
            let detail = format!(
                "{most} callers listen already, as many as server.max_listeners allows; try again later"
            );
            Problem::new(Code::TooManyListeners, detail)
        })?;
        let after = match wanted.after {
            Some(after) => after,
            // It is found by many small reads.
            None => app.keyring.quotas().in_history(&wanted.caller, tail::last(app.handle.store())).await?,
        };
        app.metrics.listeners(1);
        let (ready, reader) = (VecDeque::new(), event::Reader::default());
        Ok(Self { app, wanted, after, ready, reader, caught_up: false, _place: place, _of_key: of_key })
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<Heard, Ended> {
        loop {
            if let Some(heard) = self.ready.pop_front() {
                // A key may have been taken back since.
                if !self.app.keyring.still(&self.wanted.caller).await {
                    return Err(Ended::KeyIsOver);
                }
                return Ok(heard);
            }
            match self.read().await {
                Ok(0) => {
                    self.caught_up = true;
                    let beyond = self.app.tail.beyond(self.after);
                    match tokio::time::timeout(JUDGE_EVERY, beyond).await {
                        Ok(true) => {}
                        Ok(false) => return Err(Ended::ServerStops),
                        Err(_) if self.app.keyring.still(&self.wanted.caller).await => {}
                        Err(_) => return Err(Ended::KeyIsOver),
                    }
                }
                // Nothing of it may be for this listener, however much there is: somebody has to see that its key is over.
                Ok(_) if self.ready.is_empty() && !self.app.keyring.still(&self.wanted.caller).await => {
                    return Err(Ended::KeyIsOver);
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(ASK_AGAIN).await,
            }
        }
    }

    /// Reads a page, and how many rows there were. What was there before somebody listened may be much, and everybody may ask for it
    /// again and again.
    async fn read(&mut self) -> Result<usize, Error> {
        if self.caught_up {
            return self.page().await;
        }
        let (quotas, caller) = (self.app.keyring.quotas().clone(), self.wanted.caller.clone());
        quotas.in_history(&caller, self.page()).await
    }

    async fn page(&mut self) -> Result<usize, Error> {
        let store = self.app.handle.store();
        let rows = store.journal_after(self.after, PAGE).await?;
        for row in &rows {
            let standing = self.reader.next(store, row).await?;
            if let Some(name) = row.entry.event().filter(|name| self.wanted.hears(row, name)) {
                let data = event::data(row, standing, self.wanted.caller.addresses());
                self.ready.push_back(Heard { seq: row.seq, name, data });
            }
            self.after = row.seq;
        }
        Ok(rows.len())
    }
}
