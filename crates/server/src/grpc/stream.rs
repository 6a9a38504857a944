//! A stream of submissions: each is judged when it comes, and stored beside others; answers come in their order. Once the key is no
//! longer good the stream takes nothing more: what it took before is answered, and then it ends with a status that says why.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use prost::Message as _;
use tonic::{Status, Streaming};

use super::proto::submit_result::Result as Outcome;
use super::proto::{SubmitRequest, SubmitResult};
use super::transactions::{refusal, submit};
use crate::access::{Caller, no_longer_good};
use crate::doors::{Charge, Line};
use crate::problem::{Code, Problem};
use crate::serve::App;

/// Requests of one stream that are stored at once.
const AT_ONCE: usize = 64;
/// How often the key of one who says nothing is looked at.
const JUDGE_EVERY: Duration = Duration::from_secs(5);
/// So long after its key was found to be revoked a stream has said what became of everything it took, or is broken off.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(20);

const PATH: &str = "/landfall.v1.Transactions/SubmitStream";

pub(super) fn answers(
    app: App,
    caller: Caller,
    line: Option<Arc<Line>>,
    asked: Streaming<SubmitRequest>,
) -> impl Stream<Item = Result<SubmitResult, Status>> + Send {
    let start = (app.clone(), caller.clone(), Some(asked));
    let asked = futures::stream::unfold(start, |(app, caller, asked)| async {
        let (request, asked) = next(&app, &caller, asked?).await?;
        Some((request, (app, caller, asked)))
    });
    let answered = asked.map(move |request| {
        let charge = app.doors.charge(line.as_ref(), &caller);
        answer(app.clone(), caller.clone(), charge, request)
    });
    answered.buffered(AT_ONCE)
}

/// The next request, or why there are no more. What has come is looked at before the key is: it is told what becomes of it.
async fn next(
    app: &App,
    caller: &Caller,
    mut asked: Streaming<SubmitRequest>,
) -> Option<(Result<SubmitRequest, Status>, Option<Streaming<SubmitRequest>>)> {
    loop {
        match tokio::time::timeout(JUDGE_EVERY, asked.next()).await {
            Ok(Some(Ok(request))) => return Some((Ok(request), Some(asked))),
            Ok(Some(Err(status))) => return Some((Err(status), None)),
            Ok(None) => return None,
            Err(_) if app.keyring.has_revoked(caller).await => {
                return Some((Err(no_longer_good().into()), None));
            }
            Err(_) => {}
        }
    }
}

async fn answer(
    app: App,
    caller: Caller,
    charge: Charge,
    request: Result<SubmitRequest, Status>,
) -> Result<SubmitResult, Status> {
    let request = request?;
    let told = |problem: &Problem| app.audit.refused(&caller, "gRPC", PATH, problem);
    // A key may have been taken back since the stream was opened.
    if !app.keyring.still(&caller).await {
        let detail = "the API key was revoked or has expired; this request was not stored";
        let problem = Problem::new(Code::Unauthorized, detail);
        told(&problem);
        return Err(problem.into());
    }
    let held = charge.take(request.encoded_len()).await.map_err(Problem::from);
    let stored = match held.and_then(|()| app.keyring.charge(&caller, 1)) {
        Ok(()) => submit(&app, &caller, &request, PATH).await,
        Err(problem) => {
            told(&problem);
            Err(problem)
        }
    };
    Ok(SubmitResult { result: Some(stored.map_or_else(refusal, Outcome::Submitted)) })
}
