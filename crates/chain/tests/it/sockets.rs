//! A node at the other end of a WebSocket that does what no node should.

use std::time::Duration;

use landfall_core::ports::chain::{BlockAt, Chain};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::harness::chain;

/// Pings of the largest size that are sent before anything is read.
const FLOOD: usize = 48 << 20;
/// What may wait to be sent (8 MB), and what the system keeps of a connection on both sides.
const MOST: usize = 24 << 20;
/// A writer that gets nothing out, or a reader that gets nothing in, has waited long enough.
const STILL: Duration = Duration::from_secs(3);

/// As many bytes of pings as go out, and how many those were.
async fn flood(node: &mut TcpStream) -> usize {
    let ping: Vec<u8> = [0x89, 125].into_iter().chain([0; 125]).collect();
    let pings = ping.repeat(512);
    let mut out = 0;
    while out < FLOOD && timeout(STILL, node.write_all(&pings)).await.is_ok_and(|written| written.is_ok()) {
        out += pings.len();
    }
    out
}

/// How many bytes come until none do.
async fn heard(node: &mut TcpStream) -> usize {
    let (mut bytes, mut buffer) = (0, vec![0; 1 << 20]);
    while let Ok(Ok(read @ 1..)) = timeout(STILL, node.read(&mut buffer)).await {
        bytes += read;
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_sends_pings_and_reads_nothing_has_no_more_kept_for_it_than_there_is_room_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let chain = chain(&[url]);
    let asking = tokio::spawn(async move { chain.block(BlockAt::Latest).await.is_ok() });
    let (stream, _) = listener.accept().await.unwrap();
    let mut node = tokio_tungstenite::accept_async(stream).await.unwrap().into_inner();
    let out = flood(&mut node).await;
    assert!(out >= 2 * MOST, "only {out} bytes of pings were read: this shows nothing");
    let heard = heard(&mut node).await;
    assert!(heard > 100_000, "what there was room for is answered: {heard}");
    assert!(heard < MOST, "{heard} bytes were kept for {out} bytes of pings");
    asking.abort();
}
