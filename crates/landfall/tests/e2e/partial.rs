//! Messages of WebSockets that never become whole: what they hold, and what their frames cost.

use std::time::Duration;

use reqwest::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::pass_through::{guarded, key_of};
use crate::rpc::path;
use crate::support::{Api, Chain, Server, until};

/// A WebSocket that is written by hand.
async fn opened(api: &Api) -> TcpStream {
    let address = api.url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET {} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        path(),
        api.key()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        said.push(stream.read_u8().await.unwrap());
    }
    assert!(said.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&said));
    stream
}

/// A frame that is not the last of its message: the first, or one that goes on.
fn piece(first: bool, bytes: usize) -> Vec<u8> {
    let kind = u8::from(first);
    let mut frame = match u16::try_from(bytes).unwrap() {
        few @ 0..126 => vec![kind, 0x80 | few.to_be_bytes()[1]],
        many => [vec![kind, 0x80 | 126], many.to_be_bytes().to_vec()].concat(),
    };
    // With a mask of zeros.
    frame.extend([0; 4]);
    frame.resize(frame.len() + bytes, b' ');
    frame
}

#[tokio::test]
async fn frames_that_carry_nothing_end_their_socket_soon() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let viewer = key_of(&server, "viewer").await;
    for bytes in [0, 1] {
        let mut socket = opened(&viewer).await;
        let many = piece(false, bytes).repeat(1_000);
        socket.write_all(&piece(true, 1)).await.unwrap();
        let mut sent = 0;
        let pouring = async {
            while sent < 64 << 20 && socket.write_all(&many).await.is_ok() {
                sent += many.len();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), pouring).await.ok();
        // What the system keeps on both sides comes to a few megabytes.
        assert!(sent < 32 << 20, "{sent} bytes in frames of {bytes} were taken");
    }
}

#[tokio::test]
async fn a_message_that_is_not_whole_is_bytes_in_flight_of_its_key() {
    let chain = Chain::without_mining().await;
    // A key may always hold one whole body.
    let mut few = guarded("[access]\nmax_bytes_in_flight_per_key = 1000000\n");
    few.env.push(("LANDFALL_SERVER__MAX_BODY_BYTES", "1000000".to_owned()));
    let server = Server::start(&chain.url(), few).await;
    let (greedy, other) = (key_of(&server, "submitter").await, key_of(&server, "submitter").await);
    let status = async |api: &Api| {
        let post = api.request(Method::POST, "/api/v1/tx/batch").header("content-type", "application/json");
        post.body(" ".repeat(500_000)).send().await.unwrap().status().as_u16()
    };
    assert_eq!(status(&greedy).await, 400, "it finds room");
    let mut socket = opened(&greedy).await;
    socket.write_all(&piece(true, 1)).await.unwrap();
    for _ in 0..16 {
        socket.write_all(&piece(false, 60_000)).await.unwrap();
    }
    until("the message is held", async || (status(&greedy).await == 429).then_some(())).await;
    assert_eq!(status(&other).await, 400);
    drop(socket);
    until("there is room again", async || (status(&greedy).await == 400).then_some(())).await;
}
