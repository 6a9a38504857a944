//! What keeps web pages away from a server on the same machine, and makes every refusal a problem.
//!
//! A browser sends requests for any page that asks. Requests that change something are refused when a page of another
//! origin makes them, and a server that listens on loopback answers only to loopback names, so that a page cannot reach
//! it under a name of its own (DNS rebinding). Pages of origins that the operator names may call.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::{Audit, Caller};
use crate::doors::intake;
use crate::problem::{Code, Problem};

/// Where the server listens, and which other origins its operator trusts.
#[derive(Clone)]
pub(crate) struct Guard {
    listen: SocketAddr,
    origins: Arc<[String]>,
    audit: Audit,
}

impl Guard {
    pub(crate) fn new(listen: SocketAddr, origins: Vec<String>, audit: Audit) -> Self {
        Self { listen, origins: origins.into(), audit }
    }

    /// Says no, and that it did.
    fn refuse(&self, request: &Request, code: Code, detail: impl std::fmt::Display) -> Response {
        let problem = Problem::new(code, detail);
        let mut caller = Caller::nobody();
        caller.address = intake::line(request).map(|line| line.peer().ip());
        self.audit.refused(&caller, request.method().as_str().to_owned(), request.uri().path(), &problem);
        problem.into_response()
    }

    /// The origin of a page that may call although it is another's.
    fn trusted(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok()?;
        self.origins.iter().any(|trusted| trusted.eq_ignore_ascii_case(text)).then(|| origin.clone())
    }
}

/// Headers by which proxies say that they pass a request on.
const FORWARDING: &[&str] = &[
    "forwarded",
    "via",
    "x-real-ip",
    "x-real-port",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-remote-ip",
    "x-remote-addr",
    "x-proxyuser-ip",
    "x-scheme",
    "client-ip",
    "true-client-ip",
    "cdn-loop",
    "fastly-client-ip",
    "fly-client-ip",
    "do-connecting-ip",
    "x-nf-client-connection-ip",
    "x-arr-log-id",
    "x-arr-ssl",
    "x-appengine-user-ip",
    "x-vercel-id",
    "x-sucuri-clientip",
    "incap-client-ip",
    "tailscale-user-login",
    "ngrok-trace-id",
];

/// And beginnings of such headers.
const FORWARDING_STARTS: &[&str] = &[
    "x-forwarded",
    "x-original-",
    "x-envoy-",
    "x-azure-",
    "x-akamai-",
    "cf-",
    "fastly-",
    "fly-",
    "cloudfront-",
];

/// A proxy seems to have passed this on: it says so, or speaks a version that hardly anything but a proxy speaks by itself.
pub(crate) fn is_forwarded(version: Version, headers: &HeaderMap) -> bool {
    version == Version::HTTP_10
        || headers.keys().any(|name| {
            let name = name.as_str();
            FORWARDING.contains(&name) || FORWARDING_STARTS.iter().any(|start| name.starts_with(start))
        })
}

/// Refuses what a page of another origin asks for.
pub(crate) async fn same_origin(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let trusted = guard.trusted(request.headers());
    let asks_first = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match (&trusted, asks_first) {
        // A browser asks before it sends; pages of other origins get no answer that would let it.
        (Some(_), true) => StatusCode::NO_CONTENT.into_response(),
        _ => guarded(&guard, trusted.is_some(), request, next).await,
    };
    if let Some(origin) = trusted {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if asks_first {
            let methods = HeaderValue::from_static("GET, POST, PATCH, DELETE");
            let allowed = HeaderValue::from_static(
                "authorization, content-type, idempotency-key, last-event-id, x-api-key",
            );
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        }
    }
    response
}

async fn guarded(guard: &Guard, trusted: bool, request: Request, next: Next) -> Response {
    let listen = guard.listen;
    let headers = request.headers();
    let host = authority(headers, header::HOST).or_else(|| request.uri().authority().cloned());
    if listen.ip().is_loopback() && host.is_none() && headers.contains_key(header::HOST) {
        let detail = format!("the Host header cannot be read; this server listens on {listen}");
        return guard.refuse(&request, Code::WrongHost, detail);
    }
    if listen.ip().is_loopback()
        && let Some(host) = &host
        && !is_loopback(host.host())
    {
        let detail = format!("this server listens on {listen} and is not {host}; ask for it by that address");
        return guard.refuse(&request, Code::WrongHost, detail);
    }
    // A page may open a WebSocket anywhere without being asked first, and what goes over it can change things.
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !headers.contains_key(header::UPGRADE);
    if !reads
        && !trusted
        && let Some(origin) = headers.get(header::ORIGIN)
    {
        let own = host.is_some_and(|host| {
            origin
                .to_str()
                .is_ok_and(|origin| origin.split_once("://").is_some_and(|(_, rest)| rest == host.as_str()))
        });
        if !own {
            let detail = "a web page of another origin asked for this; programs send no Origin header";
            return guard.refuse(&request, Code::CrossOrigin, detail);
        }
    }
    as_problem(next.run(request).await)
}

fn authority(headers: &HeaderMap, name: header::HeaderName) -> Option<Authority> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The framework refuses some requests by itself, in plain text: those become problems too.
fn as_problem(response: Response) -> Response {
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.contains("json"));
    if is_json || !response.status().is_client_error() {
        return response;
    }
    let problem = match response.status() {
        StatusCode::NOT_FOUND => Problem::new(Code::NotFound, "not found here"),
        StatusCode::METHOD_NOT_ALLOWED => {
            Problem::new(Code::MethodNotAllowed, "the path does not take this method")
        }
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Code::BodyTooLarge, "the body is larger than allowed"),
        _ => Problem::new(Code::BadQuery, "the path or the query has characters that cannot be read"),
    };
    problem.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_known_by_the_headers_they_add() {
        let sent = |name: &'static str| {
            let headers = HeaderMap::from_iter([(
                header::HeaderName::from_static(name),
                HeaderValue::from_static("203.0.113.7"),
            )]);
            is_forwarded(Version::HTTP_11, &headers)
        };
        for name in [
            "forwarded",
            "x-forwarded-for",
            "cf-ray",
            "cf-connecting-ip",
            "cdn-loop",
            "x-azure-clientip",
            "fly-client-ip",
            "x-envoy-original-path",
            "x-original-uri",
            "cloudfront-viewer-address",
        ] {
            assert!(sent(name), "{name}");
        }
        for name in [
            "host",
            "user-agent",
            "authorization",
            "x-api-key",
            "traceparent",
            "x-amzn-trace-id",
            "origin",
            "cookie",
        ] {
            assert!(!sent(name), "{name}");
        }
        assert!(is_forwarded(Version::HTTP_10, &HeaderMap::new()));
        assert!(!is_forwarded(Version::HTTP_2, &HeaderMap::new()));
    }
}
