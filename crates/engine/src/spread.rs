//! Which node a lane belongs to (L1): every node orders the live sessions of each lane by a hash of both and comes to the
//! same order without a word (rendezvous hashing), so that a node that comes or goes moves only the lanes it wins or had.
//!
//! The first takes the lane at once. The second waits a while for the first, the third for both, so that two nodes never
//! race, and a first that cannot have it (it lacks the key) does not keep it from running. An owner that is not first
//! gives the lane back, a few at a time. If the first does not come for it, the owner takes it again and keeps it.
//!
//! All of this is a hint about who should try. Who may is decided by the store alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use landfall_core::ports::store::Holders;
use landfall_core::{LaneId, SessionId};
use tokio::time::Instant;

/// Of the lanes that should be elsewhere, one in so many is given back at a scan.
const GIVEN_AT_ONCE: usize = 4;

/// What this node knows of the others, as of the last scan.
pub(crate) struct Spread {
    me: SessionId,
    /// How long one waits for the next before it.
    patience: Duration,
    holders: Holders,
    /// Since when a session is known.
    seen: BTreeMap<SessionId, Instant>,
    /// Since when lanes with work have been seen without an owner.
    free: BTreeMap<LaneId, Instant>,
    /// Lanes that were given back, and for whom.
    given: BTreeMap<LaneId, SessionId>,
    /// Lanes for which that one did not come.
    kept: BTreeMap<LaneId, SessionId>,
}

impl Spread {
    pub(crate) fn new(me: SessionId, patience: Duration) -> Self {
        Self {
            me,
            patience,
            holders: Holders::default(),
            seen: BTreeMap::new(),
            free: BTreeMap::new(),
            given: BTreeMap::new(),
            kept: BTreeMap::new(),
        }
    }

    /// No other node is there.
    pub(crate) fn is_alone(&self) -> bool {
        self.holders.live.iter().all(|session| *session == self.me)
    }

    /// Takes in what the store showed.
    pub(crate) fn look(&mut self, holders: Holders, now: Instant) {
        self.seen.retain(|session, _| holders.live.contains(session));
        for session in &holders.live {
            self.seen.entry(*session).or_insert(now);
        }
        self.kept.retain(|_, session| holders.live.contains(session));
        let me = self.me;
        // One that the store says is ours and that does not run here (an answer was lost on the way) is nobody else's to
        // take: it is waited for as long as a free one, and not for ever.
        self.free.retain(|lane, _| holders.held.get(lane).is_none_or(|holder| *holder == me));
        self.given.retain(|lane, _| holders.held.get(lane).is_none_or(|holder| *holder == me));
        self.holders = holders;
    }

    /// Is it this node's turn to take a lane that has work? One that is hindered leaves it to all others first.
    pub(crate) fn may_take(&mut self, lane: LaneId, hindered: bool, now: Instant) -> bool {
        if self.holders.held.get(&lane).is_some_and(|holder| *holder != self.me) {
            return false;
        }
        let before_me = if hindered {
            self.others().count()
        } else {
            self.others().filter(|other| weight(lane, *other) > weight(lane, self.me)).count()
        };
        if before_me == 0 {
            return true;
        }
        let since = *self.free.entry(lane).or_insert(now);
        let turns = u32::try_from(before_me).unwrap_or(u32::MAX);
        now.duration_since(since) >= self.patience.saturating_mul(turns)
    }

    /// The lane is ours now.
    pub(crate) fn taken(&mut self, lane: LaneId) {
        self.free.remove(&lane);
        if let Some(absent) = self.given.remove(&lane) {
            self.kept.insert(lane, absent);
        }
    }

    /// Of the lanes that run here, those to give back now.
    pub(crate) fn gives_away(
        &mut self,
        running: &BTreeSet<LaneId>,
        hindered: impl Fn(LaneId) -> bool,
        now: Instant,
    ) -> Vec<LaneId> {
        let elsewhere: Vec<(LaneId, SessionId)> = running
            .iter()
            .filter(|lane| self.holders.held.get(lane) == Some(&self.me))
            .filter_map(|lane| {
                let best = self.others().max_by_key(|other| weight(*lane, *other))?;
                let is_better = hindered(*lane) || weight(*lane, best) > weight(*lane, self.me);
                // One that has just come may go again, and one that did not come for the lane need not be asked twice.
                let is_settled = self.seen.get(&best).is_some_and(|seen| now - *seen >= self.patience);
                (is_better && is_settled && self.kept.get(lane) != Some(&best)).then_some((*lane, best))
            })
            .collect();
        let now_given = elsewhere.len().div_ceil(GIVEN_AT_ONCE);
        self.given.extend(elsewhere.iter().take(now_given).copied());
        elsewhere.into_iter().take(now_given).map(|(lane, _)| lane).collect()
    }

    fn others(&self) -> impl Iterator<Item = SessionId> {
        self.holders.live.iter().copied().filter(|session| *session != self.me)
    }
}

/// How much a session wants a lane. The same number on every node and in every version of the program.
fn weight(lane: LaneId, session: SessionId) -> (u64, SessionId) {
    let bytes = lane.chain.0.to_be_bytes().into_iter().chain(lane.signer.0.0).chain(*session.0.as_bytes());
    // FNV-1a, then a mix that spreads its last bytes over the whole number.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31), session)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;
    use landfall_core::{Account, ChainId};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    fn lane(n: u8) -> LaneId {
        LaneId { chain: ChainId(1), signer: Account(Address::with_last_byte(n)) }
    }

    fn session(n: u128) -> SessionId {
        SessionId::new(landfall_core::Millis(7), n.wrapping_mul(0x1234_5678_9abc_def1_2345_6789_0bcd_ef13))
    }

    fn live(count: u128) -> Holders {
        Holders { live: (1..=count).map(session).collect(), ..Holders::default() }
    }

    fn view(me: u128, holders: &Holders, now: Instant) -> Spread {
        let mut spread = Spread::new(session(me), PATIENCE);
        spread.look(holders.clone(), now);
        spread
    }

    /// Who takes each of 100 lanes at once.
    fn owners(count: u128) -> Vec<u128> {
        let now = Instant::now();
        (0..100)
            .map(|n| {
                let takers: Vec<u128> = (1..=count)
                    .filter(|me| view(*me, &live(count), now).may_take(lane(n), false, now))
                    .collect();
                assert_eq!(takers.len(), 1, "one node and no other takes lane {n}");
                takers[0]
            })
            .collect()
    }

    #[test]
    fn every_lane_has_one_node_and_every_node_its_share() {
        for count in 1..=5 {
            let owners = owners(count);
            for me in 1..=count {
                let share = owners.iter().filter(|owner| **owner == me).count();
                assert!(share * usize::try_from(count).unwrap() >= 50, "node {me} of {count} has {share}");
            }
        }
    }

    #[test]
    fn a_lane_that_is_ours_in_the_store_and_does_not_run_here_is_taken_again() {
        let begun = Instant::now();
        let mut holders = live(3);
        holders.held.insert(lane(1), session(1));
        let mut spread = Spread::new(session(1), PATIENCE);
        // It is looked at more often than the patience is long.
        let taken = (0..20).map(|n| begun + PATIENCE / 4 * n).find(|now| {
            spread.look(holders.clone(), *now);
            spread.may_take(lane(1), true, *now)
        });
        assert_eq!(taken.map(|at| at - begun), Some(PATIENCE * 2), "after the two others had their turn");
    }

    #[test]
    fn a_node_that_comes_moves_only_the_lanes_it_gets() {
        for (before, after) in owners(3).into_iter().zip(owners(4)) {
            assert!(after == before || after == 4, "a lane moved from {before} to {after}");
        }
    }

    #[test]
    fn a_lane_that_its_node_does_not_take_is_taken_by_the_others_one_after_the_other() {
        let begun = Instant::now();
        let mut nodes: Vec<Spread> = (1..=3).map(|me| view(me, &live(3), begun)).collect();
        let mut takers = |after: Duration| {
            nodes
                .iter_mut()
                .map(|node| node.may_take(lane(1), false, begun + after))
                .filter(|may| *may)
                .count()
        };
        assert_eq!(takers(Duration::ZERO), 1);
        assert_eq!(takers(PATIENCE / 2), 1);
        assert_eq!(takers(PATIENCE), 2);
        assert_eq!(takers(PATIENCE * 2), 3);
    }

    #[test]
    fn a_lane_of_a_live_session_is_left_alone_and_one_of_an_ended_session_is_not() {
        let now = Instant::now();
        let mut holders = live(2);
        holders.held.insert(lane(1), session(2));
        let mut spread = view(1, &holders, now);
        assert!(!spread.may_take(lane(1), false, now + PATIENCE * 10));
        spread.look(live(1), now);
        assert!(spread.may_take(lane(1), false, now), "alone, it is always first");
    }

    #[test]
    fn lanes_of_a_node_that_comes_are_given_back_a_few_at_a_time_and_once() {
        let begun = Instant::now();
        let running: BTreeSet<LaneId> = (0..100).map(lane).collect();
        let held = |holders: Holders| Holders {
            held: running.iter().map(|lane| (*lane, session(1))).collect(),
            ..holders
        };
        let mut spread = view(1, &held(live(1)), begun);
        assert!(spread.gives_away(&running, |_| false, begun).is_empty());
        spread.look(held(live(2)), begun);
        assert!(spread.gives_away(&running, |_| false, begun).is_empty(), "it has just come");
        let later = begun + PATIENCE;
        let first = spread.gives_away(&running, |_| false, later);
        assert!(!first.is_empty() && first.len() <= 25, "{} at once", first.len());
        // Nobody came for the first of them: it is taken again, and stays.
        let kept = first[0];
        spread.taken(kept);
        for _ in 0..200 {
            assert!(!spread.gives_away(&running, |_| false, later).contains(&kept));
        }
    }

    #[test]
    fn a_hindered_node_leaves_lanes_to_the_others_and_gives_its_own_away() {
        let begun = Instant::now();
        let running: BTreeSet<LaneId> = [lane(1)].into();
        let mut holders = live(2);
        for me in 1..=2 {
            let mut spread = view(me, &holders, begun);
            assert!(!spread.may_take(lane(1), true, begun));
            assert!(spread.may_take(lane(1), true, begun + PATIENCE), "if nobody else does");
        }
        for me in 1..=2 {
            holders.held.insert(lane(1), session(me));
            let mut spread = view(me, &holders, begun);
            assert_eq!(spread.gives_away(&running, |_| true, begun + PATIENCE), [lane(1)]);
        }
        assert!(view(1, &live(1), begun).may_take(lane(1), true, begun), "alone there is nobody to wait for");
    }
}
