//! The rate of a key counts calls, not messages: a batch over JSON-RPC counts as many as it has, and is done whole or not at all.

use futures::SinkExt as _;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::pass_through::{ADMIN_KEY, guarded};
use crate::rpc::{Rpc, path};
use crate::subscriptions::{next, subscribed};
use crate::support::{Api, CHAIN_ID, Chain, RECEIVER, Server, signer, text};

/// A key that may ask ten times a second, and twenty times at once.
async fn ten(server: &Server) -> Api {
    let admin = server.api.with_key(ADMIN_KEY);
    let body = json!({ "name": "ten", "role": "submitter", "ratePerS": 10 });
    admin.with_key(&text(&admin.post("/api/v1/api-keys", &body).await.expect(201), "key"))
}

/// Fifteen calls.
fn fifteen(method: &str, params: &Value) -> Value {
    let call = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    (0..15).map(call).collect()
}

fn was_done(answers: &Value) {
    let answers = answers.as_array().unwrap_or_else(|| panic!("{answers}"));
    assert!(answers.len() == 15 && answers.iter().all(|answer| answer["result"].is_string()), "{answers:?}");
}

fn was_refused(answer: &Value) {
    assert_eq!((&answer["id"], &answer["error"]["data"]["code"]), (&Value::Null, &json!("rate_limited")));
}

#[tokio::test]
async fn a_batch_counts_as_many_as_it_has_and_is_done_whole_or_not_at_all() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let (looks, sends) = (
        fifteen("eth_chainId", &json!([])),
        fifteen("eth_sendTransaction", &json!([{ "from": signer(0), "to": RECEIVER, "gas": "0x5208" }])),
    );
    let by_http = ten(&server).await;
    was_done(&by_http.post(&path(), &looks).await.expect(200));
    was_refused(&by_http.post(&path(), &sends).await.expect(200));

    let by_socket = ten(&server).await;
    let mut socket = subscribed(&by_socket, 0, &Value::Null).await;
    socket.send(Message::text(looks.to_string())).await.unwrap();
    was_done(&next(&mut socket).await.unwrap());
    socket.send(Message::text(sends.to_string())).await.unwrap();
    was_refused(&next(&mut socket).await.unwrap());
    assert!(server.api.with_key(ADMIN_KEY).list("").await.is_empty(), "nothing of those was done");
}

#[tokio::test]
async fn calls_that_are_handed_over_together_count_one_by_one() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), guarded("")).await;
    let key = ten(&server).await;
    let together = |id: &str| {
        let calls: Vec<Value> =
            (1..=15).map(|n| json!({ "to": RECEIVER, "value": format!("{n:#x}") })).collect();
        json!([{
            "version": "2.0.0", "id": id, "from": signer(0), "chainId": format!("{CHAIN_ID:#x}"),
            "atomicRequired": false, "calls": calls,
        }])
    };
    Rpc(&key).get("wallet_sendCalls", together("first")).await;
    let (code, own, message) = Rpc(&key).fail("wallet_sendCalls", together("second")).await;
    assert_eq!((code, own.as_str()), (-32005, "rate_limited"), "{message}");
    let stored = server.api.with_key(ADMIN_KEY).list("").await;
    assert_eq!(stored.len(), 15, "of the second nothing is stored: {stored:?}");
}

#[tokio::test]
async fn a_key_without_a_rate_of_its_own_has_the_servers() {
    let chain = Chain::without_mining().await;
    let mut settings = guarded("");
    settings.env.push(("LANDFALL_ACCESS__RATE_PER_S", "10".to_owned()));
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let made = admin.post("/api/v1/api-keys", &json!({ "name": "any", "role": "viewer" })).await.expect(201);
    let any = admin.with_key(&text(&made, "key"));
    let looks = fifteen("eth_chainId", &json!([]));
    was_done(&any.post(&path(), &looks).await.expect(200));
    was_refused(&any.post(&path(), &looks).await.expect(200));
}
