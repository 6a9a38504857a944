//! The store itself: whether it is an older copy, and a person's word that it is to be used all the same.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::tx::{Body, taken};
use crate::body;
use crate::problem::Problem;
use crate::serve::App;

pub(crate) async fn show(State(app): State<App>) -> Result<Json<Value>, Problem> {
    let older = app.handle.older().await?;
    let mut shown = json!({ "older": older.is_some() });
    if let Some(why) = older {
        shown["why"] = json!(why.sentence());
    }
    Ok(Json(shown))
}

pub(crate) async fn accept(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let despite_pool = body::acceptance(body::json_or_nothing(&headers, &taken(body)?)?)?;
    let lanes = app.handle.accept_store(despite_pool).await?;
    let lanes: Vec<Value> = lanes
        .iter()
        .map(|(lane, command)| {
            json!({ "chainId": lane.chain, "signer": lane.signer.to_string(), "commandId": command })
        })
        .collect();
    Ok((StatusCode::ACCEPTED, Json(json!({ "lanes": lanes }))))
}
