//! What each path needs. A path that is not here is refused, so that none can be forgotten.

use axum::http::Method;

use crate::access::{Need, Role};

const OPEN: Need = Need::Nobody;
const VIEW: Need = Need::Role(Role::Viewer);
const SUBMIT: Need = Need::Role(Role::Submitter);
const APPROVE: Need = Need::Role(Role::Approver);
const OPERATE: Need = Need::Role(Role::Operator);
const ADMIN: Need = Need::Role(Role::Admin);

/// A method, a path as the router has it (of gRPC: as it is called), and the least that its caller must be.
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
    (Method::POST, "/landfall.v1.Transactions/Submit", SUBMIT),
    (Method::POST, "/landfall.v1.Transactions/SubmitStream", SUBMIT),
    (Method::POST, "/landfall.v1.Transactions/Get", VIEW),
    (Method::POST, "/landfall.v1.Transactions/Watch", VIEW),
    (Method::POST, "/landfall.v1.Transactions/Cancel", SUBMIT),
    (Method::POST, "/landfall.v1.Trades/Submit", SUBMIT),
    (Method::POST, "/landfall.v1.Lanes/List", VIEW),
    (Method::POST, "/landfall.v1.Lanes/Get", VIEW),
    (Method::POST, "/grpc.health.v1.Health/Check", OPEN),
    (Method::POST, "/grpc.health.v1.Health/Watch", OPEN),
    (Method::POST, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", OPEN),
    (Method::POST, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", OPEN),
];

/// Every path and the least role that it needs; none: it is open. A test of all doors goes by this.
pub fn paths() -> impl Iterator<Item = (&'static Method, &'static str, Option<Role>)> {
    TABLE.iter().map(|(method, path, need)| match need {
        Need::Nobody => (method, *path, None),
        Need::Role(role) => (method, *path, Some(*role)),
    })
}

/// What a path needs; none: nobody said, and so nobody may.
pub(crate) fn need(method: &Method, path: &str) -> Option<Need> {
    // A HEAD is a GET whose answer is cut off.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    TABLE.iter().find(|(of, at, _)| of == method && *at == path).map(|(_, _, need)| *need)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::Router;
    use prost::Message;

    use super::*;
    use crate::grpc;
    use crate::routes::all;

    /// The calls of the table, of gRPC or of all the rest.
    fn listed(of_grpc: bool) -> BTreeSet<(String, String)> {
        let rows = TABLE.iter().filter(|(_, path, _)| grpc::is_service(path) == of_grpc);
        rows.map(|(method, path, _)| (method.to_string(), (*path).to_owned())).collect()
    }

    /// The methods and paths of a router, which tells them by its `Debug` alone.
    fn routed(router: &Router<crate::serve::App>) -> BTreeSet<(String, String)> {
        let told = format!("{router:?}");
        let (own, _) = told.split_once("fallback_router").unwrap();
        let (routes, paths) = own.split_once("node: Node").unwrap();
        let rows = |text: &str| -> Vec<(String, String)> {
            let rows = text.split("RouteId(").skip(1).filter_map(|row| row.split_once("): "));
            rows.map(|(id, rest)| (id.to_owned(), rest.to_owned())).collect()
        };
        let (methods, paths) = (rows(routes), rows(paths));
        assert_eq!(methods.len(), paths.len(), "{told}");
        let mut all = BTreeSet::new();
        for (id, path) in paths {
            let path = path.split('"').nth(1).unwrap().to_owned();
            let (_, route) = methods.iter().find(|(of, _)| *of == id).unwrap();
            assert!(route.starts_with("MethodRouter"), "{path} takes whatever comes: {route}");
            for method in ["get", "head", "delete", "options", "patch", "post", "put", "trace", "connect"] {
                let field = format!(" {method}: ");
                let (_, handler) = route.split_once(&field).unwrap();
                if !handler.starts_with("None") {
                    all.insert((method.to_uppercase(), path.clone()));
                }
            }
        }
        all
    }

    #[test]
    fn the_router_has_the_calls_of_the_table_and_no_others() {
        assert_eq!(routed(&all(Router::new())), listed(false));
    }

    #[test]
    fn a_route_that_the_table_does_not_have_is_seen() {
        let more = all(Router::new()).route("/more", axum::routing::put(async || ()));
        let more = &routed(&more) - &listed(false);
        assert_eq!(more, [("PUT".to_owned(), "/more".to_owned())].into());
    }

    // As much of a descriptor as names its methods.
    #[derive(Message)]
    struct Files {
        #[prost(message, repeated, tag = "1")]
        files: Vec<File>,
    }

    #[derive(Message)]
    struct File {
        #[prost(string, tag = "2")]
        package: String,
        #[prost(message, repeated, tag = "6")]
        services: Vec<Service>,
    }

    #[derive(Message)]
    struct Service {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, repeated, tag = "2")]
        methods: Vec<Called>,
    }

    #[derive(Message)]
    struct Called {
        #[prost(string, tag = "1")]
        name: String,
    }

    #[test]
    fn the_services_have_the_calls_of_the_table_and_no_others() {
        let described = [
            grpc::DESCRIBED,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let mut calls = BTreeSet::new();
        for file in described.iter().flat_map(|set| Files::decode(*set).unwrap().files) {
            for service in &file.services {
                for method in &service.methods {
                    let path = format!("/{}.{}/{}", file.package, service.name, method.name);
                    calls.insert(("POST".to_owned(), path));
                }
            }
        }
        assert_eq!(calls, listed(true));
    }
}
