//! Callers that want to harm: web pages of other origins, names that are not ours, requests that never end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Api, Chain, Server, Settings, pass, transfer, transfer_as, until};

/// A server whose patience is short, with few places.
const IMPATIENT: &str =
    "header_timeout_s = 1\nbody_timeout_s = 2\nmax_connections = 4\nmax_body_bytes = 100000";

async fn server(chain: &Chain, lines: &'static str) -> Server {
    Server::start(&chain.url(), Settings { server: lines, ..Settings::default() }).await
}

async fn stored(api: &Api) -> usize {
    api.list("").await.len()
}

#[tokio::test]
async fn a_web_page_of_another_origin_can_change_nothing() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = server(&chain, "").await;
    let api = &server.api;
    let kept = api.submit(&transfer()).await;
    api.until_state(&kept, "confirmed").await;

    let post = |path: &str| api.request(Method::POST, path);
    let lane = format!("/api/v1/lanes/{}/{}", crate::support::CHAIN_ID, crate::support::signer(0));
    for origin in ["http://evil.example", "https://127.0.0.1.evil.example", "http://127.0.0.1:1", "null"] {
        for path in ["/api/v1/tx", "/api/v1/tx/batch"] {
            let refused = post(path).header("origin", origin).json(&transfer_as("by a page"));
            api.send(refused).await.expect_problem(403, "cross_origin");
        }
        let refused = post(&format!("{lane}/pause")).header("origin", origin);
        api.send(refused).await.expect_problem(403, "cross_origin");
    }
    assert_eq!(stored(api).await, 1, "nothing was stored");
    assert_eq!(api.lane(&crate::support::signer(0)).await["paused"], false);

    // A page that the server itself gave out may, and reading is open to the browser's own rules.
    let own = post("/api/v1/tx").header("origin", api.url()).json(&transfer_as("by our own page"));
    api.send(own).await.expect(202);
    let reading = api.request(Method::GET, "/api/v1/tx").header("origin", "http://evil.example");
    api.send(reading).await.expect(200);
}

#[tokio::test]
async fn a_name_that_is_not_this_machines_is_not_answered_to() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = server(&chain, "").await;
    let api = &server.api;
    // What a page does whose name was pointed at 127.0.0.1 after it was loaded: its origin and its host agree.
    for host in ["evil.example", "evil.example:8645", "127.0.0.1.evil.example", "10.0.0.1"] {
        let rebound = api
            .request(Method::POST, "/api/v1/tx")
            .header("host", host)
            .header("origin", format!("http://{host}"))
            .json(&transfer());
        api.send(rebound).await.expect_problem(403, "wrong_host");
        let read = api.request(Method::GET, "/api/v1/tx").header("host", host);
        api.send(read).await.expect_problem(403, "wrong_host");
    }
    assert_eq!(stored(api).await, 0, "nothing was stored");
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8645"] {
        let read = api.request(Method::GET, "/api/v1/tx").header("host", host);
        api.send(read).await.expect(200);
    }
}

/// A connection of its own, on which bytes are written by hand.
fn connect(api: &Api) -> TcpStream {
    let stream = TcpStream::connect(api.url().trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Everything until the server closes the connection.
async fn said(mut stream: TcpStream) -> String {
    let read = move || {
        let mut bytes = Vec::new();
        // A reset is an end as well.
        stream.read_to_end(&mut bytes).ok();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

#[tokio::test]
async fn callers_that_never_finish_their_headers_are_cut_off_and_others_get_their_turn() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = server(&chain, IMPATIENT).await;
    let api = Api::at(server.api.url());
    let slow: Vec<TcpStream> = (0..8)
        .map(|n| {
            let mut stream = connect(&api);
            let begun =
                if n % 2 == 0 { "POST /api/v1/tx HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: " } else { "" };
            stream.write_all(begun.as_bytes()).unwrap();
            stream
        })
        .collect();
    // All places are taken, twice over. An honest caller waits a moment and is served.
    let begun = Instant::now();
    let tx = api.submit(&transfer()).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "it took {:?}", begun.elapsed());
    for stream in slow {
        let said = said(stream).await;
        assert!(!said.contains(" 20"), "{said}");
    }
    api.until_state(&tx, "confirmed").await;
    assert_eq!(stored(&api).await, 1);
}

#[tokio::test]
async fn a_body_that_drips_is_refused_after_its_time_however_steadily_it_comes() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = server(&chain, IMPATIENT).await;
    let mut stream = connect(&server.api);
    let body = transfer_as("slow").to_string();
    let head = format!(
        "POST /api/v1/tx HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let begun = Instant::now();
    let mut drip = stream.try_clone().unwrap();
    let dripping = tokio::spawn(async move {
        // Never the last byte; until the server has enough of it.
        for byte in body.as_bytes().iter().take(body.len() - 1) {
            if drip.write_all(&[*byte]).is_err() {
                break;
            }
            pass(Duration::from_millis(100)).await;
        }
    });
    let said = said(stream).await;
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert!(said.contains("body_too_slow"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(9), "it took {:?}", begun.elapsed());
    assert_eq!(stored(&server.api).await, 0, "half a request is none");
    dripping.abort();
}

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_refused_before_it_is_read() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = server(&chain, IMPATIENT).await;
    let mut stream = connect(&server.api);
    let head = "POST /api/v1/tx HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
                content-length: 1000000000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let begun = Instant::now();
    let answer = until("there is an answer", async || {
        let mut first = [0; 2048];
        let read = stream.read(&mut first).unwrap();
        Some(String::from_utf8_lossy(&first[..read]).into_owned())
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(2), "the body was waited for: {:?}", begun.elapsed());

    // One that does not say how large it is, is measured on the way.
    let mut stream = connect(&server.api);
    let head = "POST /api/v1/tx HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..101 {
        stream.write_all(format!("3e8\r\n{}\r\n", " ".repeat(1_000)).as_bytes()).unwrap();
    }
    let answer = said(stream).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("body_too_large"), "{answer}");

    // A caller that sends all of it before it looks for an answer still finds one.
    for _ in 0..20 {
        let mut stream = connect(&server.api);
        let body = " ".repeat(2_000_000);
        let head = "POST /api/v1/tx HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n";
        let head = format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let answer = said(stream).await;
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("body_too_large"), "{answer}");
    }
    assert_eq!(stored(&server.api).await, 0);
}

#[tokio::test]
async fn when_the_database_file_is_gone_nothing_is_accepted_and_health_says_so() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = server(&chain, "").await;
    let file = server.folder().join("landfall.db");
    let before = server.api.submit(&transfer_as("before")).await;
    server.api.until_state(&before, "confirmed").await;

    let aside = server.folder().join("aside.db");
    for replaced in [false, true] {
        std::fs::rename(&file, &aside).unwrap();
        if replaced {
            std::fs::write(&file, b"").unwrap();
        }
        let refused = server.api.post("/api/v1/tx", &transfer_as("lost")).await;
        let detail = refused.expect_problem(503, "store_unavailable");
        assert!(detail.contains("removed or replaced"), "{detail}");
        let batch = server.api.post("/api/v1/tx/batch", &json!([transfer_as("lost")])).await.expect(200);
        assert_eq!(batch["items"][0]["status"], 503, "{batch}");
        let ready = server.api.get("/health/ready").await.expect(503);
        assert_eq!(ready["store"]["writable"], false, "{ready}");
        std::fs::rename(&aside, &file).unwrap();
    }
    // The file is back under its name: it goes on, and what was refused was not kept anywhere.
    let after = server.api.submit(&transfer_as("lost")).await;
    server.api.until_state(&after, "confirmed").await;
    server.restart_after_kill().await;
    assert_eq!(stored(&server.api).await, 2);
}

#[tokio::test]
async fn callers_that_say_nothing_do_not_keep_others_out() {
    let chain = Chain::without_mining().await;
    let server = "max_connections = 8\nheader_timeout_s = 1";
    let server = Server::start(&chain.url(), Settings { server, ..Settings::default() }).await;
    let address = server.api.url().trim_start_matches("http://").to_owned();
    let mut silent = Vec::new();
    for n in 0..8 {
        let mut socket = TcpStream::connect(&address).unwrap();
        // Some begin to say which version of HTTP they speak.
        if n % 2 == 0 {
            socket.write_all(b"PRI * HT").unwrap();
        }
        silent.push(socket);
    }
    let since = tokio::time::Instant::now();
    let live = server.api.get("/health/live");
    tokio::time::timeout(Duration::from_secs(20), live).await.expect("there is a place again").expect(200);
    assert!(since.elapsed() < Duration::from_secs(20));
    drop(silent);
}

#[tokio::test]
async fn a_header_does_not_lift_the_limit_of_a_body() {
    let chain = Chain::without_mining().await;
    let server =
        Server::start(&chain.url(), Settings { server: "max_body_bytes = 1000", ..Settings::default() })
            .await;
    let request =
        server.api.request(reqwest::Method::POST, "/api/v1/tx").header("content-type", "application/grpc");
    server.api.send(request.body(vec![b' '; 5_000])).await.expect_problem(413, "body_too_large");
}
