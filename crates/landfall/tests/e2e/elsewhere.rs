//! Lanes that another node runs: any node says what they are on hold for or who can, and nobody goes on without having looked.

use std::time::Duration;

use serde_json::{Value, json};

use crate::backup::{command, land, landed, once, request};
use crate::support::{Chain, Output, RECEIVER, Restored, Server, Settings, marker, signer, text, until};

/// Two servers on one database.
struct Pair([Server; 2]);

const NAMES: [&str; 2] = ["one", "two"];

fn settings(database: &Restored, node: &str) -> Settings {
    let lease = (2.0, 0.5, 0.2);
    Settings { store_url: database.url(), lease, node: node.to_owned(), ..Settings::default() }
}

impl Pair {
    /// The first server is started again, and a second one.
    async fn of(mut one: Server, chain: &Chain, database: &Restored) -> Self {
        one.spawn();
        one.until_ready().await;
        let two = Server::start(&chain.url(), settings(database, NAMES[1])).await;
        Self([one, two])
    }

    /// The node that runs the lane and has looked at it.
    async fn owner(&self) -> usize {
        until("one of them has looked at the lane", async || {
            for (n, server) in self.0.iter().enumerate() {
                let lane = server.api.lane(&signer(0)).await;
                if lane["unknownNonces"].is_array() && text(&lane["owner"], "node") == NAMES[n] {
                    return Some(n);
                }
            }
            None
        })
        .await
    }

    /// Runs a command through the owner, or through the other. A lane may move when a node has come: then it is run again.
    async fn run(&self, through_owner: bool, args: &[&str]) -> (Output, &Server) {
        until("a command is run while the lane stays where it is", async || {
            let owner = self.owner().await;
            let through = if through_owner { owner } else { 1 - owner };
            let output = command(&self.0[through], args).await;
            let is_there = output.ok() || self.owner().await == owner;
            is_there.then_some((output, &self.0[owner]))
        })
        .await
    }
}

fn says_where(said: &str, owner: &Server) -> bool {
    said.contains(&format!("runs it: ask {}", owner.api.url()))
}

#[tokio::test]
async fn an_older_copy_is_not_accepted_through_a_node_that_has_not_looked_at_its_lanes() {
    let database = Restored::new().await;
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut one = Server::start(&chain.url(), settings(&database, NAMES[0])).await;
    land(&one, 0..1).await;
    one.kill().await;
    database.back_up().await;
    one.spawn();
    one.until_ready().await;
    land(&one, 1..3).await;
    one.kill().await;
    database.put_back().await;
    let pair = Pair::of(one, &chain, &database).await;
    let api = pair.0[0].api.clone();
    let mut forgotten = Vec::new();
    for n in 1..3 {
        forgotten.push(api.submit(&request(n)).await);
    }
    let (asked, owner) = pair.run(false, &["store", "accept"]).await;
    assert_eq!(asked.code, Some(1), "{}", asked.said);
    assert!(asked.stdout.contains("was not looked at here: node"), "{}", asked.said);
    assert!(says_where(&asked.stdout, owner), "{}", asked.said);
    let (shown, owner) = pair.run(false, &["lane", "show", "31337", &signer(0)]).await;
    assert!(shown.ok() && says_where(&shown.stdout, owner), "{}", shown.said);
    let is_count = |line: &&str| line.starts_with("chain count") && line.ends_with('?');
    assert_eq!(shown.stdout.lines().filter(is_count).count(), 1, "{}", shown.said);
    for server in &pair.0 {
        let says = |tx: &Value| text(tx, "stuckReason").contains("landfall store accept");
        server.api.until_tx(&forgotten[0], "it says that the store is older", says).await;
    }
    let (refused, owner) = pair.run(false, &["store", "accept", "--yes"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.said);
    assert!(
        refused.said.contains("--despite-unseen") && says_where(&refused.said, owner),
        "{}",
        refused.said
    );
    assert_eq!(api.get("/api/v1/store").await.expect(200)["older"], true);

    let (asked, _) = pair.run(true, &["store", "accept"]).await;
    assert!(forgotten.iter().all(|id| asked.stdout.contains(id)), "{}", asked.said);
    assert!(!asked.stdout.contains("not looked at"), "{}", asked.said);
    let (accepted, _) = pair.run(true, &["store", "accept", "--yes"]).await;
    assert!(accepted.ok(), "{}", accepted.said);
    chain.mine(70).await;
    for id in &forgotten {
        api.until_state(id, "confirmed").await;
    }
    land(&pair.0[0], 3..4).await;
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..4), 0));
}

#[tokio::test]
async fn a_person_who_was_told_all_of_it_elsewhere_may_accept_an_older_copy_through_any_node() {
    let database = Restored::new().await;
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let mut one = Server::start(&chain.url(), settings(&database, NAMES[0])).await;
    land(&one, 0..1).await;
    one.kill().await;
    database.back_up().await;
    one.spawn();
    one.until_ready().await;
    land(&one, 1..2).await;
    one.kill().await;
    database.put_back().await;
    let pair = Pair::of(one, &chain, &database).await;
    let api = pair.0[0].api.clone();
    // Nothing waits, so no node runs the lane until somebody asks for it.
    let (accepted, _) = pair.run(false, &["store", "accept", "--yes", "--despite-unseen"]).await;
    assert!(accepted.ok(), "{}", accepted.said);
    assert_eq!(api.get("/api/v1/store").await.expect(200)["older"], false);
    chain.mine(70).await;
    until("the lane goes on", async || (api.lane(&signer(0)).await["healthy"] == true).then_some(())).await;
    land(&pair.0[1], 2..3).await;
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..3), 0));
}

#[tokio::test]
async fn a_resume_through_a_node_that_does_not_run_the_lane_asks_first_and_says_who_does() {
    let database = Restored::new().await;
    let chain = Chain::that_settles_every(Duration::from_millis(100)).await;
    let mut one = Server::start(&chain.url(), settings(&database, NAMES[0])).await;
    land(&one, 0..1).await;
    one.kill().await;
    let alike = json!([{ "from": signer(0), "to": RECEIVER, "data": marker(1), "gas": "0x7530" }]);
    chain.call("eth_sendTransaction", alike).await;
    until("the stranger's is in a block", async || (chain.count(&signer(0)).await == 2).then_some(())).await;
    let pair = Pair::of(one, &chain, &database).await;
    let api = pair.0[0].api.clone();
    let waits = api.submit(&request(1)).await;
    let says = |tx: &Value| text(tx, "stuckReason").contains("nonce 1");
    api.until_tx(&waits, "it names the nonce", says).await;

    let (asked, owner) = pair.run(false, &["lane", "resume", "31337", &signer(0)]).await;
    assert_eq!(asked.code, Some(1), "{}", asked.said);
    assert!(says_where(&asked.said, owner) && asked.said.contains("Say --yes"), "{}", asked.said);
    chain.mine(20).await;
    assert_eq!(text(&api.tx(&waits).await, "state"), "accepted", "nobody resumed it");
    let (asked, _) = pair.run(true, &["lane", "resume", "31337", &signer(0)]).await;
    assert_eq!(asked.code, Some(1), "{}", asked.said);
    assert!(asked.said.contains("does not know who used nonce 1"), "{}", asked.said);
    let (resumed, _) = pair.run(true, &["lane", "resume", "31337", &signer(0), "--yes"]).await;
    assert!(resumed.ok() && resumed.stdout.contains(&waits), "{}", resumed.said);
    api.until_state(&waits, "confirmed").await;
    assert_eq!((landed(&chain).await, chain.pooled().await), (once(0..2), 0));
}
