//! Which attempts are history, without a write to each of them.
//!
//! Slots end nearly in their order. So a lane's row has a number, `closed`, and every attempt below it is history. What does
//! not fit into that is written to the attempt's own row:
//!
//! | an attempt | is open |
//! |---|---|
//! | in the order | until `closed` passes its slot, or its own row says that it is not |
//! | apart: stored below `closed` (a slot that is filled again), or before there was that number | until its own row says that it is not |
//!
//! `closed` never falls, and passes no open attempt. It is a signed number as the column has it: slots of the upper half
//! are negative, so they are below it and always apart.

use landfall_core::Slot;

use crate::columns::bits;

/// What closing some slots changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    /// The lane's new `closed`.
    pub(crate) closed: i64,
    /// Slots whose attempts are closed in their own rows, each run from its first to its last.
    pub(crate) rows: Vec<(i64, i64)>,
}

/// Slots as runs without holes, each from its first to its last. No run passes where the numbers of a signed column begin anew.
pub(crate) fn runs(slots: &[Slot]) -> Vec<(Slot, Slot)> {
    let mut slots = slots.to_vec();
    slots.sort_unstable();
    let mut runs: Vec<(Slot, Slot)> = Vec::new();
    for slot in slots {
        match runs.last_mut() {
            Some((_, last)) if *last == slot => {}
            Some((_, last)) if last.0.checked_add(1) == Some(slot.0) && slot.0 != 1 << 63 => *last = slot,
            Some(_) | None => runs.push((slot, slot)),
        }
    }
    runs
}

/// Is an attempt that is stored now one whose own row says whether it is open?
pub(crate) fn is_apart(slot: Slot, closed: i64) -> bool {
    bits(slot.0) < closed
}

/// The slots between `closed` and the runs that end: where one of them is open, `closed` cannot pass it.
pub(crate) fn gaps(closed: i64, runs: &[(Slot, Slot)]) -> Vec<(i64, i64)> {
    let mut gaps = Vec::new();
    let mut next = closed;
    for (first, last) in runs.iter().map(columns).filter(|(_, last)| *last >= closed) {
        if first > next {
            gaps.push((next, first - 1));
        }
        next = last.saturating_add(1);
    }
    gaps
}

/// Closes runs of slots. `open` is the lowest open slot in their [`gaps`].
pub(crate) fn close(closed: i64, runs: &[(Slot, Slot)], open: Option<i64>) -> Closing {
    let mut closing = Closing { closed, rows: Vec::new() };
    for (first, last) in runs.iter().map(columns) {
        if first < closed {
            closing.rows.push((first, last.min(closed - 1)));
        }
        if last < closed {
            continue;
        }
        if last < i64::MAX && open.is_none_or(|open| last < open) {
            closing.closed = last + 1;
        } else {
            closing.rows.push((first.max(closed), last));
        }
    }
    closing
}

fn columns((first, last): &(Slot, Slot)) -> (i64, i64) {
    (bits(first.0), bits(last.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(closed: i64, slots: &[u64], open: &[i64]) -> (i64, Vec<(i64, i64)>) {
        let runs = runs(&slots.iter().map(|slot| Slot(*slot)).collect::<Vec<_>>());
        let gaps = gaps(closed, &runs);
        let inside = |slot: &i64| gaps.iter().any(|(first, last)| (*first..=*last).contains(slot));
        let lowest = open.iter().copied().filter(inside).min();
        let Closing { closed, rows } = close(closed, &runs, lowest);
        (closed, rows)
    }

    #[test]
    fn slots_that_end_in_their_order_are_one_number() {
        assert_eq!(closed(0, &[0, 1, 2], &[3, 4]), (3, vec![]));
        assert_eq!(closed(3, &[4, 3], &[5]), (5, vec![]));
        assert_eq!(closed(3, &[], &[5]), (3, vec![]));
        // Slots that nobody has do not stand in the way.
        assert_eq!(closed(0, &[700, 701], &[702]), (702, vec![]));
        assert_eq!(closed(5, &[5, 7, 9], &[10]), (10, vec![]));
    }

    #[test]
    fn an_open_slot_is_not_passed() {
        assert_eq!(closed(3, &[4, 5], &[3]), (3, vec![(4, 5)]));
        assert_eq!(closed(3, &[3, 5, 8], &[4]), (4, vec![(5, 5), (8, 8)]));
        assert_eq!(closed(3, &[3, 5, 8], &[7]), (6, vec![(8, 8)]));
    }

    #[test]
    fn what_is_apart_is_closed_in_its_row() {
        assert_eq!(closed(9, &[4], &[10]), (9, vec![(4, 4)]));
        assert_eq!(closed(9, &[7, 8, 9, 10], &[11]), (11, vec![(7, 8)]));
        assert!(is_apart(Slot(8), 9) && !is_apart(Slot(9), 9));
    }

    #[test]
    fn the_largest_slots_are_apart() {
        assert_eq!(closed(9, &[u64::MAX], &[]), (9, vec![(-1, -1)]));
        assert!(is_apart(Slot(u64::MAX), 0));
        let last = i64::MAX;
        assert_eq!(closed(9, &[last.cast_unsigned()], &[]), (9, vec![(last, last)]));
        assert_eq!(closed(last, &[last.cast_unsigned()], &[]), (last, vec![(last, last)]));
    }

    #[test]
    fn slots_are_joined_where_they_follow_each_other_and_nowhere_else() {
        let slots = |all: &[u64]| all.iter().map(|n| Slot(*n)).collect::<Vec<_>>();
        let run = |first, last| (Slot(first), Slot(last));
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&slots(&[7])), [run(7, 7)]);
        assert_eq!(runs(&slots(&[5, 3, 4, 9, 4])), [run(3, 5), run(9, 9)]);
        let half = 1 << 63;
        assert_eq!(runs(&slots(&[half - 1, half, half + 1])), [run(half - 1, half - 1), run(half, half + 1)]);
        assert_eq!(runs(&slots(&[u64::MAX, 0])), [run(0, 0), run(u64::MAX, u64::MAX)]);
    }
}
