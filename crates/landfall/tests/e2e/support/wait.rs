//! Waiting for a condition, with a limit. No other file sleeps.

use std::fmt::Display;
use std::time::Duration;

/// What is waited for takes a second or two; a busy machine gets this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Lets time pass, for something that is to happen at a moment which nothing announces.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Looks until there is something to see, and gives it back.
pub(crate) async fn until<T>(what: impl Display, look: impl AsyncFnMut() -> Option<T>) -> T {
    until_within(LIMIT, what, look).await
}

/// As [`until`], with a limit of its own.
pub(crate) async fn until_within<T>(
    limit: Duration,
    what: impl Display,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let seen = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(limit, seen).await {
        Ok(seen) => seen,
        Err(_) => panic!("waited {limit:?} in vain: {what}"),
    }
}
