//! Where PostgreSQL's programs are, and as whom they run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

/// Where packages put programs that are in nobody's path: Debian, Red Hat, Homebrew.
const PLACES: &[&str] = &["/usr/lib/postgresql", "/usr", "/opt/homebrew/opt", "/usr/local/opt"];

/// The folder of `initdb`, `postgres`, `pg_ctl` and `pg_basebackup`; the newest, if there are several.
pub fn programs() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = std::env::split_paths(&path)
        .filter_map(|folder| {
            // A link in the path leads to the folder that has them all.
            folder.join("initdb").canonicalize().ok()?.parent().map(Path::to_owned)
        })
        .filter(|folder| is_whole(folder))
        .collect();
    for place in PLACES {
        let Ok(entries) = std::fs::read_dir(place) else { continue };
        let mut here: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path().join("bin")).filter(|bin| is_whole(bin)).collect();
        here.sort_by_key(|bin| std::cmp::Reverse(number_in(bin)));
        found.append(&mut here);
    }
    match found.into_iter().next() {
        Some(folder) => Ok(folder),
        None => {
            bail!("PostgreSQL's programs (initdb, postgres, pg_ctl, pg_basebackup) are not on this machine")
        }
    }
}

fn is_whole(folder: &Path) -> bool {
    ["initdb", "postgres", "pg_ctl", "pg_basebackup"].iter().all(|program| folder.join(program).is_file())
}

/// The version in a path such as `/usr/lib/postgresql/15/bin`.
fn number_in(folder: &Path) -> u32 {
    let name = folder.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let digits: String = name.unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// What `postgres --version` says.
pub fn version() -> Result<String> {
    let said = Command::new(programs()?.join("postgres")).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// An unprivileged user, for when we are root.
#[derive(Debug, Clone)]
pub struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// Nobody else if we are not root.
    pub(crate) fn to_run_as() -> Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        for name in ["postgres", "nobody"] {
            if let Some(user) = users.lines().find_map(|line| Self::of(line, name)) {
                return Ok(Some(user));
            }
        }
        bail!(
            "PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody` to run it"
        )
    }

    fn of(line: &str, wanted: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        (name == wanted).then_some(Self { uid, gid })
    }
}

/// Root is who owns what this process makes.
pub fn is_root() -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        tempfile::tempfile().and_then(|file| file.metadata()).is_ok_and(|meta| meta.uid() == 0)
    }
    #[cfg(not(unix))]
    {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_read_from_the_list_of_users() {
        let user = User::of(
            "postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash",
            "postgres",
        );
        assert_eq!(user.map(|user| (user.uid, user.gid)), Some((101, 104)));
        assert!(User::of("root:x:0:0:root:/root:/bin/bash", "postgres").is_none());
    }

    #[test]
    fn the_newest_version_counts() {
        assert!(
            number_in(Path::new("/usr/lib/postgresql/17/bin"))
                > number_in(Path::new("/usr/lib/postgresql/9/bin"))
        );
    }
}
