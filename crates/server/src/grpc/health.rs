//! The standard health service: serving means what `/health/ready` means, that a transaction can be stored.

use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use tonic::server::NamedService as _;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::proto::lanes_server::LanesServer;
use super::proto::trades_server::TradesServer;
use super::proto::transactions_server::TransactionsServer;
use super::transactions::caller;
use super::{lanes, trades, transactions};
use crate::access::{Quota, no_longer_good};
use crate::serve::App;

/// How often a watcher's answer is looked up.
const LOOK_EVERY: Duration = Duration::from_secs(2);

pub(super) struct Service(pub(super) App);

/// The empty name is the server as a whole.
fn is_known(service: &str) -> bool {
    [
        "",
        TransactionsServer::<transactions::Service>::NAME,
        TradesServer::<trades::Service>::NAME,
        LanesServer::<lanes::Service>::NAME,
    ]
    .contains(&service)
}

async fn status(app: &App) -> ServingStatus {
    match app.probe.writable(&app.handle).await {
        true => ServingStatus::Serving,
        false => ServingStatus::NotServing,
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

#[tonic::async_trait]
impl Health for Service {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !is_known(&request.get_ref().service) {
            return Err(Status::not_found("there is no such service here"));
        }
        Ok(Response::new(answer(status(&self.0).await)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// The status now, and whenever it changes.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let known = is_known(&request.get_ref().service);
        let caller = caller(&request);
        // Who shows no key has had its place given before (`doors::streams`).
        let place =
            caller.is_known().then(|| self.0.keyring.quotas().take(&caller, Quota::Listeners)).transpose()?;
        let start = Some((self.0.clone(), caller, None, place));
        let changes = futures::stream::unfold(start, move |watching| async move {
            let (app, caller, last, place) = watching?;
            loop {
                if app.keyring.has_revoked(&caller).await {
                    return Some((Err(no_longer_good().into()), None));
                }
                let now = if known { status(&app).await } else { ServingStatus::ServiceUnknown };
                if last != Some(now) {
                    return Some((Ok(answer(now)), Some((app, caller, Some(now), place))));
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}
