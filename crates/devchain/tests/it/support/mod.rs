//! What the cases need: a client, signed transactions, a node of either kind, and waiting with a limit.

mod client;
mod contracts;
mod node;
mod sign;

use std::{future::Future, time::Duration};

pub(crate) use client::Rpc;
pub(crate) use contracts::{LOG_TOPIC, LOGGER, REVERT_DATA, REVERTER, creation};
pub(crate) use node::{Node, config, start_with};
pub(crate) use sign::{GWEI, Key, dynamic, key, raw, transfer};

/// Asks until the answer is there; a test that waits longer than the limit has failed.
pub(crate) async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let asking = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        loop {
            ticks.tick().await;
            if let Some(answer) = ask().await {
                return answer;
            }
        }
    };
    match tokio::time::timeout(Duration::from_secs(20), asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("waited in vain: {what}"),
    }
}
