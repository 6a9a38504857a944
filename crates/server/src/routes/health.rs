//! Is it alive, and can it admit durably?

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::access::Caller;
use crate::serve::App;

pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "status": "alive" }))
}

/// Ready means that a transaction can be stored. Trouble with a chain shows here and does not make it fail: what is
/// stored waits for the chain.
pub(crate) async fn ready(State(app): State<App>, caller: Caller) -> Response {
    if !caller.sees_all() {
        // Whoever shows no key is told what a load balancer needs, and nothing more.
        let (status, word) = match app.probe.writable(&app.handle).await {
            true => (StatusCode::OK, "ready"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "not_ready"),
        };
        return (status, Json(json!({ "status": word }))).into_response();
    }
    let health = app.handle.health().await;
    let chains: Vec<Value> = health
        .chains
        .iter()
        .map(|chain| {
            let endpoints: Vec<Value> = chain
                .endpoints
                .iter()
                .map(|endpoint| {
                    json!({
                        "endpoint": endpoint.name,
                        "usable": endpoint.usable,
                        "head": endpoint.head,
                        "latencyMs": endpoint.latency_ms,
                        "trouble": endpoint.trouble,
                    })
                })
                .collect();
            json!({
                "chainId": chain.id,
                "head": chain.head,
                "witnessed": chain.witnessed,
                "singleWitness": chain.single_witness,
                "disagree": chain.disagree,
                "usable": chain.usable,
                "trouble": chain.trouble.as_ref().or(chain.unwitnessed.as_ref()),
                "endpoints": endpoints,
            })
        })
        .collect();
    let (status, mut store) = match &health.store {
        Ok(()) => (StatusCode::OK, json!({ "writable": true })),
        Err(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "writable": false, "trouble": error.to_string() }))
        }
    };
    if let Some(why) = &health.older {
        store["older"] = json!(why);
    }
    let word = if status == StatusCode::OK { "ready" } else { "not_ready" };
    let in_trouble: Vec<Value> = health
        .lanes_in_trouble
        .iter()
        .map(
            |(lane, why)| json!({ "chainId": lane.chain, "signer": lane.signer.to_string(), "trouble": why }),
        )
        .collect();
    let body = json!({
        "status": word,
        "store": store,
        "chains": chains,
        "lanesRunning": health.lanes_running,
        "leases": { "acquired": health.leases_acquired, "fenced": health.leases_fenced },
        "lanesInTrouble": in_trouble,
    });
    (status, Json(body)).into_response()
}
