//! What is counted and measured, for Prometheus.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::access::Caller;
use crate::problem::{Code, Problem};
use crate::serve::App;

pub(crate) async fn page(State(app): State<App>, caller: Caller) -> Response {
    if !app.keyring.policy().open_metrics
        && let Err(problem) = caller.must_see_all()
    {
        return problem.into_response();
    }
    match app.metrics.page(&app.handle).await {
        Ok(text) => ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics could not be written");
            Problem::new(Code::Internal, "the metrics could not be written; the log says more")
                .into_response()
        }
    }
}
