//! The process dies again and again, at moments nobody chose, and everything lands exactly once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::support::{
    Answer, Api, CHAIN_ID, Chain, RECEIVER, Server, Settings, marker, number_of, pass, signer, text, until,
    until_within,
};

const COUNT: u64 = 2_000;
const SIGNERS: u64 = 4;
const CALLERS: u64 = 8;
const KILLS: u64 = 20;
/// How far callers may be ahead of the chain: some are being admitted all the time, until the end.
const AHEAD: u64 = 400;

/// The variable that fixes the moments.
const SEED: &str = "LANDFALL_KILL_SEED";

fn body(number: u64) -> Value {
    json!({
        "chainId": CHAIN_ID,
        "signer": signer(usize::try_from(number % SIGNERS).unwrap()),
        "requestId": format!("kills-{number}"),
        "payload": { "to": RECEIVER, "value": "0", "data": marker(number), "gas": 30_000 },
    })
}

/// How far the run has come.
#[derive(Default)]
struct Progress {
    acknowledged: AtomicU64,
    landed: AtomicU64,
}

/// Hands over one transaction, again and again with the same key, until it is acknowledged.
async fn hand_over(api: &Api, number: u64) -> String {
    let body = body(number);
    let taken = until(format!("transaction {number} is acknowledged"), async || {
        let request = api.request(reqwest::Method::POST, "/api/v1/tx").json(&body);
        let Answer { status, body, .. } = api.try_send(request).await?;
        assert!([200, 202, 503].contains(&status), "{body}");
        (status != 503).then_some(body)
    });
    text(&taken.await, "txId")
}

/// One caller: its share of the transactions, one after the other; what it was told of each.
async fn call(api: &Api, progress: &Progress, caller: u64) -> Vec<(u64, String)> {
    let mut told = Vec::new();
    for number in (0..COUNT).filter(|number| number / SIGNERS % CALLERS == caller) {
        until("the chain keeps up", async || {
            let ahead = progress.acknowledged.load(Ordering::Relaxed);
            (ahead < progress.landed.load(Ordering::Relaxed) + AHEAD).then_some(())
        })
        .await;
        told.push((number, hand_over(api, number).await));
        progress.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    told
}

/// Counts what lands, block by block, until everything has.
async fn count(chain: &Chain, progress: &Progress) {
    let mut next = 0;
    until_within(Duration::from_secs(240), "everything lands", async || {
        for landed in chain.landed_since(next).await {
            next = landed.block + 1;
            if number_of(&landed).is_some() {
                progress.landed.fetch_add(1, Ordering::Relaxed);
            }
        }
        (progress.landed.load(Ordering::Relaxed) >= COUNT).then_some(())
    })
    .await;
}

/// Kills the server at random moments spread over the run, and starts it again each time.
async fn kill(server: &mut Server, progress: &Progress, random: &mut StdRng) {
    for kill in 0..KILLS {
        until(format!("there is work under way for kill {kill}"), async || {
            (progress.landed.load(Ordering::Relaxed) >= COUNT * kill / (KILLS + 2)).then_some(())
        })
        .await;
        // From the very start of a process to well into its work.
        let moment = Duration::from_millis(random.random_range(0..1_200));
        pass(moment).await;
        assert!(progress.landed.load(Ordering::Relaxed) < COUNT, "kill {kill} comes while work is under way");
        server.kill().await;
        server.spawn();
    }
    server.until_ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_transactions_land_exactly_once_while_the_server_is_killed_at_twenty_random_moments() {
    let given = std::env::var(SEED).ok().map(|text| text.parse().expect("a whole number"));
    let seed: u64 = given.unwrap_or_else(rand::random);
    eprintln!("to kill at the same moments again: {SEED}={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    // 64 in flight at once, so that a block a second keeps the work going for as long as the kills do.
    let settings =
        Settings { signers: SIGNERS as usize, finality: 2, max_in_flight: 16, ..Settings::default() };
    let mut server = Server::start(&chain.url(), settings).await;
    let api = server.api.clone();
    let progress = Progress::default();

    let callers = join_all((0..CALLERS).map(|caller| call(&api, &progress, caller)));
    let ((), told, ()) =
        futures::join!(kill(&mut server, &progress, &mut random), callers, count(&chain, &progress));
    api.until_all_done(Duration::from_secs(60)).await;

    // The chain: each transaction once, each signer's slots without a gap, and nothing else.
    let landed = chain.landed().await;
    let mut times: BTreeMap<u64, u64> = (0..COUNT).map(|number| (number, 0)).collect();
    let mut slots: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for landed in &landed {
        let number = number_of(landed).expect("only what was asked for is on chain");
        *times.get_mut(&number).expect("only what was asked for is on chain") += 1;
        slots.entry(landed.from.clone()).or_default().push(landed.nonce);
    }
    let not_once: Vec<_> = times.iter().filter(|(_, times)| **times != 1).collect();
    assert!(not_once.is_empty(), "landed not exactly once: {not_once:?}");
    assert_eq!(slots.len() as u64, SIGNERS);
    for (signer, slots) in slots {
        assert_eq!(slots, (0..COUNT / SIGNERS).collect::<Vec<_>>(), "{signer}: no gap and no repeat");
    }

    // The store: all confirmed, under the ids that callers were told, with the hashes that landed.
    let ids: BTreeMap<u64, String> = told.into_iter().flatten().collect();
    let confirmed = api.list("&state=confirmed").await;
    assert_eq!(confirmed.len() as u64, COUNT);
    assert_eq!(api.list("").await.len() as u64, COUNT, "there is nothing that is not confirmed");
    let hashes: BTreeMap<u64, &str> =
        landed.iter().filter_map(|landed| Some((number_of(landed)?, landed.hash.as_str()))).collect();
    for tx in &confirmed {
        let number: u64 = text(tx, "requestId").strip_prefix("kills-").unwrap().parse().unwrap();
        assert_eq!((text(tx, "txId"), text(tx, "hash").as_str()), (ids[&number].clone(), hashes[&number]));
    }
}
