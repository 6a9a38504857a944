//! The crowd in front of one listener: who is connected, how many of one address, and how many that have shown no key. Where
//! a place is wanted and none is left, one that has shown no key makes room: of the address that has most of them, the one that
//! was silent longest. One that has just come is given a moment to say what it wants.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::line::Line;
use super::neighbour::{Neighbour, Net};
use crate::limits::Limits;
use crate::metrics::{Metrics, NoRoom};

/// A connection that is asking without a key is left this long to get its answer.
const GRACE: Duration = Duration::from_secs(2);
/// A connection that has just come, or just heard an answer, is left this long to ask.
pub(crate) const MOMENT: Duration = Duration::from_millis(50);
/// Addresses that are remembered before it is looked which may be forgotten.
const MANY: usize = 4_096;
/// How often it is said that connections are closed.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Places of a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) per_address: usize,
    pub(crate) keyless: usize,
    /// Bytes of bodies in flight of one address.
    pub(crate) bytes_per_address: usize,
    /// Silence after which a connection without a key may be ended for another.
    pub(crate) patience: Duration,
}

/// What came of looking for a connection that makes room.
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
        Self { per_address: all, keyless: all, patience: GRACE, ..Self::of(limits) }
    }

    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            per_address: limits.connections_per_address.min(limits.connections).max(1),
            keyless: limits.connections_without_key(),
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

#[derive(Default)]
struct Here {
    next: u64,
    /// Connections without a key, oldest first, and where each comes from.
    keyless: BTreeMap<u64, (Net, Arc<Line>)>,
    neighbours: BTreeMap<Net, Arc<Neighbour>>,
    told: Option<Instant>,
}

impl Crowd {
    pub(crate) fn new(room: Room, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { room, metrics, here: Mutex::default() })
    }

    fn here(&self) -> std::sync::MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection, after a moment if others have only just come. None: there is none, and it is to be closed.
    pub(crate) async fn enter(self: &Arc<Self>, peer: SocketAddr) -> Option<Entered> {
        match self.try_enter(peer) {
            Ok(entered) => return Some(entered),
            Err(Yielded::NotYet) => tokio::time::sleep(self.room.patience).await,
            Err(Yielded::Now | Yielded::Nobody) => {}
        }
        if let Ok(entered) = self.try_enter(peer) {
            return Some(entered);
        }
        self.metrics.turned_away(NoRoom::Connection);
        let (mut here, now) = (self.here(), Instant::now());
        if here.told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            here.told = Some(now);
            tracing::warn!(
                address = %peer.ip(),
                "new connections are closed: server.max_connections_per_address or server.max_keyless_connections is reached"
            );
        }
        None
    }

    /// A place for a new connection, or why there is none now.
    fn try_enter(self: &Arc<Self>, peer: SocketAddr) -> Result<Entered, Yielded> {
        let (net, now, room) = (Net::of(peer.ip()), Instant::now(), self.room);
        let mut here = self.here();
        if here.neighbours.len() >= MANY {
            here.neighbours.retain(|_, neighbour| !neighbour.is_gone(now));
        }
        let made = || Arc::new(Neighbour::new(room.bytes_per_address));
        let neighbour = here.neighbours.entry(net).or_insert_with(made).clone();
        if neighbour.connections.load(Ordering::Relaxed) >= room.per_address {
            self.make_room_of(&mut here, Some(net))?;
        }
        if here.keyless.len() >= room.keyless {
            self.make_room_of(&mut here, None)?;
        }
        let number = here.next;
        here.next += 1;
        neighbour.connections.fetch_add(1, Ordering::Relaxed);
        neighbour.keyless.fetch_add(1, Ordering::Relaxed);
        let line = Arc::new(Line::new(number, peer, self.clone(), neighbour));
        here.keyless.insert(number, (net, line.clone()));
        Ok(Entered(line))
    }

    fn make_room_of(&self, here: &mut Here, of: Option<Net>) -> Result<(), Yielded> {
        match here.make_room(of, self.room.patience) {
            Yielded::Now => {
                self.metrics.turned_away(NoRoom::Connection);
                Ok(())
            }
            not => Err(not),
        }
    }

    /// Makes one yield, if there is one that can.
    pub(crate) fn make_room(&self) -> Yielded {
        let mut here = self.here();
        self.make_room_of(&mut here, None).err().unwrap_or(Yielded::Now)
    }

    pub(super) fn knows(&self, line: &Line) {
        let mut here = self.here();
        if here.keyless.remove(&line.number).is_some() {
            line.neighbour().keyless.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn leave(&self, line: &Line) {
        let mut here = self.here();
        if line.yielded.load(Ordering::Relaxed) {
            return;
        }
        if here.keyless.remove(&line.number).is_some() {
            line.neighbour().keyless.fetch_sub(1, Ordering::Relaxed);
        }
        line.neighbour().connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Here {
    /// Ends one without a key, of this address or of the one that has most: the one that was silent longest, or the oldest
    /// that has had time to get its answer.
    fn make_room(&mut self, of: Option<Net>, patience: Duration) -> Yielded {
        let most = self.neighbours.iter().max_by_key(|(_, at)| at.keyless.load(Ordering::Relaxed));
        let Some(of) = of.or(most.map(|(net, _)| *net)) else { return Yielded::Nobody };
        let own = self.keyless.values().filter(|(net, _)| *net == of).map(|(_, line)| line);
        let silent = own.clone().filter(|line| line.is_idle()).max_by_key(|line| line.silence());
        let (silent, fresh) = (silent.filter(|line| line.silence() >= patience), silent.is_some());
        let Some(line) = silent.or_else(|| own.clone().find(|line| line.age() >= GRACE)).cloned() else {
            return if fresh { Yielded::NotYet } else { Yielded::Nobody };
        };
        self.keyless.remove(&line.number);
        line.neighbour().keyless.fetch_sub(1, Ordering::Relaxed);
        line.neighbour().connections.fetch_sub(1, Ordering::Relaxed);
        line.yielded.store(true, Ordering::Relaxed);
        line.end();
        Yielded::Now
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

    const ROOM: Room = Room { per_address: 4, keyless: 3, bytes_per_address: 1, patience: MOMENT };

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
        let next = crowd.enter(from("192.0.2.3")).await;
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
        assert!(crowd.enter(from("192.0.2.3")).await.is_none());
        tokio::time::advance(GRACE).await;
        assert!(crowd.enter(from("192.0.2.3")).await.is_some());
        assert!(ended(&held[0]) && !ended(&held[1]));
    }

    #[tokio::test]
    async fn whoever_shows_a_key_no_longer_counts_as_one_without_and_is_never_ended_for_others() {
        let crowd = crowd();
        let known: Vec<Entered> = (0..4)
            .map(|_| {
                let entered = enter(&crowd, "192.0.2.2");
                entered.0.shows_key();
                entered
            })
            .collect();
        assert!(crowd.enter(from("192.0.2.2")).await.is_none(), "the address has as many as it may");
        assert!(crowd.enter(from("192.0.2.3")).await.is_some());
        assert!(!known.iter().any(ended));
        drop(known);
        assert!(crowd.enter(from("192.0.2.2")).await.is_some());
        let here = crowd.here();
        let counts: Vec<_> =
            here.neighbours.values().map(|at| at.connections.load(Ordering::Relaxed)).collect();
        assert_eq!((counts, here.keyless.len()), (vec![0, 0], 0), "places are given back");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_never_shows_a_key_ends_with_its_age_and_one_that_does_stays() {
        let crowd = crowd();
        let (stranger, friend) = (enter(&crowd, "::1"), enter(&crowd, "::1"));
        friend.0.shows_key();
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
        line.shows_key();
        assert!(line.reads(1 << 30));
    }
}
