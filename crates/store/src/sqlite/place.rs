//! Where a database may lie: whoever may write its folder can put there what leads elsewhere, and root's command would make files beside
//! what it finds, or a database of it. Judged before anything is made.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::mark;
use super::schema::APPLICATION_ID;

/// The first bytes of every SQLite file, and where its application's number is.
const BEGINS: &[u8] = b"SQLite format 3\0";
const NUMBER_AT: usize = 68;
const HEADER: usize = NUMBER_AT + 4;

/// Says why no database is opened at this name, whose real one is `real`.
pub(super) fn check(file: &Path, real: &Path) -> Result<(), &'static str> {
    let Ok(found) = real.metadata() else { return Ok(()) };
    if !found.is_file() {
        return Err("it is no file");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let mut owners =
            links(file).into_iter().filter_map(|link| link.symlink_metadata().ok()).map(|link| link.uid());
        if owners.any(|owner| owner != 0 && owner != found.uid()) {
            return Err("it is a link by one user to a file of another");
        }
    }
    // Where there is a lock, a store was before: nothing is made there, and whoever has it open keeps its own locks on the file.
    let is_link = file.is_symlink();
    if is_link && !mark::named(real, ".lock").exists() && !is_ours(real) {
        return Err("it is a link to a file that is no Landfall database");
    }
    if is_link && found.len() == 0 {
        return Err("it is a link to an empty file");
    }
    Ok(())
}

/// The file says that it is ours, or its log has what it does not say yet.
fn is_ours(file: &Path) -> bool {
    let mut header = [0; HEADER];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut header));
    let has_log = mark::named(file, "-wal").metadata().is_ok_and(|log| log.len() > 0);
    read.is_ok()
        && header.starts_with(BEGINS)
        && (has_log || header[NUMBER_AT..] == APPLICATION_ID.to_be_bytes())
}

/// The links on the way from a name to its file.
#[cfg(unix)]
fn links(file: &Path) -> Vec<PathBuf> {
    const MOST: usize = 40;
    let (mut found, Ok(mut name)) = (Vec::new(), std::path::absolute(file)) else { return Vec::new() };
    while found.len() < MOST {
        let mut way: Vec<&Path> = name.ancestors().collect();
        way.reverse();
        let Some(link) = way.into_iter().find(|part| part.is_symlink()) else { break };
        let (Ok(target), Ok(rest)) = (link.read_link(), name.strip_prefix(link)) else { break };
        let folder = link.parent().unwrap_or(link);
        let next = folder.join(target);
        let next = if rest.as_os_str().is_empty() { next } else { next.join(rest) };
        found.push(link.to_owned());
        // `..` after a link is a step from where it leads.
        name = std::path::absolute(&next).unwrap_or(next);
    }
    found
}
