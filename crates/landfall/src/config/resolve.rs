//! Settings that stand in files of their own: the store's URL and the endpoints, which may have passwords in them. And how both are shown.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{Chain, Config, Server, Store, secrets};

impl Config {
    /// With what the files say that it names.
    pub(super) fn with_files(mut self) -> Result<Self> {
        let files = self.access.files();
        let is_named = |file: &Path| !file.as_os_str().is_empty();
        if is_named(&self.store.url_file) {
            if self.store.url != Store::default().url {
                bail!("store.url and store.url_file are both set; keep one of them");
            }
            let url = files.read("store.url_file", &self.store.url_file)?;
            self.store.url = url.trim().to_owned();
            self.store.url_file = PathBuf::new();
        }
        for chain in &mut self.chain {
            let Chain { id, rpc, rpc_file, caller_rpc, caller_rpc_file, .. } = chain;
            let places = [
                ("rpc", "rpc_file", rpc, rpc_file),
                ("caller_rpc", "caller_rpc_file", caller_rpc, caller_rpc_file),
            ];
            for (name, key, urls, file) in places {
                if is_named(file) {
                    let text = files.read(&format!("chain {id}: {key}"), file)?;
                    let found = text.split([',', '\n']).map(str::trim).filter(|url| !url.is_empty());
                    *urls = found.map(str::to_owned).collect();
                    *file = PathBuf::new();
                }
                super::check_urls(*id, name, urls)?;
            }
        }
        let Server { tls_certificate, tls_key, .. } = &mut self.server;
        if !tls_key.is_empty() {
            *tls_key = files.checked("server.tls_key", Path::new(tls_key))?.path().display().to_string();
            *tls_certificate = secrets::path(Path::new(tls_certificate))?.display().to_string();
        }
        Ok(self)
    }
}

/// Ids that development networks have by default (anvil, Hardhat, geth and Ganache, and others): nothing there is worth anything.
const DEVELOPMENT: [u64; 3] = [31_337, 1_337, 31_377];

impl Chain {
    /// Public test keys may be used on it.
    pub(crate) fn is_development(&self) -> bool {
        self.development || DEVELOPMENT.contains(&self.id)
    }
}

/// As a table in which the endpoints are counted only: their URLs may hold keys.
impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = toml::Table::try_from(self).map_err(|_| fmt::Error)?;
        for (_, value) in table.iter_mut().filter(|(name, _)| name.ends_with("rpc")) {
            let count = value.as_array().map_or(1, Vec::len);
            *value = toml::Value::String(format!("{count} URLs"));
        }
        write!(f, "Chain {{ {} }}", table.to_string().trim_end().replace('\n', ", "))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url: _, url_file, namespace, keep_finished_days, wait_s } = self;
        f.debug_struct("Store")
            .field("url", &self.shown())
            .field("url_file", url_file)
            .field("namespace", namespace)
            .field("keep_finished_days", keep_finished_days)
            .field("wait_s", wait_s)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(text, std::iter::empty()).unwrap()
    }

    #[test]
    fn urls_come_from_files_and_no_debug_shows_what_they_hold() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            }
            path.display().to_string()
        };
        let (url, rpc) = (
            file("url", "postgres://landfall:hunter2@db/landfall\n"),
            file("rpc", "https://a.example/hunter3\nhttps://b.example/hunter3,https://c.example\n"),
        );
        let callers = file("callers", "https://d.example/hunter4\n");
        let text = format!(
            "[store]\nurl_file = \"{url}\"\n[[chain]]\nid = 31337\nrpc_file = \"{rpc}\"\ncaller_rpc_file = \"{callers}\"\n"
        );
        let config = parse(&text).with_files().unwrap();
        assert_eq!(config.store.url, "postgres://landfall:hunter2@db/landfall");
        assert_eq!(config.chain[0].rpc.len(), 3);
        assert_eq!(config.chain[0].caller_rpc, ["https://d.example/hunter4"]);
        let shown = format!("{config:?} {config:#?}");
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(shown.contains("3 URLs") && !shown.contains("a.example"), "{shown}");
    }

    #[cfg(unix)]
    #[test]
    fn the_key_of_a_certificate_is_a_secret_too() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("server.key");
        std::fs::write(&key, "a key").unwrap();
        let server = format!("[server]\ntls_certificate = \"server.crt\"\ntls_key = \"{}\"\n", key.display());
        let with_mode = |mode: u32, more: &str| {
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
            parse(&format!("{server}{more}")).with_files().map_err(|error| format!("{error:#}"))
        };
        let said = with_mode(0o644, "").unwrap_err();
        assert!(said.contains("server.tls_key") && said.contains("chmod 600"), "{said}");
        assert!(with_mode(0o644, "[access]\nloose_files = true").is_ok());
        assert!(with_mode(0o600, "").is_ok());
    }

    #[test]
    fn a_value_and_its_file_are_not_both_taken() {
        let text = "[store]\nurl = \"sqlite://a.db\"\nurl_file = \"b\"";
        assert!(parse(text).with_files().unwrap_err().to_string().contains("keep one"));
        let text = "[[chain]]\nid = 5\nrpc = \"http://a\"\nrpc_file = \"b\"";
        let said = Config::parse(text, std::iter::empty()).unwrap_err().to_string();
        assert!(said.contains("keep one"), "{said}");
        let text =
            "[[chain]]\nid = 5\nrpc = \"http://a\"\ncaller_rpc = \"http://a\"\ncaller_rpc_file = \"b\"";
        let said = Config::parse(text, std::iter::empty()).unwrap_err().to_string();
        assert!(said.contains("keep one") && said.contains("caller_rpc_file"), "{said}");
    }

    #[test]
    fn an_endpoint_without_a_scheme_is_refused_and_not_shown() {
        for key in ["rpc", "caller_rpc"] {
            let rpc = if key == "rpc" { "" } else { "rpc = \"http://a\"\n" };
            let text = format!("[[chain]]\nid = 5\n{rpc}{key} = [\"https://a\", \"node.example/hunter2\"]");
            let said = parse(&text).with_files().unwrap_err().to_string();
            assert!(said.contains(&format!("endpoint 2 of {key} ")) && said.contains("https://"), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn a_chain_is_for_development_by_its_id_or_by_the_operators_word() {
        let chain = |id: u64, more: &str| {
            parse(&format!("[[chain]]\nid = {id}\nrpc = \"http://a\"\n{more}")).chain.remove(0)
        };
        assert!([31_337, 1_337, 31_377].iter().all(|id| chain(*id, "").is_development()));
        assert!(!chain(1, "").is_development() && !chain(11_155_111, "").is_development());
        assert!(chain(1, "development = true").is_development());
    }
}
