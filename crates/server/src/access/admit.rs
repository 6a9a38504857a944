//! The one place that every request passes on its way to a handler. It is judged by its headers; its body is read after.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::Body as _;
use tokio::time::Instant;

use super::audit::Audit;
use super::caller::Caller;
use super::keyring;
use super::older;
use super::role::{Need, Role};
use super::unread::{self, Asked};
use crate::activity::Receiver;
use crate::doors::{Charge, Line, intake};
use crate::grpc;
use crate::guard;
use crate::metrics::NoRoom;
use crate::observe::Answered;
use crate::problem::{Code, Problem};
use crate::routes::table;
use crate::serve::App;

/// How long what needs nobody waits to know who asks.
const LOOK_UP: Duration = Duration::from_secs(1);

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
    let line = intake::line(&request).cloned();
    let peer = line.as_ref().map(|line| line.peer().ip());
    let asked = (request.method(), request.version(), request.headers());
    let mut no_place = false;
    let problem = match judge(app, row(path, request.uri()), asked).await {
        Ok((mut caller, need)) => {
            caller.address = peer;
            match line.as_ref().map_or(Ok(()), |line| enters(line, &caller, need)) {
                Ok(()) => {
                    let (key, version) = (caller.key.clone(), request.version());
                    forget_revoked(app, line.as_ref(), &caller).await;
                    let response = match taken(app, (&caller, need), request).await {
                        // What it holds is held until it is answered.
                        Ok((request, held)) => {
                            let stops = stops_with_its_caller(&request);
                            let (audit, app) = (app.audit.clone(), app.clone());
                            let passed = async move {
                                let _held = held;
                                pass(&app, caller, need, request, next).await
                            };
                            if stops { passed.await } else { whole(&audit, passed).await }
                        }
                        Err(problem) => refuse(problem),
                    };
                    return (leaving(line.as_ref(), version, response), key);
                }
                Err(problem) => {
                    app.audit.refused(&caller, door(&request), request.uri().path(), &problem);
                    no_place = true;
                    problem
                }
            }
        }
        Err(Refused { mut caller, problem }) => {
            caller.address = peer;
            app.audit.refused(&caller, door(&request), request.uri().path(), &problem);
            forget_revoked(app, line.as_ref(), &caller).await;
            problem
        }
    };
    if grpc::is_grpc(request.headers()) {
        return (grpc::refusal(&problem), None);
    }
    let (parts, body) = request.into_parts();
    // Bodies of those who show no key are few on one connection.
    let is_known = line.as_ref().is_some_and(|line| line.is_known());
    let ends = parts.version < Version::HTTP_2 && (no_place || !body.is_end_stream() && !is_known);
    intake::refused(app, &parts.headers, body).await;
    let mut response = refuse(problem);
    if ends {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    (leaving(line.as_ref(), parts.version, response), None)
}

/// The request with its body, which may have been long on its way: what changes something needs a key that is good still.
async fn taken(
    app: &App,
    (caller, need): (&Caller, Need),
    request: Request,
) -> Result<(Request, Arc<Charge>), Problem> {
    // Messages of gRPC come later, and are judged where they are read.
    if matches!(*request.method(), Method::GET | Method::HEAD) || grpc::is_service(request.uri().path()) {
        return intake::take(app, (caller, need), request).await;
    }
    let (door, path) = (door(&request), request.uri().path().to_owned());
    let taken = intake::take(app, (caller, need), request).await?;
    let told = |problem: &Problem| app.audit.refused(caller, door, &path, problem);
    app.keyring.must_be_good(caller).await.inspect_err(told)?;
    Ok(taken)
}

/// The path as the table has it: as the router does, and of gRPC with the method that is called.
fn row<'a>(path: &'a MatchedPath, uri: &'a Uri) -> &'a str {
    if grpc::is_service(uri.path()) { uri.path() } else { path.as_str() }
}

/// How a request came, as the audit log has it.
fn door(request: &Request) -> String {
    if grpc::is_service(request.uri().path()) {
        return "gRPC".to_owned();
    }
    request.method().as_str().to_owned()
}

/// The connection counts for the key that was shown on it. One in a place that is kept is for few.
fn enters(line: &Arc<Line>, caller: &Caller, need: Need) -> Result<(), Problem> {
    let again = |code, detail| Problem { retry_after: Some(1), ..Problem::new(code, detail) };
    if line.is_kept() && !caller.is(Role::Admin) {
        if need == Need::Nobody {
            return Ok(());
        }
        let detail = "as many connections are open as server.max_connections allows, and none is idle; this one is answered about \
                      health only, or to an administrator. Nothing of this request was done: try again in a moment";
        return Err(again(Code::TooManyConnections, detail.to_owned()));
    }
    if !caller.is_known() {
        return Ok(());
    }
    line.shows_key(caller).map_err(|most| {
        let detail = format!(
            "this API key has {most} connections, as many as it may (access.max_connections_per_key), and none of them is idle. \
             Nothing of this request was done: use one of those, or try again in a moment"
        );
        again(Code::QuotaReached, detail)
    })
}

/// A connection whose key is no longer good counts as one without, once something is asked on it without a good one.
async fn forget_revoked(app: &App, line: Option<&Arc<Line>>, caller: &Caller) {
    if let Some(line) = line.filter(|_| !caller.is_known())
        && let Some(owner) = line.owner()
        && app.keyring.has_revoked(&owner).await
    {
        line.forgets_key();
    }
}

/// A place that is kept is given back at once by those who are not administrators.
fn leaving(line: Option<&Arc<Line>>, version: Version, mut response: Response) -> Response {
    if version < Version::HTTP_2 && line.is_some_and(|line| line.is_kept() && !line.is_known()) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whoever may not come in, and why.
struct Refused {
    caller: Caller,
    problem: Problem,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self { caller: Caller::nobody(), problem }
    }
}

/// Who it is, and that it may come in here.
async fn judge(
    app: &App,
    path: &str,
    (method, version, headers): (&Method, Version, &HeaderMap),
) -> Result<(Caller, Need), Refused> {
    // What the table does not have is closed, whatever the router says.
    let need = table::need(method, path)
        .ok_or_else(|| Problem::new(Code::MethodNotAllowed, "the path exists, but not for this method"))?;
    let metrics_are_open = path == "/metrics" && app.keyring.policy().open_metrics;
    let caller = match who(app, need, headers).await {
        // Where no key is needed on the machine itself, others that come by way of a proxy on it still need one.
        Ok(Some(caller)) if caller.key.is_none() && guard::is_forwarded(version, headers) => {
            if need != Need::Nobody && !metrics_are_open {
                let detail = "this request was passed on by a proxy, and those always need an API key: show one \
                              (`Authorization: Bearer lf_…`). `landfall api-key create` makes one";
                return Err(Problem::new(Code::Unauthorized, detail).into());
            }
            Caller::nobody()
        }
        Ok(Some(caller)) => caller,
        Ok(None) if need == Need::Nobody || metrics_are_open => Caller::nobody(),
        Ok(None) => {
            let detail = "show an API key: `Authorization: Bearer lf_…`. `landfall api-key create` makes one";
            return Err(Problem::new(Code::Unauthorized, detail).into());
        }
        // What needs nobody is told to everybody, also when keys cannot be looked up.
        Err(_) if need == Need::Nobody => Caller::nobody(),
        Err(problem) => return Err(problem.into()),
    };
    if let Err(problem) = app.keyring.charge(&caller, 1) {
        return Err(Refused { caller, problem });
    }
    if let Need::Role(role) = need
        && !caller.is(role)
        && !metrics_are_open
    {
        return Err(Refused { problem: caller.lacks(role), caller });
    }
    if let Err(problem) = older::may(app, &caller, (method, path, need)).await {
        return Err(Refused { caller, problem });
    }
    Ok((caller, need))
}

/// Who shows these headers. What needs nobody waits for no store: without a key there is nothing to look up, and with one not for long.
async fn who(app: &App, need: Need, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
    if need != Need::Nobody {
        return app.keyring.caller(headers).await;
    }
    if !app.keyring.policy().open && !keyring::shows_one(headers) {
        return Ok(None);
    }
    tokio::time::timeout(LOOK_UP, app.keyring.caller(headers)).await.unwrap_or(Ok(None))
}

async fn pass(app: &App, caller: Caller, need: Need, mut request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let told = match need {
        _ if is_read => Told::IfRefused,
        Need::Role(Role::Approver | Role::Operator | Role::Admin) => Told::Before,
        Need::Role(Role::Submitter) if !tells_itself(request.uri().path()) => Told::After,
        Need::Role(Role::Viewer | Role::Submitter) | Need::Nobody => Told::IfRefused,
    };
    // Both are cheap to keep, and are read only if there is something to tell.
    let (asks, uri) = (request.method().clone(), request.uri().clone());
    let (method, path) = (asks.as_str(), uri.path());
    let asked_for = Asked::new(&asks, path, request.version());
    let mut sent = Bytes::new();
    if told != Told::IfRefused {
        let (parts, body) = request.into_parts();
        // It was read whole before, within the limit; gRPC has no paths that steer.
        sent = to_bytes(body, usize::MAX).await.unwrap_or_default();
        request = Request::from_parts(parts, Body::from(sent.clone()));
    }
    let asked = match told {
        Told::Before => match app.audit.asked(&caller, method, path, &sent).await {
            Ok(row) => Some(row),
            Err(problem) => return problem.into_response(),
        },
        Told::After | Told::IfRefused => None,
    };
    request.extensions_mut().insert(caller.clone());
    let mut response = next.run(request).await;
    if let Err(problem) = hold(app, (&caller, need), (asked_for, path), &mut response) {
        app.metrics.turned_away(NoRoom::Answer);
        response = if grpc::is_service(path) { grpc::refusal(&problem) } else { problem.into_response() };
    }
    let status = response.status();
    match (told, asked) {
        (_, Some(row)) => app.audit.ended(row, &caller, method, path, status.as_u16()).await,
        // A transaction has one retry: who asks again is told of it, and nothing is stored.
        (Told::After, None) if status == StatusCode::OK && path.ends_with("/retry") => {}
        (Told::After, None) if status.is_success() => {
            app.audit.changed(&caller, method.to_owned(), path.to_owned(), status.as_u16(), &sent);
        }
        _ if status.is_client_error() => {
            app.audit.refused_with(&caller, method.to_owned().into(), path, status.as_u16(), None);
        }
        _ => {}
    }
    response
}

/// A request that is dropped when its caller hangs up. A read changes nothing. JSON-RPC brings each call that changes something to
/// its end by itself, and takes back a send whose hash nobody heard.
fn stops_with_its_caller(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) || request.uri().path().starts_with("/rpc/")
}

/// Runs a request to its end in a task of its own: a caller that hangs up must not stop it after it was done and before the audit
/// log is told.
async fn whole(audit: &Audit, passed: impl Future<Output = Response> + Send + 'static) -> Response {
    audit.to_its_end(passed).await.unwrap_or_else(|| {
        let detail = "the server stops, and whether this was done is not known; look before you ask again";
        Problem::new(Code::OutcomeUnknown, detail).into_response()
    })
}

/// An answer takes room until it is sent, and none goes on to a key that is revoked. What needs nobody is a document that is there once
/// for all, and takes none.
fn hold(
    app: &App,
    (caller, need): (&Caller, Need),
    (asked, path): (Asked, &str),
    response: &mut Response,
) -> Result<(), Problem> {
    if need != Need::Nobody
        && let Some(room) = unread::room(app, caller, asked, response)?
    {
        response.extensions_mut().insert(room);
    }
    if caller.key.is_some() {
        let words = grpc::is_grpc(response.headers()).then_some(keyring::no_longer_good as fn() -> Problem);
        let grace = if grpc::takes_a_stream(path) { grpc::ENDS_WITHIN } else { Duration::ZERO };
        let (keyring, caller) = (app.keyring.clone(), caller.clone());
        response.extensions_mut().insert(Receiver { keyring, caller, grace, words });
    }
    Ok(())
}

/// When the audit log is told of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Before it is done, and again after it.
    Before,
    /// After it, if it changed something or was refused.
    After,
    /// After it, if it was refused.
    IfRefused,
}

/// Handlers that know which transactions they stored say so themselves.
fn tells_itself(path: &str) -> bool {
    path == "/api/v1/tx" || path == "/api/v1/tx/batch" || grpc::is_service(path)
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
