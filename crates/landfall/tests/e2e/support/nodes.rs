//! Several servers on one database and one chain, each behind lines of its own, and what they are to land.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use super::{
    Answer, Api, CHAIN_ID, Chain, Line, QUICK_WEBHOOKS, RECEIVER, Server, Settings, marker, number_of,
    signer, text, until,
};

/// How many transactions are handed over in one request, and how many requests at once.
const BATCH: u64 = 25;
const AT_ONCE: usize = 8;

/// One server with its lines.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) database: Line,
    pub(crate) rpc: Line,
}

pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Node>,
    pub(crate) chain: Chain,
    lanes: u64,
    next: AtomicU64,
}

impl Nodes {
    /// Starts servers `a`, `b`, … on a database, for this many lanes. The chain mines when told.
    pub(crate) async fn start(count: usize, database: &str, lanes: u64, lease: (f64, f64, f64)) -> Self {
        let chain = Chain::without_mining().await;
        // A namespace of its own, in a database that others may use as well: another test may get the same port later.
        let (url, process) = (chain.url().replace(['/', ':', '.'], "-"), std::process::id());
        let namespace = format!("namespace = \"{url}-{process}\"");
        let namespace: &'static str = Box::leak(namespace.into_boxed_str());
        let starting = (0..count).map(async |n| {
            let (database, store_url) = Line::before(database).await;
            let (rpc, url) = Line::before(&chain.url()).await;
            let name = char::from(b'a' + u8::try_from(n).unwrap()).to_string();
            let settings = Settings {
                signers: usize::try_from(lanes).unwrap(),
                node: name.clone(),
                store_url,
                store: namespace,
                lease,
                max_in_flight: 1_200 / lanes,
                resubmit_after_s: 5,
                sections: QUICK_WEBHOOKS,
                ..Settings::default()
            };
            Node { name, server: Server::start(&url, settings).await, database, rpc }
        });
        let nodes = join_all(starting).await;
        Self { nodes, chain, lanes, next: AtomicU64::new(0) }
    }

    pub(crate) fn api(&self, node: usize) -> &Api {
        &self.nodes[node].server.api
    }

    pub(crate) fn body(&self, number: u64) -> Value {
        json!({
            "chainId": CHAIN_ID,
            "signer": signer(usize::try_from(number % self.lanes).unwrap()),
            "requestId": format!("cluster-{number}"),
            "payload": { "to": RECEIVER, "value": "0", "data": marker(number), "gas": 30_000 },
        })
    }

    /// A number that nobody else hands over.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// Hands so many more over through these nodes, each again and again until it is acknowledged; their ids.
    pub(crate) async fn hand_over(&self, through: &[usize], count: u64) -> BTreeMap<u64, String> {
        let first = self.next.fetch_add(count, Ordering::SeqCst);
        let numbers: Vec<u64> = (first..first + count).collect();
        let batches: Vec<(usize, Vec<u64>)> =
            numbers.chunks(usize::try_from(BATCH).unwrap()).map(<[u64]>::to_vec).enumerate().collect();
        let taken = stream::iter(batches).map(|(n, batch)| self.hand_over_batch(through, n, batch));
        taken.buffer_unordered(AT_ONCE).flat_map(stream::iter).collect().await
    }

    async fn hand_over_batch(&self, through: &[usize], n: usize, batch: Vec<u64>) -> BTreeMap<u64, String> {
        let mut tries = n;
        let mut taken = BTreeMap::new();
        until(format!("{} to {:?} are acknowledged", batch[0], batch.last()), async || {
            let api = self.api(through[tries % through.len()]);
            tries += 1;
            let left: Vec<u64> = batch.iter().copied().filter(|number| !taken.contains_key(number)).collect();
            let items: Vec<Value> = left.iter().map(|number| self.body(*number)).collect();
            let request = api.request(reqwest::Method::POST, "/api/v1/tx/batch").json(&items);
            let Answer { body, .. } = api.try_send(request.timeout(Duration::from_secs(10))).await?;
            for (number, item) in left.iter().zip(body["items"].as_array().into_iter().flatten()) {
                match item["status"].as_u64() {
                    Some(200 | 202) => drop(taken.insert(*number, text(item, "txId"))),
                    Some(500..=599) => {}
                    _ => panic!("{number} is refused: {item}"),
                }
            }
            (taken.len() == batch.len()).then_some(())
        })
        .await;
        taken
    }

    /// Who has which lane, as a node sees it.
    pub(crate) async fn owners(&self, seen_by: usize) -> BTreeMap<String, (String, u64)> {
        let api = self.api(seen_by);
        let Some(lanes) = api.try_send(api.request(reqwest::Method::GET, "/api/v1/lanes")).await else {
            return BTreeMap::new();
        };
        let items = lanes.body["items"].as_array().cloned().unwrap_or_default();
        let owner = |lane: &Value| (text(&lane["owner"], "node"), lane["token"].as_u64().unwrap_or(0));
        items.iter().map(|lane| (text(lane, "signer"), owner(lane))).collect()
    }

    /// The node that has most lanes, none of those in `but`.
    pub(crate) async fn busiest(&self, seen_by: usize, but: &[usize]) -> usize {
        let owners = self.owners(seen_by).await;
        let count = |n: &usize| owners.values().filter(|(owner, _)| *owner == self.nodes[*n].name).count();
        let busiest = (0..self.nodes.len()).filter(|n| !but.contains(n)).max_by_key(count).unwrap();
        assert!(count(&busiest) > 0, "nobody has a lane: {owners:?}");
        busiest
    }

    /// Waits until all lanes are with one of these nodes.
    pub(crate) async fn until_owned_by(&self, nodes: &[usize]) {
        let names: BTreeSet<&str> = nodes.iter().map(|n| self.nodes[*n].name.as_str()).collect();
        until(format!("all lanes are with {names:?}"), async || {
            let owners = self.owners(nodes[0]).await;
            let here = owners.values().filter(|(owner, _)| names.contains(owner.as_str())).count();
            (here as u64 == self.lanes).then_some(())
        })
        .await;
    }

    /// How often writes of a node were refused because the lane was another's.
    pub(crate) async fn fenced(&self, node: usize) -> u64 {
        let ready = self.api(node).get("/health/ready").await;
        ready.body["leases"]["fenced"].as_u64().expect("a count")
    }

    /// Waits until the pool holds at least so many.
    pub(crate) async fn until_in_flight(&self, least: u64) {
        until(format!("{least} are in flight"), async || (self.chain.pooled().await >= least).then_some(()))
            .await;
    }

    /// Waits until all is done, and asks the chain: each exactly once by its marker, no slot left out or used twice.
    pub(crate) async fn until_landed(&self, seen_by: usize) {
        self.api(seen_by).until_all_done(Duration::from_secs(90)).await;
        let landed = self.chain.landed().await;
        let count = self.next.load(Ordering::SeqCst);
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        for number in landed.iter().filter_map(number_of) {
            *times.entry(number).or_default() += 1;
        }
        let wrong: Vec<(u64, u64)> = (0..count)
            .map(|number| (number, times.get(&number).copied().unwrap_or(0)))
            .filter(|(_, times)| *times != 1)
            .collect();
        assert!(wrong.is_empty(), "each lands exactly once; these (number, times) do not: {wrong:?}");
        let mut slots: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for landed in &landed {
            slots.entry(&landed.from).or_default().push(landed.nonce);
        }
        for (signer, slots) in slots {
            let all: Vec<u64> = (0..slots.len() as u64).collect();
            assert_eq!(slots, all, "{signer} uses its slots in order, each once, without a gap");
        }
    }

    /// Every one of these is known as what it was acknowledged as.
    pub(crate) async fn assert_known(&self, seen_by: usize, taken: &BTreeMap<u64, String>) {
        let api = self.api(seen_by);
        let known: BTreeMap<String, String> =
            api.list("").await.iter().map(|tx| (text(tx, "requestId"), text(tx, "txId"))).collect();
        for (number, id) in taken {
            assert_eq!(known.get(&format!("cluster-{number}")), Some(id), "{number} was acknowledged");
        }
    }
}
