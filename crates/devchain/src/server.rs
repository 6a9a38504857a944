//! HTTP and WebSocket on one port and path. A fault can cut a connection ([`crate::cut`]).

use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, State, WebSocketUpgrade},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{net::TcpListener, sync::watch};

use crate::{
    control::Control,
    cut::{Cut, CuttableListener},
    devchain::until_stopped,
    rpc::{self, Reaction},
    ws,
};

#[derive(Clone)]
struct App {
    control: Control,
    stopped: watch::Receiver<bool>,
}

pub(crate) async fn serve(listener: TcpListener, control: Control, stopped: watch::Receiver<bool>) {
    let app = App { control, stopped: stopped.clone() };
    let router = Router::new().route("/", get(upgrade).post(post)).with_state(app);
    let router = router.layer(axum::extract::DefaultBodyLimit::max(64 * 1024 * 1024));
    let service = router.into_make_service_with_connect_info::<Cut>();
    let server = axum::serve(CuttableListener(listener), service);
    if let Err(error) = server.with_graceful_shutdown(until_stopped(stopped)).await {
        tracing::error!(%error, "the devchain server ended");
    }
}

async fn post(State(app): State<App>, ConnectInfo(cut): ConnectInfo<Cut>, body: Bytes) -> Response {
    match rpc::answer(&app.control, &body).await {
        Reaction::Reply(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Reaction::Silence => StatusCode::OK.into_response(),
        Reaction::Status(answer) => {
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
            (status, [(CONTENT_TYPE, "text/html")], answer.body).into_response()
        }
        Reaction::HangUp => {
            cut.cut();
            StatusCode::OK.into_response()
        }
    }
}

async fn upgrade(State(app): State<App>, socket: WebSocketUpgrade) -> Response {
    socket
        .max_message_size(64 * 1024 * 1024)
        .on_upgrade(move |socket| ws::serve(socket, app.control, app.stopped))
}
