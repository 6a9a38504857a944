//! Where a secret is found.

use std::fmt;
use std::io::Read as _;
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::load::LoadError;

/// An environment variable or a file that holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Env(String),
    /// The file's content, without the line break at its end.
    File(PathBuf),
}

/// No secret is longer.
const LONGEST: u64 = 64 * 1024;

impl Place {
    /// The secret, with the environment passed in.
    pub fn read(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Zeroizing<String>, LoadError> {
        match self {
            Self::Env(name) => {
                env(name).map(Zeroizing::new).ok_or_else(|| LoadError::EnvMissing(name.to_owned()))
            }
            Self::File(path) => {
                let failed = |cause| LoadError::SecretFile { path: path.clone(), cause };
                let file = std::fs::File::open(path).map_err(failed)?;
                let mut text = Zeroizing::new(String::new());
                file.take(LONGEST).read_to_string(&mut text).map_err(failed)?;
                let kept = text.trim_end_matches(['\r', '\n']).len();
                text.truncate(kept);
                Ok(text)
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
        }
    }
}
