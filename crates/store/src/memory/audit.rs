//! The audit chain.

use std::collections::BTreeMap;

use landfall_core::Millis;
use landfall_core::audit::{Cut, Ends, Link, New, Row, Trimmed};
use landfall_core::ports::audit::Page;

/// Rows by their numbers, and where they begin and end.
#[derive(Clone)]
pub(super) struct Chain {
    rows: BTreeMap<u64, Row>,
    ends: Ends,
}

impl Default for Chain {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), ends: Ends::EMPTY }
    }
}

impl Chain {
    pub(super) fn append(&mut self, entries: impl IntoIterator<Item = New>) -> Link {
        for new in entries {
            let row = self.ends.head.then(new);
            self.ends.head = row.link();
            self.rows.insert(row.seq, row);
        }
        self.ends.head
    }

    pub(super) fn ends(&self) -> Ends {
        self.ends
    }

    pub(super) fn list(&self, page: Page, limit: u32) -> Vec<Row> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match page {
            Page::After(seq) => {
                self.rows.range(seq.saturating_add(1)..).take(limit).map(|(_, row)| row.clone()).collect()
            }
            Page::Before(seq) => {
                self.rows.range(..seq).rev().take(limit).map(|(_, row)| row.clone()).collect()
            }
        }
    }

    pub(super) fn trim(&mut self, before: Millis, limit: u32, now: Millis) -> Result<u64, serde_json::Error> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let before_head = self.rows.range(..self.ends.head.seq);
        let oldest = before_head.take(limit).map(|(seq, row)| (*seq, row.at));
        let (last, newest) = match Cut::of(oldest, before, now) {
            Cut::Nothing => return Ok(0),
            Cut::UpTo { seq, newest } => (seq, newest),
            Cut::WithTheNext { seq } => {
                let next =
                    self.rows.range(seq.saturating_add(1)..).map(|(_, row)| row.at).find(|at| *at <= now);
                match next.filter(|at| *at < before) {
                    Some(newest) => (seq, newest),
                    None => return Ok(0),
                }
            }
        };
        let Some(anchor) = self.rows.get(&last).map(Row::link) else { return Ok(0) };
        let told = Trimmed::entry(anchor, newest, now)?;
        let stay = self.rows.split_off(&anchor.seq.saturating_add(1));
        let gone = std::mem::replace(&mut self.rows, stay).len();
        self.ends.anchor = anchor;
        self.append([told]);
        Ok(u64::try_from(gone).unwrap_or(u64::MAX))
    }
}
