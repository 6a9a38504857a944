//! Transactions over gRPC.

use std::pin::Pin;
use std::sync::Arc;

use axum::http::StatusCode;
use futures::Stream;
use landfall_core::{ChainId, JournalSeq, RequestId};
use landfall_engine::Wish;
use serde_json::json;
use tonic::{Request, Response, Status, Streaming};

use super::proto::get_request::By;
use super::proto::submit_result::Result as Outcome;
use super::proto::transactions_server::Transactions;
use super::proto::{
    CancelRequest, CommandAccepted, Event, GetRequest, Refusal, SubmitRequest, SubmitResult, Submitted,
    Transaction, WatchRequest,
};
use super::{measured, read, status, stream, write};
use crate::access::{Caller, Role, no_longer_good};
use crate::body::address;
use crate::doors::Line;
use crate::event;
use crate::listen::{Ended, Heard, Listener, Wanted};
use crate::problem::{Code, Problem};
use crate::routes::tx;
use crate::serve::App;

const SUBMIT: &str = "/landfall.v1.Transactions/Submit";
const CANCEL: &str = "/landfall.v1.Transactions/Cancel";

pub(super) struct Service(pub(super) App);

type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Who asks, as the admission in front found out.
pub(super) fn caller<T>(request: &Request<T>) -> Caller {
    request.extensions().get::<Caller>().cloned().unwrap_or_else(Caller::nobody)
}

/// Stores what is asked for.
pub(super) async fn submit(
    app: &App,
    caller: &Caller,
    request: &SubmitRequest,
    path: &'static str,
) -> Result<Submitted, Problem> {
    let asked = read::submission(request);
    let (by, of) = (app.clone(), caller.clone());
    // A stream is dropped with its caller, and what it was storing with it.
    let handed_over = app
        .audit
        .to_its_end(async move { tx::hand_over(&by, &of, asked?, None, ("gRPC", path)).await })
        .await
        .unwrap_or_else(|| {
            let detail = "the server stops, and whether it was stored is not known; send it again with the same request_id";
            Err(Problem::new(Code::OutcomeUnknown, detail))
        });
    let told = |problem: &Problem| app.audit.refused(caller, "gRPC", path, problem);
    let (status, body) = handed_over.inspect_err(told)?;
    Ok(write::submitted(&body, status == StatusCode::OK))
}

#[tonic::async_trait]
impl Transactions for Service {
    async fn submit(&self, request: Request<SubmitRequest>) -> Result<Response<Submitted>, Status> {
        let caller = caller(&request);
        // Its message may have been long on its way.
        let told = |problem: &Problem| self.0.audit.refused(&caller, "gRPC", SUBMIT, problem);
        self.0.keyring.must_be_good(&caller).await.inspect_err(told)?;
        Ok(measured(submit(&self.0, &caller, request.get_ref(), SUBMIT).await?))
    }

    type SubmitStreamStream = Streamed<SubmitResult>;

    async fn submit_stream(
        &self,
        request: Request<Streaming<SubmitRequest>>,
    ) -> Result<Response<Self::SubmitStreamStream>, Status> {
        let caller = caller(&request);
        let line = request.extensions().get::<Arc<Line>>().cloned();
        let answers = stream::answers(self.0.clone(), caller, line, request.into_inner());
        Ok(Response::new(Box::pin(answers)))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<Transaction>, Status> {
        let caller = caller(&request);
        let shown = match &request.get_ref().by {
            Some(By::TxId(id)) => tx::by_id(&self.0, &caller, id).await?,
            Some(By::Request(by)) => tx::by_key(&self.0, &caller, &by.signer, &by.request_id).await?,
            None => return Err(Problem::at(Code::MissingField, "by", "give tx_id, or request").into()),
        };
        Ok(measured(write::transaction(&shown)))
    }

    type WatchStream = Streamed<Event>;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let wanted = wanted(request.get_ref(), caller(&request))?;
        let listener = Listener::new(self.0.clone(), wanted).await?;
        let events = futures::stream::unfold(Some(listener), |listener| async move {
            let mut listener = listener?;
            match listener.next().await {
                Ok(Heard { seq, name, data }) => Some((Ok(write::event(seq.0, name, &data)), Some(listener))),
                Err(Ended::ServerStops) => None,
                Err(Ended::KeyIsOver) => Some((Err(no_longer_good().into()), None)),
            }
        });
        Ok(Response::new(Box::pin(events)))
    }

    async fn cancel(&self, request: Request<CancelRequest>) -> Result<Response<CommandAccepted>, Status> {
        let (app, caller, asked) = (&self.0, caller(&request), request.get_ref());
        let tx = tx::find(app, &caller, &asked.tx_id).await?.tx;
        let told = |problem: &Problem| app.audit.refused(&caller, "gRPC", CANCEL, problem);
        caller.may(Role::Submitter, tx.lane).inspect_err(told)?;
        app.keyring.must_be_good(&caller).await.inspect_err(told)?;
        let parse = |text: &String| {
            RequestId::parse(text).map_err(|error| Problem::new(Code::BadRequestId, error.to_string()))
        };
        let key = asked.idempotency_key.as_ref().map(parse).transpose()?;
        let wish = Wish { key, by: Some(caller.origin()) };
        let command = app.handle.cancel(&tx, &wish).await.map_err(Problem::from)?;
        let path = CANCEL.to_owned();
        app.audit.changed(
            &caller,
            "gRPC".to_owned(),
            path,
            200,
            json!({ "txId": tx.id }).to_string().as_bytes(),
        );
        Ok(measured(CommandAccepted { command_id: command.to_string() }))
    }
}

pub(super) fn refusal(problem: Problem) -> Outcome {
    Outcome::Refusal(Refusal {
        status: status::code(&problem) as i32,
        code: problem.code.text().to_owned(),
        field: problem.field,
        detail: problem.detail,
    })
}

fn wanted(request: &WatchRequest, caller: Caller) -> Result<Wanted, Problem> {
    let tx = |id: &String| {
        id.parse().map_err(|_| {
            Problem::at(Code::BadValue, "tx_id", format!("{id:?} is not the id of a transaction"))
        })
    };
    let types = request.types.iter().map(|name| event::known_name(name, Code::BadValue, "types"));
    let after = |number: i64| {
        let refused =
            || Problem::at(Code::BadValue, "after", format!("{number} is not the number of an event"));
        (number >= 0).then_some(JournalSeq(number)).ok_or_else(refused)
    };
    Ok(Wanted {
        caller,
        after: request.after.map(after).transpose()?,
        chain: request.chain_id.map(ChainId),
        signer: request.signer.as_ref().map(|signer| address("signer", signer)).transpose()?,
        tx: request.tx_id.as_ref().map(tx).transpose()?,
        types: types.collect::<Result<_, _>>()?,
    })
}
