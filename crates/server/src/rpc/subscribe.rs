//! `eth_subscribe`: new heads, and logs of them, as the chain is shown here. After a reorganisation the new blocks come; logs
//! of those that were replaced are not taken back one by one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use landfall_core::view::ChainView;
use serde_json::{Map, Value, json};

use super::error::{LIMIT, RpcError, UNSUPPORTED};
use super::params::{Params, bad};
use super::socket::notification;
use super::{Asker, pass};

/// Subscriptions of one socket.
const MOST: usize = 16;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A subscriber that slept longer is told of the newest blocks only.
const MOST_BLOCKS: usize = 64;

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
}

impl Subscriptions {
    pub(super) fn new(asker: &Asker) -> Self {
        Self { asker: asker.clone(), made: 0, kinds: BTreeMap::new(), view: None, new: VecDeque::new() }
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
        }
        self.made += 1;
        let id = format!("{:#x}", self.made);
        self.kinds.insert(id.clone(), kind);
        Ok(json!(id).to_string())
    }

    /// What is to be sent next. Nothing is lost when this is dropped while it waits.
    pub(super) async fn next(&mut self) -> Vec<String> {
        loop {
            if let Some(block) = self.new.front().copied()
                && let Some(events) = self.events(block).await
            {
                self.new.pop_front();
                return events;
            }
            tokio::time::sleep(LOOK_EVERY).await;
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

    /// What a block means to each subscriber; none if no endpoint has it now.
    async fn events(&self, block: B256) -> Option<Vec<String>> {
        let mut events = Vec::new();
        for (id, kind) in &self.kinds {
            match kind {
                Kind::NewHeads => {
                    let mut header =
                        pass::read(&self.asker, "eth_getBlockByHash", &json!([block, false])).await.ok()?;
                    if let Value::Object(fields) = &mut header {
                        for name in ["transactions", "uncles", "withdrawals", "size", "totalDifficulty"] {
                            fields.remove(name);
                        }
                        events.push(notification(id, &header));
                    }
                }
                Kind::Logs(filter) => {
                    let mut filter = filter.clone();
                    filter.insert("blockHash".to_owned(), json!(block));
                    let logs = pass::read(&self.asker, "eth_getLogs", &json!([filter])).await.ok()?;
                    events.extend(logs.as_array().into_iter().flatten().map(|log| notification(id, log)));
                }
            }
        }
        Some(events)
    }
}
