//! API keys: making, seeing and ending them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use landfall_core::Millis;
use landfall_core::ports::clock::{Clock, Random};
use landfall_core::ports::records::Records;
use serde_json::{Value, json};

use super::tx::{Body, taken};
use crate::access::{ApiKey, Caller, Keyring, Made, Policy};
use crate::body;
use crate::path::Path;
use crate::problem::Problem;
use crate::serve::App;
use crate::show;

type Answer<T> = Result<T, Problem>;

/// The answer has the key itself, which is shown to nobody again.
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<Value>)> {
    let asked = body::json(&headers, &taken(body)?)?;
    let made = make(&app.keyring, asked, caller.key.as_deref(), now(&app)).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Makes a key straight in the store: the first one, before any server runs. Asked for and answered as `POST /api-keys`.
pub async fn make_api_key(
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    asked: Value,
) -> Result<Value, Problem> {
    let now = clock.now();
    let keyring = Keyring::new(records, clock, random, Policy::default());
    make(&keyring, asked, None, now).await
}

async fn make(keyring: &Keyring, asked: Value, by: Option<&str>, now: Millis) -> Answer<Value> {
    let new = body::new_key(asked, now)?;
    let Made { id, text, key } = keyring.make(new, by).await?;
    let mut shown = shown(&id, &key, now);
    shown["key"] = json!(text);
    Ok(shown)
}

pub(crate) async fn list(State(app): State<App>) -> Answer<Json<Value>> {
    let now = now(&app);
    let keys = app.keyring.list().await?;
    let items: Vec<Value> = keys.iter().map(|(id, key)| shown(id, key, now)).collect();
    Ok(Json(json!({ "items": items, "nextCursor": null })))
}

pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let key = app.keyring.revoke(&id, caller.key.as_deref()).await?;
    Ok(Json(shown(&id, &key, now(&app))))
}

fn now(app: &App) -> Millis {
    app.handle.parts().clock.now()
}

fn shown(id: &str, key: &ApiKey, now: Millis) -> Value {
    let state = match (key.is_good(now), key.revoked_at) {
        (true, _) => "good",
        (false, Some(_)) => "revoked",
        (false, None) => "expired",
    };
    json!({
        "id": id,
        "name": key.name,
        "role": key.role,
        "state": state,
        "signers": key.signers.as_ref().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>()),
        "chains": key.chains,
        "ratePerS": key.rate_per_s,
        "createdAt": show::time(key.created_at),
        "createdBy": key.created_by,
        "expiresAt": key.expires_at.map(show::time),
        "revokedAt": key.revoked_at.map(show::time),
        "revokedBy": key.revoked_by,
    })
}
