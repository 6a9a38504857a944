//! `[server]`: where callers are answered, and how much they may take.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use landfall_server::{Limits, TlsFiles};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::secrets::Files;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    #[serde(deserialize_with = "address")]
    pub(crate) listen: SocketAddr,
    #[serde(deserialize_with = "address_or_none")]
    pub(crate) health_listen: String,
    pub(crate) advertise: String,
    pub(crate) tls_certificate: String,
    pub(crate) tls_key: String,
    pub(crate) cors_origins: Vec<String>,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_bytes_in_flight: usize,
    pub(crate) max_bytes_in_flight_per_address: usize,
    pub(crate) max_batch: usize,
    pub(crate) max_connections: usize,
    pub(crate) max_connections_per_address: usize,
    pub(crate) max_keyless_connections: usize,
    pub(crate) max_keyless_streams: usize,
    pub(crate) max_listeners: usize,
    pub(crate) header_timeout_s: u64,
    pub(crate) body_timeout_s: u64,
}

fn address<'de, D: Deserializer<'de>>(d: D) -> Result<SocketAddr, D::Error> {
    parsed(&String::deserialize(d)?).map_err(D::Error::custom)
}

fn address_or_none<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let text = String::deserialize(d)?;
    if text.is_empty() {
        return Ok(text);
    }
    parsed(&text).map(|address| address.to_string()).map_err(D::Error::custom)
}

/// An address with its port. Of names only `localhost` is taken, which is 127.0.0.1 here.
fn parsed(text: &str) -> Result<SocketAddr, &'static str> {
    let text = text.trim();
    let numbered = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    numbered.as_deref().unwrap_or(text).parse().map_err(|_| {
        "it is not an address and a port. Write 127.0.0.1:8645 for this machine alone, 0.0.0.0:8645 for every way in, or [::1]:8645; \
         of names only localhost is taken"
    })
}

impl Default for Server {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8645)),
            health_listen: String::new(),
            advertise: String::new(),
            tls_certificate: String::new(),
            tls_key: String::new(),
            cors_origins: Vec::new(),
            max_body_bytes: limits.body,
            max_bytes_in_flight: limits.bytes,
            max_bytes_in_flight_per_address: limits.bytes_per_address,
            max_batch: limits.batch,
            max_connections: limits.connections,
            max_connections_per_address: limits.connections_per_address,
            max_keyless_connections: limits.keyless_connections,
            max_keyless_streams: limits.keyless_streams,
            max_listeners: limits.listeners,
            header_timeout_s: limits.header_time.as_secs(),
            body_timeout_s: limits.body_time.as_secs(),
        }
    }
}

impl Server {
    /// Where callers of other nodes are sent: what is advertised, or where it listens, if that is one address.
    pub(crate) fn address(&self) -> Option<String> {
        if !self.advertise.is_empty() {
            return Some(self.advertise.clone());
        }
        let is_one = !self.listen.ip().is_unspecified() && self.listen.port() != 0;
        let scheme = if self.has_tls() { "https" } else { "http" };
        is_one.then(|| format!("{scheme}://{}", self.listen))
    }

    /// Limits of callers. Never so many listen that nobody else gets a place.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            body: self.max_body_bytes,
            batch: self.max_batch,
            connections: self.max_connections,
            connections_per_address: self.max_connections_per_address,
            keyless_connections: self.max_keyless_connections,
            keyless_streams: self.max_keyless_streams,
            bytes: self.max_bytes_in_flight,
            bytes_per_address: self.max_bytes_in_flight_per_address,
            listeners: self.max_listeners.min(self.max_connections.saturating_sub(1)).max(1),
            header_time: Duration::from_secs(self.header_timeout_s),
            body_time: Duration::from_secs(self.body_timeout_s),
            ..Limits::default()
        }
    }

    pub(crate) fn has_tls(&self) -> bool {
        !self.tls_certificate.is_empty()
    }

    /// The certificate and its key, which is judged as other files with secrets are whenever it is read.
    pub(crate) fn tls(&self, files: Files) -> Option<TlsFiles> {
        self.has_tls().then(|| TlsFiles {
            certificate: self.tls_certificate.clone().into(),
            key: self.tls_key.clone().into(),
            open_key: files.opener(),
        })
    }

    /// Where health is served beside; checked before.
    pub(crate) fn health_listen(&self) -> Option<SocketAddr> {
        self.health_listen.parse().ok()
    }

    pub(super) fn check(&self) -> Result<()> {
        let above_0 = [
            ("max_connections", self.max_connections),
            ("max_connections_per_address", self.max_connections_per_address),
            ("max_keyless_connections", self.max_keyless_connections),
            ("max_keyless_streams", self.max_keyless_streams),
            ("max_bytes_in_flight", self.max_bytes_in_flight),
            ("max_bytes_in_flight_per_address", self.max_bytes_in_flight_per_address),
            ("max_listeners", self.max_listeners),
        ];
        if let Some((name, _)) = above_0.iter().find(|(_, value)| *value == 0) {
            bail!("server.{name} must be above 0");
        }
        if self.header_timeout_s == 0 || self.body_timeout_s == 0 {
            bail!("server.header_timeout_s and server.body_timeout_s must be above 0");
        }
        if self.tls_certificate.is_empty() != self.tls_key.is_empty() {
            bail!("server.tls_certificate and server.tls_key belong together: give both, or none");
        }
        let is_origin = |origin: &String| {
            let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            rest.is_some_and(|host| !host.is_empty() && !host.contains(['/', '*', ' ']))
        };
        if let Some(wrong) = self.cors_origins.iter().find(|origin| !is_origin(origin)) {
            bail!(
                "server.cors_origins has {wrong:?}; name each origin as a browser does, such as https://app.example.com"
            );
        }
        let advertise = &self.advertise;
        let is_url = advertise.starts_with("http://") || advertise.starts_with("https://");
        let is_plain = advertise.chars().all(|c| c.is_ascii_graphic());
        let is_usable = advertise.is_empty() || (is_url && is_plain);
        if !is_usable {
            bail!(
                "server.advertise is {advertise:?}; write a URL such as http://node-1:8645, or leave it empty"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn localhost_is_this_machine_and_other_names_get_a_sentence() {
        let parse = |line: &str| Config::parse(&format!("[server]\n{line}"), std::iter::empty());
        let config = parse("listen = \"localhost:9000\"\nhealth_listen = \"localhost:9001\"").unwrap();
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:9000");
        assert_eq!(config.server.health_listen().unwrap().to_string(), "127.0.0.1:9001");
        assert_eq!(parse("health_listen = \"\"").unwrap().server.health_listen(), None);
        for line in ["listen = \"node-1:8645\"", "listen = \"8645\"", "health_listen = \"localhost\""] {
            let said = format!("{:#}", parse(line).unwrap_err());
            assert!(said.contains("listen") && said.contains("0.0.0.0:"), "{said}");
        }
    }
}
