//! Transactions over gRPC.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::time::Duration;

use axum::http::StatusCode;
use futures::{Stream, StreamExt as _};
use landfall_core::journal::JournalRow;
use landfall_core::{Account, ChainId, JournalSeq, RequestId, TxId};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Request, Response, Status, Streaming};

use super::proto::get_request::By;
use super::proto::submit_result::Result as Outcome;
use super::proto::transactions_server::Transactions;
use super::proto::{
    CancelRequest, CommandAccepted, Event, GetRequest, Refusal, SubmitRequest, SubmitResult, Submitted,
    Transaction, WatchRequest,
};
use super::{read, status, write};
use crate::access::{Caller, Role};
use crate::body::address;
use crate::problem::{Code, Problem};
use crate::routes::tx;
use crate::serve::App;
use crate::{show, tail};

/// Requests of one stream that are stored at once.
const AT_ONCE: usize = 64;
const PAGE: u32 = 500;
/// How long a store that does not answer is left alone.
const ASK_AGAIN: Duration = Duration::from_secs(1);

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
) -> Result<Submitted, Problem> {
    let (status, body) = tx::hand_over(app, caller, read::submission(request)?, None).await?;
    Ok(write::submitted(&body, status == StatusCode::OK))
}

#[tonic::async_trait]
impl Transactions for Service {
    async fn submit(&self, request: Request<SubmitRequest>) -> Result<Response<Submitted>, Status> {
        let caller = caller(&request);
        Ok(Response::new(submit(&self.0, &caller, request.get_ref()).await?))
    }

    type SubmitStreamStream = Streamed<SubmitResult>;

    async fn submit_stream(
        &self,
        request: Request<Streaming<SubmitRequest>>,
    ) -> Result<Response<Self::SubmitStreamStream>, Status> {
        let (app, caller) = (self.0.clone(), caller(&request));
        if !caller.is(Role::Submitter) {
            return Err(caller.lacks(Role::Submitter).into());
        }
        let answers = request.into_inner().map(move |request| {
            let (app, caller) = (app.clone(), caller.clone());
            async move {
                let request = request?;
                // A key may have been taken back since the stream was opened.
                if !app.keyring.still(&caller).await {
                    let detail = "the API key was revoked or has expired; this request was not stored";
                    return Err(Problem::new(Code::Unauthorized, detail).into());
                }
                let stored = match app.keyring.charge(&caller, 1) {
                    Ok(()) => submit(&app, &caller, &request).await,
                    Err(problem) => Err(problem),
                };
                Ok(SubmitResult { result: Some(stored.map_or_else(refusal, Outcome::Submitted)) })
            }
        });
        Ok(Response::new(Box::pin(answers.buffered(AT_ONCE))))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<Transaction>, Status> {
        let caller = caller(&request);
        let shown = match &request.get_ref().by {
            Some(By::TxId(id)) => tx::by_id(&self.0, &caller, id).await?,
            Some(By::Request(by)) => tx::by_key(&self.0, &caller, &by.signer, &by.request_id).await?,
            None => return Err(Problem::at(Code::MissingField, "by", "give tx_id, or request").into()),
        };
        Ok(Response::new(write::transaction(&shown)))
    }

    type WatchStream = Streamed<Event>;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let caller = caller(&request);
        let wanted = Wanted::of(request.get_ref(), caller)?;
        let after = match request.get_ref().after {
            Some(after) => JournalSeq(after),
            None => tail::last(self.0.handle.store()).await.map_err(Problem::from)?,
        };
        let place = self.0.listeners.clone().try_acquire_owned().map_err(|_| {
            let detail = "as many callers listen already as server.max_listeners allows; try again later";
            Problem::new(Code::TooManyListeners, detail)
        })?;
        let watcher = Watcher { app: self.0.clone(), wanted, after, ready: VecDeque::new(), _place: place };
        let events = futures::stream::unfold(watcher, |mut watcher| async move {
            let event = watcher.next().await?;
            Some((Ok(event), watcher))
        });
        Ok(Response::new(Box::pin(events)))
    }

    async fn cancel(&self, request: Request<CancelRequest>) -> Result<Response<CommandAccepted>, Status> {
        let (app, caller, asked) = (&self.0, caller(&request), request.get_ref());
        let tx = tx::find(app, &caller, &asked.tx_id).await?.tx;
        caller.may(Role::Submitter, tx.lane.signer)?;
        let parse = |text: &String| {
            RequestId::parse(text).map_err(|error| Problem::new(Code::BadRequestId, error.to_string()))
        };
        let key = asked.idempotency_key.as_ref().map(parse).transpose()?;
        let command = app.handle.cancel(&tx, key.as_ref()).await.map_err(Problem::from)?;
        Ok(Response::new(CommandAccepted { command_id: command.to_string() }))
    }
}

fn refusal(problem: Problem) -> Outcome {
    Outcome::Refusal(Refusal {
        status: status::code(&problem) as i32,
        code: problem.code.text().to_owned(),
        field: problem.field,
        detail: problem.detail,
    })
}

/// What a watcher wants to hear of, and may.
struct Wanted {
    caller: Caller,
    chain: Option<ChainId>,
    signer: Option<Account>,
    tx: Option<TxId>,
    /// Empty: all.
    types: BTreeSet<String>,
}

impl Wanted {
    fn of(request: &WatchRequest, caller: Caller) -> Result<Self, Problem> {
        let tx = |id: &String| {
            id.parse().map_err(|_| {
                Problem::at(Code::BadValue, "tx_id", format!("{id:?} is not the id of a transaction"))
            })
        };
        Ok(Self {
            caller,
            chain: request.chain_id.map(ChainId),
            signer: request.signer.as_ref().map(|signer| address("signer", signer)).transpose()?,
            tx: request.tx_id.as_ref().map(tx).transpose()?,
            types: request.types.iter().cloned().collect(),
        })
    }

    fn event(&self, row: &JournalRow) -> Option<Event> {
        let name = row.entry.event()?;
        let heard = self.caller.sees(row.lane.signer)
            && self.chain.is_none_or(|chain| row.lane.chain == chain)
            && self.signer.is_none_or(|signer| row.lane.signer == signer)
            && self.tx.is_none_or(|tx| row.tx == Some(tx))
            && (self.types.is_empty() || self.types.contains(name));
        if !heard {
            return None;
        }
        let mut data = show::journal_row(row);
        data["chainId"] = json!(row.lane.chain);
        data["signer"] = json!(row.lane.signer.to_string());
        if let Some(tx) = row.tx {
            data["txId"] = json!(tx);
        }
        Some(write::event(row.seq.0, name, &data))
    }
}

struct Watcher {
    app: App,
    wanted: Wanted,
    after: JournalSeq,
    ready: VecDeque<JournalRow>,
    _place: OwnedSemaphorePermit,
}

impl Watcher {
    /// The next event; none when the server stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(row) = self.ready.pop_front() {
                self.after = row.seq;
                // A key may have been taken back since.
                if !self.app.keyring.still(&self.wanted.caller).await {
                    return None;
                }
                if let Some(event) = self.wanted.event(&row) {
                    return Some(event);
                }
            }
            match self.app.handle.store().journal_after(self.after, PAGE).await {
                Ok(rows) if rows.is_empty() => {
                    if !self.app.tail.beyond(self.after).await {
                        return None;
                    }
                }
                Ok(rows) => self.ready.extend(rows),
                Err(_) => tokio::time::sleep(ASK_AGAIN).await,
            }
        }
    }
}
