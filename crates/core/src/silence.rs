//! Which sessions are dead: nothing was heard of them for as long as they last.
//!
//! The watcher's clock is its own and does not step; no clock of the session's process or of the store is asked. A session's process
//! asks for a renewal before the store has it, and its watchers see it after: so the process stops before any of them ends its session.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::SessionId;
use crate::ports::store::Pulse;

/// The sessions that one watcher sees, and since when each has given no other sign of life.
#[derive(Debug, Default)]
pub struct Silence {
    since: BTreeMap<SessionId, (Pulse, Duration)>,
}

impl Silence {
    /// Takes in what the store has shown by now; the sessions that may be ended are the answer.
    pub fn look(&mut self, shown: &BTreeMap<SessionId, Pulse>, now: Duration) -> Vec<(SessionId, Pulse)> {
        self.since.retain(|session, (pulse, _)| shown.get(session) == Some(pulse));
        for (session, pulse) in shown {
            self.since.entry(*session).or_insert((*pulse, now));
        }
        let is_over = |(pulse, since): &(Pulse, Duration)| now.saturating_sub(*since) >= pulse.lasting;
        let over = self.since.iter().filter(|(_, seen)| is_over(seen));
        over.map(|(session, (pulse, _))| (*session, *pulse)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Millis;

    fn session(n: u128) -> SessionId {
        SessionId::new(Millis(1), n)
    }

    fn shown<const N: usize>(pulses: [(u128, u64); N]) -> BTreeMap<SessionId, Pulse> {
        let pulse = |number| Pulse { number, lasting: Duration::from_secs(10) };
        pulses.map(|(n, number)| (session(n), pulse(number))).into()
    }

    fn dead(silence: &mut Silence, pulses: BTreeMap<SessionId, Pulse>, seconds: u64) -> Vec<SessionId> {
        let over = silence.look(&pulses, Duration::from_secs(seconds));
        over.into_iter().map(|(session, _)| session).collect()
    }

    #[test]
    fn a_session_is_dead_when_it_was_silent_for_as_long_as_it_lasts_and_not_before() {
        let mut silence = Silence::default();
        assert_eq!(
            dead(&mut silence, shown([(1, 1), (2, 2)]), 100),
            [],
            "however old it is: it was just seen"
        );
        assert_eq!(dead(&mut silence, shown([(1, 1), (2, 3)]), 109), []);
        assert_eq!(dead(&mut silence, shown([(1, 1), (2, 3)]), 110), [session(1)]);
        assert_eq!(dead(&mut silence, shown([(1, 4), (2, 3)]), 119), [session(2)], "the first one came back");
        assert_eq!(dead(&mut silence, shown([(1, 4)]), 128), []);
        assert_eq!(dead(&mut silence, shown([(1, 4)]), 129), [session(1)]);
    }

    #[test]
    fn one_that_was_gone_for_a_while_counts_anew() {
        let mut silence = Silence::default();
        dead(&mut silence, shown([(1, 1)]), 0);
        dead(&mut silence, shown([]), 9);
        assert_eq!(dead(&mut silence, shown([(1, 1)]), 11), []);
    }
}
