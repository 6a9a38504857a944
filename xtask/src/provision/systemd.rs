//! `systemd-analyze`, which checks the unit in `deploy/`: the machine's own, or Debian's package where root may install it. A
//! machine without it runs the tests all the same; the one that wants it says what it could not check.

use std::process::Command;

use crate::process;

pub(super) fn provide() {
    if process::output(Command::new("systemd-analyze").arg("--version")).is_ok() {
        return;
    }
    let env = [("DEBIAN_FRONTEND", "noninteractive")];
    let install = ["install", "-qq", "-y", "--no-install-recommends", "systemd"];
    let may = landfall_pgtest::is_root() && process::output(Command::new("apt-get").arg("--version")).is_ok();
    let done = may && {
        println!("systemd-analyze: not on this machine, installing Debian's package systemd");
        let apt =
            |arguments: &[&str]| process::output(Command::new("apt-get").args(arguments).envs(env)).is_ok();
        apt(&install) || (apt(&["update", "-qq"]) && apt(&install))
    };
    if !done {
        eprintln!(
            "notice: systemd-analyze is not on this machine and could not be installed: the unit in deploy/systemd is checked \
             without it"
        );
    }
}
