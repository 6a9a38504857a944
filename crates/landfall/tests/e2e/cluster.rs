//! Three servers on one PostgreSQL: one executor per lane, whatever happens to servers, database and lines between them.
//! The chain is asked at the end, never the servers alone. covers: L1, L2, L11, L14, L18
//!
//! Faults strike while a thousand transactions and more are in the pool and the chain stands still, so that none of them
//! can be done already. Servers reach the database and the chain through lines of their own.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use landfall_pgtest::Stop;

use crate::support::{Answer, Database, Nodes, own_database, pass, signal, text, until};

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
