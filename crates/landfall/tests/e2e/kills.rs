//! Servers die again and again, at moments nobody chose, and everything lands exactly once.
//!
//! Half of the transactions come over REST under their own keys, half over JSON-RPC under nonces that their caller chose. Callers
//! hand each over again, at whatever node is there, until it is acknowledged; and some once more after that.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::support::{
    Answer, Api, CHAIN_ID, Chain, Database, RECEIVER, Server, Settings, marker, number_of, pass, signer,
    text, until_within,
};

const SIGNERS: u64 = 6;
const CALLERS: u64 = 8;
/// How far callers may be ahead of the chain: some are being admitted all the time, until the end.
const AHEAD: u64 = 400;
/// Every so many acknowledged calls are made once more.
const ONCE_MORE: u64 = 16;

/// The variable that fixes the moments.
const SEED: &str = "LANDFALL_KILL_SEED";

/// How much is asked of a run.
#[derive(Clone, Copy)]
struct Scale {
    count: u64,
    kills: u64,
    limit: Duration,
}

impl Scale {
    /// Twenty thousand and three hundred kills where tests may take long, otherwise so many.
    fn of(count: u64, kills: u64) -> Self {
        if std::env::var_os("LANDFALL_THOROUGH").is_some() {
            Self { count: 20_000, kills: 300, limit: Duration::from_secs(1_500) }
        } else {
            Self { count, kills, limit: Duration::from_secs(240) }
        }
    }
}

/// One transaction of the run: its number says everything about it.
#[derive(Clone, Copy)]
struct Asked(u64);

impl Asked {
    fn signer(self) -> String {
        signer(usize::try_from(self.0 % SIGNERS).unwrap())
    }

    /// The nonce that its caller gives, where it comes over JSON-RPC.
    fn nonce(self) -> Option<u64> {
        let place = self.0 / SIGNERS;
        (place % 2 == 1).then_some(place / 2)
    }

    fn rest(self) -> Value {
        json!({
            "chainId": CHAIN_ID,
            "signer": self.signer(),
            "requestId": format!("kills-{}", self.0),
            "payload": { "to": RECEIVER, "value": "0", "data": marker(self.0), "gas": 30_000 },
        })
    }

    fn rpc(self, nonce: u64) -> Value {
        let call = json!({
            "from": self.signer(), "to": RECEIVER, "value": "0x0", "data": marker(self.0), "gas": "0x7530",
            "nonce": format!("{nonce:#x}"),
        });
        json!({ "jsonrpc": "2.0", "id": self.0, "method": "eth_sendTransaction", "params": [call] })
    }
}

/// Everything that the callers, the chain's counter and the killer share.
struct Run {
    scale: Scale,
    nodes: Vec<Api>,
    acknowledged: AtomicU64,
    landed: AtomicU64,
    killed: AtomicU64,
    /// Which node is asked next.
    turn: AtomicU64,
}

impl Run {
    fn node(&self) -> &Api {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.nodes[usize::try_from(turn).unwrap() % self.nodes.len()]
    }

    /// Hands one over until it is acknowledged: what its caller is told, an id or a hash.
    async fn hand_over(&self, asked: Asked) -> String {
        until_within(self.scale.limit, format!("transaction {} is acknowledged", asked.0), async || {
            match asked.nonce() {
                None => self.try_rest(asked).await,
                Some(nonce) => self.try_rpc(asked, nonce).await,
            }
        })
        .await
    }

    async fn try_rest(&self, asked: Asked) -> Option<String> {
        let api = self.node();
        let request = api.request(reqwest::Method::POST, "/api/v1/tx").json(&asked.rest());
        let Answer { status, body, .. } = api.try_send(request.timeout(Duration::from_secs(10))).await?;
        assert!([200, 202, 503].contains(&status), "{body}");
        (status != 503).then(|| text(&body, "txId"))
    }

    async fn try_rpc(&self, asked: Asked, nonce: u64) -> Option<String> {
        let api = self.node();
        let path = format!("/rpc/{CHAIN_ID}");
        let request = api.request(reqwest::Method::POST, &path).json(&asked.rpc(nonce));
        let Answer { status, body, .. } = api.try_send(request.timeout(Duration::from_secs(15))).await?;
        if status == 503 {
            return None;
        }
        assert_eq!(status, 200, "{body}");
        if let Some(hash) = body["result"].as_str() {
            return Some(hash.to_owned());
        }
        // Not accepted, taken back, or not known: in each case the same call is to be made again.
        let code = text(&body["error"]["data"], "code");
        assert!(
            ["no_slot", "outcome_unknown", "unavailable", "store_unavailable"].contains(&code.as_str()),
            "{body}"
        );
        None
    }

    /// One caller: its share of the transactions, one after the other; what it was told of each.
    async fn call(&self, caller: u64) -> Vec<(u64, String)> {
        let mut told = Vec::new();
        let limit = self.scale.limit;
        for number in (0..self.scale.count).filter(|number| number / SIGNERS % CALLERS == caller) {
            until_within(limit, "the chain and the kills keep up", async || {
                let ahead = self.acknowledged.load(Ordering::Relaxed);
                let Scale { count, kills, .. } = self.scale;
                // Something is left for every kill, however quickly everything lands.
                let share = count * (self.killed.load(Ordering::Relaxed) + 1) / (kills + 1);
                (ahead < share.min(self.landed.load(Ordering::Relaxed) + AHEAD)).then_some(())
            })
            .await;
            let first = self.hand_over(Asked(number)).await;
            if number % ONCE_MORE == 0 || number % ONCE_MORE == SIGNERS {
                assert_eq!(self.hand_over(Asked(number)).await, first, "{number} was acknowledged before");
            }
            told.push((number, first));
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        told
    }

    /// Counts what lands, block by block, until everything has.
    async fn count(&self, chain: &Chain) {
        let mut next = 0;
        until_within(self.scale.limit, "everything lands", async || {
            for landed in chain.landed_since(next).await {
                next = landed.block + 1;
                if number_of(&landed).is_some() {
                    self.landed.fetch_add(1, Ordering::Relaxed);
                }
            }
            (self.landed.load(Ordering::Relaxed) >= self.scale.count).then_some(())
        })
        .await;
    }

    /// Kills a server at random moments spread over the run, and starts it again each time.
    async fn kill(&self, servers: &mut [Server], random: &mut StdRng) {
        let Scale { count, kills, limit } = self.scale;
        for kill in 0..kills {
            until_within(limit, format!("there is work under way for kill {kill}"), async || {
                (self.landed.load(Ordering::Relaxed) >= count * kill / (kills + 2)).then_some(())
            })
            .await;
            // From the very start of a process to well into its work.
            pass(Duration::from_millis(random.random_range(0..1_200))).await;
            let left = count - self.landed.load(Ordering::Relaxed).min(count);
            assert!(left > 0, "kill {kill} comes while work is under way");
            let server = &mut servers[random.random_range(0..self.nodes.len())];
            server.kill().await;
            server.spawn();
            self.killed.fetch_add(1, Ordering::Relaxed);
        }
        for server in servers {
            server.until_ready().await;
        }
    }
}

/// Runs it, and asks the chain and the store what became of everything.
async fn each_lands_once(chain: Chain, mut servers: Vec<Server>, scale: Scale, mut random: StdRng) {
    let run = Run {
        scale,
        nodes: servers.iter().map(|server| server.api.clone()).collect(),
        acknowledged: AtomicU64::new(0),
        landed: AtomicU64::new(0),
        killed: AtomicU64::new(0),
        turn: AtomicU64::new(0),
    };
    let callers = join_all((0..CALLERS).map(|caller| run.call(caller)));
    let ((), told, ()) = futures::join!(run.kill(&mut servers, &mut random), callers, run.count(&chain));
    let told: BTreeMap<u64, String> = told.into_iter().flatten().collect();
    let api = &servers[0].api;
    api.until_all_done(Duration::from_secs(120)).await;
    // Everything that was acknowledged is asked for once more, the last first: nothing new comes of it.
    for (number, first) in told.iter().rev().take(500) {
        assert_eq!(&run.hand_over(Asked(*number)).await, first, "{number} was acknowledged before");
    }
    api.until_all_done(Duration::from_secs(120)).await;

    let hashes = landed_once(&chain, scale.count).await;
    stored_as_told(api, scale.count, &told, &hashes).await;
}

/// The chain: each transaction once, each signer's nonces without a gap, and nothing else. The hash of each.
async fn landed_once(chain: &Chain, count: u64) -> BTreeMap<u64, String> {
    let mut times: BTreeMap<u64, u64> = (0..count).map(|number| (number, 0)).collect();
    let mut nonces: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut hashes = BTreeMap::new();
    for landed in chain.landed().await {
        let number = number_of(&landed).expect("only what was asked for is on chain");
        *times.get_mut(&number).expect("only what was asked for is on chain") += 1;
        nonces.entry(landed.from).or_default().push(landed.nonce);
        hashes.insert(number, landed.hash);
    }
    let not_once: Vec<_> = times.iter().filter(|(_, times)| **times != 1).collect();
    assert!(not_once.is_empty(), "landed not exactly once: {not_once:?}");
    assert_eq!(nonces.len() as u64, SIGNERS);
    for (signer, nonces) in nonces {
        let all: Vec<u64> = (0..nonces.len() as u64).collect();
        assert_eq!(nonces, all, "{signer}: no gap and no repeat");
    }
    hashes
}

/// The store: all confirmed, under the ids that callers were told, with the hashes that landed. A call over JSON-RPC may
/// have been taken back before it had a nonce, and was made anew.
async fn stored_as_told(api: &Api, count: u64, told: &BTreeMap<u64, String>, hashes: &BTreeMap<u64, String>) {
    let all = api.list("").await;
    let (confirmed, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|tx| text(tx, "state") == "confirmed");
    assert_eq!(confirmed.len() as u64, count);
    for tx in others {
        assert_eq!((text(&tx, "state").as_str(), &tx["hash"]), ("cancelled", &Value::Null), "{tx:#}");
        assert!(text(&tx, "requestId").is_empty(), "nothing under a key is taken back: {tx:#}");
    }
    for tx in &confirmed {
        let id = text(tx, "requestId");
        let Some(number) = id.strip_prefix("kills-").and_then(|number| number.parse::<u64>().ok()) else {
            continue;
        };
        assert_eq!((&text(tx, "txId"), &text(tx, "hash")), (&told[&number], &hashes[&number]));
    }
    // Whatever won, the hash that a caller was told leads to it.
    for (number, hash) in told.iter().filter(|(number, _)| Asked(**number).nonce().is_some()).take(100) {
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getTransactionReceipt", "params": [hash] });
        let answer = api.post(&format!("/rpc/{CHAIN_ID}"), &body).await.expect(200);
        assert_eq!(text(&answer["result"], "transactionHash"), hashes[number], "{number}: {answer}");
    }
}

fn moments() -> StdRng {
    let given = std::env::var(SEED).ok().map(|text| text.parse().expect("a whole number"));
    let seed: u64 = given.unwrap_or_else(rand::random);
    eprintln!("to kill at the same moments again: {SEED}={seed}");
    StdRng::seed_from_u64(seed)
}

/// So many in flight at once that a block a second keeps the work going for as long as the kills do.
fn settings() -> Settings {
    Settings { signers: SIGNERS as usize, finality: 2, max_in_flight: 16, ..Settings::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_lands_exactly_once_while_the_server_is_killed_at_random_moments() {
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let server = Server::start(&chain.url(), settings()).await;
    each_lands_once(chain, vec![server], Scale::of(2_000, 20), moments()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_lands_exactly_once_while_two_nodes_on_postgres_are_killed_at_random_moments() {
    let database = Database::any();
    let chain = Chain::with_blocks_every(Duration::from_secs(1)).await;
    let namespace = format!("namespace = \"kills-{}\"", chain.url().replace(['/', ':', '.'], "-"));
    let namespace: &'static str = Box::leak(namespace.into_boxed_str());
    let mut servers = Vec::new();
    for name in ["a", "b"] {
        let settings = Settings {
            node: name.to_owned(),
            store_url: database.url.clone(),
            store: namespace,
            lease: (2.0, 0.5, 0.5),
            ..settings()
        };
        servers.push(Server::start(&chain.url(), settings).await);
    }
    each_lands_once(chain, servers, Scale::of(900, 10), moments()).await;
}
