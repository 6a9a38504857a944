//! gRPC: the same port, the same keys and the same words as REST.
//!
//! | file | what |
//! |---|---|
//! | `transactions` | submit, get, watch, cancel |
//! | `stream` | submissions one after the other |
//! | `trades` | submit, as long as the chain is seen as it is now |
//! | `lanes` | what lanes are at |
//! | `health` | the standard health service |
//! | `read` | requests as the JSON that REST takes, so that there is one reader of both |
//! | `write` | REST's JSON as messages |
//! | `status` | problems as statuses |

mod health;
mod lanes;
mod read;
mod status;
mod stream;
mod trades;
mod transactions;
mod write;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tonic::server::NamedService;

use crate::doors::streams;
use crate::serve::App;

pub(crate) use status::{is_grpc, refusal, trailers};
pub(crate) use stream::ENDS_WITHIN;

/// A path of one of the services. What is said in a header is not enough to be read as one.
pub(crate) fn is_service(path: &str) -> bool {
    path.starts_with("/landfall.v1.") || path.starts_with("/grpc.")
}

/// A path whose caller sends message after message.
pub(crate) fn takes_a_stream(path: &str) -> bool {
    path.ends_with("/SubmitStream") || path.ends_with("/ServerReflectionInfo")
}

/// A path on which something is done before the answer begins.
pub(crate) fn has_done(path: &str) -> bool {
    path.ends_with("/Submit") || path.ends_with("/Cancel")
}

/// Length of an answer, as an extension of it: its body does not tell.
#[derive(Clone, Copy)]
pub(crate) struct Length(pub(crate) usize);

/// An answer of one message.
fn measured<M: prost::Message>(message: M) -> tonic::Response<M> {
    let length = Length(message.encoded_len());
    let mut response = tonic::Response::new(message);
    response.extensions_mut().insert(length);
    response
}

/// The messages and services of `proto/landfall/v1/landfall.proto`.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    missing_docs,
    unreachable_pub,
    reason = "it is made by a program"
)]
pub mod proto {
    tonic::include_proto!("landfall.v1");
}

/// What the reflection service shows.
pub(crate) const DESCRIBED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/landfall.bin"));

/// The largest message of those who show no key.
const QUESTION: usize = 16 << 10;

/// The services, each under its name.
pub(crate) fn routes(app: &App) -> Router<App> {
    let transactions =
        proto::transactions_server::TransactionsServer::new(transactions::Service(app.clone()));
    let trades = proto::trades_server::TradesServer::new(trades::Service(app.clone()));
    let lanes = proto::lanes_server::LanesServer::new(lanes::Service(app.clone()));
    Router::new()
        .route_service(&path(&transactions), transactions)
        .route_service(&path(&trades), trades)
        .route_service(&path(&lanes), lanes)
        .merge(reflection().layer(from_fn_with_state(app.clone(), streams::bound)))
        .merge(health(app))
}

/// The standard health service. Whoever shows no key has a share of its streams.
pub(crate) fn health(app: &App) -> Router<App> {
    let health = tonic_health::pb::health_server::HealthServer::new(health::Service(app.clone()))
        .max_decoding_message_size(QUESTION);
    let router = Router::new().route_service(&path(&health), health);
    router.layer(from_fn_with_state(app.clone(), streams::bound))
}

/// Services and messages, for tools that ask.
fn reflection() -> Router<App> {
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIBED)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Many tools ask by the older name only.
    match (described().build_v1(), described().build_v1alpha()) {
        (Ok(now), Ok(before)) => {
            let (now, before) =
                (now.max_decoding_message_size(QUESTION), before.max_decoding_message_size(QUESTION));
            Router::new().route_service(&path(&now), now).route_service(&path(&before), before)
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "gRPC reflection is not served");
            Router::new()
        }
    }
}

fn path<S: NamedService>(_: &S) -> String {
    format!("/{}/{{*method}}", S::NAME)
}
