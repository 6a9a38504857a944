//! Bodies that nobody asked for, and those of gRPC.

use std::time::Duration;

use futures::StreamExt as _;
use reqwest::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service as _, http};
use tonic::transport::{Channel, Endpoint};

use crate::support::{Api, Chain, Server, Settings, until};

const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";
/// Far less than the time that a body may take.
const SOON: Duration = Duration::from_secs(5);

fn guarded(server: &'static str) -> Settings {
    let mut settings = Settings { server, ..Settings::default() };
    settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
    settings
}

fn address(api: &Api) -> &str {
    api.url().trim_start_matches("http://")
}

/// Whoever shows no key may ask for these, and has nothing to tell: a body that is announced there is not waited for.
#[tokio::test]
async fn a_body_on_a_path_that_is_open_is_not_read() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("max_bytes_in_flight = 2000000")).await;
    let open = landfall_server::paths().filter(|(_, path, least)| least.is_none() && !path.contains("grpc"));
    for (method, path, _) in open {
        for length in ["content-length: 1000000", "transfer-encoding: chunked"] {
            let mut stream = TcpStream::connect(address(&server.api)).await.unwrap();
            let head =
                format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n{length}\r\n\r\n", address(&server.api));
            stream.write_all(head.as_bytes()).await.unwrap();
            // Not one byte of the body is sent.
            let mut said = [0; 12];
            let answer = tokio::time::timeout(SOON, stream.read_exact(&mut said)).await;
            answer.unwrap_or_else(|_| panic!("{path} waits for a body ({length})")).unwrap();
            assert_eq!(&said, b"HTTP/1.1 200", "{path}");
        }
    }
}

/// Sends the beginning of a message and no more, on a connection of its own.
async fn begin(url: &str, bytes: usize) -> (Channel, tokio::task::JoinHandle<()>) {
    let mut channel = Endpoint::from_shared(url.to_owned()).unwrap().connect().await.unwrap();
    let mut start = vec![0];
    start.extend(u32::try_from(bytes + 50_000).unwrap().to_be_bytes());
    start.resize(bytes, 0);
    let pieces: Vec<_> = start.chunks(16 << 10).map(Bytes::copy_from_slice).collect();
    let begun = futures::stream::iter(pieces).chain(futures::stream::pending());
    let body = axum::body::Body::from_stream(begun.map(Ok::<_, std::convert::Infallible>));
    let request = http::Request::post(format!("{url}/landfall.v1.Transactions/Submit"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {ADMIN_KEY}"))
        .body(Body::new(body))
        .unwrap();
    std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
    let answer = channel.call(request);
    let sending = tokio::spawn(async move {
        answer.await.ok();
    });
    (channel, sending)
}

#[tokio::test]
async fn messages_of_grpc_are_bytes_in_flight_as_all_others() {
    let chain = Chain::without_mining().await;
    let settings = guarded("max_body_bytes = 1000000\nmax_bytes_in_flight_per_address = 1000000");
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let large = || {
        let post = admin.request(Method::POST, "/api/v1/tx/batch").header("content-type", "application/json");
        post.body(" ".repeat(500_000))
    };
    assert_eq!(large().send().await.unwrap().status(), 400, "it finds room");
    // The second may be read before the first, which then gives up at its pace, and comes again.
    let held = until("a message is held", async || {
        let (channel, sending) = begin(server.api.url(), 900_000).await;
        let mut refused = false;
        for _ in 0..100 {
            refused |= large().send().await.unwrap().status() == 429;
            if refused {
                break;
            }
        }
        if !refused {
            sending.abort();
        }
        refused.then_some((channel, sending))
    })
    .await;
    held.1.abort();
    drop(held);
    until("there is room again", async || (large().send().await.unwrap().status() == 400).then_some(()))
        .await;
}
