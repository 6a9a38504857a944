//! What each path needs. A path that is not here is refused, so that none can be forgotten.

use axum::http::Method;

use crate::access::{Need, Role};

const OPEN: Need = Need::Nobody;
const VIEW: Need = Need::Role(Role::Viewer);
const SUBMIT: Need = Need::Role(Role::Submitter);
const APPROVE: Need = Need::Role(Role::Approver);
const OPERATE: Need = Need::Role(Role::Operator);
const ADMIN: Need = Need::Role(Role::Admin);

/// A method, a path as the router has it, and the least that its caller must be.
pub(crate) const TABLE: &[(Method, &str, Need)] = &[
    (Method::GET, "/health/live", OPEN),
    (Method::GET, "/health/ready", OPEN),
    (Method::GET, "/metrics", VIEW),
    (Method::GET, "/openapi.json", OPEN),
    (Method::GET, "/docs", OPEN),
    // What sends or changes something asks for more by itself.
    (Method::POST, "/rpc/{chain}", VIEW),
    (Method::GET, "/rpc/{chain}", VIEW),
    (Method::POST, "/api/v1/tx", SUBMIT),
    (Method::GET, "/api/v1/tx", VIEW),
    (Method::POST, "/api/v1/tx/batch", SUBMIT),
    (Method::GET, "/api/v1/tx/by-request", VIEW),
    (Method::GET, "/api/v1/tx/{id}", VIEW),
    (Method::GET, "/api/v1/tx/{id}/journal", VIEW),
    (Method::GET, "/api/v1/tx/{id}/confirmations", VIEW),
    (Method::POST, "/api/v1/tx/{id}/cancel", SUBMIT),
    (Method::POST, "/api/v1/tx/{id}/replace", SUBMIT),
    (Method::POST, "/api/v1/tx/{id}/speed-up", SUBMIT),
    (Method::POST, "/api/v1/tx/{id}/approve", APPROVE),
    (Method::POST, "/api/v1/tx/{id}/reject", APPROVE),
    (Method::POST, "/api/v1/tx/{id}/settle", OPERATE),
    (Method::POST, "/api/v1/tx/{id}/retry", SUBMIT),
    (Method::GET, "/api/v1/events", VIEW),
    (Method::GET, "/api/v1/webhooks", VIEW),
    (Method::POST, "/api/v1/webhooks", ADMIN),
    (Method::GET, "/api/v1/webhooks/{id}", VIEW),
    (Method::PATCH, "/api/v1/webhooks/{id}", ADMIN),
    (Method::DELETE, "/api/v1/webhooks/{id}", ADMIN),
    (Method::POST, "/api/v1/webhooks/{id}/rotate", ADMIN),
    (Method::POST, "/api/v1/webhooks/{id}/enable", OPERATE),
    (Method::POST, "/api/v1/webhooks/{id}/disable", OPERATE),
    (Method::POST, "/api/v1/webhooks/{id}/replay", OPERATE),
    (Method::POST, "/api/v1/webhooks/{id}/test", OPERATE),
    (Method::GET, "/api/v1/webhooks/{id}/deliveries", VIEW),
    (Method::POST, "/api/v1/webhooks/{id}/deliveries/{seq}/redeliver", OPERATE),
    (Method::GET, "/api/v1/lanes", VIEW),
    (Method::GET, "/api/v1/lanes/{chain}/{signer}", VIEW),
    (Method::POST, "/api/v1/lanes/{chain}/{signer}/pause", OPERATE),
    (Method::POST, "/api/v1/lanes/{chain}/{signer}/resume", OPERATE),
    (Method::POST, "/api/v1/lanes/{chain}/{signer}/disable", OPERATE),
    (Method::POST, "/api/v1/lanes/{chain}/{signer}/reset", OPERATE),
    (Method::POST, "/api/v1/lanes/{chain}/{signer}/cancel-all", OPERATE),
    (Method::POST, "/api/v1/lanes/{chain}/{signer}/fill", OPERATE),
    (Method::POST, "/api/v1/lanes/{chain}/{signer}/break-lease", ADMIN),
    (Method::GET, "/api/v1/store", VIEW),
    (Method::POST, "/api/v1/store/accept", ADMIN),
    (Method::POST, "/api/v1/api-keys", ADMIN),
    (Method::GET, "/api/v1/api-keys", ADMIN),
    (Method::DELETE, "/api/v1/api-keys/{id}", ADMIN),
    (Method::GET, "/api/v1/audit", ADMIN),
    (Method::GET, "/api/v1/audit/export", ADMIN),
    // What each method of these needs beyond that is asked there.
    (Method::POST, "/landfall.v1.Transactions/{*method}", VIEW),
    (Method::POST, "/landfall.v1.Trades/{*method}", SUBMIT),
    (Method::POST, "/landfall.v1.Lanes/{*method}", VIEW),
    (Method::POST, "/grpc.health.v1.Health/{*method}", OPEN),
    (Method::POST, "/grpc.reflection.v1.ServerReflection/{*method}", OPEN),
    (Method::POST, "/grpc.reflection.v1alpha.ServerReflection/{*method}", OPEN),
];

/// What a path needs; none: nobody said, and so nobody may.
pub(crate) fn need(method: &Method, path: &str) -> Option<Need> {
    // A HEAD is a GET whose answer is cut off.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    TABLE.iter().find(|(of, at, _)| of == method && *at == path).map(|(_, _, need)| *need)
}
