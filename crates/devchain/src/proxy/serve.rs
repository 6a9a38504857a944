//! What is done to whole HTTP requests: lost, late, turned away, answered by something that is no node.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, State},
    http::{
        StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, time::Instant};

use super::{Shared, rewrite};
use crate::{
    cut::{Cut, CuttableListener},
    devchain::until_stopped,
};

/// How long a reply is held back that nobody shall wait for.
const HANG: Duration = Duration::from_secs(10);
const LONGEST_DELAY_MS: u64 = 400;
const LONGEST_LIMIT_MS: u64 = 800;
const RETRY_AFTER_SECONDS: &str = "1";
const HTML: &str = "<html><head><title>Bad Gateway</title></head><body>nginx</body></html>";

pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
    let router = Router::new().route("/", post(answer)).with_state(shared);
    let router = router.layer(axum::extract::DefaultBodyLimit::max(64 * 1024 * 1024));
    let service = router.into_make_service_with_connect_info::<Cut>();
    let server = axum::serve(CuttableListener(listener), service);
    // What hangs is not waited for.
    tokio::select! {
        result = async { server.await } => if let Err(error) = result {
            tracing::error!(%error, "the proxy's server ended");
        },
        () = until_stopped(stopped) => {}
    }
}

/// What becomes of one HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Served,
    ReplyLost,
    RequestLost,
    Hung,
    Limited,
    BadGateway { acts: bool },
    Truncated,
}

impl Shared {
    fn fate(&self) -> Fate {
        let rates = &self.rates;
        let now = Instant::now();
        let mut dice = self.dice();
        if dice.limited_until.is_some_and(|until| now < until) {
            return Fate::Limited;
        }
        if dice.rng.chance(rates.limit) {
            let lasts = Duration::from_millis(dice.rng.below(LONGEST_LIMIT_MS as usize) as u64);
            dice.limited_until = now.checked_add(lasts);
            return Fate::Limited;
        }
        // One after the other, so that each has its own rate.
        if dice.rng.chance(rates.lose_reply) {
            Fate::ReplyLost
        } else if dice.rng.chance(rates.lose_request) {
            Fate::RequestLost
        } else if dice.rng.chance(rates.hang) {
            Fate::Hung
        } else if dice.rng.chance(rates.bad_gateway) {
            Fate::BadGateway { acts: dice.rng.chance(0.5) }
        } else if dice.rng.chance(rates.truncate) {
            Fate::Truncated
        } else {
            Fate::Served
        }
    }

    fn count(&self, fate: Fate) {
        let mut counts = self.counts();
        counts.requests += 1;
        match fate {
            Fate::Served => {}
            Fate::ReplyLost => counts.lost_replies += 1,
            Fate::RequestLost => counts.lost_requests += 1,
            Fate::Hung => counts.hung += 1,
            Fate::Limited => counts.limited += 1,
            Fate::BadGateway { .. } => counts.bad_gateways += 1,
            Fate::Truncated => counts.truncated += 1,
        }
    }

    /// Some requests wait here, before or after they were served.
    async fn dawdle(&self) {
        if self.chance(self.rates.delay / 2.0) {
            self.counts().delayed += 1;
            tokio::time::sleep(Duration::from_millis(self.up_to(LONGEST_DELAY_MS))).await;
        }
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(cut): ConnectInfo<Cut>,
    body: Bytes,
) -> Response {
    let fate = shared.fate();
    shared.count(fate);
    let served = match fate {
        Fate::Limited => {
            let headers = [(RETRY_AFTER, RETRY_AFTER_SECONDS), (CONTENT_TYPE, "text/plain")];
            return (StatusCode::TOO_MANY_REQUESTS, headers, "Too Many Requests").into_response();
        }
        Fate::RequestLost => return hang_up(&cut),
        Fate::BadGateway { acts: false } => return bad_gateway(&shared),
        Fate::Served | Fate::ReplyLost | Fate::Hung | Fate::BadGateway { acts: true } | Fate::Truncated => {
            // A caller that goes away takes nothing back: the node acts all the same.
            let task = Arc::clone(&shared);
            tokio::spawn(async move {
                task.dawdle().await;
                let answer = forward(&task, &body).await;
                task.dawdle().await;
                answer
            })
            .await
        }
    };
    let Ok(Some(text)) = served else { return hang_up(&cut) };
    match fate {
        Fate::Served => ([(CONTENT_TYPE, "application/json")], text).into_response(),
        Fate::Truncated => {
            let half = text.get(..text.len() / 2).unwrap_or_default().to_owned();
            ([(CONTENT_TYPE, "application/json")], half).into_response()
        }
        Fate::BadGateway { .. } => bad_gateway(&shared),
        Fate::Hung => {
            tokio::time::sleep(HANG).await;
            hang_up(&cut)
        }
        Fate::ReplyLost | Fate::RequestLost | Fate::Limited => hang_up(&cut),
    }
}

fn hang_up(cut: &Cut) -> Response {
    cut.cut();
    StatusCode::OK.into_response()
}

fn bad_gateway(shared: &Shared) -> Response {
    let status = match shared.up_to(2) {
        0 => StatusCode::BAD_GATEWAY,
        1 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::GATEWAY_TIMEOUT,
    };
    (status, [(CONTENT_TYPE, "text/html")], HTML).into_response()
}

/// The node's answer to one request or to a batch, as far as it gets through.
async fn forward(shared: &Arc<Shared>, body: &[u8]) -> Option<String> {
    let answer = match serde_json::from_slice(body).ok()? {
        Value::Array(calls) => Value::Array(rewrite::answers(shared, calls).await?),
        call => rewrite::answers(shared, vec![call]).await?.pop()?,
    };
    Some(answer.to_string())
}
