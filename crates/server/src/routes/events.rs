//! Events: the journal as server-sent events, from where a listener left off.
//!
//! Each event carries its journal number as `id`, so a listener that reconnects with `Last-Event-ID` misses nothing and
//! is told nothing twice. Entries that are for the time line only have no event.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use landfall_core::journal::JournalRow;
use landfall_core::{Account, ChainId, JournalSeq, TxId};
use tokio::sync::OwnedSemaphorePermit;

use crate::access::Caller;
use crate::body::address;
use crate::event;
use crate::problem::{Code, Problem};
use crate::serve::App;
use crate::tail;

/// A listener hears from the server at least this often, so that both notice when the other is gone.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
const PAGE: u32 = 500;
/// How long a store that does not answer is left alone.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What a listener wants to hear of.
struct Wanted {
    /// Whoever asked is told of its own signers only.
    caller: Caller,
    after: Option<JournalSeq>,
    chain: Option<ChainId>,
    signer: Option<Account>,
    tx: Option<TxId>,
    /// Empty: all.
    types: BTreeSet<String>,
}

pub(crate) async fn listen(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let wanted = wanted(caller, &headers, query)?;
    // Listeners stay for long: they must not take the places of all other callers.
    let place = app.listeners.clone().try_acquire_owned().map_err(|_| {
        let most = app.limits.listeners;
        let detail =
            format!("{most} callers listen already, as many as server.max_listeners allows; try again later");
        Problem::new(Code::TooManyListeners, detail)
    })?;
    let after = match wanted.after {
        Some(after) => after,
        None => tail::last(app.handle.store()).await?,
    };
    app.metrics.listeners(1);
    let (ready, reader) = (VecDeque::new(), event::Reader::default());
    let listener = Listener { app, wanted, after, ready, reader, _place: place };
    let events = futures::stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)))
}

struct Listener {
    app: App,
    wanted: Wanted,
    after: JournalSeq,
    ready: VecDeque<JournalRow>,
    reader: event::Reader,
    _place: OwnedSemaphorePermit,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.app.metrics.listeners(-1);
    }
}

impl Listener {
    /// The next event; none when the server stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(row) = self.ready.front() {
                let Ok(standing) = self.reader.next(self.app.handle.store(), row).await else {
                    tokio::time::sleep(ASK_AGAIN).await;
                    continue;
                };
                // A key may have been taken back since.
                if !self.app.keyring.still(&self.wanted.caller).await {
                    return None;
                }
                let event = self.wanted.event(row, standing);
                self.after = row.seq;
                self.ready.pop_front();
                if event.is_some() {
                    return event;
                }
            }
            match self.app.handle.store().journal_after(self.after, PAGE).await {
                Ok(rows) if rows.is_empty() => {
                    if !self.app.tail.beyond(self.after).await {
                        return None;
                    }
                }
                Ok(rows) => self.ready.extend(rows),
                Err(_) => tokio::time::sleep(ASK_AGAIN).await,
            }
        }
    }
}

impl Wanted {
    fn event(&self, row: &JournalRow, standing: Option<event::Standing>) -> Option<Event> {
        let name = row.entry.event()?;
        let heard = self.caller.sees(row.lane.signer)
            && self.chain.is_none_or(|chain| row.lane.chain == chain)
            && self.signer.is_none_or(|signer| row.lane.signer == signer)
            && self.tx.is_none_or(|tx| row.tx == Some(tx))
            && (self.types.is_empty() || self.types.contains(name));
        let data = heard.then(|| event::data(row, standing).to_string())?;
        Some(Event::default().id(row.seq.0.to_string()).event(name).data(data))
    }
}

fn wanted(caller: Caller, headers: &HeaderMap, query: BTreeMap<String, String>) -> Result<Wanted, Problem> {
    let (after, chain, signer, tx, types) = (None, None, None, None, BTreeSet::new());
    let mut wanted = Wanted { caller, after, chain, signer, tx, types };
    let number = |field: &str, text: &str| {
        let parsed = text.parse::<i64>();
        parsed.map_err(|_| {
            Problem::at(Code::BadQuery, field, format!("{text:?} is not the number of an event"))
        })
    };
    for (name, text) in query {
        let bad = |what: &str| Problem::at(Code::BadQuery, name.as_str(), format!("{text:?} is {what}"));
        match name.as_str() {
            "after" => wanted.after = Some(JournalSeq(number("after", &text)?)),
            "chainId" => {
                wanted.chain = Some(ChainId(text.parse().map_err(|_| bad("not the number of a chain"))?));
            }
            "signer" => wanted.signer = Some(address("signer", &text)?),
            "txId" => wanted.tx = Some(text.parse().map_err(|_| bad("not the id of a transaction"))?),
            "types" => wanted.types = text.split(',').map(|word| word.trim().to_owned()).collect(),
            _ => {
                let detail = "there are after, chainId, signer, txId and types";
                return Err(Problem::at(Code::BadQuery, name.as_str(), detail));
            }
        }
    }
    // What a browser or a library sends by itself when it reconnects is newer than the address it was given first.
    if let Some(last) = headers.get("last-event-id") {
        let text = last.to_str().unwrap_or("?");
        wanted.after = Some(JournalSeq(number("Last-Event-ID", text)?));
    }
    Ok(wanted)
}
