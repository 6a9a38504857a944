//! How one endpoint is doing: what it was last seen to do, and what that means for the next question.
//!
//! No I/O; the time comes in. A node that answers "no" is healthy: only silence, rate limits, missing credentials and
//! a node that is not in sync count against an endpoint.

use std::collections::BTreeMap;
use std::time::Duration;

use landfall_core::ChainId;
use landfall_core::outcome::SendOutcome;
use landfall_core::view::BlockRef;
use tokio::time::Instant;

use super::classify::Trouble;
use super::planted::{self, Planted};
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

/// How many answers in a row must be lost until the breaker opens.
const OPENS_AFTER: u32 = 5;
/// How long it stays open the first time; doubled each time that the question after it is lost too.
const FIRST_OPEN: Duration = Duration::from_secs(1);
const LONGEST_OPEN: Duration = Duration::from_secs(15);
/// How often an endpoint is asked for its last final block.
const FINALITY_EVERY: Duration = Duration::from_secs(10);
/// How much of the latency is that of the newest answer: a quarter.
const NEWEST_COUNTS: u32 = 4;

/// So many heads in a row that cannot be followed down set an endpoint's word about the head aside. One may be bad luck: behind one
/// URL are often several nodes.
const STRIKES: u32 = 3;
/// How long it is set aside the first time; doubled each time that the head after it cannot be followed either.
const FIRST_ASIDE: Duration = Duration::from_secs(10);
const LONGEST_ASIDE: Duration = Duration::from_secs(300);
/// After so long without another such head nothing is held against it.
const FORGOTTEN: Duration = Duration::from_secs(600);

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
    /// It is left alone for a while: it said so itself, it serves another chain, or its breaker is open.
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
    breaker: Breaker,
    identity: Identity,
    head: Option<u64>,
    finalized: Option<u64>,
    finality_asked: Option<Instant>,
    latency: Option<Duration>,
    trouble: Option<String>,
    answers: BTreeMap<SendOutcome, u64>,
}

/// Closed until too many answers in a row are lost; then open for a while; then one question at a time is let through,
/// and its answer closes it again. A node's "no" is an answer.
#[derive(Debug, Default)]
struct Breaker {
    open_until: Option<Instant>,
    /// How often in a row it has opened.
    openings: u32,
    /// When the question went out that decides.
    trying_since: Option<Instant>,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self {
            failures: 0,
            refusals: 0,
            shaky_until: None,
            resting_until: None,
            breaker: Breaker::default(),
            identity: Identity::Unchecked,
            head: None,
            finalized: None,
            finality_asked: None,
            latency: None,
            trouble: None,
            answers: BTreeMap::new(),
        }
    }

    /// It answered, whatever the answer was. A rest that it asked for in another answer still holds.
    pub(crate) fn answered(&mut self, latency: Duration, now: Instant) {
        self.latency = Some(match self.latency {
            Some(known) => (known * (NEWEST_COUNTS - 1) + latency) / NEWEST_COUNTS,
            None => latency,
        });
        self.failures = 0;
        self.breaker = Breaker::default();
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
                self.lost_another(now);
                if self.failures >= OUT_OF_REACH && !planted::has(Planted::IdentityKept) {
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
                if !planted::has(Planted::RestIgnored) {
                    self.resting_until = now.checked_add(wait.unwrap_or(rest).min(LONGEST_REST));
                }
                self.trouble = Some(text);
            }
            Failure::Refused(_) | Failure::Unreadable(_) => {}
        }
    }

    fn lost_another(&mut self, now: Instant) {
        let breaker = &mut self.breaker;
        if planted::has(Planted::NeverOpens) {
            return;
        }
        // Those that were under way when it opened are of the same outage.
        if self.failures < OPENS_AFTER || breaker.open_until.is_some_and(|until| now < until) {
            return;
        }
        let open = FIRST_OPEN.saturating_mul(1 << breaker.openings.min(10)).min(LONGEST_OPEN);
        breaker.open_until = now.checked_add(open);
        breaker.openings = breaker.openings.saturating_add(1);
        breaker.trying_since = None;
    }

    /// May a question go out now? When the breaker has been open long enough, one may, and it decides. `limit` is how
    /// long a question can take.
    pub(crate) fn may_ask(&mut self, now: Instant, limit: Duration) -> bool {
        let Some(until) = self.breaker.open_until else { return true };
        let trying = self.breaker.is_trying(now, limit) && !planted::has(Planted::AllDecide);
        if now < until || trying || planted::has(Planted::NeverTriedAgain) {
            return false;
        }
        self.breaker.trying_since = Some(now);
        true
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
            self.finalized = None;
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

    pub(crate) fn saw_finalized(&mut self, number: u64) {
        self.finalized = Some(number);
    }

    pub(crate) fn finalized(&self) -> Option<u64> {
        self.finalized
    }

    /// True at most once in a while.
    pub(crate) fn is_due_for_finality(&mut self, now: Instant) -> bool {
        let due = self.finality_asked.is_none_or(|at| now.saturating_duration_since(at) >= FINALITY_EVERY);
        if due {
            self.finality_asked = Some(now);
        }
        due
    }

    pub(crate) fn latency(&self) -> Option<Duration> {
        self.latency
    }

    /// What it said to bytes that were sent to it.
    pub(crate) fn judged(&mut self, outcome: SendOutcome) {
        *self.answers.entry(outcome).or_default() += 1;
    }

    pub(crate) fn answers(&self) -> &BTreeMap<SendOutcome, u64> {
        &self.answers
    }

    /// Until an answer closes it.
    pub(crate) fn breaker_is_open(&self) -> bool {
        self.breaker.open_until.is_some()
    }

    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn standing(&self, now: Instant) -> Standing {
        let resting = self.resting_until.is_some_and(|until| now < until);
        let open = self.breaker.open_until.is_some_and(|until| now < until);
        if resting || open {
            Standing::Resting
        } else if self.shaky_until.is_some_and(|until| now < until) {
            Standing::Shaky
        } else {
            Standing::Ready
        }
    }
}

/// Doubt about the heads that one endpoint shows: blocks below them cannot be read, or they are those of another chain.
#[derive(Debug, Default)]
pub(crate) struct HeadDoubt {
    /// In a row.
    strikes: u32,
    last: Option<Instant>,
    /// How often it was set aside.
    times: u32,
    /// Its word is set aside until a head of it is shown to be one; none is looked at before then.
    until: Option<Instant>,
    /// The block that it must show before anything is asked of it: it has shown another chain.
    must_show: Option<BlockRef>,
    trouble: String,
}

impl HeadDoubt {
    /// It has shown another chain than the one with this block. True if that was not known.
    pub(crate) fn is_elsewhere(&mut self, block: BlockRef, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) >= FORGOTTEN) {
            *self = Self::default();
        }
        self.last = Some(now);
        self.trouble = format!(
            "it serves another chain: it does not show block {} with the hash {}, and is not used",
            block.number, block.hash
        );
        self.set_aside(now);
        self.must_show.replace(block).is_none()
    }

    /// Nothing is asked of it until it shows this block.
    pub(crate) fn must_show(&self) -> Option<BlockRef> {
        self.must_show
    }

    /// The block that it must show, if it is time to look whether it does; and it is left alone for longer from then on.
    pub(crate) fn tried_again(&mut self, now: Instant) -> Option<BlockRef> {
        let block = self.must_show.filter(|_| self.is_on_trial(now))?;
        self.set_aside(now);
        Some(block)
    }

    /// Sets its word aside, for longer each time; whether it counted before.
    fn set_aside(&mut self, now: Instant) -> bool {
        let aside = FIRST_ASIDE.saturating_mul(1 << self.times.min(10)).min(LONGEST_ASIDE);
        self.times = self.times.saturating_add(1);
        self.until.replace(now.checked_add(aside).unwrap_or(now)).is_none()
    }

    /// Blocks below the head that it shows could not be read. True if its word is set aside now, and was not before.
    pub(crate) fn strike(&mut self, head: u64, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) >= FORGOTTEN) {
            *self = Self::default();
        }
        self.last = Some(now);
        self.strikes = self.strikes.saturating_add(1);
        if self.times == 0 && self.strikes < STRIKES {
            return false;
        }
        self.trouble = format!(
            "it shows block {head} as its head, and the blocks below it cannot be read: its head does not count"
        );
        self.set_aside(now)
    }

    /// A head of it could be followed down.
    pub(crate) fn followed(&mut self) {
        self.strikes = 0;
    }

    pub(crate) fn is_aside(&self) -> bool {
        self.until.is_some()
    }

    /// It has been set aside for long enough: its head is looked at again.
    pub(crate) fn is_on_trial(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Its head is one. That it was not remains in memory for a while.
    pub(crate) fn acquit(&mut self) {
        (self.until, self.must_show) = (None, None);
    }

    pub(crate) fn trouble(&self) -> Option<&str> {
        self.is_aside().then_some(self.trouble.as_str())
    }
}

impl Breaker {
    /// The question that decides is under way.
    fn is_trying(&self, now: Instant, limit: Duration) -> bool {
        self.trying_since.is_some_and(|since| now.saturating_duration_since(since) < limit)
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

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn after_some_lost_answers_in_a_row_it_is_left_alone_and_then_one_question_decides() {
        let now = Instant::now();
        let after = |millis: u64| now + Duration::from_millis(millis);
        let mut health = Health::new();
        for _ in 1..OPENS_AFTER {
            health.failed(&lost(), "gone".into(), now);
            assert!(health.may_ask(now, LIMIT));
            assert_ne!(health.standing(now), Standing::Resting);
        }
        for _ in 0..20 {
            // Those that were under way do not keep it open longer.
            health.failed(&lost(), "gone".into(), now);
        }
        assert_eq!(health.standing(after(999)), Standing::Resting);
        assert!(!health.may_ask(after(999), LIMIT));
        assert!(health.may_ask(after(1_000), LIMIT), "one question");
        assert!(!health.may_ask(after(1_001), LIMIT), "and no second one beside it");
        assert!(
            health.may_ask(after(11_001), LIMIT),
            "a question whose asker went away does not block for ever"
        );
        health.failed(&lost(), "gone".into(), after(11_001));
        assert!(!health.may_ask(after(13_000), LIMIT), "it stays open for longer");
        assert!(health.may_ask(after(13_001), LIMIT));
        health.answered(Duration::from_millis(1), after(13_001));
        assert!((0..10).all(|_| health.may_ask(after(13_002), LIMIT)));
        assert_eq!(health.standing(after(13_002)), Standing::Ready);
        for _ in 0..100 {
            let later = after(20_000);
            health.failed(&lost(), "gone".into(), later);
            assert!(health.may_ask(later + LONGEST_OPEN, LIMIT), "never longer than that");
            health.answered(Duration::from_millis(1), later);
        }
    }

    // covers: C11
    #[test]
    fn a_business_error_never_trips_the_breaker() {
        let now = Instant::now();
        let mut health = Health::new();
        for message in [
            "nonce too low",
            "execution reverted",
            "insufficient funds",
            "replacement transaction underpriced",
        ] {
            for code in [-32603, -32000, 3] {
                for _ in 0..OPENS_AFTER {
                    let verdict = crate::evm::classify::Table::load().unwrap().classify(Some(code), message);
                    let no = NodeError { code, message: message.into(), data: None, verdict };
                    health.failed(&Failure::Refused(no), message.into(), now);
                    assert!(health.may_ask(now, LIMIT));
                    assert_eq!(health.standing(now), Standing::Ready);
                }
            }
        }
    }

    #[test]
    fn heads_that_cannot_be_followed_set_an_endpoint_aside_for_longer_each_time() {
        let now = Instant::now();
        let mut doubt = HeadDoubt::default();
        for _ in 1..STRIKES {
            assert!(!doubt.strike(1_000, now));
        }
        doubt.followed();
        for _ in 1..STRIKES {
            assert!(!doubt.strike(1_000, now), "not in a row");
        }
        assert!(doubt.strike(1_000, now));
        assert!(doubt.trouble().is_some_and(|text| text.contains("block 1000")), "{doubt:?}");
        let mut begun = now;
        for seconds in [10, 20, 40, 80, 160, 300, 300] {
            let until = begun + Duration::from_secs(seconds);
            assert!(!doubt.is_on_trial(until - Duration::from_millis(1)));
            assert!(doubt.is_on_trial(until) && doubt.is_aside());
            assert!(!doubt.strike(1_001, until), "it was aside before");
            begun = until;
        }
        doubt.acquit();
        assert!(!doubt.is_aside() && doubt.trouble().is_none());
        assert!(doubt.strike(1_002, begun), "one more is enough");
        doubt.acquit();
        assert!(!doubt.strike(1_003, begun + FORGOTTEN), "that was long ago");
    }

    #[test]
    fn one_that_serves_another_chain_is_looked_at_again_less_and_less_often() {
        let now = Instant::now();
        let block = BlockRef { number: 7, hash: alloy_primitives::B256::repeat_byte(7) };
        let mut doubt = HeadDoubt::default();
        assert!(doubt.is_elsewhere(block, now) && doubt.is_aside());
        assert!(!doubt.is_elsewhere(block, now), "that is known");
        assert!(
            doubt.trouble().is_some_and(|text| text.contains("block 7") && text.contains("another chain"))
        );
        let mut at = now + Duration::from_secs(20);
        for seconds in [40, 80, 160, 300, 300] {
            assert_eq!(doubt.tried_again(at), Some(block));
            let next = at + Duration::from_secs(seconds);
            assert_eq!(doubt.tried_again(next - Duration::from_millis(1)), None);
            assert_eq!(doubt.must_show(), Some(block), "nothing is asked of it meanwhile");
            at = next;
        }
        doubt.acquit();
        assert!(!doubt.is_aside() && doubt.must_show().is_none() && doubt.tried_again(at).is_none());
    }

    #[test]
    fn latency_is_smoothed() {
        let mut health = Health::new();
        for (latency, smoothed) in [(100, 100), (500, 200), (200, 200)] {
            health.answered(Duration::from_millis(latency), Instant::now());
            assert_eq!(health.latency(), Some(Duration::from_millis(smoothed)));
        }
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
