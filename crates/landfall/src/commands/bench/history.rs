//! When each transaction was accepted, sent and final, as the store's journal has it. Read after the servers have
//! stopped, so that looking costs the run nothing.

use std::collections::HashMap;

use anyhow::{Context, Result};
use landfall_core::journal::{Entry, state_after};
use landfall_core::ports::store::Store;
use landfall_core::transaction::TxState;
use landfall_core::{JournalSeq, TxId};

const PAGE: u32 = 10_000;

/// Unix time in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Life {
    accepted: Option<u64>,
    sent: Option<u64>,
    ended: Option<u64>,
    confirmed: bool,
}

/// What happened when, each sorted.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) accepted_ms: Vec<u64>,
    pub(super) sent_ms: Vec<u64>,
    pub(super) final_ms: Vec<u64>,
    /// From acceptance to the end.
    pub(super) took_ms: Vec<u64>,
    pub(super) confirmed: u64,
}

impl History {
    pub(super) async fn read(store: &dyn Store) -> Result<Self> {
        let mut lives: HashMap<TxId, Life> = HashMap::new();
        let mut after = JournalSeq(0);
        loop {
            let page = store.journal_after(after, PAGE).await.context("the journal cannot be read")?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for row in &page {
                let Some(tx) = row.tx else { continue };
                let life = lives.entry(tx).or_default();
                match &row.entry {
                    Entry::Accepted => life.accepted = Some(row.at.0),
                    Entry::Broadcast { .. } => {
                        life.sent.get_or_insert(row.at.0);
                    }
                    entry if state_after(TxState::Mined, entry).is_terminal() => {
                        life.ended.get_or_insert(row.at.0);
                        life.confirmed = matches!(entry, Entry::Confirmed { .. });
                    }
                    _ => {}
                }
            }
        }
        Ok(Self::of(lives.into_values()))
    }

    fn of(lives: impl Iterator<Item = Life>) -> Self {
        let mut history = Self::default();
        for life in lives {
            history.accepted_ms.extend(life.accepted);
            history.sent_ms.extend(life.sent);
            history.final_ms.extend(life.ended);
            let took = life.accepted.zip(life.ended).map(|(from, to)| to.saturating_sub(from));
            history.took_ms.extend(took);
            history.confirmed += u64::from(life.confirmed);
        }
        for times in
            [&mut history.accepted_ms, &mut history.sent_ms, &mut history.final_ms, &mut history.took_ms]
        {
            times.sort_unstable();
        }
        history
    }

    /// How long so many percent took at most, from acceptance to the end.
    pub(super) fn final_ms(&self, percent: usize) -> u64 {
        let at = (self.took_ms.len() * percent / 100).min(self.took_ms.len().saturating_sub(1));
        self.took_ms.get(at).copied().unwrap_or(0)
    }
}
