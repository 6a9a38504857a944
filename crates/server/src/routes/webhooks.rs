//! Webhooks: where events are delivered to, and the operator's hand on that.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use landfall_core::ports::records::{RecordKind, RecordQuery, RecordWrite, RecordsWritten};
use landfall_core::{Account, ChainId, JournalSeq, Millis, SessionId};
use serde_json::{Value, json};

use super::tx::{Body, taken};
use crate::access::{Caller, Role};
use crate::body::{self, Fields, wrong_type};
use crate::event;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::serve::App;
use crate::show::time;
use crate::span::span;
use crate::webhooks::{
    Delivery, DeliveryState, Endpoint, Filter, Keys, MOST_ENDPOINTS, Message, OrderOf, Progress, Stored,
    Switch, host_only, row_id, row_prefix, without_words,
};

type Answer<T> = Result<T, Problem>;

/// A change that meets another one is tried again.
const TRIES: usize = 20;
/// Longer descriptions are refused.
const LONGEST_TEXT: usize = 500;
/// The longest that an old secret is used beside its successor.
const LONGEST_ROTATION_S: u64 = 30 * 86_400;
const PAGE: u32 = 100;
const LONGEST_PAGE: u32 = 500;

pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Answer<Json<Value>> {
    let all = app.desk.shared.all().await?;
    let newest = app.desk.newest().await?;
    let items: Vec<Value> =
        all.iter().filter(|one| may_see(&caller, one)).map(|one| shown(&app, &caller, one, newest)).collect();
    Ok(Json(json!({ "items": items, "nextCursor": null })))
}

pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let stored = find(&app, &caller, &id).await?;
    Ok(Json(shown(&app, &caller, &stored, app.desk.newest().await?)))
}

/// `{url, events?, chains?, signers?, description?, after?}`. The answer has the secret, this once.
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<Value>)> {
    let shared = &app.desk.shared;
    let secret = shared.settings.secret.as_ref().ok_or_else(|| no_secret(&app))?;
    let mut fields = Fields::of(body::json(&headers, &taken(body)?)?, "")?;
    let url = fields.need("url")?;
    let url = url.as_str().ok_or_else(|| wrong_type("url", "a string", &url))?;
    let mut filter = Filter::default();
    read_filter(&mut fields, &mut filter)?;
    limit(&caller, &mut filter)?;
    let description = description(&mut fields)?.unwrap_or_default();
    let after = fields.number("after")?;
    fields.finish()?;
    check_url(&app, url)?;
    let newest = app.desk.newest().await?;
    let cursor = match after {
        None => newest,
        Some(after) => JournalSeq(i64::try_from(after).unwrap_or(i64::MAX)).min(newest),
    };
    if shared.all().await?.len() >= MOST_ENDPOINTS as usize {
        let detail =
            format!("there are {MOST_ENDPOINTS} webhooks, as many as there may be; delete one first");
        return Err(Problem::new(Code::TooManyWebhooks, detail));
    }
    let now = shared.now();
    let id = format!("wh_{}", SessionId::new(now, shared.random()).0.simple());
    let endpoint = Endpoint {
        url: url.to_owned(),
        description,
        filter,
        created_at: now,
        switch: Switch::On,
        keys: Keys::first(secret),
        epoch: 0,
        claim: None,
        progress: Progress::from(cursor),
    };
    let stored = Stored { id: id.clone(), version: 0, endpoint };
    if shared.records.write_records(vec![stored.change(&stored.endpoint)?]).await? == RecordsWritten::Changed
    {
        return Err(busy());
    }
    shared.kick();
    let mut answer = shown(&app, &caller, &stored, newest);
    answer["secret"] = json!(secret.of(&id, 1).shown());
    Ok((StatusCode::CREATED, Json(answer)))
}

/// `{url?, events?, chains?, signers?, description?}`: what is left out stays as it is.
pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Value>> {
    let asked = body::json(&headers, &taken(body)?)?;
    let stored = update(&app, &caller, &id, |endpoint, _| {
        let mut fields = Fields::of(asked.clone(), "")?;
        if let Some(url) = fields.text("url")? {
            check_url(&app, &url)?;
            endpoint.url = url;
        }
        let before = endpoint.filter.clone();
        read_filter(&mut fields, &mut endpoint.filter)?;
        limit(&caller, &mut endpoint.filter)?;
        // What was read by the old filter is read again.
        endpoint.epoch += u64::from(endpoint.filter != before);
        if let Some(text) = description(&mut fields)? {
            endpoint.description = text;
        }
        fields.finish()
    })
    .await?;
    Ok(Json(shown(&app, &caller, &stored, app.desk.newest().await?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let shared = &app.desk.shared;
    for _ in 0..TRIES {
        let stored = find(&app, &caller, &id).await?;
        let remove =
            RecordWrite { kind: RecordKind::Webhook, id: id.clone(), expected: stored.version, body: None };
        if shared.records.write_records(vec![remove]).await? == RecordsWritten::Changed {
            continue;
        }
        shared.kick();
        remove_rows(&app, &id).await?;
        return Ok(Json(json!({ "id": id, "deleted": true })));
    }
    Err(busy())
}

async fn remove_rows(app: &App, id: &str) -> Answer<()> {
    let records = &app.records;
    let query =
        RecordQuery { prefix: row_prefix(id), ..RecordQuery::all(RecordKind::Delivery, LONGEST_PAGE) };
    for _ in 0..1_000 {
        let rows = records.records(&query).await?;
        if rows.is_empty() {
            break;
        }
        let removes = rows.iter().map(|row| RecordWrite::remove(RecordKind::Delivery, row)).collect();
        // A courier that has not noticed yet cannot write: its endpoint is gone.
        if records.write_records(removes).await? == RecordsWritten::Changed {
            continue;
        }
    }
    Ok(())
}

/// `{overlapSeconds?}`. The answer has the new secret, this once.
pub(crate) async fn rotate(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Value>> {
    let shared = &app.desk.shared;
    let secret = shared.settings.secret.as_ref().ok_or_else(|| no_secret(&app))?;
    let mut fields = Fields::of(body::json_or_nothing(&headers, &taken(body)?)?, "")?;
    let overlap = fields.number("overlapSeconds")?.unwrap_or(shared.settings.rotation.as_secs());
    fields.finish()?;
    if overlap > LONGEST_ROTATION_S {
        let detail = format!("an old secret is used for {LONGEST_ROTATION_S} seconds at most");
        return Err(Problem::at(Code::BadValue, "overlapSeconds", detail));
    }
    let stored = update(&app, &caller, &id, |endpoint, now| {
        let until = now.after(std::time::Duration::from_secs(overlap));
        endpoint.keys.rotate(secret, now, until);
        Ok(())
    })
    .await?;
    let mut answer = shown(&app, &caller, &stored, app.desk.newest().await?);
    answer["secret"] = json!(secret.of(&id, stored.endpoint.keys.generation).shown());
    Ok(Json(answer))
}

pub(crate) async fn enable(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let stored = update(&app, &caller, &id, |endpoint, now| {
        if !endpoint.is_on() {
            endpoint.switch = Switch::On;
            endpoint.epoch += 1;
            let progress = &mut endpoint.progress;
            (progress.failing_since, progress.last_failure) = (None, None);
            progress.resumed_at = Some(now);
        }
        Ok(())
    })
    .await?;
    Ok(Json(shown(&app, &caller, &stored, app.desk.newest().await?)))
}

/// `{reason?}`.
pub(crate) async fn disable(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Value>> {
    let mut fields = Fields::of(body::json_or_nothing(&headers, &taken(body)?)?, "")?;
    let reason = short(fields.text("reason")?, "reason")?;
    fields.finish()?;
    let stored = update(&app, &caller, &id, |endpoint, since| {
        if endpoint.is_on() {
            let why = match &reason {
                Some(reason) => format!("an operator switched it off: {reason}"),
                None => "an operator switched it off".to_owned(),
            };
            endpoint.switch = Switch::Off { why, since };
            endpoint.claim = None;
        }
        Ok(())
    })
    .await?;
    Ok(Json(shown(&app, &caller, &stored, app.desk.newest().await?)))
}

/// `{after}`: everything after this event is delivered again.
pub(crate) async fn replay(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Json<Value>> {
    let mut fields = Fields::of(body::json(&headers, &taken(body)?)?, "")?;
    let after = fields.number("after")?;
    let after = after.ok_or_else(|| Problem::at(Code::MissingField, "after", "after is missing"))?;
    fields.finish()?;
    let after = JournalSeq(i64::try_from(after).unwrap_or(i64::MAX));
    let stored = update(&app, &caller, &id, |endpoint, _| {
        let cursor = endpoint.progress.cursor;
        if after > cursor {
            let detail = format!(
                "its cursor is at {cursor}, before {after}: what comes after is still to be delivered"
            );
            return Err(Problem::at(Code::NothingToReplay, "after", detail));
        }
        endpoint.progress.cursor = after;
        endpoint.epoch += 1;
        Ok(())
    })
    .await?;
    Ok(Json(shown(&app, &caller, &stored, app.desk.newest().await?)))
}

/// Sends a made-up event now, and says what came of it. It is not tried again.
pub(crate) async fn test(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let shared = &app.desk.shared;
    let stored = find(&app, &caller, &id).await?;
    let secret = shared.settings.secret.as_ref().ok_or_else(|| no_secret(&app))?;
    if let Some(why) = stored.endpoint.hindrance(&shared.settings) {
        return Err(Problem::new(Code::WebhooksOff, why));
    }
    let now = shared.now();
    let body =
        json!({ "type": "webhook.test", "timestamp": time(now), "data": { "webhookId": id } }).to_string();
    let message = format!("msg_test_{}", SessionId::new(now, shared.random()).0.simple());
    let secrets = stored.endpoint.keys.signing(&id, secret, now);
    let url = stored.endpoint.url;
    let sent = shared.sender.send(Message { url, id: message.clone(), body, secrets }, now).await;
    let took = shared.now().since(now).as_millis();
    Ok(Json(match sent {
        Ok(status) => json!({ "delivered": true, "messageId": message, "status": status, "tookMs": took }),
        Err(refusal) => json!({
            "delivered": false, "messageId": message, "status": refusal.status, "tookMs": took, "failure": refusal.why,
        }),
    }))
}

/// Events that failed, are held back, or were given up; the oldest first.
pub(crate) async fn deliveries(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Answer<Json<Value>> {
    find(&app, &caller, &id).await?;
    let (mut state, mut limit, mut after) = (None, PAGE, None);
    for (name, text) in query {
        let bad = |what: &str| Problem::at(Code::BadQuery, name.as_str(), format!("{text:?} is {what}"));
        match name.as_str() {
            "state" => {
                let found = DeliveryState::ALL.into_iter().find(|state| state.name() == text);
                state = Some(found.ok_or_else(|| bad("not a state; there are waiting, held and given_up"))?);
            }
            "limit" => {
                let number = text.parse().ok().filter(|number| (1..=LONGEST_PAGE).contains(number));
                limit = number.ok_or_else(|| bad(&format!("not a number from 1 to {LONGEST_PAGE}")))?;
            }
            "cursor" => {
                let seq = text.parse().map_err(|_| bad("not a cursor that a list gave"))?;
                after = Some(row_id(&id, JournalSeq(seq)));
            }
            _ => {
                let detail = "there are state, limit and cursor";
                return Err(Problem::at(Code::BadQuery, name.as_str(), detail));
            }
        }
    }
    let mut query = RecordQuery {
        prefix: row_prefix(&id),
        after,
        ..RecordQuery::all(RecordKind::Delivery, LONGEST_PAGE)
    };
    let mut items = Vec::new();
    loop {
        let rows = app.records.records(&query).await?;
        let is_last = rows.len() < LONGEST_PAGE as usize;
        query.after = rows.last().map(|row| row.id.clone());
        for row in rows {
            let (seq, _, delivery) = Delivery::read(row)?;
            if state.is_none_or(|state| delivery.state == state) {
                if items.len() == limit as usize {
                    let last = items.last().map(|(seq, _): &(JournalSeq, Value)| seq.0.to_string());
                    return Ok(page(items, last));
                }
                items.push((seq, shown_delivery(&caller, &id, seq, &delivery)));
            }
        }
        if is_last {
            return Ok(page(items, None));
        }
    }
}

fn page(items: Vec<(JournalSeq, Value)>, next: Option<String>) -> Json<Value> {
    let items: Vec<Value> = items.into_iter().map(|(_, shown)| shown).collect();
    Json(json!({ "items": items, "nextCursor": next }))
}

/// One event is delivered again, whatever became of it.
pub(crate) async fn redeliver(
    State(app): State<App>,
    caller: Caller,
    Path((id, seq)): Path<(String, String)>,
) -> Answer<(StatusCode, Json<Value>)> {
    let shared = &app.desk.shared;
    let bad = || Problem::at(Code::NotFound, "seq", format!("{seq:?} is not the number of an event"));
    let seq = JournalSeq(seq.parse().map_err(|_| bad())?);
    for _ in 0..TRIES {
        let stored = find(&app, &caller, &id).await?;
        if seq > stored.endpoint.progress.cursor {
            let detail = format!(
                "event {seq} is still to be delivered: the cursor is at {}",
                stored.endpoint.progress.cursor
            );
            return Err(Problem::new(Code::NothingToReplay, detail));
        }
        let rows = shared.store().journal_after(JournalSeq(seq.0.saturating_sub(1)), 1).await?;
        let row = rows.first().filter(|row| row.seq == seq && stored.endpoint.filter.wants(row));
        let Some((row, name)) = row.and_then(|row| Some((row, row.entry.event()?))) else {
            let detail =
                format!("there is no event {seq} that this webhook wants; its history may have been removed");
            return Err(Problem::new(Code::NotFound, detail));
        };
        let known = shared.records.record(RecordKind::Delivery, &row_id(&id, seq)).await?;
        let version = known.as_ref().map_or(0, |record| record.version);
        let delivery = Delivery {
            order: row.tx.map_or(OrderOf::Lane(row.lane), OrderOf::Tx),
            event: name.to_owned(),
            state: DeliveryState::Waiting,
            failures: 0,
            due: shared.now(),
            first_tried: None,
            last_tried: None,
            last_failure: None,
        };
        let mut endpoint = stored.endpoint.clone();
        endpoint.epoch += 1;
        endpoint.progress.waiting += u64::from(known.is_none());
        let writes = vec![delivery.write(&id, seq, version)?, stored.change(&endpoint)?];
        if shared.records.write_records(writes).await? == RecordsWritten::Yes {
            shared.kick();
            return Ok((StatusCode::ACCEPTED, Json(shown_delivery(&caller, &id, seq, &delivery))));
        }
    }
    Err(busy())
}

/// An endpoint that the caller may know of.
async fn find(app: &App, caller: &Caller, id: &str) -> Answer<Stored> {
    let record = app.records.record(RecordKind::Webhook, id).await?;
    let stored = record.map(Stored::read).transpose()?.filter(|stored| may_see(caller, stored));
    stored.ok_or_else(|| Problem::new(Code::NotFound, format!("there is no webhook {id}")))
}

/// A caller that is limited to signers or chains sees endpoints that are limited to some of these.
fn may_see(caller: &Caller, stored: &Stored) -> bool {
    let Filter { signers, chains, .. } = &stored.endpoint.filter;
    let signers = caller.signers.is_none()
        || (!signers.is_empty() && signers.iter().all(|signer| caller.sees(*signer)));
    let chains = caller.chains.is_none()
        || (!chains.is_empty() && chains.iter().all(|chain| caller.sees_chain(*chain)));
    signers && chains
}

/// Reads, changes and writes, again if somebody else was faster.
async fn update(
    app: &App,
    caller: &Caller,
    id: &str,
    change: impl Fn(&mut Endpoint, Millis) -> Answer<()>,
) -> Answer<Stored> {
    let shared = &app.desk.shared;
    for _ in 0..TRIES {
        let stored = find(app, caller, id).await?;
        let mut endpoint = stored.endpoint.clone();
        change(&mut endpoint, shared.now())?;
        if endpoint == stored.endpoint {
            return Ok(stored);
        }
        if shared.records.write_records(vec![stored.change(&endpoint)?]).await? == RecordsWritten::Yes {
            shared.kick();
            return Ok(Stored { id: stored.id, version: stored.version + 1, endpoint });
        }
    }
    Err(busy())
}

fn busy() -> Problem {
    Problem::new(
        Code::Busy,
        "others changed it at the same time, again and again; nothing was changed, try again",
    )
}

fn no_secret(app: &App) -> Problem {
    let env = &app.desk.shared.settings.secret_env;
    let detail = format!(
        "the secrets of webhooks are derived from one of the installation's, and there is none: set the variable {env} of \
         the server to at least 32 random characters (`openssl rand -base64 32`), the same on all nodes, and start it again"
    );
    Problem::new(Code::WebhooksOff, detail)
}

fn check_url(app: &App, url: &str) -> Answer<()> {
    let checked = app.desk.shared.sender.reach.url(url);
    checked.map(drop).map_err(|why| Problem::at(Code::BadUrl, "url", why))
}

fn description(fields: &mut Fields) -> Answer<Option<String>> {
    short(fields.text("description")?, "description")
}

fn short(text: Option<String>, field: &str) -> Answer<Option<String>> {
    match text {
        Some(text) if text.len() > LONGEST_TEXT => {
            let detail = format!("{field} may have at most {LONGEST_TEXT} bytes");
            Err(Problem::at(Code::BadValue, field, detail))
        }
        text => Ok(text),
    }
}

/// Lists that are there take the place of the old ones; an empty one stands for all.
fn read_filter(fields: &mut Fields, filter: &mut Filter) -> Answer<()> {
    if let Some(names) = items(fields, "events")? {
        let mut events = BTreeSet::new();
        for (path, value) in names {
            let name = value.as_str().ok_or_else(|| wrong_type(&path, "a string", &value))?;
            events.insert(event::known_name(name, Code::BadValue, &path)?);
        }
        filter.events = events;
    }
    if let Some(ids) = items(fields, "chains")? {
        let id = |(path, value): (String, Value)| {
            value.as_u64().map(ChainId).ok_or_else(|| wrong_type(&path, "the number of a chain", &value))
        };
        filter.chains = ids.into_iter().map(id).collect::<Answer<_>>()?;
    }
    if let Some(accounts) = items(fields, "signers")? {
        let account = |(path, value): (String, Value)| -> Answer<Account> {
            let text = value.as_str().ok_or_else(|| wrong_type(&path, "a string", &value))?;
            body::address(&path, text)
        };
        filter.signers = accounts.into_iter().map(account).collect::<Answer<_>>()?;
    }
    Ok(())
}

/// A list's items with their paths.
fn items(fields: &mut Fields, name: &str) -> Answer<Option<Vec<(String, Value)>>> {
    const MOST: usize = 1_000;
    match fields.take(name) {
        None => Ok(None),
        Some(Value::Array(list)) if list.len() > MOST => {
            Err(Problem::at(Code::BadValue, name, format!("{name} may have at most {MOST} entries")))
        }
        Some(Value::Array(list)) => {
            let with_path = |(position, value)| (format!("{name}[{position}]"), value);
            Ok(Some(list.into_iter().enumerate().map(with_path).collect()))
        }
        Some(other) => Err(wrong_type(name, "a list", &other)),
    }
}

/// Nobody can have events delivered that it may not see.
fn limit(caller: &Caller, filter: &mut Filter) -> Answer<()> {
    let Some(own) = &caller.signers else { return Ok(()) };
    if filter.signers.is_empty() {
        filter.signers.extend(own.iter().copied());
    }
    match filter.signers.iter().find(|signer| !caller.sees(**signer)) {
        Some(signer) => {
            Err(Problem::at(Code::Forbidden, "signers", format!("this API key is not for signer {signer}")))
        }
        // A key that is for no signer: an empty filter would stand for all.
        None if filter.signers.is_empty() => {
            Err(Problem::at(Code::Forbidden, "signers", "this API key is for no signer"))
        }
        None => Ok(()),
    }
}

/// The caller may see all of where events go. For the others a URL ends with its host, and failures have no words of the
/// receiver: tokens are in the one and come back in the other.
fn sees_tokens(caller: &Caller) -> bool {
    caller.is(Role::Operator)
}

fn shown(app: &App, caller: &Caller, stored: &Stored, newest: JournalSeq) -> Value {
    let Stored { id, endpoint, .. } = stored;
    let open = sees_tokens(caller);
    let url = if open { endpoint.url.clone() } else { host_only(&endpoint.url) };
    let failure = |text: &str| if open { text.to_owned() } else { without_words(text).to_owned() };
    let settings = &app.desk.shared.settings;
    let Endpoint { filter, progress, keys, .. } = endpoint;
    let (enabled, off_why, off_since) = match &endpoint.switch {
        Switch::On => (true, None, None),
        Switch::Off { why, since } => (false, Some(failure(why)), Some(time(*since))),
    };
    let last_failure = progress.last_failure.as_deref().map(failure);
    let now = app.desk.shared.now();
    let trouble = off_why
        .or_else(|| endpoint.hindrance(settings))
        .or_else(|| trouble(app, progress, last_failure.as_deref()));
    json!({
        "id": id,
        "url": url,
        "description": endpoint.description,
        "events": filter.events,
        "chains": filter.chains,
        "signers": filter.signers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "createdAt": time(endpoint.created_at),
        "enabled": enabled,
        "healthy": trouble.is_none(),
        "trouble": trouble,
        "disabledSince": off_since,
        "cursor": progress.cursor,
        "behind": (newest.0 - progress.cursor.0).max(0),
        "waiting": progress.waiting,
        "deliveredAt": progress.delivered_at.map(time),
        "failingSince": progress.failing_since.map(time),
        "lastFailure": last_failure,
        "node": endpoint.claim.as_ref().map(|claim| claim.node.clone()),
        "secretGeneration": keys.generation,
        "retiringSecrets": keys.retiring.iter().filter(|old| old.until > now).map(|old| {
            json!({ "generation": old.generation, "until": time(old.until) })
        }).collect::<Vec<_>>(),
    })
}

/// Why events are late.
fn trouble(app: &App, progress: &Progress, last_failure: Option<&str>) -> Option<String> {
    let settings = &app.desk.shared.settings;
    if progress.waiting >= settings.max_waiting as u64 {
        return Some(format!(
            "{} events wait to be tried again, as many as webhooks.max_waiting allows: new ones wait behind them",
            progress.waiting
        ));
    }
    let since = progress.failing_since?;
    let last = last_failure.unwrap_or("unknown");
    Some(format!(
        "nothing has got through since {}; the last failure: {last}. It is tried again and again, and switched off \
         after {}",
        time(since).as_str().unwrap_or_default(),
        span(settings.give_up_after)
    ))
}

fn shown_delivery(caller: &Caller, id: &str, seq: JournalSeq, delivery: &Delivery) -> Value {
    let (tx, lane) = match delivery.order {
        OrderOf::Tx(tx) => (Some(tx), None),
        OrderOf::Lane(lane) => (None, Some(lane.to_string())),
    };
    let is_waiting = delivery.state == DeliveryState::Waiting;
    let last_failure = delivery.last_failure.as_deref();
    let last_failure = if sees_tokens(caller) { last_failure } else { last_failure.map(without_words) };
    json!({
        "seq": seq,
        "messageId": crate::webhooks::message_id(id, seq),
        "event": delivery.event,
        "txId": tx,
        "lane": lane,
        "state": delivery.state.name(),
        "failures": delivery.failures,
        "dueAt": is_waiting.then(|| time(delivery.due)),
        "firstTriedAt": delivery.first_tried.map(time),
        "lastTriedAt": delivery.last_tried.map(time),
        "lastFailure": last_failure,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn only(signers: &[Account]) -> Caller {
        let mut caller = Caller::anyone();
        caller.signers = Some(Arc::new(signers.iter().copied().collect()));
        caller
    }

    fn account(n: u8) -> Account {
        Account([n; 20].into())
    }

    #[test]
    fn a_caller_limited_to_signers_cannot_have_others_events_delivered() {
        let caller = only(&[account(1), account(2)]);
        let mut all = Filter::default();
        limit(&caller, &mut all).unwrap();
        assert_eq!(all.signers, BTreeSet::from([account(1), account(2)]));
        let mut others = Filter { signers: BTreeSet::from([account(1), account(3)]), ..Filter::default() };
        assert!(limit(&caller, &mut others).is_err());
        assert!(limit(&only(&[]), &mut Filter::default()).is_err());
        let mut any = Filter::default();
        limit(&Caller::anyone(), &mut any).unwrap();
        assert!(any.signers.is_empty());
    }
}
