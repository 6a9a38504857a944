//! What a number says beside the committed one.

/// Smaller differences are the noise of another machine's libraries.
const TOLERANCE_PERCENT: u64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    AsBefore,
    Dearer,
    /// Good, and worth to be held: otherwise it may be lost again unseen.
    Cheaper,
    /// Nothing is committed to hold it against.
    New,
}

impl Verdict {
    pub(super) fn of(committed: Option<u64>, now: u64) -> Self {
        let Some(before) = committed else { return Self::New };
        // In wider numbers: a case may be long.
        let (now, before, limit) = (u128::from(now) * 100, u128::from(before), u128::from(TOLERANCE_PERCENT));
        if now > before * (100 + limit) {
            Self::Dearer
        } else if now < before * (100 - limit) {
            Self::Cheaper
        } else {
            Self::AsBefore
        }
    }

    pub(super) fn is_good(self) -> bool {
        match self {
            Self::AsBefore | Self::Cheaper => true,
            Self::Dearer | Self::New => false,
        }
    }

    /// What to do about it.
    pub(super) fn sentence(self, name: &str, committed: Option<u64>, now: u64) -> Option<String> {
        let before = committed.unwrap_or_default();
        match self {
            Self::AsBefore => None,
            Self::Dearer => Some(format!(
                "{name}: FAILED: {now} instructions where {before} are committed ({}); at most {TOLERANCE_PERCENT} % more are \
                 let through. See what costs so much with `callgrind_annotate --auto=no target/callgrind/{name}.out` and mend it; if \
                 it is worth its price, run `cargo xtask counts --accept` and say why in the commit",
                change(before, now)
            )),
            Self::Cheaper => Some(format!(
                "{name}: {now} instructions where {before} are committed ({}): `cargo xtask counts --accept` keeps it so",
                change(before, now)
            )),
            Self::New => Some(format!(
                "{name}: FAILED: {now} instructions, and nothing is committed to hold them against: run `cargo xtask counts \
                 --accept`"
            )),
        }
    }
}

/// A row of the table.
pub(super) fn line(name: &str, committed: Option<u64>, now: u64) -> String {
    let before = committed.map_or_else(|| "-".to_owned(), |before| before.to_string());
    let change = committed.map_or_else(|| "-".to_owned(), |before| change(before, now));
    format!("{name:<14} {before:>12} {now:>12} {change:>9}")
}

fn change(before: u64, now: u64) -> String {
    if before == 0 {
        return "-".to_owned();
    }
    format!("{:+.1} %", (now as f64 / before as f64 - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_percent_is_let_through_and_not_one_instruction_more() {
        assert_eq!(Verdict::of(Some(1_000), 1_000), Verdict::AsBefore);
        assert_eq!(Verdict::of(Some(1_000), 1_100), Verdict::AsBefore);
        assert_eq!(Verdict::of(Some(1_000), 1_101), Verdict::Dearer);
        assert_eq!(Verdict::of(Some(1_000), 900), Verdict::AsBefore);
        assert_eq!(Verdict::of(Some(1_000), 899), Verdict::Cheaper);
        assert_eq!(Verdict::of(None, 1), Verdict::New);
        assert_eq!(Verdict::of(Some(0), 1), Verdict::Dearer);
    }

    #[test]
    fn only_what_is_dearer_or_new_fails() {
        assert!(Verdict::AsBefore.is_good() && Verdict::Cheaper.is_good());
        assert!(!Verdict::Dearer.is_good() && !Verdict::New.is_good());
    }

    #[test]
    fn a_failure_names_the_case_both_numbers_and_what_to_do() {
        let said = Verdict::Dearer.sentence("seal", Some(1_000), 1_250).unwrap();
        for part in ["seal", "1000", "1250", "+25.0 %", "callgrind_annotate", "--accept"] {
            assert!(said.contains(part), "{part} is missing in: {said}");
        }
        assert_eq!(Verdict::AsBefore.sentence("seal", Some(1_000), 1_001), None);
    }
}
