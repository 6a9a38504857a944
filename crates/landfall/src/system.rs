//! The system's own clock, randomness and log. Only the binary reads these; everything else has them passed in.

use std::io::IsTerminal;
use std::time::{SystemTime, UNIX_EPOCH};

use landfall_core::Millis;
use landfall_core::ports::clock::{Clock, Random};
use tracing_subscriber::EnvFilter;

/// The time of day.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter that reads the system's clock")]
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The system's randomness.
pub(crate) struct SystemRandom;

impl Random for SystemRandom {
    fn bits(&self) -> u128 {
        rand::random()
    }
}

/// A moment of the monotonic clock, for measuring spans.
#[expect(clippy::disallowed_methods, reason = "the binary measures how long things take")]
pub(crate) fn moment() -> std::time::Instant {
    std::time::Instant::now()
}

/// Unix time in whole seconds.
pub(crate) fn unix_seconds() -> u64 {
    SystemClock.now().0 / 1_000
}

/// Log lines go to standard error: readable on a terminal, JSON elsewhere. Commands that print an answer stay quiet.
pub(crate) fn start_logging(filter: Option<&str>, default: &str) {
    let filter = match filter {
        Some(text) => EnvFilter::new(text),
        None => EnvFilter::try_from_env("LANDFALL_LOG").unwrap_or_else(|_| EnvFilter::new(default)),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        builder.with_target(false).init();
    } else {
        builder.json().with_target(true).init();
    }
}

/// The name of this machine, of what may stand in a node's name.
pub(crate) fn host_name() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = told.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name: String = name.trim().chars().filter(char::is_ascii_graphic).collect();
    if name.is_empty() { "landfall".to_owned() } else { name }
}
