//! The calls of gRPC.

use std::time::Duration;

use futures::StreamExt as _;
use landfall_server::grpc::proto;
use landfall_server::grpc::proto::get_request::By;
use landfall_server::grpc::proto::lanes_client::LanesClient;
use landfall_server::grpc::proto::submit_result::Result as Outcome;
use landfall_server::grpc::proto::trades_client::TradesClient;
use landfall_server::grpc::proto::transactions_client::TransactionsClient;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::doors::Said;
use super::site::Named;
use crate::support::{CHAIN_ID, RECEIVER};

/// How long events are listened to that must not come.
const SILENCE: Duration = Duration::from_millis(300);

fn submit_request(named: &Named) -> proto::SubmitRequest {
    proto::SubmitRequest {
        chain_id: CHAIN_ID,
        signer: named.signer.clone(),
        request_id: Some(named.request.to_owned()),
        payload: Some(proto::Payload {
            to: Some(RECEIVER.to_owned()),
            value: Some("1".to_owned()),
            gas: Some(21_000),
            ..proto::Payload::default()
        }),
        options: None,
    }
}

fn status_of(code: Code) -> u64 {
    match code {
        Code::Ok => 200,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 405,
        _ => 400,
    }
}

fn refused(status: &Status) -> Said {
    Said { status: status_of(status.code()), text: format!("{:?} {}", status.code(), status.message()) }
}

fn said<T: std::fmt::Debug>(answer: Result<tonic::Response<T>, Status>) -> Said {
    match answer {
        Ok(answer) => Said { status: 200, text: format!("{:?}", answer.into_inner()) },
        Err(status) => refused(&status),
    }
}

fn with<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}

/// The answer of a method about the target.
pub(super) async fn ask(channel: &Channel, path: &str, key: &str, named: &Named) -> Said {
    let mut transactions = TransactionsClient::new(channel.clone());
    let mut lanes = LanesClient::new(channel.clone());
    match path.trim_start_matches("/landfall.v1.") {
        "Transactions/Submit" => said(transactions.submit(with(key, submit_request(named))).await),
        "Transactions/SubmitStream" => submit_stream(transactions, key, named).await,
        "Transactions/Get" => {
            let by_id = proto::GetRequest { by: Some(By::TxId(named.tx.clone())) };
            said(transactions.get(with(key, by_id)).await)
        }
        "Transactions/Watch" => watch(transactions, key, named).await,
        "Transactions/Cancel" => {
            let cancel = proto::CancelRequest { tx_id: named.tx.clone(), idempotency_key: None };
            said(transactions.cancel(with(key, cancel)).await)
        }
        "Trades/Submit" => {
            said(TradesClient::new(channel.clone()).submit(with(key, submit_request(named))).await)
        }
        "Lanes/List" => said(lanes.list(with(key, proto::ListLanesRequest::default())).await),
        "Lanes/Get" => {
            let lane = proto::GetLaneRequest { chain_id: CHAIN_ID, signer: named.signer.clone() };
            said(lanes.get(with(key, lane)).await)
        }
        other => panic!("{other} is a method that this test does not know"),
    }
}

async fn submit_stream(mut client: TransactionsClient<Channel>, key: &str, named: &Named) -> Said {
    let stream = futures::stream::iter([submit_request(named)]);
    let answers = match client.submit_stream(with(key, stream)).await {
        Ok(answers) => answers.into_inner().collect::<Vec<_>>().await,
        Err(status) => return refused(&status),
    };
    assert_eq!(answers.len(), 1, "{answers:?}");
    let answer = answers[0].as_ref().expect("a refusal ends nothing but its own request");
    let status = match &answer.result {
        Some(Outcome::Refusal(refusal)) => status_of(Code::from_i32(refusal.status)),
        _ => 200,
    };
    Said { status, text: format!("{answer:?}") }
}

/// The stream from the beginning on, until it tells of the target or nothing for a moment.
async fn watch(mut client: TransactionsClient<Channel>, key: &str, named: &Named) -> Said {
    let signer = Some(named.signer.clone());
    let watch = proto::WatchRequest { after: Some(0), signer, ..proto::WatchRequest::default() };
    let mut events = match client.watch(with(key, watch)).await {
        Ok(events) => events.into_inner(),
        Err(status) => return refused(&status),
    };
    let mut text = String::new();
    while !text.contains(&named.tx) {
        match tokio::time::timeout(SILENCE, events.next()).await {
            Ok(Some(event)) => text.push_str(&format!("{event:?}")),
            Ok(None) | Err(_) => break,
        }
    }
    Said { status: 200, text }
}
