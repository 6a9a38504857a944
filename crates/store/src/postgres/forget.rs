//! Removing the history of what ended long ago, in small steps, each a transaction of its own. What stays is a row in
//! `kept`: the id, the key, the call and how it ended, so that a late retry is still answered and never lands again.
//!
//! A key goes from `tx` to `kept` while somebody may be inserting it: the insert waits for the removal, finds the key
//! free, and would go through. So every admission looks into `kept` after its insert, by a statement of its own.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::ClientWrapper;
use landfall_core::ports::store::{Admission, Forget, Forgotten, Kept};
use landfall_core::request::{CallId, NewTransaction};
use landfall_core::transaction::Transaction;
use landfall_core::{Account, ChainId, LaneId, QueueOrder, RequestId, TxHash, TxId};
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::commit;
use super::error::Fault;
use super::lanes::LaneNumbers;
use super::rows::{self, bits};
use crate::columns::call_columns;
use crate::rules;

/// Looks at the next transactions in their order and removes those that may go. The caller begins and commits.
pub(super) async fn forget(db: &ClientWrapper, namespace: i64, step: Forget) -> Result<Forgotten, Fault> {
    let limit = i64::from(step.limit);
    let lanes = "SELECT DISTINCT lane FROM (SELECT lane FROM tx WHERE ord > $1 AND namespace = $2
         ORDER BY ord LIMIT $3) AS old";
    let lanes = db.prepare_cached(lanes).await?;
    let lanes = db.query(&lanes, &[&step.after.0, &namespace, &limit]).await?;
    let lanes = lanes.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    // Their owners wait, or we wait for them; what is read after that stays true.
    let lock = db.prepare_cached(commit::LOCK).await?;
    db.query(&lock, &[&lanes]).await?;

    let old = format!(
        "SELECT {}, tx.lane, EXISTS (SELECT 1 FROM attempt
            WHERE attempt.tx = tx.id AND attempt.lane = tx.lane AND attempt.open
                AND (attempt.apart OR attempt.slot >= lane.closed))
         FROM tx JOIN lane ON lane.id = tx.lane
         WHERE tx.ord > $1 AND tx.namespace = $2 ORDER BY tx.ord LIMIT $3",
        rows::TX_COLUMNS
    );
    let old = db.prepare_cached(&old).await?;
    let old = db.query(&old, &[&step.after.0, &namespace, &limit]).await?;
    let newest = newest(db, namespace).await?;
    forget_commands(db, namespace, step).await?;
    let locked: BTreeSet<i64> = lanes.into_iter().collect();
    let mut going = Vec::new();
    let mut last = None;
    let seen = old.len();
    for row in &old {
        let tx = rows::tx(row)?;
        let (lane, open): (i64, bool) = (row.try_get(6)?, row.try_get(7)?);
        if rules::is_young(&tx, step.before) {
            let removed = remove(db, namespace, &going).await?;
            return Ok(Forgotten { removed, next: None });
        }
        last = Some(tx.order);
        // The newest of all stays, as in every adapter, and what came in after the locks were taken.
        let stays = newest.contains(&tx.id) || !locked.contains(&lane);
        if rules::may_go(&tx, step.before) && !stays && !open {
            going.push((tx, lane));
        }
    }
    let removed = remove(db, namespace, &going).await?;
    let more = seen >= usize::try_from(step.limit).unwrap_or(usize::MAX);
    Ok(Forgotten { removed, next: last.filter(|_: &QueueOrder| more) })
}

/// Removes some of the applied commands that are no transaction's.
async fn forget_commands(db: &ClientWrapper, namespace: i64, step: Forget) -> Result<(), Fault> {
    // What another node is about to remove is left to it.
    let sql = "DELETE FROM command WHERE seq IN (
            SELECT seq FROM command WHERE namespace = $1 AND done AND tx IS NULL AND at < $2
            LIMIT $3 FOR UPDATE SKIP LOCKED)";
    let delete = db.prepare_cached(sql).await?;
    db.execute(&delete, &[&namespace, &bits(step.before.0), &rules::COMMANDS_AT_ONCE]).await?;
    Ok(())
}

/// The newest transaction, and the one that the newest journal entry is about.
async fn newest(db: &ClientWrapper, namespace: i64) -> Result<BTreeSet<TxId>, Fault> {
    let tx = db.prepare_cached("SELECT id FROM tx WHERE namespace = $1 ORDER BY ord DESC LIMIT 1").await?;
    let told =
        db.prepare_cached("SELECT tx FROM journal WHERE namespace = $1 ORDER BY seq DESC LIMIT 1").await?;
    let mut newest = BTreeSet::new();
    for statement in [&tx, &told] {
        if let Some(row) = db.query_opt(statement, &[&namespace]).await?
            && let Some(id) = row.try_get::<_, Option<Uuid>>(0)?
        {
            newest.insert(TxId(id));
        }
    }
    Ok(newest)
}

async fn remove(db: &ClientWrapper, namespace: i64, going: &[(Transaction, i64)]) -> Result<u32, Fault> {
    if going.is_empty() {
        return Ok(0);
    }
    let ids: Vec<Uuid> = going.iter().map(|(tx, _)| tx.id.0).collect();
    let lanes: Vec<i64> = going.iter().map(|(_, lane)| *lane).collect();
    let ords: Vec<i64> = going.iter().map(|(tx, _)| tx.order.0).collect();
    let signers: Vec<&[u8]> = going.iter().map(|(tx, _)| tx.lane.signer.0.as_slice()).collect();
    let keys: Vec<Option<&str>> =
        going.iter().map(|(tx, _)| tx.request.request_id.as_ref().map(RequestId::as_str)).collect();
    let kept: Vec<Kept> = going.iter().map(|(tx, _)| Kept::of(tx)).collect();
    let details = kept.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    let first: Vec<Option<&[u8]>> =
        kept.iter().map(|kept| kept.first_hash.as_ref().map(|hash| hash.0.as_slice())).collect();
    let keep = db
        .prepare_cached(
            // Of several that gave one nonce before calls were known, one has it.
            "INSERT INTO kept (namespace, id, signer, request_id, details, lane, api_key, caller_nonce, first_hash)
             SELECT $1, u.id, u.signer, u.key, u.details, u.lane, tx.api_key, tx.caller_nonce, u.first_hash
             FROM unnest($2::uuid[], $3::bytea[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bytea[])
                AS u (id, signer, key, details, lane, ord, first_hash)
             JOIN tx ON tx.ord = u.ord",
        )
        .await?;
    db.execute(&keep, &[&namespace, &ids, &signers, &keys, &details, &lanes, &ords, &first]).await?;
    // One that was not applied yet is finished by its lane, and then goes by its age.
    for sql in [
        "DELETE FROM command WHERE tx = ANY ($1::uuid[]) AND namespace = $2 AND done",
        "UPDATE command SET tx = NULL WHERE tx = ANY ($1::uuid[]) AND namespace = $2",
    ] {
        let statement = db.prepare_cached(sql).await?;
        db.execute(&statement, &[&ids, &namespace]).await?;
    }
    for table in ["attempt", "journal"] {
        let delete = format!(
            "DELETE FROM {table} USING unnest($1::uuid[], $2::bigint[]) AS u (tx, lane)
             WHERE {table}.tx = u.tx AND {table}.lane = u.lane"
        );
        let delete = db.prepare_cached(&delete).await?;
        db.execute(&delete, &[&ids, &lanes]).await?;
    }
    let delete = db.prepare_cached("DELETE FROM tx WHERE ord = ANY ($1::bigint[])").await?;
    let removed = db.execute(&delete, &[&ords]).await?;
    Ok(u32::try_from(removed).unwrap_or(u32::MAX))
}

/// What stayed under the keys, ids and nonces of some admissions.
#[derive(Default)]
pub(super) struct Stayed {
    by_key: BTreeMap<(Account, RequestId), Kept>,
    by_id: BTreeMap<TxId, Kept>,
    by_call: BTreeMap<(LaneId, CallId), Kept>,
}

/// By ids and by keys.
pub(super) const STAYED: &str =
    "SELECT kept.details FROM kept WHERE kept.id = ANY ($2::uuid[]) AND kept.namespace = $1
     UNION ALL
     SELECT kept.details FROM unnest($3::bytea[], $4::text[]) AS u (signer, key)
     JOIN kept ON kept.signer = u.signer AND kept.request_id = u.key AND kept.namespace = $1
        AND kept.request_id IS NOT NULL";

/// By calls.
pub(super) const STAYED_CALLS: &str =
    "SELECT kept.details FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS u (lane, api_key, nonce)
     JOIN kept ON kept.lane = u.lane AND kept.api_key = u.api_key AND kept.caller_nonce = u.nonce
        AND kept.caller_nonce IS NOT NULL";

impl Stayed {
    pub(super) async fn read(
        db: &ClientWrapper,
        namespace: i64,
        news: &[&NewTransaction],
    ) -> Result<Self, Fault> {
        let find = db.prepare_cached(STAYED).await?;
        Self::of(&Self::rows(db, &find, namespace, news).await?)
    }

    /// What [`STAYED`] finds for some admissions.
    pub(super) async fn rows(
        db: &ClientWrapper,
        find: &Statement,
        namespace: i64,
        news: &[&NewTransaction],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        if news.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = news.iter().map(|new| new.id.0).collect();
        let (signers, keys): (Vec<&[u8]>, Vec<&str>) = news
            .iter()
            .filter_map(|new| Some((new.lane.signer.0.as_slice(), new.request.request_id.as_ref()?.as_str())))
            .unzip();
        db.query(find, &[&namespace, &ids, &signers, &keys]).await
    }

    pub(super) fn of<'r>(found: impl IntoIterator<Item = &'r Row>) -> Result<Self, Fault> {
        let mut stayed = Self::default();
        for row in found {
            let kept: Kept = rows::json("kept.details", row.try_get(0)?)?;
            if let Some(key) = kept.request_id.clone() {
                stayed.by_key.insert((kept.lane.signer, key), kept.clone());
            }
            if let Some(call) = &kept.call {
                stayed.by_call.insert((kept.lane, call.id.clone()), kept.clone());
            }
            stayed.by_id.insert(kept.id, kept);
        }
        Ok(stayed)
    }

    /// What an admission amounts to, if what it names by key or id was removed.
    pub(super) fn answer(&self, new: &NewTransaction) -> Option<Result<Admission, Fault>> {
        let key = new.request.request_id.clone().map(|key| (new.lane.signer, key));
        if let Some(kept) = key.and_then(|key| self.by_key.get(&key)) {
            return Some(Ok(rules::kept_under_key(kept.clone(), new)));
        }
        let kept = self.by_id.get(&new.id)?;
        Some(rules::kept_under_id(kept.clone(), new).map_err(Fault::Refused))
    }

    /// What an admission amounts to, if its caller gave its nonce with one that was removed.
    pub(super) fn under_nonce(&self, new: &NewTransaction) -> Option<Admission> {
        let call = (new.lane, new.request.call()?.clone());
        Some(rules::kept_under_nonce(self.by_call.get(&call)?.clone(), new))
    }

    /// The remainder of a removed call from before keys that an admission repeats.
    pub(super) fn before_keys(&self, new: &NewTransaction) -> Option<Admission> {
        let call = (new.lane, new.request.call()?.before_keys()?);
        rules::kept_under_nonce(self.by_call.get(&call)?.clone(), new).if_the_same()
    }
}

/// What stayed under an id.
pub(super) async fn by_id(db: &ClientWrapper, namespace: i64, id: TxId) -> Result<Option<Kept>, Fault> {
    let find = db.prepare_cached("SELECT details FROM kept WHERE id = $1 AND namespace = $2").await?;
    let row = db.query_opt(&find, &[&id.0, &namespace]).await?;
    row.map(|row| rows::json("kept.details", row.try_get(0)?)).transpose()
}

/// What stayed under a signer's key.
pub(super) async fn by_request(
    db: &ClientWrapper,
    namespace: i64,
    signer: Account,
    request: &RequestId,
) -> Result<Option<Kept>, Fault> {
    let find = "SELECT details FROM kept WHERE signer = $1 AND request_id = $2 AND namespace = $3";
    let find = db.prepare_cached(find).await?;
    let row = db.query_opt(&find, &[&signer.0.as_slice(), &request.as_str(), &namespace]).await?;
    row.map(|row| rows::json("kept.details", row.try_get(0)?)).transpose()
}

/// What stayed of a call.
pub(super) async fn by_call(
    db: &ClientWrapper,
    namespace: i64,
    numbers: &LaneNumbers,
    lane: LaneId,
    call: &CallId,
) -> Result<Option<Kept>, Fault> {
    let Some(lane) = numbers.find(db, namespace, [lane]).await?.remove(&lane) else { return Ok(None) };
    let (key, nonce) = call_columns(call);
    let find = "SELECT details FROM kept WHERE lane = $1 AND api_key = $2 AND caller_nonce = $3";
    let find = db.prepare_cached(find).await?;
    let row = db.query_opt(&find, &[&lane, &key, &nonce]).await?;
    row.map(|row| rows::json("kept.details", row.try_get(0)?)).transpose()
}

/// What stayed of one whose callers were told this hash, if another one won.
pub(super) async fn by_first_hash(
    db: &ClientWrapper,
    namespace: i64,
    chain: ChainId,
    hash: TxHash,
) -> Result<Option<Kept>, Fault> {
    let find = "SELECT kept.details FROM kept JOIN lane ON lane.id = kept.lane
         WHERE kept.first_hash = $1 AND kept.namespace = $2 AND lane.chain = $3 LIMIT 1";
    let find = db.prepare_cached(find).await?;
    let row = db.query_opt(&find, &[&hash.0.as_slice(), &namespace, &bits(chain.0)]).await?;
    row.map(|row| rows::json("kept.details", row.try_get(0)?)).transpose()
}
