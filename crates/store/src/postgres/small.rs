//! The small writes of a group: commands, and what is remembered of chains.

use std::collections::BTreeMap;

use deadpool_postgres::ClientWrapper;
use landfall_core::LaneId;
use landfall_core::ports::store::{ChainRecord, Command};
use tokio_postgres::Statement;
use uuid::Uuid;

use super::error::Fault;
use super::rows::bits;
use crate::command_text::command_text;

/// Commands, column by column. One is accepted once, however often it is inserted.
#[derive(Default)]
pub(super) struct CommandRows {
    ids: Vec<Uuid>,
    lanes: Vec<i64>,
    times: Vec<i64>,
    kinds: Vec<String>,
    txs: Vec<Option<Uuid>>,
}

impl CommandRows {
    pub(super) const INSERT: &'static str = "INSERT INTO command (namespace, id, lane, at, kind, tx)
         SELECT $1, u.id, u.lane, u.at, u.kind, u.tx
         FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::uuid[]) AS u (id, lane, at, kind, tx)
         ON CONFLICT DO NOTHING";

    pub(super) fn of(commands: &[(usize, &Command)], lanes: &BTreeMap<LaneId, i64>) -> Result<Self, Fault> {
        let mut rows = Self::default();
        for (_, command) in commands {
            let lane = lanes.get(&command.lane);
            let lane = lane.ok_or_else(|| Fault::corrupt("lane", "the lane of a command was not kept"))?;
            rows.ids.push(command.id.0);
            rows.lanes.push(*lane);
            rows.times.push(bits(command.at.0));
            rows.kinds.push(command_text(command)?);
            rows.txs.push(command.kind.tx().map(|tx| tx.0));
        }
        Ok(rows)
    }

    pub(super) async fn insert(
        &self,
        db: &ClientWrapper,
        statement: &Statement,
        namespace: i64,
    ) -> Result<(), tokio_postgres::Error> {
        if !self.ids.is_empty() {
            let Self { ids, lanes, times, kinds, txs } = self;
            db.execute(statement, &[&namespace, ids, lanes, times, kinds, txs]).await?;
        }
        Ok(())
    }
}

/// What is remembered of chains, column by column. The last one of a chain counts.
#[derive(Default)]
pub(super) struct ChainRows {
    chains: Vec<i64>,
    records: Vec<String>,
}

impl ChainRows {
    pub(super) const PUT: &'static str = "INSERT INTO chain (namespace, chain, record)
         SELECT $1, u.chain, u.record FROM unnest($2::bigint[], $3::text[]) AS u (chain, record)
         ON CONFLICT (namespace, chain) DO UPDATE SET record = excluded.record";

    pub(super) fn of(chains: &[(usize, &ChainRecord)]) -> Result<Self, Fault> {
        let last: BTreeMap<_, _> = chains.iter().map(|(_, record)| (record.chain, record)).collect();
        let mut rows = Self::default();
        for (chain, record) in last {
            rows.chains.push(bits(chain.0));
            rows.records.push(serde_json::to_string(record)?);
        }
        Ok(rows)
    }

    pub(super) async fn put(
        &self,
        db: &ClientWrapper,
        statement: &Statement,
        namespace: i64,
    ) -> Result<(), tokio_postgres::Error> {
        if !self.chains.is_empty() {
            db.execute(statement, &[&namespace, &self.chains, &self.records]).await?;
        }
        Ok(())
    }
}
