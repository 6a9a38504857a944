//! The one place that every request passes on its way to a handler.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::caller::Caller;
use crate::serve::App;

pub(crate) async fn admit(
    State(_app): State<App>,
    _path: MatchedPath,
    mut request: Request,
    next: Next,
) -> Response {
    request.extensions_mut().insert(Caller::anyone());
    next.run(request).await
}
