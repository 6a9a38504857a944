//! Lanes whose signer is not configured here any more (K6): nothing can be signed for them, but what their callers want to
//! end without a signature ends. What has stored bytes keeps its slot, gets its no-op when the signer is back, and may
//! still land until then.

use std::collections::BTreeSet;
use std::sync::Arc;

use landfall_core::lane::{Action, Lane, LaneEvent};
use landfall_core::ports::store::{Command, CommandKind, Error};
use landfall_core::{CommandId, LaneId, Token};

use crate::lives::Lives;
use crate::mailbox::Mailbox;
use crate::supervisor::Shared;
use crate::time::LaneTime;
use crate::{actions, lane_task};

/// What can be done without a key.
pub(crate) fn needs_no_key(kind: &CommandKind) -> bool {
    match kind {
        CommandKind::Cancel { .. } | CommandKind::Withdraw { .. } | CommandKind::CancelAll { .. } => true,
        CommandKind::Replace { .. }
        | CommandKind::SpeedUp { .. }
        | CommandKind::Approve { .. }
        | CommandKind::Reject { .. }
        | CommandKind::Settle { .. }
        | CommandKind::Pause
        | CommandKind::Resume
        | CommandKind::AcceptStore { .. }
        | CommandKind::Disable
        | CommandKind::Fill { .. }
        | CommandKind::Reset => false,
    }
}

/// Somebody asked for something that can be done here.
pub(crate) async fn has_work(shared: &Shared, lane: LaneId) -> bool {
    match up_to_work(shared, lane).await {
        Ok(found) => found.is_some(),
        Err(error) => {
            tracing::warn!(lane = %shared.shown(lane), %error, "the commands of a lane without signer could not be read");
            false
        }
    }
}

/// The commands that need a key, up to a page with one that does not; none if there is no such page. They stay open, and must
/// not hide those behind them.
async fn up_to_work(shared: &Shared, lane: LaneId) -> Result<Option<BTreeSet<CommandId>>, Error> {
    let mut passed = BTreeSet::new();
    loop {
        let commands = shared.parts.store.open_commands(lane, &passed, actions::COMMANDS).await?;
        let needs_key = commands.iter().filter(|command| !needs_no_key(&command.kind));
        let before = passed.len();
        passed.extend(needs_key.map(|command| command.id));
        if passed.len() - before < commands.len() {
            return Ok(Some(passed));
        }
        if commands.is_empty() {
            return Ok(None);
        }
    }
}

/// Applies those commands and gives the lane back.
pub(crate) async fn run(shared: Arc<Shared>, lane: LaneId, token: Token) {
    if let Err(text) = apply(&shared, lane, token).await {
        tracing::warn!(lane = %shared.shown(lane), text, "a lane without signer could not be steered; trying again");
    }
    if let Err(error) = shared.parts.store.release(lane, shared.session, token).await {
        tracing::warn!(lane = %shared.shown(lane), %error, "the lease could not be given back; it ends with the session");
    }
}

async fn apply(shared: &Shared, id: LaneId, token: Token) -> Result<(), String> {
    let parts = &shared.parts;
    let record = parts.store.load_lane(id).await.map_err(|error| error.to_string())?;
    if record.token != token {
        return Ok(());
    }
    let settings = parts.chains.get(&id.chain).map(|chain| chain.settings.clone()).unwrap_or_default();
    let mut lives = Lives::of(&record);
    let time = LaneTime::begin(parts.clock.as_ref());
    let mut lane = Lane::load(record, Arc::new(settings), time.now());
    let mailbox = Mailbox::default();
    let passed = up_to_work(shared, id).await.map_err(|error| error.to_string())?;
    let Some(passed) = passed else { return Ok(()) };
    while shared.session_is_live() {
        let load = lane.plan(time.now()).actions.into_iter().find_map(|action| match action {
            Action::Load { limit, taken } => Some((limit, taken)),
            _ => None,
        });
        let Some((limit, mut taken)) = load else { return Ok(()) };
        taken.extend(&passed);
        let mut event = actions::load(shared, id, limit, &taken, &mailbox).await;
        if let LaneEvent::Loaded(loaded) = &mut event {
            loaded.commands.retain(|command: &Command| needs_no_key(&command.kind));
            if loaded.commands.is_empty() {
                return Ok(());
            }
        } else {
            return Err("the store could not be read".to_owned());
        }
        let now = time.now();
        let events = vec![event];
        lives.take(&events);
        lane.apply(events, now);
        lane.verify().map_err(|broken| broken.to_string())?;
        if let Some(commit) = lane.take_commit(now)
            && lane_task::write(shared, &mut lane, &mut lives, commit).await.is_err()
        {
            return Err("the commit failed or was refused".to_owned());
        }
    }
    Ok(())
}
