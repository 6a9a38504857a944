//! Doors: what those who show no key can take from a server, and what they cannot take from others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::frames::{self, Flood};
use crate::support::{
    Api, CHAIN_ID, Chain, Server, Settings, free_port, http_client, pass, text, transfer, until,
};

pub(crate) const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";
/// The most that attacks of strangers may cost, in memory and in other callers' time.
const MEMORY: u64 = 64 << 20;
const DELAY: Duration = Duration::from_millis(50);
const BODY: usize = 8 << 20;

pub(crate) fn guarded(server: &'static str) -> Settings {
    let mut settings = Settings { server, ..Settings::default() };
    settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
    settings
}

fn attack_time() -> Duration {
    let thorough = std::env::var_os("LANDFALL_THOROUGH").is_some();
    Duration::from_secs(if thorough { 60 } else { 5 })
}

pub(crate) fn address(api: &Api) -> String {
    api.url().trim_start_matches("http://").to_owned()
}

/// The memory of a process.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// How long a caller with a key takes at nineteen of twenty requests, and the most memory that the server had meanwhile.
async fn cost(server: &Server, for_so_long: Duration) -> (Duration, u64) {
    let admin = server.api.with_key(ADMIN_KEY);
    let (began, mut took, mut memory) = (Instant::now(), Vec::new(), 0);
    while began.elapsed() < for_so_long {
        let asked = Instant::now();
        admin.get("/api/v1/lanes").await.expect(200);
        took.push(asked.elapsed());
        memory = memory.max(resident(server.id()));
        pass(Duration::from_millis(10)).await;
    }
    took.sort();
    eprintln!("{} requests: {:?} in the middle, {:?} at most", took.len(), took[took.len() / 2], took.last());
    (took[took.len() * 19 / 20], memory)
}

/// Holds an attack to what strangers may cost.
async fn harmless(server: &Server, time: Duration, attack: impl Future<Output = ()> + Send + 'static) {
    cost(server, Duration::from_millis(500)).await;
    let (quiet, before) = cost(server, Duration::from_secs(2)).await;
    // The attackers have threads of their own, so that they do not slow those who measure.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let attackers = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                () = attack => {}
                _ = stopped => {}
            }
        });
    });
    let (busy, most) = cost(server, time).await;
    drop(stop);
    attackers.join().unwrap();
    assert!(busy < quiet + DELAY, "others waited {busy:?}, and {quiet:?} before");
    let more = most.saturating_sub(before);
    assert!(more < MEMORY, "it took {more} bytes more than the {before} before");
}

/// A body of 8 MB without a key: at once, or a little now and then. How many bytes could be sent.
async fn send_body(address: &str, slowly: bool) -> usize {
    // Who asks too often may find no place.
    let Ok(mut stream) = TcpStream::connect(address).await else { return 0 };
    let head = format!(
        "POST /api/v1/tx/batch HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {BODY}\r\n\r\n"
    );
    if stream.write_all(head.as_bytes()).await.is_err() {
        return 0;
    }
    let (piece, pause) = if slowly { (1_000, 20) } else { (65_536, 0) };
    let (mut sent, piece) = (0, vec![b' '; piece]);
    while sent < BODY && stream.write_all(&piece).await.is_ok() {
        sent += piece.len();
        if pause > 0 {
            pass(Duration::from_millis(pause)).await;
        }
    }
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await.ok();
    sent
}

/// Does it again and again, with a moment between: whoever is sent away comes again.
async fn for_ever<Fut: Future<Output = usize>>(sent: Arc<AtomicU64>, attack: impl Fn() -> Fut) {
    loop {
        sent.fetch_add(attack().await as u64, Ordering::Relaxed);
        pass(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn bodies_of_strangers_cost_neither_memory_nor_others_time() {
    const PATH: &str = "/api/v1/tx/batch";
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let address = address(&server.api);
    let [by_hand, poured, dripped] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    let (of_hand, of_pour, of_drip) = (by_hand.clone(), poured.clone(), dripped.clone());
    harmless(&server, attack_time(), async move {
        let connections = (0..200).map(|n| {
            let (address, sent) = (address.clone(), of_hand.clone());
            tokio::spawn(for_ever(sent, move || {
                let address = address.clone();
                async move { send_body(&address, n % 2 == 0).await }
            }))
        });
        let pour = async || {
            let sent = frames::pour(&address, PATH, 100, BODY as i64).await;
            usize::try_from(sent).unwrap()
        };
        let drip = async || frames::drip(&address, PATH, 100).await;
        let connections = futures::future::join_all(connections);
        tokio::join!(connections, for_ever(of_pour, pour), for_ever(of_drip, drip));
    })
    .await;
    let [by_hand, poured, dripped] = [by_hand, poured, dripped].map(|sent| sent.load(Ordering::Relaxed));
    eprintln!("{by_hand} bytes were sent by HTTP/1.1, {poured} and slowly {dripped} by HTTP/2");
    assert!(by_hand > 0 && poured > 0 && dripped > 0);
}

#[tokio::test]
async fn a_caller_without_a_key_is_refused_before_it_has_sent_anything() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let address = address(&server.api);
    for path in ["/api/v1/tx", "/api/v1/tx/batch", &format!("/rpc/{CHAIN_ID}"), "/api/v1/api-keys"] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {BODY}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut first = [0; 512];
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut first)).await;
        let read = read.expect("the body is not waited for").unwrap();
        let said = String::from_utf8_lossy(&first[..read]);
        assert!(said.starts_with("HTTP/1.1 401"), "{path}: {said}");
    }
    // One whose body is small hears why, also if it sends all of it first; so does one with a key that may not.
    let body = " ".repeat(200_000);
    let post = |api: &Api| api.request(Method::POST, "/api/v1/tx").header("content-type", "application/json");
    for _ in 0..10 {
        let refused = server.api.send(post(&server.api).body(body.clone())).await;
        refused.expect_problem(401, "unauthorized");
    }
    let admin = server.api.with_key(ADMIN_KEY);
    let viewer = json!({ "name": "viewer", "role": "viewer" });
    let viewer = admin.with_key(&text(&admin.post("/api/v1/api-keys", &viewer).await.expect(201), "key"));
    viewer.send(post(&viewer).body(body)).await.expect_problem(403, "forbidden");
    admin.submit(&transfer()).await;
}

async fn channel(url: &str) -> Channel {
    Endpoint::from_shared(url.to_owned()).unwrap().connect().await.expect("gRPC is answered")
}

fn anything() -> HealthCheckRequest {
    HealthCheckRequest { service: String::new() }
}

#[tokio::test]
async fn a_thousand_health_watches_do_not_keep_health_from_being_told() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let mut held = Vec::new();
    let (mut watching, mut refused) = (0, 0);
    for _ in 0..20 {
        let client = HealthClient::new(channel(server.api.url()).await);
        for _ in 0..50 {
            match client.clone().watch(anything()).await {
                Ok(watch) => {
                    watching += 1;
                    held.push(watch.into_inner());
                }
                // Whoever asks too often may also lose its connection.
                Err(_) => refused += 1,
            }
        }
    }
    assert!((1..=100).contains(&watching) && watching + refused == 1_000, "{watching}, {refused}");
    let said = HealthClient::new(channel(server.api.url()).await).watch(anything()).await.unwrap_err();
    assert_eq!(said.code(), Code::ResourceExhausted, "{said:?}");
    assert!(said.message().contains("max_keyless_streams"), "{said:?}");
    for _ in 0..5 {
        let live = Api::at(server.api.url());
        tokio::time::timeout(Duration::from_secs(5), live.get("/health/live")).await.unwrap().expect(200);
    }
    // With a key there is a place.
    let mut request = tonic::Request::new(anything());
    request.metadata_mut().insert("authorization", format!("Bearer {ADMIN_KEY}").parse().unwrap());
    let mut own = HealthClient::new(channel(server.api.url()).await);
    assert!(own.watch(request).await.unwrap().into_inner().message().await.unwrap().is_some());
    drop(held);
}

#[tokio::test]
async fn few_places_are_not_all_held_by_those_without_a_key() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("max_connections = 12")).await;
    let mut held = Vec::new();
    for _ in 0..24 {
        // Some are made to leave again, or find no place.
        let endpoint = Endpoint::from_shared(server.api.url().to_owned()).unwrap();
        let Ok(channel) = endpoint.connect().await else { continue };
        let mut client = HealthClient::new(channel);
        if let Ok(watch) = client.watch(anything()).await {
            held.push((client, watch.into_inner()));
        }
    }
    assert!(!held.is_empty(), "some may watch");
    for _ in 0..5 {
        let live = Api::at(server.api.url());
        tokio::time::timeout(Duration::from_secs(5), live.get("/health/live")).await.unwrap().expect(200);
        live.with_key(ADMIN_KEY).get("/api/v1/lanes").await.expect(200);
    }
}

/// Sends frames for as long as it is let, on two connections that are made anew whenever they are ended.
async fn flood(kind: Flood, address: String, sent: Arc<AtomicU64>) {
    let lines = (0..2).map(|_| {
        let (address, sent) = (address.clone(), sent.clone());
        tokio::spawn(async move {
            loop {
                let Some(stream) = frames::greet(&address).await else { continue };
                let (mut reads, mut writes) = stream.into_split();
                // What is answered is read, so that the server is never the one that waits.
                let reading = tokio::spawn(async move {
                    let mut answers = [0; 4_096];
                    while reads.read(&mut answers).await.is_ok_and(|read| read > 0) {}
                });
                let mut numbers = 0..;
                loop {
                    let some: Vec<u8> =
                        numbers.by_ref().take(50).flat_map(|number| kind.frames(number, &address)).collect();
                    if writes.write_all(&some).await.is_err() {
                        break;
                    }
                    sent.fetch_add(50, Ordering::Relaxed);
                }
                reading.abort();
            }
        })
    });
    futures::future::join_all(lines).await;
}

#[tokio::test]
async fn no_flood_of_frames_changes_anything_for_others() {
    let chain = Chain::without_mining().await;
    for kind in Flood::ALL {
        // Resets, which are known as an attack, for the whole time.
        let time = if matches!(kind, Flood::Resets) { attack_time() } else { attack_time() / 3 };
        let server = Server::start(&chain.url(), guarded("")).await;
        let sent = Arc::new(AtomicU64::new(0));
        harmless(&server, time, flood(kind, address(&server.api), sent.clone())).await;
        assert!(sent.load(Ordering::Relaxed) > 100, "there was a flood of {kind:?}");
    }
}

#[tokio::test]
async fn bytes_in_flight_have_a_bound_that_is_told() {
    let chain = Chain::without_mining().await;
    let settings = guarded("max_body_bytes = 1000000\nmax_bytes_in_flight_per_address = 1000000");
    let server = Server::start(&chain.url(), settings).await;
    let (address, admin) = (address(&server.api), server.api.with_key(ADMIN_KEY));
    let head = format!(
        "POST /api/v1/tx/batch HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {ADMIN_KEY}\r\n\
         content-type: application/json\r\ncontent-length: 950000\r\n\r\n"
    );
    let large = || {
        let post = admin.request(Method::POST, "/api/v1/tx/batch").header("content-type", "application/json");
        post.body(" ".repeat(500_000))
    };
    // The second may be read before the first: then the first is refused, and comes again.
    let (half, refused) = until("the first body is held", async || {
        let mut half = TcpStream::connect(&address).await.unwrap();
        half.write_all(head.as_bytes()).await.unwrap();
        half.write_all(&vec![b' '; 900_000]).await.ok()?;
        let answer = large().send().await.unwrap();
        (answer.status() == 429).then_some((half, answer))
    })
    .await;
    assert!(refused.headers().contains_key("retry-after"));
    let said = refused.json::<Value>().await.unwrap();
    assert_eq!(said["code"], "too_many_bytes_from_address", "{said}");
    // Small ones still fit, and large ones again when the first has ended.
    admin.submit(&transfer()).await;
    drop(half);
    until("there is room again", async || (large().send().await.unwrap().status() == 400).then_some(()))
        .await;
}

#[tokio::test]
async fn stalled_bodies_of_one_key_hold_no_transaction_of_another_up() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let (address, admin) = (address(&server.api), server.api.with_key(ADMIN_KEY));
    let made = admin.post("/api/v1/api-keys", &json!({ "name": "slow", "role": "viewer" })).await.expect(201);
    let head = format!(
        "POST /rpc/{CHAIN_ID} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {BODY}\r\n\r\n",
        text(&made, "key")
    );
    // Two largest bodies are as much as one address may have.
    let stalled = (0..2).map(|_| async {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // One that is refused is not read to its end.
        stream.write_all(&vec![b' '; BODY - 1]).await.ok();
        stream
    });
    let began = Instant::now();
    let mut stalled = futures::future::join_all(stalled).await;
    for _ in 0..5 {
        let asked = Instant::now();
        admin.submit(&transfer()).await;
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    }
    for stream in &mut stalled {
        let mut said = String::new();
        stream.read_to_string(&mut said).await.ok();
        assert!(
            said.is_empty() || said.contains("body_too_slow") || said.contains("quota_reached"),
            "{said}"
        );
    }
    assert!(began.elapsed() < Duration::from_secs(25), "what stalls does not hold its bytes for 30 s");
}

#[tokio::test]
async fn a_subscription_whose_key_is_revoked_is_told_nothing_more() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let made = admin.post("/api/v1/api-keys", &json!({ "name": "ear", "role": "viewer" })).await.expect(201);
    let url = format!("{}/rpc/{CHAIN_ID}", server.api.url().replace("http", "ws"));
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("x-api-key", text(&made, "key").parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"] });
    socket.send(Message::text(call.to_string())).await.unwrap();
    let mut heads = 0;
    let mut hear = async |mined: bool| {
        if mined {
            chain.mine(1).await;
        }
        loop {
            let next = tokio::time::timeout(Duration::from_secs(30), socket.next()).await.expect("a word");
            match next {
                Some(Ok(Message::Text(said))) if said.contains("eth_subscription") => {
                    heads += 1;
                    return Some(heads);
                }
                Some(Ok(Message::Text(_))) => return Some(heads),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            }
        }
    };
    assert_eq!(hear(false).await, Some(0), "it is subscribed");
    assert_eq!(hear(true).await, Some(1));
    let path = format!("/api/v1/api-keys/{}", text(&made, "id"));
    admin.send(admin.request(Method::DELETE, &path)).await.expect(200);
    assert_eq!(hear(true).await, None, "the socket ends without another word");
}

#[tokio::test]
async fn what_a_proxy_passes_on_needs_a_key_also_where_nobody_else_does() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    api.get("/api/v1/lanes").await.expect(200);
    let headers = [
        "forwarded",
        "x-forwarded-for",
        "X-Forwarded-Host",
        "x-forwarded-proto",
        "x-real-ip",
        "via",
        "cf-connecting-ip",
    ];
    for header in headers {
        let passed_on = |method, path: &str| api.request(method, path).header(header, "192.0.2.7");
        let refused = api.send(passed_on(Method::GET, "/api/v1/lanes")).await;
        let detail = refused.expect_problem(401, "unauthorized");
        assert!(detail.contains("proxy"), "{detail}");
        let refused = api.send(passed_on(Method::POST, "/api/v1/tx").json(&transfer())).await;
        refused.expect_problem(401, "unauthorized");
        api.send(passed_on(Method::GET, "/health/live")).await.expect(200);
        let ready = api.send(passed_on(Method::GET, "/health/ready")).await.expect(200);
        assert_eq!(ready, json!({ "status": "ready" }));
    }
    assert!(api.list("").await.is_empty());
    // nginx says nothing of itself unless it is told to, but speaks like this.
    let address = address(api);
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = format!("GET /api/v1/lanes HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.contains(" 401 "), "{said}");
    // With a key it is as good as any.
    let made = api.post("/api/v1/api-keys", &json!({ "name": "me", "role": "admin" })).await.expect(201);
    let known = api.with_key(&text(&made, "key"));
    let passed_on = known.request(Method::GET, "/api/v1/lanes").header("via", "1.1 proxy");
    known.send(passed_on).await.expect(200);
}

#[tokio::test]
async fn the_port_is_taken_only_when_everything_is_in_order() {
    let chain = Chain::without_mining().await;
    let mut server = Server::prepare(&chain.url(), &Settings::default());
    let file = server.folder().join("landfall.toml");
    let beyond =
        std::fs::read_to_string(&file).unwrap().replace("listen = \"127.0.0.1:", "listen = \"0.0.0.0:");
    std::fs::write(&file, beyond).unwrap();
    // Whoever tried to take the port first would find it taken.
    let port = server.api.url().rsplit(':').next().unwrap().to_owned();
    let taken = std::net::TcpListener::bind(format!("0.0.0.0:{port}")).unwrap();
    let output = server.run_to_end().await;
    assert!(!output.ok() && output.said.contains("there is no API key"), "{output:?}");
    drop(taken);
    server.set("LANDFALL_ADMIN_KEY", ADMIN_KEY);
    server.spawn();
    server.until_ready().await;
    assert!(server.log().contains("is served without TLS"), "{}", server.log());
}

#[tokio::test]
async fn health_has_a_listener_of_its_own_by_choice() {
    let chain = Chain::without_mining().await;
    let mut server = Server::prepare(&chain.url(), &guarded("max_keyless_streams = 1"));
    let (file, port) = (server.folder().join("landfall.toml"), free_port());
    let toml = std::fs::read_to_string(&file).unwrap();
    let toml = toml.replace("[server]\n", &format!("[server]\nhealth_listen = \"127.0.0.1:{port}\"\n"));
    std::fs::write(&file, toml).unwrap();
    server.spawn();
    server.until_ready().await;
    let health = Api::at(&format!("http://127.0.0.1:{port}")).with_key(ADMIN_KEY);
    assert_eq!(health.get("/health/live").await.expect(200), json!({ "status": "alive" }));
    assert_eq!(
        health.get("/health/ready").await.expect(200),
        json!({ "status": "ready" }),
        "one word, also with a key"
    );
    for path in ["/api/v1/lanes", "/metrics", "/openapi.json", "/docs"] {
        let answer = http_client().get(format!("{}{path}", health.url())).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
    }
    // Whoever holds all places at the other door leaves room here.
    let mut watch = HealthClient::new(channel(server.api.url()).await).watch(anything()).await.unwrap();
    assert!(watch.get_mut().message().await.unwrap().is_some());
    let mut refused = HealthClient::new(channel(server.api.url()).await);
    assert_eq!(refused.check(anything()).await.unwrap_err().code(), Code::ResourceExhausted);
    let mut client = HealthClient::new(channel(health.url()).await);
    assert_eq!(client.check(anything()).await.unwrap().into_inner().status, 1);
    drop(watch);
    let stopped = Instant::now();
    server.terminate();
    server.ended().await;
    assert!(stopped.elapsed() < Duration::from_secs(10));
}
