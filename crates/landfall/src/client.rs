//! The API as the command line uses it: Landfall's own client, with the key that the environment has.

use std::ops::Deref;

use landfall_client::Error;

/// The variable that holds the key that is shown to servers.
const API_KEY: &str = "LANDFALL_API_KEY";

/// A server by its URL.
pub(crate) struct Client(landfall_client::Client);

impl Client {
    pub(crate) fn new(url: &str) -> Result<Self, Error> {
        // Not an argument: other users of the machine see those.
        let key = std::env::var(API_KEY).ok().filter(|key| !key.is_empty());
        landfall_client::Client::new(url, key.as_deref()).map(Self)
    }
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
        Error::BadKey => Some(format!("the key is taken from {API_KEY}")),
        Error::Problem(problem) if problem.status == 401 => {
            Some(format!("this command shows the key in {API_KEY}"))
        }
        _ => None,
    }
}
