//! The session of this process, its leases, and which lanes run here (L1).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use landfall_core::lane::LaneCounts;
use landfall_core::ports::store::Acquired;
use landfall_core::transaction::Transaction;
use landfall_core::{ChainId, LaneId, Millis, SessionId, Token};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::awaited::Awaited;
use crate::directory::Directory;
use crate::gauges::Backlogs;
use crate::keyless;
use crate::lane_task::{self, LaneTrouble};
use crate::parts::{Parts, PlantedInEngine};
use crate::queues::Queues;
use crate::remembered::Remembered;
use crate::silent::Watch;
use crate::spread::Spread;
use crate::tasks::Tasks;
use crate::telemetry::{Fact, Renewal, ShownLane};
use crate::writer::Writer;

const ACQUIRED_AT_ONCE: usize = 16;
/// A node that is alone is told of all work by its own callers. At every so many scans its lanes are woken all the same.
const WOKEN_EVERY: u32 = 15;

/// What the tasks of one engine share.
pub(crate) struct Shared {
    pub(crate) parts: Parts,
    pub(crate) session: SessionId,
    pub(crate) writer: Writer,
    pub(crate) directory: Directory,
    pub(crate) tasks: Tasks,
    /// Until when this node may act, by its monotonic clock.
    acts_until: Mutex<Option<Instant>>,
    stopping: AtomicBool,
    running: Mutex<BTreeSet<LaneId>>,
    wanted: Mutex<BTreeSet<LaneId>>,
    /// Lanes that were taken since it was last looked.
    taken: Mutex<Vec<LaneId>>,
    /// How many leases may be asked for at once: the writes of lanes that run are not to wait behind all of them.
    acquiring: Semaphore,
    lanes_changed: Notify,
    pokes: BTreeMap<ChainId, Notify>,
    /// What is wrong with a chain, and since when.
    troubles: Mutex<BTreeMap<ChainId, (String, Instant)>>,
    lane_troubles: Mutex<BTreeMap<LaneId, LaneTrouble>>,
    stopped: Notify,
    /// Lanes that take nothing new in, as last read or committed here.
    disabled: Mutex<BTreeSet<LaneId>>,
    /// Where the transactions of the lanes stand that run here.
    counts: Mutex<BTreeMap<LaneId, LaneCounts>>,
    pub(crate) backlogs: Backlogs,
    pub(crate) queues: Queues,
    /// Callers that are told a slot when they hand a transaction over.
    pub(crate) awaited: Awaited,
    pub(crate) leases: LeaseCounts,
    pub(crate) remembered: Remembered,
    /// No other process could store anything when something was last admitted here.
    was_alone: AtomicBool,
}

/// How often this process got a lane, and how often a write of it was refused because the lane was another's (L13).
#[derive(Debug, Default)]
pub(crate) struct LeaseCounts {
    pub(crate) acquired: AtomicU64,
    pub(crate) fenced: AtomicU64,
}

impl Shared {
    pub(crate) fn new(parts: Parts, session: SessionId, writer: Writer, tasks: Tasks) -> Self {
        let pokes = parts.chains.keys().map(|id| (*id, Notify::new())).collect();
        Self {
            parts,
            session,
            writer,
            directory: Directory::default(),
            tasks,
            acts_until: Mutex::new(None),
            stopping: AtomicBool::new(false),
            running: Mutex::default(),
            wanted: Mutex::default(),
            taken: Mutex::default(),
            acquiring: Semaphore::new(ACQUIRED_AT_ONCE),
            lanes_changed: Notify::new(),
            pokes,
            troubles: Mutex::default(),
            lane_troubles: Mutex::default(),
            stopped: Notify::new(),
            disabled: Mutex::default(),
            counts: Mutex::default(),
            backlogs: Backlogs::default(),
            queues: Queues::default(),
            awaited: Awaited::default(),
            leases: LeaseCounts::default(),
            remembered: Remembered::default(),
            was_alone: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// A skew before its session ends, a node stops acting, whatever it was doing.
    pub(crate) fn session_is_live(&self) -> bool {
        let until = *self.acts_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// The time of day, for what cannot be undone: not later than a block says, and what has passed since. A clock that is years ahead is
    /// not believed. None before a chain has shown a block.
    pub(crate) fn believed_time(&self) -> Option<Millis> {
        let by_blocks = self.directory.block_time()?;
        Some(self.parts.clock.now().min(by_blocks))
    }

    /// There is work for this lane: wake it where it runs, here or on another node, or start it.
    pub(crate) fn work_for(&self, lane: LaneId) {
        if !self.hinted_work_for(lane) {
            self.parts.store.announce(lane);
        }
    }

    /// Transactions were just stored here, in this order.
    pub(crate) fn admitted<'a>(&self, txs: impl Iterator<Item = &'a Transaction>) {
        let mut of_lanes: BTreeMap<LaneId, Vec<&Transaction>> = BTreeMap::new();
        for tx in txs {
            of_lanes.entry(tx.lane).or_default().push(tx);
        }
        let live = self.session_is_live();
        let alone = live && self.parts.store.is_alone();
        if !of_lanes.is_empty() && self.was_alone.swap(alone, Ordering::AcqRel) != alone {
            // What another process stored before it went may not be known here: from here on nobody looks for it.
            self.directory.mailboxes().iter().for_each(|mailbox| mailbox.wake_for_txs());
        }
        for (lane, txs) in of_lanes {
            match self.directory.mailbox(lane) {
                Some(mailbox) if alone => mailbox.admitted(txs.into_iter().cloned().collect()),
                Some(mailbox) => {
                    mailbox.wake_for_txs();
                    if !live {
                        // What still runs here is another's by now.
                        self.parts.store.announce(lane);
                    }
                }
                None => self.work_for(lane),
            }
        }
    }

    /// Somebody says that there is work for this lane. False if it does not run here; it starts if it belongs here.
    fn hinted_work_for(&self, lane: LaneId) -> bool {
        if let Some(mailbox) = self.directory.mailbox(lane) {
            mailbox.wake();
            return true;
        }
        self.want_lane(lane);
        self.lanes_changed.notify_one();
        false
    }

    /// Start this lane when it does not run any more.
    pub(crate) fn want_lane(&self, lane: LaneId) {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).insert(lane);
    }

    pub(crate) fn poke_watcher(&self, chain: ChainId) {
        if let Some(poke) = self.pokes.get(&chain) {
            poke.notify_one();
        }
    }

    /// Waits for the chain's own hint, or until a lane was loaded that needs a view.
    pub(crate) async fn wait_for_poke(&self, chain: ChainId, hint: impl Future<Output = ()>) {
        match self.pokes.get(&chain) {
            None => hint.await,
            Some(poke) => tokio::select! {
                biased;
                () = poke.notified() => {}
                () = hint => {}
            },
        }
    }

    pub(crate) fn chain_trouble(&self, chain: ChainId, trouble: Option<String>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match trouble {
            Some(text) => {
                let since = troubles.get(&chain).map_or_else(Instant::now, |(_, since)| *since);
                troubles.insert(chain, (text, since));
            }
            None => drop(troubles.remove(&chain)),
        }
    }

    pub(crate) fn trouble_of(&self, chain: ChainId) -> Option<String> {
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.get(&chain).map(|(text, _)| text.clone())
    }

    /// This node has not seen the chain for so long that another one should have its lanes.
    fn is_hindered(&self, chain: ChainId) -> bool {
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.get(&chain).is_some_and(|(_, since)| since.elapsed() >= self.parts.timings.lease)
    }

    pub(crate) fn lane_trouble(&self, lane: LaneId, trouble: Option<LaneTrouble>) {
        let mut troubles = self.lane_troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match trouble {
            Some(trouble) => troubles.insert(lane, trouble),
            None => troubles.remove(&lane),
        };
    }

    /// Lanes that should be in memory and cannot be, and why.
    pub(crate) fn lane_troubles(&self) -> BTreeMap<LaneId, String> {
        let troubles = self.lane_troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.iter().map(|(lane, trouble)| (*lane, trouble.sentence())).collect()
    }

    /// Sleeps, unless the engine stops.
    pub(crate) async fn pause(&self, time: Duration) {
        tokio::select! {
            biased;
            () = self.stopped() => {}
            () = tokio::time::sleep(time) => {}
        }
    }

    /// Waits until the engine stops.
    pub(crate) async fn stopped(&self) {
        let stopped = self.stopped.notified();
        tokio::pin!(stopped);
        stopped.as_mut().enable();
        if !self.is_stopping() {
            stopped.await;
        }
    }

    /// The lane takes no new transactions in. Other nodes know it within a scan of the store.
    pub(crate) fn is_disabled(&self, lane: LaneId) -> bool {
        self.disabled.lock().unwrap_or_else(PoisonError::into_inner).contains(&lane)
    }

    pub(crate) fn set_disabled(&self, lane: LaneId, disabled: bool) {
        let mut lanes = self.disabled.lock().unwrap_or_else(PoisonError::into_inner);
        if disabled {
            lanes.insert(lane);
        } else {
            lanes.remove(&lane);
        }
    }

    pub(crate) async fn read_disabled(&self) -> Result<(), landfall_core::ports::store::Error> {
        let read = self.parts.store.disabled_lanes().await?;
        *self.disabled.lock().unwrap_or_else(PoisonError::into_inner) = read.into_iter().collect();
        Ok(())
    }

    pub(crate) fn note(&self, fact: Fact) {
        self.parts.telemetry.note(fact);
    }

    /// A lane as log lines show it.
    pub(crate) fn shown(&self, lane: LaneId) -> ShownLane {
        self.parts.telemetry.lane(lane)
    }

    pub(crate) fn counted(&self, lane: LaneId, counts: LaneCounts) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).insert(lane, counts);
    }

    pub(crate) fn lane_counts(&self) -> BTreeMap<LaneId, LaneCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn runs(&self, lane: LaneId) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).contains(&lane)
    }

    pub(crate) fn running_lanes(&self) -> usize {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Lanes finish their turn and give their leases back; no new ones start.
    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.stopped.notify_waiters();
        for mailbox in self.directory.mailboxes() {
            mailbox.stop();
        }
        self.lanes_changed.notify_one();
    }

    /// The session lasts from when it was asked for: by the store's clock it can only end later.
    fn session_lasts_from(&self, asked_at: Instant) {
        let timings = &self.parts.timings;
        let until = asked_at + timings.lease.saturating_sub(timings.skew);
        *self.acts_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    fn session_ends(&self) {
        *self.acts_until.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Begins the session; fails if the store cannot be written.
pub(crate) async fn open_session(shared: &Shared) -> Result<(), landfall_core::ports::store::Error> {
    let asked_at = Instant::now();
    let timings = &shared.parts.timings;
    shared.parts.store.open_session(shared.session, &shared.parts.node, timings.lease).await?;
    // Not before the store has said yes: whatever still runs of the session before has lost its lanes.
    shared.session_lasts_from(asked_at);
    if let Some(address) = &shared.parts.address
        && let Err(error) = shared.parts.store.advertise(shared.session, address).await
    {
        // Only callers of lanes that hand out slots at admission miss it: they are told the node's name.
        tracing::warn!(%error, "the address of this node could not be stored");
    }
    Ok(())
}

/// Renews the session at its interval, and stops acting when that fails for too long.
pub(crate) async fn renew_session(shared: Arc<Shared>) {
    let timings = shared.parts.timings.clone();
    loop {
        tokio::time::sleep(timings.renew).await;
        let asked_at = Instant::now();
        let renewed = tokio::time::timeout(
            timings.renew,
            shared.parts.store.renew_session(shared.session, timings.lease),
        );
        match renewed.await {
            Ok(Ok(true)) => {
                shared.note(Fact::SessionRenewed(Renewal::Done));
                let planted = timings.planted == Some(PlantedInEngine::RenewedFromAnswer);
                shared.session_lasts_from(if planted { Instant::now() } else { asked_at });
            }
            Ok(Ok(false)) => {
                tracing::error!(node = %shared.parts.node, "the session has ended; beginning a new one is needed");
                shared.note(Fact::SessionRenewed(Renewal::Ended));
                shared.session_ends();
                if let Err(error) = open_session(&shared).await {
                    tracing::error!(%error, "a new session could not be begun; trying again");
                }
            }
            Ok(Err(error)) => {
                shared.note(Fact::SessionRenewed(Renewal::Failed));
                tracing::warn!(%error, "the session could not be renewed; trying again");
            }
            Err(_) => {
                shared.note(Fact::SessionRenewed(Renewal::Failed));
                tracing::warn!("the session's renewal got no answer in time; trying again");
            }
        }
    }
}

/// Starts lanes that have work and belong here: at a caller's word at once, else by asking the store.
pub(crate) async fn run_lanes(shared: Arc<Shared>) {
    let scan = shared.parts.timings.scan;
    let mut spread = Spread::new(shared.session, scan / 2);
    let mut watch = Watch::begin();
    let mut disabled_at = Instant::now();
    let mut scans = 0_u32;
    while !shared.is_stopping() {
        let wakes = !spread.is_alone() || scans.is_multiple_of(WOKEN_EVERY);
        look_around(&shared, &mut spread, &mut watch, wakes).await;
        scans = scans.wrapping_add(1);
        if disabled_at.elapsed() >= scan {
            disabled_at = Instant::now();
            if let Err(error) = shared.read_disabled().await {
                tracing::warn!(%error, "the store could not say which lanes are disabled");
            }
        }
        start_wanted(&shared, &mut spread).await;
        // Among others, what a neighbour stored or left behind should not wait long.
        let next = tokio::time::sleep(if spread.is_alone() { scan } else { scan / 4 });
        tokio::pin!(next);
        loop {
            tokio::select! {
                biased;
                // First, so that however much there is to hear of, the store is asked in time.
                () = &mut next => break,
                () = shared.lanes_changed.notified() => start_wanted(&shared, &mut spread).await,
                lane = shared.parts.store.announced() => {
                    shared.hinted_work_for(lane);
                }
            }
            if shared.is_stopping() {
                return;
            }
        }
    }
}

/// Asks the store which lanes have work and who has them, ends the sessions of dead nodes, and gives lanes back that belong to another
/// node. Lanes that run here are woken if somebody else may have brought the work.
async fn look_around(shared: &Shared, spread: &mut Spread, watch: &mut Watch, wakes: bool) {
    match shared.parts.store.lanes_with_work().await {
        Ok(lanes) => {
            let lanes: Vec<LaneId> = lanes.into_iter().filter(|lane| wakes || !shared.runs(*lane)).collect();
            let mut wanted = shared.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            wanted.extend(lanes);
        }
        Err(error) => tracing::warn!(%error, "the store could not say which lanes have work"),
    }
    match shared.parts.store.holders().await {
        Ok(mut holders) => {
            watch.look(shared, &mut holders).await;
            spread.look(holders, Instant::now());
        }
        Err(error) => {
            tracing::warn!(%error, "the store could not say who holds which lanes");
            return;
        }
    }
    let running = shared.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for lane in spread.gives_away(&running, |lane| shared.is_hindered(lane.chain), Instant::now()) {
        if let Some(mailbox) = shared.directory.mailbox(lane) {
            tracing::info!(lane = %shared.shown(lane), node = %shared.parts.node, "given back: it belongs to another node");
            mailbox.stop();
        }
    }
}

/// A lane that runs here; it does not any more when this is dropped, also if its task is lost to a panic.
struct Running {
    shared: Arc<Shared>,
    lane: LaneId,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.directory.leave(self.lane);
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.lane);
        self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.lane);
        self.shared.lanes_changed.notify_one();
    }
}

async fn start_wanted(shared: &Arc<Shared>, spread: &mut Spread) {
    for lane in std::mem::take(&mut *shared.taken.lock().unwrap_or_else(PoisonError::into_inner)) {
        spread.taken(lane);
    }
    let wanted = std::mem::take(&mut *shared.wanted.lock().unwrap_or_else(PoisonError::into_inner));
    for lane in wanted {
        if shared.runs(lane) {
            // What brought it here may have come after its last look. Without a mailbox it is being loaded, or given
            // back: it stays wanted until that is over.
            match shared.directory.mailbox(lane) {
                Some(mailbox) => mailbox.wake(),
                None => shared.want_lane(lane),
            }
            continue;
        }
        let hindered = shared.is_hindered(lane.chain);
        let is_ours = shared.parts.signers.contains_key(&lane);
        if shared.is_stopping()
            || !shared.session_is_live()
            || !spread.may_take(lane, hindered, Instant::now())
            || !(is_ours || keyless::has_work(shared, lane).await)
        {
            continue;
        }
        shared.running.lock().unwrap_or_else(PoisonError::into_inner).insert(lane);
        let running = Running { shared: shared.clone(), lane };
        // A task of its own: where a thousand lanes start at once, their leases are not asked for one after the other.
        shared.tasks.spawn(async move {
            if let Some(token) = acquire(&running.shared, lane).await {
                let shared = running.shared.clone();
                if is_ours {
                    lane_task::run(shared, lane, token).await;
                } else {
                    keyless::run(shared, lane, token).await;
                }
            }
            drop(running);
        });
    }
}

/// The lease of a lane, if it can be had.
async fn acquire(shared: &Shared, lane: LaneId) -> Option<Token> {
    // Nothing closes it.
    let _turn = shared.acquiring.acquire().await.ok()?;
    if shared.is_stopping() || !shared.session_is_live() {
        return None;
    }
    match shared.parts.store.acquire(lane, shared.session).await {
        Ok(Acquired::Yes { token }) => {
            shared.note(Fact::LeaseAcquired);
            let signer = shared.parts.telemetry.signer(lane.signer);
            let (chain, node) = (lane.chain, &shared.parts.node);
            tracing::info!(%chain, %signer, %token, %node, "lease acquired");
            shared.leases.acquired.fetch_add(1, Ordering::Relaxed);
            shared.taken.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
            Some(token)
        }
        Ok(Acquired::HeldBy { node, .. }) => {
            tracing::debug!(lane = %shared.shown(lane), %node, "another node has the lane");
            None
        }
        Err(error) => {
            let lane = shared.shown(lane);
            tracing::warn!(%lane, %error, "the lease could not be acquired; trying again");
            None
        }
    }
}
