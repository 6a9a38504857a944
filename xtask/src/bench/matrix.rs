//! What is run: each case with its words for `landfall bench`, and how often.

/// Where on the page a case belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Stores and modes.
    Throughput,
    /// The same work over more and more lanes.
    Lanes,
    /// Several nodes on one database.
    Nodes,
    /// Full stores, restarts, idle lanes, a real anvil.
    Scale,
}

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) part: Part,
    pub(super) postgres: bool,
    pub(super) words: Vec<String>,
    pub(super) runs: usize,
}

/// How much there is of everything.
struct Size {
    count: u64,
    lanes_count: u64,
    many: u64,
    restart: u64,
    anvil: u64,
    runs: usize,
    comparisons: u64,
}

const FULL: Size = Size {
    count: 50_000,
    lanes_count: 50_000,
    many: 1_000_000,
    restart: 100_000,
    anvil: 20_000,
    runs: 3,
    comparisons: 5,
};
const QUICK: Size = Size {
    count: 5_000,
    lanes_count: 5_000,
    many: 20_000,
    restart: 10_000,
    anvil: 4_000,
    runs: 1,
    comparisons: 1,
};

pub(super) fn all(quick: bool) -> Vec<Case> {
    let size = if quick { QUICK } else { FULL };
    let mut cases = Vec::new();
    for (store, postgres) in [("sqlite", false), ("postgres", true)] {
        for mode in ["batch", "single", "rpc"] {
            let words = format!("--mode {mode} --signers 8 --count {}", size.count);
            cases.push(case(format!("{store}-{mode}"), Part::Throughput, postgres, &words, size.runs));
        }
        let words = format!("--signers 1 --count {}", size.count);
        cases.push(case(format!("{store}-batch-one-signer"), Part::Throughput, postgres, &words, size.runs));
    }
    for lanes in [1, 10, 100, 1_000, 10_000] {
        let words = format!("--signers {lanes} --count {}", size.lanes_count.max(lanes));
        cases.push(case(format!("lanes-{lanes}"), Part::Lanes, false, &words, size.runs));
    }
    for nodes in [1, 2, 3] {
        let words = format!("--nodes {nodes} --signers 9 --count {}", size.count);
        cases.push(case(format!("nodes-{nodes}"), Part::Nodes, true, &words, size.runs));
    }
    let comparisons = size.comparisons;
    for (name, words) in [
        ("waiting", format!("--waiting {} --runs {comparisons}", size.many)),
        ("finished", format!("--finished {} --runs {comparisons}", size.many)),
        ("restart", format!("--restart {}", size.restart)),
        ("idle", "--idle 1000".to_owned()),
        ("anvil", format!("--anvil --count {} --runs {comparisons}", size.anvil)),
    ] {
        cases.push(case(name.to_owned(), Part::Scale, false, &words, 1));
    }
    cases
}

/// The order of the runs, as places of cases and numbers of their runs. The cases of one part take turns: they are compared with each other,
/// and a machine that becomes slower meanwhile becomes so for all of them.
pub(super) fn turns<'c>(cases: impl Iterator<Item = &'c Case>) -> Vec<(usize, usize)> {
    let cases: Vec<(usize, &Case)> = cases.enumerate().collect();
    let mut turns = Vec::new();
    for part in cases.chunk_by(|(_, one), (_, next)| one.part == next.part) {
        let most = part.iter().map(|(_, case)| case.runs).max().unwrap_or(0);
        for n in 0..most {
            turns.extend(part.iter().filter(|(_, case)| n < case.runs).map(|(place, _)| (*place, n)));
        }
    }
    turns
}

fn case(name: String, part: Part, postgres: bool, words: &str, runs: usize) -> Case {
    Case { name, part, postgres, words: words.split(' ').map(str::to_owned).collect(), runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_that_are_compared_take_turns_and_each_has_all_its_runs() {
        let part = |part, runs| case("a".to_owned(), part, false, "", runs);
        let cases = [part(Part::Lanes, 2), part(Part::Lanes, 3), part(Part::Scale, 1), part(Part::Scale, 1)];
        assert_eq!(turns(cases.iter()), [(0, 0), (1, 0), (0, 1), (1, 1), (1, 2), (2, 0), (3, 0)]);
    }

    #[test]
    fn every_case_has_a_name_of_its_own() {
        for quick in [false, true] {
            let names: Vec<String> = all(quick).into_iter().map(|case| case.name).collect();
            let mut once = names.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), names.len());
        }
    }
}
