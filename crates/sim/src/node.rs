//! Nodes: real engines on simulated adapters, started, crashed and started again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::{Address, U256};
use landfall_core::ports::signer::Signer;
use landfall_core::request::{Finality, OnDisplaced};
use landfall_core::settings::LaneSettings;
use landfall_core::{Account, ChainId, LaneId, Price, Wei};
use landfall_engine::{ChainParts, Engine, Handle, Parts, Telemetry, Timings};
use landfall_store::Memory;

use crate::chain::adapter::SimChain;
use crate::database::Database;
use crate::signer::SimSigner;
use crate::store::{ProcessSession, SimStore};
use crate::world::{NodeClock, SeededRandom, World};

/// The ceiling of every attempt.
pub(crate) const MAX_FEE: Price = Price::gwei(200);
/// How often nodes look for history that may go.
pub(crate) const FORGET_EVERY: Duration = Duration::from_secs(5);
/// A value above this needs a person's yes.
pub(crate) const APPROVE_ABOVE: Wei = Wei(U256::from_limbs([1_000_000, 0, 0, 0]));
const START_LIMIT: Duration = Duration::from_secs(20);

/// All nodes of a run and the store they share.
pub(crate) struct Nodes {
    pub(crate) world: Arc<World>,
    pub(crate) memory: Memory,
    pub(crate) database: Arc<Database>,
    running: Mutex<Vec<Option<Engine>>>,
}

impl Nodes {
    #[must_use]
    pub(crate) fn new(world: Arc<World>, memory: Memory) -> Arc<Self> {
        let running = (0..world.scenario.nodes).map(|_| None).collect();
        let database = Database::new(world.clone(), memory.clone());
        Arc::new(Self { world, memory, database, running: Mutex::new(running) })
    }

    /// Starts a node, if it does not run; tries until it can open its session.
    pub(crate) async fn start(&self, node: usize) {
        loop {
            let parts = self.parts(node);
            match tokio::time::timeout(START_LIMIT, Engine::start(parts)).await {
                Ok(Ok(engine)) => {
                    self.world.trace(format_args!("node {node} starts"));
                    if let Some(place) = self.lock().get_mut(node) {
                        *place = Some(engine);
                    }
                    return;
                }
                Ok(Err(_)) | Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
    }

    /// Everything the node has in memory is gone, wherever it was.
    pub(crate) fn crash(&self, node: usize) -> bool {
        self.take(node).is_some()
    }

    /// The engine of a node that runs, for the caller to end.
    pub(crate) fn take(&self, node: usize) -> Option<Engine> {
        self.lock().get_mut(node).and_then(Option::take)
    }

    /// What callers hold of a node that runs.
    #[must_use]
    pub(crate) fn handle(&self, node: usize) -> Option<Handle> {
        self.lock().get(node)?.as_ref().map(Engine::handle)
    }

    /// Nodes that run.
    #[must_use]
    pub(crate) fn alive(&self) -> Vec<usize> {
        self.lock().iter().enumerate().filter(|(_, engine)| engine.is_some()).map(|(node, _)| node).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<Engine>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store as a new process of this node sees it.
    pub(crate) fn store(&self, node: usize) -> SimStore {
        // Somebody copied a configuration: two nodes have one name.
        let named = if self.world.scenario.twins && node == 1 { 0 } else { node };
        SimStore {
            world: self.world.clone(),
            node,
            name: format!("node-{named}"),
            database: self.database.clone(),
            memory: self.memory.clone(),
            session: ProcessSession::default(),
        }
    }

    fn parts(&self, node: usize) -> Parts {
        let world = &self.world;
        let scenario = &world.scenario;
        let settings = LaneSettings {
            finality: Finality::Blocks(scenario.finality),
            max_in_flight: world.lock().window.unwrap_or(scenario.max_in_flight),
            resubmit_after: scenario.resubmit,
            max_fee: MAX_FEE,
            approve_above: Some(APPROVE_ABOVE),
            max_spend_per_day: scenario.budget.map(|wei| Wei(U256::from(wei))),
            watch_depth: scenario.finality + scenario.deep,
            on_displaced: if scenario.fail_displaced { OnDisplaced::Fail } else { OnDisplaced::Requeue },
            planted: world.planted.and_then(crate::planted::Planted::in_lane),
            ..LaneSettings::default()
        };
        let store = self.store(node);
        let mut chains = BTreeMap::new();
        let mut signers: BTreeMap<LaneId, Arc<dyn Signer>> = BTreeMap::new();
        for id in chain_ids(scenario.chains) {
            let chain = Arc::new(SimChain { world: world.clone(), node, id, session: store.session.clone() });
            chains.insert(id, ChainParts { chain, settings: settings.clone() });
            for account in accounts(scenario.signers) {
                let signer = SimSigner { world: world.clone(), node, account };
                signers.insert(LaneId { chain: id, signer: account }, Arc::new(signer));
            }
        }
        let first = accounts(1);
        let at_admission = signers.keys().filter(|lane| first.contains(&lane.signer)).copied();
        let at_admission = at_admission.filter(|_| scenario.slots_at_admission).collect();
        // Callers delegate to their own account, and take that back.
        let nobody = Account(Address::ZERO);
        let delegates = signers.keys().map(|lane| (*lane, [lane.signer, nobody].into())).collect();
        Parts {
            slots_at_admission: at_admission,
            adopts_unknown: Default::default(),
            delegates,
            address: None,
            node: store.name.clone(),
            store: Arc::new(store),
            chains,
            signers,
            clock: Arc::new(NodeClock { world: world.clone(), node }),
            random: Arc::new(SeededRandom(world.clone())),
            timings: Timings {
                keep_finished: scenario.keep,
                forget_every: FORGET_EVERY,
                planted: world.planted.and_then(crate::planted::Planted::in_engine),
                ..Timings::default()
            },
            telemetry: Telemetry::default(),
        }
    }
}

/// The chains of a run.
pub(crate) fn chain_ids(count: usize) -> impl Iterator<Item = ChainId> {
    (1..=count as u64).map(ChainId)
}

/// The accounts of a run.
#[must_use]
pub(crate) fn accounts(count: usize) -> Vec<Account> {
    (1..=count).map(|n| Account(Address::with_last_byte(u8::try_from(n).unwrap_or(u8::MAX)))).collect()
}
