//! The files of a store are its owner's alone: they hold payments, webhooks' addresses and hashes of keys.

use std::fs::File;
#[cfg(unix)]
use std::fs::Metadata;
use std::io::Read as _;
use std::path::Path;
#[cfg(unix)]
use std::path::PathBuf;

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

/// It had to be changed, and was. Whoever may write the folder can put a link there, to a file of somebody else's: that one is left
/// alone.
#[cfg(unix)]
fn tightened(file: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    let found = Found::at(file)?;
    let metadata = found.metadata()?;
    if metadata.is_symlink() {
        return Err(std::io::Error::other("it is a link"));
    }
    let mode = metadata.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(false);
    }
    std::fs::set_permissions(found.path(), std::fs::Permissions::from_mode(mode & 0o700))?;
    Ok(true)
}

/// The file at a name, links not followed. It is held without being opened: closing an open one would end SQLite's locks on it.
#[cfg(target_os = "linux")]
struct Found(File);

#[cfg(target_os = "linux")]
impl Found {
    fn at(file: &Path) -> std::io::Result<Self> {
        use rustix::fs::OFlags;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(file, flags, rustix::fs::Mode::empty())?.into()))
    }

    fn metadata(&self) -> std::io::Result<Metadata> {
        self.0.metadata()
    }

    /// A name of what is held, whatever has its place by now.
    fn path(&self) -> PathBuf {
        use std::os::fd::AsRawFd as _;
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// The file at a name, links not followed.
#[cfg(all(unix, not(target_os = "linux")))]
struct Found(PathBuf);

#[cfg(all(unix, not(target_os = "linux")))]
impl Found {
    fn at(file: &Path) -> std::io::Result<Self> {
        Ok(Self(file.to_owned()))
    }

    fn metadata(&self) -> std::io::Result<Metadata> {
        self.0.symlink_metadata()
    }

    fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

#[cfg(not(unix))]
pub(super) fn tighten(_file: &Path) {}

/// The bytes of a file, if it is one and has no more than this. A link is none, nor is what would keep whoever reads it waiting.
pub(super) fn read_unlinked(name: &Path, most: u64) -> std::io::Result<Option<Vec<u8>>> {
    if !name.symlink_metadata()?.is_file() {
        return Ok(None);
    }
    // It may be another by now.
    let file = open_to_read(name)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

#[cfg(unix)]
fn open_to_read(name: &Path) -> std::io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(name, flags, Mode::empty())?.into())
}

#[cfg(not(unix))]
fn open_to_read(name: &Path) -> std::io::Result<File> {
    File::open(name)
}

/// A file that is there, opened to be locked. A link in its place leads nowhere, and what would keep whoever opens it waiting does not.
#[cfg(unix)]
pub(super) fn open_unlinked(name: &Path) -> std::io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let shown = name.display();
    match rustix::fs::open(name, flags, Mode::empty()).map(File::from) {
        Ok(opened) if opened.metadata()?.is_file() => Ok(opened),
        Ok(_) => Err(std::io::Error::other(format!("{shown} is no file"))),
        Err(_) if name.is_symlink() => {
            Err(std::io::Error::other(format!("{shown} is a link, and none is followed here: remove it")))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
pub(super) fn open_unlinked(name: &Path) -> std::io::Result<File> {
    File::options().write(true).open(name)
}

/// Gives a file that root's command made beside the database to the database's owner, as SQLite does with its log: the service that runs as
/// that user could not start otherwise.
#[cfg(unix)]
pub(super) fn give_to_owner_of(database: &Path, made: &File) {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let given = database.metadata().and_then(|owned| fchown(made, Some(owned.uid()), Some(owned.gid())));
    match given {
        Ok(()) => {}
        // It is about to be made, by the same user.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(%error, file = %database.display(), "a file beside the database could not be given to the \
                database's owner, who may be unable to use it");
        }
    }
}

#[cfg(not(unix))]
pub(super) fn give_to_owner_of(_database: &Path, _made: &File) {}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use landfall_core::Namespace;
    use landfall_core::ports::store::{Older, Reads as _};

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
        let store = opened(&url, &namespace).await;
        let made = modes(folder.path());
        assert!(made.len() >= 3 && made.iter().all(|(_, mode)| *mode == 0o600), "{made:?}");
        drop(store);
        for (name, _) in modes(folder.path()) {
            let loose = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(folder.path().join(name), loose).unwrap();
        }
        let _store = opened(&url, &namespace).await;
        let found = modes(folder.path());
        assert!(found.iter().all(|(_, mode)| *mode == 0o600), "{found:?}");
    }

    /// A store that was open before lets go of its locks a moment after it was dropped.
    async fn opened(url: &str, namespace: &Namespace) -> Sqlite {
        let mut tries = 0;
        loop {
            match Sqlite::open(url, namespace, &Options::default()) {
                Ok(store) => return store,
                Err(error) if tries > 500 => panic!("{error}"),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Whoever had it open has written its last mark.
    async fn closed(file: &Path) {
        let lock = File::options().write(true).open(mark::named(file, ".lock")).unwrap();
        while lock.try_lock().is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn a_command_of_roots_leaves_all_files_to_the_owner_of_the_database() {
        use std::os::unix::fs::{MetadataExt as _, chown};
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can give files away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.db");
        let url = format!("sqlite://{}", file.display());
        let namespace = Namespace("default".to_owned());
        drop(opened(&url, &namespace).await);
        let nobody = 65_534;
        chown(&file, Some(nobody), Some(nobody)).unwrap();
        // As on a machine where the service has never run: the lock is made anew. The mark always is.
        std::fs::remove_file(mark::named(&file, ".lock")).unwrap();
        let store = opened(&url, &namespace).await;
        store.take_for_older().await.unwrap();
        drop(store);
        let _store = opened(&url, &namespace).await;
        let owners = |folder: &Path| -> Vec<(String, u32, u32)> {
            let files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
            let owner = |file: std::fs::DirEntry| {
                let found = file.metadata().unwrap();
                (file.file_name().to_string_lossy().into_owned(), found.uid(), found.gid())
            };
            files.map(owner).collect()
        };
        let found = owners(folder.path());
        assert!(found.iter().any(|(name, ..)| name == "a.db.mark"), "{found:?}");
        assert!(found.iter().all(|(_, user, group)| (*user, *group) == (nobody, nobody)), "{found:?}");
    }

    #[tokio::test]
    async fn a_link_in_the_place_of_the_lock_is_refused_and_nothing_is_made_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let (file, elsewhere) = (folder.path().join("a.db"), folder.path().join("elsewhere"));
        let url = format!("sqlite://{}", file.display());
        let namespace = Namespace("default".to_owned());
        let refused =
            || Sqlite::open(&url, &namespace, &Options::default()).map(|_| ()).unwrap_err().to_string();
        let lock = mark::named(&file, ".lock");
        std::os::unix::fs::symlink(&elsewhere, &lock).unwrap();
        let said = refused();
        assert!(said.contains("a.db.lock is a link") && said.contains("remove it"), "{said}");
        assert!(!elsewhere.exists() && !file.exists(), "it leads nowhere, and nothing is made");
        // One that leads somewhere is no better.
        std::fs::write(&elsewhere, "of somebody else's").unwrap();
        assert!(refused().contains("a.db.lock is a link"));
        // Nor does anything else in its place keep anybody waiting.
        std::fs::remove_file(&lock).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&lock).status().unwrap();
        assert!(made.success());
        let said = refused();
        assert!(said.contains("a.db"), "{said}");
        std::fs::remove_file(&lock).unwrap();
        opened(&url, &namespace).await;
    }

    #[tokio::test]
    async fn a_database_is_not_made_where_a_link_that_leads_nowhere_says() {
        let folder = tempfile::tempdir().unwrap();
        let (file, elsewhere) = (folder.path().join("a.db"), folder.path().join("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        let url = format!("sqlite://{}", file.display());
        let opened = Sqlite::open(&url, &Namespace("default".to_owned()), &Options::default());
        let said = opened.map(|_| ()).unwrap_err().to_string();
        assert!(said.contains("link that leads nowhere"), "{said}");
        assert!(!elsewhere.exists());
    }

    #[tokio::test]
    async fn what_is_no_mark_keeps_nobody_waiting_and_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.db");
        let url = format!("sqlite://{}", file.display());
        let namespace = Namespace("default".to_owned());
        drop(opened(&url, &namespace).await);
        closed(&file).await;
        let name = mark::named(&file, ".mark");
        let real = std::fs::read(&name).unwrap();
        let is_held = async || opened(&url, &namespace).await.older().await.unwrap() == Some(Older::BadMark);
        std::fs::remove_file(&name).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&name).status().unwrap().success());
        assert!(is_held().await, "what would keep its reader waiting");
        std::fs::remove_file(&name).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &name).unwrap();
        assert!(is_held().await, "a link to what has no end");
        std::fs::remove_file(&name).unwrap();
        std::fs::write(folder.path().join("elsewhere"), &real).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &name).unwrap();
        assert!(is_held().await, "a link to a mark");
        std::fs::remove_file(&name).unwrap();
        std::fs::File::create(&name).unwrap().set_len(1 << 30).unwrap();
        assert!(is_held().await, "what is longer than any mark");
    }

    #[tokio::test]
    async fn nothing_is_made_where_a_link_leads_that_is_no_database_of_ours() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = folder.path().join("a.db");
        let namespace = Namespace("default".to_owned());
        let refused = |file: &Path| {
            let url = format!("sqlite://{}", file.display());
            Sqlite::open(&url, &namespace, &Options::default()).map(|_| ()).unwrap_err().to_string()
        };
        let target = elsewhere.path().join("X");
        std::os::unix::fs::symlink(&target, &file).unwrap();
        let long = "of somebody else's ".repeat(100);
        for content in ["", "of somebody else's", long.as_str()] {
            std::fs::write(&target, content).unwrap();
            let said = refused(&file);
            assert!(said.contains("a.db is not a Landfall database: it is a link"), "{said}");
            assert_eq!(std::fs::read_to_string(&target).unwrap(), content);
            assert_eq!(modes(elsewhere.path()).len(), 1, "and nothing lies beside it");
        }
        // Nor by what is no file.
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/null", &file).unwrap();
        assert!(refused(&file).contains("it is no file"));
        assert!(!Path::new("/dev/null.lock").exists());
        std::fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert!(refused(&file).contains("it is no file"));
        assert_eq!(modes(folder.path()).len(), 1);
        // One that leads to a database is followed.
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_file(&target).unwrap();
        drop(opened(&format!("sqlite://{}", target.display()), &namespace).await);
        std::fs::remove_file(mark::named(&target, ".lock")).unwrap();
        std::os::unix::fs::symlink(&target, &file).unwrap();
        opened(&format!("sqlite://{}", file.display()), &namespace).await;
    }

    #[tokio::test]
    async fn a_link_by_one_user_does_not_lead_to_a_file_of_another() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can give files away");
            return;
        }
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let namespace = Namespace("default".to_owned());
        let target = elsewhere.path().join("b.db");
        drop(opened(&format!("sqlite://{}", target.display()), &namespace).await);
        let nobody = 65_534;
        // The link may be the name itself, or a folder on the way to it.
        let (file, sub) = (folder.path().join("a.db"), folder.path().join("sub"));
        std::os::unix::fs::symlink(&target, &file).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &sub).unwrap();
        for (link, name) in [(&file, file.clone()), (&sub, sub.join("b.db"))] {
            opened(&format!("sqlite://{}", name.display()), &namespace).await;
            std::os::unix::fs::lchown(link, Some(nobody), Some(nobody)).unwrap();
            let refused = Sqlite::open(&name.display().to_string(), &namespace, &Options::default());
            let said = refused.map(|_| ()).unwrap_err().to_string();
            assert!(said.contains("a link by one user to a file of another"), "{said}");
        }
    }

    #[tokio::test]
    async fn a_link_in_the_place_of_the_mark_changes_no_file_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a.db"), folder.path().join("other"));
        std::fs::write(&other, "of somebody else's").unwrap();
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&other, mark::named(&file, ".mark")).unwrap();
        let url = format!("sqlite://{}", file.display());
        let _store = opened(&url, &Namespace("default".to_owned())).await;
        let mode = other.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o644);
    }
}
