//! One answer of a node on its way to one subscriber: read with its room, and told piece by piece.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::super::error::{RpcError, UNAVAILABLE};
use super::super::{Asker, MessageRoom, pass};
use super::Kind;

/// Parts of a block that headers do not have.
const NO_HEADER: [&str; 5] = ["transactions", "uncles", "withdrawals", "size", "totalDifficulty"];
/// Fields of a header; chains have about thirty.
const MOST_FIELDS: usize = 128;
/// A read that failed is tried again, ever more seldom, for so long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const TRIED_FOR: Duration = Duration::from_secs(30);

/// An answer that a subscriber is told of.
pub(super) struct Told {
    /// A list in JSON, each item of which is told.
    items: String,
    /// It takes this room until all are.
    _room: Arc<MessageRoom>,
}

/// Reads what a block means to one subscription.
pub(super) async fn read(asker: Asker, kind: Kind, block: B256) -> Result<Told, RpcError> {
    let items = match kind {
        Kind::NewHeads => {
            let block = pass::on(&asker, "eth_getBlockByHash", &json!([block, false])).await?;
            format!("[{}]", header(&block)?)
        }
        Kind::Logs(filter) => {
            let mut filter: serde_json::Map<_, _> = pass::parsed("eth_subscribe", &filter)?;
            filter.insert("blockHash".to_owned(), json!(block));
            let logs = pass::on(&asker, "eth_getLogs", &json!([filter])).await?;
            // A node that does not have the block yet may say so by `null`.
            if !logs.trim_start().starts_with('[') {
                return Err(RpcError::coded(
                    UNAVAILABLE,
                    "no endpoint has its logs now",
                    "chain_unavailable",
                ));
            }
            logs
        }
    };
    Ok(Told { items, _room: asker.room })
}

/// The header of a block. Its values stay as the node wrote them: read, they could take many times the room of the text.
fn header(block: &str) -> Result<String, RpcError> {
    let Some(Header(fields)) = pass::parsed("eth_getBlockByHash", block)? else {
        return Err(RpcError::coded(UNAVAILABLE, "no endpoint has it now", "chain_unavailable"));
    };
    serde_json::to_string(&fields).map_err(|error| pass::unreadable("eth_getBlockByHash", &error))
}

/// Fields of a header, of which no chain has many.
struct Header<'a>(BTreeMap<String, &'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Header<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderReader)
    }
}

struct HeaderReader;

impl<'de> Visitor<'de> for HeaderReader {
    type Value = Header<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a block")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut read: A) -> Result<Header<'de>, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(name) = read.next_key::<String>()? {
            if NO_HEADER.contains(&name.as_str()) {
                read.next_value::<IgnoredAny>()?;
                continue;
            }
            fields.insert(name, read.next_value()?);
            if fields.len() > MOST_FIELDS {
                return Err(A::Error::custom(format_args!("it has more than {MOST_FIELDS} fields")));
            }
        }
        Ok(Header(fields))
    }
}

/// An answer on its way to one subscriber.
pub(super) struct Telling {
    pub(super) id: String,
    told: Told,
    /// As much of it was told already.
    at: usize,
    until: Instant,
}

impl Telling {
    pub(super) fn new(id: String, told: Told, until: Instant) -> Self {
        Self { id, told, at: 0, until }
    }

    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    /// The next message.
    pub(super) fn next(&mut self) -> Option<String> {
        let (item, end) = item(&self.told.items, self.at)?;
        self.at = end;
        let id = &self.id;
        Some(format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"eth_subscription\",\"params\":{{\"subscription\":\"{id}\",\"result\":{item}}}}}"
        ))
    }
}

/// The item of a list that begins after so many of its bytes, and where it ends. Nothing is set aside for those after it.
fn item(list: &str, at: usize) -> Option<(&RawValue, usize)> {
    let before = if at == 0 { '[' } else { ',' };
    let rest = list.get(at..)?.trim_start().strip_prefix(before)?;
    let mut items = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
    let item = items.next()?.ok()?;
    Some((item, list.len() - rest.len() + items.byte_offset()))
}

/// However often it is read, the answer does not fit.
pub(super) fn is_too_long(error: &RpcError) -> bool {
    let setting = error.data.as_ref().and_then(|data| data["setting"].as_str());
    matches!(setting, Some("rpc.max_answer_bytes" | "rpc.max_batch_answer_bytes"))
}

/// Vain tries to read one thing.
#[derive(Default)]
pub(super) struct Tries {
    /// When the first was in vain, the pause after the last, and when that ends.
    failed: Option<(Instant, Duration, Instant)>,
}

impl Tries {
    pub(super) fn may_try(&self) -> bool {
        self.failed.is_none_or(|(_, _, again)| Instant::now() >= again)
    }

    /// One more was in vain; true if there were enough.
    pub(super) fn another(&mut self) -> bool {
        let now = Instant::now();
        let (first, pause) = match self.failed {
            None => (now, FIRST_PAUSE),
            Some((first, pause, _)) => (first, (pause * 2).min(LONGEST_PAUSE)),
        };
        self.failed = Some((first, pause, now + pause));
        now.saturating_duration_since(first) >= TRIED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(list: &str) -> Vec<&str> {
        let mut at = 0;
        std::iter::from_fn(|| {
            let (item, end) = item(list, at)?;
            at = end;
            Some(item.get())
        })
        .collect()
    }

    #[test]
    fn a_list_is_told_item_by_item_as_the_node_wrote_it() {
        assert_eq!(
            items(r#"[{"a":[1, 2]},{"b":"],["} , [[]],7,"x"]"#),
            [r#"{"a":[1, 2]}"#, r#"{"b":"],["}"#, "[[]]", "7", "\"x\"",]
        );
        for empty in ["[]", " [ ] ", "null", "{}", "7", "\"[1]\""] {
            assert_eq!(items(empty), [""; 0], "{empty}");
        }
    }

    #[test]
    fn a_header_is_a_block_without_what_is_in_it() {
        let block = r#"{"number":"0x1","transactions":["0x2"],"hash":"0x3","withdrawals":[]}"#;
        assert_eq!(header(block).unwrap(), r#"{"hash":"0x3","number":"0x1"}"#);
        assert!(header("null").is_err());
    }

    #[test]
    fn a_header_is_padded_by_no_node_with_more_fields_than_chains_have() {
        let padded: Vec<String> = (0..100_000).map(|number| format!("\"{number}\":0")).collect();
        let error = header(&format!("{{{}}}", padded.join(","))).unwrap_err();
        assert!(error.message.contains("more than 128 fields"), "{}", error.message);
        let body = padded.join(",");
        let of_body = format!(r#"{{"number":"0x1","transactions":[{{{body}}}]}}"#);
        assert_eq!(header(&of_body).unwrap(), r#"{"number":"0x1"}"#, "what is no header is not kept");
    }

    #[test]
    fn the_values_of_a_header_stay_as_the_node_wrote_them() {
        let odd = r#"{"extra":[0, {"a":1.00}],"number":"0x1"}"#;
        assert_eq!(header(odd).unwrap(), odd);
    }

    #[tokio::test(start_paused = true)]
    async fn tries_come_ever_more_seldom_and_end() {
        let (mut tries, mut made, began) = (Tries::default(), 0, Instant::now());
        while !tries.another() {
            made += 1;
            assert!(!tries.may_try());
            tokio::time::advance(LONGEST_PAUSE).await;
            assert!(tries.may_try());
        }
        assert!(made >= 10 && began.elapsed() >= TRIED_FOR && began.elapsed() < TRIED_FOR * 2);
    }
}
