//! The store itself: whether it is an older copy, and a person's word that it is to be used all the same.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::tx::{Body, taken};
use crate::access::Caller;
use crate::body;
use crate::problem::Problem;
use crate::serve::App;

pub(crate) async fn show(State(app): State<App>) -> Result<Json<Value>, Problem> {
    let older = app.handle.older().await?;
    let mut shown = json!({ "older": older.is_some() });
    match older {
        Some(why) => shown["why"] = json!(why.sentence()),
        None => {
            let lanes = app.handle.store().lanes().await?;
            let comparing = lanes.iter().filter(|lane| lane.row.older_count.is_some()).count();
            if comparing > 0 {
                shown["comparing"] = json!(comparing);
            }
        }
    }
    Ok(Json(shown))
}

pub(crate) async fn accept(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let despite = body::acceptance(body::json_or_nothing(&headers, &taken(body)?)?)?;
    let lanes = app.handle.accept_store(despite, Some(caller.origin())).await?;
    let lanes: Vec<Value> = lanes
        .iter()
        .map(|(lane, command)| {
            json!({ "chainId": lane.chain, "signer": lane.signer.to_string(), "commandId": command })
        })
        .collect();
    Ok((StatusCode::ACCEPTED, Json(json!({ "lanes": lanes }))))
}
