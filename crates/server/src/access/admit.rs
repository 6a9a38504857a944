//! The one place that every request passes on its way to a handler.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::caller::Caller;
use super::role::{Need, Role};
use crate::grpc;
use crate::observe::Answered;
use crate::problem::{Code, Problem};
use crate::routes::table;
use crate::serve::App;

pub(crate) async fn admit(
    State(app): State<App>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let Some(observer) = app.observer.clone() else {
        return admitted(&app, &path, request, next).await.0;
    };
    let (began, since) = (app.handle.parts().clock.now(), Instant::now());
    let method = request.method().to_string();
    let traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let traceparent = traceparent.map(str::to_owned);
    let (response, key) = admitted(&app, &path, request, next).await;
    let (route, status) = (path.as_str().to_owned(), response.status().as_u16());
    let key = key.map(|key| key.to_string());
    observer.answered(Answered { method, route, status, began, took: since.elapsed(), key, traceparent });
    response
}

/// The answer, and the key that was shown.
async fn admitted(
    app: &App,
    path: &MatchedPath,
    request: Request,
    next: Next,
) -> (Response, Option<Arc<str>>) {
    match judge(app, request.method(), path.as_str(), request.headers()).await {
        Ok((caller, need)) => {
            let key = caller.key.clone();
            (pass(app, caller, need, request, next).await, key)
        }
        Err(problem) if grpc::is_grpc(request.headers()) => (grpc::refusal(&problem), None),
        Err(problem) => (refuse(problem), None),
    }
}

/// Who it is, and that it may come in here.
async fn judge(
    app: &App,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<(Caller, Need), Problem> {
    // What the table does not have is closed, whatever the router says.
    let need = table::need(method, path)
        .ok_or_else(|| Problem::new(Code::MethodNotAllowed, "the path exists, but not for this method"))?;
    let metrics_are_open = path == "/metrics" && app.keyring.policy().open_metrics;
    let caller = match app.keyring.caller(headers).await {
        Ok(Some(caller)) => caller,
        Ok(None) if need == Need::Nobody || metrics_are_open => Caller::nobody(),
        Ok(None) => {
            let detail = "show an API key: `Authorization: Bearer lf_…`. `landfall api-key create` makes one";
            return Err(Problem::new(Code::Unauthorized, detail));
        }
        // What needs nobody is told to everybody, also when keys cannot be looked up.
        Err(_) if need == Need::Nobody => Caller::nobody(),
        Err(problem) => return Err(problem),
    };
    app.keyring.charge(&caller, 1)?;
    if let Need::Role(role) = need
        && !caller.is(role)
        && !metrics_are_open
    {
        return Err(caller.lacks(role));
    }
    Ok((caller, need))
}

async fn pass(app: &App, caller: Caller, need: Need, mut request: Request, next: Next) -> Response {
    let steers = matches!(need, Need::Role(Role::Operator | Role::Admin)) && *request.method() != Method::GET;
    let audited = if steers {
        let (parts, body) = request.into_parts();
        // It was read whole before, within the limit.
        let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        let entry = match app.audit.asked(&caller, method, path, &bytes).await {
            Ok(entry) => entry,
            Err(error) => return Problem::from(error).into_response(),
        };
        request = Request::from_parts(parts, Body::from(bytes));
        Some(entry)
    } else {
        None
    };
    request.extensions_mut().insert(caller);
    let response = next.run(request).await;
    if let Some(entry) = audited {
        app.audit.ended(entry, response.status().as_u16()).await;
    }
    response
}

fn refuse(problem: Problem) -> Response {
    let unauthorized = problem.code == Code::Unauthorized;
    let mut response = problem.into_response();
    if unauthorized {
        let how = HeaderValue::from_static("Bearer realm=\"landfall\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
    }
    response
}
