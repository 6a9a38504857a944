//! Lanes: what they are at, and the operator's hand on them.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use landfall_core::ports::store::CommandKind;
use landfall_core::{ChainId, LaneId};
use serde_json::{Value, json};

use crate::body::address;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::serve::App;
use crate::show;

type Answer<T> = Result<T, Problem>;

pub(crate) async fn list(State(app): State<App>) -> Answer<Json<Value>> {
    let summaries = app.handle.store().lanes().await?;
    let used: BTreeSet<LaneId> = summaries.iter().map(|summary| summary.lane).collect();
    let mut items = Vec::new();
    for summary in &summaries {
        let hold = app.handle.explain_lane(summary.lane).await;
        items.push(show::lane(summary, window(&app, summary.lane), hold));
    }
    let unused = app.handle.parts().signers.keys().filter(|lane| !used.contains(lane));
    items.extend(unused.map(|lane| show::unused_lane(*lane, window(&app, *lane))));
    Ok(Json(json!({ "items": items, "nextCursor": null })))
}

pub(crate) async fn show(
    State(app): State<App>,
    Path((chain, signer)): Path<(String, String)>,
) -> Answer<Json<Value>> {
    let lane = lane(&chain, &signer)?;
    if let Some(summary) = app.handle.store().lane(lane).await? {
        let hold = app.handle.explain_lane(lane).await;
        return Ok(Json(show::lane(&summary, window(&app, lane), hold)));
    }
    if app.handle.parts().signers.contains_key(&lane) {
        return Ok(Json(show::unused_lane(lane, window(&app, lane))));
    }
    Err(Problem::new(Code::NotFound, format!("there is no lane {lane} here")))
}

pub(crate) async fn pause(
    State(app): State<App>,
    Path((chain, signer)): Path<(String, String)>,
) -> Answer<(StatusCode, Json<Value>)> {
    command(&app, lane(&chain, &signer)?, CommandKind::Pause).await
}

pub(crate) async fn resume(
    State(app): State<App>,
    Path((chain, signer)): Path<(String, String)>,
) -> Answer<(StatusCode, Json<Value>)> {
    command(&app, lane(&chain, &signer)?, CommandKind::Resume).await
}

pub(crate) async fn command(app: &App, lane: LaneId, kind: CommandKind) -> Answer<(StatusCode, Json<Value>)> {
    let id = app.handle.command(lane, kind.clone()).await?;
    Ok((StatusCode::ACCEPTED, Json(json!({ "commandId": id, "command": kind }))))
}

fn lane(chain: &str, signer: &str) -> Answer<LaneId> {
    let chain = chain.parse().map(ChainId).map_err(|_| {
        Problem::at(Code::WrongType, "chainId", format!("{chain:?} is not a chain id: write a whole number"))
    })?;
    Ok(LaneId { chain, signer: address("signer", signer)? })
}

fn window(app: &App, lane: LaneId) -> Option<u64> {
    app.handle.parts().chains.get(&lane.chain).map(|chain| chain.settings.max_in_flight)
}
