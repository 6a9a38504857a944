//! Turns of callers: so many questions are under way at once, so many more wait, and each key has a share of both. Whoever waits is
//! taken in turn, one key after the other, so that nobody waits behind all that another one asks. No I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

/// So many wait for each that is under way.
const WAITING: usize = 4;
/// A key has one part of so many.
const PARTS: usize = 4;

/// Why a question has no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTurn {
    /// As many wait as may, of all or of one key.
    Full,
    FullOfOne,
    /// None ended in time.
    TooLong,
}

pub(super) struct Turns {
    at_once: usize,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    held: usize,
    of_owner: HashMap<Arc<str>, Of>,
    /// Owners of whom some wait, the next first.
    order: VecDeque<Arc<str>>,
    waiting: usize,
    next: u64,
}

/// Questions of one owner.
#[derive(Default)]
struct Of {
    held: usize,
    waits: VecDeque<(u64, oneshot::Sender<()>)>,
}

impl Turns {
    pub(super) fn new(at_once: usize) -> Self {
        Self { at_once, now: Mutex::default() }
    }

    pub(super) fn at_once(&self) -> usize {
        self.at_once
    }

    pub(super) fn waiting(&self) -> usize {
        self.at_once.saturating_mul(WAITING)
    }

    /// The most that one owner has under way. Those without a name share everything.
    pub(super) fn at_once_of(&self, owner: &str) -> usize {
        if owner.is_empty() { self.at_once } else { self.at_once.div_ceil(PARTS) }
    }

    pub(super) fn waiting_of(&self, owner: &str) -> usize {
        if owner.is_empty() { self.waiting() } else { self.waiting().div_ceil(PARTS) }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn for one question, by this time.
    pub(super) async fn take(&self, owner: &str, until: Instant) -> Result<Turn<'_>, NoTurn> {
        let mut waits = self.join(owner)?;
        match tokio::time::timeout_at(until, &mut waits.told).await {
            Ok(Ok(())) => {
                waits.number = None;
                Ok(Turn { turns: self, owner: waits.owner.clone() })
            }
            Ok(Err(_)) | Err(_) => Err(NoTurn::TooLong),
        }
    }

    /// A place in the queue, which may have its turn already.
    fn join(&self, owner: &str) -> Result<Waits<'_>, NoTurn> {
        let owner: Arc<str> = Arc::from(owner);
        let mut now = self.now();
        let is_full = now.held >= self.at_once && now.waiting >= self.waiting();
        let own = now.of_owner.get(&owner);
        let (held, waiting) = own.map_or((0, 0), |own| (own.held, own.waits.len()));
        if held >= self.at_once_of(&owner) && waiting >= self.waiting_of(&owner) {
            return Err(NoTurn::FullOfOne);
        }
        // Whoever has nothing here may always wait with one question.
        if is_full && (owner.is_empty() || held + waiting > 0) {
            return Err(NoTurn::Full);
        }
        let (tell, told) = oneshot::channel();
        let number = now.next;
        now.next += 1;
        now.waiting += 1;
        let of = now.of_owner.entry(owner.clone()).or_default();
        of.waits.push_back((number, tell));
        if of.waits.len() == 1 {
            now.order.push_back(owner.clone());
        }
        self.hand_out(&mut now);
        Ok(Waits { turns: self, owner, number: Some(number), told })
    }

    /// Gives free places to those who wait, one owner after the other.
    fn hand_out(&self, now: &mut Now) {
        let mut passed = 0;
        while now.held < self.at_once && passed < now.order.len() {
            let Some(owner) = now.order.pop_front() else { return };
            let most = self.at_once_of(&owner);
            let Some(of) = now.of_owner.get_mut(&owner) else { continue };
            if of.held >= most {
                now.order.push_back(owner);
                passed += 1;
                continue;
            }
            let Some((_, tell)) = of.waits.pop_front() else { continue };
            now.waiting -= 1;
            let is_there = tell.send(()).is_ok();
            if is_there {
                of.held += 1;
                now.held += 1;
            }
            passed = 0;
            if !of.waits.is_empty() {
                now.order.push_back(owner);
            } else if of.held == 0 {
                now.of_owner.remove(&owner);
            }
        }
    }

    /// A question has ended.
    fn give_back(&self, owner: &Arc<str>) {
        let mut now = self.now();
        now.held -= 1;
        if let Some(of) = now.of_owner.get_mut(owner) {
            of.held -= 1;
            if of.held == 0 && of.waits.is_empty() {
                now.of_owner.remove(owner);
            }
        }
        self.hand_out(&mut now);
    }

    /// A waiting question no longer waits; it may have been given its turn at the last moment.
    fn leave(&self, owner: &Arc<str>, number: u64, told: &mut oneshot::Receiver<()>) {
        let mut now = self.now();
        if told.try_recv().is_ok() {
            drop(now);
            self.give_back(owner);
            return;
        }
        let Some(of) = now.of_owner.get_mut(owner) else { return };
        let before = of.waits.len();
        of.waits.retain(|(waits, _)| *waits != number);
        let (left, is_empty) = (before - of.waits.len(), of.waits.is_empty());
        let is_gone = is_empty && of.held == 0;
        now.waiting -= left;
        if is_empty {
            now.order.retain(|other| other != owner);
        }
        if is_gone {
            now.of_owner.remove(owner);
        }
    }
}

struct Waits<'a> {
    turns: &'a Turns,
    owner: Arc<str>,
    /// None: it has its turn.
    number: Option<u64>,
    told: oneshot::Receiver<()>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.turns.leave(&self.owner, number, &mut self.told);
        }
    }
}

/// A question's turn, until it has its answer.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    owner: Arc<str>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.give_back(&self.owner);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn at_once<'a>(turns: &'a Turns, owner: &str) -> Option<Turn<'a>> {
        turns.take(owner, soon()).now_or_never()?.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn one_key_never_has_all_places_nor_all_of_the_queue() {
        let turns = Turns::new(8);
        let mut held: Vec<Turn<'_>> = std::iter::from_fn(|| at_once(&turns, "greedy")).collect();
        assert_eq!(held.len(), 2);
        let mut waits: Vec<_> = Vec::new();
        for _ in 0..8 {
            waits.push(turns.join("greedy").ok().unwrap());
        }
        assert_eq!(turns.join("greedy").err(), Some(NoTurn::FullOfOne));
        for key in ["a", "b", "c"] {
            held.extend(std::iter::from_fn(|| at_once(&turns, key)));
            waits.extend(std::iter::from_fn(|| turns.join(key).ok()));
        }
        assert_eq!((held.len(), waits.len()), (8, 32));
        let late = turns.join("late");
        assert!(late.is_ok(), "who has nothing here may wait with one");
        assert_eq!(turns.join("late").err(), Some(NoTurn::Full));
        drop((late, waits, held));
        let now = turns.now();
        assert_eq!((now.held, now.waiting, now.of_owner.len(), now.order.len()), (0, 0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_are_taken_one_key_after_the_other() {
        let turns = Turns::new(1);
        let held = at_once(&turns, "greedy").unwrap();
        let mut first = turns.join("greedy").ok().unwrap();
        let mut other = turns.join("other").ok().unwrap();
        assert!(turns.join("greedy").is_err());
        drop(held);
        assert!(first.told.try_recv().is_ok() && other.told.try_recv().is_err());
        first.number = None;
        let again = turns.join("greedy").ok().unwrap();
        turns.give_back(&first.owner);
        assert!(other.told.try_recv().is_ok(), "not the next of the same key");
        other.number = None;
        drop(again);
        turns.give_back(&other.owner);
        assert!(at_once(&turns, "third").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_leaves_nothing_behind() {
        let turns = Turns::new(1);
        let held = at_once(&turns, "").unwrap();
        let late = turns.take("a", Instant::now() + Duration::from_millis(10)).await;
        assert_eq!(late.err(), Some(NoTurn::TooLong));
        // One is given its turn and is no longer there to take it.
        let gone = turns.join("a").ok().unwrap();
        drop(held);
        drop(gone);
        assert!(at_once(&turns, "b").is_some());
        assert!(at_once(&turns, "").is_some());
    }
}
