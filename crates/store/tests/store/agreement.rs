//! Random sequences of operations have the same answers on memory and on each database, to the number.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use landfall_core::attempt::SendHints;
use landfall_core::journal::{Entry, NewEntry};
use landfall_core::ports::store::{
    CommandKind, Forget, HintUpdate, LaneCommit, LaneSummary, Store, TxQuery, Write, WriteError, Written,
};
use landfall_core::request::AtOnce;
use landfall_core::transaction::TxState;
use landfall_core::{ChainId, JournalSeq, LaneVersion, Millis, Slot, Token};
use proptest::prelude::*;

use crate::fixtures::*;
use crate::world::World;

/// Lanes of the test: signer 1 on two chains, and signer 2.
const LANES: [(u64, u8); 3] = [(1, 1), (2, 1), (1, 2)];

#[derive(Debug, Clone)]
enum Step {
    Group(Vec<Draft>),
    Open(u64),
    Close(u64),
    Acquire(usize, u64),
    Release(usize, u64),
}

#[derive(Debug, Clone)]
enum Draft {
    /// Id, content, lane, key, the caller's nonce with or without an API key.
    Admit(u64, u64, usize, Option<u8>, Option<(bool, u64)>),
    Turn(Turn),
    Command(u64, usize),
    /// Before, after, limit.
    Forget(u64, i64, u32),
}

/// A commit in small numbers; token and version are the lane's, now and then one off.
#[derive(Debug, Clone)]
struct Turn {
    lane: usize,
    stale: Option<bool>,
    updates: Vec<(u64, usize, Option<u64>)>,
    attempts: Vec<(u64, u32, Option<u64>)>,
    hints: Vec<(u64, u32)>,
    closed: Vec<u64>,
    entries: Vec<Option<u64>>,
    done: Vec<u64>,
}

fn lane_number() -> impl Strategy<Value = usize> {
    0..LANES.len()
}

/// A transaction of the lane; now and then, one of another.
fn tx_of(lane: usize) -> impl Strategy<Value = u64> {
    let home = u64::try_from(lane).unwrap();
    prop_oneof![30 => (0..3u64).prop_map(move |n| home + 3 * n), 1 => 0..9u64]
}

fn now_and_then<T: std::fmt::Debug>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    proptest::option::weighted(0.1, some).prop_map(|some| some.into_iter().collect())
}

fn turn_strategy(lane: usize) -> impl Strategy<Value = Turn> {
    let slot = 0..6u64;
    (
        proptest::option::weighted(0.1, any::<bool>()),
        proptest::collection::vec((tx_of(lane), 0..11usize, proptest::option::of(slot.clone())), 0..3),
        proptest::collection::vec((slot.clone(), 0..6u32, proptest::option::of(tx_of(lane))), 0..2),
        now_and_then((slot.clone(), 0..2u32)),
        proptest::collection::vec(slot, 0..2),
        proptest::collection::vec(proptest::option::of(tx_of(lane)), 0..3),
        now_and_then(0..3u64),
    )
        .prop_map(move |(stale, updates, attempts, hints, closed, entries, done)| Turn {
            lane,
            stale,
            updates,
            attempts,
            hints,
            closed,
            entries,
            done,
        })
}

fn admit_strategy() -> impl Strategy<Value = Draft> {
    let key = proptest::option::weighted(0.3, 0..6u8);
    let nonce = proptest::option::weighted(0.4, (any::<bool>(), 0..3u64));
    (lane_number(), key, 0..6u64, nonce)
        .prop_flat_map(|(lane, key, content, nonce)| (tx_of(lane), Just((lane, key, content, nonce))))
        .prop_map(|(id, (lane, key, content, nonce))| Draft::Admit(id, content, lane, key, nonce))
}

fn draft() -> impl Strategy<Value = Draft> {
    prop_oneof![
        4 => admit_strategy(),
        6 => lane_number().prop_flat_map(turn_strategy).prop_map(Draft::Turn),
        1 => (0..3u64, lane_number()).prop_map(|(id, lane)| Draft::Command(id, lane)),
        1 => (prop_oneof![Just(5_000u64), 1_000..1_010u64], 0..4i64, 1..6u32)
            .prop_map(|(before, after, limit)| Draft::Forget(before, after, limit)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => proptest::collection::vec(draft(), 1..5).prop_map(Step::Group),
        1 => (1..3u64).prop_map(Step::Open),
        1 => (1..3u64).prop_map(Step::Close),
        4 => (lane_number(), 1..3u64).prop_map(|(lane, by)| Step::Acquire(lane, by)),
        1 => (lane_number(), 1..3u64).prop_map(|(lane, by)| Step::Release(lane, by)),
    ]
}

fn lane_of(number: usize) -> landfall_core::LaneId {
    let (chain, signer) = LANES[number];
    lane_on(chain, signer)
}

async fn commit_of(store: &dyn Store, draft: &Turn) -> LaneCommit {
    let lane = lane_of(draft.lane);
    let now = store.load_lane(lane).await.unwrap();
    let token = if draft.stale == Some(true) { Token(now.token.0 + 1) } else { now.token };
    let version = if draft.stale == Some(false) { now.version.0 + 1 } else { now.version.0 };
    let mut commit = turn(lane, token, version);
    commit.row.cursor = Some(Slot(version));
    for (tx, state, slot) in &draft.updates {
        let mut update = update(*tx, TxState::ALL[*state], *slot);
        update.status.look_for(slot.map(|slot| hash(slot * 100)));
        commit.txs.push(update);
    }
    for (slot, ordinal, tx) in &draft.attempts {
        commit.attempts.push(attempt(*slot, *ordinal, *tx));
    }
    for (slot, ordinal) in &draft.hints {
        let hints = SendHints { sends: 3, ..SendHints::default() };
        commit.hints.push(HintUpdate { slot: Slot(*slot), ordinal: *ordinal, hints });
    }
    commit.closed = draft.closed.iter().map(|slot| Slot(*slot)).collect();
    for tx in &draft.entries {
        let entry = Entry::LaneHeld { text: "held".to_owned() };
        commit.journal.push(NewEntry { tx: tx.map(tx_id), at: Millis(7), entry, by: None });
    }
    commit.commands_done = draft.done.iter().map(|id| command_id(*id)).collect();
    commit
}

async fn write_of(store: &dyn Store, draft: &Draft) -> Write {
    match draft {
        Draft::Admit(id, content, lane, text, nonce) => {
            let mut new = retried(&request(lane_of(*lane), *content), *id);
            let call = nonce.map(|(keyed, nonce)| call(keyed.then_some("a"), nonce));
            new.request.at_once = call.map(|call| AtOnce { call: Some(call) });
            new.request.request_id = text.map(|text| key(&text.to_string()));
            Write::Admit(Box::new(new))
        }
        Draft::Turn(turn) => Write::Lane(Box::new(commit_of(store, turn).await)),
        Draft::Command(id, lane) => {
            Write::Command(Box::new(command(lane_of(*lane), *id, CommandKind::Pause)))
        }
        Draft::Forget(before, after, limit) => Write::Forget(Forget {
            before: Millis(*before),
            after: landfall_core::QueueOrder(*after),
            limit: *limit,
        }),
    }
}

/// An answer without the words of an error, which are each adapter's own.
fn answer_text(answer: Result<Written, WriteError>) -> String {
    match answer {
        Ok(written) => format!("{written:?}"),
        Err(WriteError::Fenced { lane }) => format!("fenced {lane}"),
        Err(WriteError::Failed(_)) => "failed".to_owned(),
        Err(WriteError::Unknown(text)) => panic!("nothing is lost here: {text}"),
    }
}

async fn run(store: &dyn Store, step: &Step) -> String {
    match step {
        Step::Group(drafts) => {
            let mut group = Vec::new();
            for draft in drafts {
                group.push(write_of(store, draft).await);
            }
            store.write(group).await.into_iter().map(answer_text).collect::<Vec<_>>().join("\n")
        }
        Step::Open(n) => format!("{:?}", store.open_session(session(*n), "node", LEASE).await),
        Step::Close(n) => format!("{:?}", store.close_session(session(*n)).await),
        Step::Acquire(lane, by) => {
            format!("{:?}", store.acquire(lane_of(*lane), session(*by)).await.ok())
        }
        Step::Release(lane, by) => {
            let token = store.load_lane(lane_of(*lane)).await.unwrap().token;
            format!("{:?}", store.release(lane_of(*lane), session(*by), token).await)
        }
    }
}

/// Every look-up there is.
async fn look(store: &dyn Store) -> String {
    let mut text = String::new();
    let mut add = |what: &dyn std::fmt::Debug| writeln!(text, "{what:?}").unwrap();
    let shown = |lane: LaneSummary| LaneSummary { owned_until: None, ..lane };
    add(&store.lanes().await.unwrap().into_iter().map(shown).collect::<Vec<_>>());
    add(&store.lanes_with_work().await.unwrap());
    add(&store.journal_after(JournalSeq(0), 1_000).await.unwrap());
    add(&store.journal_after(JournalSeq(3), 2).await.unwrap());
    for number in 0..LANES.len() {
        let lane = lane_of(number);
        add(&store.load_lane(lane).await.unwrap());
        add(&store.waiting(lane, 3).await.unwrap());
        add(&store.commands(lane, 2).await.unwrap());
        add(&store.lane(lane).await.unwrap().map(shown));
        for api_key in [None, Some("a")] {
            for nonce in 0..3 {
                add(&store.tx_by_call(lane, &call(api_key, nonce)).await.unwrap());
                add(&store.kept_by_call(lane, &call(api_key, nonce)).await.unwrap());
            }
            add(&store.nonces_from(lane, &call(api_key, 1), 2).await.unwrap());
        }
    }
    for n in 0..9 {
        add(&store.tx(tx_id(n)).await.unwrap());
        add(&store.journal(tx_id(n)).await.unwrap());
        add(&store.kept(tx_id(n)).await.unwrap());
    }
    for query in queries(store).await {
        add(&store.txs(&query).await.unwrap());
    }
    text
}

async fn queries(store: &dyn Store) -> Vec<TxQuery> {
    let all = TxQuery { limit: 100, ..TxQuery::default() };
    let third = store.txs(&all).await.unwrap().iter().rev().nth(2).map(|tx| tx.order);
    let mut queries = vec![all.clone(), TxQuery { limit: 2, ..TxQuery::default() }];
    for state in TxState::ALL {
        queries.push(TxQuery { state: Some(state), ..all.clone() });
        queries.push(TxQuery { state: Some(state), signer: Some(account(1)), limit: 1, ..all.clone() });
    }
    queries.push(TxQuery { signer: Some(account(1)), limit: 2, ..all.clone() });
    queries.push(TxQuery { signer: Some(account(1)), chain: Some(ChainId(2)), ..all.clone() });
    queries.push(TxQuery { chain: Some(ChainId(1)), before: third, ..all.clone() });
    for slot in 0..6 {
        queries.push(TxQuery { hash: Some(attempt(slot, 0, None).hash), ..all.clone() });
    }
    queries
}

/// Sessions, owned lanes and a few transactions, so that most steps have something to work on.
async fn begin(store: &dyn Store) {
    for n in 1..3 {
        store.open_session(session(n), "node", LEASE).await.unwrap();
    }
    for number in 0..LANES.len() {
        acquire(store, lane_of(number), 1).await;
        for n in 0..2 {
            let id = u64::try_from(number).unwrap() + 3 * n;
            admit_new(store, request(lane_of(number), id)).await;
        }
    }
}

/// What must hold whatever was done.
async fn check(store: &dyn Store) {
    for number in 0..LANES.len() {
        let loaded = store.load_lane(lane_of(number)).await.unwrap();
        let slots: BTreeSet<_> = loaded.bound.iter().map(|tx| tx.status.slot).collect();
        assert_eq!(slots.len(), loaded.bound.len(), "one live transaction per slot");
        assert!(loaded.version == LaneVersion(0) || loaded.token > Token(0));
    }
}

/// Numbers of the queue that were ever given out; a database may leave some out.
#[derive(Default)]
struct Numbers(BTreeSet<i64>);

impl Numbers {
    /// A text with places in the queue instead of numbers.
    async fn as_places(&mut self, store: &dyn Store, mut text: String) -> String {
        let all = TxQuery { limit: 1_000, ..TxQuery::default() };
        self.0.extend(store.txs(&all).await.unwrap().iter().map(|tx| tx.order.0));
        for (place, number) in (1..).zip(&self.0) {
            text = text.replace(&format!("QueueOrder({number})"), &format!("place {place}"));
        }
        text
    }
}

async fn agree(steps: &[Step], other: World) {
    let memory = World::memory().await;
    let (memory, other) = (memory.store(), other.store());
    begin(memory).await;
    begin(other).await;
    let (mut here, mut there) = (Numbers::default(), Numbers::default());
    for (at, step) in steps.iter().enumerate() {
        let said = (run(memory, step).await, run(other, step).await);
        let said = (here.as_places(memory, said.0).await, there.as_places(other, said.1).await);
        assert_eq!(said.0, said.1, "step {at}: {step:?}");
        if at % 8 == 7 || at + 1 == steps.len() {
            let seen = (look(memory).await, look(other).await);
            let seen = (here.as_places(memory, seen.0).await, there.as_places(other, seen.1).await);
            assert_eq!(seen.0, seen.1, "after step {at}");
            check(other).await;
        }
    }
}

fn on_a_runtime(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_and_sqlite_agree_on_every_answer(steps in proptest::collection::vec(step(), 1..40)) {
        on_a_runtime(async { agree(&steps, World::sqlite().await).await });
    }

    #[test]
    fn memory_and_postgres_agree_on_every_answer(steps in proptest::collection::vec(step(), 1..40)) {
        on_a_runtime(async { agree(&steps, World::postgres().await).await });
    }
}
