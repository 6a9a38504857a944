//! Whether a chain is what was written: row by row, from its anchor to its head.

use std::fmt;

use super::{Ends, Link, Row, Seal, Trimmed};
use crate::Millis;

/// The most findings that are told; one is enough to distrust the rest.
const MOST: usize = 100;

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The row does not have the hash that its content and the row before it give.
    Changed { seq: u64 },
    /// Rows are missing, from this number to that one.
    Missing { from: u64, to: u64 },
    /// A row that stands where its number does not belong, or has the number of another.
    OutOfPlace { seq: u64, after: u64 },
    /// A row beyond the head.
    Beyond { seq: u64, head: u64 },
    /// The head has another hash than the newest row.
    OtherHead { seq: u64, head: Seal, row: Seal },
    /// The chain begins after rows that were removed, and no row says that they were.
    NotTrimmed { anchor: u64 },
    /// Rows with a number below 1, which no server gives.
    Unnumbered { count: u64 },
    /// Rows were removed before they were as old as they have to be.
    TooYoung { row: u64, up_to: u64, age: Millis, keep: Millis },
    /// The hash that was noted elsewhere is of no row here.
    HeadUnknown { noted: Seal },
    /// The hash of an anchor that was noted elsewhere was never this chain's, as far as its rows go back.
    AnchorUnknown { noted: Seal },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { seq } => {
                write!(
                    f,
                    "row {seq} was changed, or put in the place of another: its hash is not that of its content after row {}",
                    seq - 1
                )
            }
            Self::Missing { from, to } if from == to => write!(f, "row {from} was removed"),
            Self::Missing { from, to } => write!(f, "rows {from} to {to} were removed"),
            Self::OutOfPlace { seq, after } => {
                write!(f, "row {seq} stands after row {after}: it was added or moved")
            }
            Self::Beyond { seq, head } => {
                write!(f, "row {seq} was added after the head, which is row {head}")
            }
            Self::OtherHead { seq, head, row } => {
                write!(
                    f,
                    "row {seq} is the newest and has the hash {row}, and the head says {head}: one of them was changed"
                )
            }
            Self::NotTrimmed { anchor } => write!(
                f,
                "the rows up to {anchor} are gone, and no row says that they were removed because of their age: they were removed by hand"
            ),
            Self::Unnumbered { count } => {
                write!(
                    f,
                    "rows with a number below 1, which no server gives: {count}; they were added by hand"
                )
            }
            Self::TooYoung { row, up_to, age, keep } => write!(
                f,
                "row {row} says that the rows up to {up_to} were removed because of their age, and the newest of them was {} old, where rows \
                 are kept for {} (access.keep_audit_days): unless that was set to less then, they were removed by hand",
                days(*age),
                days(*keep)
            ),
            Self::AnchorUnknown { noted } => write!(
                f,
                "rows were removed, and no row says that {noted}, which was noted, was once the newest of them: what was there when it was \
                 noted was rewritten, or the row that said so was removed because of its age since"
            ),
            Self::HeadUnknown { noted } => write!(
                f,
                "no row has the hash {noted}: what was there when it was noted was rewritten, or its row was removed because of its age since"
            ),
        }
    }
}

/// A time in words of people.
fn days(time: Millis) -> String {
    const DAY: u64 = 86_400_000;
    match (time.0 / DAY, time.0 / 3_600_000) {
        (0, hours) => format!("{hours} hours"),
        (days, _) => format!("{days} days"),
    }
}

/// Hashes that were noted elsewhere, where nobody who may write to the database can reach them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noted {
    /// Of a row that must be there.
    pub head: Option<Seal>,
    /// Of the newest row that had been removed then.
    pub anchor: Option<Seal>,
}

/// The result of a look at a whole chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Rows that were looked at.
    pub rows: u64,
    pub ends: Ends,
    /// Content of the newest row about removed ones, its number, and the time of the oldest row that is left.
    pub trimmed: Option<(u64, Trimmed)>,
    pub oldest: Option<Millis>,
    /// The rows that the noted hashes are of.
    pub noted_head: Option<u64>,
    pub noted_anchor: Option<u64>,
    /// Faults: rows that are not as they were written; empty if all are.
    pub findings: Vec<Finding>,
}

impl Verified {
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Goes through a chain in the order of its numbers.
#[derive(Debug)]
pub struct Verifier {
    anchor: Link,
    last: Link,
    rows: u64,
    oldest: Option<Millis>,
    /// How long rows are kept, if that is known.
    keep: Option<Millis>,
    /// The newest row about removed ones.
    trimmed: Option<(u64, Trimmed)>,
    noted: Noted,
    noted_head: Option<u64>,
    noted_anchor: Option<u64>,
    findings: Vec<Finding>,
}

impl Verifier {
    #[must_use]
    pub fn new(anchor: Link, noted: Noted, keep: Option<Millis>) -> Self {
        let is_anchor = |noted: &Seal| *noted == anchor.hash;
        // Before the first row: nothing had been removed then.
        let is_origin = noted.anchor.is_some_and(|noted| noted == Link::ORIGIN.hash);
        Self {
            anchor,
            last: anchor,
            rows: 0,
            oldest: None,
            keep,
            trimmed: None,
            noted,
            noted_head: noted.head.filter(is_anchor).map(|_| anchor.seq),
            noted_anchor: noted.anchor.filter(is_anchor).map(|_| anchor.seq).or(is_origin.then_some(0)),
            findings: Vec::new(),
        }
    }

    /// The number after which the next row is read.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.last.seq
    }

    pub fn take(&mut self, row: &Row) {
        self.rows += 1;
        let (before, seq) = (self.last, row.seq);
        if self.noted.head == Some(row.hash) {
            self.noted_head = Some(seq);
        }
        if seq <= before.seq {
            return self.find(Finding::OutOfPlace { seq, after: before.seq });
        }
        if seq > before.seq + 1 {
            self.find(Finding::Missing { from: before.seq + 1, to: seq - 1 });
        } else if !row.follows(before) {
            self.find(Finding::Changed { seq });
        }
        // By the first bytes it is known which rows need not be read.
        if row.text.starts_with(r#"{"trimmed""#)
            && let Ok(trimmed) = serde_json::from_str::<Trimmed>(&row.text)
        {
            self.went(row, trimmed);
        }
        self.oldest = self.oldest.or(Some(row.at));
        self.last = row.link();
    }

    /// A row says that others went.
    fn went(&mut self, row: &Row, trimmed: Trimmed) {
        let Trimmed { trimmed: up_to, newest } = trimmed;
        if self.noted.anchor == Some(up_to.hash) {
            self.noted_anchor = Some(up_to.seq);
        }
        let age = Millis(row.at.0.saturating_sub(newest.0));
        if let Some(keep) = self.keep.filter(|keep| age < *keep) {
            self.find(Finding::TooYoung { row: row.seq, up_to: up_to.seq, age, keep });
        }
        self.trimmed = Some((row.seq, trimmed));
    }

    /// So many rows have numbers that no server gives.
    pub fn unnumbered(&mut self, count: u64) {
        if count > 0 {
            self.find(Finding::Unnumbered { count });
        }
    }

    /// All rows were seen, and this is the head, read after them: it may only be where they end.
    #[must_use]
    pub fn end(mut self, head: Link) -> Verified {
        let anchor = self.anchor;
        if self.last.seq > head.seq {
            self.find(Finding::Beyond { seq: self.last.seq, head: head.seq });
        } else if self.last.seq < head.seq {
            self.find(Finding::Missing { from: self.last.seq + 1, to: head.seq });
        } else if self.last.hash != head.hash {
            self.find(Finding::OtherHead { seq: head.seq, head: head.hash, row: self.last.hash });
        }
        let is_trimmed = anchor.seq > 0 || self.trimmed.is_some();
        if is_trimmed && self.trimmed.map(|(_, trimmed)| trimmed.trimmed) != Some(anchor) {
            self.find(Finding::NotTrimmed { anchor: anchor.seq });
        }
        if let (Some(noted), None) = (self.noted.head, self.noted_head) {
            self.find(Finding::HeadUnknown { noted });
        }
        if let (Some(noted), None) = (self.noted.anchor, self.noted_anchor) {
            self.find(Finding::AnchorUnknown { noted });
        }
        let Self { rows, trimmed, oldest, noted_head, noted_anchor, findings, .. } = self;
        Verified { rows, ends: Ends { anchor, head }, trimmed, oldest, noted_head, noted_anchor, findings }
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < MOST {
            self.findings.push(finding);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::New;
    use super::*;

    fn chain(count: u64) -> (Ends, Vec<Row>) {
        let (mut head, mut rows) = (Link::ORIGIN, Vec::new());
        for number in 1..=count {
            let row = head.then(New { at: Millis(number), text: format!(r#"{{"n":{number}}}"#) });
            head = row.link();
            rows.push(row);
        }
        (Ends { anchor: Link::ORIGIN, head }, rows)
    }

    fn verify(ends: Ends, rows: &[Row], noted: Option<Seal>) -> Vec<Finding> {
        let mut verifier = Verifier::new(ends.anchor, Noted { head: noted, anchor: None }, None);
        rows.iter().for_each(|row| verifier.take(row));
        verifier.end(ends.head).findings
    }

    #[test]
    fn a_chain_as_it_was_written_is_whole() {
        for count in [0, 1, 2, 9] {
            let (ends, rows) = chain(count);
            assert_eq!(verify(ends, &rows, None), []);
            assert_eq!(verify(ends, &rows, Some(ends.head.hash)), []);
        }
    }

    /// Every row in every place: the oldest and the newest too.
    #[test]
    fn each_row_that_is_changed_removed_added_or_moved_is_found() {
        let (ends, rows) = chain(6);
        for at in 0..rows.len() {
            let seq = at as u64 + 1;
            let mut changed = rows.clone();
            changed[at].text.push(' ');
            assert!(verify(ends, &changed, None).contains(&Finding::Changed { seq }), "text of {seq}");
            let mut dated = rows.clone();
            dated[at].at = Millis(99);
            assert!(verify(ends, &dated, None).contains(&Finding::Changed { seq }), "time of {seq}");
            let mut resealed = changed.clone();
            let before = if at == 0 { Link::ORIGIN } else { rows[at - 1].link() };
            resealed[at] = before.then(New { at: Millis(seq), text: "{}".to_owned() });
            assert!(!verify(ends, &resealed, None).is_empty(), "{seq} sealed anew");
            let mut removed = rows.clone();
            removed.remove(at);
            assert!(
                verify(ends, &removed, None).contains(&Finding::Missing { from: seq, to: seq }),
                "{seq} gone"
            );
            let mut added = rows.clone();
            added.insert(at, rows[at].clone());
            assert!(
                verify(ends, &added, None).contains(&Finding::OutOfPlace { seq, after: seq }),
                "{seq} twice"
            );
            let mut swapped = rows.clone();
            let other = (at + 1) % rows.len();
            let (one, two) = (rows[at].clone(), rows[other].clone());
            swapped[at] = Row { seq: one.seq, ..two.clone() };
            swapped[other] = Row { seq: two.seq, ..one };
            assert!(!verify(ends, &swapped, None).is_empty(), "{seq} in another place");
        }
    }

    #[test]
    fn a_row_after_the_head_and_a_head_that_was_moved_back_are_found() {
        let (ends, mut rows) = chain(3);
        rows.push(ends.head.then(New { at: Millis(4), text: "{}".to_owned() }));
        assert!(verify(ends, &rows, None).contains(&Finding::Beyond { seq: 4, head: 3 }));
        let other = Ends { head: Link { hash: Seal(alloy_primitives::B256::ZERO), ..ends.head }, ..ends };
        assert!(!verify(other, &rows[..3], None).is_empty());
    }

    #[test]
    fn a_chain_that_was_made_anew_is_whole_but_does_not_have_the_hash_that_was_noted() {
        let (ends, rows) = chain(5);
        let noted = rows[3].hash;
        assert_eq!(verify(ends, &rows, Some(noted)), []);
        let (mut head, mut anew) = (Link::ORIGIN, Vec::new());
        for row in rows.iter().filter(|row| row.seq != 2) {
            anew.push(head.then(New { at: row.at, text: row.text.clone() }));
            head = anew.last().unwrap().link();
        }
        let ends = Ends { anchor: Link::ORIGIN, head };
        assert_eq!(verify(ends, &anew, None), [], "nobody can tell from the rows alone");
        assert_eq!(verify(ends, &anew, Some(noted)), [Finding::HeadUnknown { noted }]);
    }

    #[test]
    fn a_chain_without_its_oldest_rows_is_whole_if_a_row_says_that_they_went() {
        let (ends, mut rows) = chain(5);
        let anchor = rows[1].link();
        let moved = Ends { anchor, ..ends };
        assert_eq!(verify(moved, &rows[2..], None), [Finding::NotTrimmed { anchor: 2 }], "the anchor alone");
        rows.push(ends.head.then(Trimmed::entry(anchor, Millis(2), Millis(9)).unwrap()));
        let trimmed = Ends { anchor, head: rows.last().unwrap().link() };
        assert_eq!(verify(trimmed, &rows[2..], None), []);
        assert_eq!(verify(trimmed, &rows[3..], None).first(), Some(&Finding::Missing { from: 3, to: 3 }));
        let back = Ends { anchor: Link::ORIGIN, ..trimmed };
        assert!(!verify(back, &rows[2..], None).is_empty(), "and the anchor cannot be put back");
    }

    /// Whoever may write to the database removes young rows, and lets a row say that they were old.
    #[test]
    fn a_row_about_removed_ones_is_held_to_their_age_and_to_an_anchor_that_was_noted() {
        let (ends, rows) = chain(5);
        let forged = |anchor: Link, newest| {
            let row = ends.head.then(Trimmed::entry(anchor, Millis(newest), Millis(1_000)).unwrap());
            (Ends { anchor, head: row.link() }, row)
        };
        let check = |ends: Ends, left: &[Row], row: &Row, noted: Option<Seal>| {
            let mut verifier =
                Verifier::new(ends.anchor, Noted { head: None, anchor: noted }, Some(Millis(900)));
            left.iter().chain([row]).for_each(|row| verifier.take(row));
            verifier.end(ends.head)
        };
        let (ends, row) = forged(rows[1].link(), 2);
        let verified = check(ends, &rows[2..], &row, None);
        assert!(verified.is_whole());
        let told = Trimmed { trimmed: rows[1].link(), newest: Millis(2) };
        assert_eq!((verified.trimmed, verified.oldest), (Some((6, told)), Some(Millis(3))));
        let noted = |seal| check(ends, &rows[2..], &row, Some(seal));
        assert_eq!(noted(Link::ORIGIN.hash).noted_anchor, Some(0), "rows 1 and 2 went since");
        assert_eq!(noted(rows[1].hash).noted_anchor, Some(2), "none went since");
        let other = rows[0].hash;
        assert_eq!(noted(other).findings, [Finding::AnchorUnknown { noted: other }]);
        let (ends, row) = forged(rows[1].link(), 200);
        let young = Finding::TooYoung { row: 6, up_to: 2, age: Millis(800), keep: Millis(900) };
        assert_eq!(check(ends, &rows[2..], &row, None).findings, [young]);
    }

    #[test]
    fn rows_whose_numbers_no_server_gives_are_found() {
        let (ends, rows) = chain(2);
        let mut verifier = Verifier::new(ends.anchor, Noted::default(), None);
        verifier.unnumbered(2);
        rows.iter().for_each(|row| verifier.take(row));
        assert_eq!(verifier.end(ends.head).findings, [Finding::Unnumbered { count: 2 }]);
    }
}
