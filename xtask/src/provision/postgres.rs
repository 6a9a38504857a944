//! PostgreSQL, from the machine's own package: a cluster for this run, gone with it.

use std::process::Command;

use anyhow::{Context, Result, bail};
use landfall_pgtest::{Cluster, Settings, VARIABLE};

use super::Tool;
use crate::process;

pub(super) fn provide() -> Result<Tool> {
    if let Some(given) = std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) {
        let version = "given, not started by this run".to_owned();
        return Ok(Tool { variable: VARIABLE, value: given, version, running: None });
    }
    if landfall_pgtest::programs().is_err() {
        install()?;
    }
    let version = landfall_pgtest::version()?;
    let cluster = Cluster::start(Settings::default()).context("cannot start a PostgreSQL for the tests")?;
    Ok(Tool { variable: VARIABLE, value: cluster.url().into(), version, running: Some(cluster) })
}

fn install() -> Result<()> {
    let by_hand = format!(
        "the tests run against PostgreSQL, and its programs are not on this machine. Install your system's package \
         (`apt-get install postgresql` on Debian and Ubuntu), or set {VARIABLE} to the URL of a database whose user may \
         make schemas"
    );
    if !landfall_pgtest::is_root() || process::output(Command::new("apt-get").arg("--version")).is_err() {
        bail!(by_hand);
    }
    println!("PostgreSQL: not on this machine, installing Debian's package");
    let env = [("DEBIAN_FRONTEND", "noninteractive")];
    process::output(Command::new("apt-get").args(["update", "-qq"]).envs(env)).context(by_hand.clone())?;
    let mut apt = Command::new("apt-get");
    apt.args(["install", "-qq", "-y", "--no-install-recommends", "postgresql"]).envs(env);
    process::output(&mut apt).context(by_hand)?;
    landfall_pgtest::programs().map(drop)
}
