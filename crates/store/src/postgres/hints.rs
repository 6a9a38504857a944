//! Hints between processes that a lane has work, by LISTEN and NOTIFY, so that another node's admission need not wait
//! for its owner's next look.
//!
//! Nothing depends on them: they are sent outside of any transaction, on a connection of their own, and what is lost
//! (that connection was down, too many came at once, the database has no notifications) is found by polling.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use alloy_primitives::hex;
use futures::{StreamExt, stream};
use landfall_core::LaneId;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Config};

use super::error::plain;
use super::pool::quoted;
use super::rows::{self, bits};
use super::tls::Tls;

/// How many hints wait on either side before new ones are dropped.
const WAITING: usize = 1_024;
/// How many lanes one statement tells of.
const TOGETHER: usize = 256;
/// How long a connection that broke is left alone, at first and at most.
const SOONEST: Duration = Duration::from_millis(500);
const LATEST: Duration = Duration::from_secs(30);

/// Where hints go to and come from.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) config: Config,
    pub(super) tls: Tls,
    pub(super) schema: String,
    pub(super) namespace: i64,
}

/// The way out and in; a task carries both.
pub(super) struct Hints {
    out: mpsc::Sender<LaneId>,
    heard: Mutex<mpsc::Receiver<LaneId>>,
    carrier: JoinHandle<()>,
}

impl Hints {
    /// Starts the task; it ends with this.
    pub(super) fn start(place: Place) -> Self {
        let (out, to_tell) = mpsc::channel(WAITING);
        let (told, heard) = mpsc::channel(WAITING);
        Self { out, heard: Mutex::new(heard), carrier: tokio::spawn(carry(place, to_tell, told)) }
    }

    /// Tells the others, unless too much waits.
    pub(super) fn tell(&self, lane: LaneId) {
        // The others have hints enough then, and look by themselves.
        if self.out.try_send(lane).is_err() {
            tracing::trace!(%lane, "a hint was not sent: too many wait");
        }
    }

    /// What another process tells.
    pub(super) async fn next(&self) -> LaneId {
        match self.heard.lock().await.recv().await {
            Some(lane) => lane,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

async fn carry(place: Place, mut to_tell: mpsc::Receiver<LaneId>, told: mpsc::Sender<LaneId>) {
    let mut pause = SOONEST;
    loop {
        let began = tokio::time::Instant::now();
        if let Err(error) = connected(&place, &mut to_tell, &told).await {
            let error = plain(&error);
            tracing::debug!(error, "no hints from other nodes for a while; lanes are found by polling");
        }
        pause = if began.elapsed() > LATEST { SOONEST } else { (pause * 2).min(LATEST) };
        tokio::time::sleep(pause).await;
    }
}

/// Carries hints until the connection breaks.
async fn connected(
    place: &Place,
    to_tell: &mut mpsc::Receiver<LaneId>,
    told: &mpsc::Sender<LaneId>,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = place.config.connect(place.tls.clone()).await?;
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let own = AtomicI32::new(0);
    let hear = async {
        while let Some(message) = messages.next().await {
            let AsyncMessage::Notification(hint) = message? else { continue };
            if hint.process_id() == own.load(Ordering::Relaxed) {
                continue;
            }
            let lane = read(hint.payload(), place.namespace);
            if lane.is_some_and(|lane| told.try_send(lane).is_err()) {
                tracing::trace!("a hint was not taken: too many wait");
            }
        }
        Ok(())
    };
    // Both in one task: what is asked of the client is answered while messages are read.
    tokio::select! {
        heard = hear => heard,
        told = tell(&client, place, &own, to_tell) => told,
    }
}

async fn tell(
    client: &Client,
    place: &Place,
    own: &AtomicI32,
    to_tell: &mut mpsc::Receiver<LaneId>,
) -> Result<(), tokio_postgres::Error> {
    let channel = format!("landfall_{}", place.schema);
    let process: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
    own.store(process, Ordering::Relaxed);
    client.batch_execute(&format!("LISTEN {}", quoted(&channel))).await?;
    let notify = client.prepare("SELECT pg_notify($1, hint) FROM unnest($2::text[]) AS hint").await?;
    let mut lanes = Vec::new();
    // What came while the last ones were told goes together, each lane once.
    while to_tell.recv_many(&mut lanes, TOGETHER).await > 0 {
        let lanes: BTreeSet<LaneId> = lanes.drain(..).collect();
        let hints: Vec<String> = lanes.into_iter().map(|lane| written(lane, place.namespace)).collect();
        client.execute(&notify, &[&channel, &hints]).await?;
    }
    Ok(())
}

fn written(lane: LaneId, namespace: i64) -> String {
    format!("{namespace} {} {}", bits(lane.chain.0), hex::encode(lane.signer.0))
}

/// The lane, if the hint is for this namespace and readable.
fn read(hint: &str, namespace: i64) -> Option<LaneId> {
    let mut words = hint.split(' ');
    let of: i64 = words.next()?.parse().ok()?;
    let chain = words.next()?.parse().ok()?;
    let signer = hex::decode(words.next()?).ok()?;
    (of == namespace).then(|| rows::lane(chain, &signer).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;
    use landfall_core::{Account, ChainId};

    use super::*;

    #[test]
    fn a_hint_is_read_as_it_was_written_and_by_its_namespace_alone() {
        let lane = LaneId { chain: ChainId(u64::MAX), signer: Account(Address::repeat_byte(0xab)) };
        assert_eq!(read(&written(lane, 7), 7), Some(lane));
        assert_eq!(read(&written(lane, 7), 8), None);
        for junk in ["", "7", "7 1", "7 1 zz", "7 1 ab", "x 1 ab", "7 1 ab cd"] {
            assert_eq!(read(junk, 7), None, "{junk}");
        }
    }
}
