//! Three servers on one PostgreSQL: one executor per lane, whatever happens to servers, database and lines between them.
//! The chain is asked at the end, never the servers alone. covers: L1, L2, L11, L14, L18
//!
//! Faults strike while a thousand transactions and more are in the pool and the chain stands still, so that none of them
//! can be done already. Servers reach the database and the chain through lines of their own.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use landfall_pgtest::Stop;

use serde_json::json;

use crate::support::{
    Answer, CHAIN_ID, Database, Nodes, own_database, pass, program, run, signal, text, until,
};

const LANES: u64 = 8;
/// Seconds: how long a lease lasts, when it is renewed, the skew.
const LEASE: (f64, f64, f64) = (3.0, 1.0, 1.0);
/// In the pool when a fault strikes.
const IN_FLIGHT: u64 = 1_000;

/// Stops a server past its lease while it is writing, lets the others take its lanes, and lets it go on. How many of its
/// writes were refused.
async fn freeze(nodes: &Nodes, frozen: usize, others: &[usize]) -> u64 {
    let node = &nodes.nodes[frozen];
    // Blocks come in while nothing reaches the database: what the node writes about them is on its way.
    node.database.hold();
    nodes.chain.mine(2).await;
    until("the node has seen the blocks", async || {
        let head = nodes.chain.head().await;
        let ready = nodes.api(others[0]).get("/health/ready").await;
        (ready.body["chains"][0]["head"].as_u64() == Some(head)).then_some(())
    })
    .await;
    pass(Duration::from_millis(500)).await;
    signal("STOP", node.server.id());
    nodes.until_owned_by(others).await;
    node.database.mend();
    signal("CONT", node.server.id());
    until("its writes are refused", async || {
        let fenced = nodes.fenced(frozen).await;
        (fenced > 0).then_some(fenced)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_creates_on_one_signer_through_three_nodes_take_every_slot_once() {
    let database = Database::any();
    let nodes = Nodes::start(3, &database.url, 1, LEASE).await;
    nodes.chain.mine_every(1).await;

    let ask = async |n: usize, number: u64| nodes.api(n % 3).post("/api/v1/tx", &nodes.body(number)).await;
    let answers = join_all((0..1_000).map(|n| ask(n, nodes.next_number()))).await;
    assert!(answers.iter().all(|answer| answer.status == 202), "all are taken in");
    let ids: BTreeSet<String> = answers.iter().map(|answer| text(&answer.body, "txId")).collect();
    assert_eq!(ids.len(), 1_000, "every request is a transaction of its own");

    let same = nodes.next_number();
    let answers: Vec<Answer> = join_all((0..100).map(|n| ask(n, same))).await;
    let ids: BTreeSet<String> = answers.iter().map(|answer| text(&answer.body, "txId")).collect();
    assert_eq!(ids.len(), 1, "one requestId is one transaction: {ids:?}");
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!((statuses[0], statuses[98], statuses[99]), (200, 200, 202), "taken in once, then replayed");
    nodes.until_landed(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_nodes_that_both_think_a_lane_is_theirs_the_old_one_is_refused_and_the_new_one_finishes() {
    let database = Database::any();
    let nodes = Nodes::start(2, &database.url, 1, LEASE).await;
    nodes.hand_over(&[0, 1], 50).await;
    nodes.until_in_flight(50).await;
    let old = nodes.busiest(0, &[]).await;
    let new = 1 - old;
    let before = nodes.owners(new).await;
    assert!(freeze(&nodes, old, &[new]).await > 0);
    let after = nodes.owners(new).await;
    for (lane, (owner, token)) in &after {
        assert!(token > &before[lane].1 && owner == &nodes.nodes[new].name, "{before:?} {after:?}");
    }
    nodes.hand_over(&[0, 1], 50).await;
    nodes.chain.mine_every(1).await;
    nodes.until_landed(new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_killed_and_one_frozen_past_its_lease_cost_nothing() {
    let database = Database::any();
    let mut nodes = Nodes::start(3, &database.url, LANES, LEASE).await;
    nodes.hand_over(&[0, 1, 2], IN_FLIGHT + 100).await;
    nodes.until_in_flight(IN_FLIGHT).await;

    let killed = nodes.busiest(0, &[]).await;
    nodes.nodes[killed].server.kill().await;
    let left: Vec<usize> = (0..3).filter(|n| *n != killed).collect();
    nodes.until_owned_by(&left).await;
    nodes.hand_over(&left, 100).await;
    assert!(nodes.chain.pooled().await >= IN_FLIGHT);

    let frozen = nodes.busiest(left[0], &[killed]).await;
    let last = left[usize::from(left[0] == frozen)];
    assert!(freeze(&nodes, frozen, &[last]).await > 0, "its writes are refused and counted");

    // Both are back, and take their share.
    nodes.nodes[killed].server.spawn();
    nodes.nodes[killed].server.until_ready().await;
    nodes.hand_over(&[0, 1, 2], 300).await;
    nodes.chain.mine_every(1).await;
    nodes.until_landed(last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_restarted_and_commits_whose_answers_are_lost_cost_nothing() {
    let mut database = own_database();
    let nodes = Nodes::start(3, &database.url(), LANES, LEASE).await;
    for node in &nodes.nodes {
        node.database.lose_answers_of_commits(7);
    }
    let mut taken = nodes.hand_over(&[0, 1, 2], IN_FLIGHT + 100).await;
    nodes.until_in_flight(IN_FLIGHT).await;

    database.stop(Stop::Immediate).unwrap();
    database.start_again().unwrap();
    taken.extend(nodes.hand_over(&[0, 1, 2], 200).await);
    nodes.chain.mine_every(1).await;
    nodes.until_landed(0).await;
    nodes.assert_known(0, &taken).await;
    let lost: u64 = nodes.nodes.iter().map(|node| node.database.lost_answers()).sum();
    assert!(lost >= 20, "answers of {lost} commits were lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_cut_off_from_the_database_and_one_cut_off_from_the_chain_cost_nothing() {
    let database = Database::any();
    let nodes = Nodes::start(3, &database.url, LANES, LEASE).await;
    nodes.hand_over(&[0, 1, 2], IN_FLIGHT + 100).await;
    nodes.until_in_flight(IN_FLIGHT).await;

    // Without the database a node owns nothing, though it sees the chain.
    let cut = nodes.busiest(0, &[]).await;
    let left: Vec<usize> = (0..3).filter(|n| *n != cut).collect();
    nodes.nodes[cut].database.silence();
    nodes.until_owned_by(&left).await;
    nodes.chain.mine(1).await;
    nodes.hand_over(&left, 100).await;
    nodes.nodes[cut].database.mend();

    // Without the chain a node keeps its lease and can do nothing: the others get its lanes.
    let blind = nodes.busiest(left[0], &[cut]).await;
    let seeing: Vec<usize> = (0..3).filter(|n| *n != blind).collect();
    nodes.nodes[blind].rpc.silence();
    nodes.hand_over(&[0, 1, 2], IN_FLIGHT).await;
    nodes.until_owned_by(&seeing).await;
    nodes.chain.mine_every(1).await;
    nodes.until_landed(seeing[0]).await;
    nodes.nodes[blind].rpc.mend();
    nodes.hand_over(&[blind], 8).await;
    nodes.until_landed(blind).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_promoted_after_the_primary_was_killed_knows_everything_that_was_acknowledged() {
    let mut primary = own_database();
    let standby = primary.standby().unwrap();
    let nodes = Nodes::start(3, &primary.url(), LANES, LEASE).await;
    let mut taken = nodes.hand_over(&[0, 1, 2], IN_FLIGHT + 100).await;
    nodes.until_in_flight(IN_FLIGHT).await;

    // Killed while callers go on; what they are told by then, and afterwards, is there.
    let kill_and_promote = async {
        pass(Duration::from_millis(200)).await;
        primary.kill().unwrap();
        standby.promote().unwrap();
        for node in &nodes.nodes {
            node.database.lead_to(standby.port());
        }
    };
    let (more, ()) = tokio::join!(nodes.hand_over(&[0, 1, 2], 400), kill_and_promote);
    taken.extend(more);
    nodes.assert_known(0, &taken).await;
    nodes.chain.mine_every(1).await;
    nodes.until_landed(0).await;
    nodes.assert_known(0, &taken).await;
}

/// The database's clock steps: what was written before lies so much further in the future (a step back), or in the past.
async fn step(database: &str, by: &str) {
    let (client, connection) = tokio_postgres::connect(database, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = format!("UPDATE landfall.session SET ends_at = ends_at + interval '{by}'");
    assert!(client.execute(&sql, &[]).await.unwrap() > 0, "nobody is there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_databases_clock_does_a_live_node_is_not_fenced_and_a_dead_ones_lanes_are_taken_in_time()
{
    let database = own_database();
    let mut nodes = Nodes::start(2, &database.url(), 4, LEASE).await;
    nodes.hand_over(&[0, 1], 40).await;
    nodes.until_in_flight(40).await;
    for by in ["-3 hours", "3 hours", "-10 years", "10 years"] {
        step(&database.url(), by).await;
        nodes.chain.mine(1).await;
        nodes.hand_over(&[0, 1], 40).await;
        assert_eq!((nodes.fenced(0).await, nodes.fenced(1).await), (0, 0), "after a step by {by}");
    }

    let dead = nodes.busiest(0, &[]).await;
    nodes.nodes[dead].server.kill().await;
    step(&database.url(), "1 year").await;
    let died = tokio::time::Instant::now();
    nodes.until_owned_by(&[1 - dead]).await;
    let took = died.elapsed();
    assert!(took < Duration::from_secs_f64(LEASE.0 * 2.0), "it took {took:?}");

    // The same for one that comes back alone.
    nodes.nodes[1 - dead].server.kill().await;
    step(&database.url(), "1 year").await;
    nodes.nodes[dead].server.spawn();
    nodes.nodes[dead].server.until_ready().await;
    let begun = tokio::time::Instant::now();
    nodes.until_owned_by(&[dead]).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs_f64(LEASE.0 * 2.0), "it took {took:?}");
    nodes.chain.mine_every(1).await;
    nodes.until_landed(dead).await;
}

/// A lane that a node has, as another sees it.
async fn lane_of(nodes: &Nodes, node: usize, seen_by: usize) -> Option<String> {
    let (owners, name) = (nodes.owners(seen_by).await, &nodes.nodes[node].name);
    owners.into_iter().find(|(_, (owner, _))| owner == name).map(|(signer, _)| signer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_who_knows_that_a_node_is_dead_need_not_wait_for_its_lease_and_may_be_wrong() {
    // Longer than this test may take.
    const HOUR: (f64, f64, f64) = (3_600.0, 5.0, 1.0);
    let database = Database::any();
    let mut nodes = Nodes::start(2, &database.url, 4, HOUR).await;
    nodes.hand_over(&[0, 1], 100).await;
    nodes.until_in_flight(100).await;
    let dead = nodes.busiest(0, &[]).await;
    let (left, name) = (1 - dead, nodes.nodes[dead].name.clone());
    let signer = lane_of(&nodes, dead, left).await.unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = program(&std::env::temp_dir());
        command.args(["lane", "break-lease", &CHAIN_ID.to_string(), &signer, "--url", nodes.api(left).url()]);
        command.args(arguments);
        run(command)
    };

    let path = format!("/api/v1/lanes/{CHAIN_ID}/{signer}/break-lease");
    let owner = nodes.api(left).lane(&signer).await["owner"].clone();
    assert!(owner["until"].is_string(), "{owner}");
    let session = json!({ "session": text(&owner, "session") });
    nodes.api(dead).post(&path, &session).await.expect_problem(409, "owner_lives");
    let other = json!({ "session": "00000000-0000-7000-8000-000000000000" });
    nodes.api(left).post(&path, &other).await.expect_problem(409, "not_held");
    nodes.api(left).post(&path, &json!({ "session": "x" })).await.expect_problem(400, "bad_value");

    // It is asked first, and there is nobody to ask.
    let said = ask(&[]).await;
    assert!(!said.ok() && said.said.contains("--yes") && said.said.contains(&name), "{said:?}");
    // The person is wrong: it is alive. Its writes are refused, and it begins anew.
    let said = ask(&["--yes"]).await;
    assert!(said.ok() && said.stdout.contains("which are free now"), "{said:?}");
    nodes.chain.mine(1).await;
    nodes.until_owned_by(&[0, 1]).await;
    until("it has a lane again", async || lane_of(&nodes, dead, left).await).await;

    nodes.nodes[dead].server.kill().await;
    nodes.hand_over(&[left], 20).await;
    let signer = lane_of(&nodes, dead, left).await.unwrap();
    let api = nodes.api(left);
    let session = json!({ "session": text(&api.lane(&signer).await["owner"], "session") });
    let path = format!("/api/v1/lanes/{CHAIN_ID}/{signer}/break-lease");
    let broken = api.post(&path, &session).await.expect(200);
    assert!(broken["lanes"].as_u64() >= Some(1), "{broken}");
    nodes.until_owned_by(&[left]).await;
    nodes.chain.mine_every(1).await;
    nodes.until_landed(left).await;
}
