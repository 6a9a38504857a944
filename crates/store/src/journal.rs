//! Journal entries as rows.
//!
//! What a commit tells of one transaction in a row (that it was sent and is in a block, say) is one row. It has the number of its
//! last entry, and those before it have the numbers before that. Its text is the entry itself, or a list of entries with
//! their times and with who asked for what they tell.

use std::borrow::Cow;
use std::sync::Arc;

use landfall_core::journal::{Entry, JournalRow, NewEntry};
use landfall_core::request::Request;
use landfall_core::{JournalSeq, Millis, Origin};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Told<'a> {
    at: Millis,
    entry: &'a Entry,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a Origin>,
}

/// An entry of a row.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Read {
    pub(crate) at: Millis,
    pub(crate) entry: Entry,
    #[serde(default, with = "landfall_core::origin::shared")]
    pub(crate) by: Option<Arc<Origin>>,
}

/// The text of the row that tells of an admission.
pub(crate) fn accepted(request: &Request) -> serde_json::Result<Cow<'static, str>> {
    match request.origin.as_deref() {
        None => Ok(Cow::Borrowed(r#"{"type":"accepted"}"#)),
        Some(by) => {
            let told = Told { at: request.accepted_at, entry: &Entry::Accepted, by: Some(by) };
            serde_json::to_string(&[told]).map(Cow::Owned)
        }
    }
}

/// The text of a row for entries that are [told together](landfall_core::journal::told_together).
pub(crate) fn text(entries: &[NewEntry]) -> serde_json::Result<String> {
    match entries {
        [one] if one.by.is_none() => serde_json::to_string(&one.entry),
        many => {
            let told = many.iter().map(|new| Told { at: new.at, entry: &new.entry, by: new.by.as_deref() });
            let told: Vec<Told<'_>> = told.collect();
            serde_json::to_string(&told)
        }
    }
}

/// The entries of a row with this number, time and text.
pub(crate) fn entries(
    seq: JournalSeq,
    at: Millis,
    text: &str,
) -> serde_json::Result<Vec<(JournalSeq, Read)>> {
    if !text.starts_with('[') {
        return Ok(vec![(seq, Read { at, entry: serde_json::from_str(text)?, by: None })]);
    }
    let read: Vec<Read> = serde_json::from_str(text)?;
    let first = seq.0.saturating_add(1).saturating_sub_unsigned(read.len() as u64);
    Ok((first..).map(JournalSeq).zip(read).collect())
}

/// The entries after a number, from the rows whose last entry is after it. The first of these may begin before it.
pub(crate) fn page(rows: Vec<Vec<JournalRow>>, after: JournalSeq, limit: u32) -> Vec<JournalRow> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    rows.into_iter().flatten().filter(|row| row.seq > after).take(limit).collect()
}

#[cfg(test)]
mod tests {
    use landfall_core::TxId;
    use landfall_core::journal::told_together;

    use super::*;

    fn new(tx: Option<u128>, at: u64, entry: Entry) -> NewEntry {
        let by = Origin { key: Some("k".into()), name: "shop".into(), address: None };
        let by = at.is_multiple_of(2).then(|| Arc::new(by));
        NewEntry { tx: tx.map(|id| TxId(uuid::Uuid::from_u128(id))), at: Millis(at), entry, by }
    }

    #[test]
    fn entries_of_one_transaction_in_a_row_are_one_row_and_come_back_as_they_were() {
        let journal = [
            new(None, 1, Entry::Accepted),
            new(None, 2, Entry::Accepted),
            new(Some(7), 3, Entry::Accepted),
            new(Some(7), 4, Entry::Approved),
            new(Some(8), 5, Entry::Accepted),
            new(Some(7), 6, Entry::Accepted),
        ];
        let (mut back, mut last) = (Vec::new(), 0);
        let mut rows = 0;
        for told in told_together(&journal) {
            let at = told.last().map(|new| new.at).unwrap();
            last += told.len() as i64;
            rows += 1;
            back.extend(entries(JournalSeq(last), at, &text(told).unwrap()).unwrap());
        }
        assert_eq!(rows, 5, "what is about the lane stands alone");
        let read = |new: &NewEntry| Read { at: new.at, entry: new.entry.clone(), by: new.by.clone() };
        let given = (1..).zip(&journal).map(|(seq, new)| (JournalSeq(seq), read(new)));
        assert_eq!(back, given.collect::<Vec<_>>());
    }

    /// Rows from before there were lists.
    #[test]
    fn a_row_of_one_entry_is_the_entry_itself() {
        let read = entries(JournalSeq(9), Millis(5), r#"{"type":"accepted"}"#).unwrap();
        assert_eq!(read, [(JournalSeq(9), Read { at: Millis(5), entry: Entry::Accepted, by: None })]);
        assert_eq!(text(&[new(Some(1), 5, Entry::Accepted)]).unwrap(), r#"{"type":"accepted"}"#);
    }
}
