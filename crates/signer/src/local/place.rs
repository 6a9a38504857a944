//! Where a secret is found.

use std::fmt;

use zeroize::Zeroizing;

use super::file::SecretFile;
use super::load::LoadError;

/// An environment variable or a file that holds a secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Env(String),
    /// The file's content, without the line break at its end.
    File(SecretFile),
}

impl Place {
    /// The secret, with the environment passed in.
    pub fn read(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Zeroizing<String>, LoadError> {
        match self {
            Self::Env(name) => {
                env(name).map(Zeroizing::new).ok_or_else(|| LoadError::EnvMissing(shown(name)))
            }
            Self::File(file) => Ok(file.read()?),
        }
    }
}

/// The text can name an environment variable, and is not a private key that was put where its name belongs.
#[must_use]
pub fn is_env_name(text: &str) -> bool {
    let is_key = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && !is_key && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A variable as errors may show it. What has lower-case letters may be a password that was put where a name belongs.
fn shown(name: &str) -> String {
    if is_env_name(name) && !name.contains(|c: char| c.is_ascii_lowercase()) {
        return format!("environment variable {name}");
    }
    "the environment variable that is named there (the name has lower-case letters or is none, and is not shown, since it may be the \
     secret itself)"
        .to_owned()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => f.write_str(&shown(name)),
            Self::File(file) => write!(f, "file {}", file.path().display()),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    #[test]
    fn a_secret_where_a_name_belongs_is_no_name_and_is_not_shown() {
        for name in ["KEY_A", "_", "key_a", "Key1"] {
            assert!(is_env_name(name), "{name}");
        }
        let prefixed = format!("0x{KEY}");
        let upper = KEY.to_uppercase();
        for secret in [KEY, &prefixed, &upper, "", "1KEY", "correct horse", "pass-word", "test test junk"] {
            assert!(!is_env_name(secret), "{secret}");
        }
        for secret in [KEY, &prefixed, &upper, "correct horse", "hunter2"] {
            let place = Place::Env(secret.to_owned());
            let missing = place.read(&|_| None).unwrap_err();
            let said = format!("{place} {place:?} {missing} {missing:?}");
            assert!(!said.contains(secret), "{said}");
        }
        assert_eq!(Place::Env("KEY_A".to_owned()).to_string(), "environment variable KEY_A");
    }
}
