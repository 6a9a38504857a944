//! Events: the journal as server-sent events, from where a listener left off.
//!
//! Each event carries its journal number as `id`, so a listener that reconnects with `Last-Event-ID` misses nothing and
//! is told nothing twice. Entries that are for the time line only have no event.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use landfall_core::{ChainId, JournalSeq};

use crate::access::Caller;
use crate::body::address;
use crate::event;
use crate::listen::{Heard, Listener, Wanted};
use crate::problem::{Code, Problem};
use crate::serve::App;

/// A listener hears from the server at least this often, so that both notice when the other is gone.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

pub(crate) async fn listen(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let listener = Listener::new(app, wanted(caller, &headers, query)?).await?;
    let events = futures::stream::unfold(listener, |mut listener| async move {
        let Heard { seq, name, data } = listener.next().await.ok()?;
        let event = Event::default().id(seq.0.to_string()).event(name).data(data.to_string());
        Some((Ok(event), listener))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)))
}

fn wanted(caller: Caller, headers: &HeaderMap, query: BTreeMap<String, String>) -> Result<Wanted, Problem> {
    let mut wanted = Wanted::everything(caller);
    let number = |field: &str, text: &str| {
        let parsed = text.parse::<i64>().ok().filter(|number| *number >= 0);
        parsed.ok_or_else(|| {
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
            "types" => {
                let names =
                    text.split(',').map(|word| event::known_name(word.trim(), Code::BadQuery, "types"));
                wanted.types = names.collect::<Result<_, _>>()?;
            }
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
