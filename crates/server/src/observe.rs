//! What can be told of every request, to whoever traces them.

use std::time::Duration;

use landfall_core::Millis;

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct Answered {
    pub method: String,
    /// The path as the router has it, so that ids do not make names.
    pub route: String,
    pub status: u16,
    pub began: Millis,
    pub took: Duration,
    /// The id of the API key that was shown.
    pub key: Option<String>,
    /// The caller's trace, as it was sent (W3C `traceparent`).
    pub traceparent: Option<String>,
}

/// Is told of every request. Called where work is done: it must be quick, and must not block.
pub trait Observer: Send + Sync {
    fn answered(&self, request: Answered);
}
