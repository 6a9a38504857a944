//! Two nodes on one store: what a dead one had is taken in time, and a live one keeps what it has, whatever the clocks do.

use super::clock::STEPS;
use super::*;

struct Two {
    database: Arc<TokioClock>,
    store: Handled,
    engines: Vec<Engine>,
}

impl Two {
    /// Both are there, and one of them has the lane.
    async fn start() -> Self {
        let database = TokioClock::new();
        let store = Handled::new(database.clone());
        let mut engines = Vec::new();
        for n in 1..=2 {
            let random = Arc::new(Counting(AtomicU64::new(n * 1_000)));
            let parts = Parts { random, node: format!("node-{n}"), ..parts(&store, TokioClock::new()) };
            engines.push(Engine::start(parts).await.unwrap());
        }
        submit(&engines[0].handle()).await;
        let two = Self { database, store, engines };
        // It may move once.
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(two.owner().await.is_some());
        two
    }

    async fn owner(&self) -> Option<SessionId> {
        let lane = self.store.memory.lane(LANE).await.unwrap().unwrap();
        lane.owner.map(|(_, session)| session)
    }

    /// Takes the one out that has the lane.
    async fn owning(&mut self) -> Engine {
        let owner = self.owner().await.unwrap();
        let place = self.engines.iter().position(|engine| engine.handle().session() == owner);
        self.engines.remove(place.unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_nodes_lane_is_taken_within_the_lease_whatever_the_databases_clock_does() {
    let Timings { lease, renew, scan, .. } = Timings::default();
    for step in STEPS {
        let mut two = Two::start().await;
        two.database.set(step);
        // A moment of the new time, or of none.
        tokio::time::sleep(Duration::from_millis(step.unsigned_abs() % 4_000)).await;
        drop(two.owning().await);
        two.database.set(-step);
        let (died, other) = (Instant::now(), two.engines[0].handle().session());
        until("the other one has it", async || two.owner().await == Some(other)).await;
        let took = died.elapsed();
        assert!(took >= lease - renew, "after a step of {step} ms it was taken after {took:?}");
        assert!(took <= lease + scan, "after a step of {step} ms it took {took:?}");
        assert!(two.engines[0].handle().is_live());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_starts_alone_takes_what_a_dead_one_had_within_the_lease() {
    let Timings { lease, scan, .. } = Timings::default();
    for step in STEPS {
        let mut two = Two::start().await;
        let (dead, stopped) = (two.owning().await, two.engines.remove(0));
        drop((dead, stopped));
        two.database.set(step);
        let random = Arc::new(Counting(AtomicU64::new(9_000)));
        let parts = Parts { random, ..parts(&two.store, TokioClock::new()) };
        let (begun, third) = (Instant::now(), Engine::start(parts).await.unwrap());
        let session = third.handle().session();
        until("it has the lane", async || two.owner().await == Some(session)).await;
        let took = begun.elapsed();
        assert!(took <= lease + scan, "after a step of {step} ms it took {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_node_keeps_its_lane_whatever_the_databases_clock_does() {
    let two = Two::start().await;
    let token = async || two.store.memory.lane(LANE).await.unwrap().unwrap().token;
    let before = (two.owner().await, token().await);
    for step in STEPS {
        two.database.set(step);
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!((two.owner().await, token().await), before, "after a step of {step} ms");
        }
    }
    for engine in &two.engines {
        assert!(engine.handle().is_live());
        assert_eq!(engine.handle().shared().leases.fenced.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_a_person_takes_for_dead_begins_anew_and_nothing_is_written_twice() {
    let two = Two::start().await;
    let owner = two.owner().await.unwrap();
    let (mine, others): (Vec<_>, Vec<_>) =
        two.engines.iter().map(Engine::handle).partition(|handle| handle.session() == owner);
    let refused = mine[0].break_lease(LANE, owner).await.unwrap();
    assert_eq!(refused, BreakLease::Own);
    let token = two.store.memory.lane(LANE).await.unwrap().unwrap().token;
    let unknown = SessionId::new(Millis(1), 1);
    assert_eq!(others[0].break_lease(LANE, unknown).await.unwrap(), BreakLease::NotHeld);
    assert_eq!(others[0].break_lease(LANE, owner).await.unwrap(), BreakLease::Broken { lanes: 1 });
    until("somebody has it again", async || two.owner().await.is_some()).await;
    let lane = two.store.memory.lane(LANE).await.unwrap().unwrap();
    assert!(lane.token > token, "what its owner still had under way is refused");
    until("it is live again", async || mine[0].is_live()).await;
}
