//! Programs that only some tests want, from Debian's packages: the machine's own, or installed where root may. A machine without
//! one runs the tests all the same; the closing table says what was not checked, and on CI that is a failure.

use std::process::Command;

use crate::process;

/// A program, and the package it is in.
struct Program {
    name: &'static str,
    package: &'static str,
    /// The fact that is not known without it.
    checks: &'static str,
}

const PROGRAMS: [Program; 2] = [
    Program {
        name: "systemd-analyze",
        package: "systemd",
        checks: "that deploy/systemd/landfall.service passes `systemd-analyze verify` and `security`",
    },
    Program { name: "testssl", package: "testssl.sh", checks: "what `testssl` says of the server's TLS" },
];

/// A program that is not here and could not be installed.
pub(crate) struct Absent {
    pub(crate) name: &'static str,
    /// The check that was not made, and how to get the program.
    pub(crate) sentence: String,
}

/// Puts the programs in place; those that could not be.
pub(super) fn provide() -> Vec<Absent> {
    let absent = PROGRAMS.iter().filter(|program| !is_here(program) && !install(program));
    absent
        .map(|Program { name, package, checks }| Absent {
            name,
            sentence: format!("ABSENT: it was NOT checked {checks}. Install Debian's package {package}"),
        })
        .collect()
}

fn is_here(program: &Program) -> bool {
    process::output(Command::new(program.name).arg("--version")).is_ok()
}

fn install(program: &Program) -> bool {
    if !landfall_pgtest::is_root() || process::output(Command::new("apt-get").arg("--version")).is_err() {
        return false;
    }
    println!("{}: not on this machine, installing Debian's package {}", program.name, program.package);
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        process::output(apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive")).is_ok()
    };
    let install = ["install", "-qq", "-y", "--no-install-recommends", program.package];
    // A fresh machine has no lists of packages.
    (apt(&install) || (apt(&["update", "-qq"]) && apt(&install))) && is_here(program)
}
