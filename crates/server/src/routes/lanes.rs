//! Lanes: what they are at, and the operator's hand on them.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use landfall_core::ports::store::CommandKind;
use landfall_core::settings::{Allocation, LaneSettings};
use landfall_core::view::AccountView;
use landfall_core::{ChainId, LaneId, SessionId, Slot};
use landfall_engine::BreakLease;
use serde_json::{Value, json};

use super::steer::{accepted, wish};
use super::tx::{Body, taken};
use crate::access::Caller;
use crate::body::{self, address};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::serve::App;
use crate::show;

type Answer<T> = Result<T, Problem>;

pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Answer<Json<Value>> {
    Ok(Json(json!({ "items": all(&app, &caller).await?, "nextCursor": null })))
}

/// Every lane that the caller may see, as it is shown.
pub(crate) async fn all(app: &App, caller: &Caller) -> Answer<Vec<Value>> {
    let mut summaries = app.handle.store().lanes().await?;
    summaries.retain(|summary| caller.sees_lane(summary.lane));
    let used: BTreeSet<LaneId> = summaries.iter().map(|summary| summary.lane).collect();
    let mut items = Vec::new();
    for summary in &summaries {
        let hold = app.handle.explain_stored_lane(summary).await;
        items.push(show::lane(summary, rules(app, summary.lane), hold));
    }
    let seen = app.handle.parts().signers.keys().filter(|lane| caller.sees_lane(**lane));
    let unused: Vec<LaneId> = seen.filter(|lane| !used.contains(lane)).copied().collect();
    let hold = if unused.is_empty() { None } else { app.handle.explain_older().await };
    items.extend(unused.into_iter().map(|lane| show::unused_lane(lane, rules(app, lane), hold.clone())));
    Ok(items)
}

pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((chain, signer)): Path<(String, String)>,
) -> Answer<Json<Value>> {
    Ok(Json(one(&app, &caller, lane(&chain, &signer)?).await?))
}

/// A lane as it is shown.
pub(crate) async fn one(app: &App, caller: &Caller, lane: LaneId) -> Answer<Value> {
    let missing = || Problem::new(Code::NotFound, format!("there is no lane {lane} here"));
    if !caller.sees_lane(lane) {
        return Err(missing());
    }
    if let Some(summary) = app.handle.store().lane(lane).await? {
        let hold = app.handle.explain_stored_lane(&summary).await;
        let shown = show::lane(&summary, rules(app, lane), hold);
        return Ok(with_unknown(app, lane, summary.owner.as_ref(), shown).await);
    }
    if app.handle.parts().signers.contains_key(&lane) {
        let hold = app.handle.explain_older().await;
        return Ok(with_unknown(app, lane, None, show::unused_lane(lane, rules(app, lane), hold)).await);
    }
    Err(missing())
}

/// A lane that is on hold, with the nonces that it does not know, or why they were not looked at here.
async fn with_unknown(
    app: &App,
    lane: LaneId,
    owner: Option<&(String, SessionId)>,
    mut shown: Value,
) -> Value {
    if shown["healthy"] == true {
        return shown;
    }
    match app.handle.unknown_nonces(lane, owner).await {
        Ok(unknown) if unknown.is_empty() => {}
        Ok(unknown) => shown["unknownNonces"] = unknown.iter().map(show::unknown_nonce).collect(),
        Err(why) => shown["notLookedAt"] = json!(why),
    }
    shown
}

type Accepted = (StatusCode, Json<Value>);

pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path((chain, signer)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Accepted> {
    command(&app, lane(&chain, &signer)?, CommandKind::Pause, &caller, &headers).await
}

pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path((chain, signer)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Accepted> {
    command(&app, lane(&chain, &signer)?, CommandKind::Resume, &caller, &headers).await
}

pub(crate) async fn disable(
    State(app): State<App>,
    caller: Caller,
    Path((chain, signer)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Accepted> {
    command(&app, lane(&chain, &signer)?, CommandKind::Disable, &caller, &headers).await
}

pub(crate) async fn reset(
    State(app): State<App>,
    caller: Caller,
    Path((chain, signer)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Accepted> {
    command(&app, lane(&chain, &signer)?, CommandKind::Reset, &caller, &headers).await
}

async fn command(
    app: &App,
    lane: LaneId,
    kind: CommandKind,
    caller: &Caller,
    headers: &HeaderMap,
) -> Answer<Accepted> {
    let id = app.handle.command_keyed(lane, kind.clone(), &wish(caller, headers)?).await?;
    Ok(accepted(id, json!(kind)))
}

/// What was found at the time, so that a caller sees what it has done (R10).
pub(crate) async fn cancel_all(
    State(app): State<App>,
    caller: Caller,
    Path((chain, signer)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Accepted> {
    let all = app.handle.cancel_all(lane(&chain, &signer)?, &wish(&caller, &headers)?).await?;
    let (status, Json(mut body)) = accepted(all.command, json!({ "type": "cancel_all" }));
    body["queued"] = json!(all.waiting + all.in_flight - all.mined);
    body["tooLate"] = json!(all.mined);
    body["waiting"] = json!(all.waiting);
    body["inFlight"] = json!(all.in_flight);
    Ok((status, Json(body)))
}

pub(crate) async fn fill(
    State(app): State<App>,
    caller: Caller,
    Path((chain, signer)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Accepted> {
    let lane = lane(&chain, &signer)?;
    let most = app.handle.most_filled();
    let (from, to) = body::range(body::json(&headers, &taken(body)?)?, most)?;
    let id = app.handle.fill(lane, from, to, &wish(&caller, &headers)?).await?;
    Ok(accepted(id, json!({ "type": "fill", "from": from, "to": to })))
}

/// Ends the session that holds a lane, by a person's word that it is dead.
pub(crate) async fn break_lease(
    State(app): State<App>,
    Path((chain, signer)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Value>> {
    let lane = lane(&chain, &signer)?;
    let session = body::session(body::json(&headers, &taken(body)?)?)?;
    let refused = |code, text: String| Err(Problem::new(code, text));
    match app.handle.break_lease(lane, session).await? {
        BreakLease::Broken { lanes } => Ok(Json(json!({ "session": session, "lanes": lanes }))),
        BreakLease::Own => refused(
            Code::OwnerLives,
            "that session is of the node which answers this, and lives; to give its lanes to another node, stop it".to_owned(),
        ),
        BreakLease::NotHeld => refused(
            Code::NotHeld,
            format!("session {session} does not hold lane {lane} any more; look who does, and ask again"),
        ),
        BreakLease::NoLeases => refused(
            Code::NoLeases,
            "with SQLite there are no leases: a lock of the operating system, which ends with its process, is in their place"
                .to_owned(),
        ),
    }
}

fn lane(chain: &str, signer: &str) -> Answer<LaneId> {
    let chain = chain.parse().map(ChainId).map_err(|_| {
        Problem::at(Code::WrongType, "chainId", format!("{chain:?} is not a chain id: write a whole number"))
    })?;
    Ok(LaneId { chain, signer: address("signer", signer)? })
}

fn rules(app: &App, lane: LaneId) -> show::Rules {
    let parts = app.handle.parts();
    let at_admission = parts.slots_at_admission.contains(&lane);
    let view = app.handle.view(lane.chain);
    let account = view.as_ref().and_then(|view| view.accounts.get(&lane.signer));
    let allocation = if at_admission { Allocation::Admission } else { Allocation::Dispatch };
    show::Rules {
        window: parts.chains.get(&lane.chain).map(|chain| window(&chain.settings, account)),
        allocation: parts.signers.contains_key(&lane).then_some(allocation),
    }
}

/// How many nonces of an account may be in flight, by what is known of it: as its lane has it, but for what refusals have taught that one.
fn window(settings: &LaneSettings, account: Option<&AccountView>) -> u64 {
    match account {
        Some(account) if settings.first_alone && account.count == Slot(0) => 1,
        Some(account) if account.delegated => settings.max_in_flight.min(settings.delegated_in_flight.max(1)),
        Some(_) | None => settings.max_in_flight,
    }
}

#[cfg(test)]
mod tests {
    use landfall_core::view::{BlockRef, Look};

    use super::*;

    #[test]
    fn the_window_that_is_shown_is_the_accounts_own() {
        let settings = LaneSettings { max_in_flight: 16, delegated_in_flight: 1, ..LaneSettings::default() };
        let at = BlockRef { number: 1, hash: Default::default() };
        let account = |delegated, count| AccountView {
            count: Slot(count),
            balance: None,
            delegated,
            at,
            read: Look(1),
            agreed: true,
        };
        assert_eq!(window(&settings, None), 16);
        assert_eq!(window(&settings, Some(&account(false, 0))), 16);
        assert_eq!(window(&settings, Some(&account(true, 3))), 1);
        let alone = LaneSettings { first_alone: true, ..settings };
        assert_eq!(window(&alone, Some(&account(false, 0))), 1);
        assert_eq!(window(&alone, Some(&account(false, 1))), 16);
    }
}
