//! `eth_subscribe`: new heads, and logs of them, as the chain is shown here. After a reorganisation the new blocks come; logs
//! of those that were replaced are not taken back one by one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use landfall_core::view::ChainView;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::error::{LIMIT, RpcError, UNSUPPORTED};
use super::params::{Params, bad};
use super::socket::notification;
use super::{Asker, pass};

/// Subscriptions of one socket.
const MOST: usize = 16;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A subscriber that slept longer is told of the newest blocks only.
const MOST_BLOCKS: usize = 64;

#[derive(Clone)]
enum Kind {
    NewHeads,
    /// The filter: addresses and topics.
    Logs(Map<String, Value>),
}

pub(super) struct Subscriptions {
    asker: Asker,
    made: u64,
    kinds: BTreeMap<String, Kind>,
    view: Option<Arc<ChainView>>,
    /// Blocks that subscribers are to be told of.
    new: VecDeque<B256>,
    /// The first of them is being read. It is kept here, and so is the time of the next look: a socket with much to do asks
    /// for what is next again and again, and would begin anew each time.
    reading: Option<BoxFuture<'static, Option<Events>>>,
    look_at: Instant,
}

/// What is sent, by subscription.
type Events = Vec<(String, String)>;

impl Subscriptions {
    pub(super) fn new(asker: &Asker) -> Self {
        Self {
            asker: asker.clone(),
            made: 0,
            kinds: BTreeMap::new(),
            view: None,
            new: VecDeque::new(),
            reading: None,
            look_at: Instant::now(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    pub(super) fn answer(&mut self, method: &str, params: Value) -> Result<String, RpcError> {
        let mut params = Params::of(params)?;
        if method == "eth_unsubscribe" {
            let id = params.text("the id of a subscription")?;
            return Ok(self.kinds.remove(&id).is_some().to_string());
        }
        let kind = match params.text("newHeads or logs")?.as_str() {
            "newHeads" => Kind::NewHeads,
            "logs" => match params.next() {
                None => Kind::Logs(Map::new()),
                Some(Value::Object(mut filter)) => {
                    filter.retain(|name, _| name == "address" || name == "topics");
                    Kind::Logs(filter)
                }
                Some(_) => return Err(bad("params[1] is a filter: an object with address and topics")),
            },
            other => {
                let text = format!("{other} cannot be subscribed to here; there are newHeads and logs");
                return Err(RpcError::coded(UNSUPPORTED, text, "unsupported"));
            }
        };
        if self.kinds.len() >= MOST {
            let text = format!("a socket has at most {MOST} subscriptions");
            return Err(RpcError::coded(LIMIT, text, "rate_limited"));
        }
        if self.kinds.is_empty() {
            // Told is what comes from now on.
            self.view = self.asker.app.handle.shown(self.asker.chain);
            self.new.clear();
            self.reading = None;
        }
        self.made += 1;
        let id = format!("{:#x}", self.made);
        self.kinds.insert(id.clone(), kind);
        Ok(json!(id).to_string())
    }

    /// What is to be sent next. Nothing is lost when this is dropped while it waits.
    pub(super) async fn next(&mut self) -> Vec<String> {
        loop {
            if self.reading.is_none()
                && let Some(block) = self.new.front().copied()
            {
                self.reading = Some(events(self.asker.again(), self.kinds.clone(), block).boxed());
            }
            if let Some(reading) = &mut self.reading {
                let read = reading.await;
                self.reading = None;
                if let Some(events) = read {
                    self.new.pop_front();
                    let mut wanted = events;
                    // Somebody may have had enough meanwhile.
                    wanted.retain(|(id, _)| self.kinds.contains_key(id));
                    return wanted.into_iter().map(|(_, text)| text).collect();
                }
            }
            tokio::time::sleep_until(self.look_at).await;
            self.look_at = Instant::now() + LOOK_EVERY;
            self.look();
        }
    }

    /// Notes the blocks that are new in what is shown.
    fn look(&mut self) {
        let Some(view) = self.asker.app.handle.shown(self.asker.chain) else { return };
        let Some(before) = self.view.replace(view.clone()) else { return };
        if before.head.at == view.head.at {
            return;
        }
        let is_new = |number: &u64, hash: &B256| {
            before.recent.get(number).map_or(*number > before.head.at.number, |known| known != hash)
        };
        self.new
            .extend(view.recent.iter().filter(|(number, hash)| is_new(number, hash)).map(|(_, hash)| *hash));
        while self.new.len() > MOST_BLOCKS {
            self.new.pop_front();
        }
    }
}

/// What a block means to each subscriber; none if no endpoint has it now.
async fn events(asker: Asker, kinds: BTreeMap<String, Kind>, block: B256) -> Option<Events> {
    let mut events = Vec::new();
    for (id, kind) in kinds {
        match kind {
            Kind::NewHeads => {
                let mut header =
                    pass::read(&asker, "eth_getBlockByHash", &json!([block, false])).await.ok()?;
                if let Value::Object(fields) = &mut header {
                    for name in ["transactions", "uncles", "withdrawals", "size", "totalDifficulty"] {
                        fields.remove(name);
                    }
                    events.push((id.clone(), notification(&id, &header)));
                }
            }
            Kind::Logs(mut filter) => {
                filter.insert("blockHash".to_owned(), json!(block));
                let logs = pass::read(&asker, "eth_getLogs", &json!([filter])).await.ok()?;
                let logs = logs.as_array().into_iter().flatten();
                events.extend(logs.map(|log| (id.clone(), notification(&id, log))));
            }
        }
    }
    Some(events)
}
