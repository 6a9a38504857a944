//! Events as they happen, over lost connections.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use crate::client::Client;
use crate::error::Error;

/// How long to wait before a lost connection is made again; twice as long each time, up to the second.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// One event is never so long; a stream that sends more without an end is no stream of events.
const LONGEST: usize = 16 * 1024 * 1024;

/// What to hear of. Nothing set: everything from now on.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Go on after the event of this number. A listener that must miss nothing sets it: 0 for all there are.
    pub after: Option<i64>,
    pub chain_id: Option<u64>,
    pub signer: Option<String>,
    pub tx_id: Option<String>,
    /// Names such as `tx.mined`.
    pub types: Vec<String>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number; what to go on after.
    pub id: i64,
    /// Its name, such as `tx.mined`.
    pub name: String,
    pub data: Value,
}

/// A listener. A connection that is lost is made again, from where it was.
pub struct Events {
    client: Client,
    filter: EventFilter,
    open: Option<reqwest::Response>,
    parser: Parser,
    ready: VecDeque<Event>,
    wait: Duration,
}

impl Events {
    pub(crate) fn new(client: Client, filter: EventFilter) -> Self {
        Self { client, filter, open: None, parser: Parser::default(), ready: VecDeque::new(), wait: AGAIN.0 }
    }

    /// Opens the connection, so that what happens from here on is heard.
    pub async fn listen(&mut self) -> Result<(), Error> {
        if self.open.is_none() {
            let EventFilter { after, chain_id, signer, tx_id, types } = self.filter.clone();
            let all = [
                ("after", after.map(|id| id.to_string())),
                ("chainId", chain_id.map(|id| id.to_string())),
                ("signer", signer),
                ("txId", tx_id),
                ("types", (!types.is_empty()).then(|| types.join(","))),
            ];
            let query: Vec<_> = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            let request = self.client.stream(self.client.address(&["events"], &query)?);
            self.open = Some(self.client.opened(request).await?);
            self.parser = Parser::default();
        }
        Ok(())
    }

    /// The next event. It waits, over lost connections, for as long as it takes; an error is one that waiting does not cure.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.filter.after = Some(event.id);
                return Ok(event);
            }
            match self.listen().await {
                Ok(()) => {}
                Err(error) if error.is_transient() => {
                    self.pause().await;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let Some(response) = &mut self.open else { continue };
            match response.chunk().await {
                Ok(Some(bytes)) => {
                    self.wait = AGAIN.0;
                    match self.parser.take(&bytes) {
                        Ok(events) => self.ready.extend(events),
                        Err(TooLong) => {
                            return Err(Error::Foreign { url: self.client.url().to_owned(), status: 200 });
                        }
                    }
                }
                Ok(None) | Err(_) => {
                    self.open = None;
                    self.pause().await;
                }
            }
        }
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(AGAIN.1);
    }
}

struct TooLong;

/// The event stream format of HTML, as much of it as Landfall writes.
#[derive(Default)]
struct Parser {
    buffer: Vec<u8>,
    id: Option<i64>,
    name: String,
    data: String,
}

impl Parser {
    fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            events.extend(self.line(line.trim_end_matches(['\r', '\n'])));
        }
        if self.buffer.len() + self.data.len() > LONGEST { Err(TooLong) } else { Ok(events) }
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            let data = serde_json::from_str(&data).ok()?;
            return Some(Event { id: self.id?, name, data });
        }
        // A line that begins with a colon is there to keep the connection alive.
        let (field, value) = line.split_once(':')?;
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = value.parse().ok(),
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = ": hello\n\nid: 7\nevent: tx.mined\ndata: {\"a\":\ndata: \"ä\"}\n\nid:8\r\nevent:tx.confirmed\r\ndata:{}\r\n\r\n";
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let pieces = text.as_bytes().chunks(size).flat_map(|piece| parser.take(piece).ok().unwrap());
            let events: Vec<Event> = pieces.collect();
            let mined = Event { id: 7, name: "tx.mined".into(), data: serde_json::json!({ "a": "ä" }) };
            let confirmed = Event { id: 8, name: "tx.confirmed".into(), data: serde_json::json!({}) };
            assert_eq!(events, [mined, confirmed], "in pieces of {size}");
        }
    }
}
