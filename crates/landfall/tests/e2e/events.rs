//! Events as a listener hears them: every one, once, in order, whatever breaks between the server and it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Chain, RECEIVER, Server, Settings, check_event, http_client, marker, signer, submission, text,
    until_within,
};

/// One event as it came.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// A listener that connects again, from where it was, whenever the connection ends.
pub(crate) struct Ear {
    heard: Arc<Mutex<Vec<Heard>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Ear {
    pub(crate) fn at(url: String) -> Self {
        Self::after(url, Vec::new())
    }

    /// Goes on after what was heard before.
    fn after(url: String, heard: Vec<Heard>) -> Self {
        let heard = Arc::new(Mutex::new(heard));
        let into = heard.clone();
        let task = tokio::spawn(async move {
            loop {
                let last = into.lock().unwrap().last().map_or(0, |heard| heard.id);
                let request = http_client().get(&url).header("Last-Event-ID", last.to_string());
                if let Ok(mut answer) = request.send().await {
                    let mut text = String::new();
                    while let Ok(Some(chunk)) = answer.chunk().await {
                        text.push_str(std::str::from_utf8(&chunk).unwrap());
                        while let Some(end) = text.find("\n\n") {
                            let block: String = text.drain(..end + 2).collect();
                            into.lock().unwrap().extend(parse(&block));
                        }
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { heard, task }
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// The connection breaks.
    pub(crate) fn cut(self, url: String) -> Self {
        self.task.abort();
        Self::after(url, self.heard())
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn parse(block: &str) -> Option<Heard> {
    let field = |name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim_start().to_owned())
    };
    let (id, name, data) = (field("id")?, field("event")?, field("data")?);
    let data = serde_json::from_str(&data).unwrap();
    check_event(&data);
    Some(Heard { id: id.parse().unwrap(), name, data })
}

#[tokio::test]
async fn every_event_is_heard_once_and_in_order_through_broken_connections_and_a_killed_server() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), Settings { finality: 1, ..Settings::default() }).await;
    let url = format!("{}/api/v1/events", server.api.url());
    let mut ear = Ear::at(url.clone());
    let mut ids = Vec::new();
    for number in 0..60_u64 {
        let payload = json!({ "to": RECEIVER, "value": "0", "data": marker(number), "gas": 30_000 });
        ids.push(server.api.submit(&submission(payload)).await);
        match number {
            20 => ear = ear.cut(url.clone()),
            40 => server.restart_after_kill().await,
            _ => {}
        }
    }
    server.api.until_all_done(Duration::from_secs(60)).await;
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for id in &ids {
        let rows = server.api.journal(id).await;
        let events = rows.iter().filter_map(|row| row["event"].as_str()).map(str::to_owned).collect();
        told.insert(id.clone(), events);
    }
    let all: usize = told.values().map(Vec::len).sum();
    until_within(Duration::from_secs(20), "all events are heard", async || {
        (ear.heard().len() >= all).then_some(())
    })
    .await;
    let heard = ear.heard();
    assert!(heard.windows(2).all(|pair| pair[0].id < pair[1].id), "in order, none twice");
    for id in &ids {
        let of_tx = heard.iter().filter(|event| text(&event.data, "txId") == *id);
        let names: Vec<String> = of_tx.map(|event| event.name.clone()).collect();
        assert_eq!(names, told[id], "{id}");
    }
    assert_eq!(heard.len(), all);
}

#[tokio::test]
async fn a_listener_hears_what_it_asked_for_from_when_it_came_and_a_stopping_server_lets_it_go() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server = Server::start(&chain.url(), Settings { finality: 1, ..Settings::default() }).await;
    let before = server.api.submit(&submission(json!({ "to": RECEIVER }))).await;
    server.api.until_state(&before, "confirmed").await;
    let url =
        format!("{}/api/v1/events?types=tx.confirmed,tx.accepted&signer={}", server.api.url(), signer(0));
    let mut answer = http_client().get(&url).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let id = server.api.submit(&submission(json!({ "to": RECEIVER }))).await;
    server.api.until_state(&id, "confirmed").await;
    let mut text_heard = String::new();
    while !text_heard.contains("tx.confirmed") {
        let chunk = answer.chunk().await.unwrap().expect("the stream goes on");
        text_heard.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    server.terminate();
    while let Ok(Some(chunk)) = answer.chunk().await {
        text_heard.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(server.ended().await.success(), "a listener does not keep it from stopping");
    let heard: Vec<Heard> = text_heard.split_inclusive("\n\n").filter_map(parse).collect();
    let names: Vec<&str> = heard.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["tx.accepted", "tx.confirmed"]);
    assert!(heard.iter().all(|event| text(&event.data, "txId") == id), "nothing from before it came");
    assert_eq!(heard[0].data["chainId"], 31_337);
}

#[tokio::test]
async fn a_listener_that_asks_for_nonsense_is_told_what_there_is() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    for query in [
        "after=x",
        "after=-",
        "after=-1",
        "types=tx.mined,tx.lost",
        "signer=0x12",
        "txId=7",
        "chainId=one",
        "color=blue",
    ] {
        let answer = server.api.get(&format!("/api/v1/events?{query}")).await;
        assert!(matches!(answer.status, 400 | 422), "{query}");
    }
}
