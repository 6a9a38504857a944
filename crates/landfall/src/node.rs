//! A node: the adapters put together as the configuration says, an engine on them and a server in front.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use landfall_chain::evm::EvmChain;
use landfall_core::ports::audit::AuditLog;
use landfall_core::ports::clock::Clock;
use landfall_core::ports::records::Records;
use landfall_core::ports::signer::Signer;
use landfall_core::ports::store::Store;
use landfall_core::settings::{Allocation, OnUnknownSlots};
use landfall_core::{Account, ChainId, LaneId, Namespace};
use landfall_engine::{ChainParts, Engine, Meter, Parts, ShownSigner, Telemetry, Timings};
use landfall_server::webhooks::Webhooks;
use landfall_server::{BindError, Metrics, Observer, Server};
use landfall_signer::{Loader, Source};
use landfall_store::postgres::OpenError;
use landfall_store::{Postgres, Sqlite};
use tokio::time::Instant;

use crate::config::{Chain, Config};
use crate::system::{SystemClock, SystemRandom};
use crate::traces::{CountedAndTraced, Traces};

/// A node that is ready to answer.
pub(crate) struct Node {
    engine: Engine,
    server: Server,
    lanes: Vec<LaneId>,
    traces: Option<Arc<Traces>>,
}

impl Node {
    /// Opens the store, loads the keys, starts the engine and takes the address.
    pub(crate) async fn start(config: &Config) -> Result<Self> {
        Self::start_with(config, load_signers(config)?).await
    }

    /// As [`Self::start`], with keys that the caller brings.
    pub(crate) async fn start_with(config: &Config, keys: Keys) -> Result<Self> {
        let Keys { signers, slots_at_admission, adopts_unknown, delegates, webhooks: own_webhooks } = keys;
        if config.chain.is_empty() {
            bail!("no chain is configured; add a [[chain]] with its id and rpc");
        }
        if signers.is_empty() {
            bail!("no signer is configured; add a [[signer]] with its key");
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut chains = BTreeMap::new();
        for chain in &config.chain {
            let mut settings = chain.chain_config();
            settings.callers = config.rpc.callers(&chain.caller_rpc);
            let evm = EvmChain::new(settings, clock.clone())?;
            let parts = ChainParts { chain: Arc::new(evm), settings: chain.lane_settings() };
            chains.insert(ChainId(chain.id), parts);
        }
        let lanes = signers.keys().copied().collect();
        let Stores { store, records, audit } = open_store_when_there(config).await?;
        let metrics = Arc::new(Metrics::new(&config.node.name, chains.keys().copied())?);
        let traces = Traces::start(&config.traces, &config.node.name)?;
        let meter: Arc<dyn Meter> = match &traces {
            Some(traces) => Arc::new(CountedAndTraced { metrics: metrics.clone(), traces: traces.clone() }),
            None => metrics.clone(),
        };
        let telemetry = Telemetry { meter, mask_signers: config.metrics.mask_signers };
        let parts = Parts {
            slots_at_admission,
            adopts_unknown,
            delegates,
            address: config.server.address(),
            store,
            chains,
            signers,
            clock,
            random: Arc::new(SystemRandom),
            node: config.node.name.clone(),
            timings: Timings {
                lease: config.lease.duration(),
                renew: config.lease.renew(),
                skew: config.lease.skew(),
                keep_finished: config.store.keep_finished(),
                ..Timings::default()
            },
            telemetry,
        };
        let engine = Engine::start(parts).await?;
        let door = landfall_server::Parts {
            handle: engine.handle(),
            records,
            audit,
            limits: config.access.limits(config.server.limits()),
            metrics,
            access: config.access.policy()?,
            observer: traces.clone().map(|traces| -> Arc<dyn Observer> { traces }),
            trade_head_age: Duration::from_secs(config.trades.max_head_age_s),
            cors_origins: config.server.cors_origins.clone(),
            tls: config.server.tls(config.access.files()),
            health_listen: config.server.health_listen(),
            webhooks: match own_webhooks {
                Some(own) => own,
                None => webhooks(config)?,
            },
            rpc: config.rpc.settings(config.access.raw_quota())?,
        };
        let server = Server::bind(config.server.listen, door).await?;
        Ok(Self { engine, server, lanes, traces })
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        Ok(self.server.address()?)
    }

    pub(crate) fn health_address(&self) -> Option<SocketAddr> {
        self.server.health_address()
    }

    pub(crate) fn lanes(&self) -> &[LaneId] {
        &self.lanes
    }

    /// There is no key, so that everybody may do everything.
    pub(crate) fn is_open(&self) -> bool {
        self.server.is_open()
    }

    /// An account as log lines may show it.
    pub(crate) fn shown(&self, signer: Account) -> ShownSigner {
        self.engine.handle().parts().telemetry.signer(signer)
    }

    /// Answers until `stop` comes, then finishes what is under way.
    pub(crate) async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        self.server.run(stop).await;
        self.engine.stop().await;
        if let Some(traces) = self.traces {
            // It waits for the collector, which must not keep this thread from anything.
            tokio::task::spawn_blocking(move || traces.stop()).await.ok();
        }
        tracing::info!("stopped; what was accepted goes on at the next start");
        Ok(())
    }
}

/// Says how another address is chosen, if the error is about that.
pub(crate) fn addressed(error: anyhow::Error, key: &str) -> anyhow::Error {
    match error.downcast_ref::<BindError>() {
        Some(BindError::Listen { .. }) => {
            anyhow!("{error}; if another program has the address, choose one with {key}")
        }
        _ => error,
    }
}

/// A store in a database, the same store for documents, and its audit log.
pub(crate) struct Stores {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) audit: Arc<dyn AuditLog>,
}

impl Stores {
    fn of(store: Arc<impl Store + Records + AuditLog + 'static>) -> Self {
        Self { store: store.clone(), records: store.clone(), audit: store }
    }
}

/// As [`open_store`], and waits for a database that has not started yet, as long as the configuration says.
async fn open_store_when_there(config: &Config) -> Result<Stores> {
    let wait = Duration::from_secs(config.store.wait_s);
    let since = Instant::now();
    let mut told: Option<Instant> = None;
    loop {
        let error = match open_store(config).await {
            Ok(stores) => return Ok(stores),
            Err(error) => error,
        };
        let may_pass = error.downcast_ref::<OpenError>().is_some_and(OpenError::may_pass);
        let waited = since.elapsed();
        if !may_pass || waited + ASK_STORE_EVERY > wait {
            return Err(if may_pass && !wait.is_zero() {
                anyhow!("{error}; it was waited for {} s (store.wait_s)", waited.as_secs())
            } else {
                error
            });
        }
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            told = Some(Instant::now());
            let left = wait.saturating_sub(waited).as_secs();
            tracing::warn!("waiting for the store, {left} s more at most: {error}");
        }
        tokio::time::sleep(ASK_STORE_EVERY).await;
    }
}

/// How often a database that has not started is asked, and how often that is said.
const ASK_STORE_EVERY: Duration = Duration::from_secs(1);
const TELL_EVERY: Duration = Duration::from_secs(5);

/// The store that the URL names: for transactions, and for the door's documents.
pub(crate) async fn open_store(config: &Config) -> Result<Stores> {
    let url = &config.store.url;
    let namespace = Namespace(config.store.namespace.clone());
    if config.store.is_postgres() {
        let lease = config.lease.duration();
        let options = landfall_store::postgres::Options { lease, ..Default::default() };
        let store = Arc::new(Postgres::open(url, &namespace, &options).await?);
        return Ok(Stores::of(store));
    }
    let store = Arc::new(Sqlite::open(url, &namespace, &landfall_store::sqlite::Options::default())?);
    Ok(Stores::of(store))
}

/// The lanes' signers, and which of the lanes hand out slots at admission.
#[derive(Default)]
pub(crate) struct Keys {
    pub(crate) signers: BTreeMap<LaneId, Arc<dyn Signer>>,
    pub(crate) slots_at_admission: BTreeSet<LaneId>,
    pub(crate) adopts_unknown: BTreeSet<LaneId>,
    /// To which addresses' code their accounts may be delegated.
    pub(crate) delegates: BTreeMap<LaneId, BTreeSet<Account>>,
    /// How webhooks are delivered, if not as configured.
    pub(crate) webhooks: Option<Webhooks>,
}

/// As configured, with the secret that the environment or a file has.
fn webhooks(config: &Config) -> Result<Webhooks> {
    let (env, file) = (&config.webhooks.secret_env, &config.webhooks.secret_file);
    let secret = if file.as_os_str().is_empty() {
        std::env::var(env).ok()
    } else {
        Some(config.access.files().read("webhooks.secret_file", file)?)
    };
    let settings = config.webhooks.settings(secret.as_deref());
    if secret.is_some() && settings.secret.is_none() {
        tracing::warn!(
            "the secret of webhooks has under 32 characters, so they cannot be used: give it more, at random"
        );
    }
    Ok(settings)
}

fn load_signers(config: &Config) -> Result<Keys> {
    let mut keys = Keys::default();
    let mut loader = Loader::default();
    for (position, signer) in config.signer.iter().enumerate() {
        let named = || format!("signer {position} ({}) cannot be used", signer.setting());
        let source = signer.source(config.access.files()).with_context(named)?;
        warn_of_empty_password(&source).with_context(named)?;
        let loaded = loader.load(&source, signer.address).with_context(named)?;
        let is_public = loaded.is_public();
        let loaded: Arc<dyn Signer> = Arc::new(loaded);
        let chains = config.chain.iter();
        let chains = chains.filter(|chain| signer.chains.is_empty() || signer.chains.contains(&chain.id));
        for chain in chains {
            let lane = LaneId { chain: ChainId(chain.id), signer: loaded.account() };
            if is_public {
                refuse_public_key(lane.signer, chain)?;
            }
            if signer.allocation == Allocation::Admission {
                keys.slots_at_admission.insert(lane);
            }
            if signer.on_unknown_slots == OnUnknownSlots::Adopt {
                keys.adopts_unknown.insert(lane);
            }
            if !signer.delegate_to.is_empty() {
                keys.delegates.insert(lane, signer.delegate_to.iter().copied().collect());
            }
            if keys.signers.insert(lane, loaded.clone()).is_some() {
                bail!("{} is configured twice for chain {}", loaded.account(), chain.id);
            }
        }
    }
    Ok(keys)
}

/// A key that everybody knows is for chains on which nothing is worth anything.
fn refuse_public_key(account: Account, chain: &Chain) -> Result<()> {
    if chain.is_development() {
        return Ok(());
    }
    bail!(
        "the key of {account} is a public test key, which everybody knows: whatever is sent to it on chain {} is taken at once. \
         Make a key of your own (`landfall key new keys/a.json --password-file …`); if nothing on this chain is worth anything, \
         set development = true in its [[chain]]",
        chain.id
    )
}

/// A key file without a password is used, since it may have been made elsewhere, and that is said.
fn warn_of_empty_password(source: &Source) -> Result<()> {
    if let Source::Keystore { file, password } = source
        && password.read(&|name| std::env::var(name).ok())?.is_empty()
    {
        tracing::warn!(
            keystore = %file.path().display(),
            "the password of this key file is empty: whoever reads the file has the key. Make a new key with a password, and \
             move what the account has to it"
        );
    }
    Ok(())
}

/// Ctrl-C, or the signal that service managers send.
pub(crate) async fn stop_signal() {
    let interrupt = async {
        // Without a handler the signal ends the process at once, which is safe as well.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending::<()>().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
    tracing::info!("stopping: requests under way are finished first");
}
