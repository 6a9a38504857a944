//! Webhooks as a receiver sees them: every event at least once, in order per transaction, signed so that the public
//! library of another language says yes; whatever breaks between the server and it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use reqwest::Method;
use serde_json::{Value, json};

use crate::events::Ear;
use crate::support::{
    Api, CHAIN_ID, Chain, Database, Nodes, QUICK_WEBHOOKS, RECEIVER, Receiver, Server, Settings, Taken,
    WEBHOOK_SECRET, marker, program, run, signer, submission, text, transfer, until, until_within,
};

const PATH: &str = "/api/v1/webhooks";

/// Makes a webhook to the receiver, and tells it the secret. Its id.
async fn subscribe(api: &Api, receiver: &Receiver, more: Value) -> String {
    let mut body = json!({ "url": receiver.url() });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = api.post(PATH, &body).await.expect(201);
    receiver.control(json!({ "secret": made["secret"] })).await;
    text(&made, "id")
}

async fn webhook(api: &Api, id: &str) -> Value {
    api.get(&format!("{PATH}/{id}")).await.expect(200)
}

async fn until_webhook(api: &Api, id: &str, what: &str, looks: impl Fn(&Value) -> bool) -> Value {
    until(format!("the webhook {what}"), async || {
        let shown = webhook(api, id).await;
        looks(&shown).then_some(shown)
    })
    .await
}

async fn deliveries(api: &Api, id: &str, filter: &str) -> Vec<Value> {
    let page = api.get(&format!("{PATH}/{id}/deliveries?limit=500{filter}")).await.expect(200);
    page["items"].as_array().expect("a list").clone()
}

fn seq(taken: &Taken) -> i64 {
    taken.body["data"]["seq"].as_i64().expect("a number")
}

/// The numbers of a transaction's events, in the order in which each was first taken.
fn first_taken(taken: &[Taken]) -> BTreeMap<String, Vec<i64>> {
    let mut seen = BTreeSet::new();
    let mut of: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for one in taken.iter().filter(|one| seen.insert(seq(one))) {
        of.entry(text(&one.body["data"], "txId")).or_default().push(seq(one));
    }
    of
}

/// The numbers of the events of these transactions, as their journals have them.
async fn told(api: &Api, ids: impl IntoIterator<Item = String>) -> BTreeMap<String, Vec<i64>> {
    let events = |id: String| async move {
        let rows = api.journal(&id).await;
        let events = rows.iter().filter(|row| row["event"].is_string());
        (id, events.map(|row| row["seq"].as_i64().expect("a number")).collect())
    };
    stream::iter(ids).map(events).buffer_unordered(16).collect().await
}

/// Hands over so many transactions in batches, each again until it is acknowledged; their ids.
async fn hand_over(api: &Api, first: u64, count: u64, signers: u64) -> Vec<String> {
    let items: Vec<Value> = (first..first + count)
        .map(|number| {
            json!({
                "chainId": CHAIN_ID,
                "signer": signer(usize::try_from(number % signers).unwrap()),
                "requestId": format!("hook-{number}"),
                "payload": { "to": RECEIVER, "value": "0", "data": marker(number), "gas": 30_000 },
            })
        })
        .collect();
    until("the batch is acknowledged", async || {
        let answer = api.try_send(api.request(Method::POST, "/api/v1/tx/batch").json(&items)).await?;
        let items = answer.body["items"].as_array()?.clone();
        let good = items.iter().all(|item| matches!(item["status"].as_u64(), Some(200 | 202)));
        good.then(|| items.iter().map(|item| text(item, "txId")).collect())
    })
    .await
}

// covers: N1, N2, N4, N7, N9, N10, N11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_fails_hangs_restarts_and_dawdles_gets_every_event_in_order_through_a_killed_server()
{
    const SIGNERS: u64 = 4;
    let chain = Chain::with_blocks_every(Duration::from_millis(250)).await;
    let settings = Settings {
        signers: 4,
        max_in_flight: 250,
        log: "warn",
        sections: QUICK_WEBHOOKS,
        ..Settings::default()
    };
    let mut server = Server::start(&chain.url(), settings).await;
    let mut receiver = Receiver::start().await;
    let webhook_id = subscribe(&server.api, &receiver, json!({})).await;
    receiver.behaves("everything goes wrong at times").await;
    let events = format!("{}/api/v1/events", server.api.url());
    let mut ear = Ear::at(events.clone());
    let mut ids = Vec::new();
    for round in 0..10 {
        ids.extend(hand_over(&server.api, round * 100, 100, SIGNERS).await);
        match round {
            2 => receiver.kill().await,
            3 => ear = ear.cut(events.clone()),
            4 => receiver.spawn().await,
            5 => server.restart_after_kill().await,
            7 => {
                receiver.kill().await;
                ear = ear.cut(events.clone());
                receiver.spawn().await;
            }
            8 => server.restart_after_kill().await,
            _ => {}
        }
    }
    server.api.until_all_done(Duration::from_secs(60)).await;
    let told = told(&server.api, ids.clone()).await;
    let all: usize = told.values().map(Vec::len).sum();
    assert!(told.len() == 1_000 && all >= 4_000, "{all} events of {} transactions", told.len());
    until_within(Duration::from_secs(90), "every event is taken", async || {
        let taken: usize = first_taken(&receiver.taken()).values().map(Vec::len).sum();
        (taken >= all).then_some(())
    })
    .await;
    let taken = receiver.taken();
    assert!(taken.iter().all(|one| one.verified), "the public library verifies every one");
    let first = first_taken(&taken);
    for id in &ids {
        assert_eq!(first[id], told[id], "{id}: every event, in order");
    }
    for one in &taken {
        let data = &one.body["data"];
        assert_eq!(
            one.id,
            format!("{}_{}", webhook_id.replacen("wh_", "msg_", 1), seq(one)),
            "an id by event"
        );
        let position = told[&text(data, "txId")].iter().position(|number| *number == seq(one)).unwrap();
        assert_eq!(
            data["txSeq"],
            json!(position + 1),
            "events of a transaction are numbered without a gap: {data}"
        );
        assert_eq!(one.body["type"], data["event"]);
    }
    until_within(Duration::from_secs(20), "every event is heard", async || {
        (ear.heard().len() >= all).then_some(())
    })
    .await;
    let heard = ear.heard();
    assert!(heard.windows(2).all(|pair| pair[0].id < pair[1].id), "in order, none twice");
    let mut of: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for event in &heard {
        of.entry(text(&event.data, "txId")).or_default().push(event.id);
    }
    assert_eq!(of, told, "listeners hear the same");
    until_webhook(&server.api, &webhook_id, "has nothing left", |shown| {
        shown["behind"] == 0 && shown["waiting"] == 0
    })
    .await;
}

// covers: N5, N6
#[tokio::test]
async fn an_endpoint_that_was_given_up_says_so_goes_on_where_it_was_and_can_be_replayed() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let sections = "[webhooks]\nallow_private = true\nallow_http = true\ntimeout_ms = 500\nretry_first_ms = 50\nretry_longest_s = 1\n\
                    give_up_after_s = 2\n";
    let server = Server::start(&chain.url(), Settings { sections, ..Settings::default() }).await;
    let api = &server.api;
    let receiver = Receiver::start().await;
    let id = subscribe(
        api,
        &receiver,
        json!({ "events": ["tx.accepted", "tx.confirmed"], "description": "orders" }),
    )
    .await;
    receiver.behaves("fails").await;
    let mut txs = Vec::new();
    for _ in 0..3 {
        txs.push(api.submit(&transfer()).await);
    }
    let off = until_webhook(api, &id, "is disabled", |shown| shown["enabled"] == false).await;
    let why = text(&off, "trouble");
    assert!(why.contains("nothing got through") && why.contains("the receiver's database is down"), "{why}");
    assert!(off["disabledSince"].is_string() && off["description"] == "orders");
    let waiting = deliveries(api, &id, "&state=waiting").await;
    assert!(
        !waiting.is_empty() && waiting.iter().all(|row| text(row, "lastFailure").contains("500")),
        "{waiting:?}"
    );
    let metrics = api.get("/metrics").await.body;
    let metrics = until("the metrics say it", async || {
        let page = api.get("/metrics").await.body;
        let line = format!("landfall_webhook_disabled{{webhook=\"{id}\"}} 1");
        page.as_str()?.lines().any(|shown| shown == line).then_some(page.clone())
    })
    .await
    .as_str()
    .map(str::to_owned)
    .unwrap_or_else(|| metrics.to_string());
    assert!(metrics.contains("landfall_webhook_deliveries_total{result=\"failed\"}"), "{metrics}");
    assert!(server.log().contains("webhook.disabled"));
    for tx in &txs {
        api.until_state(tx, "confirmed").await;
    }
    let seen = receiver.seen().await;
    txs.push(api.submit(&transfer()).await);
    api.until_state(&txs[3], "confirmed").await;
    assert_eq!(receiver.seen().await, seen, "nothing is sent to a disabled endpoint");

    // Enabling goes on from where it was.
    receiver.behaves("well").await;
    assert_eq!(api.command(&format!("{PATH}/{id}/enable")).await.expect(200)["enabled"], true);
    until("all four are told of", async || (receiver.taken().len() >= 8).then_some(())).await;
    let first = first_taken(&receiver.taken());
    for tx in &txs {
        assert_eq!(first[tx].len(), 2, "accepted and confirmed");
    }
    let well =
        until_webhook(api, &id, "is well", |shown| shown["healthy"] == true && shown["waiting"] == 0).await;
    assert_eq!(deliveries(api, &id, "").await.len(), 0);

    // One again, and then all again: the same events with the same ids.
    let once = receiver.taken();
    let again = seq(&once[0]);
    let asked = api.command(&format!("{PATH}/{id}/deliveries/{again}/redeliver")).await.expect(202);
    assert_eq!(text(&asked, "messageId"), once[0].id);
    until("it comes again", async || {
        let taken = receiver.taken();
        (taken.len() > once.len()).then(|| assert_eq!(taken[once.len()].id, once[0].id))
    })
    .await;
    until_webhook(api, &id, "has written that down", |shown| shown["waiting"] == 0).await;
    let before = receiver.taken().len();
    api.post(&format!("{PATH}/{id}/replay"), &json!({ "after": 0 })).await.expect(200);
    until("all come again", async || (receiver.taken().len() >= before + 8).then_some(())).await;
    let ids = |taken: &[Taken]| -> BTreeSet<String> { taken.iter().map(|one| one.id.clone()).collect() };
    assert_eq!(ids(&receiver.taken()), ids(&once));
    until_webhook(api, &id, "is where it was", |shown| shown["cursor"].as_i64() >= well["cursor"].as_i64())
        .await;
    let ahead = json!({ "after": 1_000_000 });
    api.post(&format!("{PATH}/{id}/replay"), &ahead).await.expect_problem(409, "nothing_to_replay");
    api.command(&format!("{PATH}/{id}/deliveries/1000000/redeliver"))
        .await
        .expect_problem(409, "nothing_to_replay");

    // A receiver that is gone for good is not asked again.
    receiver.behaves("is gone").await;
    api.submit(&transfer()).await;
    let gone = until_webhook(api, &id, "is disabled", |shown| shown["enabled"] == false).await;
    assert!(text(&gone, "trouble").contains("410"), "{gone}");
    let remove = api.request(Method::DELETE, &format!("{PATH}/{id}"));
    api.send(remove).await.expect(200);
    api.get(&format!("{PATH}/{id}")).await.expect_problem(404, "not_found");
}

/// Moves the times that are stored of events and endpoints: as after a clock was set while the server was down.
fn set_times(server: &Server, by_ms: i64) {
    let db = rusqlite::Connection::open(server.folder().join("landfall.db")).unwrap();
    for (of, times) in [
        ("$.lastTried", &["$.due", "$.firstTried", "$.lastTried"][..]),
        ("$.progress.failingSince", &["$.progress.failingSince"]),
    ] {
        let moved: String =
            times.iter().map(|time| format!(", '{time}', json_extract(body, '{time}') + {by_ms}")).collect();
        let sql =
            format!("UPDATE record SET body = json_set(body{moved}) WHERE json_extract(body, '{of}') > 0");
        assert_eq!(db.execute(&sql, []).unwrap(), 1, "{sql}");
    }
}

#[tokio::test]
async fn stored_times_that_a_clock_made_a_year_too_late_or_too_early_neither_delay_nor_give_up_an_event() {
    const YEAR_MS: i64 = 365 * 24 * 3_600_000;
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let sections =
        "[webhooks]\nallow_private = true\nallow_http = true\nretry_first_ms = 50\nretry_longest_s = 60\n";
    let mut server = Server::start(&chain.url(), Settings { sections, ..Settings::default() }).await;
    let receiver = Receiver::start().await;
    let id = subscribe(&server.api, &receiver, json!({ "events": ["tx.accepted"] })).await;
    for by_ms in [YEAR_MS, -YEAR_MS] {
        receiver.behaves("fails").await;
        let tx = server.api.submit(&transfer()).await;
        let failures = async |server: &Server| {
            let rows = deliveries(&server.api, &id, "&state=waiting").await;
            rows.first().and_then(|row| row["failures"].as_u64())
        };
        let before = until("its event has failed twice", async || {
            failures(&server).await.filter(|failures| *failures >= 2)
        })
        .await;
        server.kill().await;
        set_times(&server, by_ms);
        server.spawn();
        server.until_ready().await;
        until("it has failed again", async || failures(&server).await.filter(|now| *now > before)).await;
        assert_eq!(webhook(&server.api, &id).await["enabled"], true, "after {by_ms} ms");
        receiver.behaves("well").await;
        until("it is delivered", async || first_taken(&receiver.taken()).contains_key(&tx).then_some(()))
            .await;
    }
}

#[tokio::test]
async fn one_event_that_cannot_be_taken_holds_back_its_own_transaction_and_nobody_else() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let sections = "[webhooks]\nallow_private = true\nallow_http = true\nretry_first_ms = 50\nretry_longest_s = 1\ngive_up_after_s = 3\n";
    let server = Server::start(&chain.url(), Settings { sections, ..Settings::default() }).await;
    let api = &server.api;
    let receiver = Receiver::start().await;
    let id = subscribe(api, &receiver, json!({})).await;
    chain.call("evm_setIntervalMining", json!([0])).await;
    let bad = api.submit(&transfer()).await;
    receiver.control(json!({ "mode": "cannot take one", "poison": format!("\"txId\":\"{bad}\"") })).await;
    // Its first event may have come before; from now on none of its does.
    let before: BTreeSet<i64> = receiver.taken().iter().map(seq).collect();
    chain.call("evm_setIntervalMining", json!([1])).await;
    let good = api.submit(&transfer()).await;
    api.until_state(&good, "confirmed").await;
    api.until_state(&bad, "confirmed").await;
    let told = told(api, [good.clone(), bad.clone()]).await;
    until("the good one's events are taken", async || {
        (first_taken(&receiver.taken()).get(&good) == told.get(&good)).then_some(())
    })
    .await;
    let rows = deliveries(api, &id, "").await;
    assert!(rows.iter().all(|row| row["txId"] == json!(bad)), "{rows:?}");
    assert!(rows.iter().any(|row| row["state"] == "held"), "later events of it wait: {rows:?}");
    // More get through meanwhile, so in the end it is the event that is given up, and not the endpoint.
    let given_up = until("an event is given up", async || {
        api.submit(&transfer()).await;
        let rows = deliveries(api, &id, "&state=given_up").await;
        rows.first().cloned()
    })
    .await;
    assert_eq!(webhook(api, &id).await["enabled"], true);
    receiver.behaves("well").await;
    let number = given_up["seq"].as_i64().unwrap();
    assert!(told[&bad].contains(&number) && !before.contains(&number));
    until("what was held back is taken", async || {
        let taken: BTreeSet<i64> = receiver.taken().iter().map(seq).collect();
        told[&bad].iter().filter(|seq| **seq > number).all(|seq| taken.contains(seq)).then_some(())
    })
    .await;
    for row in deliveries(api, &id, "&state=given_up").await {
        api.command(&format!("{PATH}/{id}/deliveries/{}/redeliver", row["seq"])).await.expect(202);
    }
    until("it is taken after all", async || {
        let taken: BTreeSet<i64> = receiver.taken().iter().map(seq).collect();
        told[&bad].iter().all(|seq| taken.contains(seq)).then_some(())
    })
    .await;
}

// covers: N9
#[tokio::test]
async fn secrets_are_rotated_without_a_gap_and_a_changed_installation_secret_is_noticed() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut server =
        Server::start(&chain.url(), Settings { sections: QUICK_WEBHOOKS, ..Settings::default() }).await;
    let receiver = Receiver::start().await;
    let id = subscribe(&server.api, &receiver, json!({ "events": ["tx.accepted"] })).await;
    let count = async |server: &Server, least: usize| {
        server.api.submit(&transfer()).await;
        until("the event is taken", async || {
            let taken = receiver.taken();
            (taken.iter().filter(|one| one.verified).count() >= least).then_some(())
        })
        .await;
        receiver.taken().last().cloned().unwrap()
    };
    assert_eq!(count(&server, 1).await.signatures, 1);
    let rotated = server.api.command(&format!("{PATH}/{id}/rotate")).await.expect(200);
    assert_eq!(rotated["retiringSecrets"][0]["generation"], 1);
    let both = count(&server, 2).await;
    assert!(both.verified && both.signatures == 2, "the receiver still has the old one");
    receiver.control(json!({ "secret": rotated["secret"] })).await;
    let new = count(&server, 3).await;
    assert!(new.verified && new.signatures == 2);
    let now =
        server.api.post(&format!("{PATH}/{id}/rotate"), &json!({ "overlapSeconds": 0 })).await.expect(200);
    receiver.control(json!({ "secret": now["secret"] })).await;
    let last = count(&server, 4).await;
    assert!(last.signatures == 2, "the first one still has its day: {last:?}");
    let sent = server.api.command(&format!("{PATH}/{id}/test")).await.expect(200);
    assert_eq!((&sent["delivered"], &sent["status"]), (&json!(true), &json!(204)), "{sent}");
    assert_eq!(receiver.taken().last().unwrap().body["type"], "webhook.test");

    // No secret is shown again, stored or logged.
    let shown = server.api.get(&format!("{PATH}/{id}")).await.expect(200).to_string();
    let store = std::fs::read(server.folder().join("landfall.db")).unwrap();
    let wal = std::fs::read(server.folder().join("landfall.db-wal")).unwrap_or_default();
    for secret in [&rotated["secret"], &now["secret"]] {
        let secret = secret.as_str().unwrap();
        let bare = secret.strip_prefix("whsec_").unwrap();
        assert!(!shown.contains(bare) && !server.log().contains(bare));
        for bytes in [&store, &wal] {
            assert!(!bytes.windows(bare.len()).any(|window| window == bare.as_bytes()));
        }
    }

    // Another installation secret: nothing is signed wrongly, and a rotation takes the new one.
    server.set(WEBHOOK_SECRET, "another secret that somebody put there by mistake");
    server.restart_after_kill().await;
    let hindered = webhook(&server.api, &id).await;
    assert!(text(&hindered, "trouble").contains("LANDFALL_WEBHOOK_SECRET"), "{hindered}");
    server.api.command(&format!("{PATH}/{id}/test")).await.expect_problem(409, "webhooks_off");
    let rotated = server.api.command(&format!("{PATH}/{id}/rotate")).await.expect(200);
    receiver.control(json!({ "secret": rotated["secret"] })).await;
    assert_eq!(count(&server, 6).await.signatures, 1);

    server.set(WEBHOOK_SECRET, "");
    server.restart_after_kill().await;
    let refused =
        server.api.post(PATH, &json!({ "url": receiver.url() })).await.expect_problem(409, "webhooks_off");
    assert!(refused.contains("LANDFALL_WEBHOOK_SECRET"), "{refused}");
    assert_eq!(webhook(&server.api, &id).await["healthy"], false);
}

// covers: N7
#[tokio::test]
async fn a_receiver_is_left_alone_as_it_asks_and_neither_redirects_nor_silence_count_as_taken() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server =
        Server::start(&chain.url(), Settings { sections: QUICK_WEBHOOKS, ..Settings::default() }).await;
    let api = &server.api;
    let receiver = Receiver::start().await;
    let id = subscribe(api, &receiver, json!({ "events": ["tx.accepted"] })).await;
    for (mode, says) in
        [("moved", "redirect"), ("hangs", "in time"), ("is busy", "429"), ("fails", "database is down")]
    {
        receiver.behaves(mode).await;
        let sent = api.command(&format!("{PATH}/{id}/test")).await.expect(200);
        assert_eq!(sent["delivered"], false);
        assert!(text(&sent, "failure").contains(says), "{sent}");
    }
    assert_eq!(receiver.taken().len(), 0);
    receiver.behaves("hangs").await;
    let waiting = api.submit(&transfer()).await;
    api.until_state(&waiting, "confirmed").await;
    receiver.behaves("well").await;
    until("what hung is taken", async || (receiver.taken().len() == 1).then_some(())).await;
    receiver.behaves("is busy").await;
    let before = receiver.seen().await.unwrap();
    api.submit(&transfer()).await;
    until("it is asked", async || (receiver.seen().await? > before).then_some(())).await;
    receiver.behaves("well").await;
    let asked = tokio::time::Instant::now();
    until("it is taken", async || (receiver.taken().len() == 2).then_some(())).await;
    assert!(asked.elapsed() > Duration::from_millis(500), "it asked for a second");
}

#[tokio::test]
async fn addresses_that_only_the_server_can_reach_are_refused_and_so_is_nonsense() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    for url in [
        "https://127.0.0.1/hook",
        "https://[::1]/",
        "https://10.1.2.3/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::ffff:192.168.0.1]/",
        "https://2130706433/",
        "http://example.com/",
        "ftp://example.com/",
        "https://user:password@example.com/",
        "nonsense",
        "",
    ] {
        let why = api.post(PATH, &json!({ "url": url })).await.expect_problem(422, "bad_url");
        assert!(!why.contains("password@"), "{why}");
    }
    // What a name leads to is looked at when it is sent.
    let made = api.post(PATH, &json!({ "url": "https://localhost:1/" })).await.expect(201);
    let sent = api.command(&format!("{PATH}/{}/test", text(&made, "id"))).await.expect(200);
    assert!(text(&sent, "failure").contains("allow_private"), "{sent}");
    for (body, status, code) in [
        (json!({}), 400, "missing_field"),
        (json!({ "url": 7 }), 400, "wrong_type"),
        (json!({ "url": "https://example.com/", "events": ["tx.exploded"] }), 400, "bad_value"),
        (json!({ "url": "https://example.com/", "events": "tx.mined" }), 400, "wrong_type"),
        (json!({ "url": "https://example.com/", "signers": ["0x12"] }), 400, "bad_address"),
        (json!({ "url": "https://example.com/", "chains": ["one"] }), 400, "wrong_type"),
        (json!({ "url": "https://example.com/", "colour": "blue" }), 400, "unknown_field"),
    ] {
        api.post(PATH, &body).await.expect_problem(status, code);
    }
    api.get(&format!("{PATH}/wh_none")).await.expect_problem(404, "not_found");
    let id = text(&made, "id");
    api.get(&format!("{PATH}/{id}/deliveries?state=lost")).await.expect_problem(400, "bad_query");
    let change = api.request(Method::PATCH, &format!("{PATH}/{id}"));
    let changed =
        api.send(change.json(&json!({ "url": "https://example.com/", "chains": [1] }))).await.expect(200);
    assert_eq!((&changed["url"], &changed["chains"]), (&json!("https://example.com/"), &json!([1])));
}

#[tokio::test]
async fn the_command_line_makes_shows_tests_and_replays() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server =
        Server::start(&chain.url(), Settings { sections: QUICK_WEBHOOKS, ..Settings::default() }).await;
    let receiver = Receiver::start().await;
    let landfall = async |args: &[&str]| {
        let mut command = program(server.folder());
        command.arg("webhook").args(args).args(["--url", server.api.url(), "--json"]);
        let output = run(command).await;
        assert_eq!(output.code, Some(0), "{}", output.said);
        serde_json::from_str::<Value>(&output.stdout).expect("JSON")
    };
    let made = landfall(&["create", &receiver.url(), "--event", "tx.confirmed"]).await;
    let id = text(&made, "id");
    receiver.control(json!({ "secret": made["secret"] })).await;
    assert_eq!(landfall(&["test", &id]).await["delivered"], true);
    let tx = server.api.submit(&submission(json!({ "to": RECEIVER }))).await;
    until("it is told of", async || {
        let taken = receiver.taken();
        taken.iter().any(|one| one.body["data"]["txId"] == json!(tx)).then_some(())
    })
    .await;
    assert_eq!(landfall(&["list"]).await["items"].as_array().unwrap().len(), 1);
    assert_eq!(landfall(&["disable", &id]).await["enabled"], false);
    assert_eq!(landfall(&["enable", &id]).await["enabled"], true);
    until_webhook(&server.api, &id, "is written", |shown| shown["behind"] == 0).await;
    let count = receiver.taken().len();
    landfall(&["replay", &id, "--after", "0"]).await;
    until("it comes again", async || (receiver.taken().len() > count).then_some(())).await;
    assert!(landfall(&["rotate", &id, "--overlap", "60"]).await["secret"].is_string());
    assert!(landfall(&["deliveries", &id]).await["items"].is_array());
    assert_eq!(landfall(&["delete", &id]).await["deleted"], true);
}

// covers: N4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_goes_on_when_the_one_that_delivers_is_killed() {
    let database = Database::any();
    let mut nodes = Nodes::start(2, &database.url, 2, (3.0, 1.0, 1.0)).await;
    nodes.chain.mine_every(1).await;
    let receiver = Receiver::start().await;
    let id = subscribe(nodes.api(0), &receiver, json!({})).await;
    receiver.behaves("everything goes wrong at times").await;
    let mut ids: Vec<String> = nodes.hand_over(&[0, 1], 100).await.into_values().collect();
    let shown = until_webhook(nodes.api(0), &id, "is carried", |shown| shown["node"].is_string()).await;
    until("some are taken", async || (receiver.taken().len() > 50).then_some(())).await;
    let carrier = usize::from(shown["node"] == "b");
    let other = 1 - carrier;
    nodes.nodes[carrier].server.kill().await;
    ids.extend(nodes.hand_over(&[other], 50).await.into_values());
    nodes.api(other).until_all_done(Duration::from_secs(60)).await;
    let told = told(nodes.api(other), ids).await;
    until("every event is taken", async || (first_taken(&receiver.taken()) == told).then_some(())).await;
    assert!(receiver.taken().iter().all(|one| one.verified));
    let name = nodes.nodes[other].name.clone();
    assert_eq!(text(&webhook(nodes.api(other), &id).await, "node"), name);
}

#[tokio::test]
async fn listeners_have_places_of_their_own() {
    let chain = Chain::without_mining().await;
    let server =
        Server::start(&chain.url(), Settings { server: "max_listeners = 2", ..Settings::default() }).await;
    let url = format!("{}/api/v1/events", server.api.url());
    let listen = async || crate::support::http_client().get(&url).send().await.unwrap();
    let (one, two) = (listen().await, listen().await);
    let refused = server.api.get("/api/v1/events").await.expect_problem(503, "too_many_listeners");
    assert!(refused.contains("server.max_listeners"), "{refused}");
    server.api.get("/api/v1/lanes").await.expect(200);
    drop(one);
    until("a place is free again", async || (listen().await.status() == 200).then_some(())).await;
    drop(two);
}

// covers: N3
#[tokio::test]
async fn a_transaction_of_several_attempts_is_signed_mined_and_confirmed_once() {
    let chain = Chain::without_mining().await;
    let settings = Settings { sections: QUICK_WEBHOOKS, ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let api = &server.api;
    let receiver = Receiver::start().await;
    subscribe(api, &receiver, json!({})).await;
    let tx = api.submit(&transfer()).await;
    api.until_state(&tx, "broadcast").await;
    for attempts in 2..4 {
        api.command(&format!("/api/v1/tx/{tx}/speed-up")).await.expect(202);
        api.until_tx(&tx, "there is a dearer attempt", |shown| {
            shown["attempts"].as_array().is_some_and(|all| all.len() == attempts)
        })
        .await;
    }
    chain.mine(3).await;
    api.until_state(&tx, "confirmed").await;
    let names = until("its end is told", async || {
        let names: Vec<String> = receiver.taken().iter().map(|one| text(&one.body, "type")).collect();
        names.contains(&"tx.confirmed".to_owned()).then_some(names)
    })
    .await;
    for name in ["tx.accepted", "tx.signed", "tx.mined", "tx.confirmed"] {
        assert_eq!(names.iter().filter(|told| *told == name).count(), 1, "{names:?}");
    }
    let last = receiver.taken().pop().unwrap();
    assert_eq!(last.body["data"]["state"], "confirmed", "the state after the event is told with it");
}

// covers: N8
#[tokio::test]
async fn a_listener_that_never_reads_holds_up_nobody() {
    use tokio::io::AsyncWriteExt as _;
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let server = Server::start(&chain.url(), Settings { max_in_flight: 300, ..Settings::default() }).await;
    let at = server.api.url().strip_prefix("http://").unwrap();
    let mut dead = tokio::net::TcpStream::connect(at).await.unwrap();
    let ask = format!("GET /api/v1/events?after=0 HTTP/1.1\r\nhost: {at}\r\n\r\n");
    dead.write_all(ask.as_bytes()).await.unwrap();
    let ear = Ear::at(format!("{}/api/v1/events", server.api.url()));
    let ids = hand_over(&server.api, 0, 300, 1).await;
    server.api.until_all_done(Duration::from_secs(60)).await;
    let told = told(&server.api, ids).await;
    let all: usize = told.values().map(Vec::len).sum();
    until("the other one hears everything", async || (ear.heard().len() >= all).then_some(())).await;
    drop(dead);
}
