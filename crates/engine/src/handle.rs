//! What callers hold of an engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use landfall_core::lane::Hold;
use landfall_core::ports::chain::EndpointHealth;
use landfall_core::ports::store::{
    Admission, Command, CommandKind, Error as StoreError, Store, TxRecord, Write, WriteError, Written,
};
use landfall_core::request::{CallId, Finality, NewTransaction};
use landfall_core::settings::LaneSettings;
use landfall_core::transaction::TxState;
use landfall_core::view::ChainView;
use landfall_core::{ChainId, CommandId, LaneId, Millis, RequestId, SessionId, Slot, TxId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::admission::{self, Refused, Submission};
use crate::at_admission::SLOT_LIMIT;
use crate::awaited::Listening;
use crate::crowd;
use crate::keyless;
use crate::mailbox::Question;
use crate::parts::Parts;
use crate::queues::{Came, Full, Load, Room};
use crate::retention;
use crate::steer::{self, Wish};
use crate::supervisor::{self, Shared};
use crate::tasks::Tasks;
use crate::telemetry::{Fact, Submitted};
use crate::watcher::Watcher;
use crate::writer::writer;

/// How long a lane may take to explain itself.
const EXPLAIN_LIMIT: Duration = Duration::from_secs(1);
/// How long a new head waits for lanes that have not stored what it brought.
const SHOWN_LIMIT: Duration = Duration::from_secs(3);
/// How long a second endpoint may show nothing new before health says so.
const LACK_IS_TOLD: Duration = Duration::from_secs(30);
/// How long lanes may take to finish their turn when the engine stops.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A running engine. Dropping it ends every task where it stands, as a crash would; [`Engine::stop`] is the kind way.
pub struct Engine {
    shared: Arc<Shared>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.tasks.abort_all();
    }
}

impl Engine {
    /// Begins a session and starts to follow the chains and to run lanes.
    pub async fn start(parts: Parts) -> Result<Self, StoreError> {
        let (writer, writer_tasks) = writer(parts.store.clone(), parts.telemetry.clone());
        let session = SessionId::new(parts.clock.now(), parts.random.bits());
        let shared = Arc::new(Shared::new(parts, session, writer, Tasks::default()));
        if let Some(why) = shared.parts.store.older().await? {
            let hold = Hold::StoreOlder { why }.sentence();
            tracing::error!(node = %shared.parts.node, "every lane is on hold: {hold}");
        }
        supervisor::open_session(&shared).await?;
        shared.read_disabled().await?;
        for task in writer_tasks {
            shared.tasks.spawn(task.run(shared.clone()));
        }
        for chain in shared.parts.chains.values() {
            let watcher = Watcher::new(shared.clone(), chain.chain.clone(), &chain.settings);
            shared.tasks.spawn(watcher.run());
        }
        shared.tasks.spawn(supervisor::renew_session(shared.clone()));
        shared.tasks.spawn(supervisor::run_lanes(shared.clone()));
        shared.tasks.spawn(retention::run(shared.clone()));
        Ok(Self { shared })
    }

    /// What callers hold.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone() }
    }

    /// Lets every lane finish its turn, gives the leases back and ends.
    pub async fn stop(self) {
        self.shared.begin_stop();
        let wait = async {
            while self.shared.running_lanes() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(STOP_LIMIT, wait).await.is_err() {
            tracing::warn!("some lanes did not finish their turn in time; their state is in the store");
        }
        if let Err(error) = self.shared.parts.store.close_session(self.shared.session).await {
            tracing::warn!(%error, "the session could not be closed; its leases end with it");
        }
    }
}

/// Why nothing was taken in.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lane hands out slots at admission, and another node owns it. Nothing was stored.
    #[error(
        "lane {lane} assigns nonces at admission and is owned by node {node}{}; hand the transaction over there",
        address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default()
    )]
    NotOwner { lane: LaneId, node: String, address: Option<String> },
    /// A slot is to be handed out at once, and none can be. Nothing was stored.
    #[error("lane {lane} has no nonce to give now: {why}")]
    NoSlot { lane: LaneId, why: String },
    /// Whether it was stored is not known. With a requestId the same request can be made again.
    #[error(
        "the store did not say whether it was written ({0}); ask again, for a transaction with the same requestId"
    )]
    Unknown(String),
}

/// How a chain is doing.
#[derive(Debug, Clone)]
pub struct ChainHealth {
    pub id: ChainId,
    pub head: Option<u64>,
    /// The newest block that two endpoints have shown; the head where one is configured.
    pub witnessed: Option<u64>,
    /// Several are configured, and what one shows becomes final by its word alone.
    pub single_witness: bool,
    /// Endpoints that answer show different chains, and nothing becomes final.
    pub disagree: bool,
    /// Why nothing newer is known to two endpoints, once that has lasted.
    pub unwitnessed: Option<String>,
    pub trouble: Option<String>,
    pub endpoints: Vec<EndpointHealth>,
    /// Some endpoint can be used.
    pub usable: bool,
}

/// How the engine is doing.
#[derive(Debug, Clone)]
pub struct Health {
    /// Why nothing can be admitted durably, if so.
    pub store: Result<(), StoreError>,
    /// Why the store is an older copy of itself, if it is.
    pub older: Option<String>,
    pub chains: Vec<ChainHealth>,
    pub lanes_running: usize,
    /// Lanes that this process got, and writes of it that were refused because the lane was another's.
    pub leases_acquired: u64,
    pub leases_fenced: u64,
    /// Lanes that cannot be loaded or written, and why.
    pub lanes_in_trouble: BTreeMap<LaneId, String>,
}

/// Lanes that hand out slots at admission: whether they were found to be ours when this request came to them.
type Claims = BTreeMap<LaneId, Result<(), SubmitError>>;

/// A submission on its way.
enum Pending {
    Known(Box<Admission>),
    Written {
        id: TxId,
        room: Room,
        answer: oneshot::Receiver<Result<Written, WriteError>>,
        /// Where its caller waits for its hash.
        listening: Option<Listening>,
    },
}

/// A cheap, shared reference to a running engine.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Look-ups go to the store itself.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.shared.parts.store.as_ref()
    }

    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.shared.parts
    }

    /// This run of this process, as the store knows it.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.shared.session
    }

    /// This process may act; if not, others may be taking its work over.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.shared.session_is_live()
    }

    /// The time of day as far as it can be believed; see [`Shared::believed_time`].
    #[must_use]
    pub fn believed_time(&self) -> Option<Millis> {
        self.shared.believed_time()
    }

    /// The newest picture of a chain.
    #[must_use]
    pub fn view(&self, chain: ChainId) -> Option<Arc<ChainView>> {
        self.shared.directory.view(chain)
    }

    /// What callers may be shown of a chain: the newest picture whose receipts the lanes here have stored, so that neither
    /// its head nor its counts are ahead of a receipt. A lane that takes too long is not waited for.
    #[must_use]
    pub fn shown(&self, chain: ChainId) -> Option<Arc<ChainView>> {
        let (shown, newest) = self.shared.directory.shown(chain);
        let (Some(shown), Some(newest)) = (&shown, &newest) else { return newest };
        let waited = self.shared.directory.head_age(chain);
        let is_late = waited.is_some_and(|waited| waited > SHOWN_LIMIT);
        Some(if is_late { newest.clone() } else { shown.clone() })
    }

    /// As far as the count of a lane that runs here may be shown: as far as receipts are stored.
    #[must_use]
    pub fn shown_up_to(&self, lane: LaneId) -> Option<Slot> {
        self.shared.directory.shown_up_to(lane)
    }

    /// The lane runs on this node.
    #[must_use]
    pub fn runs(&self, lane: LaneId) -> bool {
        self.shared.directory.mailbox(lane).is_some()
    }

    /// When a transaction of this chain is done, unless its caller says otherwise.
    #[must_use]
    pub fn finality(&self, chain: ChainId) -> Finality {
        let settings = self.shared.parts.chains.get(&chain).map(|chain| &chain.settings);
        settings.map_or_else(|| LaneSettings::default().finality, |settings| settings.finality)
    }

    /// Stores a transaction. When this returns an admission, it is on disk.
    pub async fn submit(&self, submission: Submission) -> Result<Admission, SubmitError> {
        let mut answers = self.submit_all(vec![submission]).await;
        answers.pop().unwrap_or_else(|| Err(SubmitError::Unknown("nothing was written".into())))
    }

    /// Stores several, each as if alone; the answers are in their order. A key repeated among them is a replay.
    pub async fn submit_all(&self, submissions: Vec<Submission>) -> Vec<Result<Admission, SubmitError>> {
        let mut pending = Vec::with_capacity(submissions.len());
        let (mut claimed, came) = (Claims::new(), self.shared.queues.came());
        for submission in submissions {
            pending.push(self.enqueue(submission, None, &mut claimed, came).await);
        }
        let until = Instant::now() + SLOT_LIMIT;
        let mut answers = Vec::with_capacity(pending.len());
        for entry in pending {
            let answer = match entry {
                Err(error) => Err(error),
                Ok(pending) => self.answered(pending, until).await,
            };
            self.tell(&answer);
            answers.push(answer);
        }
        answers
    }

    async fn answered(&self, pending: Pending, until: Instant) -> Result<Admission, SubmitError> {
        match pending {
            Pending::Known(admission) => Ok(self.with_slot(*admission, until).await),
            Pending::Written { id, room, answer, .. } => {
                let admission = self.written(id, room, answer).await?;
                Ok(self.with_slot(admission, until).await)
            }
        }
    }

    /// Stores one whose hash is waited for, without waiting for it.
    pub(crate) async fn admit_now(
        &self,
        submission: Submission,
    ) -> Result<(Admission, Option<Listening>), SubmitError> {
        let came = self.shared.queues.came();
        let (answer, listening) = match self.enqueue(submission, None, &mut Claims::new(), came).await {
            Err(error) => (Err(error), None),
            Ok(Pending::Known(admission)) => (Ok(*admission), None),
            Ok(Pending::Written { id, room, answer, listening }) => {
                (self.written(id, room, answer).await, listening)
            }
        };
        self.tell(&answer);
        let admission = answer?;
        // A replay is another transaction than the one that was to be stored.
        let listening =
            listening.filter(|listening| matches!(&admission, Admission::New(tx) if tx.id == listening.id()));
        Ok((admission, listening))
    }

    async fn enqueue(
        &self,
        submission: Submission,
        retry_of: Option<TxId>,
        claimed: &mut Claims,
        came: Came,
    ) -> Result<Pending, SubmitError> {
        let parts = &self.shared.parts;
        let now = parts.clock.now();
        let id = TxId::new(now, parts.random.bits());
        let (new, room) = match self.taken_in(&submission, retry_of, id, now, came).await {
            Ok(taken) => taken,
            // What was taken in before is answered as it is, also if it would not be taken in today.
            Err(SubmitError::Refused(refused)) => {
                let known = self.known(&submission).await?;
                return known.map(Box::new).map(Pending::Known).ok_or(SubmitError::Refused(refused));
            }
            Err(other) => return Err(other),
        };
        // Who waits for a hash is told by whichever node it asks: the lane's owner is found by the store.
        if parts.slots_at_admission.contains(&new.lane) && submission.at_once.is_none() {
            let claim = match claimed.get(&new.lane) {
                Some(claim) => claim.clone(),
                None => {
                    let claim = self.claim(new.lane).await;
                    claimed.insert(new.lane, claim.clone());
                    claim
                }
            };
            if let Err(error) = claim {
                // What was taken in before can be told by any node.
                let known = self.known(&submission).await?;
                return known.map(Box::new).map(Pending::Known).ok_or(error);
            }
        }
        let listening = submission.at_once.as_ref().map(|_| Listening::hurrying(&self.shared, new.lane, id));
        let room = room.set_out();
        let answer = self.shared.writer.enqueue(Write::Admit(Box::new(new))).await;
        Ok(Pending::Written { id, room, answer: answer.map_err(not_written)?, listening })
    }

    /// A submission as it is to be stored, and the room for it. Its signer is judged first: a lane of nobody's is not asked for, and
    /// leaves nothing behind.
    async fn taken_in(
        &self,
        submission: &Submission,
        retry_of: Option<TxId>,
        id: TxId,
        now: Millis,
        came: Came,
    ) -> Result<(NewTransaction, Room), SubmitError> {
        let (parts, lane) = (&self.shared.parts, submission.lane);
        admission::check_signer(parts, lane)?;
        self.check_lane(submission).await?;
        let view = self.view(lane.chain);
        let new = admission::admit(parts, view.as_deref(), submission.clone(), retry_of, id, now)?;
        let load = Load { transactions: 1, bytes: submission.stored_bytes() };
        Ok((new, self.room(lane, load, came).await?))
    }

    /// What [`Self::submit`] would refuse without a look at the store. Nothing is stored, and what it follows need not be
    /// there yet.
    pub fn check(&self, submission: Submission) -> Result<(), Refused> {
        let parts = &self.shared.parts;
        if self.shared.is_disabled(submission.lane) {
            return Err(Refused::LaneDisabled(submission.lane));
        }
        let (now, view) = (parts.clock.now(), self.view(submission.lane.chain));
        let id = TxId::new(now, parts.random.bits());
        admission::admit(parts, view.as_deref(), submission, None, id, now).map(|_| ())
    }

    /// What there is under a submission's key, or else under the nonce that its caller gave.
    pub async fn known(&self, submission: &Submission) -> Result<Option<Admission>, StoreError> {
        if let Some(known) = self.known_key(submission).await? {
            return Ok(Some(known));
        }
        let at_once = submission.at_once.as_ref();
        let Some(call) = at_once.and_then(|at_once| at_once.call.as_ref()) else { return Ok(None) };
        if let Some(known) = self.known_call(submission, call).await? {
            return Ok(Some(known));
        }
        match call.before_keys() {
            Some(call) => Ok(self.known_call(submission, &call).await?.and_then(Admission::if_the_same)),
            None => Ok(None),
        }
    }

    async fn known_call(
        &self,
        submission: &Submission,
        call: &CallId,
    ) -> Result<Option<Admission>, StoreError> {
        let Submission { lane, request_id, payload, .. } = submission;
        if let Some(tx) = self.store().tx_by_call(*lane, call).await? {
            return Ok(Some(Admission::under_nonce(tx, request_id.as_ref(), payload)));
        }
        let kept = self.store().kept_by_call(*lane, call).await?;
        Ok(kept.map(|kept| Admission::under_kept_nonce(kept, request_id.as_ref(), payload)))
    }

    async fn known_key(&self, submission: &Submission) -> Result<Option<Admission>, StoreError> {
        let Submission { lane, request_id, .. } = submission;
        let (Some(key), Ok(asked)) = (request_id, submission.fingerprint()) else {
            return Ok(None);
        };
        if let Some(TxRecord { tx, .. }) = self.store().tx_by_request(lane.signer, key).await? {
            let same = tx.request.fingerprint == asked;
            return Ok(Some(if same { Admission::Replay(tx) } else { Admission::Conflict(tx.id) }));
        }
        let kept = self.store().kept_by_request(lane.signer, key).await?;
        Ok(kept.map(|kept| {
            if kept.fingerprint == asked { Admission::Removed(kept) } else { Admission::Conflict(kept.id) }
        }))
    }

    /// As [`Self::submit`], for a transaction that does an ended one again.
    pub(crate) async fn submit_retry(
        &self,
        submission: Submission,
        of: TxId,
    ) -> Result<Admission, SubmitError> {
        let came = self.shared.queues.came();
        let answer = match self.enqueue(submission, Some(of), &mut Claims::new(), came).await {
            Err(error) => Err(error),
            Ok(pending) => self.answered(pending, Instant::now() + SLOT_LIMIT).await,
        };
        self.tell(&answer);
        answer
    }

    /// Counts and logs what became of a submission.
    pub(crate) fn tell(&self, answer: &Result<Admission, SubmitError>) {
        let result = match answer {
            Ok(Admission::New(tx)) => {
                let Parts { telemetry, node, .. } = &self.shared.parts;
                let (chain, signer) = (tx.lane.chain, telemetry.signer(tx.lane.signer));
                // An admission needs no lease, so there is no token.
                tracing::debug!(%chain, %signer, tx = %tx.id, %node, "accepted");
                let to = TxState::Accepted;
                let at = tx.request.accepted_at;
                self.shared.note(Fact::Moved {
                    from: None,
                    to,
                    stayed: Duration::ZERO,
                    tx: tx.id,
                    chain,
                    accepted_at: at,
                    at,
                });
                self.shared.note(Fact::Journalled { entries: 1 });
                Submitted::New
            }
            Ok(Admission::Replay(_) | Admission::Removed(_)) => Submitted::Replay,
            Ok(Admission::Conflict(_) | Admission::NonceReused(_)) => Submitted::Conflict,
            Err(SubmitError::Refused(_) | SubmitError::NotOwner { .. } | SubmitError::NoSlot { .. }) => {
                Submitted::Refused
            }
            Err(SubmitError::Store(_)) => Submitted::Failed,
            Err(SubmitError::Unknown(_)) => Submitted::Unknown,
        };
        self.shared.note(Fact::Submitted(result));
    }

    /// What only the store knows: whether the lane takes anything in, and whether what is to be followed exists.
    async fn check_lane(&self, submission: &Submission) -> Result<(), SubmitError> {
        if self.shared.is_disabled(submission.lane) {
            return Err(Refused::LaneDisabled(submission.lane).into());
        }
        if let Some(after) = &submission.options.after
            && self.store().statuses(&[after.tx]).await?.is_empty()
        {
            return Err(Refused::UnknownPredecessor(after.tx).into());
        }
        Ok(())
    }

    /// Room for what is to wait in a lane of ours.
    pub(crate) async fn room(&self, lane: LaneId, load: Load, came: Came) -> Result<Room, SubmitError> {
        let chain = self.shared.parts.chains.get(&lane.chain).ok_or(Refused::UnknownChain(lane.chain))?;
        let settings = &chain.settings;
        let taken = self.shared.queues.take(self.store(), lane, load, settings, came).await?;
        taken.map_err(|full| {
            let refused = match full {
                Full::Transactions(waiting) => {
                    Refused::LaneIsFull { lane, waiting, most: settings.max_waiting }
                }
                Full::Bytes(waiting) => {
                    Refused::LaneIsHeavy { lane, waiting, most: settings.max_waiting_bytes }
                }
            };
            refused.into()
        })
    }

    /// The outcome of a write. Only what is new, or may be, waits in its lane.
    async fn written(
        &self,
        id: TxId,
        room: Room,
        answer: oneshot::Receiver<Result<Written, WriteError>>,
    ) -> Result<Admission, SubmitError> {
        let lost = |_| Err(WriteError::Unknown("the engine stopped".into()));
        let admission = self.admitted(id, answer.await.unwrap_or_else(lost)).await;
        match &admission {
            Ok(Admission::New(_)) | Err(SubmitError::Unknown(_)) => drop(room),
            Ok(_) | Err(_) => room.give_back(),
        }
        admission
    }

    async fn admitted(
        &self,
        id: TxId,
        result: Result<Written, WriteError>,
    ) -> Result<Admission, SubmitError> {
        let admission = match result {
            Ok(Written::Admitted(admission)) => *admission,
            Ok(other) => return Err(SubmitError::Unknown(format!("the store answered {other:?}"))),
            // A lost answer is looked up, never assumed (L18).
            // Where it cannot be looked up either, it is still not known, and nobody may be told that nothing was stored.
            Err(WriteError::Unknown(text)) => match self.store().tx(id).await {
                Ok(Some(record)) => {
                    // The writer did not know that there is something to do.
                    self.shared.work_for(record.tx.lane);
                    Admission::New(record.tx)
                }
                Ok(None) => return Err(SubmitError::Unknown(text)),
                Err(error) => return Err(SubmitError::Unknown(format!("{text}; {error}"))),
            },
            Err(error) => return Err(not_written(error)),
        };
        Ok(admission)
    }

    /// Stores a command for the lane's owner to apply.
    pub async fn command(&self, lane: LaneId, kind: CommandKind) -> Result<CommandId, SubmitError> {
        self.command_keyed(lane, kind, &Wish::default()).await
    }

    /// As [`Self::command`]; the same key on the same lane is the same command, and is applied once.
    pub async fn command_keyed(
        &self,
        lane: LaneId,
        kind: CommandKind,
        wish: &Wish,
    ) -> Result<CommandId, SubmitError> {
        let key = wish.key.as_ref();
        let parts = &self.shared.parts;
        if let Some(known) = self.known_command(lane, &kind, key).await? {
            return Ok(known);
        }
        if !parts.signers.contains_key(&lane) {
            // What needs no signature can be asked for as long as the lane has a history here.
            let steerable = keyless::needs_no_key(&kind) && self.store().lane(lane).await?.is_some();
            if !steerable && !parts.chains.contains_key(&lane.chain) {
                return Err(Refused::UnknownChain(lane.chain).into());
            }
            if !steerable {
                return Err(Refused::UnknownSigner { chain: lane.chain, signer: lane.signer }.into());
            }
        }
        if crowd::is_bounded(&kind) {
            let open = self.store().open_commands(lane, &BTreeSet::new(), crowd::MOST_COMMANDS).await?;
            let is_replace = matches!(kind, CommandKind::Replace { .. });
            let is_older = is_replace && self.older().await?.is_some();
            crowd::has_room(lane, &kind, &open, is_older)?;
        }
        let now = parts.clock.now();
        let id = match key {
            Some(key) => CommandId::of_key(&lane, key),
            None => CommandId::new(now, parts.random.bits()),
        };
        let command = Command { id, lane, kind: kind.clone(), at: now, by: wish.by.clone() };
        self.shared.writer.write(Write::Command(Box::new(command))).await.map_err(not_written)?;
        let signer = parts.telemetry.signer(lane.signer);
        let (chain, tx, node) = (lane.chain, kind.tx().map(tracing::field::display), &parts.node);
        tracing::info!(%chain, %signer, tx, %node, command = %id, "command stored");
        self.shared.work_for(lane);
        // Two with one key may have come at once: the first row is the one that counts.
        match self.known_command(lane, &kind, key).await {
            Err(SubmitError::Store(error)) => Err(SubmitError::Unknown(error.to_string())),
            Err(other) => Err(other),
            Ok(_) => Ok(id),
        }
    }

    /// The command that was stored under this key before, if it asks for the same.
    pub async fn known_command(
        &self,
        lane: LaneId,
        kind: &CommandKind,
        key: Option<&RequestId>,
    ) -> Result<Option<CommandId>, SubmitError> {
        let Some(key) = key else { return Ok(None) };
        let id = CommandId::of_key(&lane, key);
        match self.store().command(id).await? {
            Some(known) if !steer::asks_the_same(&known.kind, kind) => {
                Err(Refused::CommandKeyReused { key: key.clone() }.into())
            }
            known => Ok(known.map(|_| id)),
        }
    }

    /// Why a transaction has not moved on, in its lane's own words. None if its lane does not run here.
    pub async fn explain(&self, lane: LaneId, tx: TxId) -> Option<String> {
        self.ask(lane, |answer| Question::Tx(tx, answer)).await?
    }

    /// Why a lane that runs here hands out no slots.
    pub(crate) async fn hold(&self, lane: LaneId) -> Option<Hold> {
        self.ask(lane, Question::Hold).await?
    }

    pub(crate) async fn ask<T>(
        &self,
        lane: LaneId,
        question: impl FnOnce(oneshot::Sender<T>) -> Question,
    ) -> Option<T> {
        let mailbox = self.shared.directory.mailbox(lane)?;
        let (answer, said) = oneshot::channel();
        mailbox.ask(question(answer));
        tokio::time::timeout(EXPLAIN_LIMIT, said).await.ok()?.ok()
    }

    /// How everything is doing.
    pub async fn health(&self) -> Health {
        Health {
            store: self.store().writable().await,
            older: self.older().await.ok().flatten().map(|why| why.sentence()),
            chains: self.chains(),
            lanes_running: self.shared.running_lanes(),
            leases_acquired: self.shared.leases.acquired.load(Ordering::Relaxed),
            leases_fenced: self.shared.leases.fenced.load(Ordering::Relaxed),
            lanes_in_trouble: self.shared.lane_troubles(),
        }
    }

    /// What is wrong with following a chain, if anything is.
    #[must_use]
    pub fn chain_trouble(&self, chain: ChainId) -> Option<String> {
        self.shared.trouble_of(chain)
    }

    /// That nothing newer is known to two endpoints, once that has lasted.
    fn unwitnessed(&self, view: &ChainView) -> Option<String> {
        let (now, head) = (self.shared.parts.clock.now(), view.head.at.number);
        let lack = view.witnessed.lack.as_ref()?;
        if view.witnessed.alone {
            let others = &lack.others;
            return Some(format!(
                "only one endpoint has shown new blocks for long, and what it shows becomes final by its word alone; {others}"
            ));
        }
        let is_told = lack.disagree || now.since(lack.since) >= LACK_IS_TOLD;
        is_told.then(|| lack.sentence(head, now))
    }

    /// How the chains and their endpoints are doing.
    pub(crate) fn chains(&self) -> Vec<ChainHealth> {
        let chains = self.shared.parts.chains.iter().map(|(id, parts)| {
            let endpoints = parts.chain.endpoints();
            let view = self.view(*id);
            let witnessed = view.as_ref().map(|view| &view.witnessed);
            let lack = witnessed.and_then(|witnessed| witnessed.lack.as_ref());
            ChainHealth {
                id: *id,
                head: view.as_ref().map(|view| view.head.at.number),
                witnessed: witnessed.and_then(|witnessed| witnessed.by_two),
                single_witness: witnessed.is_some_and(|witnessed| witnessed.alone),
                disagree: lack.is_some_and(|lack| lack.disagree),
                unwitnessed: view.as_deref().and_then(|view| self.unwitnessed(view)),
                trouble: self.shared.trouble_of(*id),
                usable: admission::any_usable(&endpoints),
                endpoints,
            }
        });
        chains.collect()
    }
}

pub(crate) fn not_written(error: WriteError) -> SubmitError {
    match error {
        WriteError::Failed(error) => SubmitError::Store(error),
        WriteError::Unknown(text) => SubmitError::Unknown(text),
        WriteError::Fenced { lane } => SubmitError::Unknown(format!("lane {lane} refused the write")),
    }
}
