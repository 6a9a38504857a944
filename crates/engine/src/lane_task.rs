//! The loop of one lane: events, apply, commit, plan, start.
//!
//! A commit that was refused ends the task; one whose outcome is not known, or that failed, throws the lane's memory
//! away and loads it again. There is no other recovery. Where that fails again and again the pauses grow, and what is
//! wrong is told to health and to everybody who asks why a transaction waits.
//!
//! After one whose outcome is not known the lane is taken anew first: it may still be running in the database, and land
//! after the load. Under a new token it has landed before, or never will.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use landfall_core::journal::{Entry, NewEntry};
use landfall_core::lane::{Lane, LaneCounts, LaneEvent, Wants};
use landfall_core::ports::store::{Acquired, LaneCommit, Write, WriteError, Written};
use landfall_core::{LaneId, Millis, Token, TxHash, TxId};
use tokio::time::Instant;

use crate::actions;
use crate::awaited;
use crate::directory::Pace;
use crate::lives::Lives;
use crate::mailbox::{Mailbox, Question};
use crate::parts::PlantedInEngine;
use crate::remembered::Had;
use crate::supervisor::Shared;
use crate::telemetry::Fact;
use crate::time::LaneTime;

/// How long a lane with something to do sleeps at most: a lost wake-up costs no more than this.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// The pause before a lane is loaded again: doubled with every load that stored nothing, up to the longest.
const RELOAD_AFTER: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why one load of a lane came to its end.
pub(crate) enum Ended {
    /// Load it again: this went wrong.
    Reload(String),
    /// Take it anew, then load it again: a commit may still land.
    Retake(String),
    /// Load it again: the clock has stepped.
    Afresh,
    /// It is not ours any more.
    Lost,
    /// There is nothing to do, or the engine stops: give it back.
    GiveBack,
}

/// Runs a lane under a token until it is lost, idle, or the engine stops.
pub(crate) async fn run(shared: Arc<Shared>, lane: LaneId, mut token: Token) {
    let mut failures = 0;
    let mut unsure = false;
    loop {
        let mailbox = Arc::new(Mailbox::default());
        let ended = match unsure {
            true => retake(&shared, lane, &mut token, &mut unsure).await,
            false => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => run_once(&shared, lane, token, &mailbox, &mut failures).await,
        };
        shared.directory.leave(lane);
        if mailbox.has_mail() {
            // Something came while the lane was being given back: it is to run again.
            shared.want_lane(lane);
        }
        unsure |= matches!(ended, Ended::Retake(_));
        match ended {
            Ended::Reload(why) | Ended::Retake(why) if !shared.is_stopping() && shared.session_is_live() => {
                failures += 1;
                let pause = RELOAD_AFTER.saturating_mul(1 << (failures - 1).min(8)).min(LONGEST_PAUSE);
                shared.lane_trouble(lane, Some(LaneTrouble { why, failures, again_in: pause }));
                shared.pause(pause).await;
            }
            Ended::Afresh if !shared.is_stopping() && shared.session_is_live() => {}
            Ended::Reload(_) | Ended::Retake(_) | Ended::Afresh | Ended::GiveBack => {
                shared.lane_trouble(lane, None);
                let given = shared.parts.store.release(lane, shared.session, token).await;
                if let Err(error) = given {
                    let lane = shared.shown(lane);
                    tracing::warn!(%lane, %error, "the lease could not be given back; it ends with the session");
                }
                return;
            }
            Ended::Lost => {
                shared.lane_trouble(lane, None);
                return;
            }
        }
    }
}

/// Takes the lane under a new token, so that nothing that was asked for under the old one can land any more. None: done.
async fn retake(shared: &Shared, lane: LaneId, token: &mut Token, unsure: &mut bool) -> Option<Ended> {
    match shared.parts.store.acquire(lane, shared.session).await {
        Ok(Acquired::Yes { token: new }) => {
            (*token, *unsure) = (new, false);
            None
        }
        Ok(Acquired::HeldBy { .. }) => Some(Ended::Lost),
        Err(error) => {
            tracing::warn!(%lane, %error, "the lane could not be taken anew after a lost answer; trying again");
            Some(Ended::Retake(error.to_string()))
        }
    }
}

/// Why a lane is not in memory although it should be.
#[derive(Debug, Clone)]
pub(crate) struct LaneTrouble {
    why: String,
    failures: u32,
    again_in: Duration,
}

impl LaneTrouble {
    pub(crate) fn sentence(&self) -> String {
        format!(
            "its lane could not be loaded or written {} in a row ({}); nothing of it was lost, and it is tried again \
             every {} ms",
            if self.failures == 1 { "once".to_owned() } else { format!("{} times", self.failures) },
            self.why,
            self.again_in.as_millis()
        )
    }
}

async fn run_once(
    shared: &Arc<Shared>,
    id: LaneId,
    token: Token,
    mailbox: &Arc<Mailbox>,
    failures: &mut u32,
) -> Ended {
    let parts = &shared.parts;
    let Some(settings) = parts.lane_settings(id) else { return Ended::GiveBack };
    let record = match parts.store.load_lane(id).await {
        Ok(record) => record,
        Err(error) => {
            tracing::error!(lane = %shared.shown(id), %error, "the lane could not be loaded; trying again");
            return Ended::Reload(error.to_string());
        }
    };
    if record.token != token {
        return Ended::Lost;
    }
    let mut lives = Lives::of(&record);
    let accounted_at = shared.remembered.accounted_at(&record);
    let time = LaneTime::begin(parts.clock.as_ref());
    let mut lane = Lane::load(record, Arc::new(settings), time.now());
    if let Some(at) = accounted_at {
        lane.was_accounted_for(at);
    }
    let ended = turns(shared, &mut lane, &mut lives, &time, mailbox, failures).await;
    let unsure = matches!(ended, Ended::Retake(_));
    let (version, accounted_at) = (lane.version(), lane.accounted_at());
    shared.remembered.ended(id, Had { token, version, unsure, accounted_at });
    ended
}

/// The turns of a lane that was just loaded.
async fn turns(
    shared: &Arc<Shared>,
    lane: &mut Lane,
    lives: &mut Lives,
    time: &LaneTime,
    mailbox: &Arc<Mailbox>,
    failures: &mut u32,
) -> Ended {
    let (id, parts) = (lane.id(), &shared.parts);
    let first = if lane.begins() { Pace::Beginning } else { Pace::default() };
    shared.directory.enter(id, first, mailbox.clone(), lane.open_hashes());
    shared.poke_watcher(id.chain);
    if shared.is_stopping() {
        // Whoever asked the lanes to stop did not see this one yet.
        return Ended::GiveBack;
    }
    let loaded_at = Instant::now();
    let mut wake_at: Option<Millis> = Some(time.now());
    let mut idle_since: Option<Instant> = None;
    loop {
        // One at rest is next given back.
        let longest =
            idle_since.map_or(LONGEST_SLEEP, |since| parts.timings.idle.saturating_sub(since.elapsed()));
        let limit = wake_at.map_or(longest, |at| at.since(time.now())).min(longest);
        let mail = mailbox.take(limit).await;
        if !shared.session_is_live() {
            return Ended::Lost;
        }
        let now = time.now();
        lives.take(&mail.events);
        let view = mail.events.iter().find_map(|event| match event {
            LaneEvent::Chain { view, .. } => Some(view.clone()),
            _ => None,
        });
        lane.apply(mail.events, now);
        if let Err(broken) = lane.verify() {
            let lane = shared.shown(id);
            tracing::error!(%lane, error = %broken.what, "the lane contradicts itself, and is loaded again");
            return Ended::Reload(broken.to_string());
        }
        for alarm in lane.take_alarms() {
            let lane = shared.shown(id);
            tracing::error!(%lane, %alarm, "this must never happen: stop the lane and look at the chain");
            shared.note(Fact::Alarm(alarm));
        }
        answer(lane, mail.questions, now);
        let commit = lane.take_commit(now);
        // A load that lives as long as the longest pause is as good as one that could store something.
        let is_well = commit.is_some() || loaded_at.elapsed() >= LONGEST_PAUSE;
        let is_news = commit.is_some() || view.is_some();
        if let Some(commit) = commit
            && let Err(ended) = write(shared, lane, lives, commit).await
        {
            return ended;
        }
        lives.forget_untaken(lane);
        if is_news {
            // What this view brought is on disk: others may be shown it.
            shared.directory.took(id, view.as_deref(), lane.shown_up_to());
        }
        if is_well && *failures > 0 {
            *failures = 0;
            shared.lane_trouble(id, None);
        }
        if mail.stop {
            return Ended::GiveBack;
        }
        // The commit may have taken as long as the session had left, or the process stood still meanwhile.
        if !shared.session_is_live() {
            return Ended::Lost;
        }
        // One at rest is not kept for it: it is given back soon, and what comes before that makes it busy.
        if !lane.is_idle() && time.is_off(parts.clock.as_ref()) {
            tracing::warn!(lane = %shared.shown(id), "the clock of this machine was set; the lane is loaded again");
            return Ended::Afresh;
        }
        let plan = lane.plan(time.now());
        let counts = lane.counts();
        shared.counted(id, counts);
        shared.directory.goes_at(id, pace(lane, &counts));
        look_for(shared, lane, plan.wants);
        wake_at = plan.wake_at;
        for action in plan.actions {
            actions::start(shared, id, action, mailbox.clone());
        }
        idle_since = if lane.is_idle() { idle_since.or_else(|| Some(Instant::now())) } else { None };
        if idle_since.is_some_and(|since| since.elapsed() >= parts.timings.idle) {
            return Ended::GiveBack;
        }
    }
}

/// Has the account asked about, where the lane cannot go on by what it knows.
fn look_for(shared: &Shared, lane: &mut Lane, wants: Wants) {
    let id = lane.id();
    let looks = match wants {
        Wants::Nothing => false,
        Wants::Head => shared.directory.wants_head(id),
        Wants::Anew => {
            lane.asked(shared.directory.wants_anew(id));
            true
        }
    };
    if looks {
        shared.poke_watcher(id.chain);
    }
}

fn answer(lane: &Lane, questions: Vec<Question>, now: Millis) {
    for question in questions {
        // The asker may have gone meanwhile.
        match question {
            Question::Tx(tx, answer) => drop(answer.send(lane.explain(tx, now))),
            Question::Hold(answer) => drop(answer.send(lane.hold())),
            Question::Unknown(answer) => drop(answer.send(lane.unknown())),
        }
    }
}

/// What the lane needs to hear of its chain.
fn pace(lane: &Lane, counts: &LaneCounts) -> Pace {
    let LaneCounts { waiting, more, signed, out, without_receipt, returned, held, .. } = *counts;
    if lane.begins() {
        // Also without work: one that waits for its slot before it is stored is not here yet.
        Pace::Beginning
    } else if lane.is_idle() {
        Pace::Resting
    } else if lane.gives() {
        Pace::Giving
    } else if more || held || waiting + signed + out + without_receipt + returned > 0 {
        Pace::Busy
    } else {
        Pace::Settling
    }
}

/// What a person should hear of in a commit: a lane holds, a stranger uses its key.
fn warnings(commit: &LaneCommit) -> Vec<(Option<TxId>, String)> {
    let of = |new: &NewEntry| match &new.entry {
        Entry::LaneHeld { text } => Some((new.tx, format!("the lane holds: {text}"))),
        Entry::LaneAdopted { text, .. } => Some((new.tx, text.clone())),
        Entry::TakenAlike { slot, hash, .. } => Some((
            new.tx,
            format!(
                "nonce {slot} was taken by {hash}, which does the same and is not known: say whose it was"
            ),
        )),
        Entry::Displaced { slot } => {
            Some((new.tx, format!("nonce {slot} was used, and none of our attempts is known to have won it")))
        }
        _ => None,
    };
    commit.journal.iter().filter_map(of).collect()
}

fn plants_old_token(shared: &Shared) -> bool {
    shared.parts.timings.planted == Some(PlantedInEngine::ReloadedUnderOldToken)
}

/// Commits, and tells the watcher which hashes count from now on, before any of them is sent.
pub(crate) async fn write(
    shared: &Shared,
    lane: &mut Lane,
    lives: &mut Lives,
    commit: LaneCommit,
) -> Result<(), Ended> {
    let id = lane.id();
    let stored: Vec<TxHash> = commit.attempts.iter().map(|attempt| attempt.hash).collect();
    let entries = commit.journal.len();
    let at_admission = shared.parts.slots_at_admission.contains(&id);
    let told = if at_admission { awaited::answers(&commit.txs) } else { shared.awaited.wanted(&commit.txs) };
    if shared.parts.timings.planted == Some(PlantedInEngine::ToldBeforeCommit) {
        shared.awaited.tell(told.clone());
    }
    let moved: Vec<TxId> = commit.txs.iter().map(|update| update.id).collect();
    let disabled = commit.row.disabled;
    let facts = lives.facts(&commit);
    let warnings = warnings(&commit);
    let (node, token) = (&shared.parts.node, lane.token());
    let (chain, signer) = (id.chain, shared.parts.telemetry.signer(id.signer));
    match shared.writer.write(Write::Lane(Box::new(commit))).await {
        Ok(Written::Lane(version)) => {
            // Every write can be traced to who made it (L13). One that is about many has their number instead.
            let tx = moved.first().filter(|_| moved.len() == 1).map(tracing::field::display);
            let txs = moved.len();
            tracing::debug!(%chain, %signer, tx, txs, %node, %token, %version, entries, "committed");
            lane.committed(version);
            facts.into_iter().for_each(|fact| shared.note(fact));
            for (tx, what) in warnings {
                let tx = tx.map(tracing::field::display);
                tracing::warn!(%chain, %signer, tx, %node, "{what}");
            }
            shared.directory.want(id, stored.into_iter());
            shared.awaited.tell(told);
            if !at_admission {
                shared.awaited.nudge(&moved);
            }
            shared.directory.moved(moved.into_iter());
            shared.set_disabled(id, disabled);
            shared.directory.forget(id, &lane.take_closed_hashes());
            Ok(())
        }
        Ok(other) => {
            tracing::error!(%chain, %signer, ?other, "the store answered something else than was asked");
            Err(Ended::Reload(format!("the store answered {other:?}")))
        }
        Err(WriteError::Fenced { .. }) => {
            shared.note(Fact::LeaseFenced);
            tracing::warn!(%chain, %signer, %token, %node, txs = moved.len(), "fenced: the lane is another's");
            shared.leases.fenced.fetch_add(1, Ordering::Relaxed);
            Err(Ended::Lost)
        }
        Err(error @ WriteError::Unknown(_)) if !plants_old_token(shared) => {
            let txs = moved.len();
            tracing::warn!(%chain, %signer, %token, %node, txs, %error, "commit unknown; the lane is taken anew and loaded again");
            Err(Ended::Retake(error.to_string()))
        }
        Err(error) => {
            let txs = moved.len();
            tracing::warn!(%chain, %signer, %token, %node, txs, %error, "commit failed; the lane is loaded again");
            Err(Ended::Reload(error.to_string()))
        }
    }
}
