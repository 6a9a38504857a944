//! Files that hold secrets: opened once, judged by what was opened, and read from that. Nobody can put another file there between
//! the look and the read.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// Names the folder that systemd makes for the service.
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";
/// Where Docker and Podman mount secrets, and where Kubernetes is told to in deploy/. What lies there is in the service's own view
/// of the file system, whatever its mode and its owner say.
const MOUNTED: &str = "/run/secrets";
/// No secret is longer.
const LONGEST: u64 = 64 * 1024;

/// A file that holds a secret, and how it is judged. Links are followed, and the file they lead to is judged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretFile {
    path: PathBuf,
    loose: bool,
}

/// Why a file with a secret is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("file {}, which should hold a secret, could not be read: {cause}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
    #[error(
        "the file {0} has mode {mode:03o}, so that other users of this machine can read or change what should be secret. Run \
         `chmod 600 {0}`",
        path.display()
    )]
    Mode { path: PathBuf, mode: u32 },
    #[error(
        "the file {0} belongs to user {owner} of this machine, who can read and change what should be secret. Run `chown {user} {0}`, \
         which makes it that of the user Landfall runs as",
        path.display()
    )]
    Owner { path: PathBuf, owner: u32, user: u32 },
    #[error(
        "the folder {0} has mode {mode:04o}, so that other users of this machine can put another file in the place of {1}. Run \
         `chmod go-w {0}`",
        folder.display(),
        path.display()
    )]
    Folder { path: PathBuf, folder: PathBuf, mode: u32 },
}

impl FileError {
    /// It could be used, but for other users of the machine.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        match self {
            Self::Mode { .. } | Self::Owner { .. } | Self::Folder { .. } => true,
            Self::Unreadable { .. } => false,
        }
    }
}

impl SecretFile {
    /// A file that nobody but this process's user and root may read or change.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), loose: false }
    }

    /// A file that others may read and change.
    pub fn loose(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), loose: true }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens and judges it.
    pub fn open(&self) -> Result<File, FileError> {
        let unreadable = |cause| FileError::Unreadable { path: self.path.clone(), cause };
        let file = File::open(&self.path).map_err(unreadable)?;
        if !self.loose {
            judge(&file, &self.path)?;
        }
        Ok(file)
    }

    /// The file's content, without the line break at its end.
    pub fn read(&self) -> Result<Zeroizing<String>, FileError> {
        let mut text = text_of(self.open()?, &self.path)?;
        let kept = text.trim_end_matches(['\r', '\n']).len();
        text.truncate(kept);
        Ok(text)
    }
}

/// All that an open file has to say.
pub(super) fn text_of(file: impl std::io::Read, path: &Path) -> Result<Zeroizing<String>, FileError> {
    let mut text = Zeroizing::new(String::new());
    let read = file.take(LONGEST).read_to_string(&mut text);
    read.map(|_| text).map_err(|cause| FileError::Unreadable { path: path.to_owned(), cause })
}

/// A path to what is open, whatever stands in its place by now.
pub(super) fn path_to(file: &File, path: &Path) -> PathBuf {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;
        let open = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        if open.exists() {
            return open;
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
    path.to_owned()
}

/// Others than this process's user and root can neither read nor change it, nor put another file in its place.
#[cfg(unix)]
fn judge(file: &File, path: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::MetadataExt as _;
    let unreadable = |cause| FileError::Unreadable { path: path.to_owned(), cause };
    let real = path_to(file, path).canonicalize().unwrap_or_else(|_| path.to_owned());
    if is_mounted(&real) {
        return Ok(());
    }
    let found = file.metadata().map_err(unreadable)?;
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != user && found.uid() != 0 {
        return Err(FileError::Owner { path: path.to_owned(), owner: found.uid(), user });
    }
    // A pipe of a shell (`<(…)`) has no place that others could reach.
    if !found.is_file() {
        return Ok(());
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(FileError::Mode { path: path.to_owned(), mode });
    }
    let Some(folder) = real.parent() else { return Ok(()) };
    let of_folder = std::fs::metadata(folder).map_err(unreadable)?;
    let mode = of_folder.mode() & 0o7777;
    let own_group = of_folder.gid() == rustix::process::getegid().as_raw();
    let is_open = mode & 0o002 != 0 || (mode & 0o020 != 0 && !own_group);
    // With the sticky bit, as /tmp has it, nobody can move another one's file.
    if is_open && mode & 0o1000 == 0 {
        return Err(FileError::Folder { path: path.to_owned(), folder: folder.to_owned(), mode });
    }
    Ok(())
}

#[cfg(not(unix))]
fn judge(_file: &File, _path: &Path) -> Result<(), FileError> {
    Ok(())
}

/// It lies where a service manager puts secrets for this service alone, and no link leads out of there.
#[cfg(unix)]
fn is_mounted(real: &Path) -> bool {
    let credentials = std::env::var_os(CREDENTIALS_DIRECTORY).map(PathBuf::from);
    let folders = credentials.into_iter().chain([PathBuf::from(MOUNTED)]);
    folders.filter_map(|folder| folder.canonicalize().ok()).any(|folder| real.starts_with(folder))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn secret(folder: &Path) -> PathBuf {
        let path = folder.join("secret");
        std::fs::write(&path, "a secret\n").unwrap();
        set_mode(&path, 0o600);
        path
    }

    #[test]
    fn a_folder_in_which_others_could_exchange_the_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = secret(folder.path());
        for mode in [0o777, 0o757, 0o702] {
            set_mode(folder.path(), mode);
            let said = SecretFile::new(&path).read().unwrap_err();
            assert!(said.is_exposed() && said.to_string().contains("chmod go-w"), "{said}");
            assert_eq!(*SecretFile::loose(&path).read().unwrap(), "a secret");
        }
        for mode in [0o1777, 0o755, 0o700] {
            set_mode(folder.path(), mode);
            assert_eq!(*SecretFile::new(&path).read().unwrap(), "a secret");
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        // Only root can give a file away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = secret(folder.path());
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        let said = SecretFile::new(&path).read().unwrap_err().to_string();
        assert!(said.contains("user 12345") && said.contains("chown 0 "), "{said}");
        assert_eq!(*SecretFile::loose(&path).read().unwrap(), "a secret");
    }

    #[test]
    fn what_was_judged_is_what_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = secret(folder.path());
        let open = SecretFile::new(&path).open().unwrap();
        let other = folder.path().join("other");
        std::fs::write(&other, "put in its place").unwrap();
        std::fs::rename(&other, &path).unwrap();
        let by_path = File::open(path_to(&open, &path)).unwrap();
        assert_eq!(*text_of(open, &path).unwrap(), "a secret\n");
        if cfg!(target_os = "linux") {
            assert_eq!(*text_of(by_path, &path).unwrap(), "a secret\n");
        }
    }
}
