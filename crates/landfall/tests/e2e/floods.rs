//! Floods of callers with a key: it opens the door to what its role may ask for, and to no more frames than others have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::doors::{ADMIN_KEY, address, attack_time, guarded, harmless};
use crate::support::frames::{self, Flood};
use crate::support::{Api, CHAIN_ID, Chain, Server, pass, text, until};

async fn viewer(server: &Server) -> String {
    let admin = server.api.with_key(ADMIN_KEY);
    text(
        &admin.post("/api/v1/api-keys", &json!({ "name": "flood", "role": "viewer" })).await.expect(201),
        "key",
    )
}

/// Pours what is made by number into a connection until it is ended.
async fn pour(stream: TcpStream, frames: impl Fn(u32) -> Vec<u8>) {
    let (mut reads, mut writes) = stream.into_split();
    let reading = tokio::spawn(async move {
        let mut answers = [0; 4_096];
        while reads.read(&mut answers).await.is_ok_and(|read| read > 0) {}
    });
    let mut numbers = 0..;
    loop {
        let some: Vec<u8> = numbers.by_ref().take(50).flat_map(&frames).collect();
        if writes.write_all(&some).await.is_err() {
            break;
        }
    }
    reading.abort();
}

/// Floods on two connections that are made anew whenever they are ended.
async fn flood(kind: Flood, address: String, key: String, ended: Arc<AtomicUsize>) {
    let lines = (0..2).map(|_| {
        let (address, key, ended) = (address.clone(), key.clone(), ended.clone());
        tokio::spawn(async move {
            loop {
                let Some(stream) = frames::greet_with(&address, &key).await else {
                    pass(Duration::from_millis(100)).await;
                    continue;
                };
                pour(stream, |number| kind.frames(number, 1, &address, Some(&key))).await;
                ended.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    futures::future::join_all(lines).await;
}

#[tokio::test]
async fn a_flood_of_frames_with_a_key_is_ended_and_changes_nothing_for_others() {
    let chain = Chain::without_mining().await;
    for kind in Flood::ALL {
        let server = Server::start(&chain.url(), guarded("")).await;
        let (at, key, ended) = (address(&server.api), viewer(&server).await, Arc::new(AtomicUsize::new(0)));
        harmless(&server, attack_time() / 3, flood(kind, at.clone(), key.clone(), ended.clone())).await;
        // However slow this machine is.
        let goes_on = tokio::spawn(flood(kind, at, key.clone(), ended.clone()));
        until("the flood is ended", async || (ended.load(Ordering::Relaxed) > 0).then_some(())).await;
        goes_on.abort();
        eprintln!("{kind:?} was ended {} times", ended.load(Ordering::Relaxed));
        // Nobody else is made to pay for it, and the key is good for what it may.
        server.api.with_key(ADMIN_KEY).get("/api/v1/lanes").await.expect(200);
        let again = Api::at(server.api.url()).with_key(&key);
        until("the key is let in again", async || {
            (again.get("/api/v1/lanes").await.status == 200).then_some(())
        })
        .await;
    }
}

/// A WebSocket that was opened by hand.
async fn socket(address: &str, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let ask = format!(
        "GET /rpc/{CHAIN_ID} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        said.push(stream.read_u8().await.unwrap());
    }
    assert!(said.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&said));
    stream
}

#[tokio::test]
async fn a_message_that_never_ends_and_never_grows_ends_its_socket() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let stream = socket(&address(&server.api), &viewer(&server).await).await;
    // A text that goes on, and empty parts of it that go on: each with its mask.
    let part = |number: u32| vec![u8::from(number == 0), 0x80, 1, 2, 3, 4];
    let flood = tokio::time::timeout(Duration::from_secs(60), pour(stream, part));
    flood.await.expect("the server has had enough of it");
}
