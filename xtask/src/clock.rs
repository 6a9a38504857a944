//! How long things took. The only place here that reads a clock.

use std::time::{Duration, Instant};

/// Runs `work` and says how long it took.
#[allow(clippy::disallowed_methods, reason = "a developer tool measures real time; nothing decides by it")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed())
}

/// A number that differs from run to run.
#[allow(clippy::disallowed_methods, reason = "new seeds are to be new")]
pub(crate) fn seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1_000
}

/// `0.4 s`, `12.3 s`, `3 min 05 s`.
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well_below_and_above_a_minute() {
        assert_eq!(show(Duration::from_millis(420)), "0.4 s");
        assert_eq!(show(Duration::from_secs(185)), "3 min 05 s");
    }
}
