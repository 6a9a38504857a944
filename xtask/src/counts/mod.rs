//! `cargo xtask counts`: how many instructions the pieces of the hot path take, held against what was committed.
//!
//! A time says little on a machine that does other things as well; the number of instructions is the same on all of them.
//! Each case of `crates/benches` runs under valgrind twice, once with twice as many rounds: the difference is the rounds
//! alone, without the program's start.

mod callgrind;
mod committed;
mod verdict;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::provision;
use crate::test::Tally;
use crate::workspace::Workspace;
use callgrind::Program;
use committed::Committed;
use verdict::Verdict;

/// A case as `crates/benches` describes it.
#[derive(Debug, PartialEq, Eq)]
struct Case {
    name: String,
    rounds: u64,
    /// How many things one round does.
    per_round: u64,
}

/// Why nothing can be counted on this kind of machine, where that is so.
pub(crate) fn impossible(workspace: &Workspace) -> Result<Option<String>> {
    let (here, there) = (committed::platform(), Committed::read(workspace)?.platform);
    Ok((here != there).then(|| format!("instructions were counted on {there}; {here} has others")))
}

/// The command. Whether nothing got dearer.
pub(crate) fn run(workspace: &Workspace, accept: bool, filters: &[String]) -> Result<bool> {
    let mut committed = Committed::read(workspace)?;
    if committed.platform != committed::platform() {
        bail!(
            "instructions are counted on {}: those of another machine cannot be held against them",
            committed.platform
        );
    }
    let counted = count(workspace, filters)?;
    if accept {
        let gone = if filters.is_empty() { committed.without(&counted) } else { Vec::new() };
        for name in gone {
            println!("{name}: there is no such case any more; removed");
            committed.cases.remove(&name);
        }
        committed.cases.extend(counted);
        committed.compiler = compiler(workspace)?;
        committed.write(workspace)?;
        println!("written to {}; say in the commit why they changed", committed::FILE);
        return Ok(true);
    }
    let tally = judge(workspace, &committed, &counted, filters)?;
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(tally.failed == 0)
}

/// The suite of `cargo xtask test`: a case is a test.
pub(crate) fn suite(workspace: &Workspace, filters: &[String]) -> Result<Tally> {
    let committed = Committed::read(workspace)?;
    let counted = count(workspace, filters)?;
    judge(workspace, &committed, &counted, filters)
}

/// Instructions per thing of every case that the filters let through.
fn count(workspace: &Workspace, filters: &[String]) -> Result<Vec<(String, u64)>> {
    let program = callgrind::build(workspace)?;
    let cases = listed(&process::output(&mut program.plain())?)?;
    let wanted: Vec<_> = cases.into_iter().filter(|case| is_wanted(&case.name, filters)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let valgrind = provision::valgrind(workspace)?;
    println!("{} = {} ({})", valgrind.variable, valgrind.value.display(), valgrind.version);
    wanted.into_iter().map(|case| Ok((case.name.clone(), per_thing(&program, &valgrind, &case)?))).collect()
}

fn is_wanted(name: &str, filters: &[String]) -> bool {
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
}

fn per_thing(program: &Program, valgrind: &provision::Tool, case: &Case) -> Result<u64> {
    let (half, whole) = (format!("{}.half.out", case.name), format!("{}.out", case.name));
    // Both at once: other work on the machine does not change what is counted.
    let (once, twice) = std::thread::scope(|scope| {
        let once = scope.spawn(|| program.count(valgrind, &case.name, case.rounds, &half));
        let twice = program.count(valgrind, &case.name, 2 * case.rounds, &whole);
        (once.join(), twice)
    });
    let once = once.map_err(|_| anyhow::anyhow!("the thread that counted {} broke off", case.name))??;
    let rounds = twice?.checked_sub(once).filter(|rounds| *rounds > 0);
    let rounds = rounds.with_context(|| format!("{}: twice as many rounds took no longer", case.name))?;
    Ok(rounds / (case.rounds * case.per_round).max(1))
}

fn judge(
    workspace: &Workspace,
    committed: &Committed,
    counted: &[(String, u64)],
    filters: &[String],
) -> Result<Tally> {
    let compiler = compiler(workspace)?;
    let mut tally = Tally::default();
    println!("{:<14} {:>12} {:>12} {:>9}", "case", "committed", "now", "change");
    let mut said = Vec::new();
    for (name, now) in counted {
        let before = committed.cases.get(name).copied();
        let verdict = Verdict::of(before, *now);
        println!("{}", verdict::line(name, before, *now));
        said.extend(verdict.sentence(name, before, *now));
        if verdict.is_good() { tally.passed += 1 } else { tally.failed += 1 }
    }
    for name in committed.without(counted).iter().filter(|name| is_wanted(name, filters)) {
        said.push(format!(
            "{name}: committed, and there is no such case: `cargo xtask counts --accept` removes it"
        ));
        tally.failed += 1;
    }
    if tally.failed > 0 && compiler != committed.compiler {
        said.push(format!("the committed numbers are of {}; this is {compiler}", committed.compiler));
    }
    for sentence in said {
        println!("{sentence}");
    }
    Ok(tally)
}

fn compiler(workspace: &Workspace) -> Result<String> {
    let version =
        process::output(std::process::Command::new("rustc").arg("--version").current_dir(&workspace.root))?;
    Ok(version.trim().to_owned())
}

/// Reads `name rounds things-per-round`, a line for each.
fn listed(text: &str) -> Result<Vec<Case>> {
    let case = |line: &str| {
        let mut words = line.split_whitespace();
        Some(Case {
            name: words.next()?.to_owned(),
            rounds: words.next()?.parse().ok()?,
            per_round: words.next()?.parse().ok()?,
        })
    };
    text.lines().map(|line| case(line).with_context(|| format!("cannot read `{line}` as a case"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_as_the_program_lists_them() {
        let case = |name: &str, rounds, per_round| Case { name: name.to_owned(), rounds, per_round };
        assert_eq!(
            listed("lane-life 1 1000\nseal 16 16\n").unwrap(),
            [case("lane-life", 1, 1000), case("seal", 16, 16)]
        );
        assert!(listed("lane-life 1").is_err());
    }

    #[test]
    fn filters_choose_by_a_part_of_the_name() {
        let filters = ["lane".to_owned(), "seal".to_owned()];
        assert!(
            is_wanted("lane-life", &filters) && is_wanted("seal", &filters) && !is_wanted("sign", &filters)
        );
        assert!(is_wanted("sign", &[]));
    }
}
