//! The API as the command line uses it: Landfall's own client, with the key that the environment has.

use std::ops::Deref;

use anyhow::{Context as _, Result};
use landfall_client::Error;

use crate::cli::Remote;

/// The variable that holds the key that is shown to servers.
const API_KEY: &str = "LANDFALL_API_KEY";

/// A server by its URL.
pub(crate) struct Client(landfall_client::Client);

impl Client {
    /// A server by its URL.
    pub(crate) fn new(url: &str) -> Result<Self, Error> {
        landfall_client::Client::new(url, key().as_deref()).map(Self)
    }

    /// The server that the command line names.
    pub(crate) fn of(remote: &Remote) -> Result<Self> {
        // LANDFALL_CACERT="" is none.
        let cacert = remote.cacert.as_ref().filter(|file| !file.as_os_str().is_empty());
        let authority = match cacert {
            Some(file) => {
                let pem = std::fs::read(file).with_context(|| format!("--cacert {}", file.display()))?;
                Some(pem)
            }
            None => None,
        };
        let client = landfall_client::Client::trusting(&remote.url, key().as_deref(), authority.as_deref());
        match (cacert, client) {
            (Some(file), Err(error @ (Error::NoCertificate | Error::BadCertificate(_)))) => {
                Err(error).with_context(|| format!("--cacert {}", file.display()))
            }
            (_, client) => Ok(Self(client?)),
        }
    }
}

/// Not an argument: other users of the machine see those.
fn key() -> Option<String> {
    std::env::var(API_KEY).ok().filter(|key| !key.is_empty())
}

impl Deref for Client {
    type Target = landfall_client::Client;

    fn deref(&self) -> &landfall_client::Client {
        &self.0
    }
}

/// What a person at this command line can do about it.
pub(crate) fn advice(error: &anyhow::Error) -> Option<String> {
    match error.downcast_ref::<Error>()? {
        Error::Unreachable { .. } => Some("start one (`landfall dev`), or name it with --url".to_owned()),
        Error::Certificate { .. } => Some(
            "name the authority that signed it with --cacert, and the server by the name in its certificate"
                .to_owned(),
        ),
        Error::NotTls { .. } => {
            Some("ask it with http:// instead of https://, or have it serve TLS".to_owned())
        }
        Error::NotHttp { .. } => Some("if it serves TLS, ask it with https://".to_owned()),
        Error::BadKey => Some(format!("the key is taken from {API_KEY}")),
        Error::Problem(problem) if problem.status == 401 => {
            Some(format!("this command shows the key in {API_KEY}"))
        }
        _ => None,
    }
}
