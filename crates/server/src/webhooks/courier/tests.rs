//! A courier at work while the clock of its machine is set. Its receiver takes nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, U256};
use landfall_core::ports::clock::{Clock, Random};
use landfall_core::ports::records::RecordWrite;
use landfall_core::ports::store::{Log as _, Write};
use landfall_core::request::{NewTransaction, Options, Payload, Request, fingerprint};
use landfall_core::{Account, ChainId, LaneId, TxId, Wei};
use landfall_engine::{Engine, Parts, Telemetry, Timings};
use landfall_store::Memory;

use super::*;
use crate::metrics::Metrics;
use crate::tail::Tail;
use crate::webhooks::{DeliveryState, Desk, Filter, InstallationSecret, Keys, Progress, Webhooks};

const LANE: LaneId = LaneId { chain: ChainId(7), signer: Account(Address::repeat_byte(0xaa)) };
const HOUR_MS: i64 = 3_600_000;
const YEAR_MS: i64 = 365 * 24 * HOUR_MS;
const LONGEST: Duration = Duration::from_secs(20);

/// Tokio's own time, which stands still unless everybody waits. Somebody may set it.
struct Set {
    begun: Instant,
    now_at: AtomicU64,
}

impl Set {
    fn by(&self, by_ms: i64) {
        let at = self.now_at.load(Ordering::SeqCst);
        self.now_at.store(at.saturating_add_signed(by_ms), Ordering::SeqCst);
    }
}

impl Clock for Set {
    fn now(&self) -> Millis {
        Millis(self.now_at.load(Ordering::SeqCst)).after(self.begun.elapsed())
    }
}

#[derive(Default)]
struct Counting(AtomicU64);

impl Random for Counting {
    fn bits(&self) -> u128 {
        self.0.fetch_add(1, Ordering::Relaxed).into()
    }
}

struct AtWork {
    clock: Arc<Set>,
    /// Kept, so that its session lives.
    _engine: Engine,
    _newer: watch::Sender<Stored>,
    courier: Courier,
}

impl AtWork {
    /// With an event of each of so many transactions.
    async fn with(events: u64) -> Self {
        let clock = Arc::new(Set { begun: Instant::now(), now_at: AtomicU64::new(2_000_000_000_000) });
        let store = Memory::new(clock.clone());
        let engine = Engine::start(Parts {
            store: Arc::new(store.clone()),
            chains: BTreeMap::new(),
            signers: BTreeMap::new(),
            clock: clock.clone(),
            random: Arc::new(Counting::default()),
            slots_at_admission: BTreeSet::new(),
            adopts_unknown: BTreeSet::new(),
            delegates: BTreeMap::new(),
            address: None,
            node: "one".to_owned(),
            timings: Timings::default(),
            telemetry: Telemetry::default(),
        });
        let engine = engine.await.unwrap();
        for n in 0..events {
            store.write(vec![Write::Admit(Box::new(admitted(n)))]).await.remove(0).unwrap();
        }
        let secret = InstallationSecret::new("a secret of the tests that is long enough").unwrap();
        let settings = Webhooks {
            secret: Some(secret.clone()),
            retry_longest: LONGEST,
            give_up_after: Duration::from_secs(24 * 3_600),
            ..Webhooks::default()
        };
        let metrics = Arc::new(Metrics::new("one", [LANE.chain]).unwrap());
        let records: Arc<dyn landfall_core::ports::records::Records> = Arc::new(store);
        // It may be there already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let desk = Desk::new(engine.handle(), records, Tail::new(), settings, metrics).unwrap();
        let endpoint = Endpoint {
            // Not to be reached, so nothing is waited for.
            url: "http://127.0.0.1:1/".to_owned(),
            description: String::new(),
            filter: Filter::default(),
            created_at: clock.now(),
            switch: Switch::On,
            keys: Keys::first(&secret),
            epoch: 0,
            claim: Some(Claim { session: engine.handle().session(), node: "one".to_owned() }),
            progress: Progress::from(JournalSeq(0)),
        };
        let body = Some(serde_json::to_value(&endpoint).unwrap());
        let new = RecordWrite { kind: RecordKind::Webhook, id: "wh_1".to_owned(), expected: 0, body };
        let written = desk.shared.records.write_records(vec![new]).await.unwrap();
        assert_eq!(written, RecordsWritten::Yes);
        let stored = desk.shared.all().await.unwrap().remove(0);
        let (newer, hears) = watch::channel(stored.clone());
        let courier = Courier::load(desk.shared.clone(), stored, hears).await.unwrap();
        Self { clock, _engine: engine, _newer: newer, courier }
    }

    fn rows(&self) -> Vec<&Delivery> {
        (1..=20).filter_map(|seq| self.courier.queue.row(JournalSeq(seq))).collect()
    }

    fn failures(&self) -> u32 {
        self.rows().iter().map(|row| row.failures).sum()
    }

    /// Goes on until so many more tries have failed; answers how long that took.
    async fn until_failed(&mut self, more: u32) -> Duration {
        let (begun, wanted) = (Instant::now(), self.failures() + more);
        while self.failures() < wanted {
            self.courier.turn().await.unwrap();
            assert!(begun.elapsed() < Duration::from_secs(1_800), "{:?}", self.rows());
        }
        begun.elapsed()
    }
}

fn admitted(n: u64) -> NewTransaction {
    let payload = Payload { to: Some(LANE.signer), value: Wei(U256::from(1)), ..Payload::default() };
    let options = Options::default();
    let fingerprint = fingerprint(&LANE, &payload, &options).unwrap();
    let accepted_at = Millis(2_000_000_000_000);
    let (request_id, retry_of, at_once) = (None, None, None);
    let origin = None;
    let request =
        Request { request_id, payload, options, fingerprint, accepted_at, retry_of, at_once, origin };
    NewTransaction { id: TxId::new(accepted_at, n.into()), lane: LANE, request }
}

/// One event waits by its own time; of many it is the receiver that is left alone.
const EVENTS: [u64; 2] = [1, 6];

#[tokio::test(start_paused = true)]
async fn what_waits_is_not_held_up_by_a_clock_that_goes_back() {
    for events in EVENTS {
        let mut work = AtWork::with(events).await;
        work.until_failed(12).await;
        work.clock.by(-HOUR_MS);
        let took = work.until_failed(1).await;
        assert!(took <= LONGEST + Duration::from_secs(1), "{events}: it waited {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_not_tried_at_once_by_a_clock_that_leaps() {
    for events in EVENTS {
        let mut work = AtWork::with(events).await;
        work.until_failed(12).await;
        work.clock.by(YEAR_MS);
        let took = work.until_failed(1).await;
        assert!(took >= LONGEST / 4, "{events}: it waited {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_given_up_by_a_clock_that_leaps() {
    for events in EVENTS {
        let mut work = AtWork::with(events).await;
        // Longer than the longest wait: what was seen here counts.
        work.until_failed(12).await;
        // Another event got through meanwhile.
        work.courier.endpoint.progress.delivered_at = Some(work.clock.now());
        work.clock.by(YEAR_MS);
        work.until_failed(12).await;
        assert!(work.courier.endpoint.is_on(), "{:?}", work.courier.endpoint.switch);
        let given_up = work.rows().iter().filter(|row| row.state == DeliveryState::GivenUp).count();
        assert_eq!(given_up, 0, "{:?}", work.rows());
    }
}
