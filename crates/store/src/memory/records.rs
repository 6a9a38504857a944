//! Small documents, each with a version.

use std::collections::BTreeMap;

use landfall_core::ports::records::{Record, RecordKind, RecordQuery, RecordWrite, RecordsWritten};

/// Records by kind and id.
#[derive(Clone, Default)]
pub(super) struct Documents(BTreeMap<(RecordKind, String), Record>);

impl Documents {
    pub(super) fn write(&mut self, writes: Vec<RecordWrite>) -> RecordsWritten {
        let version = |write: &RecordWrite| {
            self.0.get(&(write.kind, write.id.clone())).map_or(0, |record| record.version)
        };
        if writes.iter().any(|write| version(write) != write.expected) {
            return RecordsWritten::Changed;
        }
        for RecordWrite { kind, id, expected, body } in writes {
            match body {
                None => {
                    self.0.remove(&(kind, id));
                }
                Some(body) => {
                    let record = Record { id: id.clone(), version: expected + 1, body };
                    self.0.insert((kind, id), record);
                }
            }
        }
        RecordsWritten::Yes
    }

    pub(super) fn one(&self, kind: RecordKind, id: &str) -> Option<Record> {
        self.0.get(&(kind, id.to_owned())).cloned()
    }

    pub(super) fn list(&self, query: &RecordQuery) -> Vec<Record> {
        let RecordQuery { kind, prefix, after, descending, limit } = query;
        let beyond = |record: &&Record| {
            after
                .as_ref()
                .is_none_or(|after| if *descending { record.id < *after } else { record.id > *after })
        };
        let of_kind = self.0.iter().filter(|((is, _), _)| is == kind).map(|(_, record)| record);
        let mut list: Vec<Record> =
            of_kind.filter(|record| record.id.starts_with(prefix)).filter(beyond).cloned().collect();
        if *descending {
            list.reverse();
        }
        list.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
        list
    }

    pub(super) fn trim(&mut self, kind: RecordKind, below: &str, limit: u32) -> u64 {
        let old = self.0.keys().filter(|(is, id)| *is == kind && id.as_str() < below);
        let old: Vec<_> = old.take(usize::try_from(limit).unwrap_or(usize::MAX)).cloned().collect();
        for key in &old {
            self.0.remove(key);
        }
        u64::try_from(old.len()).unwrap_or(u64::MAX)
    }
}
