//! Tokens in the URLs of webhooks: who may look sees where events go, and not what opens the door there.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Api, Chain, QUICK_WEBHOOKS, Server, Settings, text, transfer, until};

const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";
const WEBHOOKS: &str = "/api/v1/webhooks";
const TOKENS: [&str; 2] = ["t0k3n", "s3cret"];

/// A receiver that knows no such path and, like many, says which one it was asked for. Its port.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = Vec::new();
                while !asked.windows(4).any(|four| four == b"\r\n\r\n") {
                    let mut part = [0; 1_024];
                    match stream.read(&mut part).await {
                        Ok(count @ 1..) => asked.extend_from_slice(&part[..count]),
                        _ => return,
                    }
                }
                let line = String::from_utf8_lossy(&asked).lines().next().unwrap_or_default().to_owned();
                let body = format!("Cannot {line}");
                let answer = format!(
                    "HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.ok();
            });
        }
    });
    port
}

async fn key_of(admin: &Api, role: &str) -> Api {
    let made = admin.post("/api/v1/api-keys", &json!({ "name": role, "role": role })).await.expect(201);
    admin.with_key(&text(&made, "key"))
}

/// All that a caller is told of a webhook.
async fn told(api: &Api, id: &str) -> [Value; 3] {
    let one = api.get(&format!("{WEBHOOKS}/{id}")).await.expect(200);
    let all = api.get(WEBHOOKS).await.expect(200);
    let deliveries = api.get(&format!("{WEBHOOKS}/{id}/deliveries")).await.expect(200);
    [one, all["items"][0].clone(), deliveries["items"][0].clone()]
}

#[tokio::test]
async fn viewers_and_submitters_see_the_host_of_a_webhook_and_neither_its_path_nor_what_the_receiver_says_of_it()
 {
    let chain = Chain::that_settles_at_once().await;
    let mut settings = Settings { sections: QUICK_WEBHOOKS, ..Settings::default() };
    settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let host = format!("http://127.0.0.1:{}", echo().await);
    let url = format!("{host}/hooks/{}?key={}", TOKENS[0], TOKENS[1]);
    let made = admin.post(WEBHOOKS, &json!({ "url": url })).await.expect(201);
    let id = text(&made, "id");
    admin.submit(&transfer()).await;
    until("an event was refused", async || {
        let [one, _, delivery] = told(&admin, &id).await;
        (one["lastFailure"].is_string() && delivery["lastFailure"].is_string()).then_some(())
    })
    .await;

    for role in ["operator", "admin"] {
        let [one, listed, delivery] = told(&key_of(&admin, role).await, &id).await;
        assert_eq!([&one["url"], &listed["url"]], [&url, &url], "{role}");
        for shown in [&one, &delivery] {
            assert!(text(shown, "lastFailure").contains(TOKENS[0]), "the receiver repeats the path: {shown}");
        }
    }
    for role in ["viewer", "submitter"] {
        let shown = told(&key_of(&admin, role).await, &id).await;
        for one in &shown {
            for token in TOKENS {
                assert!(!one.to_string().contains(token), "a {role} is told {token}: {one}");
            }
            assert_eq!(one["lastFailure"], "the receiver answered 404 Not Found", "{role}: {one}");
        }
        for one in &shown[..2] {
            assert_eq!(one["url"], format!("{host}/…"), "{role}");
        }
    }
}
