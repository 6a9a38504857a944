//! The files of a store are its owner's alone: they hold payments, webhooks' addresses and hashes of keys.

use std::path::Path;

use super::mark;

/// Files that lie beside the database and tell of it.
const ENDINGS: [&str; 4] = ["-wal", "-shm", ".lock", ".mark"];

/// Takes the rights of others off files that an earlier version made. Where that cannot be done, it is said.
#[cfg(unix)]
pub(super) fn tighten(file: &Path) {
    let beside = ENDINGS.iter().map(|ending| mark::named(file, ending));
    for file in std::iter::once(file.to_owned()).chain(beside) {
        match tightened(&file) {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(file = %file.display(), "others could read this file of the store; now only its owner can");
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, file = %file.display(), "others can read this file of the store, and that could not be changed");
            }
        }
    }
}

/// It had to be changed, and was.
#[cfg(unix)]
fn tightened(file: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(file)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(false);
    }
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode & 0o700))?;
    Ok(true)
}

#[cfg(not(unix))]
pub(super) fn tighten(_file: &Path) {}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use landfall_core::Namespace;

    use super::*;
    use crate::sqlite::{Options, Sqlite};

    fn modes(folder: &Path) -> Vec<(String, u32)> {
        let files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
        let mode = |file: &std::fs::DirEntry| file.metadata().unwrap().permissions().mode() & 0o777;
        files.map(|file| (file.file_name().to_string_lossy().into_owned(), mode(&file))).collect()
    }

    #[tokio::test]
    async fn every_file_of_a_store_is_its_owners_alone_also_if_an_earlier_version_made_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.db");
        let url = format!("sqlite://{}", file.display());
        let namespace = Namespace("default".to_owned());
        let open = || Sqlite::open(&url, &namespace, &Options::default()).unwrap();
        let store = open();
        let made = modes(folder.path());
        assert!(made.len() >= 3 && made.iter().all(|(_, mode)| *mode == 0o600), "{made:?}");
        drop(store);
        for (name, _) in modes(folder.path()) {
            let loose = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(folder.path().join(name), loose).unwrap();
        }
        // The first one lets go of its locks a moment after it was dropped.
        let mut tries = 0;
        let _store = loop {
            match Sqlite::open(&url, &namespace, &Options::default()) {
                Ok(store) => break store,
                Err(error) if tries > 500 => panic!("{error}"),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        };
        let found = modes(folder.path());
        assert!(found.iter().all(|(_, mode)| *mode == 0o600), "{found:?}");
    }
}
