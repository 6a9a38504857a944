//! # landfall-server
//!
//! The outer interface: REST under `/api/v1`, JSON-RPC under `/rpc`, gRPC, health, metrics, webhooks, who may call, and the
//! problems that callers see.
//!
//! Handlers translate: JSON into core's words ([`body`]), core's words into JSON ([`show`]), failures into problems
//! ([`problem`]). They decide nothing; everything goes through the engine's [`Handle`](landfall_engine::Handle).

mod access;
mod activity;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod body;
mod connections;
mod doors;
mod event;
#[cfg(test)]
mod fuzz;
pub mod grpc;
mod guard;
mod limits;
mod listen;
pub mod metrics;
mod observe;
mod openapi;
mod path;
mod probe;
mod problem;
mod routes;
pub mod rpc;
mod serve;
mod show;
mod span;
mod tail;
mod tls;
pub mod webhooks;

pub use access::audit;
pub use access::{AdminKey, Policy, Role, Shares};
pub use limits::Limits;
pub use metrics::Metrics;
pub use observe::{Answered, Observer};
pub use openapi::DOCUMENT as OPENAPI;
pub use problem::{Code, Problem};
pub use routes::{make_api_key, paths};
pub use rpc::methods::METHODS as RPC_METHODS;
pub use serve::{BindError, Parts, Server};
pub use tls::TlsFiles;
