//! Witnesses: how far a chain is known to two endpoints.
//!
//! One endpoint can be on a fork of its own, and longer than all others. So where two or more are configured, nothing is
//! final by the word of one: what counts is the newest block of our chain that two of them have shown. Where nobody but
//! one has shown anything new for long enough, its word counts alone, and that is said; but never while another one that
//! answers shows other blocks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Millis;
use crate::view::{BlockRef, Receipt};

/// A fork of this many blocks is ordinary: it ends by itself.
pub const SHORT_FORK: u64 = 6;

/// One endpoint, and what it has shown of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// Its URL without credentials.
    pub endpoint: String,
    /// It answered when it was last asked for its head.
    pub up: bool,
    /// The newest block that it has shown, whatever chain it is of.
    pub head: Option<u64>,
    /// The newest block of our chain that it has shown.
    pub agrees: Option<u64>,
    /// The lowest number at which it has shown another block than ours.
    pub differs: Option<u64>,
    /// The time of its newest block, as it gave it.
    pub time: Option<Millis>,
    /// The newest blocks that it has called safe and finalized.
    pub safe: Option<BlockRef>,
    pub finalized: Option<BlockRef>,
}

impl Witness {
    /// It answers, and shows another chain than ours.
    fn disagrees(&self) -> bool {
        self.up && self.differs.is_some()
    }

    /// The fork that it is on is longer than those that end by themselves.
    fn disagrees_for_long(&self) -> bool {
        let common = self.agrees.unwrap_or(0);
        self.disagrees() && self.head.is_some_and(|head| head.saturating_sub(common) > SHORT_FORK)
    }
}

/// The newest block that two of these have shown.
#[must_use]
pub fn by_two(witnesses: &[Witness]) -> Option<u64> {
    let mut agreed: Vec<u64> = witnesses.iter().filter_map(|witness| witness.agrees).collect();
    agreed.sort_unstable();
    agreed.len().checked_sub(2).and_then(|second| agreed.get(second).copied())
}

/// How far a chain is known to two endpoints, as a view shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witnessed {
    /// Two or more endpoints are configured.
    pub several: bool,
    /// The newest block that two of them have shown; the head where one is configured.
    pub by_two: Option<u64>,
    /// Only one has shown anything new for so long that its word counts.
    pub alone: bool,
    /// Why the head is not known to two, where it is not.
    pub lack: Option<Arc<Lack>>,
    /// Which blocks are called safe and finalized, where there are several.
    pub safe: TagWord,
    pub finalized: TagWord,
    /// The block time that counts where there are several; none while nobody's does.
    pub time: Option<Millis>,
}

/// The newest blocks that endpoints call safe, or finalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TagWord {
    /// The newest that two have called so.
    pub by_two: Option<u64>,
    /// The newest that any has.
    pub by_one: Option<u64>,
}

impl Witnessed {
    /// One endpoint is configured: whatever it shows counts.
    #[must_use]
    pub fn by_one(head: u64) -> Self {
        let (safe, finalized) = (TagWord::default(), TagWord::default());
        Self { several: false, by_two: Some(head), alone: false, lack: None, safe, finalized, time: None }
    }

    /// The same blocks count, for the same reason.
    #[must_use]
    pub fn counts_alike(&self, other: &Self) -> bool {
        let long = |witnessed: &Self| witnessed.lack.as_ref().is_some_and(|lack| lack.disagree);
        (self.several, self.by_two, self.alone, self.time.is_some(), long(self))
            == (other.several, other.by_two, other.alone, other.time.is_some(), long(other))
    }
}

/// Why the newest block is not known to two endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// Since when nothing new was shown by two.
    pub since: Millis,
    /// When one endpoint's word counts alone, if nothing changes; none if time alone changes nothing.
    pub until: Option<Millis>,
    /// Endpoints that answer show different chains, beyond a short fork.
    pub disagree: bool,
    /// Of which other endpoints it is waited for, and how they are doing.
    pub others: String,
}

impl Lack {
    /// The sentence for people, about what waits for this block.
    #[must_use]
    pub fn sentence(&self, block: u64, now: Millis) -> String {
        let others = &self.others;
        if self.disagree {
            return format!(
                "block {block} is shown by one endpoint only, and others show another chain ({others}): nothing becomes \
                 final until they agree, or the wrong one is taken out of the configuration"
            );
        }
        let wait = match self.until {
            Some(until) => format!(", at most {} s more", until.since(now).as_secs()),
            None => String::new(),
        };
        format!("block {block} is shown by one endpoint only: waiting for a second one{wait}; {others}")
    }
}

/// A receipt that one endpoint gave, as others see it. What ends a transaction is whether it is there and what its status is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecondWord {
    /// Two endpoints gave it, or one is all there is.
    Same,
    /// Endpoints that answer differ about it: what each says.
    Differs(String),
    /// Two say something else: the same attempt with another status, or that the block does not hold it.
    Wrong(Option<Box<Receipt>>),
    /// No second one could say, for so long.
    Lacking { waited: Duration, why: String },
}

/// Follows from look to look what two endpoints have shown. Its time never steps: any beginning will do, as long as it is
/// always the same.
#[derive(Debug)]
pub struct Watch {
    /// After this time one endpoint's word counts; none: never.
    wait: Option<Duration>,
    last: Option<u64>,
    /// When two last showed something new, or showed different chains.
    since: Duration,
    alone: bool,
}

impl Watch {
    #[must_use]
    pub fn new(wait: Option<Duration>, now: Duration) -> Self {
        Self { wait, last: None, since: now, alone: false }
    }

    /// What counts of a chain with this head. `clock` is the time of day, for sentences.
    pub fn judge(&mut self, head: u64, witnesses: &[Witness], now: Duration, clock: Millis) -> Witnessed {
        if witnesses.len() < 2 {
            return Witnessed::by_one(head);
        }
        let by_two = by_two(witnesses);
        let disagree = witnesses.iter().any(Witness::disagrees);
        if by_two > self.last || by_two == Some(head) || disagree {
            self.since = now;
            self.alone = false;
        }
        self.last = by_two;
        let waited = now.saturating_sub(self.since);
        self.alone |= self.wait.is_some_and(|wait| waited >= wait);
        let lack = (by_two != Some(head)).then(|| {
            let left = self.wait.filter(|_| !disagree).map(|wait| wait.saturating_sub(waited));
            Arc::new(Lack {
                since: Millis(clock.0.saturating_sub(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX))),
                until: left.map(|left| clock.after(left)),
                disagree: witnesses.iter().any(Witness::disagrees_for_long),
                others: Others { head, by_two, witnesses }.to_string(),
            })
        });
        let (safe, finalized) = (TagWord::default(), TagWord::default());
        Witnessed { several: true, by_two, alone: self.alone, lack, safe, finalized, time: None }
    }
}

/// A block time that lies this much ahead of all that is plausible is nobody's.
const AHEAD: Duration = Duration::from_secs(3_600);

/// Follows from look to look which block time two endpoints have reached. A block's hash covers its time, but nobody here computes it:
/// an endpoint that shows the blocks of all others may show them days ahead. The time never goes back.
#[derive(Debug, Default)]
pub struct TimeWatch {
    last: Option<Millis>,
    /// The newest time that two gave, and when.
    by_two: Option<(Millis, Duration)>,
}

impl TimeWatch {
    /// The times of the newest blocks, one for each endpoint that has shown one. `alone` says that one endpoint's word counts, `clock` is
    /// our own time of day, which may be wrong, and `now` does not step.
    pub fn judge(
        &mut self,
        mut times: Vec<Millis>,
        alone: bool,
        now: Duration,
        clock: Millis,
    ) -> Option<Millis> {
        times.sort_unstable_by_key(|time| std::cmp::Reverse(*time));
        let (highest, second) = (times.first().copied(), times.get(1).copied());
        let passed = self.by_two.map(|(time, at)| time.after(now.saturating_sub(at)));
        let most = clock.max(passed.unwrap_or_default()).after(AHEAD);
        let two = second.filter(|time| passed.is_none() || *time <= most);
        if let Some(time) = two.filter(|time| self.by_two.is_none_or(|(before, _)| *time >= before)) {
            self.by_two = Some((time, now));
        }
        // Before two have given any, one that our own clock bears out will do; where one counts alone, also one without.
        let by_one =
            alone || (self.by_two.is_none() && highest.is_some_and(|time| time <= clock.after(AHEAD)));
        let one = highest.filter(|time| by_one && (*time <= most || (alone && passed.is_none())));
        self.last = self.last.max(two).max(one);
        self.last
    }
}

/// Follows from look to look which blocks endpoints call safe, or finalized. An endpoint that called more of the chain so than
/// another one that answers is not believed, however long. Those that are down, or know no such blocks, are waited for.
#[derive(Debug)]
pub struct TagWatch {
    /// As of [`Watch`].
    wait: Option<Duration>,
    last: Option<BlockRef>,
    since: Duration,
}

impl TagWatch {
    #[must_use]
    pub fn new(wait: Option<Duration>, now: Duration) -> Self {
        Self { wait, last: None, since: now }
    }

    /// The block that each endpoint calls so, as far as it is part of our chain, and whether it is up. The block is the one that counts.
    pub fn judge(
        &mut self,
        said: &[(bool, Option<BlockRef>)],
        is_ours: impl Fn(&BlockRef) -> bool,
        now: Duration,
    ) -> (TagWord, Option<BlockRef>) {
        let ours = |word: Option<BlockRef>| word.filter(&is_ours);
        let mut words: Vec<BlockRef> = said.iter().filter_map(|(_, word)| ours(*word)).collect();
        words.sort_unstable_by_key(|word| std::cmp::Reverse(word.number));
        let (highest, second) = (words.first().copied(), words.get(1).copied());
        let by_two = second.or(self.last.filter(&is_ours));
        let lower = |(up, word): &(bool, Option<BlockRef>)| *up && word.is_some() && ours(*word) != highest;
        if by_two != self.last || by_two == highest || said.iter().any(lower) {
            self.since = now;
        }
        self.last = by_two;
        let waited = now.saturating_sub(self.since);
        let alone = self.wait.is_some_and(|wait| waited >= wait);
        let number = |block: Option<BlockRef>| block.map(|block| block.number);
        (TagWord { by_two: number(by_two), by_one: number(highest) }, if alone { highest } else { by_two })
    }
}

/// The endpoints that have not shown the head, in words.
struct Others<'a> {
    head: u64,
    by_two: Option<u64>,
    witnesses: &'a [Witness],
}

impl fmt::Display for Others<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let behind = |witness: &&Witness| witness.agrees != Some(self.head);
        for (position, witness) in self.witnesses.iter().filter(behind).enumerate() {
            let (between, name) = (if position == 0 { "" } else { ", " }, &witness.endpoint);
            write!(f, "{between}{name} ")?;
            match (witness.up, witness.differs, witness.head) {
                (false, _, _) => f.write_str("does not answer")?,
                (true, Some(number), _) => match witness.agrees {
                    Some(common) => write!(f, "shows another block {number}, and the same up to {common}")?,
                    None => write!(f, "shows another block {number}")?,
                },
                (true, None, Some(head)) => match self.head.checked_sub(head) {
                    Some(0) | None => f.write_str("has not shown it yet")?,
                    Some(1) => f.write_str("is 1 block behind")?,
                    Some(blocks) => write!(f, "is {blocks} blocks behind")?,
                },
                (true, None, None) => f.write_str("has shown no block yet")?,
            }
        }
        match self.by_two {
            Some(_) => Ok(()),
            None => f.write_str("; no recent block was shown by two"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(600);
    const CLOCK: Millis = Millis(1_000_000);

    fn witness(endpoint: &str, head: u64) -> Witness {
        Witness {
            endpoint: endpoint.to_owned(),
            up: true,
            head: Some(head),
            agrees: Some(head),
            differs: None,
            time: None,
            safe: None,
            finalized: None,
        }
    }

    fn down(endpoint: &str) -> Witness {
        Witness { up: false, head: None, agrees: None, ..witness(endpoint, 0) }
    }

    fn forked(endpoint: &str, head: u64, common: u64) -> Witness {
        Witness { agrees: Some(common), differs: Some(common + 1), ..witness(endpoint, head) }
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn said(witnessed: &Witnessed, block: u64) -> String {
        witnessed.lack.as_ref().unwrap().sentence(block, CLOCK)
    }

    #[test]
    fn where_one_endpoint_is_configured_its_head_counts() {
        for witnesses in [vec![], vec![witness("a", 90)]] {
            let found = Watch::new(Some(WAIT), secs(0)).judge(100, &witnesses, secs(0), CLOCK);
            assert_eq!(found, Witnessed::by_one(100));
        }
    }

    #[test]
    fn the_second_highest_that_agrees_counts() {
        let mut watch = Watch::new(Some(WAIT), secs(0));
        let found = watch.judge(100, &[witness("a", 100), witness("b", 100)], secs(0), CLOCK);
        assert_eq!((found.by_two, found.alone, found.lack), (Some(100), false, None));
        let found = watch.judge(
            101,
            &[witness("a", 101), down("b"), witness("c", 99), witness("d", 61)],
            secs(1),
            CLOCK,
        );
        assert_eq!((found.by_two, found.alone), (Some(99), false));
        assert_eq!(
            said(&found, 101),
            "block 101 is shown by one endpoint only: waiting for a second one, at most 599 s more; b does not answer, \
             c is 2 blocks behind, d is 40 blocks behind"
        );
    }

    #[test]
    fn one_endpoint_alone_counts_after_the_wait_and_no_longer_once_a_second_is_back() {
        let mut watch = Watch::new(Some(WAIT), secs(0));
        assert_eq!(
            watch.judge(100, &[witness("a", 100), witness("b", 100)], secs(5), CLOCK).by_two,
            Some(100)
        );
        let only_a = |head| [witness("a", head), Witness { up: false, ..witness("b", 100) }];
        let found = watch.judge(150, &only_a(150), secs(604), CLOCK);
        assert_eq!((found.by_two, found.alone), (Some(100), false));
        let found = watch.judge(150, &only_a(150), secs(605), CLOCK);
        assert_eq!((found.by_two, found.alone), (Some(100), true));
        // It stays so for every block that follows.
        assert!(watch.judge(151, &only_a(151), secs(606), CLOCK).alone);
        let found = watch.judge(152, &[witness("a", 152), witness("b", 140)], secs(607), CLOCK);
        assert_eq!((found.by_two, found.alone), (Some(140), false));
    }

    #[test]
    fn without_a_wait_one_endpoint_never_counts_alone() {
        let mut watch = Watch::new(None, secs(0));
        let found = watch.judge(100, &[witness("a", 100), down("b")], secs(1_000_000), CLOCK);
        assert_eq!((found.by_two, found.alone), (None, false));
        assert_eq!(
            said(&found, 100),
            "block 100 is shown by one endpoint only: waiting for a second one; b does not answer; no recent block was \
             shown by two"
        );
    }

    #[test]
    fn endpoints_that_disagree_hold_for_as_long_as_they_do() {
        let mut watch = Watch::new(Some(WAIT), secs(0));
        let both = |head| [witness("a", head), forked("b", 98, 80)];
        for time in 0..10 {
            let found = watch.judge(100 + time, &both(100 + time), secs(600 * time), CLOCK);
            assert_eq!((found.by_two, found.alone), (Some(80), false), "at {time}");
            assert!(found.lack.as_ref().unwrap().disagree && found.lack.unwrap().until.is_none());
        }
        // The other one goes away: from then on the time counts.
        let gone = |head| [witness("a", head), Witness { up: false, ..forked("b", 98, 80) }];
        assert!(!watch.judge(120, &gone(120), secs(5_999), CLOCK).alone);
        assert!(watch.judge(121, &gone(121), secs(6_000), CLOCK).alone);
        // It is back, and still shows another chain: what one says does not count any more.
        let found = watch.judge(122, &both(122), secs(6_001), CLOCK);
        assert!(!found.alone);
        assert!(said(&found, 122).contains("others show another chain (b shows another block 81"));
    }

    #[test]
    fn a_short_fork_is_no_disagreement_but_does_not_pass_by_time_either() {
        let mut watch = Watch::new(Some(WAIT), secs(0));
        let found = watch.judge(100, &[witness("a", 100), forked("b", 99, 97)], secs(0), CLOCK);
        assert_eq!(found.by_two, Some(97));
        assert!(!found.lack.unwrap().disagree);
        let found = watch.judge(100, &[witness("a", 100), forked("b", 99, 97)], secs(700), CLOCK);
        assert!(!found.alone);
    }

    /// A node that is being set up answers, and shows blocks of long ago.
    #[test]
    fn one_that_is_far_behind_is_no_witness_and_is_waited_for_no_longer_than_one_that_is_down() {
        let mut watch = Watch::new(Some(WAIT), secs(0));
        let syncing = Witness { agrees: None, ..witness("b", 7) };
        let found = watch.judge(5_000, &[witness("a", 5_000), syncing.clone()], secs(599), CLOCK);
        assert_eq!((found.by_two, found.alone), (None, false));
        assert!(watch.judge(5_001, &[witness("a", 5_001), syncing], secs(600), CLOCK).alone);
    }

    fn called(number: u64) -> Option<BlockRef> {
        Some(BlockRef { number, hash: alloy_primitives::B256::ZERO })
    }

    fn counted(watch: &mut TagWatch, said: &[(bool, Option<BlockRef>)], at: u64) -> (Option<u64>, TagWord) {
        let (word, block) = watch.judge(said, |block| block.number <= 100, secs(at));
        (block.map(|block| block.number), word)
    }

    #[test]
    fn the_newest_block_with_a_tag_is_the_one_that_two_call_so() {
        let mut watch = TagWatch::new(Some(WAIT), secs(0));
        let said = [(true, called(100)), (true, called(36))];
        for at in [0, 700, 100_000] {
            let word = TagWord { by_two: Some(36), by_one: Some(100) };
            assert_eq!(counted(&mut watch, &said, at), (Some(36), word), "one calls its head final");
        }
        let said = [(true, called(100)), (true, called(36)), (false, called(37))];
        assert_eq!(
            counted(&mut watch, &said, 100_001).0,
            Some(37),
            "what one said that is down now stays said"
        );
        // A word about blocks that are not ours, or not yet, is none; what two said before stays.
        assert_eq!(counted(&mut watch, &[(true, called(101)), (true, called(40))], 100_002).0, Some(37));
    }

    #[test]
    fn a_tag_of_one_endpoint_counts_after_the_wait_unless_another_one_that_answers_shows_less() {
        let mut watch = TagWatch::new(Some(WAIT), secs(0));
        let alone = [(true, called(50)), (true, None)];
        assert_eq!(counted(&mut watch, &alone, 599).0, None, "the other one knows no such blocks");
        let (block, word) = counted(&mut watch, &alone, 600);
        assert_eq!((block, word), (Some(50), TagWord { by_two: None, by_one: Some(50) }));
        let less = [(true, called(60)), (true, called(40))];
        assert_eq!(counted(&mut watch, &less, 5_000).0, Some(40));
        let down = [(true, called(60)), (false, called(40))];
        assert_eq!(counted(&mut watch, &down, 5_599).0, Some(40));
        assert_eq!(counted(&mut watch, &down, 5_600).0, Some(60));
        let mut never = TagWatch::new(None, secs(0));
        assert_eq!(counted(&mut never, &alone, 1_000_000).0, None);
    }

    const HOUR: u64 = 3_600_000;
    const NOON: Millis = Millis(1_800_000_000_000);

    fn later(by: u64) -> Millis {
        Millis(NOON.0 + by)
    }

    #[test]
    fn the_block_time_is_one_that_two_endpoints_have_reached_and_never_goes_back() {
        let mut watch = TimeWatch::default();
        let mut at = |times: &[Millis], seconds: u64| {
            watch.judge(times.to_vec(), false, secs(seconds), later(seconds * 1_000))
        };
        assert_eq!(at(&[NOON, NOON], 0), Some(NOON));
        assert_eq!(at(&[later(12_000), later(24 * HOUR)], 12), Some(later(12_000)), "one is a day ahead");
        assert_eq!(at(&[later(24_000), later(0)], 24), Some(later(12_000)), "one is behind");
        assert_eq!(at(&[later(36_000)], 36), Some(later(12_000)), "one has shown nothing");
        assert_eq!(at(&[later(24 * HOUR), later(48_000), later(48_000)], 48), Some(later(48_000)));
        // Both leap, and neither our clock nor the time that has passed bears it out.
        assert_eq!(at(&[later(24 * HOUR); 2], 60), Some(later(48_000)));
    }

    #[test]
    fn a_clock_of_ours_that_is_wrong_by_years_stops_no_block_time() {
        for clock in [Millis(0), later(10 * 365 * 24 * HOUR)] {
            let mut watch = TimeWatch::default();
            for block in 0..200 {
                let time = later(block * HOUR / 2);
                assert_eq!(watch.judge(vec![time; 2], false, secs(block * 1_800), clock), Some(time));
            }
        }
    }

    #[test]
    fn one_endpoint_that_counts_alone_moves_the_time_no_further_than_an_hour() {
        let mut watch = TimeWatch::default();
        assert_eq!(watch.judge(vec![NOON; 2], false, secs(0), NOON), Some(NOON));
        let mut time = NOON;
        for step in 1..100 {
            let ahead = later(step * HOUR / 2);
            time = watch.judge(vec![ahead], true, secs(700 + step), later(700_000)).unwrap();
        }
        assert!(time <= later(HOUR + 799_000), "{time:?} is {} ms ahead", time.0 - NOON.0);
        // From the start on it is all there is, as far as our clock bears it out; and when it counts alone, in any case.
        assert_eq!(TimeWatch::default().judge(vec![NOON], false, secs(0), NOON), Some(NOON));
        assert_eq!(TimeWatch::default().judge(vec![later(2 * HOUR)], false, secs(0), NOON), None);
        assert_eq!(
            TimeWatch::default().judge(vec![later(2 * HOUR)], true, secs(0), NOON),
            Some(later(2 * HOUR))
        );
    }
}
