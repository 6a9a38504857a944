//! Two nodes with one store, endpoints that refuse, lose and lie, and callers that want to fill the keeper.

mod node;

use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, B256, U256};
use landfall_core::outcome::SendOutcome;
use landfall_core::ports::audit::{AuditLog, Page};
use landfall_core::ports::clock::{Clock, Random};
use landfall_core::ports::records::{RecordKind, RecordWrite};
use landfall_core::{Gas, Millis, Wei};
use landfall_store::Memory;
use serde_json::Value;

use self::node::{BASE_FEE, CHAIN, Nodes, Seen, Slow, stored};
use super::*;
use crate::access::{NewKey, Policy, Role};

struct Still;

impl Clock for Still {
    fn now(&self) -> Millis {
        Millis(2_000_000_000_000)
    }
}

fn memory() -> Memory {
    Memory::new(Arc::new(Still))
}

/// Numbers that differ in both halves.
#[derive(Default)]
struct Counting(AtomicU64);

impl Random for Counting {
    fn bits(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)) * ((1 << 64) + 1)
    }
}

fn keyring(records: Arc<dyn Records>) -> Arc<Keyring> {
    Arc::new(Keyring::new(records, Arc::new(Still), Arc::new(Counting::default()), Policy::default()))
}

/// A new API key, by its id.
async fn made(ring: &Keyring, name: &str) -> &'static str {
    let new = NewKey {
        name: name.to_owned(),
        role: Role::Submitter,
        signers: None,
        chains: None,
        rate_per_s: None,
        expires_at: None,
    };
    ring.make(new, None).await.unwrap().id.leak()
}

/// One node of an installation.
struct Here {
    keeper: Arc<Keeper>,
    nodes: Arc<Nodes>,
    log: Memory,
}

/// A node that keeps its records there and works as a server does.
async fn node(records: Arc<dyn Records>, nodes: &Arc<Nodes>) -> Here {
    let here = idle_node(records, nodes).await;
    let keeper = here.keeper.clone();
    tokio::spawn(async move { keeper.run(std::future::pending()).await });
    here
}

async fn idle_node(records: Arc<dyn Records>, nodes: &Arc<Nodes>) -> Here {
    let log = memory();
    let audit = Audit::start(Arc::new(log.clone()), Arc::new(log.clone()), Arc::new(Still), "one");
    let chains = Arc::new(Seen(nodes.clone()));
    let metrics = Arc::new(Metrics::new("one", []).unwrap());
    let keyring = keyring(records.clone());
    let keeper = Keeper::new(chains, records, keyring, audit.await.unwrap(), metrics, RawQuota::default());
    Here { keeper: Arc::new(keeper), nodes: nodes.clone(), log }
}

/// A transaction of an account, told apart by its number.
fn tx(account: u8, slot: u64, number: u64) -> (SignedTx, Sealed) {
    let hash = TxHash(B256::from(U256::from(number) + (U256::from(account) << 64)));
    let from = Account(Address::repeat_byte(account));
    let (chain, gas, most) = (Some(CHAIN), Gas(21_000), Wei::default());
    let signed = SignedTx { hash, from, slot: Slot(slot), chain, gas, most, shown: Value::Null };
    (signed, Sealed { raw: vec![1; 100].into(), hash })
}

fn caller(key: &str) -> Caller {
    Caller::with(key.into(), key, Role::Submitter, None, None)
}

impl Here {
    async fn send(&self, key: &str, (signed, sealed): (SignedTx, Sealed)) -> Result<(), RpcError> {
        let (adapter, view) = (self.nodes.clone(), Arc::new(self.nodes.view()));
        let giver = Giver { caller: caller(key), chain: CHAIN, adapter, view };
        self.keeper.send(giver, signed, sealed).await
    }

    /// As [`Self::send`], while the test goes on.
    fn begin(
        self: &Arc<Self>,
        key: &'static str,
        tx: (SignedTx, Sealed),
    ) -> tokio::task::JoinHandle<Result<(), RpcError>> {
        let here = self.clone();
        tokio::spawn(async move { here.send(key, tx).await })
    }

    fn keeps(&self, hash: TxHash) -> bool {
        self.keeper.raw(CHAIN, hash).is_some()
    }

    /// The audit log's rows about raw transactions: status and error.
    async fn rows(&self) -> Vec<(Value, Value)> {
        let rows = self.log.audit_rows(Page::After(0), 1_000).await.unwrap();
        let rows = rows.into_iter().map(|row| serde_json::from_str::<Value>(&row.text).unwrap());
        let raw = rows.filter(|row| row["method"] == "eth_sendRawTransaction");
        raw.map(|row| (row["status"].clone(), row["error"].clone())).collect()
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn bytes_that_another_node_keeps_are_not_forgotten_because_a_node_refuses_them_here() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(1));
    let (one, other) = (node(store.clone(), &nodes).await, node(store.clone(), &nodes).await);
    seconds(2).await;
    let given = tx(1, 0, 1);
    nodes.answer(SendOutcome::PoolFull, Duration::ZERO);
    one.send("victim", given.clone()).await.unwrap();
    nodes.answer(SendOutcome::FeeBelowBase, Duration::ZERO);
    other.send("attacker", given.clone()).await.ok();
    assert_eq!(stored(store.as_ref()).await.len(), 1);
    let next = node(store.clone(), &nodes).await;
    let before = nodes.sent(given.1.hash);
    seconds(5).await;
    assert!(next.keeps(given.1.hash) && nodes.sent(given.1.hash) > before, "the next start goes on");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_a_node_refuses_at_first_is_sent_by_no_other_one() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(1));
    let one = node(store.clone(), &nodes).await;
    seconds(30).await;
    let other = node(store.clone(), &Nodes::new(1)).await;
    seconds(28).await;
    // Both read what the other keeps meanwhile.
    nodes.answer(SendOutcome::InsufficientFunds, Duration::from_secs(29));
    let given = tx(1, 0, 1);
    for sends in 1..=3 {
        let refused = one.send("me", given.clone()).await.unwrap_err();
        assert_eq!(refused.data.unwrap()["code"], "insufficient_funds");
        assert_eq!(nodes.sent(given.1.hash), sends);
    }
    assert!(stored(store.as_ref()).await.is_empty());
    nodes.answer(SendOutcome::Accepted, Duration::ZERO);
    seconds(300).await;
    assert!(!one.keeps(given.1.hash) && !other.keeps(given.1.hash));
    assert_eq!((nodes.sent(given.1.hash), other.nodes.sent(given.1.hash)), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_first_send_that_a_second_caller_took_over_is_refused_to_nobody() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(1));
    let one = Arc::new(node(store.clone(), &nodes).await);
    let other = node(store.clone(), &Nodes::new(1)).await;
    nodes.answer(SendOutcome::InsufficientFunds, Duration::from_secs(7));
    let given = tx(1, 0, 1);
    let first = one.begin("me", given.clone());
    seconds(2).await;
    other.send("another", given.clone()).await.unwrap();
    first.await.unwrap().unwrap();
    assert_eq!(stored(store.as_ref()).await.len(), 1);
    assert!(one.keeps(given.1.hash) && other.keeps(given.1.hash));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_whose_record_cannot_be_removed_is_not_told_as_one() {
    let (store, nodes) = (Slow::new(memory()), Nodes::new(1));
    store.lists.add_permits(1_000);
    let here = node(store.clone(), &nodes).await;
    nodes.answer(SendOutcome::InsufficientFunds, Duration::ZERO);
    store.is_stuck.store(true, Ordering::SeqCst);
    let said = here.send("me", tx(1, 0, 1)).await.unwrap_err();
    assert_eq!(said.data.unwrap()["code"], "outcome_unknown", "{}", said.message);
    assert_eq!(stored(&store.records).await.len(), 1);
    // Nobody was told no.
    nodes.answer(SendOutcome::Accepted, Duration::ZERO);
    seconds(300).await;
    assert!(here.keeps(tx(1, 0, 1).1.hash));
}

#[tokio::test(start_paused = true)]
async fn what_a_node_that_died_was_sending_for_the_first_time_is_sent_by_another() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(1));
    let dead = Arc::new(idle_node(store.clone(), &nodes).await);
    dead.keeper.is_read.send_replace(true);
    nodes.answer(SendOutcome::Accepted, Duration::from_secs(20));
    let given = tx(1, 0, 1);
    let first = dead.begin("me", given.clone());
    seconds(1).await;
    let left = store.record(RecordKind::RawTx, &kept::name((CHAIN, given.1.hash))).await.unwrap().unwrap();
    first.await.unwrap().unwrap();
    // The store as the dead one left it.
    let store = Arc::new(memory());
    let write = RecordWrite::new(RecordKind::RawTx, left.id, left.body);
    assert_eq!(store.write_records(vec![write]).await.unwrap(), RecordsWritten::Yes);
    let nodes = Nodes::new(1);
    let next = node(store, &nodes).await;
    seconds(20).await;
    assert_eq!(nodes.sent(given.1.hash), 0, "it may still be told no");
    seconds(100).await;
    assert!(next.keeps(given.1.hash) && nodes.sent(given.1.hash) > 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_elsewhere_is_forgotten_here_and_no_page_from_before_brings_it_back() {
    let (store, nodes) = (Slow::new(memory()), Nodes::new(1));
    let here = Arc::new(idle_node(store.clone(), &nodes).await);
    here.keeper.is_read.send_replace(true);
    let (elsewhere, ours) = (tx(1, 0, 1), tx(2, 0, 2));
    here.send("me", elsewhere.clone()).await.unwrap();
    here.send("me", ours.clone()).await.unwrap();
    let reading = tokio::spawn({
        let here = here.clone();
        async move { here.keeper.read().await }
    });
    seconds(1).await;
    // The page is read, and not handed over yet.
    let record =
        store.record(RecordKind::RawTx, &kept::name((CHAIN, elsewhere.1.hash))).await.unwrap().unwrap();
    let gone = vec![RecordWrite::remove(RecordKind::RawTx, &record)];
    assert_eq!(store.write_records(gone).await.unwrap(), RecordsWritten::Yes);
    forget(&here, ours.1.hash).await;
    store.lists.add_permits(1_000);
    reading.await.unwrap().unwrap();
    assert!(!here.keeps(ours.1.hash));
    assert!(here.keeps(elsewhere.1.hash), "this reading had it");
    here.keeper.read().await.unwrap();
    assert!(!here.keeps(elsewhere.1.hash));
}

async fn forget(here: &Here, hash: TxHash) {
    here.keeper.forget((CHAIN, hash), "a test wants it").await;
}

#[tokio::test(start_paused = true)]
async fn one_endpoint_that_lies_makes_nothing_forgotten_and_holds_nothing_up() {
    for block in [None, Some(11), Some(0)] {
        let (store, nodes) = (Arc::new(memory()), Nodes::new(2));
        let here = node(store.clone(), &nodes).await;
        let given = tx(1, 0, 1);
        here.send("me", given.clone()).await.unwrap();
        nodes.at(0, |says| (says.count, says.block) = (100, block));
        nodes.mine(20).await;
        assert!(here.keeps(given.1.hash), "by one word: {block:?}");
        assert!(nodes.sent(given.1.hash) > 1, "it is sent again all the same");
        nodes.at(1, |says| says.count = 1);
        nodes.mine(5).await;
        assert!(!here.keeps(given.1.hash), "by two");
        assert!(stored(store.as_ref()).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_endpoint_that_is_gone_for_an_hour_is_not_waited_for() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(2));
    let here = node(store.clone(), &nodes).await;
    let given = tx(1, 0, 1);
    here.send("me", given.clone()).await.unwrap();
    nodes.at(1, |says| says.is_dead = true);
    nodes.at(0, |says| says.count = 1);
    nodes.mine(100).await;
    assert!(here.keeps(given.1.hash));
    nodes.mine(1_200).await;
    assert!(!here.keeps(given.1.hash));
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_a_reorganisation_gave_back_is_counted_anew() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(1));
    let here = node(store.clone(), &nodes).await;
    let given = tx(1, 0, 1);
    here.send("me", given.clone()).await.unwrap();
    let count = |count| nodes.at(0, |says| says.count = count);
    count(1);
    nodes.mine(1).await;
    count(0);
    nodes.mine(4).await;
    // Another one takes the nonce, in a block that is not final.
    count(1);
    nodes.mine(1).await;
    assert!(here.keeps(given.1.hash));
    count(0);
    nodes.mine(1).await;
    let before = nodes.sent(given.1.hash);
    nodes.mine(10).await;
    assert!(here.keeps(given.1.hash) && nodes.sent(given.1.hash) > before);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_cannot_pay_the_base_fee_holds_no_place() {
    let here = node(Arc::new(memory()), &Nodes::new(1)).await;
    let least = 21_000 * BASE_FEE;
    here.nodes.at(0, |says| says.balance = least - 1);
    let no = here.send("me", tx(1, 5, 1)).await.unwrap_err();
    assert_eq!(no.data.unwrap()["code"], "insufficient_funds", "{}", no.message);
    // Its own price is below the base fee, which may fall.
    here.nodes.at(0, |says| says.balance = least);
    here.send("me", tx(1, 5, 1)).await.unwrap();
    here.nodes.at(0, |says| says.balance = 0);
    here.send("me", tx(2, 0, 2)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_gap_yields_to_what_can_be_sent() {
    let here = node(Arc::new(memory()), &Nodes::new(1)).await;
    seconds(2).await;
    // Four keys with a quarter each, all of it behind gaps.
    let mut all = All::new();
    for n in 0..10_000_u64 {
        let (signed, sealed) = tx((n / 50) as u8, 1 + n % 50, n);
        let key = ["a", "b", "c", "d"][n as usize % 4].into();
        let mut kept = Kept::new(Some(key), signed.from, signed.slot, sealed.raw);
        kept.held_since = Some(Instant::now());
        all.insert((CHAIN, signed.hash), kept);
    }
    *here.keeper.all() = all;
    let waits = tx(251, 3, 1);
    here.send("honest", waits.clone()).await.unwrap_err();
    let sent = tx(252, 0, 1);
    here.send("honest", sent.clone()).await.unwrap();
    assert!(here.keeps(sent.1.hash) && here.nodes.sent(sent.1.hash) == 1);
    assert_eq!(here.keeper.all().len(), 10_000, "one went");
}

#[tokio::test(start_paused = true)]
async fn the_audit_log_has_its_row_before_the_first_send_is_answered() {
    let here = Arc::new(node(Arc::new(memory()), &Nodes::new(1)).await);
    here.nodes.answer(SendOutcome::InsufficientFunds, Duration::from_secs(20));
    let sending = here.begin("me", tx(1, 0, 1));
    seconds(5).await;
    let taken = (json!(200), Value::Null);
    assert_eq!(here.rows().await, std::slice::from_ref(&taken), "also if the server is killed now");
    sending.await.unwrap().unwrap_err();
    seconds(1).await;
    assert_eq!(here.rows().await, [taken, (json!(422), json!("insufficient_funds"))]);
}

#[tokio::test(start_paused = true)]
async fn the_same_bytes_again_are_no_new_row_wherever_they_are_given() {
    let store = Arc::new(memory());
    let nodes = Nodes::new(1);
    let (one, other) = (node(store.clone(), &nodes).await, node(store, &nodes).await);
    for _ in 0..3 {
        one.send("me", tx(1, 0, 1)).await.unwrap();
        other.send("me", tx(1, 0, 1)).await.unwrap();
    }
    seconds(1).await;
    assert_eq!((one.rows().await.len(), other.rows().await.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn bytes_that_were_sent_above_anothers_are_kept_by_every_node_and_after_a_restart() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(2));
    let one = node(store.clone(), &nodes).await;
    seconds(2).await;
    // The nonces below were given elsewhere and are in the pool.
    nodes.at(0, |says| says.pooled = 4);
    nodes.at(1, |says| says.pooled = 4);
    let given = tx(1, 4, 1);
    one.send("key", given.clone()).await.unwrap();
    assert_eq!(nodes.sent(given.0.hash), 1);
    let other = node(store.clone(), &nodes).await;
    seconds(2 * 3_600).await;
    assert!(one.keeps(given.0.hash) && other.keeps(given.0.hash));
    assert!(nodes.sent(given.0.hash) > 10, "it is sent again and again");
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_is_forgotten_with_its_key_and_what_has_gone_out_is_not() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(1));
    let ring = keyring(store.clone());
    let key = made(&ring, "lost").await;
    let (one, other) = (node(store.clone(), &nodes).await, node(store.clone(), &nodes).await);
    seconds(2).await;
    let (out, held, lower) = (tx(1, 0, 1), tx(2, 1, 2), tx(2, 0, 3));
    one.send(key, out.clone()).await.unwrap();
    one.send(key, held.clone()).await.unwrap();
    let others = tx(3, 1, 4);
    one.send("another", others.clone()).await.unwrap();
    // The other node reads what there is, too.
    seconds(70).await;
    assert!(one.keeps(held.0.hash) && other.keeps(held.0.hash) && nodes.sent(held.0.hash) == 0);
    ring.revoke(key, None).await.unwrap();
    let sent = nodes.sent(out.0.hash);
    seconds(90).await;
    assert!(
        !one.keeps(held.0.hash) && !other.keeps(held.0.hash),
        "nothing of a revoked key goes out any more"
    );
    assert!(
        one.keeps(out.0.hash) && nodes.sent(out.0.hash) > sent,
        "anybody can land it, so its end is followed"
    );
    assert!(one.keeps(others.0.hash), "another key's is held back as before");
    one.send("another", lower).await.unwrap();
    seconds(90).await;
    assert_eq!(nodes.sent(held.0.hash), 0, "not when the gap is closed either");
    let next = node(store.clone(), &nodes).await;
    seconds(5).await;
    assert!(!next.keeps(held.0.hash) && next.keeps(out.0.hash), "nor after the next start");
}

#[tokio::test(start_paused = true)]
async fn the_same_bytes_by_a_second_key_stay_when_the_first_is_revoked() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(1));
    let ring = keyring(store.clone());
    let (first, second) = (made(&ring, "first").await, made(&ring, "second").await);
    let (one, other) = (node(store.clone(), &nodes).await, node(store.clone(), &nodes).await);
    seconds(2).await;
    let (here, there, lower) = (tx(1, 1, 1), tx(2, 1, 2), tx(2, 0, 3));
    for held in [&here, &there] {
        one.send(first, held.clone()).await.unwrap();
    }
    one.send(second, here.clone()).await.unwrap();
    other.send(second, there.clone()).await.unwrap();
    ring.revoke(first, None).await.unwrap();
    seconds(90).await;
    for held in [&here, &there] {
        assert!(one.keeps(held.0.hash) && other.keeps(held.0.hash), "the second key was told yes");
    }
    let next = node(store.clone(), &nodes).await;
    seconds(5).await;
    assert!(next.keeps(here.0.hash), "nor does the next start forget it");
    one.send(second, lower).await.unwrap();
    seconds(90).await;
    assert!(nodes.sent(there.0.hash) > 0, "it goes out when the gap is closed");
    ring.revoke(second, None).await.unwrap();
    seconds(90).await;
    assert!(!one.keeps(here.0.hash) && !other.keeps(here.0.hash), "it goes with the last key that gave it");
    assert!(one.keeps(there.0.hash), "anybody can land it");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_another_keys_verdict_is_not_forgotten_with_that_key() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(1));
    let ring = keyring(store.clone());
    let (first, second) = (made(&ring, "first").await, made(&ring, "second").await);
    let here = Arc::new(node(store.clone(), &nodes).await);
    seconds(2).await;
    let held = tx(1, 1, 1);
    let (begun, waits) = (here.begin(first, held.clone()), here.begin(second, held.clone()));
    begun.await.unwrap().unwrap();
    waits.await.unwrap().unwrap();
    ring.revoke(first, None).await.unwrap();
    seconds(90).await;
    assert!(here.keeps(held.0.hash));
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_is_kept_anew_at_a_node_that_has_not_read_the_removal_yet() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(1));
    let ring = keyring(store.clone());
    let (lost, new) = (made(&ring, "lost").await, made(&ring, "new").await);
    let one = node(store.clone(), &nodes).await;
    let other = idle_node(store.clone(), &nodes).await;
    other.keeper.is_read.send_replace(true);
    seconds(2).await;
    let held = tx(1, 1, 1);
    one.send(lost, held.clone()).await.unwrap();
    other.keeper.read().await.unwrap();
    ring.revoke(lost, None).await.unwrap();
    seconds(10).await;
    assert!(stored(store.as_ref()).await.is_empty() && other.keeps(held.0.hash), "only one node knows");
    other.send(new, held.clone()).await.unwrap();
    assert_eq!(stored(store.as_ref()).await.len(), 1);
    other.keeper.read().await.unwrap();
    seconds(90).await;
    assert!(one.keeps(held.0.hash) && other.keeps(held.0.hash), "the new key was told yes");
}

#[tokio::test(start_paused = true)]
async fn the_hour_of_what_is_held_back_begins_anew_with_a_second_key_on_every_node() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(1));
    let (one, other) = (node(store.clone(), &nodes).await, node(store.clone(), &nodes).await);
    seconds(20).await;
    let held = tx(1, 1, 1);
    one.send("first", held.clone()).await.unwrap();
    seconds(3_595).await;
    other.send("second", held.clone()).await.unwrap();
    seconds(3_000).await;
    assert!(one.keeps(held.0.hash) && other.keeps(held.0.hash), "its hour is not over");
    seconds(1_000).await;
    assert!(!one.keeps(held.0.hash) && !other.keeps(held.0.hash));
    assert!(stored(store.as_ref()).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn bytes_that_were_held_back_stay_once_one_node_has_sent_them() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(2));
    let (one, other) = (node(store.clone(), &nodes).await, node(store.clone(), &nodes).await);
    seconds(2).await;
    let (lower, held) = (tx(1, 0, 1), tx(1, 1, 2));
    one.send("key", held.clone()).await.unwrap();
    seconds(120).await;
    assert_eq!(nodes.sent(held.0.hash), 0, "a lower nonce is missing");
    one.send("key", lower.clone()).await.unwrap();
    seconds(30).await;
    assert!(nodes.sent(held.0.hash) > 0);
    // The lower one is only here, so to the other node the gap is still there until it reads.
    seconds(2 * 3_600).await;
    assert!(one.keeps(held.0.hash) && other.keeps(held.0.hash));
}

#[tokio::test(start_paused = true)]
async fn one_endpoint_that_says_that_it_landed_does_not_lose_it() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(2));
    let here = node(store.clone(), &nodes).await;
    let (shown, hidden) = (tx(1, 0, 1), tx(2, 0, 2));
    nodes.at(0, |says| (says.count, says.block) = (100, Some(1)));
    here.send("me", shown.clone()).await.unwrap();
    nodes.at(0, |says| says.block = None);
    here.send("me", hidden.clone()).await.unwrap();
    for hash in [shown.0.hash, hidden.0.hash] {
        assert!(here.keeps(hash) && nodes.sent(hash) == 1);
    }
    // Both say that the nonces are used.
    nodes.at(1, |says| says.count = 100);
    let too_low = here.send("me", tx(3, 0, 3)).await.unwrap_err();
    assert_eq!(too_low.data.unwrap()["code"], "nonce_too_low");
    nodes.at(0, |says| says.block = Some(1));
    here.send("me", tx(4, 0, 4)).await.unwrap();
    assert!(!here.keeps(tx(4, 0, 4).0.hash), "it has landed");
    assert_eq!(nodes.sent(tx(3, 0, 3).0.hash) + nodes.sent(tx(4, 0, 4).0.hash), 0);
}

#[tokio::test(start_paused = true)]
async fn what_landed_by_the_word_of_the_only_one_that_answers_is_kept_and_not_refused() {
    let (store, nodes) = (Arc::new(memory()), Nodes::new(2));
    let here = node(store.clone(), &nodes).await;
    nodes.at(0, |says| (says.count, says.block) = (1, Some(1)));
    nodes.at(1, |says| says.is_dead = true);
    nodes.answer(SendOutcome::NonceTooLow, Duration::ZERO);
    let given = tx(1, 0, 1);
    here.send("me", given.clone()).await.unwrap();
    assert!(here.keeps(given.0.hash), "until the other says so too");
    nodes.at(1, |says| (says.is_dead, says.count) = (false, 1));
    nodes.mine(5).await;
    assert!(!here.keeps(given.0.hash));
}

#[tokio::test(start_paused = true)]
async fn one_endpoint_that_shows_a_gap_holds_nothing_back() {
    let here = node(Arc::new(memory()), &Nodes::new(2)).await;
    here.nodes.at(1, |says| says.count = 5);
    let given = tx(1, 5, 1);
    here.send("me", given.clone()).await.unwrap();
    assert!(here.keeps(given.0.hash) && here.nodes.sent(given.0.hash) == 1);
    // Where the other one learns of it later, before the hour is over.
    here.nodes.at(1, |says| says.count = 0);
    let later = tx(2, 5, 2);
    here.send("me", later.clone()).await.unwrap();
    assert_eq!(here.nodes.sent(later.0.hash), 0);
    here.nodes.at(1, |says| says.count = 5);
    here.nodes.mine(1_300).await;
    assert!(here.keeps(later.0.hash) && here.nodes.sent(later.0.hash) > 0);
}

#[tokio::test(start_paused = true)]
async fn an_account_goes_on_while_one_of_two_endpoints_is_down_or_stuck() {
    for stuck_at in [None, Some(10)] {
        let nodes = Nodes::new(2);
        let here = node(Arc::new(memory()), &nodes).await;
        nodes.at(1, |says| (says.is_dead, says.stuck_at) = (stuck_at.is_none(), stuck_at));
        for n in 0..70 {
            here.send("me", tx(1, n, n)).await.unwrap();
            nodes.at(0, |says| says.count = n + 1);
            nodes.mine(1).await;
        }
        assert!(here.keeps(tx(1, 0, 0).0.hash), "not by one word: {stuck_at:?}");
        nodes.at(1, |says| (says.is_dead, says.stuck_at, says.count) = (false, None, 70));
        nodes.mine(5).await;
        assert!(!here.keeps(tx(1, 0, 0).0.hash));
    }
}

#[tokio::test(start_paused = true)]
async fn raw_transactions_that_a_node_refuses_fill_no_disk() {
    let here = node(Arc::new(memory()), &Nodes::new(1)).await;
    here.nodes.answer(SendOutcome::FeeBelowBase, Duration::ZERO);
    let mut refused = BTreeMap::<String, u32>::new();
    for n in 0..500 {
        let no = here.send("greedy", tx(1, 0, n)).await.unwrap_err();
        *refused.entry(no.data.unwrap()["code"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    seconds(1).await;
    assert_eq!(refused["rate_limited"], 400, "{refused:?}");
    assert_eq!(here.rows().await.len(), 200, "two for each that a node refused");
    assert!(stored(here.keeper.records.as_ref()).await.is_empty());
    here.nodes.answer(SendOutcome::Accepted, Duration::ZERO);
    for n in 0..150 {
        here.send("other", tx(2 + (n / 50) as u8, n % 50, n)).await.unwrap();
    }
    seconds(60).await;
    here.send("greedy", tx(1, 0, 0)).await.unwrap();
}
