//! The paths. One file for each thing that callers name.

mod audit;
mod events;
mod health;
mod keys;
pub(crate) mod lanes;
mod metrics;
mod openapi;
mod steer;
mod store;
pub(crate) mod table;
pub(crate) mod tx;
mod webhooks;

pub use keys::make_api_key;
pub use table::paths;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};

use crate::access;
use crate::doors::intake;
use crate::grpc;
use crate::problem::{Code, Problem};
use crate::rpc;
use crate::serve::App;

pub(crate) fn router(app: App) -> Router {
    all(grpc::routes(&app))
        .route_layer(from_fn_with_state(app.clone(), access::admit))
        .fallback(async |app: State<App>, request: Request| {
            unread(&app, request).await;
            Problem::new(Code::NotFound, "there is nothing at this path; the API is under /api/v1")
        })
        .method_not_allowed_fallback(async |app: State<App>, request: Request| {
            unread(&app, request).await;
            Problem::new(Code::MethodNotAllowed, "the path exists, but not for this method")
        })
        .with_state(app)
}

/// Every path with its handler. What each needs is in the [`table`].
fn all(grpc: Router<App>) -> Router<App> {
    let api = Router::new()
        .route("/tx", post(tx::submit).get(tx::list))
        .route("/tx/batch", post(tx::submit_batch))
        .route("/tx/by-request", get(tx::by_request))
        .route("/tx/{id}", get(tx::show))
        .route("/tx/{id}/journal", get(tx::journal))
        .route("/tx/{id}/confirmations", get(tx::confirmations))
        .route("/tx/{id}/cancel", post(steer::cancel))
        .route("/tx/{id}/replace", post(steer::replace))
        .route("/tx/{id}/speed-up", post(steer::speed_up))
        .route("/tx/{id}/approve", post(steer::approve))
        .route("/tx/{id}/reject", post(steer::reject))
        .route("/tx/{id}/settle", post(steer::settle))
        .route("/tx/{id}/retry", post(steer::retry))
        .route("/events", get(events::listen))
        .route("/webhooks", get(webhooks::list).post(webhooks::create))
        .route("/webhooks/{id}", get(webhooks::show).patch(webhooks::change).delete(webhooks::delete))
        .route("/webhooks/{id}/rotate", post(webhooks::rotate))
        .route("/webhooks/{id}/enable", post(webhooks::enable))
        .route("/webhooks/{id}/disable", post(webhooks::disable))
        .route("/webhooks/{id}/replay", post(webhooks::replay))
        .route("/webhooks/{id}/test", post(webhooks::test))
        .route("/webhooks/{id}/deliveries", get(webhooks::deliveries))
        .route("/webhooks/{id}/deliveries/{seq}/redeliver", post(webhooks::redeliver))
        .route("/lanes", get(lanes::list))
        .route("/lanes/{chain}/{signer}", get(lanes::show))
        .route("/lanes/{chain}/{signer}/pause", post(lanes::pause))
        .route("/lanes/{chain}/{signer}/resume", post(lanes::resume))
        .route("/lanes/{chain}/{signer}/disable", post(lanes::disable))
        .route("/lanes/{chain}/{signer}/reset", post(lanes::reset))
        .route("/lanes/{chain}/{signer}/cancel-all", post(lanes::cancel_all))
        .route("/lanes/{chain}/{signer}/fill", post(lanes::fill))
        .route("/lanes/{chain}/{signer}/break-lease", post(lanes::break_lease))
        .route("/store", get(store::show))
        .route("/store/accept", post(store::accept))
        .route("/api-keys", post(keys::create).get(keys::list))
        .route("/api-keys/{id}", delete(keys::revoke))
        .route("/audit", get(audit::list))
        .route("/audit/export", get(audit::export));
    Router::new()
        .merge(grpc)
        .nest("/api/v1", api)
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(metrics::page))
        .route("/openapi.json", get(openapi::document))
        .route("/docs", get(openapi::page))
        .route("/rpc/{chain}", post(rpc::post).get(rpc::upgrade))
}

/// Health and nothing else, for a listener of its own. Nobody is asked for a key there, and nobody is told more than a word.
pub(crate) fn health_router(app: App) -> Router {
    Router::new()
        .merge(grpc::health(&app))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .fallback(async || {
            Problem::new(Code::NotFound, "here is health only: /health/live and /health/ready")
        })
        .with_state(app)
}

/// A request that is refused here has a body that nobody wants.
async fn unread(app: &App, request: Request) {
    let (parts, body) = request.into_parts();
    intake::refused(app, &parts.headers, body).await;
}
