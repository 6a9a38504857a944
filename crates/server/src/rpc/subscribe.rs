//! `eth_subscribe`: new heads, and logs of them, as the chain is shown here. After a reorganisation the new blocks come; logs
//! of those that were replaced are not taken back one by one.
//!
//! Answers that are read for a subscriber take room as every answer does ([`super::room`]), until they are sent: one subscription of a
//! socket after the other, and one log after the other. A subscriber that would miss something is not left in the belief that
//! there was nothing: its socket is closed, with the reason.

mod telling;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use landfall_core::view::{BlockRef, ChainView};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Asker;
use super::error::{LIMIT, RpcError, UNSUPPORTED};
use super::look;
use super::params::{Params, bad};
use telling::{Telling, Told, Tries};

/// Subscriptions of one socket, and bytes of all their filters: about a thousand addresses.
const MOST: usize = 16;
const MOST_FILTERS: usize = 64 << 10;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// One answer of a node is sent within this time.
const SENT_WITHIN: Duration = Duration::from_secs(30);
/// As many blocks wait for a subscriber; after a jump of the chain it is told of the newest ones only.
const MOST_BLOCKS: usize = 64;

#[derive(Clone)]
enum Kind {
    NewHeads,
    /// The filter as it was given: addresses and topics.
    Logs(Arc<str>),
}

impl Kind {
    fn bytes(&self) -> usize {
        match self {
            Self::NewHeads => 0,
            Self::Logs(filter) => filter.len(),
        }
    }
}

pub(super) struct Subscriptions {
    asker: Asker,
    made: u64,
    kinds: BTreeMap<String, Kind>,
    view: Option<Arc<ChainView>>,
    /// Blocks that subscribers are to be told of.
    new: VecDeque<BlockRef>,
    /// Subscriptions that are still to be told of the first of them; none: it was not begun.
    left: Option<VecDeque<String>>,
    /// Something is being read for the first of these. It is kept here, and so is the time of the next look: a socket with much to
    /// do asks for what is next again and again, and would begin anew each time.
    reading: Option<BoxFuture<'static, Result<Told, RpcError>>>,
    telling: Option<Telling>,
    tries: Tries,
    look_at: Instant,
}

/// A message to a subscriber, or the end.
pub(super) enum Next {
    Say(String),
    /// Something would be missed: the socket is closed with this reason.
    Close(String),
}

impl Subscriptions {
    pub(super) fn new(asker: &Asker) -> Self {
        Self {
            asker: asker.clone(),
            made: 0,
            kinds: BTreeMap::new(),
            view: None,
            new: VecDeque::new(),
            left: None,
            reading: None,
            telling: None,
            tries: Tries::default(),
            look_at: Instant::now(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    pub(super) async fn answer(&mut self, method: &str, params: Value) -> Result<String, RpcError> {
        let mut params = Params::of(params)?;
        if method == "eth_unsubscribe" {
            let id = params.text("the id of a subscription")?;
            return Ok(self.remove(&id).to_string());
        }
        let kind = match params.text("newHeads or logs")?.as_str() {
            "newHeads" => Kind::NewHeads,
            "logs" => match params.next() {
                None => Kind::Logs("{}".into()),
                Some(Value::Object(mut filter)) => {
                    filter.retain(|name, _| name == "address" || name == "topics");
                    Kind::Logs(Value::Object(filter).to_string().into())
                }
                Some(_) => return Err(bad("params[1] is a filter: an object with address and topics")),
            },
            other => {
                let text = format!("{other} cannot be subscribed to here; there are newHeads and logs");
                return Err(RpcError::coded(UNSUPPORTED, text, "unsupported"));
            }
        };
        let most = |text: String| Err(RpcError::coded(LIMIT, text, "rate_limited"));
        if self.kinds.len() >= MOST {
            return most(format!("a socket has at most {MOST} subscriptions"));
        }
        if self.kinds.values().map(Kind::bytes).sum::<usize>() + kind.bytes() > MOST_FILTERS {
            return most(format!(
                "the filters of a socket's subscriptions have at most {MOST_FILTERS} bytes"
            ));
        }
        if self.kinds.is_empty() {
            // Told is what comes from now on: after the head that is shown, so there must be one.
            self.view = Some(look::head(&self.asker).await?);
        }
        self.made += 1;
        let id = format!("{:#x}", self.made);
        self.kinds.insert(id.clone(), kind);
        Ok(json!(id).to_string())
    }

    fn remove(&mut self, id: &str) -> bool {
        let was_there = self.kinds.remove(id).is_some();
        if self.telling.as_ref().is_some_and(|telling| telling.id == id) {
            self.telling = None;
        }
        if self.kinds.is_empty() {
            (self.left, self.reading, self.telling, self.tries) = (None, None, None, Tries::default());
            self.new.clear();
        }
        was_there
    }

    /// What is to be sent next. Nothing is lost when this is dropped while it waits.
    pub(super) async fn next(&mut self) -> Next {
        loop {
            if let Some(telling) = &mut self.telling {
                match telling.next() {
                    None => self.telling = None,
                    Some(_) if telling.is_late() => {
                        let text = "what a subscription is told was not read within";
                        return Next::Close(format!("{text} {} s", SENT_WITHIN.as_secs()));
                    }
                    Some(text) => return Next::Say(text),
                }
            }
            if self.reading.is_none() && self.tries.may_try() {
                self.reading = self.begin();
            }
            if let Some(reading) = &mut self.reading {
                let read = reading.await;
                self.reading = None;
                match read {
                    Ok(told) => self.tell(told),
                    Err(error) => {
                        if let Some(reason) = self.failed(&error) {
                            return Next::Close(reason);
                        }
                    }
                }
                continue;
            }
            tokio::time::sleep_until(self.look_at).await;
            self.look_at = Instant::now() + LOOK_EVERY;
            if !self.look() {
                let most = "blocks are new, and that is the most that may wait for a socket's subscriptions";
                return Next::Close(format!("more than {MOST_BLOCKS} {most}"));
            }
        }
    }

    /// Begins to read for the next subscription that is to be told of a block.
    fn begin(&mut self) -> Option<BoxFuture<'static, Result<Told, RpcError>>> {
        loop {
            let block = *self.new.front()?;
            let left = self.left.get_or_insert_with(|| self.kinds.keys().cloned().collect());
            let Some(id) = left.front() else {
                self.left = None;
                self.new.pop_front();
                continue;
            };
            // Somebody may have had enough meanwhile.
            let Some(kind) = self.kinds.get(id).cloned() else {
                left.pop_front();
                continue;
            };
            return Some(telling::read(self.asker.again(), kind, block.hash).boxed());
        }
    }

    fn tell(&mut self, told: Told) {
        self.tries = Tries::default();
        let id = self.left.as_mut().and_then(VecDeque::pop_front);
        if let Some(id) = id.filter(|id| self.kinds.contains_key(id)) {
            self.telling = Some(Telling::new(id, told, Instant::now() + SENT_WITHIN));
        }
    }

    /// Notes that something could not be read; the reason to close, if that is the end of it.
    fn failed(&mut self, error: &RpcError) -> Option<String> {
        let block = *self.new.front()?;
        let shown = self.asker.app.handle.shown(self.asker.chain);
        if shown.is_some_and(|view| view.recent.get(&block.number).is_some_and(|hash| *hash != block.hash)) {
            // It was replaced, and no node has to know it any more.
            self.new.pop_front();
            (self.left, self.tries) = (None, Tries::default());
            return None;
        }
        let is_over = self.tries.another() || telling::is_too_long(error);
        is_over.then(|| format!("block {} could not be told: {}", block.number, error.message))
    }

    /// Notes the blocks that are new in what is shown; false if there are more than may wait, or some are not shown any more.
    fn look(&mut self) -> bool {
        let Some(view) = self.asker.app.handle.shown(self.asker.chain) else { return true };
        let Some(before) = self.view.replace(view.clone()) else { return true };
        if before.head.at == view.head.at {
            return true;
        }
        let is_new = |number: &u64, hash: &B256| {
            before.recent.get(number).map_or(*number > before.head.at.number, |known| known != hash)
        };
        let new = view.recent.iter().filter(|(number, hash)| is_new(number, hash));
        let new: Vec<_> = new.map(|(number, hash)| BlockRef { number: *number, hash: *hash }).collect();
        // What is shown reaches back a while only: below it nobody can tell what was missed.
        let reaches_back =
            new.iter().map(|block| block.number).min().is_none_or(|first| first <= before.head.at.number + 1);
        let fits = reaches_back && self.new.len() + new.len() <= MOST_BLOCKS;
        self.new.extend(new);
        fits
    }
}
