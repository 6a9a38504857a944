//! An engine on a chain that answers: it shows a block every second, and nothing is in them.

use alloy_primitives::B256;
use landfall_core::lane::Hold;
use landfall_core::ports::chain::{BlockWord, ShownBlock};
use landfall_core::request::Finality;
use landfall_core::view::ChainStatus;
use landfall_core::{ApiKeyId, Price};

use super::*;
use crate::{AcceptError, Despite};

/// A chain without a `safe` or `finalized` block. It can be down first.
struct Up {
    begun: Instant,
    is_up: AtomicBool,
    /// Blocks below this one are not kept.
    kept_from: AtomicU64,
    second: Option<Second>,
}

/// A second endpoint: whether it says the same count, how long it takes for that, and whether it says anything of blocks.
struct Second {
    agrees: AtomicBool,
    takes: Duration,
    shows: AtomicBool,
}

impl Up {
    fn new(is_up: bool) -> Arc<Self> {
        Self::of(is_up, None)
    }

    /// With a second endpoint, which does not agree yet.
    fn beside_one_that_takes(takes: Duration) -> Arc<Self> {
        Self::of(true, Some(Second { agrees: AtomicBool::new(false), takes, shows: AtomicBool::new(true) }))
    }

    fn of(is_up: bool, second: Option<Second>) -> Arc<Self> {
        let (is_up, kept_from) = (AtomicBool::new(is_up), AtomicU64::new(0));
        Arc::new(Self { begun: Instant::now(), is_up, kept_from, second })
    }

    fn answer<T>(&self, answer: T) -> Result<T, ChainError> {
        if self.is_up.load(Ordering::SeqCst) { Ok(answer) } else { down("answer") }
    }

    fn numbered(number: u64) -> Block {
        let hash = |number: u64| B256::from(U256::from(number));
        Block {
            at: BlockRef { number, hash: hash(number + 1) },
            parent: hash(number),
            timestamp: Millis(2_000_000_000_000 + number * 1_000),
            gas_limit: Gas(30_000_000),
            base_fee: Some(Price::gwei(1)),
        }
    }
}

#[async_trait]
impl Chain for Up {
    fn id(&self) -> ChainId {
        LANE.chain
    }

    fn codec(&self) -> &dyn Codec {
        panic!("nothing is signed here")
    }

    async fn block(&self, at: BlockAt) -> Result<Option<Block>, ChainError> {
        let head = self.begun.elapsed().as_secs();
        let number = match at {
            BlockAt::Latest => Some(head),
            BlockAt::Number(number) => Some(number),
            BlockAt::Hash(hash) => U256::from_be_bytes(hash.0).to::<u64>().checked_sub(1),
            BlockAt::Safe | BlockAt::Finalized => None,
        };
        let kept = self.kept_from.load(Ordering::SeqCst)..=head;
        self.answer(number.filter(|number| kept.contains(number)).map(Self::numbered))
    }

    async fn shown(&self, number: u64) -> Vec<ShownBlock> {
        let word = match self.block(BlockAt::Number(number)).await {
            Ok(found) => found.map_or(BlockWord::Lacks, |block| BlockWord::Is(block.at.hash)),
            Err(_) => BlockWord::NoAnswer,
        };
        let shown =
            |place, word| ShownBlock { place, endpoint: format!("{place}"), word, gave_head: place == 0 };
        let second = self.second.as_ref().map(|second| match second.shows.load(Ordering::SeqCst) {
            true => shown(1, word),
            false => shown(1, BlockWord::NoAnswer),
        });
        std::iter::once(shown(0, word)).chain(second).collect()
    }

    async fn leads_to(&self, _: &BlockRef, _: &BlockRef) -> Result<bool, ChainError> {
        self.answer(true)
    }

    async fn head_hint(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    async fn block_receipts(&self, _: &BlockRef) -> Result<Vec<Receipt>, ChainError> {
        self.answer(Vec::new())
    }

    async fn receipts(&self, _: &[TxHash]) -> Result<Vec<Receipt>, ChainError> {
        self.answer(Vec::new())
    }

    async fn counts(&self, accounts: &[Account], _: &BlockRef) -> Result<Vec<Slot>, ChainError> {
        self.answer(vec![Slot(0); accounts.len()])
    }

    async fn agreed(&self, counts: &[(Account, Slot)]) -> Vec<bool> {
        let Some(second) = &self.second else { return vec![true; counts.len()] };
        tokio::time::sleep(second.takes).await;
        vec![second.agrees.load(Ordering::SeqCst); counts.len()]
    }

    async fn balances(&self, accounts: &[Account], _: &BlockRef) -> Result<Vec<Wei>, ChainError> {
        self.answer(vec![Wei(U256::from(u128::MAX)); accounts.len()])
    }

    async fn delegated(&self, accounts: &[Account], _: &BlockRef) -> Result<Vec<bool>, ChainError> {
        self.answer(vec![false; accounts.len()])
    }

    async fn pooled(&self, hashes: &[TxHash]) -> Result<Vec<bool>, ChainError> {
        self.answer(vec![false; hashes.len()])
    }

    async fn taker(&self, _: &BlockRef, _: Account, _: Slot) -> Result<Option<Taker>, ChainError> {
        self.answer(None)
    }

    async fn fees(&self, head: &Block) -> Result<FeeQuote, ChainError> {
        let tip = Price::gwei(1);
        self.answer(FeeQuote { base_fee: head.base_fee, slow: tip, normal: tip, fast: tip, data_fee: None })
    }

    async fn estimate(&self, calls: &[Call]) -> Vec<Result<Gas, EstimateFailure>> {
        calls.iter().map(|_| Ok(Gas(21_000))).collect()
    }

    async fn send(&self, _: &[Sealed]) -> Vec<SendReport> {
        panic!("nothing is sent here")
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        let names = if self.second.is_some() { &["one", "two"][..] } else { &["one"] };
        let health = |name: &&str| EndpointHealth {
            name: (*name).to_owned(),
            usable: true,
            head: None,
            finalized: None,
            lacks: Vec::new(),
            latency_ms: None,
            breaker_open: false,
            answers: BTreeMap::new(),
            trouble: None,
        };
        names.iter().map(health).collect()
    }
}

async fn engine_of(chain: &Arc<Up>, settings: LaneSettings) -> Engine {
    let store = Handled::new(TokioClock::new());
    let mut parts = parts(&store, TokioClock::new());
    parts.chains.insert(LANE.chain, ChainParts { chain: chain.clone(), settings });
    Engine::start(parts).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_from_before_there_were_keys_is_known_to_one_with_a_key_while_its_lane_gives_no_nonce() {
    let chain = Up::new(false);
    let engine = engine_of(&chain, LaneSettings::default()).await;
    let handle = engine.handle();
    let call = |key: Option<&str>, nonce: u64| {
        let call = CallId { api_key: key.map(|key| ApiKeyId(key.to_owned())), nonce: CallerNonce(nonce) };
        Submission { at_once: Some(AtOnce { call: Some(call) }), ..submission() }
    };
    let Admission::New(first) = handle.admit_at_once(call(None, 3)).await.unwrap().0 else {
        panic!("not new")
    };
    handle.command(LANE, CommandKind::Pause).await.unwrap();
    until("the pause is stored", async || handle.store().lane(LANE).await.unwrap().unwrap().row.paused).await;
    chain.is_up.store(true, Ordering::SeqCst);
    until("the lane holds for it", async || handle.hold(LANE).await == Some(Hold::Paused)).await;
    let refused = handle.admit_at_once(call(Some("a"), 4)).await;
    assert!(matches!(refused, Err(crate::SubmitError::NoSlot { .. })), "{:?}", refused.map(|(told, _)| told));
    let told = handle.admit_at_once(call(Some("a"), 3)).await.unwrap().0;
    assert!(matches!(&told, Admission::Replay(again) if again.id == first.id), "{told:?}");
    engine.stop().await;
}

/// The warnings that were logged.
#[derive(Clone, Default)]
struct Warned(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

impl tracing::Subscriber for Warned {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_chain_whose_finality_no_endpoint_knows_is_warned_of_once() {
    let warned = Warned::default();
    let _heard = tracing::subscriber::set_default(warned.clone());
    for (finality, wanted) in [(Finality::Finalized, 1), (Finality::Safe, 1), (Finality::Blocks(20), 0)] {
        let chain = Up::new(true);
        let engine = engine_of(&chain, LaneSettings { finality, ..LaneSettings::default() }).await;
        let handle = engine.handle();
        until("many blocks were seen", async || {
            handle.view(LANE.chain).is_some_and(|view| view.head.at.number >= 60)
        })
        .await;
        engine.stop().await;
        let said = std::mem::take(&mut *warned.0.lock().unwrap());
        let about: Vec<&String> = said.iter().filter(|text| text.contains("no endpoint knows")).collect();
        assert_eq!(about.len(), wanted, "{finality:?}: {said:?}");
        if let Some(tag) = finality.tag() {
            assert!(about[0].contains(&format!("no endpoint knows a {tag} block")), "{said:?}");
        }
    }
}

/// Nothing of a transaction that waits for its nonce before it is stored is in the lane yet.
#[tokio::test(start_paused = true)]
async fn a_lane_without_work_begins_when_a_second_endpoint_says_its_first_nonce_however_slowly() {
    for takes in [Duration::ZERO, Duration::from_secs(2)] {
        let chain = Up::beside_one_that_takes(takes);
        let engine = engine_of(&chain, LaneSettings::default()).await;
        let handle = engine.handle();
        let cursor = async || handle.store().lane(LANE).await.unwrap().and_then(|lane| lane.row.cursor);
        // It is loaded for this.
        handle.command(LANE, CommandKind::Pause).await.unwrap();
        until("the lane holds for it", async || handle.hold(LANE).await == Some(Hold::Paused)).await;
        until("some blocks were seen", async || {
            handle.view(LANE.chain).is_some_and(|view| view.head.at.number >= 5)
        })
        .await;
        assert_eq!(cursor().await, None, "that is the word of one");
        chain.second.as_ref().unwrap().agrees.store(true, Ordering::SeqCst);
        until("the lane begins", async || cursor().await == Some(Slot(0))).await;
        engine.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_endpoint_that_does_not_say_a_first_nonce_keeps_no_block_from_being_seen() {
    let chain = Up::beside_one_that_takes(Duration::from_secs(3_600));
    let engine = engine_of(&chain, LaneSettings::default()).await;
    let handle = engine.handle();
    submit(&handle).await;
    until("some blocks were seen", async || {
        handle.view(LANE.chain).is_some_and(|view| view.head.at.number >= 10)
    })
    .await;
    assert!(chain.begun.elapsed() < Duration::from_secs(30), "{:?}", chain.begun.elapsed());
    let hold = handle.hold(LANE).await;
    assert_eq!(hold, Some(Hold::FirstCount { count: Slot(0) }));
    engine.stop().await;
}

/// By its first block a chain is known for ever, and endpoints are told from those of another one.
#[tokio::test(start_paused = true)]
async fn a_new_chain_is_followed_when_two_endpoints_show_its_first_block_or_one_was_waited_for() {
    for wait in [None, Some(Duration::from_secs(60))] {
        let chain = Up::beside_one_that_takes(Duration::ZERO);
        let shows = &chain.second.as_ref().unwrap().shows;
        shows.store(false, Ordering::SeqCst);
        let engine = engine_of(&chain, LaneSettings { witness_wait: wait, ..LaneSettings::default() }).await;
        let handle = engine.handle();
        until("it is said what is waited for", async || {
            let trouble = handle.chain_trouble(LANE.chain);
            trouble.is_some_and(|trouble| trouble.contains("two endpoints must show the same first block"))
        })
        .await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(handle.view(LANE.chain).is_none(), "that is the word of one");
        match wait {
            Some(wait) => tokio::time::sleep(wait).await,
            None => shows.store(true, Ordering::SeqCst),
        }
        until("the chain is followed", async || handle.view(LANE.chain).is_some()).await;
        engine.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_chain_whose_endpoints_keep_no_old_blocks_is_followed_after_a_long_stop() {
    for chain in [Up::new(true), Up::beside_one_that_takes(Duration::ZERO)] {
        let store = Handled::new(TokioClock::new());
        let start = async || {
            let mut parts = parts(&store, TokioClock::new());
            let settings =
                LaneSettings { watch_depth: 8, finality: Finality::Blocks(2), ..LaneSettings::default() };
            parts.chains.insert(LANE.chain, ChainParts { chain: chain.clone(), settings });
            Engine::start(parts).await.unwrap()
        };
        let engine = start().await;
        let known = async || engine.handle().store().chain(LANE.chain).await.unwrap();
        until("it is known by a final block", async || {
            known().await.is_some_and(|known| known.settled.is_some())
        })
        .await;
        engine.stop().await;

        tokio::time::advance(Duration::from_secs(2_000)).await;
        chain.kept_from.store(1_500, Ordering::SeqCst);
        let engine = start().await;
        let handle = engine.handle();
        until("it is followed", async || handle.view(LANE.chain).is_some()).await;
        assert_eq!(handle.view(LANE.chain).unwrap().status, ChainStatus::Live);
        engine.stop().await;
    }
}

/// Payments that landed since the newest block would be taken for another program's, and paid again.
#[tokio::test(start_paused = true)]
async fn an_older_store_is_accepted_by_a_block_of_the_present_only() {
    let (store, clock, chain) = (Handled::new(TokioClock::new()), TokioClock::new(), Up::new(true));
    let backup = store.memory.snapshot();
    let engine = Engine::start(parts(&store, clock.clone())).await.unwrap();
    submit(&engine.handle()).await;
    engine.stop().await;
    store.memory.restore_marked(&backup);
    let mut parts = Parts { node: "two".to_owned(), ..parts(&store, clock.clone()) };
    parts.chains.insert(LANE.chain, ChainParts { chain: chain.clone(), settings: LaneSettings::default() });
    let engine = Engine::start(parts).await.unwrap();
    let handle = engine.handle();
    until("blocks are seen", async || handle.view(LANE.chain).is_some()).await;
    let despite_pool = Despite { pool: true, old_head: false };

    clock.set(121_000);
    let refused = handle.accept_store(despite_pool, None).await.unwrap_err();
    assert!(matches!(refused, AcceptError::OldHead { age: Some(_), .. }), "{refused}");
    assert!(handle.older().await.unwrap().is_some(), "nothing was accepted");
    clock.set(-4_000);
    handle.accept_store(despite_pool, None).await.unwrap();
    assert!(handle.older().await.unwrap().is_none());
    engine.stop().await;
}
