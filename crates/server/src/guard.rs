//! What keeps web pages away from a server on the same machine, and makes every refusal a problem.
//!
//! A browser sends requests for any page that asks. Requests that change something are refused when a page of another
//! origin makes them, and a server that listens on loopback answers only to loopback names, so that a page cannot reach
//! it under a name of its own (DNS rebinding).

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::{Code, Problem};

/// Refuses what a page of another origin asks for.
pub(crate) async fn same_origin(State(listen): State<SocketAddr>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = authority(headers, header::HOST).or_else(|| request.uri().authority().cloned());
    if listen.ip().is_loopback()
        && let Some(host) = &host
        && !is_loopback(host.host())
    {
        let detail = format!("this server listens on {listen} and is not {host}; ask for it by that address");
        return Problem::new(Code::WrongHost, detail).into_response();
    }
    // A page may open a WebSocket anywhere without being asked first, and what goes over it can change things.
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !headers.contains_key(header::UPGRADE);
    if !reads && let Some(origin) = headers.get(header::ORIGIN) {
        let own = host.is_some_and(|host| {
            origin
                .to_str()
                .is_ok_and(|origin| origin.split_once("://").is_some_and(|(_, rest)| rest == host.as_str()))
        });
        if !own {
            let detail = "a web page of another origin asked for this; programs send no Origin header";
            return Problem::new(Code::CrossOrigin, detail).into_response();
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
        StatusCode::NOT_FOUND => Problem::new(Code::NotFound, "there is no such thing here"),
        StatusCode::METHOD_NOT_ALLOWED => {
            Problem::new(Code::MethodNotAllowed, "the path does not take this method")
        }
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Code::BodyTooLarge, "the body is larger than allowed"),
        _ => Problem::new(Code::BadQuery, "the path or the query has characters that cannot be read"),
    };
    problem.into_response()
}
