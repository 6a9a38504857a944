//! What a write works in: the open database transaction, the namespace, and what the writer remembers.

use landfall_core::LaneId;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::Fault;
use super::known::{Known, LaneKey};
use super::rows::bits;

/// One write's view of the database.
pub(super) struct Scope<'a> {
    pub(super) db: &'a Connection,
    pub(super) namespace: i64,
    pub(super) known: &'a mut Known,
}

impl Scope<'_> {
    /// The lane's numbers, if it is known.
    pub(super) fn lane(&mut self, lane: LaneId) -> Result<Option<LaneKey>, Fault> {
        if let Some(key) = self.known.lanes.get(&lane) {
            return Ok(Some(*key));
        }
        let found = find_lane(self.db, self.namespace, lane)?;
        if let Some(key) = found {
            self.known.lanes.insert(lane, key);
        }
        Ok(found)
    }

    /// Takes the next numbers for so many journal entries, and gives the last of them. The newest row of the journal is never removed,
    /// so its number is the last that was taken.
    pub(super) fn take_journal_numbers(&mut self, count: usize) -> Result<i64, Fault> {
        let end = match self.known.journal_end {
            Some(end) => end,
            None => self
                .db
                .prepare_cached("SELECT COALESCE(max(seq), 0) FROM journal")?
                .query_row([], |row| row.get(0))?,
        };
        let last = end.saturating_add_unsigned(count as u64);
        self.known.journal_end = Some(last);
        Ok(last)
    }

    /// The lane's numbers; a lane that was never heard of gets its row, with token and version 0.
    pub(super) fn lane_or_new(&mut self, lane: LaneId) -> Result<LaneKey, Fault> {
        if let Some(key) = self.lane(lane)? {
            return Ok(key);
        }
        let address = lane.signer.0.as_slice();
        self.db
            .prepare_cached(
                "INSERT INTO account (namespace, address) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            )?
            .execute(params![self.namespace, address])?;
        self.db
            .prepare_cached(
                "INSERT INTO lane (account, chain)
                 SELECT id, ?3 FROM account WHERE namespace = ?1 AND address = ?2",
            )?
            .execute(params![self.namespace, address, bits(lane.chain.0)])?;
        self.lane(lane)?.ok_or_else(|| Fault::corrupt("lane", format!("lane {lane} was not kept")))
    }
}

/// The lane's numbers, as the file has them.
pub(super) fn find_lane(db: &Connection, namespace: i64, lane: LaneId) -> Result<Option<LaneKey>, Fault> {
    let found = db
        .prepare_cached(
            "SELECT lane.id, account.id FROM account JOIN lane ON lane.account = account.id
             WHERE account.namespace = ?1 AND account.address = ?2 AND lane.chain = ?3",
        )?
        .query_row(params![namespace, lane.signer.0.as_slice(), bits(lane.chain.0)], |row| {
            Ok(LaneKey { lane: row.get(0)?, account: row.get(1)? })
        })
        .optional()?;
    Ok(found)
}
