//! A row on its way, and what two sets of rows are compared by.

use alloy_primitives::{U256, keccak256};
use rusqlite::types::ValueRef;

/// What a column of the database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Big,
    Small,
    /// 0 or 1 in the file.
    Bool,
    Text,
    Bytes,
    /// Sixteen bytes in the file.
    Uuid,
}

/// A value, as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Cell {
    /// None: a kind of value that no column of ours has.
    pub(super) fn of(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Null => Some(Self::Null),
            ValueRef::Integer(number) => Some(Self::Number(number)),
            ValueRef::Text(text) => String::from_utf8(text.to_vec()).ok().map(Self::Text),
            ValueRef::Blob(bytes) => Some(Self::Bytes(bytes.to_vec())),
            ValueRef::Real(_) => None,
        }
    }
}

/// How many rows, and the sum of their hashes: the same for the same rows in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Digest {
    pub(super) rows: u64,
    sum: U256,
}

impl Digest {
    pub(super) fn add(&mut self, row: &[Cell]) {
        let mut bytes = Vec::new();
        for cell in row {
            let (tag, content): (u8, &[u8]) = match cell {
                Cell::Null => (0, &[]),
                Cell::Number(number) => (1, &number.to_be_bytes()),
                Cell::Text(text) => (2, text.as_bytes()),
                Cell::Bytes(content) => (3, content),
            };
            bytes.push(tag);
            // With its length, so that no two rows look the same when written one after the other.
            bytes.extend_from_slice(&content.len().to_be_bytes());
            bytes.extend_from_slice(content);
        }
        self.rows += 1;
        self.sum = self.sum.wrapping_add(keccak256(&bytes).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(rows: &[&[Cell]]) -> Digest {
        let mut digest = Digest::default();
        rows.iter().for_each(|row| digest.add(row));
        digest
    }

    #[test]
    fn a_digest_is_the_same_for_the_same_rows_in_any_order_and_for_no_others() {
        let (a, b) = ([Cell::Text("ab".into()), Cell::Null], [Cell::Number(7), Cell::Bytes(vec![1])]);
        assert_eq!(digest(&[&a, &b]), digest(&[&b, &a]));
        assert_ne!(digest(&[&a, &b]), digest(&[&a]));
        assert_ne!(digest(&[&a, &a]), digest(&[&b, &b]));
        let split = |x: &str, y: &str| digest(&[&[Cell::Text(x.into()), Cell::Text(y.into())]]);
        assert_ne!(split("ab", "c"), split("a", "bc"));
        assert_ne!(digest(&[&[Cell::Text("a".into())]]), digest(&[&[Cell::Bytes(b"a".to_vec())]]));
    }
}
