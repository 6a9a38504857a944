//! What an engine does when a part of it fails: a lane's task that is lost, a stop that comes in the middle of a load,
//! a store that takes no commit. On the memory store, with a chain that cannot be reached.

mod accept;
mod behind;
mod clock;
mod commands;
mod sessions;
mod up;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{Address, U256};
use async_trait::async_trait;
use landfall_core::attempt::{Call, Sealed};
use landfall_core::fees::FeeQuote;
use landfall_core::journal::JournalRow;
use landfall_core::outcome::SendReport;
use landfall_core::ports::chain::{
    BlockAt, Chain, Codec, EndpointHealth, Error as ChainError, EstimateFailure, PoolLook, Taker,
};
use landfall_core::ports::clock::{Clock, Random};
use landfall_core::ports::signer::{Custody, Preimage, Signature, Signer};
use landfall_core::ports::store::{
    Acceptance, Acquired, Admission, Broken, ChainRecord, Command, CommandKind, Error, Holders, Kept,
    LaneRecord, LaneSummary, Leases, Log, Older, Pulse, Reads, TxQuery, TxRecord, Write, WriteError, Written,
};
use landfall_core::request::{AtOnce, CallId, Options, Payload};
use landfall_core::settings::LaneSettings;
use landfall_core::transaction::Transaction;
use landfall_core::view::{Block, BlockRef, Receipt};
use landfall_core::{
    Account, CallerNonce, ChainId, Gas, JournalSeq, LaneId, Millis, RequestId, SessionId, Slot, Token,
    TxHash, TxId, Wei,
};
use landfall_store::Memory;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{BreakLease, ChainParts, Engine, Handle, Parts, Submission, Telemetry, Timings};

const LANE: LaneId = LaneId { chain: ChainId(7), signer: Account(Address::repeat_byte(0xaa)) };
/// Simulated time; a test that waits longer than this hangs.
const LONG: Duration = Duration::from_secs(600);

/// Tokio's own time, which stands still unless everybody waits. Somebody may set it.
struct TokioClock {
    begun: Instant,
    now_at: AtomicU64,
}

impl TokioClock {
    fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), now_at: AtomicU64::new(2_000_000_000_000) })
    }

    fn set(&self, by_ms: i64) {
        let at = self.now_at.load(Ordering::SeqCst);
        self.now_at.store(at.saturating_add_signed(by_ms), Ordering::SeqCst);
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Millis {
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap();
        Millis(self.now_at.load(Ordering::SeqCst) + passed)
    }
}

#[derive(Default)]
struct Counting(AtomicU64);

impl Random for Counting {
    fn bits(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

struct NoKey;

#[async_trait]
impl Signer for NoKey {
    fn account(&self) -> Account {
        LANE.signer
    }

    fn custody(&self) -> Custody {
        Custody::Local
    }

    async fn sign(&self, _: Vec<Preimage>) -> Vec<Result<Signature, landfall_core::ports::signer::Error>> {
        panic!("nothing is signed here")
    }
}

/// A chain whose endpoints are all down. What their pools held when they were up is known.
#[derive(Default)]
struct Down {
    pools: Vec<PoolLook>,
}

fn down<T>(doing: &'static str) -> Result<T, ChainError> {
    Err(ChainError::Unreachable { chain: LANE.chain, doing, text: "down".to_owned() })
}

#[async_trait]
impl Chain for Down {
    fn id(&self) -> ChainId {
        LANE.chain
    }

    fn codec(&self) -> &dyn Codec {
        panic!("nothing is signed here")
    }

    async fn block(&self, _: BlockAt) -> Result<Option<Block>, ChainError> {
        down("give a block")
    }

    async fn leads_to(&self, _: &BlockRef, _: &BlockRef) -> Result<bool, ChainError> {
        down("judge a block")
    }

    async fn head_hint(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    async fn block_receipts(&self, _: &BlockRef) -> Result<Vec<Receipt>, ChainError> {
        down("give receipts")
    }

    async fn receipts(&self, _: &[TxHash]) -> Result<Vec<Receipt>, ChainError> {
        down("give receipts")
    }

    async fn counts(&self, _: &[Account], _: &BlockRef) -> Result<Vec<Slot>, ChainError> {
        down("give counts")
    }

    async fn balances(&self, _: &[Account], _: &BlockRef) -> Result<Vec<Wei>, ChainError> {
        down("give balances")
    }

    async fn delegated(&self, _: &[Account], _: &BlockRef) -> Result<Vec<bool>, ChainError> {
        down("give code")
    }

    async fn pooled(&self, _: &[TxHash]) -> Result<Vec<bool>, ChainError> {
        down("show its pool")
    }

    async fn taker(&self, _: &BlockRef, _: Account, _: Slot) -> Result<Option<Taker>, ChainError> {
        down("give a block")
    }

    async fn fees(&self, _: &Block) -> Result<FeeQuote, ChainError> {
        down("give fees")
    }

    async fn estimate(&self, calls: &[Call]) -> Vec<Result<Gas, EstimateFailure>> {
        calls.iter().map(|_| Err(EstimateFailure::Unavailable { text: "down".to_owned() })).collect()
    }

    async fn send(&self, _: &[Sealed]) -> Vec<SendReport> {
        panic!("nothing is sent here")
    }

    async fn pools(&self, _: Account) -> Vec<PoolLook> {
        self.pools.clone()
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        Vec::new()
    }
}

/// What happens to a load of the lane.
#[derive(Clone, Default)]
enum LoadFate {
    #[default]
    Works,
    /// A bug that nobody thought of.
    Panics,
    /// It begins, says so, and goes on when told.
    Waits { begun: Arc<Notify>, go_on: Arc<Notify> },
}

/// The memory store, with a hand on loads and on lanes' commits.
#[derive(Clone)]
struct Handled {
    memory: Memory,
    fates: Arc<Mutex<Vec<LoadFate>>>,
    loads: Arc<AtomicU64>,
    /// While it is set, no commit of a lane can be stored.
    refuses: Arc<Mutex<Option<&'static str>>>,
    /// Commits come through, and from then on nothing answers.
    gone: Arc<AtomicBool>,
    /// While it is set, the queue cannot be read; and how often it was tried.
    unreadable: Arc<AtomicBool>,
    asked_for_queue: Arc<AtomicU64>,
    /// How often the bytes of the queue were asked for.
    measured: Arc<AtomicU64>,
    /// What this node told others, and when another tells of the lane.
    announced: Arc<Mutex<Vec<LaneId>>>,
    hint: Arc<Notify>,
    /// Lanes that another node begins, one whenever the store is about to be accepted.
    begun: Arc<Mutex<Vec<LaneId>>>,
}

impl Handled {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            memory: Memory::new(clock),
            fates: Arc::default(),
            loads: Arc::default(),
            refuses: Arc::default(),
            gone: Arc::default(),
            unreadable: Arc::default(),
            asked_for_queue: Arc::default(),
            measured: Arc::default(),
            announced: Arc::default(),
            hint: Arc::default(),
            begun: Arc::default(),
        }
    }

    fn loads(&self) -> u64 {
        self.loads.load(Ordering::SeqCst)
    }

    fn refuse(&self, why: Option<&'static str>) {
        *self.refuses.lock().unwrap() = why;
    }
}

#[async_trait]
impl Log for Handled {
    async fn write(&self, group: Vec<Write>) -> Vec<Result<Written, WriteError>> {
        let why = *self.refuses.lock().unwrap();
        let mut answers = Vec::new();
        for write in group {
            match (why, &write) {
                (Some(why), Write::Lane(_)) => {
                    let error = Error::Failed { doing: "write", text: why.to_owned() };
                    answers.push(Err(WriteError::Failed(error)));
                }
                _ => answers.append(&mut self.memory.write(vec![write]).await),
            }
        }
        if self.gone.load(Ordering::SeqCst) {
            answers = answers.iter().map(|_| Err(WriteError::Unknown("no answer".to_owned()))).collect();
        }
        answers
    }

    async fn accept(&self, commands: Vec<Command>) -> Result<Acceptance, WriteError> {
        let begun = self.begun.lock().unwrap().pop();
        if let Some(lane) = begun {
            let session = SessionId::new(Millis(1), 70);
            self.memory.open_session(session, "other", Duration::from_secs(10)).await.unwrap();
            self.memory.acquire(lane, session).await.unwrap();
        }
        self.memory.accept(commands).await
    }
}

#[async_trait]
impl Leases for Handled {
    async fn open_session(&self, session: SessionId, node: &str, lasting: Duration) -> Result<(), Error> {
        self.memory.open_session(session, node, lasting).await
    }

    async fn renew_session(&self, session: SessionId, lasting: Duration) -> Result<bool, Error> {
        self.memory.renew_session(session, lasting).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), Error> {
        self.memory.close_session(session).await
    }

    async fn end_session(&self, session: SessionId, pulse: Pulse) -> Result<bool, Error> {
        self.memory.end_session(session, pulse).await
    }

    async fn break_lease(&self, lane: LaneId, session: SessionId) -> Result<Broken, Error> {
        self.memory.break_lease(lane, session).await
    }

    async fn acquire(&self, lane: LaneId, session: SessionId) -> Result<Acquired, Error> {
        self.memory.acquire(lane, session).await
    }

    async fn release(&self, lane: LaneId, session: SessionId, token: Token) -> Result<(), Error> {
        self.memory.release(lane, session, token).await
    }

    async fn holders(&self) -> Result<Holders, Error> {
        self.memory.holders().await
    }

    fn announce(&self, lane: LaneId) {
        self.announced.lock().unwrap().push(lane);
    }

    async fn announced(&self) -> LaneId {
        self.hint.notified().await;
        LANE
    }
}

#[async_trait]
impl Reads for Handled {
    async fn load_lane(&self, lane: LaneId) -> Result<LaneRecord, Error> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        let fate = self.fates.lock().unwrap().pop().unwrap_or_default();
        match fate {
            LoadFate::Works => {}
            LoadFate::Panics => panic!("a load that panics on purpose"),
            LoadFate::Waits { begun, go_on } => {
                begun.notify_one();
                go_on.notified().await;
            }
        }
        self.memory.load_lane(lane).await
    }

    async fn waiting_bytes(&self, lane: LaneId) -> Result<u64, Error> {
        self.measured.fetch_add(1, Ordering::SeqCst);
        self.memory.waiting_bytes(lane).await
    }

    async fn waiting(&self, lane: LaneId, limit: u32) -> Result<Vec<Transaction>, Error> {
        self.asked_for_queue.fetch_add(1, Ordering::SeqCst);
        if self.unreadable.load(Ordering::SeqCst) {
            return Err(Error::Failed { doing: "read", text: "it does not answer".to_owned() });
        }
        self.memory.waiting(lane, limit).await
    }

    async fn command(&self, id: landfall_core::CommandId) -> Result<Option<Command>, Error> {
        self.memory.command(id).await
    }

    async fn open_commands(
        &self,
        lane: LaneId,
        taken: &BTreeSet<landfall_core::CommandId>,
        limit: u32,
    ) -> Result<Vec<Command>, Error> {
        self.memory.open_commands(lane, taken, limit).await
    }

    async fn lanes_with_work(&self) -> Result<Vec<LaneId>, Error> {
        self.memory.lanes_with_work().await
    }

    async fn tx(&self, id: TxId) -> Result<Option<TxRecord>, Error> {
        if self.gone.load(Ordering::SeqCst) {
            return Err(Error::Failed { doing: "read", text: "it does not answer".to_owned() });
        }
        self.memory.tx(id).await
    }

    async fn tx_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<TxRecord>, Error> {
        self.memory.tx_by_request(signer, request).await
    }

    async fn kept(&self, id: TxId) -> Result<Option<Kept>, Error> {
        self.memory.kept(id).await
    }

    async fn kept_by_request(&self, signer: Account, request: &RequestId) -> Result<Option<Kept>, Error> {
        self.memory.kept_by_request(signer, request).await
    }

    async fn tx_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Transaction>, Error> {
        self.memory.tx_by_call(lane, call).await
    }

    async fn kept_by_call(&self, lane: LaneId, call: &CallId) -> Result<Option<Kept>, Error> {
        self.memory.kept_by_call(lane, call).await
    }

    async fn nonces_from(&self, lane: LaneId, from: &CallId, limit: u32) -> Result<Vec<CallerNonce>, Error> {
        self.memory.nonces_from(lane, from, limit).await
    }

    async fn kept_by_first_hash(&self, chain: ChainId, hash: TxHash) -> Result<Option<Kept>, Error> {
        self.memory.kept_by_first_hash(chain, hash).await
    }

    async fn txs(&self, query: &TxQuery) -> Result<Vec<Transaction>, Error> {
        self.memory.txs(query).await
    }

    async fn journal(&self, tx: TxId) -> Result<Vec<JournalRow>, Error> {
        self.memory.journal(tx).await
    }

    async fn journal_after(&self, after: JournalSeq, limit: u32) -> Result<Vec<JournalRow>, Error> {
        self.memory.journal_after(after, limit).await
    }

    async fn lanes(&self) -> Result<Vec<LaneSummary>, Error> {
        self.memory.lanes().await
    }

    async fn lane(&self, lane: LaneId) -> Result<Option<LaneSummary>, Error> {
        self.memory.lane(lane).await
    }

    async fn chain(&self, chain: ChainId) -> Result<Option<ChainRecord>, Error> {
        self.memory.chain(chain).await
    }

    async fn older(&self) -> Result<Option<Older>, Error> {
        self.memory.older().await
    }

    async fn writable(&self) -> Result<(), Error> {
        self.memory.writable().await
    }
}

async fn engine() -> (Engine, Handled) {
    engine_at(TokioClock::new()).await
}

/// The store has a clock of its own.
async fn engine_at(clock: Arc<TokioClock>) -> (Engine, Handled) {
    let store = Handled::new(TokioClock::new());
    let signer: Arc<dyn Signer> = Arc::new(NoKey);
    (engine_on(&store, clock, BTreeMap::from([(LANE, signer)])).await, store)
}

async fn engine_on(
    store: &Handled,
    clock: Arc<TokioClock>,
    signers: BTreeMap<LaneId, Arc<dyn Signer>>,
) -> Engine {
    Engine::start(Parts { signers, ..parts(store, clock) }).await.unwrap()
}

fn parts(store: &Handled, clock: Arc<TokioClock>) -> Parts {
    let chain = ChainParts { chain: Arc::new(Down::default()), settings: LaneSettings::default() };
    let signer: Arc<dyn Signer> = Arc::new(NoKey);
    Parts {
        slots_at_admission: BTreeSet::new(),
        adopts_unknown: BTreeSet::new(),
        delegates: BTreeMap::new(),
        address: None,
        store: Arc::new(store.clone()),
        chains: BTreeMap::from([(LANE.chain, chain)]),
        signers: BTreeMap::from([(LANE, signer)]),
        clock,
        random: Arc::new(Counting::default()),
        node: "one".to_owned(),
        timings: Timings::default(),
        telemetry: Telemetry::default(),
    }
}

fn submission() -> Submission {
    let payload = Payload { to: Some(LANE.signer), value: Wei(U256::from(1)), ..Payload::default() };
    Submission {
        lane: LANE,
        request_id: None,
        payload,
        options: Options::default(),
        at_once: None,
        origin: None,
    }
}

async fn submit(handle: &Handle) -> TxId {
    match handle.submit(submission()).await.unwrap() {
        Admission::New(tx) => tx.id,
        other => panic!("not new: {other:?}"),
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test(start_paused = true)]
async fn a_lane_whose_task_was_lost_to_a_panic_is_started_again() {
    let (engine, store) = engine().await;
    let handle = engine.handle();
    store.fates.lock().unwrap().push(LoadFate::Panics);
    let tx = submit(&handle).await;
    until("the lane is loaded a second time", async || store.loads() >= 2).await;
    // It runs: it can be asked, and it takes commands.
    until("it says what its transaction waits for", async || handle.explain(LANE, tx).await.is_some()).await;
    handle.command(LANE, CommandKind::Cancel { tx }).await.unwrap();
    until("its transaction is cancelled", async || {
        let record = store.memory.tx(tx).await.unwrap().unwrap();
        record.tx.status.state.is_terminal()
    })
    .await;
    assert_eq!(handle.health().await.lanes_running, 1);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_is_known_an_hour_later_and_when_its_lane_takes_nothing_in_any_more() {
    let (engine, _store) = engine().await;
    let handle = engine.handle();
    let call = |nonce: u64| {
        let call = CallId { api_key: None, nonce: CallerNonce(nonce) };
        Submission { at_once: Some(AtOnce { call: Some(call) }), ..submission() }
    };
    let Admission::New(first) = handle.admit_at_once(call(3)).await.unwrap().0 else { panic!("not new") };
    let is_first = async || match handle.admit_at_once(call(3)).await.unwrap().0 {
        Admission::Replay(again) => again.id == first.id,
        other => panic!("not the same call: {other:?}"),
    };
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(is_first().await);
    handle.command(LANE, CommandKind::Disable).await.unwrap();
    until("the lane takes nothing new in", async || handle.admit_at_once(call(4)).await.is_err()).await;
    assert!(is_first().await);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hint_from_another_node_starts_a_lane_at_once_and_what_is_not_run_here_is_told() {
    let (engine, store) = engine().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(store.loads(), 0, "there is nothing to do");
    let hinted_at = Instant::now();
    store.hint.notify_one();
    until("the lane is loaded", async || store.loads() == 1).await;
    assert!(hinted_at.elapsed() < Duration::from_millis(100), "long before the next look at the store");
    assert!(store.announced.lock().unwrap().is_empty(), "a hint is not passed on");
    let handle = engine.handle();
    submit(&handle).await;
    assert!(store.announced.lock().unwrap().is_empty(), "it runs here");
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_admission_for_a_lane_that_does_not_run_here_is_told_to_the_others() {
    let (engine, store) = engine().await;
    // Between two looks at the store, of which the next would find it here.
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    submit(&engine.handle()).await;
    assert_eq!(*store.announced.lock().unwrap(), [LANE]);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_is_being_loaded_when_the_engine_stops_is_given_back_and_does_not_hold_it_up() {
    let (engine, store) = engine().await;
    let handle = engine.handle();
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    store.fates.lock().unwrap().push(LoadFate::Waits { begun: begun.clone(), go_on: go_on.clone() });
    submit(&handle).await;
    begun.notified().await;
    let stopped_at = Instant::now();
    let stop = tokio::spawn(engine.stop());
    tokio::task::yield_now().await;
    // The word to stop went out while this lane had no mailbox yet.
    go_on.notify_one();
    stop.await.unwrap();
    assert!(stopped_at.elapsed() < Duration::from_secs(1), "it took {:?}", stopped_at.elapsed());
    let lane = store.memory.lane(LANE).await.unwrap().unwrap();
    assert_eq!(lane.owner, None, "the lease was given back");
    assert_eq!(handle.health().await.lanes_running, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_can_store_nothing_is_tried_less_and_less_often_and_says_so_until_it_can() {
    let (engine, store) = engine().await;
    let handle = engine.handle();
    store.refuse(Some("the disk is full"));
    let tx = submit(&handle).await;
    // What it has to store: a cancel.
    handle.command(LANE, CommandKind::Cancel { tx }).await.unwrap();
    let begun = Instant::now();
    until("it has failed a few times", async || store.loads() >= 6).await;
    assert!(begun.elapsed() > Duration::from_secs(7), "6 loads took {:?}", begun.elapsed());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let loads = store.loads();
    assert!(loads < 40, "{loads} loads in eleven minutes");
    until("its sentence is told", async || {
        let record = store.memory.tx(tx).await.unwrap().unwrap();
        handle.explain_from_afar(&record.tx).await.contains("the disk is full")
    })
    .await;
    let trouble = handle.health().await.lanes_in_trouble;
    assert!(trouble[&LANE].contains("the disk is full"), "{trouble:?}");

    store.refuse(None);
    until("the cancel is stored", async || {
        store.memory.tx(tx).await.unwrap().unwrap().tx.status.state.is_terminal()
    })
    .await;
    assert!(handle.health().await.lanes_in_trouble.is_empty());

    store.refuse(Some("the disk is full again"));
    let tx = submit(&handle).await;
    handle.command(LANE, CommandKind::Cancel { tx }).await.unwrap();
    until("it is in trouble", async || !handle.health().await.lanes_in_trouble.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let stopped_at = Instant::now();
    engine.stop().await;
    assert!(stopped_at.elapsed() < Duration::from_secs(1), "a pause does not hold up a stop");
}

#[tokio::test(start_paused = true)]
async fn what_was_stored_and_cannot_be_looked_up_is_never_told_to_be_not_stored() {
    let (engine, store) = engine().await;
    store.gone.store(true, Ordering::SeqCst);
    let told = engine.handle().submit(submission()).await;
    assert!(matches!(told, Err(crate::SubmitError::Unknown(_))), "{told:?}");
    let stored = store.memory.txs(&TxQuery { limit: 10, ..TxQuery::default() }).await.unwrap();
    assert_eq!(stored.len(), 1, "the commit had come through");
}
