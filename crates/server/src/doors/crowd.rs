//! The crowd in front of one listener: who is connected, how many of one address, of one key, and without a key. Where a place is
//! wanted and none is left, an idle one makes room; who that is, is in [`super::here`]. One that has just come is given a moment to
//! say what it wants.
//!
//! A few places are kept beyond all others, for when nobody makes room: on a connection there an administrator shows a key or health is
//! asked for, soon, or it is closed.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::here::{Here, Owner};
use super::line::Line;
use super::neighbour::{Neighbour, Net};
use crate::limits::Limits;
use crate::metrics::{Metrics, NoRoom};

/// A connection that is asking without a key is left this long to get its answer.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// A connection that has just come, or just heard an answer, is left this long to ask.
pub(crate) const MOMENT: Duration = Duration::from_millis(50);
/// Places that are kept for administrators and health.
const KEPT: usize = 16;
/// Addresses that are remembered before it is looked which may be forgotten.
const MANY: usize = 4_096;
/// How often it is said that connections are closed.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Places of a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) per_address: usize,
    pub(crate) keyless: usize,
    /// Of one key.
    pub(crate) per_key: usize,
    /// Kept for administrators and health, beyond all others.
    pub(crate) kept: usize,
    /// Connections without a key that do not yield before those of the key that has most.
    pub(crate) few: usize,
    /// Bytes of bodies in flight of one address.
    pub(crate) bytes_per_address: usize,
    /// Silence after which a connection without a key may be ended for another.
    pub(crate) patience: Duration,
}

/// Outcome of looking for a connection that makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Yielded {
    /// One was ended.
    Now,
    /// There are some that have been silent for less than it takes.
    NotYet,
    Nobody,
}

impl Room {
    /// Where nobody needs a key, everybody has all places, and only one that is silent for long makes room.
    pub(crate) fn of_open(limits: &Limits) -> Self {
        let all = limits.connections;
        Self { per_address: all, keyless: all, per_key: all, kept: 0, patience: GRACE, ..Self::of(limits) }
    }

    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            per_address: limits.connections_per_address.min(limits.connections).max(1),
            keyless: limits.connections_without_key(),
            per_key: limits.connections_of_key(),
            kept: KEPT,
            few: (limits.connections / 16).clamp(1, KEPT),
            bytes_per_address: limits.bytes_in_flight_per_address(),
            patience: MOMENT,
        }
    }
}

pub(crate) struct Crowd {
    room: Room,
    metrics: Arc<Metrics>,
    here: Mutex<Here>,
}

impl Crowd {
    pub(crate) fn new(room: Room, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { room, metrics, here: Mutex::default() })
    }

    fn here(&self) -> std::sync::MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something else of a connection found no room.
    pub(super) fn turned_away(&self, what: NoRoom) {
        self.metrics.turned_away(what);
    }

    /// How many places are kept.
    pub(crate) fn kept(&self) -> usize {
        self.room.kept
    }

    /// A place for a new connection, after a moment if others have only just come. None: there is none, and it is to be closed.
    pub(crate) async fn enter(self: &Arc<Self>, peer: SocketAddr, kept: bool) -> Option<Entered> {
        if kept {
            return Some(self.enter_kept(peer));
        }
        match self.try_enter(peer) {
            Ok(entered) => return Some(entered),
            Err(Yielded::NotYet) => tokio::time::sleep(self.room.patience).await,
            Err(Yielded::Now | Yielded::Nobody) => {}
        }
        if let Ok(entered) = self.try_enter(peer) {
            return Some(entered);
        }
        self.metrics.turned_away(NoRoom::Connection);
        if self.may_tell() {
            tracing::warn!(
                address = %peer.ip(),
                "new connections are closed: server.max_connections_per_address or server.max_keyless_connections is reached"
            );
        }
        None
    }

    /// Whether it may be said again that there is no room: not for every caller.
    pub(crate) fn may_tell(&self) -> bool {
        let mut here = self.here();
        let may = here.told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
        if may {
            here.told = Some(Instant::now());
        }
        may
    }

    /// A place for a new connection, or why there is none now.
    fn try_enter(self: &Arc<Self>, peer: SocketAddr) -> Result<Entered, Yielded> {
        let (net, room) = (Net::of(peer.ip()), self.room);
        let mut here = self.here();
        let neighbour = self.neighbour(&mut here, net);
        if neighbour.connections.load(Ordering::Relaxed) >= room.per_address {
            let made = match here.end_keyless(Some(net), room.patience) {
                Yielded::Nobody => here.end_known(Some(net), room.patience),
                made => made,
            };
            self.made(made)?;
        }
        if here.keyless.len() >= room.keyless {
            self.made(here.end_keyless(None, room.patience))?;
        }
        let line = self.line(&mut here, peer, neighbour, false);
        here.insert_keyless(net, line.clone());
        Ok(Entered(line))
    }

    fn enter_kept(self: &Arc<Self>, peer: SocketAddr) -> Entered {
        let mut here = self.here();
        let neighbour = self.neighbour(&mut here, Net::of(peer.ip()));
        let line = self.line(&mut here, peer, neighbour, true);
        here.kept.insert(line.number, line.clone());
        Entered(line)
    }

    fn neighbour(&self, here: &mut Here, net: Net) -> Arc<Neighbour> {
        if here.neighbours.len() >= MANY {
            let now = Instant::now();
            here.neighbours.retain(|_, neighbour| !neighbour.is_gone(now));
        }
        let made = || Arc::new(Neighbour::new(self.room.bytes_per_address));
        here.neighbours.entry(net).or_insert_with(made).clone()
    }

    fn line(
        self: &Arc<Self>,
        here: &mut Here,
        peer: SocketAddr,
        neighbour: Arc<Neighbour>,
        kept: bool,
    ) -> Arc<Line> {
        let number = here.next;
        here.next += 1;
        neighbour.connections.fetch_add(1, Ordering::Relaxed);
        Arc::new(Line::new(number, peer, self.clone(), neighbour, kept))
    }

    fn made(&self, yielded: Yielded) -> Result<(), Yielded> {
        match yielded {
            Yielded::Now => {
                self.metrics.turned_away(NoRoom::Connection);
                Ok(())
            }
            not => Err(not),
        }
    }

    /// Makes one yield, if there is one that can. Those without a key go first, but for a few.
    pub(crate) fn make_room(&self) -> Yielded {
        let (mut here, patience) = (self.here(), self.room.patience);
        let known_first = here.keyless.len() <= self.room.few;
        let first =
            if known_first { here.end_known(None, patience) } else { here.end_keyless(None, patience) };
        let made = match first {
            Yielded::Now => Yielded::Now,
            first => {
                let second = if known_first {
                    here.end_keyless(None, patience)
                } else {
                    here.end_known(None, patience)
                };
                if second == Yielded::Nobody { first } else { second }
            }
        };
        self.made(made).err().unwrap_or(Yielded::Now)
    }

    /// Makes one in the places that are kept yield.
    pub(crate) fn make_kept_room(&self) -> Yielded {
        let mut here = self.here();
        self.made(here.end_kept(self.room.patience)).err().unwrap_or(Yielded::Now)
    }

    /// A connection counts for this key from now on. An error is how many the key may have: it has them, and none is idle.
    pub(super) fn knows(&self, line: &Arc<Line>, owner: Owner) -> Result<(), usize> {
        let mut here = self.here();
        if line.yielded.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (most, has) = (self.room.per_key, here.of_key.get(&owner).copied().unwrap_or(0));
        if owner.is_some() && has >= most && self.made(here.end_own(&owner, line, MOMENT)).is_err() {
            self.metrics.turned_away(NoRoom::Connection);
            return Err(most);
        }
        here.remove(line);
        here.insert_known(owner, line.clone());
        Ok(())
    }

    /// The key of a connection is no longer good: it is one without.
    pub(super) fn forgets(&self, line: &Arc<Line>) {
        let mut here = self.here();
        if line.yielded.load(Ordering::Relaxed) {
            return;
        }
        here.remove(line);
        if line.is_kept() {
            here.kept.insert(line.number, line.clone());
        } else {
            here.insert_keyless(Net::of(line.peer().ip()), line.clone());
        }
    }

    fn leave(&self, line: &Line) {
        let mut here = self.here();
        if line.yielded.load(Ordering::Relaxed) {
            return;
        }
        here.remove(line);
        line.neighbour().connections.fetch_sub(1, Ordering::Relaxed);
        // What was asked on it may still be worked on, and must not bring it back.
        line.yielded.store(true, Ordering::Relaxed);
    }
}

/// A connection that has its place until this is dropped.
pub(crate) struct Entered(pub(crate) Arc<Line>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.crowd().leave(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Caller, Role};

    const ROOM: Room = Room {
        per_address: 4,
        keyless: 3,
        per_key: 3,
        kept: 1,
        few: 1,
        bytes_per_address: 1,
        patience: MOMENT,
    };

    fn crowd() -> Arc<Crowd> {
        Crowd::new(ROOM, Arc::new(Metrics::new("test", []).unwrap()))
    }

    fn from(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 1)
    }

    fn ended(entered: &Entered) -> bool {
        entered.0.yielded.load(Ordering::Relaxed)
    }

    fn enter(crowd: &Arc<Crowd>, address: &str) -> Entered {
        crowd.try_enter(from(address)).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_most_silent_one_of_the_address_with_most_yields_to_a_new_one() {
        let crowd = crowd();
        let other = enter(&crowd, "192.0.2.1");
        let lines: Vec<Entered> = (0..2).map(|_| enter(&crowd, "192.0.2.2")).collect();
        tokio::time::advance(MOMENT).await;
        // The older one has just heard an answer.
        drop(lines[0].0.begins());
        let newest = enter(&crowd, "192.0.2.3");
        assert!(!ended(&other) && !ended(&lines[0]) && ended(&lines[1]) && !ended(&newest));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_has_just_come_is_not_ended_for_the_next_which_waits_a_moment() {
        let crowd = crowd();
        let lines: Vec<Entered> = (0..3).map(|_| enter(&crowd, "192.0.2.2")).collect();
        assert_eq!(crowd.make_room(), Yielded::NotYet);
        let began = Instant::now();
        let next = crowd.enter(from("192.0.2.3"), false).await;
        assert!(
            next.is_some()
                && began.elapsed() >= MOMENT
                && lines.iter().filter(|line| ended(line)).count() == 1
        );
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_needs_a_key_a_silent_one_is_given_more_time() {
        let limits = Limits { connections: 2, ..Limits::default() };
        let crowd = Crowd::new(Room::of_open(&limits), Arc::new(Metrics::new("test", []).unwrap()));
        let _lines = [enter(&crowd, "::1"), enter(&crowd, "::1")];
        tokio::time::advance(GRACE - MOMENT).await;
        assert_eq!(crowd.make_room(), Yielded::NotYet);
        tokio::time::advance(MOMENT).await;
        assert_eq!(crowd.make_room(), Yielded::Now);
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_ask_yield_after_a_moment_and_until_then_new_ones_are_closed() {
        let crowd = crowd();
        let held: Vec<Entered> = (0..3).map(|_| enter(&crowd, "192.0.2.2")).collect();
        let _asking: Vec<_> = held.iter().map(|entered| entered.0.begins()).collect();
        assert!(crowd.enter(from("192.0.2.3"), false).await.is_none());
        tokio::time::advance(GRACE).await;
        assert!(crowd.enter(from("192.0.2.3"), false).await.is_some());
        assert!(ended(&held[0]) && !ended(&held[1]));
    }

    /// A connection on which this key was shown.
    fn known(crowd: &Arc<Crowd>, address: &str, key: &str) -> Entered {
        let entered = enter(crowd, address);
        entered.0.shows_key(&caller(key)).unwrap();
        entered
    }

    fn caller(key: &str) -> Caller {
        Caller::with(key.into(), key, Role::Viewer, None, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_has_a_share_of_connections_beyond_which_its_own_most_silent_idle_one_yields() {
        let crowd = crowd();
        let other = known(&crowd, "192.0.2.1", "other");
        let own: Vec<Entered> = (0..3).map(|n| known(&crowd, &format!("192.0.2.{n}"), "one")).collect();
        tokio::time::advance(MOMENT).await;
        let asking: Vec<_> = [0, 2].map(|n| own[n].0.begins()).into();
        let next = known(&crowd, "192.0.2.9", "one");
        assert!(own.iter().map(ended).eq([false, true, false]) && !ended(&other) && !ended(&next));
        let _asks_too = next.0.begins();
        let one_more = enter(&crowd, "192.0.2.9");
        assert_eq!(one_more.0.shows_key(&caller("one")), Err(ROOM.per_key), "all of its own are busy");
        assert!(!one_more.0.is_known() && one_more.0.shows_key(&caller("other")).is_ok());
        drop(asking);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_free_place_the_key_with_most_yields_and_those_who_ask_are_left_alone() {
        let crowd = crowd();
        let few = known(&crowd, "192.0.2.1", "few");
        let many: Vec<Entered> = (0..2).map(|_| known(&crowd, "192.0.2.2", "many")).collect();
        assert_eq!(crowd.make_room(), Yielded::NotYet, "all have just come");
        tokio::time::advance(MOMENT).await;
        let asking = many[0].0.begins();
        assert_eq!(crowd.make_room(), Yielded::Now);
        assert!(!ended(&few) && !ended(&many[0]) && ended(&many[1]));
        let _asks = few.0.begins();
        assert_eq!(crowd.make_room(), Yielded::Nobody);
        drop(asking);
        tokio::time::advance(MOMENT).await;
        assert_eq!(crowd.make_room(), Yielded::Now);
        assert!(ended(&many[0]) && !ended(&few));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_does_not_hold_all_places_of_its_address() {
        let crowd = crowd();
        let held: Vec<Entered> =
            ["a", "a", "a", "b"].iter().map(|key| known(&crowd, "192.0.2.2", key)).collect();
        assert!(crowd.try_enter(from("192.0.2.3")).is_ok(), "another address has places");
        let _next = crowd.enter(from("192.0.2.2"), false).await.unwrap();
        assert_eq!(held.iter().filter(|entered| ended(entered)).count(), 1);
        assert!(!ended(&held[3]), "the key with few keeps its place");
        drop((held, _next));
        let here = crowd.here();
        let counts: Vec<_> =
            here.neighbours.values().map(|at| at.connections.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [0, 0], "places are given back");
        assert!(here.keyless.is_empty() && here.known.is_empty() && here.of_key.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_key_was_revoked_counts_ages_and_yields_as_one_without() {
        let crowd = crowd();
        let old = known(&crowd, "192.0.2.2", "old");
        tokio::time::advance(10 * super::super::line::AGE_WITHOUT_KEY).await;
        old.0.forgets_key();
        assert!(!old.0.is_known());
        let silence = Duration::from_secs(100_000);
        let began = Instant::now();
        let over = old.0.is_over(silence).await;
        let aged = super::super::line::AGE_WITHOUT_KEY;
        assert!(over.contains("key") && began.elapsed() >= aged, "it ages from then on: {over}");
        let others: Vec<Entered> = (0..2).map(|_| enter(&crowd, "192.0.2.2")).collect();
        let _next = enter(&crowd, "192.0.2.4");
        assert!(ended(&old) && !others.iter().any(ended), "it counts as one without, and yields as one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_has_ended_counts_no_more_whatever_was_asked_on_it() {
        let crowd = crowd();
        let (mut asked, at) = (Vec::new(), from("192.0.2.2").ip());
        for key in ["one", "other", "one"] {
            let entered = known(&crowd, "192.0.2.2", key);
            asked.push(entered.0.clone());
        }
        asked.push(enter(&crowd, "192.0.2.2").0.clone());
        // The requests of these go on: two with another key, one with none that is good, one with its first.
        for (line, key) in asked.iter().zip(["other", "", "two", "one"]) {
            if key.is_empty() { line.forgets_key() } else { line.shows_key(&caller(key)).unwrap() }
        }
        tokio::time::advance(GRACE).await;
        assert_eq!(crowd.make_room(), Yielded::Nobody);
        let again: Vec<Entered> = (0..3).map(|_| known(&crowd, "192.0.2.2", "one")).collect();
        assert!(crowd.try_enter(SocketAddr::new(at, 2)).is_ok());
        drop(again);
        let here = crowd.here();
        assert!(here.keyless.is_empty() && here.known.is_empty() && here.of_key.is_empty());
        let count = |at: &Arc<Neighbour>| {
            (at.connections.load(Ordering::Relaxed), at.keyless.load(Ordering::Relaxed))
        };
        assert_eq!(here.neighbours.values().map(count).collect::<Vec<_>>(), [(0, 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kept_place_is_left_soon_unless_an_administrator_shows_a_key() {
        let crowd = crowd();
        let silence = Duration::from_secs(1_000);
        let [stranger, admin] = [0, 1].map(|_| crowd.enter_kept(from("192.0.2.2")));
        admin.0.shows_key(&caller("admin")).unwrap();
        let began = Instant::now();
        let over = stranger.0.is_over(silence).await;
        assert!(over.contains("kept") && began.elapsed() < Duration::from_secs(4), "{over}");
        tokio::time::timeout(Duration::from_secs(60), admin.0.is_over(silence)).await.unwrap_err();
        drop(stranger);
        assert_eq!(crowd.make_kept_room(), Yielded::Now);
        assert!(ended(&admin), "an idle one makes room for the next");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_never_shows_a_key_ends_with_its_age_and_one_that_does_stays() {
        let crowd = crowd();
        let (stranger, friend) = (enter(&crowd, "::1"), enter(&crowd, "::1"));
        friend.0.shows_key(&caller("friend")).unwrap();
        let _asking = (stranger.0.begins(), friend.0.begins());
        let began = Instant::now();
        let silence = Duration::from_secs(30);
        let over = stranger.0.is_over(silence).await;
        assert!(over.contains("key") && began.elapsed() >= 2 * super::super::line::AGE_WITHOUT_KEY, "{over}");
        tokio::time::timeout(Duration::from_secs(10_000), friend.0.is_over(silence)).await.unwrap_err();
    }

    #[tokio::test]
    async fn bytes_and_requests_without_a_key_are_bounded() {
        let crowd = crowd();
        let entered = enter(&crowd, "::1");
        let line = &entered.0;
        assert!((0..16).all(|_| line.reads(64 << 10)) && !line.reads(1));
        let mut running: Vec<_> = (0..33).map(|_| line.begins()).collect();
        running[0].is_answered();
        let over = line.is_over(Duration::from_secs(30)).await;
        assert!(over.contains("too much"), "{over}");
        line.shows_key(&caller("one")).unwrap();
        assert!(line.reads(1 << 30));
    }
}
