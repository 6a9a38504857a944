//! What a run of tests reports about itself, read from its text.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Known to the run and not run by it.
    pub(crate) left_out: usize,
}

impl Tally {
    pub(crate) fn ran(self) -> usize {
        self.passed + self.failed
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            left_out: self.left_out + other.left_out,
        }
    }
}

/// From nextest's closing line, such as
/// `Summary [ 1.2s] 7 tests run: 5 passed (1 slow), 1 failed, 1 timed out, 2 skipped`.
pub(crate) fn of_nextest(report: &str) -> Option<Tally> {
    let report = without_colours(report);
    let line = report.lines().rev().find(|line| line.trim_start().starts_with("Summary ["))?;
    let (_, counts) = line.split_once(" run: ")?;
    let mut tally = Tally::default();
    for part in without_parentheses(counts).split(',') {
        let (number, word) = part.trim().split_once(' ')?;
        let number: usize = number.parse().ok()?;
        match word.trim() {
            "passed" => tally.passed += number,
            "skipped" => tally.left_out += number,
            // failed, timed out, exec failed, and whatever a later nextest may add: not passed.
            _ => tally.failed += number,
        }
    }
    Some(tally)
}

/// From the closing lines of libtest, one per binary, such as
/// `test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.01s`.
pub(crate) fn of_libtest(report: &str) -> Option<Tally> {
    let report = without_colours(report);
    let mut sum = None;
    for line in report.lines() {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            continue;
        };
        let mut tally = Tally::default();
        for part in counts.split(';') {
            let Some((number, word)) = part.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match word {
                "passed" => tally.passed = number,
                "failed" => tally.failed = number,
                "ignored" => tally.left_out = number,
                // Measured and filtered out: by the caller's wish.
                _ => {}
            }
        }
        sum = Some(tally.plus(sum.unwrap_or_default()));
    }
    sum
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    text.chars()
        .filter(|&letter| {
            match letter {
                '(' => depth += 1,
                ')' => {
                    depth = depth.saturating_sub(1);
                    return false;
                }
                _ => {}
            }
            depth == 0
        })
        .collect()
}

/// Without terminal escape sequences (`ESC [ … letter`).
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.find(char::is_ascii_alphabetic);
        } else {
            plain.push(letter);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: usize, failed: usize, left_out: usize) -> Option<Tally> {
        Some(Tally { passed, failed, left_out })
    }

    #[test]
    fn nextest_summaries_are_read() {
        let table = [
            ("     Summary [   0.003s] 3 tests run: 3 passed, 0 skipped", tally(3, 0, 0)),
            ("     Summary [   0.003s] 1 test run: 1 passed, 12 skipped", tally(1, 0, 12)),
            (
                "     Summary [   9.1s] 7 tests run: 5 passed (1 slow, 2 leaky), 2 failed, 1 skipped",
                tally(5, 2, 1),
            ),
            (
                "     Summary [   9.1s] 4 tests run: 1 passed, 1 failed, 1 timed out, 1 exec failed, 0 skipped",
                tally(1, 3, 0),
            ),
            ("     Summary [   9.1s] 2/9 tests run: 1 passed, 1 failed, 0 skipped", tally(1, 1, 0)),
            ("     Summary [   0.000s] 0 tests run: 0 passed, 4 skipped", tally(0, 0, 4)),
        ];
        for (line, expected) in table {
            assert_eq!(of_nextest(&format!("  PASS x\n{line}\n  FAIL y\n")), expected, "{line}");
        }
    }

    #[test]
    fn a_coloured_nextest_summary_is_read() {
        let line = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.003s] \u{1b}[1m3\u{1b}[0m tests run: \
                    \u{1b}[1m3\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m0\u{1b}[0m skipped";
        assert_eq!(of_nextest(line), tally(3, 0, 0));
    }

    #[test]
    fn a_report_without_a_summary_is_no_tally() {
        assert_eq!(of_nextest("error: could not compile `landfall-core`"), None);
        assert_eq!(of_libtest("error: could not compile `landfall-core`"), None);
    }

    #[test]
    fn libtest_results_are_summed_over_binaries() {
        let report = "running 3 tests\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s\n\n\
            test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s\n";
        assert_eq!(of_libtest(report), tally(4, 2, 1));
    }
}
