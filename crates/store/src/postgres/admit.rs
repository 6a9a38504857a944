//! Admissions: one row per signer and key, for ever, and one per call.
//!
//! All of a group are one statement. Rows are inserted in the order of their keys, so that two groups that bring the
//! same keys wait for each other and never crosswise; the queue's order comes from numbers that were drawn before.

use std::collections::BTreeMap;

use deadpool_postgres::ClientWrapper;
use landfall_core::ports::store::Admission;
use landfall_core::request::{CallId, NewTransaction};
use landfall_core::transaction::Transaction;
use landfall_core::{Account, LaneId, QueueOrder, RequestId, TxId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::error::Fault;
use super::group::Value;
use super::rows::{self, phase_code, state_code};
use crate::columns::call_columns;
use crate::rules::{self, Phase};

/// What the store already has under the keys, ids and nonces of some admissions.
#[derive(Default)]
pub(super) struct Known {
    by_key: BTreeMap<(Account, RequestId), Transaction>,
    by_id: BTreeMap<TxId, Transaction>,
    by_call: BTreeMap<(LaneId, CallId), Transaction>,
}

/// The calls of some admissions, column by column.
#[derive(Default)]
pub(super) struct Calls<'a> {
    pub(super) lanes: Vec<i64>,
    pub(super) keys: Vec<&'a str>,
    pub(super) nonces: Vec<i64>,
}

impl<'a> Calls<'a> {
    /// Of those that gave a nonce. A lane without a number has no calls that are known.
    pub(super) fn of(news: &[&'a NewTransaction], lanes: &BTreeMap<LaneId, i64>) -> Self {
        let mut calls = Self::default();
        for new in news {
            let (Some(call), Some(lane)) = (new.request.call(), lanes.get(&new.lane)) else { continue };
            let (key, nonce) = call_columns(call);
            calls.push(*lane, key, nonce);
        }
        calls
    }

    /// Of those that gave a nonce and have a key: the same from before keys.
    pub(super) fn before_keys(news: &[&NewTransaction], lanes: &BTreeMap<LaneId, i64>) -> Self {
        let mut calls = Self::default();
        for new in news {
            let earlier = new.request.call().and_then(CallId::before_keys);
            let (Some(call), Some(lane)) = (earlier, lanes.get(&new.lane)) else { continue };
            calls.push(*lane, "", call_columns(&call).1);
        }
        calls
    }

    fn push(&mut self, lane: i64, key: &'a str, nonce: i64) {
        self.lanes.push(lane);
        self.keys.push(key);
        self.nonces.push(nonce);
    }

    pub(super) fn append(&mut self, more: &Self) {
        self.lanes.extend(&more.lanes);
        self.keys.extend(&more.keys);
        self.nonces.extend(&more.nonces);
    }
}

impl Known {
    /// Looks all of them up.
    pub(super) async fn read(
        db: &ClientWrapper,
        namespace: i64,
        news: &[&NewTransaction],
        lanes: &BTreeMap<LaneId, i64>,
    ) -> Result<Self, Fault> {
        let mut known = Self::default();
        if news.is_empty() {
            return Ok(known);
        }
        known.read_calls(db, &Calls::of(news, lanes)).await?;
        let (signers, keys): (Vec<&[u8]>, Vec<&str>) = news
            .iter()
            .filter_map(|new| Some((new.lane.signer.0.as_slice(), new.request.request_id.as_ref()?.as_str())))
            .unzip();
        let by_key = format!(
            "SELECT {} FROM unnest($2::bytea[], $3::text[]) AS u (signer, key)
             JOIN tx ON tx.namespace = $1 AND tx.signer = u.signer AND tx.request_id = u.key
                AND tx.request_id IS NOT NULL
             JOIN lane ON lane.id = tx.lane",
            rows::TX_COLUMNS
        );
        let by_key = db.prepare_cached(&by_key).await?;
        for row in db.query(&by_key, &[&namespace, &signers, &keys]).await? {
            let tx = rows::tx(&row)?;
            if let Some(key) = tx.request.request_id.clone() {
                known.by_key.insert((tx.lane.signer, key), tx);
            }
        }
        let ids: Vec<Uuid> = news.iter().map(|new| new.id.0).collect();
        let by_id = format!(
            "SELECT {} FROM tx JOIN lane ON lane.id = tx.lane
             WHERE tx.namespace = $1 AND tx.id = ANY ($2::uuid[])",
            rows::TX_COLUMNS
        );
        let by_id = db.prepare_cached(&by_id).await?;
        for row in db.query(&by_id, &[&namespace, &ids]).await? {
            let tx = rows::tx(&row)?;
            known.by_id.insert(tx.id, tx);
        }
        Ok(known)
    }

    async fn read_calls(&mut self, db: &ClientWrapper, calls: &Calls<'_>) -> Result<(), Fault> {
        if calls.lanes.is_empty() {
            return Ok(());
        }
        let by_call = format!(
            "SELECT {} FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS u (lane, api_key, nonce)
             JOIN tx ON tx.lane = u.lane AND tx.api_key = u.api_key AND tx.caller_nonce = u.nonce
                AND tx.caller_nonce IS NOT NULL
             JOIN lane ON lane.id = tx.lane",
            rows::TX_COLUMNS
        );
        let by_call = db.prepare_cached(&by_call).await?;
        self.take_calls(&db.query(&by_call, &[&calls.lanes, &calls.keys, &calls.nonces]).await?)
    }

    /// Transactions that were looked up by their calls.
    pub(super) fn take_calls(&mut self, found: &[Row]) -> Result<(), Fault> {
        for row in found {
            let tx = rows::tx(row)?;
            if let Some(call) = tx.request.call().cloned() {
                self.by_call.insert((tx.lane, call), tx);
            }
        }
        Ok(())
    }

    /// What an admission amounts to, if its key or id is known. `again`: it was tried before and may have landed, so
    /// what stands under its own id is its own work. What came later than this one does not count.
    pub(super) fn answer(
        &self,
        new: &NewTransaction,
        again: bool,
        is_later: impl Fn(&Transaction) -> bool,
    ) -> Option<Result<Admission, Fault>> {
        let key = new.request.request_id.clone().map(|key| (new.lane.signer, key));
        let replay = |existing: &Transaction| {
            if again && existing.id == new.id {
                Admission::New(existing.clone())
            } else {
                Admission::Replay(existing.clone())
            }
        };
        if let Some(existing) = key.and_then(|key| self.by_key.get(&key)).filter(|tx| !is_later(tx)) {
            return Some(Ok(if rules::asks_the_same(existing, new) {
                replay(existing)
            } else {
                Admission::Conflict(existing.id)
            }));
        }
        let existing = self.by_id.get(&new.id)?;
        Some(if rules::is_again(existing, new) {
            Ok(replay(existing))
        } else {
            Err(Fault::Refused(rules::id_taken(existing.id)))
        })
    }

    /// What an admission amounts to, if its caller gave its nonce before.
    pub(super) fn under_nonce(&self, new: &NewTransaction) -> Option<Admission> {
        let call = (new.lane, new.request.call()?.clone());
        Some(rules::under_nonce(self.by_call.get(&call)?.clone(), new))
    }

    /// The call from before keys that an admission repeats.
    pub(super) fn before_keys(
        &self,
        new: &NewTransaction,
        is_later: impl Fn(&Transaction) -> bool,
    ) -> Option<Admission> {
        let call = (new.lane, new.request.call()?.before_keys()?);
        let earlier = self.by_call.get(&call).filter(|tx| !is_later(tx))?;
        rules::under_nonce(earlier.clone(), new).if_the_same()
    }
}

/// Transactions of calls from before keys.
pub(super) fn before_keys() -> String {
    format!(
        "SELECT {} FROM unnest($1::bigint[], $2::bigint[]) AS u (lane, nonce)
         JOIN tx ON tx.api_key = '' AND tx.lane = u.lane AND tx.caller_nonce = u.nonce AND tx.caller_nonce IS NOT NULL
         JOIN lane ON lane.id = tx.lane",
        rows::TX_COLUMNS
    )
}

/// The rows of admissions, column by column.
#[derive(Default)]
pub(super) struct Rows<'a> {
    ords: Vec<i64>,
    ids: Vec<Uuid>,
    lanes: Vec<i64>,
    signers: Vec<&'a [u8]>,
    keys: Vec<Option<&'a str>>,
    requests: Vec<String>,
    statuses: Vec<String>,
    api_keys: Vec<Option<&'a str>>,
    nonces: Vec<Option<i64>>,
}

/// For admissions without a caller's nonce, and for groups in which some have one.
pub(super) const INSERT: &str =
    "INSERT INTO tx (namespace, ord, id, lane, signer, request_id, phase, state, request, status)
     SELECT $1, u.ord, u.id, u.lane, u.signer, u.key, $2, $3, u.request, u.status
     FROM unnest($4::bigint[], $5::uuid[], $6::bigint[], $7::bytea[], $8::text[], $9::text[], $10::text[])
        AS u (ord, id, lane, signer, key, request, status)
     ON CONFLICT DO NOTHING RETURNING ord";

pub(super) const INSERT_CALLS: &str =
    "INSERT INTO tx (namespace, ord, id, lane, signer, request_id, phase, state, request, status, api_key, caller_nonce)
     SELECT $1, u.ord, u.id, u.lane, u.signer, u.key, $2, $3, u.request, u.status, u.api_key, u.nonce
     FROM unnest($4::bigint[], $5::uuid[], $6::bigint[], $7::bytea[], $8::text[], $9::text[], $10::text[],
            $11::text[], $12::bigint[])
        AS u (ord, id, lane, signer, key, request, status, api_key, nonce)
     ON CONFLICT DO NOTHING RETURNING ord";

impl<'a> Rows<'a> {
    /// Admissions with the numbers drawn for them, one for each in their order.
    pub(super) fn of(
        news: &[&'a NewTransaction],
        ords: &[i64],
        lanes: &BTreeMap<LaneId, i64>,
    ) -> Result<Self, Fault> {
        let mut sorted: Vec<(&'a NewTransaction, i64)> =
            news.iter().copied().zip(ords.iter().copied()).collect();
        sorted.sort_by(|(a, at), (b, bt)| key_of(a).cmp(&key_of(b)).then(at.cmp(bt)));
        let mut rows = Self::default();
        for (new, ord) in sorted {
            let lane = lanes
                .get(&new.lane)
                .ok_or_else(|| Fault::corrupt("lane", format!("lane {} was not kept", new.lane)))?;
            rows.ords.push(ord);
            rows.ids.push(new.id.0);
            rows.lanes.push(*lane);
            rows.signers.push(new.lane.signer.0.as_slice());
            rows.keys.push(new.request.request_id.as_ref().map(RequestId::as_str));
            rows.requests.push(serde_json::to_string(&new.request)?);
            rows.statuses.push(serde_json::to_string(&rules::admitted(new, QueueOrder(ord)).status)?);
            let call = new.request.call().map(call_columns);
            rows.api_keys.push(call.map(|(key, _)| key));
            rows.nonces.push(call.map(|(_, nonce)| nonce));
        }
        Ok(rows)
    }

    /// Inserts those whose key, id and nonce are free, and answers their numbers. `has_calls`: the statement is
    /// [`INSERT_CALLS`].
    pub(super) async fn insert(
        &self,
        db: &ClientWrapper,
        statement: &tokio_postgres::Statement,
        namespace: i64,
        has_calls: bool,
    ) -> Result<Vec<i64>, tokio_postgres::Error> {
        if self.ords.is_empty() {
            return Ok(Vec::new());
        }
        let accepted = state_code(landfall_core::transaction::TxState::Accepted);
        let waiting = phase_code(Phase::Waiting);
        let mut values: Vec<Value<'_>> = vec![
            &namespace,
            &waiting,
            &accepted,
            &self.ords,
            &self.ids,
            &self.lanes,
            &self.signers,
            &self.keys,
            &self.requests,
            &self.statuses,
        ];
        if has_calls {
            values.extend([&self.api_keys as Value<'_>, &self.nonces]);
        }
        let found = db.query(statement, &values).await?;
        found.iter().map(|row| row.try_get(0)).collect()
    }
}

/// The call counts only without a key: of one key, the first of the queue has it.
fn key_of(new: &NewTransaction) -> (Account, Option<&RequestId>, Option<&CallId>) {
    let key = new.request.request_id.as_ref();
    (new.lane.signer, key, new.request.call().filter(|_| key.is_none()))
}
