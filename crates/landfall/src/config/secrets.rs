//! Secrets that stand in files: where they are, that nobody else can read them, and what they say.
//!
//! A file is named by its path, or as `credential:NAME`: then it is `NAME` in the folder that systemd gives the service
//! (`$CREDENTIALS_DIRECTORY`). Links are followed, and the file they lead to is judged.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use landfall_signer::Place;

const CREDENTIAL: &str = "credential:";
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";
/// Where Docker and Podman mount secrets, and where Kubernetes is told to in deploy/. What lies there is in the service's own view
/// of the file system, whatever its mode says.
const MOUNTED: &str = "/run/secrets";

/// How files with secrets are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Files {
    /// Others may read them (`access.loose_files`).
    pub(crate) loose: bool,
}

/// The file that a `*_file` key names.
pub(crate) fn path(named: &Path) -> Result<PathBuf> {
    let Some(name) = named.to_str().and_then(|text| text.strip_prefix(CREDENTIAL)) else {
        return Ok(named.to_owned());
    };
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        bail!("{CREDENTIAL}{name} does not name a credential: write its name as LoadCredential= has it");
    }
    match std::env::var_os(CREDENTIALS_DIRECTORY) {
        Some(folder) => Ok(PathBuf::from(folder).join(name)),
        None => bail!(
            "{CREDENTIAL}{name} is a credential of systemd, and {CREDENTIALS_DIRECTORY} is not set: the service has no \
             LoadCredential= of that name, or was not started by systemd. Name a path instead"
        ),
    }
}

impl Files {
    /// The secret that a file holds, without the line break at its end. `key` is the configuration key that names it.
    pub(crate) fn read(self, key: &str, named: &Path) -> Result<String> {
        let file = self.checked(key, named)?;
        let no_env = |_: &str| None;
        let text = Place::File(file).read(&no_env).with_context(|| key.to_owned())?;
        if text.is_empty() {
            bail!("{key}: the file {} is empty, and should hold a secret", named.display());
        }
        Ok(text.to_string())
    }

    /// The file that a key names, if nobody but its owner can read it.
    pub(crate) fn checked(self, key: &str, named: &Path) -> Result<PathBuf> {
        let file = path(named).with_context(|| key.to_owned())?;
        if self.loose {
            return Ok(file);
        }
        match others_rights(&file) {
            Some(mode) if !is_mounted(&file) => bail!(
                "{key}: the file {} has mode {mode:03o}, so that other users of this machine can read or change what should be \
                 secret. Run `chmod 600 {}`, or set access.loose_files = true if nobody else has this machine",
                file.display(),
                file.display()
            ),
            Some(_) | None => Ok(file),
        }
    }
}

/// The mode of a file, if it gives rights to others than its owner. One that is not there is told when it is read.
#[cfg(unix)]
pub(crate) fn others_rights(file: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(file).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
pub(crate) fn others_rights(_file: &Path) -> Option<u32> {
    None
}

/// The file lies where a service manager puts secrets for this service alone, and no link leads out of there.
fn is_mounted(file: &Path) -> bool {
    let Ok(file) = file.canonicalize() else { return false };
    let credentials = std::env::var_os(CREDENTIALS_DIRECTORY).map(PathBuf::from);
    let folders = credentials.into_iter().chain([PathBuf::from(MOUNTED)]);
    folders.filter_map(|folder| folder.canonicalize().ok()).any(|folder| file.starts_with(folder))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn file(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, "a secret\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_file_that_others_can_read_or_write_is_refused_by_any_name_unless_that_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let strict = Files { loose: false };
        for mode in [0o600, 0o400, 0o700] {
            let path = file(folder.path(), &format!("good-{mode:o}"), mode);
            assert_eq!(strict.read("signer.password_file", &path).unwrap(), "a secret");
        }
        for mode in [0o640, 0o604, 0o660, 0o622, 0o644, 0o666, 0o440] {
            let path = file(folder.path(), &format!("loose-{mode:o}"), mode);
            let link = folder.path().join(format!("link-{mode:o}"));
            symlink(&path, &link).unwrap();
            for path in [path, link] {
                let said = format!("{:#}", strict.read("signer.password_file", &path).unwrap_err());
                for part in ["signer.password_file", "chmod 600", "access.loose_files", &format!("{mode:o}")]
                {
                    assert!(said.contains(part), "{said}");
                }
                assert!(!said.contains("a secret"), "{said}");
                assert_eq!(Files { loose: true }.read("k", &path).unwrap(), "a secret");
            }
        }
    }

    #[test]
    fn a_credential_is_a_plain_name_and_needs_systemd() {
        assert_eq!(path(Path::new("keys/a")).unwrap(), Path::new("keys/a"));
        for bad in ["credential:", "credential:../a", "credential:a/b", "credential:.."] {
            let said = path(Path::new(bad)).unwrap_err().to_string();
            assert!(said.contains("does not name a credential"), "{said}");
        }
        if std::env::var_os(CREDENTIALS_DIRECTORY).is_none() {
            let said = path(Path::new("credential:a")).unwrap_err().to_string();
            assert!(said.contains("LoadCredential="), "{said}");
        }
    }

    #[test]
    fn an_empty_file_holds_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty");
        std::fs::write(&path, "\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let said = Files { loose: false }.read("access.admin_key_file", &path).unwrap_err().to_string();
        assert!(said.contains("is empty"), "{said}");
    }
}
