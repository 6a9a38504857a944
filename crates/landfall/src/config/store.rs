//! `[store]`: which database is used, and how it may be shown.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) url_file: PathBuf,
    pub(crate) namespace: String,
    pub(crate) keep_finished_days: f64,
    pub(crate) wait_s: u64,
}

impl Store {
    /// None: for ever.
    pub(crate) fn keep_finished(&self) -> Option<Duration> {
        let seconds = self.keep_finished_days * 86_400.0;
        (seconds > 0.0).then(|| Duration::from_secs_f64(seconds))
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres:") || self.url.starts_with("postgresql:")
    }

    /// The file of an SQLite store, from the root on.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        if self.is_postgres() {
            return None;
        }
        let path = self.url.strip_prefix("sqlite://").or_else(|| self.url.strip_prefix("sqlite:"));
        std::path::absolute(path.unwrap_or(&self.url)).ok()
    }

    /// The URL as logs may show it.
    pub(crate) fn shown(&self) -> String {
        if self.is_postgres() {
            landfall_store::postgres::without_password(&self.url)
        } else if self.url.starts_with("sqlite:") || !self.url.contains(['=', '@', ':', ' ']) {
            self.url.clone()
        } else {
            // Settings of another database, perhaps, with a password among them.
            "what store.url names".to_owned()
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: "sqlite://landfall.db".to_owned(),
            url_file: PathBuf::new(),
            namespace: "default".to_owned(),
            keep_finished_days: 90.0,
            wait_s: 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_shown_without_what_may_be_a_password_and_by_its_whole_path() {
        let store = |url: &str| Store { url: url.to_owned(), ..Store::default() };
        for url in ["host=h password=hunter2", "u:hunter2@h", "jdbc:postgresql://h/db?password=hunter2"] {
            assert!(!store(url).shown().contains("hunter2"), "{url}");
        }
        assert!(!store("postgres://u:hunter2@h/db").shown().contains("hunter2"));
        assert_eq!(store("sqlite://a.db").shown(), "sqlite://a.db");
        assert_eq!(store("postgres://h/db").file(), None);
        assert_eq!(store("sqlite:///var/a.db").file(), Some(PathBuf::from("/var/a.db")));
        assert_eq!(store("sqlite://a.db").file(), std::env::current_dir().ok().map(|here| here.join("a.db")));
    }
}
