//! `cargo xtask flame`: where the server's time goes. Runs `landfall bench`, samples its server with `perf` and draws what
//! was on the stacks into `docs/benchmarks/flame.svg`.

use std::io::BufReader;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;
use inferno::flamegraph::{self, Options};

use crate::process;
use crate::workspace::Workspace;

/// Samples per second: no divisor of what ticks in the server.
const FREQUENCY: &str = "397";
/// How much of a stack is kept: frames without pointers are found in it later.
const STACK: &str = "dwarf,16384";
/// How long is sampled. The run is longer than that.
const SECONDS: &str = "5";
/// How often, and how many times, it is looked whether the benchmark has started its server.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOKS: u32 = 1_200;
/// Frames thinner than this share of the picture are left out, or it would be megabytes.
const THINNEST_PERCENT: f64 = 0.2;

pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result<bool> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--package", "landfall"]).current_dir(&workspace.root);
    if !process::status(&mut build)?.success() {
        bail!("the release cannot be built");
    }
    let folder = workspace.target.join("flame");
    std::fs::create_dir_all(&folder)?;
    let samples = folder.join("perf.data");
    let mut bench = Command::new(workspace.target.join("release").join("landfall"));
    bench.arg("bench").args(words).arg("--json").stdin(Stdio::null()).stdout(Stdio::null());
    let mut bench = bench.spawn().context("cannot start `landfall bench`")?;
    let sampled = server_of(&mut bench).and_then(|server| sample(server, &samples));
    let done = bench.wait()?;
    sampled?;
    if !done.success() {
        bail!("`landfall bench` failed ({done})");
    }
    let picture = workspace.root.join("docs").join("benchmarks").join("flame.svg");
    std::fs::create_dir_all(picture.parent().unwrap_or(&workspace.root))?;
    draw(&samples, &picture)?;
    println!("written: docs/benchmarks/flame.svg");
    Ok(true)
}

/// The process id of the server that the benchmark started.
fn server_of(bench: &mut Child) -> Result<u32> {
    let children = format!("/proc/{0}/task/{0}/children", bench.id());
    for _ in 0..LOOKS {
        if bench.try_wait()?.is_some() {
            break;
        }
        let ids = std::fs::read_to_string(&children).unwrap_or_default();
        for id in ids.split_whitespace() {
            let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            if words.split(|byte| *byte == 0).any(|word| word == b"serve") {
                return Ok(id.parse()?);
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
    bail!("the benchmark started no server")
}

fn sample(server: u32, to: &Path) -> Result<()> {
    // Its start is not what is looked for.
    std::thread::sleep(Duration::from_secs(1));
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-F", FREQUENCY, "--call-graph", STACK, "-p", &server.to_string(), "-o"]);
    perf.arg(to).args(["--", "sleep", SECONDS]);
    process::output(&mut perf)
        .context("`perf` is needed for this (Linux, package linux-perf or linux-tools)")?;
    Ok(())
}

fn draw(samples: &Path, to: &Path) -> Result<()> {
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "-i"]).arg(samples);
    let text = process::output(&mut script)?;
    let mut folded = Vec::new();
    Folder::default().collapse(BufReader::new(text.as_bytes()), &mut folded)?;
    let mut options = Options::default();
    options.title = "Where the server's time goes".to_owned();
    options.min_width = THINNEST_PERCENT;
    let file = std::fs::File::create(to).with_context(|| format!("cannot write {}", to.display()))?;
    flamegraph::from_reader(&mut options, folded.as_slice(), file)?;
    Ok(())
}
