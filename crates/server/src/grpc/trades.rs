//! The entry for trades, behind a sentinel (F3): a price that is decided on an old picture of the chain is a wrong price, so
//! nothing is taken in while the picture is old. What is refused was not stored.

use std::time::Duration;

use landfall_core::view::ChainStatus;
use landfall_core::{ChainId, Millis};
use tonic::{Request, Response, Status};

use super::measured;
use super::proto::trades_server::Trades;
use super::proto::{SubmitRequest, Submitted};
use super::transactions::{caller, submit};
use crate::problem::{Code, Problem};
use crate::serve::App;

const SUBMIT: &str = "/landfall.v1.Trades/Submit";

pub(super) struct Service(pub(super) App);

#[tonic::async_trait]
impl Trades for Service {
    async fn submit(&self, request: Request<SubmitRequest>) -> Result<Response<Submitted>, Status> {
        let (app, caller) = (&self.0, caller(&request));
        // Its message may have been long on its way.
        let told = |problem: &Problem| app.audit.refused(&caller, "gRPC", SUBMIT, problem);
        app.keyring.must_be_good(&caller).await.inspect_err(told)?;
        let chain = ChainId(request.get_ref().chain_id);
        // Of a chain that is not for the caller it learns nothing.
        if caller.sees_chain(chain) {
            in_sync(app, chain)?;
        }
        Ok(measured(submit(app, &caller, request.get_ref(), SUBMIT).await?))
    }
}

/// Says no while what is known of the chain is old. A chain that is not configured is somebody else's to refuse.
fn in_sync(app: &App, chain: ChainId) -> Result<(), Problem> {
    if !app.handle.parts().chains.contains_key(&chain) {
        return Ok(());
    }
    let refuse = |why: String| {
        let detail = format!("{why}; nothing was stored. Ask again when chain {chain} is seen as it is now");
        Err(Problem::new(Code::OutOfSync, detail))
    };
    let Some(view) = app.handle.view(chain) else {
        return refuse(format!("no block of chain {chain} was seen yet"));
    };
    if view.status != ChainStatus::Live {
        return refuse(format!("what endpoints show is not the chain {chain} that is known here"));
    }
    if let Some(trouble) = app.handle.chain_trouble(chain) {
        return refuse(format!("chain {chain} is in trouble: {trouble}"));
    }
    let age = age(app.handle.parts().clock.now(), view.head.timestamp);
    let most = app.trade_head_age;
    if age > most {
        let (number, age, most) = (view.head.at.number, age.as_secs(), most.as_secs());
        return refuse(format!(
            "the newest block of chain {chain}, {number}, is {age} s old, and trades need one of the last {most} s"
        ));
    }
    Ok(())
}

/// A block from the future is new.
fn age(now: Millis, block: Millis) -> Duration {
    Duration::from_millis(now.0.saturating_sub(block.0))
}
