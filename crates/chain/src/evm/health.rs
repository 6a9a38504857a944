//! How one endpoint is doing: what it was last seen to do, and what that means for the next question.
//!
//! No I/O; the time comes in. A node that answers "no" is healthy: only silence, rate limits, missing credentials and
//! a node that is not in sync count against an endpoint.

use std::time::Duration;

use landfall_core::ChainId;
use tokio::time::Instant;

use super::classify::Trouble;
use super::rpc::Failure;

const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// So many losses in a row mean that it was out of reach. A lost answer among others does not: to ask for its name each
/// time would double every question to an endpoint that loses many.
const OUT_OF_REACH: u32 = 2;
/// How long an endpoint is left alone that gave no hint itself.
const LIMITED_REST: Duration = Duration::from_secs(1);
const UNAUTHORISED_REST: Duration = Duration::from_secs(60);
const SYNCING_REST: Duration = Duration::from_secs(10);
const FOREIGN_REST: Duration = Duration::from_secs(30);
/// The longest rest that an endpoint may ask for.
const LONGEST_REST: Duration = Duration::from_secs(300);

/// Whose chain an endpoint serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Not asked yet, or not since it was out of reach: another node may stand there now.
    Unchecked,
    Right,
    Wrong(ChainId),
}

/// May it be asked?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    Ready,
    /// It failed lately: asked after the others, but asked.
    Shaky,
    /// It is left alone for a while: it said so itself, or it serves another chain.
    Resting,
}

/// What is known of an endpoint's condition.
#[derive(Debug)]
pub(crate) struct Health {
    failures: u32,
    /// How often in a row it turned us away.
    refusals: u32,
    shaky_until: Option<Instant>,
    resting_until: Option<Instant>,
    identity: Identity,
    head: Option<u64>,
    latency: Option<Duration>,
    trouble: Option<String>,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self {
            failures: 0,
            refusals: 0,
            shaky_until: None,
            resting_until: None,
            identity: Identity::Unchecked,
            head: None,
            latency: None,
            trouble: None,
        }
    }

    /// It answered, whatever the answer was. A rest that it asked for in another answer still holds.
    pub(crate) fn answered(&mut self, latency: Duration, now: Instant) {
        self.latency = Some(latency);
        self.failures = 0;
        self.shaky_until = None;
        if self.resting_until.is_none_or(|until| until <= now) && !matches!(self.identity, Identity::Wrong(_))
        {
            self.trouble = None;
        }
    }

    /// A node behind it looked at a question.
    pub(crate) fn served(&mut self) {
        self.refusals = 0;
    }

    /// It did not answer, or not as a node that can be used.
    pub(crate) fn failed(&mut self, failure: &Failure, text: String, now: Instant) {
        match failure {
            Failure::Lost(_) => {
                let step = FIRST_BACK_OFF.saturating_mul(1 << self.failures.min(10));
                self.failures = self.failures.saturating_add(1);
                self.shaky_until = now.checked_add(step.min(LONGEST_BACK_OFF));
                if self.failures >= OUT_OF_REACH {
                    self.identity = Identity::Unchecked;
                }
                self.trouble = Some(text);
            }
            Failure::TurnedAway { trouble, wait, .. } => {
                let rest = match trouble {
                    Trouble::Limited => LIMITED_REST.saturating_mul(1 << self.refusals.min(6)),
                    Trouble::Unauthorised => UNAUTHORISED_REST,
                    Trouble::Syncing => SYNCING_REST,
                    // Behind on one block: the head lag says how far, and orders it. Foreign: noted when it was
                    // identified. Busy: with us.
                    Trouble::Behind | Trouble::Foreign | Trouble::Busy => return,
                };
                self.refusals = self.refusals.saturating_add(1);
                self.resting_until = now.checked_add(wait.unwrap_or(rest).min(LONGEST_REST));
                self.trouble = Some(text);
            }
            Failure::Refused(_) | Failure::Unreadable(_) => {}
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// It said which chain it serves.
    pub(crate) fn identified(&mut self, found: ChainId, wanted: ChainId, now: Instant) {
        if found == wanted {
            self.identity = Identity::Right;
            self.resting_until = None;
            self.trouble = None;
        } else {
            self.identity = Identity::Wrong(found);
            self.head = None;
            self.resting_until = now.checked_add(FOREIGN_REST);
            self.trouble = Some(format!("it serves chain {found}, not chain {wanted}, and is not used"));
        }
    }

    pub(crate) fn saw_head(&mut self, head: u64) {
        self.head = Some(head);
    }

    pub(crate) fn head(&self) -> Option<u64> {
        self.head
    }

    pub(crate) fn latency(&self) -> Option<Duration> {
        self.latency
    }

    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn standing(&self, now: Instant) -> Standing {
        if self.resting_until.is_some_and(|until| now < until) {
            Standing::Resting
        } else if self.shaky_until.is_some_and(|until| now < until) {
            Standing::Shaky
        } else {
            Standing::Ready
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evm::classify::Verdict;
    use crate::evm::rpc::NodeError;

    fn lost() -> Failure {
        Failure::Lost("gone".into())
    }

    fn limited(wait: Option<Duration>) -> Failure {
        Failure::TurnedAway { trouble: Trouble::Limited, code: None, text: "slow down".into(), wait }
    }

    #[test]
    fn each_loss_doubles_the_back_off_and_an_answer_ends_it() {
        let now = Instant::now();
        let mut health = Health::new();
        for step in [250, 500, 1_000, 2_000] {
            health.failed(&lost(), "gone".into(), now);
            assert_eq!(health.standing(now + Duration::from_millis(step - 1)), Standing::Shaky);
            assert_eq!(health.standing(now + Duration::from_millis(step)), Standing::Ready);
        }
        for _ in 0..100 {
            health.failed(&lost(), "gone".into(), now);
        }
        assert_eq!(health.standing(now + LONGEST_BACK_OFF), Standing::Ready);
        health.answered(Duration::from_millis(3), now);
        assert_eq!(health.standing(now), Standing::Ready);
        assert_eq!(health.trouble(), None);
    }

    #[test]
    fn a_rate_limit_is_respected_for_as_long_as_it_asks() {
        let now = Instant::now();
        let mut health = Health::new();
        health.failed(&limited(Some(Duration::from_secs(7))), "slow down".into(), now);
        health.answered(Duration::from_millis(3), now);
        assert_eq!(health.standing(now + Duration::from_secs(6)), Standing::Resting, "an answer under way");
        assert_eq!(health.standing(now + Duration::from_secs(7)), Standing::Ready);
        health.failed(&limited(Some(Duration::from_secs(1 << 40))), "slow down".into(), now);
        assert_eq!(health.standing(now + LONGEST_REST), Standing::Ready);
        let mut health = Health::new();
        for seconds in [1, 2, 4] {
            health.failed(&limited(None), "slow down".into(), now);
            assert_eq!(health.standing(now + Duration::from_secs(seconds)), Standing::Ready);
            assert_eq!(health.standing(now + Duration::from_millis(seconds * 1_000 - 1)), Standing::Resting);
        }
        health.served();
        health.failed(&limited(None), "slow down".into(), now);
        assert_eq!(health.standing(now + LIMITED_REST), Standing::Ready);
    }

    #[test]
    fn a_nodes_no_is_not_held_against_it() {
        let now = Instant::now();
        let mut health = Health::new();
        let no = NodeError {
            code: -32000,
            message: "nonce too low".into(),
            data: None,
            verdict: Verdict::Unknown,
        };
        health.failed(&Failure::Refused(no), "nonce too low".into(), now);
        assert_eq!((health.standing(now), health.failures(), health.trouble()), (Standing::Ready, 0, None));
    }

    #[test]
    fn an_endpoint_of_another_chain_rests_with_its_trouble_in_words() {
        let now = Instant::now();
        let mut health = Health::new();
        health.identified(ChainId(5), ChainId(1), now);
        assert_eq!(health.standing(now), Standing::Resting);
        health.answered(Duration::from_millis(1), now);
        assert_eq!(health.trouble(), Some("it serves chain 5, not chain 1, and is not used"));
        health.identified(ChainId(1), ChainId(1), now);
        assert_eq!((health.standing(now), health.trouble()), (Standing::Ready, None));
    }
}
