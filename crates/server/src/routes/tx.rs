//! Transactions: handing them over, and asking where they are.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use landfall_core::confirmations;
use landfall_core::ports::store::{Admission, Kept, TxQuery, TxRecord};
use landfall_core::request::{Options, Payload};
use landfall_core::transaction::{Content, Transaction, TxState};
use landfall_core::{ChainId, QueueOrder, RequestId, TxHash, TxId};
use landfall_engine::{Refused, Submission};
use serde_json::{Value, json};

use crate::access::{Caller, Role, Wrote, turn_to_look};
use crate::body::{self, address};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::serve::App;
use crate::show;

type Answer<T> = Result<T, Problem>;
pub(super) type Body = Result<Bytes, BytesRejection>;

pub(crate) async fn submit(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<Value>)> {
    let value = body::json(&headers, &taken(body)?)?;
    let key = body::idempotency_key(&headers)?;
    let (status, body) = hand_over(&app, &caller, value, key, ("POST", "/api/v1/tx")).await?;
    Ok((status, Json(body)))
}

/// Stores what a caller asks for. `door`: how it came, for the audit log.
pub(crate) async fn hand_over(
    app: &App,
    caller: &Caller,
    asked: Value,
    key: Option<String>,
    door: (&'static str, &'static str),
) -> Answer<(StatusCode, Value)> {
    let mut submission = body::submission(asked, key)?;
    may_submit(app, caller, &submission).await?;
    submission.origin = Some(caller.origin());
    let admission = app.handle.submit(submission).await?;
    if let Admission::New(tx) = &admission {
        stored(app, caller, door, StatusCode::ACCEPTED, vec![tx.id], None);
    }
    admitted(admission).map_err(|problem| unnamed(caller, problem))
}

/// A signer's requestId may have been used on a chain that the caller does not see: then it is not told for which transaction.
fn unnamed(caller: &Caller, problem: Problem) -> Problem {
    if problem.code != Code::RequestIdReused || caller.chains.is_none() {
        return problem;
    }
    let detail =
        "this signer has used the requestId for something else; use a new requestId for a new transaction";
    Problem { detail: detail.to_owned(), ..problem }
}

/// Tells the audit log which transactions were stored.
fn stored(
    app: &App,
    caller: &Caller,
    (method, path): (&'static str, &'static str),
    status: StatusCode,
    txs: Vec<TxId>,
    count: Option<u64>,
) {
    let (method, path) = (method.into(), path.into());
    app.audit.wrote(caller, Wrote { method, path, status: status.as_u16(), txs, count, body: None });
}

/// Each item as if alone; the answers are in their order.
pub(crate) async fn submit_batch(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Value>> {
    let items = match body::json(&headers, &taken(body)?)? {
        Value::Array(items) => items,
        Value::Object(mut map) => match map.remove("items") {
            Some(Value::Array(items)) if map.is_empty() => items,
            _ => return Err(Problem::at(Code::WrongType, "items", "send an array, or {\"items\": […]}")),
        },
        _ => return Err(Problem::new(Code::WrongType, "the body must be an array of transactions")),
    };
    if items.len() > app.limits.batch {
        let detail = format!("it has {} items; at most {} are taken at once", items.len(), app.limits.batch);
        return Err(Problem::new(Code::BatchTooLong, detail));
    }
    if headers.contains_key("idempotency-key") {
        let detail = "a batch has one requestId for each item, not one Idempotency-Key for all";
        return Err(Problem::new(Code::BadRequestId, detail));
    }
    // The request itself was counted as one.
    app.keyring.charge(&caller, items.len().saturating_sub(1))?;
    let count = items.len() as u64;
    let (door, origin) = (("POST", "/api/v1/tx/batch"), caller.origin());
    let mut answers: Vec<Option<Value>> = vec![None; items.len()];
    let mut good = Vec::new();
    let mut submissions = Vec::new();
    for (position, item) in items.into_iter().enumerate() {
        let read = match body::submission(item, None) {
            Ok(submission) => may_submit(&app, &caller, &submission).await.map(|()| submission),
            Err(problem) => Err(problem),
        };
        match read {
            Ok(submission) => {
                good.push(position);
                submissions.push(Submission { origin: Some(origin.clone()), ..submission });
            }
            Err(problem) => {
                app.audit.refused(&caller, door.0, door.1, &problem);
                answers[position] = Some(problem.body());
            }
        }
    }
    let admissions = app.handle.submit_all(submissions).await;
    let new = admissions.iter().filter_map(|admission| match admission {
        Ok(Admission::New(tx)) => Some(tx.id),
        _ => None,
    });
    stored(&app, &caller, door, StatusCode::OK, new.collect(), Some(count));
    for (position, admission) in good.into_iter().zip(admissions) {
        let answer = admission.map_err(Problem::from).and_then(admitted);
        let answer = match answer.map_err(|problem| unnamed(&caller, problem)) {
            Ok((status, mut body)) => {
                body["status"] = json!(status.as_u16());
                body
            }
            Err(problem) => problem.body(),
        };
        answers[position] = Some(answer);
    }
    Ok(Json(json!({ "items": answers })))
}

/// The caller may submit for this lane, and what it wants to follow is known to it.
async fn may_submit(app: &App, caller: &Caller, submission: &Submission) -> Answer<()> {
    caller.may(Role::Submitter, submission.lane)?;
    may_follow(app, caller, &submission.options).await
}

/// The transaction to follow is known to the caller. To others it is as one that is not there.
pub(super) async fn may_follow(app: &App, caller: &Caller, options: &Options) -> Answer<()> {
    if let (Some(after), false) = (&options.after, caller.sees_all()) {
        let first = app.handle.store().tx(after.tx).await?;
        let lane = match first {
            Some(record) => Some(record.tx.lane),
            None => app.handle.store().kept(after.tx).await?.map(|kept| kept.lane),
        };
        if lane.is_some_and(|lane| !caller.sees_lane(lane)) {
            return Err(Refused::UnknownPredecessor(after.tx).into());
        }
    }
    Ok(())
}

pub(super) fn admitted(admission: Admission) -> Answer<(StatusCode, Value)> {
    match admission {
        Admission::New(tx) => Ok((StatusCode::ACCEPTED, show::accepted(&tx))),
        Admission::Replay(tx) => Ok((StatusCode::OK, show::accepted(&tx))),
        Admission::Removed(kept) => Ok((StatusCode::OK, show::accepted_before(&kept))),
        Admission::Conflict(tx) => {
            let detail = format!(
                "this requestId belongs to transaction {tx}, which asks for something else; \
                 use a new requestId for a new transaction"
            );
            Err(Problem::at(Code::RequestIdReused, "requestId", detail))
        }
        // Nonces are given by JSON-RPC only.
        Admission::NonceReused(tx) => {
            let detail = format!("this nonce was given with transaction {tx}, which asks for something else");
            Err(Problem::new(Code::NonceNotAllowed, detail))
        }
    }
}

/// The body is in memory already: its size and its time were judged before.
pub(super) fn taken(body: Body) -> Answer<Bytes> {
    body.map_err(|rejection| {
        Problem::new(Code::InvalidJson, format!("the body could not be read: {rejection}"))
    })
}

pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    Ok(Json(by_id(&app, &caller, &id).await?))
}

/// A transaction as it is shown, or what stayed of it.
pub(crate) async fn by_id(app: &App, caller: &Caller, id: &str) -> Answer<Value> {
    let _turn = turn_to_look(app, caller).await?;
    match look_up(app, caller, id).await? {
        Found::Whole(record) => shown(app, caller, &record).await,
        Found::Removed(kept) => Ok(show::kept(&kept, caller.addresses())),
    }
}

/// The blocks on top of its own, or what came since the one the caller knows.
pub(crate) async fn confirmations(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Answer<Json<Value>> {
    if let Some(unknown) = query.keys().find(|name| *name != "after") {
        let detail =
            format!("{unknown} is not a parameter here; there is `after`, the last block hash you know");
        return Err(Problem::at(Code::BadQuery, unknown.as_str(), detail));
    }
    let known = query.get("after").map(|text| text.parse::<alloy_primitives::B256>());
    let known = known.transpose().map_err(|_| {
        Problem::at(Code::BadQuery, "after", "after is the hash of a block: 0x and 64 hexadecimal digits")
    })?;
    let record = find(&app, &caller, &id).await?;
    let tx = &record.tx;
    let view = app.handle.view(tx.lane.chain);
    let list = view.zip(tx.status.receipt.as_ref()).map(|(view, receipt)| {
        let finality = tx.request.options.finality.unwrap_or(app.handle.finality(tx.lane.chain));
        confirmations::list(&view, receipt, show::most_confirmations(finality))
    });
    let list = list.unwrap_or_default();
    let told = confirmations::since(&list, known.as_ref());
    Ok(Json(json!({
        "newFork": told.new_fork,
        "confirmations": list.len().saturating_sub(1),
        "items": told.blocks.iter().map(show::block).collect::<Vec<_>>(),
    })))
}

pub(crate) async fn by_request(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<BTreeMap<String, String>>,
) -> Answer<Json<Value>> {
    if let Some(unknown) = query.keys().find(|name| *name != "signer" && *name != "requestId") {
        return Err(Problem::at(
            Code::BadQuery,
            unknown,
            format!("?{unknown}= is not known; give signer and requestId"),
        ));
    }
    let need = |name: &str| {
        query.get(name).ok_or_else(|| {
            Problem::at(
                Code::BadQuery,
                name,
                format!("?{name}= is missing; both signer and requestId are needed"),
            )
        })
    };
    Ok(Json(by_key(&app, &caller, need("signer")?, need("requestId")?).await?))
}

/// The transaction of a signer's requestId, as it is shown.
pub(crate) async fn by_key(app: &App, caller: &Caller, signer: &str, request: &str) -> Answer<Value> {
    let signer = address("signer", signer)?;
    let request = RequestId::parse(request)
        .map_err(|error| Problem::at(Code::BadRequestId, "requestId", error.to_string()))?;
    let missing =
        || Problem::new(Code::NotFound, format!("{signer} has no transaction with requestId {request}"));
    if !caller.sees(signer) {
        return Err(missing());
    }
    let _turn = turn_to_look(app, caller).await?;
    let record = app.handle.store().tx_by_request(signer, &request).await?;
    if let Some(record) = record {
        return if caller.sees_lane(record.tx.lane) {
            shown(app, caller, &record).await
        } else {
            Err(missing())
        };
    }
    let kept = app.handle.store().kept_by_request(signer, &request).await?;
    let kept = kept.filter(|kept| caller.sees_lane(kept.lane)).ok_or_else(missing)?;
    Ok(show::kept(&kept, caller.addresses()))
}

pub(crate) async fn journal(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let _turn = turn_to_look(&app, &caller).await?;
    let record = match look_up(&app, &caller, &id).await? {
        Found::Whole(record) => record,
        Found::Removed(_) => {
            let detail =
                "it ended so long ago that its journal was removed; what stayed is at GET /tx/{txId}";
            return Err(Problem::new(Code::HistoryRemoved, detail));
        }
    };
    let rows = app.handle.store().journal(record.tx.id).await?;
    let items: Vec<Value> = rows.iter().map(|row| show::journal_row(row, caller.addresses())).collect();
    Ok(Json(json!({ "items": items, "nextCursor": null })))
}

/// Bytes of contents after which a page ends, as far as it has come.
const LARGE_PAGE: usize = 8 << 20;
/// So many are read of the store at once: one after the other would be slow, and all together may be too large.
const PORTION: u32 = 50;
const PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 500;
/// So many items of a page count as one request.
const ITEMS_OF_A_REQUEST: u32 = 10;

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<BTreeMap<String, String>>,
) -> Answer<Json<Value>> {
    let query = tx_query(query)?;
    // The request itself was counted as one.
    app.keyring.charge(&caller, (query.limit / ITEMS_OF_A_REQUEST).saturating_sub(1) as usize)?;
    let is_large = query.limit > PAGE || !caller.sees_all();
    let _turn = if is_large { app.keyring.quotas().read_much(&caller).await? } else { None };
    let Listed { txs, more } = seen(&app, &caller, &query).await?;
    let next = txs.last().filter(|_| more).map(|tx| tx.order.to_string());
    let show = |tx| show::transaction(tx, app.handle.view(tx.lane.chain).as_deref(), caller.addresses());
    let items: Vec<Value> = txs.iter().map(show).collect();
    Ok(Json(json!({ "items": items, "nextCursor": next })))
}

/// Those of a list that the caller may see; of the others not even a cursor tells.
async fn seen(app: &App, caller: &Caller, query: &TxQuery) -> Answer<Listed> {
    let mut all = Listed::default();
    if caller.sees_all() {
        part(app, query, &mut all).await?;
        return Ok(all);
    }
    // One query for each part that it may see; what it is not limited in stays as it was asked.
    let signers: Vec<_> = match &caller.signers {
        None => vec![query.signer],
        Some(own) => own
            .iter()
            .map(|own| Some(*own))
            .filter(|own| query.signer.is_none() || query.signer == *own)
            .collect(),
    };
    let chains: Vec<_> = match &caller.chains {
        None => vec![query.chain],
        Some(own) => own
            .iter()
            .map(|own| Some(*own))
            .filter(|own| query.chain.is_none() || query.chain == *own)
            .collect(),
    };
    for signer in signers {
        for chain in &chains {
            let of_part = TxQuery { signer, chain: *chain, ..query.clone() };
            part(app, &of_part, &mut all).await?;
        }
    }
    Ok(all)
}

/// The newest of a list, as far as they fit on a page.
#[derive(Default)]
struct Listed {
    txs: Vec<Transaction>,
    /// There may be older ones.
    more: bool,
}

impl Listed {
    /// Takes in a portion. What has no place on the page any more goes, so the page is what is newest of all that was taken in.
    fn take(&mut self, portion: Vec<Transaction>, most: usize) {
        self.txs.extend(portion);
        self.txs.sort_by_key(|tx| std::cmp::Reverse(tx.order));
        let mut bytes = 0;
        // At least one: the next page begins behind it.
        let fitting = self.txs.iter().take(most).take_while(|tx| {
            let had_room = bytes < LARGE_PAGE;
            bytes += size(tx);
            had_room
        });
        let fitting = fitting.count();
        self.more |= self.txs.len() > fitting || fitting >= most;
        self.txs.truncate(fitting);
    }
}

/// Takes in what there is of one part of the list, until no older one would have a place.
async fn part(app: &App, query: &TxQuery, all: &mut Listed) -> Answer<()> {
    let mut before = query.before;
    let mut left = query.limit;
    while left > 0 {
        let limit = left.min(PORTION);
        let portion = app.handle.store().txs(&TxQuery { before, limit, ..query.clone() }).await?;
        left -= limit;
        let was_whole = portion.len() >= limit as usize;
        let Some(last) = portion.last().map(|tx| tx.order) else { break };
        all.take(portion, query.limit as usize);
        let has_place = all.txs.last().is_some_and(|oldest| oldest.order <= last);
        if !was_whole || !has_place {
            break;
        }
        before = Some(last);
    }
    Ok(())
}

/// Bytes of a transaction's contents, as nodes count them.
fn size(tx: &Transaction) -> usize {
    let later = tx.status.later.iter().filter_map(|content| match content {
        Content::Payload(payload) => Some(payload),
        Content::NoOp => None,
    });
    let of = |payload: &Payload| {
        let keys: usize = payload.access_list.iter().map(|item| 1 + item.storage_keys.len()).sum();
        payload.data.len() + keys * 32 + payload.authorization_list.len() * 128
    };
    let metadata = tx.request.options.metadata.as_ref().map_or(0, |text| text.len());
    of(&tx.request.payload) + later.map(of).sum::<usize>() + metadata
}

fn tx_query(query: BTreeMap<String, String>) -> Answer<TxQuery> {
    let mut wanted = TxQuery { limit: PAGE, ..TxQuery::default() };
    for (name, text) in query {
        let bad = |why: &str| Problem::at(Code::BadQuery, name.clone(), format!("?{name}={text}: {why}"));
        match name.as_str() {
            "state" => {
                wanted.state = Some(TxState::from_name(&text).ok_or_else(|| bad("there is no such state"))?);
            }
            "signer" => wanted.signer = Some(address("signer", &text)?),
            "chainId" => wanted.chain = Some(ChainId(text.parse().map_err(|_| bad("not a whole number"))?)),
            "hash" => wanted.hash = Some(TxHash(text.parse().map_err(|_| bad("not 32 bytes in hex"))?)),
            "cursor" => {
                let order = text.parse().ok().filter(|order: &i64| *order >= 0);
                wanted.before = Some(QueueOrder(order.ok_or_else(|| bad("not a cursor that a list gave"))?));
            }
            "limit" => {
                let limit: u32 = text.parse().map_err(|_| bad("not a whole number"))?;
                if !(1..=LARGEST_PAGE).contains(&limit) {
                    return Err(bad("it may be 1 to 500"));
                }
                wanted.limit = limit;
            }
            _ => return Err(bad("there is no such filter")),
        }
    }
    Ok(wanted)
}

/// A transaction, or what stayed of it.
enum Found {
    Whole(Box<TxRecord>),
    Removed(Box<Kept>),
}

/// What a caller may not see is not there for it.
async fn look_up(app: &App, caller: &Caller, id: &str) -> Answer<Found> {
    let missing = || Problem::new(Code::NotFound, format!("there is no transaction {id} here"));
    let parsed: TxId = id.parse().map_err(|_| missing())?;
    let found = match app.handle.store().tx(parsed).await? {
        Some(record) => Found::Whole(Box::new(record)),
        None => Found::Removed(Box::new(app.handle.store().kept(parsed).await?.ok_or_else(missing)?)),
    };
    let lane = match &found {
        Found::Whole(record) => record.tx.lane,
        Found::Removed(kept) => kept.lane,
    };
    if caller.sees_lane(lane) { Ok(found) } else { Err(missing()) }
}

/// A transaction that something is to be done to.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Answer<TxRecord> {
    let _turn = turn_to_look(app, caller).await?;
    match look_up(app, caller, id).await? {
        Found::Whole(record) => Ok(*record),
        Found::Removed(kept) => {
            let detail =
                format!("it ended as {}, so long ago that its history was removed", kept.state.name());
            Err(Problem::new(Code::AlreadyFinal, detail))
        }
    }
}

pub(crate) async fn shown(app: &App, caller: &Caller, record: &TxRecord) -> Answer<Value> {
    let tx = &record.tx;
    let has_receipt = tx.status.receipt.is_some() || record.carried_out_by().is_some();
    let taken_back = tx.status.won.is_some() && !has_receipt;
    let stuck = if tx.status.state.is_terminal() && !taken_back {
        None
    } else {
        match app.handle.explain(tx.lane, tx.id).await {
            Some(told) => Some(told),
            None => Some(app.handle.explain_from_afar(tx).await),
        }
    };
    let chain = tx.lane.chain;
    let mut record = Cow::Borrowed(record);
    // Of what landed at once, the journal alone says how it was sent.
    if tx.status.receipt.is_some() && record.attempts.iter().any(|attempt| attempt.hints.sends == 0) {
        let journal = app.handle.store().journal(tx.id).await?;
        for attempt in &mut record.to_mut().attempts {
            attempt.told_by(journal.iter().map(|row| (row.at, &row.entry)));
        }
    }
    let (view, finality) = (app.handle.view(chain), app.handle.finality(chain));
    let mut shown = show::record(&record, view.as_deref(), finality, stuck, caller.addresses());
    if let Some(retry) = app.handle.retried_as(tx).await? {
        shown["retriedAs"] = json!(retry);
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use alloy_primitives::Address;
    use landfall_core::request::{Request, fingerprint};
    use landfall_core::transaction::Status;
    use landfall_core::{Account, LaneId, Millis};

    use super::*;

    fn tx(order: i64, bytes: usize) -> Transaction {
        let lane = LaneId { chain: ChainId(7), signer: Account(Address::repeat_byte(0xaa)) };
        let payload = Payload { data: vec![7; bytes].into(), ..Payload::default() };
        let (options, accepted_at) = (Options::default(), Millis(1));
        let fingerprint = fingerprint(&lane, &payload, &options).unwrap();
        let (request_id, retry_of, at_once, origin) = (None, None, None, None);
        let request =
            Request { request_id, payload, options, fingerprint, accepted_at, retry_of, at_once, origin };
        let (id, order) = (TxId::new(accepted_at, 1), QueueOrder(order));
        Transaction { id, lane, order, request: Arc::new(request), status: Status::accepted(accepted_at) }
    }

    fn orders(listed: &Listed) -> Vec<i64> {
        listed.txs.iter().map(|tx| tx.order.0).collect()
    }

    #[test]
    fn a_page_ends_once_it_is_large_and_says_that_there_is_more() {
        let mut page = Listed::default();
        page.take((0..200).rev().map(|order| tx(order, 127 << 10)).collect(), 500);
        assert!(page.more);
        assert_eq!(orders(&page), (135..200).rev().collect::<Vec<_>>(), "no more than 8 MB and one");
        // Of another part: what is newer takes the place of what is older, and the rest has none.
        page.take((300..310).chain(0..10).map(|order| tx(order, 127 << 10)).collect(), 500);
        assert_eq!(orders(&page), (300..310).rev().chain((145..200).rev()).collect::<Vec<_>>());
        let mut alone = Listed::default();
        alone.take(vec![tx(1, LARGE_PAGE + 1), tx(2, LARGE_PAGE + 1)], 500);
        assert_eq!((orders(&alone), alone.more), (vec![2], true), "one always fits");
    }

    #[test]
    fn a_page_of_small_ones_is_as_long_as_was_asked_for() {
        let mut page = Listed::default();
        page.take((0..50).map(|order| tx(order, 32)).collect(), 60);
        assert_eq!((page.txs.len(), page.more), (50, false));
        page.take((50..100).map(|order| tx(order, 32)).collect(), 60);
        assert_eq!((orders(&page), page.more), ((40..100).rev().collect::<Vec<_>>(), true));
    }
}
