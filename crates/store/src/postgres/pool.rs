//! Connections: few, checked out one by one, with every wait bounded below the lease.
//!
//! A connection goes back to the pool only when its work ended and was answered. One that broke, timed out or was
//! left half-way (a dropped future) is closed, so that nobody finds another one's open transaction in it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use landfall_core::ports::store;
use tokio::time::timeout;

use super::error::Fault;
use super::open::Options;
use super::tls::Tls;

/// How often work that may be repeated is tried on another connection.
const TRIES: u32 = 3;

/// Everything that can wait, and how long: all of it ends before the lease does, so that a writer that hangs cannot
/// hold a lane longer than its owner may.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// One statement, on the server.
    pub(super) statement: Duration,
    /// A wait for a lock, and an open transaction that nobody speaks to, on the server.
    pub(super) lock: Duration,
    /// One step of ours, and a connection that does not answer.
    pub(super) step: Duration,
    /// A group of writes with everything that is tried to bring it in.
    pub(super) write: Duration,
}

impl Limits {
    pub(super) fn of(lease: Duration) -> Self {
        Self { statement: lease * 4 / 10, lock: lease / 5, step: lease / 2, write: lease * 9 / 10 }
    }
}

/// The connections of one store.
pub(super) struct Connections {
    pool: Pool,
    pub(super) limits: Limits,
    /// How one more is made that is not of the pool.
    pub(super) config: tokio_postgres::Config,
    pub(super) tls: Tls,
}

/// One connection, closed unless it is given back.
pub(super) struct Connection(Option<Object>);

impl Connections {
    pub(super) fn new(
        mut config: tokio_postgres::Config,
        tls: Tls,
        options: &Options,
    ) -> Result<Self, deadpool_postgres::BuildError> {
        let limits = Limits::of(options.lease);
        config
            .connect_timeout(limits.lock)
            .tcp_user_timeout(limits.step)
            .keepalives(true)
            // Whole seconds are all that TCP knows here.
            .keepalives_idle(limits.lock.max(Duration::from_secs(1)))
            .keepalives_interval(Duration::from_secs(1))
            .keepalives_retries(2);
        if config.get_application_name().is_none() {
            config.application_name("landfall");
        }
        let settings = settings(&limits, &options.schema);
        let greet = Hook::async_fn(move |client: &mut ClientWrapper, _| {
            let settings = settings.clone();
            Box::pin(async move { client.batch_execute(&settings).await.map_err(HookError::Backend) })
        });
        let manager = Manager::from_config(
            config.clone(),
            tls.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let pool = Pool::builder(manager)
            .max_size(options.connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(limits.step))
            .create_timeout(Some(limits.step))
            .post_create(greet)
            .build()?;
        Ok(Self { pool, limits, config, tls })
    }

    /// A connection, new or used.
    pub(super) async fn get(&self) -> Result<Connection, Fault> {
        match self.pool.get().await {
            Ok(object) => Ok(Connection(Some(object))),
            Err(PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error))) => {
                Err(error.into())
            }
            Err(other) => Err(Fault::Lost(other.to_string())),
        }
    }

    /// Does work that may be done again, on a connection that is good, within the limit.
    pub(super) async fn run<T, W>(&self, doing: &'static str, work: W) -> Result<T, store::Error>
    where
        W: for<'a> Fn(&'a ClientWrapper) -> Working<'a, T>,
    {
        self.try_run(work).await.map_err(|fault| fault.into_error(doing))
    }

    pub(super) async fn try_run<T, W>(&self, work: W) -> Result<T, Fault>
    where
        W: for<'a> Fn(&'a ClientWrapper) -> Working<'a, T>,
    {
        let mut tries = 1;
        loop {
            match self.once(&work).await {
                Err(fault) if tries < TRIES && (matches!(fault, Fault::Lost(_)) || fault.is_collision()) => {
                    tracing::debug!(%fault, tries, "tried again");
                    tries += 1;
                }
                finished => return finished,
            }
        }
    }

    async fn once<T, W>(&self, work: &W) -> Result<T, Fault>
    where
        W: for<'a> Fn(&'a ClientWrapper) -> Working<'a, T>,
    {
        let connection = self.get().await?;
        let done = self.within(work(connection.db()?)).await;
        if done.is_ok() {
            connection.give_back();
        }
        done
    }

    /// Waits no longer than a step may take.
    pub(super) async fn within<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        match timeout(self.limits.step, work).await {
            Ok(done) => done,
            Err(_) => Err(Fault::Lost(format!("no answer within {:?}", self.limits.step))),
        }
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// Work on a connection, as the pool takes it.
pub(super) type Working<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

impl Connection {
    /// Its work ended and was answered: the next one may have it.
    pub(super) fn give_back(mut self) {
        drop(self.0.take());
    }

    pub(super) fn db(&self) -> Result<&ClientWrapper, Fault> {
        self.0.as_deref().ok_or_else(|| Fault::Lost("it was closed".to_owned()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

/// What every connection is told first. An acknowledged commit is on disk, whatever the database's default is.
fn settings(limits: &Limits, schema: &str) -> String {
    let (statement, lock) = (limits.statement.as_millis(), limits.lock.as_millis());
    format!(
        "SET search_path = {};
         SET statement_timeout = {statement};
         SET lock_timeout = {lock};
         SET idle_in_transaction_session_timeout = {lock};
         SELECT set_config('synchronous_commit', 'on', false)
           WHERE current_setting('synchronous_commit') IN ('off', 'local');",
        quoted(schema)
    )
}

/// A name as SQL takes it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
