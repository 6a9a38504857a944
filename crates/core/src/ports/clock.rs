//! Time and randomness, passed in.

use crate::Millis;

/// Tells the time. Waiting is done with tokio's timers, which a simulator can drive as well.
pub trait Clock: Send + Sync {
    /// The time of day. It may step; nothing that matters for safety is judged by it.
    fn now(&self) -> Millis;
}

/// Random bits for ids.
pub trait Random: Send + Sync {
    fn bits(&self) -> u128;
}
