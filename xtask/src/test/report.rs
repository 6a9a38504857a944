//! The closing table: a row per step and suite, then the line `N passed, N failed`.

use std::time::Duration;

use super::suites::TOTAL_BUDGET;
use super::tally::Tally;
use crate::clock;

pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) tally: Tally,
    outcome: Outcome,
    time: Option<Duration>,
    budget: Option<Duration>,
}

pub(crate) enum Outcome {
    /// Not a suite: a step on the way.
    Step,
    Passed,
    Failed,
    /// It did not run as it should; a sentence says how.
    Broken(String),
    /// It was not to be run; a sentence says why.
    NotRun(String),
}

impl Row {
    pub(crate) fn new(name: &str, tally: Tally, outcome: Outcome) -> Self {
        Self { name: name.to_owned(), tally, outcome, time: None, budget: None }
    }

    pub(crate) fn step(name: &str, time: Duration) -> Self {
        Self::new(name, Tally::default(), Outcome::Step).at(time)
    }

    pub(crate) fn problem(name: &str, failed: usize, sentence: String) -> Self {
        Self::new(name, Tally { failed, ..Tally::default() }, Outcome::Broken(sentence))
    }

    pub(crate) fn broken(name: &str, time: Duration, sentence: String) -> Self {
        Self::problem(name, 1, sentence).at(time)
    }

    pub(crate) fn not_run(name: &str, sentence: String) -> Self {
        Self::new(name, Tally::default(), Outcome::NotRun(sentence))
    }

    pub(crate) fn at(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    pub(crate) fn within(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    pub(crate) fn is_good(&self) -> bool {
        match self.outcome {
            Outcome::Step | Outcome::Passed | Outcome::NotRun(_) => true,
            Outcome::Failed | Outcome::Broken(_) => false,
        }
    }

    fn remark(&self) -> String {
        let over = match (self.time, self.budget) {
            (Some(time), Some(budget)) if time > budget => {
                format!("over its budget of {}", clock::show(budget))
            }
            _ => String::new(),
        };
        match &self.outcome {
            Outcome::Step | Outcome::Passed => over,
            Outcome::Failed => "FAILED".to_owned(),
            Outcome::Broken(sentence) => format!("FAILED: {sentence}"),
            Outcome::NotRun(sentence) => sentence.clone(),
        }
    }
}

/// Prints all and says whether all is well.
pub(crate) fn print(rows: &[Row], total: Duration) -> bool {
    println!("\n{}", table(rows, total));
    if total > TOTAL_BUDGET {
        println!("notice: over the budget of {} for a run with everything built", clock::show(TOTAL_BUDGET));
    }
    let sum = sum(rows);
    println!("{} passed, {} failed", sum.passed, sum.failed);
    rows.iter().all(Row::is_good)
}

fn sum(rows: &[Row]) -> Tally {
    rows.iter().fold(Tally::default(), |sum, row| sum.plus(row.tally))
}

fn table(rows: &[Row], total: Duration) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("total".len());
    let line = |name: &str, passed: &str, failed: &str, time: &str, remark: &str| {
        format!("{name:<width$}  {passed:>7}  {failed:>7}  {time:>12}  {remark}").trim_end().to_owned() + "\n"
    };
    let mut text = line("suite", "passed", "failed", "time", "");
    for row in rows {
        let count = |number: usize| match row.outcome {
            Outcome::Step | Outcome::NotRun(_) => "-".to_owned(),
            Outcome::Passed | Outcome::Failed | Outcome::Broken(_) => number.to_string(),
        };
        let time = row.time.map_or_else(|| "-".to_owned(), clock::show);
        text += &line(&row.name, &count(row.tally.passed), &count(row.tally.failed), &time, &row.remark());
    }
    let sum = sum(rows);
    text + &line("total", &sum.passed.to_string(), &sum.failed.to_string(), &clock::show(total), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_counts_times_and_what_is_wrong() {
        let tally = |passed, failed| Tally { passed, failed, left_out: 0 };
        let rows = [
            Row::step("build", Duration::from_secs(62)),
            Row::new("unit", tally(12, 0), Outcome::Passed)
                .at(Duration::from_secs(9))
                .within(Duration::from_secs(5)),
            Row::new("e2e", tally(1, 2), Outcome::Failed).at(Duration::from_secs(3)),
            Row::not_run("sim", "only with --all".to_owned()),
        ];
        let expected = "\
suite   passed   failed          time
build        -        -   1 min 02 s
unit        12        0         9.0 s  over its budget of 5.0 s
e2e          1        2         3.0 s  FAILED
sim          -        -             -  only with --all
total       13        2  1 min 14 s
";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&table(&rows, Duration::from_secs(74))), squeezed(expected));
        assert!(!rows.iter().all(Row::is_good));
    }
}
