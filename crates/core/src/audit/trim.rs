//! Which of the oldest rows may go because of their age.
//!
//! Rows go in their order. A row whose clock was ahead must not keep those after it for ever, so it counts as old as the next row whose
//! time is not in the future. One whose clock was behind goes early by itself, and takes no other with it.

use crate::Millis;

/// The end of the rows that may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// None may.
    Nothing,
    /// All up to this number; `newest` is the time of the newest of them.
    UpTo { seq: u64, newest: Millis },
    /// All up to this number, if the next row whose time is not in the future is old: these are all from the future.
    WithTheNext { seq: u64 },
}

impl Cut {
    /// `oldest`: numbers and times of the oldest rows, in their order. `before`: what is from before this time may go.
    pub fn of(oldest: impl IntoIterator<Item = (u64, Millis)>, before: Millis, now: Millis) -> Self {
        let mut cut = Self::Nothing;
        let mut newest = Millis(0);
        for (seq, at) in oldest {
            if at < before {
                newest = newest.max(at);
                cut = Self::UpTo { seq, newest };
            } else if at <= now {
                // What is from the future and comes right before it is as young as it is.
                return if let Self::WithTheNext { .. } = cut { Self::Nothing } else { cut };
            } else if !matches!(cut, Self::UpTo { .. }) {
                cut = Self::WithTheNext { seq };
            }
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Millis = Millis(100);
    const NOW: Millis = Millis(200);

    fn cut(times: &[u64]) -> Cut {
        Cut::of((1..).zip(times.iter().copied().map(Millis)), BEFORE, NOW)
    }

    fn up_to(seq: u64, newest: u64) -> Cut {
        Cut::UpTo { seq, newest: Millis(newest) }
    }

    #[test]
    fn old_rows_go_up_to_the_first_young_one() {
        assert_eq!(cut(&[]), Cut::Nothing);
        assert_eq!(cut(&[100, 150]), Cut::Nothing);
        assert_eq!(cut(&[1, 2, 99, 100, 3]), up_to(3, 99));
        assert_eq!(cut(&[1, 2, 3]), up_to(3, 3));
    }

    #[test]
    fn a_row_from_the_future_goes_with_the_old_one_that_follows_it() {
        assert_eq!(cut(&[1, 9_000, 9_001, 2, 150]), up_to(4, 2));
        assert_eq!(cut(&[9_000, 2, 150]), up_to(2, 2));
        assert_eq!(cut(&[1, 9_000, 150, 2]), up_to(1, 1), "and stays with a young one");
        assert_eq!(cut(&[9_000, 150, 2]), Cut::Nothing);
        assert_eq!(cut(&[9_000, 9_001]), Cut::WithTheNext { seq: 2 });
        assert_eq!(cut(&[1, 9_000]), up_to(1, 1), "what follows is looked at the next time");
    }

    #[test]
    fn a_row_whose_clock_was_behind_takes_no_young_one_with_it() {
        assert_eq!(cut(&[150, 151, 1, 152]), Cut::Nothing);
    }
}
