//! The row numbers of lanes. Lanes are few, never deleted, and named by every write, so their numbers are remembered
//! once they are committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use deadpool_postgres::ClientWrapper;
use landfall_core::LaneId;

use super::error::Fault;
use super::rows::{self, bits};

/// Row numbers that were seen before.
#[derive(Default)]
pub(super) struct LaneNumbers(Mutex<BTreeMap<LaneId, i64>>);

impl LaneNumbers {
    pub(super) fn known(&self, lane: LaneId) -> Option<i64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&lane).copied()
    }

    fn remember(&self, found: &BTreeMap<LaneId, i64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
    }

    /// The numbers of those lanes that have a row.
    pub(super) async fn find(
        &self,
        db: &ClientWrapper,
        namespace: i64,
        lanes: impl IntoIterator<Item = LaneId>,
    ) -> Result<BTreeMap<LaneId, i64>, Fault> {
        let mut found = BTreeMap::new();
        let mut missing = BTreeSet::new();
        for lane in lanes {
            match self.known(lane) {
                Some(number) => {
                    found.insert(lane, number);
                }
                None => {
                    missing.insert(lane);
                }
            }
        }
        if !missing.is_empty() {
            let read = read(db, namespace, &missing).await?;
            self.remember(&read);
            found.extend(read);
        }
        Ok(found)
    }

    /// The numbers of all those lanes; one that was never heard of gets its row, with token and version 0.
    ///
    /// Rows are made in a transaction of their own, so that a group of writes holds no lock on new ones. A lane
    /// without anything in it does no harm.
    pub(super) async fn find_or_make(
        &self,
        db: &ClientWrapper,
        namespace: i64,
        lanes: impl IntoIterator<Item = LaneId> + Clone,
    ) -> Result<BTreeMap<LaneId, i64>, Fault> {
        let found = self.find(db, namespace, lanes.clone()).await?;
        let missing: BTreeSet<LaneId> = lanes.into_iter().filter(|lane| !found.contains_key(lane)).collect();
        if missing.is_empty() {
            return Ok(found);
        }
        let (chains, signers) = columns(&missing);
        let make = db
            .prepare_cached(
                "INSERT INTO lane (namespace, chain, signer)
                 SELECT $1, u.chain, u.signer FROM unnest($2::bigint[], $3::bytea[]) AS u (chain, signer)
                 ON CONFLICT DO NOTHING",
            )
            .await?;
        db.execute(&make, &[&namespace, &chains, &signers]).await?;
        let all = self.find(db, namespace, found.into_keys().chain(missing)).await?;
        Ok(all)
    }
}

fn columns(lanes: &BTreeSet<LaneId>) -> (Vec<i64>, Vec<&[u8]>) {
    lanes.iter().map(|lane| (bits(lane.chain.0), lane.signer.0.as_slice())).unzip()
}

async fn read(
    db: &ClientWrapper,
    namespace: i64,
    lanes: &BTreeSet<LaneId>,
) -> Result<BTreeMap<LaneId, i64>, Fault> {
    let (chains, signers) = columns(lanes);
    let find = db
        .prepare_cached(
            "SELECT lane.id, lane.chain, lane.signer
             FROM unnest($2::bigint[], $3::bytea[]) AS u (chain, signer)
             JOIN lane ON lane.namespace = $1 AND lane.signer = u.signer AND lane.chain = u.chain",
        )
        .await?;
    let mut found = BTreeMap::new();
    for row in db.query(&find, &[&namespace, &chains, &signers]).await? {
        found.insert(rows::lane(row.try_get(1)?, row.try_get(2)?)?, row.try_get(0)?);
    }
    Ok(found)
}
