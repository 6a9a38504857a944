//! Places: how many connections there may be, of those who show no key and of one key, and who makes room for whom.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::doors::{ADMIN_KEY, address, guarded};
use crate::support::{Api, Chain, Server, Settings, text};

/// One request with a key on a connection that stays; the status, or none if the connection has ended.
async fn ask_on(stream: &mut TcpStream, address: &str, key: &str) -> Option<String> {
    let request =
        format!("GET /api/v1/lanes HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut said = vec![0; 64 << 10];
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut said)).await.ok()?.ok()?;
    (read > 12).then(|| String::from_utf8_lossy(&said[9..12]).into_owned())
}

#[tokio::test]
async fn so_many_connections_stay_on_which_nobody_has_shown_a_key_and_those_with_one_do_not_count() {
    const MOST: usize = 6;
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("max_keyless_connections = 6")).await;
    let address = address(&server.api);
    let mut known = Vec::new();
    for _ in 0..2 * MOST {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        assert_eq!(ask_on(&mut stream, &address, ADMIN_KEY).await.as_deref(), Some("200"));
        known.push(stream);
    }
    // Each new one is answered: one that is idle makes room for it.
    let mut keyless = Vec::new();
    for _ in 0..3 * MOST {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        assert_eq!(ask_on(&mut stream, &address, "none").await.as_deref(), Some("401"));
        keyless.push(stream);
    }
    let mut open = 0;
    for stream in &mut keyless {
        open += usize::from(ask_on(stream, &address, "none").await.is_some());
    }
    assert!((1..=MOST).contains(&open), "{open} are open");
    for stream in &mut known {
        assert_eq!(ask_on(stream, &address, ADMIN_KEY).await.as_deref(), Some("200"));
    }
}

#[tokio::test]
async fn one_key_with_very_many_connections_shuts_nobody_out_and_less_so_once_it_is_revoked() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("max_connections = 40")).await;
    let (address, admin) = (address(&server.api), server.api.with_key(ADMIN_KEY));
    let made = admin.post("/api/v1/api-keys", &json!({ "name": "many", "role": "viewer" })).await.expect(201);
    let (key, id) = (text(&made, "key"), text(&made, "id"));
    let mut held = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        assert!(ask_on(&mut stream, &address, &key).await.is_some(), "each new one is answered");
        held.push(stream);
    }
    let others_are_served = async || {
        let soon = Duration::from_secs(5);
        let live = Api::at(server.api.url());
        tokio::time::timeout(soon, live.get("/health/live")).await.unwrap().expect(200);
        let other = Api::at(server.api.url()).with_key(ADMIN_KEY);
        tokio::time::timeout(soon, other.get("/api/v1/api-keys")).await.unwrap().expect(200);
    };
    others_are_served().await;
    let mut open = Vec::new();
    for mut stream in held {
        if let Some(status) = ask_on(&mut stream, &address, &key).await {
            assert_eq!(status, "200");
            open.push(stream);
        }
    }
    assert!((1..=20).contains(&open.len()), "half of all at most: {}", open.len());
    admin.send(admin.request(Method::DELETE, &format!("/api/v1/api-keys/{id}"))).await.expect(200);
    for stream in &mut open {
        assert_ne!(ask_on(stream, &address, &key).await.as_deref(), Some("200"));
    }
    others_are_served().await;
}

/// As many callers as there are places, none of which has asked yet, and one more.
#[tokio::test]
async fn as_many_callers_as_there_are_places_are_all_answered_and_one_more_waits() {
    const PLACES: usize = 20;
    let chain = Chain::without_mining().await;
    let settings = Settings { server: "max_connections = 20", ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let address = address(&server.api);
    // The connections that the start was watched by are idle, and may be among those that make room.
    let mut callers = Vec::new();
    for _ in 0..=PLACES {
        callers.push(TcpStream::connect(&address).await.unwrap());
    }
    let request = format!("GET /health/live HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let asked = callers.into_iter().map(|mut caller| {
        let request = request.clone();
        async move {
            caller.write_all(request.as_bytes()).await.unwrap();
            let mut said = Vec::new();
            caller.read_to_end(&mut said).await.unwrap();
            String::from_utf8_lossy(&said).into_owned()
        }
    });
    for said in futures::future::join_all(asked).await {
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    }
}
