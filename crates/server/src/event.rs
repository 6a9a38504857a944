//! Events as callers get them: what happened, to what, and as the how manieth of its transaction.

use std::collections::BTreeMap;

use landfall_core::journal::{self, EVENTS, Entry, JournalRow};
use landfall_core::ports::store::{Error, Store};
use landfall_core::transaction::TxState;
use landfall_core::{JournalSeq, TxId};
use serde_json::{Value, json};

use crate::problem::{Code, Problem};
use crate::show::{self, Addresses};

/// So many transactions are remembered; beyond it, all are forgotten and looked up again.
const MOST_KNOWN: usize = 20_000;

/// A name that somebody wants to hear of. One that does not exist would never be heard, and is refused instead.
pub(crate) fn known_name(name: &str, code: Code, field: &str) -> Result<String, Problem> {
    if EVENTS.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(Problem::at(code, field, format!("{name:?} is not an event; there are {}", EVENTS.join(", "))))
}

/// Where a transaction is after an entry of its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// How many of its entries were events.
    number: u64,
    state: TxState,
}

impl Standing {
    fn first(entry: &Entry) -> Self {
        Self { number: 0, state: TxState::Accepted }.then(entry)
    }

    fn then(self, entry: &Entry) -> Self {
        let number = self.number + u64::from(entry.event().is_some());
        Self { number, state: journal::state_after(self.state, entry) }
    }
}

/// Reads the journal in order and knows where each transaction is, so that it need not be looked up for every event.
#[derive(Default)]
pub(crate) struct Reader {
    known: BTreeMap<TxId, Standing>,
}

impl Reader {
    /// The next row; where its transaction is then. None for rows of lanes, and for those that are no events.
    pub(crate) async fn next(
        &mut self,
        store: &dyn Store,
        row: &JournalRow,
    ) -> Result<Option<Standing>, Error> {
        let Some(tx) = row.tx else { return Ok(None) };
        let standing = match self.known.get(&tx) {
            Some(known) => known.then(&row.entry),
            None if matches!(row.entry, Entry::Accepted) => Standing::first(&row.entry),
            None if row.entry.event().is_none() => return Ok(None),
            None => match standing(store, tx, row.seq).await? {
                Some(standing) => standing,
                None => return Ok(None),
            },
        };
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        if standing.state.is_terminal() {
            self.known.remove(&tx);
        } else {
            self.known.insert(tx, standing);
        }
        Ok(Some(standing))
    }
}

/// Where a transaction was after this entry; none if its history was removed.
async fn standing(store: &dyn Store, tx: TxId, at: JournalSeq) -> Result<Option<Standing>, Error> {
    let rows = store.journal(tx).await?;
    let mut until = rows.iter().take_while(|row| row.seq <= at).map(|row| &row.entry);
    Ok(until.next().map(|entry| until.fold(Standing::first(entry), |now, entry| now.then(entry))))
}

/// What is told of a row.
pub(crate) fn data(row: &JournalRow, standing: Option<Standing>, addresses: Addresses) -> Value {
    let mut data = show::journal_row(row, addresses);
    data["chainId"] = json!(row.lane.chain);
    data["signer"] = json!(row.lane.signer.to_string());
    if let Some(tx) = row.tx {
        data["txId"] = json!(tx);
    }
    if let Some(Standing { number, state }) = standing {
        data["txSeq"] = json!(number);
        data["state"] = json!(state);
    }
    data
}

/// The body of a webhook. It goes to somebody outside, who is not told where callers are.
pub(crate) fn body(name: &str, row: &JournalRow, standing: Option<Standing>) -> String {
    let data = data(row, standing, Addresses::Hidden);
    json!({ "type": name, "timestamp": show::time(row.at), "data": data }).to_string()
}

/// The body of the event with this number; none if it is not there any more.
pub(crate) async fn body_at(store: &dyn Store, seq: JournalSeq) -> Result<Option<String>, Error> {
    let rows = store.journal_after(JournalSeq(seq.0 - 1), 1).await?;
    let Some(row) = rows.first().filter(|row| row.seq == seq) else { return Ok(None) };
    let Some(name) = row.entry.event() else { return Ok(None) };
    let standing = match row.tx {
        Some(tx) => standing(store, tx, seq).await?,
        None => None,
    };
    Ok(Some(body(name, row, standing)))
}
