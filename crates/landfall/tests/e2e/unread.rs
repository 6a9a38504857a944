//! Answers that a caller asks for and does not read: what they take is bounded for its key, and others go on meanwhile.

use std::time::Duration;

use axum::http::{Request, Response, Version};
use futures::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service as _};
use tonic::transport::Endpoint;

use crate::pass_through::{ADMIN_KEY, guarded, key_of};
use crate::support::{Api, CHAIN_ID, Chain, RECEIVER, Server, pass, signer, submission, text, until};

/// Requests at once on one connection: a few less than a server takes.
const STREAMS: usize = 95;

/// A transaction with so many bytes of data, which waits.
async fn waiting(server: &Server, bytes: usize) -> String {
    let admin = server.api.with_key(ADMIN_KEY);
    admin.command(&format!("/api/v1/lanes/{CHAIN_ID}/{}/pause", signer(0))).await.expect(202);
    let data = format!("0x{}", "44".repeat(bytes));
    admin.submit(&submission(json!({ "to": RECEIVER, "data": data, "gas": 12_000_000 }))).await
}

enum By<'a> {
    Rest(&'a str),
    Grpc(&'a str),
}

impl By<'_> {
    fn request(&self, api: &Api) -> Request<Body> {
        let request = Request::builder().version(Version::HTTP_2);
        let request = request.header("authorization", format!("Bearer {}", api.key()));
        match self {
            Self::Rest(path) => {
                request.method("GET").uri(format!("{}{path}", api.url())).body(Body::empty()).unwrap()
            }
            Self::Grpc(tx) => {
                // A `GetRequest` with its first field.
                let mut message = vec![0x0a, u8::try_from(tx.len()).unwrap()];
                message.extend(tx.as_bytes());
                let mut bytes = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
                bytes.extend(message);
                let request = request.method("POST").header("content-type", "application/grpc");
                let request = request.header("te", "trailers");
                let request = request.uri(format!("{}/landfall.v1.Transactions/Get", api.url()));
                request.body(Body::new(axum::body::Body::from(Bytes::from(bytes)))).unwrap()
            }
        }
    }
}

/// Asks this on one connection of its own, as often as it has streams, and takes no byte of the answers.
async fn ask(api: &Api, by: &By<'_>) -> Vec<Response<Body>> {
    let endpoint = Endpoint::from_shared(api.url().to_owned()).unwrap();
    let channel = endpoint.initial_stream_window_size(0_u32).connect().await.unwrap();
    let answers = (0..STREAMS).map(|_| {
        let (mut channel, request) = (channel.clone(), by.request(api));
        async move {
            std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
            channel.call(request).await.unwrap()
        }
    });
    join_all(answers).await
}

/// How many were answered with what was asked for; the others were refused.
fn given(answers: &[Response<Body>]) -> usize {
    let is_refused = |answer: &&Response<Body>| {
        let of_grpc = answer.headers().get("grpc-status").is_some_and(|status| status == "8");
        assert!(of_grpc || [200, 429].contains(&answer.status().as_u16()), "{answer:?}");
        of_grpc || answer.status() == 429
    };
    answers.len() - answers.iter().filter(is_refused).count()
}

#[tokio::test]
async fn answers_that_are_not_read_take_the_room_of_their_key_by_every_door_and_however_small_they_are() {
    let chain = Chain::without_mining().await;
    // Of which one key has a quarter: two megabytes.
    let room = "[rpc]\nmax_answer_bytes = 1000000\nmax_batch_answer_bytes = 2000000\nmax_answer_bytes_in_flight = 8000000\n";
    let server = Server::start(&chain.url(), guarded(room)).await;
    let (large, small) = (waiting(&server, 120_000).await, waiting(&server, 29_500).await);
    let (large_path, small_path) = (format!("/api/v1/tx/{large}"), format!("/api/v1/tx/{small}"));
    for (by, most) in [(By::Grpc(&large), 14), (By::Rest(&large_path), 14), (By::Rest(&small_path), 38)] {
        let greedy = key_of(&server, "viewer").await;
        let unread = ask(&greedy, &by).await;
        let given = given(&unread);
        assert!((4..=most).contains(&given), "{given} answers are held at once");
        // Others have their own share, and so has this one once they are gone.
        let other = key_of(&server, "viewer").await;
        other.get(&large_path).await.expect(200);
        drop(unread);
        until("there is room again", async || (greedy.get(&large_path).await.status == 200).then_some(()))
            .await;
    }
}

#[tokio::test]
async fn a_look_costs_of_the_rate_what_its_answer_is_long() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let (large, small) = (waiting(&server, 120_000).await, waiting(&server, 10).await);
    let admin = server.api.with_key(ADMIN_KEY);
    for (tx, least, most) in [(&large, 4, 7), (&small, 20, 40)] {
        let body = json!({ "name": "ten", "role": "viewer", "ratePerS": 10 });
        let ten = admin.with_key(&text(&admin.post("/api/v1/api-keys", &body).await.expect(201), "key"));
        let began = Instant::now();
        let mut given = 0;
        while ten.get(&format!("/api/v1/tx/{tx}")).await.status == 200 {
            given += 1;
        }
        let more = usize::try_from(began.elapsed().as_secs()).unwrap() * 10;
        assert!((least..=most + more).contains(&given), "{given} looks");
    }
}

#[tokio::test]
async fn one_key_that_looks_at_large_transactions_without_end_keeps_nobody_waiting_and_no_probe() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let path = format!("/api/v1/tx/{}", waiting(&server, 120_000).await);
    let (greedy, other) = (key_of(&server, "viewer").await, key_of(&server, "viewer").await);
    other.get(&path).await.expect(200);
    let by = By::Rest(&path);
    let asked = join_all((0..10).map(|_| ask(&greedy, &by)));
    let waited = async {
        let mut longest = Duration::ZERO;
        for _ in 0..20 {
            for path in ["/api/v1/lanes", "/health/ready"] {
                let asked = Instant::now();
                other.get(path).await.expect(200);
                longest = longest.max(asked.elapsed());
            }
            pass(Duration::from_millis(20)).await;
        }
        longest
    };
    let (_unread, longest) = tokio::join!(asked, waited);
    assert!(longest < Duration::from_secs(3), "another waited {longest:?}");
}
