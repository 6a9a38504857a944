//! Secrets that stand in files: where they are, that nobody else can read them, and what they say.
//!
//! A file is named by its path, or as `credential:NAME`: then it is `NAME` in the folder that systemd gives the service
//! (`$CREDENTIALS_DIRECTORY`). [`SecretFile`] judges a file and reads what it has judged.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, anyhow, bail};
use landfall_signer::{FileError, SecretFile, is_env_name};

const CREDENTIAL: &str = "credential:";
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// How files with secrets are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Files {
    /// Nobody else may read or change them.
    Strict,
    /// Others may (`access.loose_files`).
    Loose,
    /// As strict; they are named on a command line, where no setting changes that.
    Named,
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
        let text = self.file(key, named)?.read().map_err(|error| self.refusal(key, error))?;
        if text.is_empty() {
            bail!("{key}: the file {} is empty, and should hold a secret", named.display());
        }
        Ok(text.to_string())
    }

    /// The file that a key names, if nobody but its owner can read it. It is judged again when it is read; one that is not there is told
    /// then.
    pub(crate) fn checked(self, key: &str, named: &Path) -> Result<SecretFile> {
        let file = self.file(key, named)?;
        match file.open() {
            Err(error) if error.is_exposed() => Err(self.refusal(key, error)),
            Ok(_) | Err(_) => Ok(file),
        }
    }

    /// Opens a file whose owner alone may read it, as far as that is asked for here.
    pub(crate) fn opener(self) -> fn(&Path) -> Result<File, String> {
        match self {
            Self::Strict | Self::Named => {
                |path| SecretFile::new(path).open().map_err(|error| error.to_string())
            }
            Self::Loose => |path| SecretFile::loose(path).open().map_err(|error| error.to_string()),
        }
    }

    fn file(self, key: &str, named: &Path) -> Result<SecretFile> {
        let path = path(named).with_context(|| key.to_owned())?;
        Ok(match self {
            Self::Strict | Self::Named => SecretFile::new(path),
            Self::Loose => SecretFile::loose(path),
        })
    }

    fn refusal(self, key: &str, error: FileError) -> Error {
        match self {
            Self::Strict if error.is_exposed() => {
                anyhow!("{key}: {error}, or set access.loose_files = true if nobody else has this machine")
            }
            Self::Named => match key.strip_prefix("signer.") {
                Some(key) => anyhow!("--{}: {error}", key.replace('_', "-")),
                None => anyhow!("{key}: {error}"),
            },
            Self::Strict | Self::Loose => anyhow!("{key}: {error}"),
        }
    }
}

/// A key whose name ends in `_env` names a variable. A secret that was put there instead is never repeated.
pub(crate) fn check_env_name(key: &str, name: &str) -> Result<()> {
    if !is_env_name(name) {
        bail!(
            "{key} must NAME an environment variable, such as KEY_A; what stands there is not shown, since it may be the secret itself. \
             Put the secret into a variable, and the variable's name here"
        );
    }
    Ok(())
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
        let strict = Files::Strict;
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
                let named = format!("{:#}", Files::Named.read("--password-file", &path).unwrap_err());
                assert!(named.contains("chmod 600") && !named.contains("loose_files"), "{named}");
                assert_eq!(Files::Loose.read("k", &path).unwrap(), "a secret");
                let opened = strict.opener()(&path);
                assert!(opened.is_err_and(|said| said.contains("chmod 600")));
                assert!(Files::Loose.opener()(&path).is_ok());
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
        let said = Files::Strict.read("access.admin_key_file", &path).unwrap_err().to_string();
        assert!(said.contains("is empty"), "{said}");
    }
}
