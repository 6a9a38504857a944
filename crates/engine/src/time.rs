//! The time that a lane is told.
//!
//! The system's clock may step, by years and at any moment. A lane thinks in times of day and lives on spans, so one load of it
//! has a time of its own: it begins with the clock and goes on with the monotonic one. Nothing that a lane waits for comes
//! sooner or later because the clock was set. Only what it writes down would stay wrong: where the two have come apart the
//! lane is loaded again, which is what happens after a crash as well.

use std::time::Duration;

use landfall_core::Millis;
use landfall_core::ports::clock::Clock;
use tokio::time::Instant;

/// The clock may be off by so much before a lane begins anew.
const MOST_OFF: Duration = Duration::from_secs(1);
/// A lane is loaded again for a clock that steps at most this often: one that cannot rest is not to keep lanes from their work.
const LEAST_LOAD: Duration = Duration::from_secs(10);

/// The time of one load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneTime {
    begun: Millis,
    since: Instant,
}

impl LaneTime {
    pub(crate) fn begin(clock: &dyn Clock) -> Self {
        Self { begun: clock.now(), since: Instant::now() }
    }

    /// It never goes back.
    pub(crate) fn now(&self) -> Millis {
        self.begun.after(self.since.elapsed())
    }

    /// The clock has stepped since this load began, and that was a while ago.
    pub(crate) fn is_off(&self, clock: &dyn Clock) -> bool {
        let (told, now) = (self.now(), clock.now());
        self.since.elapsed() >= LEAST_LOAD && told.since(now).max(now.since(told)) > MOST_OFF
    }
}
