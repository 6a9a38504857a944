//! Listening, and stopping kindly.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use landfall_core::Millis;
use landfall_core::ports::records::Records;
use landfall_core::ports::store::Error as StoreError;
use landfall_engine::Handle;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower_http::catch_panic::CatchPanicLayer;

use crate::access::{Audit, Keyring, Policy};
use crate::connections;
use crate::guard::{self, Guard};
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::probe::Probe;
use crate::problem::{Code, Problem};
use crate::routes;
use crate::rpc::{Keeper, Sockets, Underway};
use crate::tail::Tail;
use crate::tls::TlsFiles;
use crate::webhooks::{Desk, Webhooks};

/// How often it is looked what of the audit log may go.
const TRIM_EVERY: Duration = Duration::from_secs(3_600);

/// What is taken at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one body.
    pub body: usize,
    /// Transactions of one batch.
    pub batch: usize,
    /// Connections at once.
    pub connections: usize,
    /// Callers that listen to events at once.
    pub listeners: usize,
    /// Time for a request's headers, and how long a connection may be idle.
    pub header_time: Duration,
    /// Time for a request's body.
    pub body_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 8 * 1024 * 1024,
            batch: 1_000,
            connections: 1_000,
            listeners: 200,
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
        }
    }
}

/// What a server is made of.
pub struct Parts {
    pub handle: Handle,
    /// The same store that the handle's engine writes to.
    pub records: Arc<dyn Records>,
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
    pub webhooks: Webhooks,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("cannot listen on {listen} ({error})")]
    Listen { listen: SocketAddr, error: std::io::Error },
    #[error(
        "{listen} can be reached from other machines, and there is no API key: whoever reaches it could spend from every \
         signer. Make a key first (`landfall api-key create --role admin --name me --config landfall.toml`), or give one in \
         the variable that access.admin_key_env names"
    )]
    NoKeys { listen: SocketAddr },
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
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) underway: Arc<Underway>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) audit: Audit,
    pub(crate) probe: Arc<Probe>,
    pub(crate) desk: Desk,
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
    sockets: Arc<Sockets>,
    listener: TcpListener,
    router: Router,
    limits: Limits,
    tls: Option<Arc<ServerConfig>>,
    desk: Desk,
    audit: Audit,
    keep_audit: Option<Duration>,
}

impl Server {
    /// Takes the address; requests wait until [`Server::run`].
    pub async fn bind(listen: SocketAddr, parts: Parts) -> Result<Self, BindError> {
        let Parts {
            handle,
            records,
            limits,
            metrics,
            access,
            observer,
            trade_head_age,
            cors_origins,
            tls,
            webhooks,
        } = parts;
        let tls = tls.map(|files| files.load().map_err(BindError::Tls)).transpose()?;
        let refused = |error| BindError::Listen { listen, error };
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let engine = handle.parts();
        let (clock, random) = (engine.clock.clone(), engine.random.clone());
        let audit = Audit::new(records.clone(), clock.clone(), random.clone(), &engine.node);
        let keep_audit = access.keep_audit;
        let access = Policy { loopback: address.ip().is_loopback(), ..access };
        let keyring = Arc::new(Keyring::new(records.clone(), clock, random, access));
        if !address.ip().is_loopback() && !keyring.any().await? {
            return Err(BindError::NoKeys { listen });
        }
        let guarded = from_fn_with_state(Guard::new(address, cors_origins), guard::same_origin);
        let tail = Tail::new();
        let desk = Desk::new(handle.clone(), records.clone(), tail.clone(), webhooks, metrics.clone());
        let desk = desk.map_err(|error| BindError::Webhooks(error.to_string()))?;
        let keeper = Arc::new(Keeper::new(handle.clone(), records.clone()));
        let sockets = Arc::new(Sockets::new());
        let app = App {
            handle: handle.clone(),
            records,
            tail: tail.clone(),
            limits,
            metrics,
            keeper: keeper.clone(),
            sockets: sockets.clone(),
            underway: Arc::default(),
            keyring,
            audit: audit.clone(),
            probe: Arc::default(),
            desk: desk.clone(),
            listeners: Arc::new(Semaphore::new(limits.listeners)),
            trade_head_age,
            observer,
        };
        let router = routes::router(app)
            // The body is read, and measured, before.
            .layer(DefaultBodyLimit::disable())
            .layer(from_fn_with_state(limits, connections::whole_body))
            .layer(guarded)
            .layer(CatchPanicLayer::custom(|_| {
                use axum::response::IntoResponse;
                Problem::new(Code::Internal, "the request could not be handled; the log says more")
                    .into_response()
            }));
        Ok(Self { handle, tail, keeper, sockets, listener, router, limits, tls, desk, audit, keep_audit })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
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
        let serve = connections::serve(self.listener, self.tls, self.router, self.limits, stop);
        let keep = keeper.run(self.sockets.stopped());
        let trim = trim_audit(&self.audit, &handle, self.keep_audit);
        tokio::select! {
            ((), (), (), ()) = async { tokio::join!(follow, keep, serve, self.desk.run()) } => {}
            () = trim => {}
        }
    }
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
        let more = match audit.trim(before).await {
            Ok(removed) => removed > 0,
            Err(error) => {
                tracing::warn!(%error, "the audit log could not be trimmed; it is tried again later");
                false
            }
        };
        tokio::time::sleep(if more { Duration::from_secs(1) } else { TRIM_EVERY }).await;
    }
}
