//! Tools that the tests need and a fresh machine lacks, one file per tool.
//!
//! A tool is found (its variable is set and it runs), or put into the cache folder. What lands in the cache lands
//! there by one rename of something that was seen to run, so that two runs at once or one that was interrupted
//! leave either nothing or the whole tool.

mod anvil;
mod clients;
mod debian;
mod postgres;
mod pypi;
mod standardwebhooks;
mod typescript;
mod valgrind;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
pub(crate) use debian::Absent;

/// A tool that runs, and the variable by which tests find it.
pub(crate) struct Tool {
    pub(crate) variable: &'static str,
    /// Its path, or its address if it is running.
    pub(crate) value: OsString,
    pub(crate) version: String,
    /// What was started for this run; it stops when this is dropped.
    pub(crate) running: Option<landfall_pgtest::Cluster>,
}

/// Everything the tests need.
pub(crate) fn all(workspace: &Workspace) -> Result<Vec<Tool>> {
    let cache = workspace.cache();
    Ok(vec![
        anvil::provide(&cache)?,
        pypi::provide(&pypi::SCHEMATHESIS, &cache)?,
        pypi::provide(&pypi::KUBERNETES_VALIDATE, &cache)?,
        typescript::provide(&workspace.root)?,
        clients::provide(&workspace.root, &cache)?,
        standardwebhooks::provide(&cache)?,
        postgres::provide()?,
    ])
}

/// Programs that a few tests want and can do without: those that are not here and could not be installed.
pub(crate) fn absent() -> Vec<Absent> {
    debian::provide()
}

/// What counts instructions. Not among all the others: only one suite needs it.
pub(crate) fn valgrind(workspace: &Workspace) -> Result<Tool> {
    valgrind::provide(&workspace.cache())
}

/// A real node, for those who need nothing else.
pub(crate) fn anvil(workspace: &Workspace) -> Result<Tool> {
    anvil::provide(&workspace.cache())
}

/// A folder of our own inside the cache, on the same file system as its destination, gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(cache: &Path, tool: &str) -> Result<Self> {
        std::fs::create_dir_all(cache).with_context(|| format!("cannot create {}", cache.display()))?;
        sweep(cache);
        // A number may be taken: by a process that died, or by one in another container that shares the cache.
        for number in 0..MOST_AT_ONCE {
            let folder = cache.join(format!("{PARTIAL}{tool}-{}-{number}", std::process::id()));
            match std::fs::create_dir(&folder) {
                Ok(()) => return Ok(Self(folder)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot create {}", folder.display()));
                }
            }
        }
        bail!("{} is full of `{PARTIAL}…` folders: delete them", cache.display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("notice: {} could not be removed: {error}", self.0.display());
        }
    }
}

const PARTIAL: &str = "partial-";
const MOST_AT_ONCE: usize = 100;
const ABANDONED: Duration = Duration::from_secs(3600);

/// Removes what interrupted runs left behind; one that is still at work is younger than an hour.
fn sweep(cache: &Path) {
    let Ok(entries) = std::fs::read_dir(cache) else { return };
    for entry in entries.flatten() {
        let old = entry
            .metadata()
            .and_then(|data| data.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > ABANDONED));
        if old
            && entry.file_name().to_string_lossy().starts_with(PARTIAL)
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            eprintln!("notice: {} could not be removed: {error}", entry.path().display());
        }
    }
}
