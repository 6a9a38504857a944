//! Listening, and stopping kindly.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn_with_state, map_response};
use landfall_core::Millis;
use landfall_core::ports::audit::AuditLog;
use landfall_core::ports::records::Records;
use landfall_core::ports::store::Error as StoreError;
use landfall_engine::Handle;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower_http::catch_panic::CatchPanicLayer;

use crate::access::{Audit, Keyring, Policy};
use crate::connections;
use crate::doors::{Crowd, Doors, Room};
use crate::guard::{self, Guard};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::probe::Probe;
use crate::problem::{Code, Problem};
use crate::routes;
use crate::rpc::{self, Answers, CallsKept, Keeper, Sockets, Underway};
use crate::tail::Tail;
use crate::tls::{self, Tls, TlsFiles};
use crate::webhooks::{Desk, Webhooks};

/// How often it is looked what of the audit log may go.
const TRIM_EVERY: Duration = Duration::from_secs(3_600);
/// A breath between two parts of it, for others that write.
const TRIM_PAUSE: Duration = Duration::from_millis(10);

/// What a server is made of.
pub struct Parts {
    pub handle: Handle,
    /// The same store that the handle's engine writes to.
    pub records: Arc<dyn Records>,
    /// The audit log of that store.
    pub audit: Arc<dyn AuditLog>,
    pub limits: Limits,
    /// The meter that the engine behind the handle was started with.
    pub metrics: Arc<Metrics>,
    pub access: Policy,
    pub observer: Option<Arc<dyn Observer>>,
    /// How old a chain's newest block may be for trades to be taken.
    pub trade_head_age: Duration,
    /// Other origins whose pages may call.
    pub cors_origins: Vec<String>,
    /// None: without TLS.
    pub tls: Option<TlsFiles>,
    /// Where health is served beside, and nothing else; none: only with the rest.
    pub health_listen: Option<SocketAddr>,
    pub webhooks: Webhooks,
    pub rpc: rpc::Settings,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("cannot listen on {listen} ({error})")]
    Listen { listen: SocketAddr, error: std::io::Error },
    #[error(
        "{listen} can be reached from other machines, and there is no API key: whoever reaches it could spend from every \
         signer. Make a key first (`landfall api-key create --role admin --name me --config landfall.toml`), or give one in \
         the variable that access.admin_key_env names. access.open = true does not count here, but on loopback addresses only"
    )]
    NoKeys { listen: SocketAddr },
    #[error(
        "there is no API key, and whoever reaches {listen} could spend from every signer: other users of this machine, and \
         whoever a proxy on it lets through. Make a key first (`landfall api-key create --role admin --name me --config \
         landfall.toml`), or say that this is meant with access.open = true, which counts on loopback addresses only"
    )]
    NotOpen { listen: SocketAddr },
    #[error("TLS cannot be served: {0}")]
    Tls(String),
    #[error("events could not be delivered: {0}")]
    Webhooks(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What handlers see.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) handle: Handle,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) tail: Tail,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) rpc: Arc<rpc::Settings>,
    pub(crate) answers: Arc<Answers>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) calls_kept: Arc<CallsKept>,
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) underway: Arc<Underway>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) audit: Audit,
    pub(crate) probe: Arc<Probe>,
    pub(crate) desk: Desk,
    pub(crate) doors: Arc<Doors>,
    /// Places for callers that listen to events.
    pub(crate) listeners: Arc<Semaphore>,
    pub(crate) trade_head_age: Duration,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// A server that listens.
pub struct Server {
    handle: Handle,
    tail: Tail,
    keeper: Arc<Keeper>,
    calls_kept: Arc<CallsKept>,
    sockets: Arc<Sockets>,
    listener: TcpListener,
    router: Router,
    health: Option<(TcpListener, Router)>,
    metrics: Arc<Metrics>,
    limits: Limits,
    tls: Option<Tls>,
    desk: Desk,
    audit: Audit,
    keep_audit: Option<Duration>,
    is_open: bool,
}

impl Server {
    /// Checks everything, then takes the address; requests wait until [`Server::run`].
    pub async fn bind(listen: SocketAddr, parts: Parts) -> Result<Self, BindError> {
        let Parts {
            handle,
            records,
            audit: audit_log,
            limits,
            metrics,
            access,
            observer,
            trade_head_age,
            cors_origins,
            tls,
            health_listen,
            webhooks,
            rpc,
        } = parts;
        let tls = tls.map(|files| files.load().map_err(BindError::Tls)).transpose()?;
        let engine = handle.parts();
        let (clock, random) = (engine.clock.clone(), engine.random.clone());
        let keep_audit = access.keep_audit;
        let access = Policy { loopback: listen.ip().is_loopback(), ..access };
        let keyring = Arc::new(Keyring::new(records.clone(), clock, random, access));
        if !keyring.any().await? {
            if !listen.ip().is_loopback() {
                return Err(BindError::NoKeys { listen });
            }
            if !keyring.policy().open {
                return Err(BindError::NotOpen { listen });
            }
        }
        let is_open = keyring.is_open().await?;
        let audit = Audit::start(audit_log, records.clone(), engine.clock.clone(), &engine.node).await?;
        let tail = Tail::new();
        let desk = Desk::new(handle.clone(), records.clone(), tail.clone(), webhooks, metrics.clone());
        let desk = desk.map_err(|error| BindError::Webhooks(error.to_string()))?;
        // Nobody is heard before everything is known to be in order.
        let (listener, address) = bound(listen).await?;
        let health = match health_listen {
            Some(listen) => Some(bound(listen).await?),
            None => None,
        };
        if tls.is_none() && !address.ip().is_loopback() {
            tracing::warn!(
                "{address} is served without TLS: whoever is on the way reads the API keys that are shown. Name a certificate \
                 (server.tls_certificate, server.tls_key), or let nothing but a proxy with TLS reach it"
            );
        }
        let chains = Arc::new(handle.clone());
        let keeper = Arc::new(Keeper::new(
            chains,
            records.clone(),
            keyring.clone(),
            audit.clone(),
            metrics.clone(),
            rpc.raw,
        ));
        let calls_kept = Arc::new(CallsKept::new(handle.clone(), records.clone()));
        let sockets = Arc::new(Sockets::new());
        let app = App {
            handle: handle.clone(),
            records,
            tail: tail.clone(),
            limits,
            metrics: metrics.clone(),
            answers: Arc::new(Answers::new(rpc.budget)),
            rpc: Arc::new(rpc),
            keeper: keeper.clone(),
            calls_kept: calls_kept.clone(),
            sockets: sockets.clone(),
            underway: Arc::default(),
            keyring,
            audit: audit.clone(),
            probe: Arc::default(),
            desk: desk.clone(),
            doors: Doors::new(&limits),
            listeners: Arc::new(Semaphore::new(limits.listeners)),
            trade_head_age,
            observer,
        };
        let health = health.map(|(listener, address)| {
            // What callers hold at the other door leaves room here.
            let app = App { doors: Doors::new(&limits.for_health()), ..app.clone() };
            (listener, outermost(routes::health_router(app), address, Vec::new(), audit.clone()))
        });
        let mut router = outermost(routes::router(app), address, cors_origins, audit.clone());
        if tls.is_some() {
            router = router.layer(map_response(tls::says_strict));
        }
        Ok(Self {
            handle,
            tail,
            keeper,
            calls_kept,
            sockets,
            listener,
            router,
            health,
            metrics,
            limits,
            tls,
            desk,
            audit,
            keep_audit,
            is_open,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where health is served beside, if it is.
    #[must_use]
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health.as_ref().and_then(|(listener, _)| listener.local_addr().ok())
    }

    /// There is no key, so that everybody may do everything until one is made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Answers requests until `stop` comes, then lets those under way finish, as long as they do not take too long.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) {
        let (tail, handle) = (self.tail, self.handle);
        let (ended, sockets, keeper) = (tail.clone(), self.sockets.clone(), self.keeper);
        // Listeners never come to their end by themselves.
        let stop = async move {
            stop.await;
            ended.stop();
            sockets.stop();
        };
        let follow = tail.follow(&handle);
        let (limits, tls) = (self.limits, self.tls.as_ref().map(Tls::config));
        let room = if self.is_open { Room::of_open(&limits) } else { Room::of(&limits) };
        let crowd = Crowd::new(room, self.metrics.clone());
        let serve = connections::serve(self.listener, tls, self.router, limits, crowd, stop);
        let ended = tail.clone();
        let health = async move {
            let Some((listener, router)) = self.health else { return };
            let limits = limits.for_health();
            // Nobody is an administrator there.
            let crowd = Crowd::new(Room { kept: 0, ..Room::of(&limits) }, self.metrics);
            connections::serve(listener, None, router, limits, crowd, ended.stopped()).await;
        };
        let renew = async move {
            match self.tls {
                Some(tls) => tls.follow().await,
                None => std::future::pending().await,
            }
        };
        let keep = keeper.run(self.sockets.stopped());
        let trim = trim_audit(&self.audit, &handle, self.keep_audit);
        tokio::select! {
            ((), (), (), (), ()) = async { tokio::join!(follow, keep, serve, health, self.desk.run()) } => {}
            () = trim => {}
            () = self.calls_kept.run() => {}
            () = renew => {}
        }
        self.audit.stop().await;
    }
}

/// Takes an address.
async fn bound(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), BindError> {
    let refused = |error| BindError::Listen { listen, error };
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// The layers that every request passes first, whatever it asks for.
fn outermost(router: Router, address: SocketAddr, cors_origins: Vec<String>, audit: Audit) -> Router {
    router
        // The body is read, and measured, before.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Guard::new(address, cors_origins, audit), guard::same_origin))
        .layer(CatchPanicLayer::custom(|_| {
            use axum::response::IntoResponse;
            Problem::new(Code::Internal, "the request could not be handled; the log says more")
                .into_response()
        }))
}

/// Removes what is too old of the audit log, a little at a time, for ever. As with other history a clock that is ahead is not believed.
async fn trim_audit(audit: &Audit, handle: &Handle, keep: Option<Duration>) {
    let Some(keep) = keep else { return std::future::pending().await };
    let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
    loop {
        let Some(now) = handle.believed_time() else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let before = Millis(now.0.saturating_sub(keep));
        let more = match audit.trim(before, now).await {
            Ok(removed) => removed > 0,
            Err(error) => {
                tracing::warn!(%error, "the audit log could not be trimmed; it is tried again later");
                false
            }
        };
        // While there is more it goes on: rows must not come faster than they go.
        tokio::time::sleep(if more { TRIM_PAUSE } else { TRIM_EVERY }).await;
    }
}
