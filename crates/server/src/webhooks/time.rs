//! The time by which a courier waits. It begins with the clock and goes on with the monotonic one, so that nothing comes sooner or later
//! because the clock was set. Where the two have come apart, everything that was written down by the old time is moved.

use std::time::Duration;

use landfall_core::Millis;
use tokio::time::Instant;

/// The clock may be off by so much before it is followed.
const MOST_OFF: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(super) struct OwnTime {
    begun: Millis,
    since: Instant,
}

/// A step of the clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    by_ms: i64,
}

impl OwnTime {
    pub(super) fn begin(now: Millis) -> Self {
        Self { begun: now, since: Instant::now() }
    }

    /// It goes back only when it follows the clock.
    pub(super) fn now(&self) -> Millis {
        self.begun.after(self.since.elapsed())
    }

    /// Goes on with the clock, if that has stepped.
    pub(super) fn follow(&mut self, clock: Millis) -> Option<Step> {
        let own = self.now();
        if own.since(clock).max(clock.since(own)) <= MOST_OFF {
            return None;
        }
        *self = Self::begin(clock);
        let by = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Some(Step { by_ms: by(clock.since(own)).saturating_sub(by(own.since(clock))) })
    }
}

impl Step {
    /// What was written down as this time is this time now.
    pub(super) fn moved(self, at: Millis) -> Millis {
        Millis(at.0.saturating_add_signed(self.by_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_as_long_as_it_was_whatever_the_clock_does() {
        const YEAR: u64 = 365 * 24 * 3_600_000;
        let mut time = OwnTime::begin(Millis(2 * YEAR));
        let mut due = time.now().after(Duration::from_secs(60));
        for clock in [3 * YEAR, YEAR, 2 * YEAR, 2 * YEAR + 3_600_000] {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let left = due.since(time.now());
            let step = time.follow(Millis(clock)).expect("it has stepped");
            due = step.moved(due);
            assert_eq!((time.now(), due.since(time.now())), (Millis(clock), left));
            assert!(time.follow(Millis(clock + 900)).is_none(), "clocks are never quite right");
        }
        assert_eq!(due.since(time.now()), Duration::from_secs(20));
    }
}
