//! How much one key may hold at a time: listeners and sockets stay for long, and large pages cost much, so that one key could take the
//! places of all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::caller::Caller;
use crate::problem::{Code, Problem};

/// The most that one key may have. What is stored is counted where it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Event streams at once.
    pub listeners: usize,
    /// WebSockets at once.
    pub sockets: usize,
    /// Bytes of raw transactions that are kept.
    pub raw_bytes: usize,
    /// Accounts whose raw transactions are kept.
    pub raw_accounts: usize,
}

impl Default for Shares {
    fn default() -> Self {
        Self { listeners: 50, sockets: 50, raw_bytes: 4 << 20, raw_accounts: 100 }
    }
}

/// A kind of place that a key holds while it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Quota {
    Listeners,
    Sockets,
}

impl Quota {
    fn most(self, shares: &Shares) -> usize {
        match self {
            Self::Listeners => shares.listeners,
            Self::Sockets => shares.sockets,
        }
    }

    /// How many, of what, and the setting that says so.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Listeners => ("event streams", "access.max_listeners_per_key"),
            Self::Sockets => ("WebSockets", "access.max_sockets_per_key"),
        }
    }
}

/// How long a read waits for its turn.
const WAIT: Duration = Duration::from_secs(10);

/// A kind of read of which a key has few under way at once: what it costs is known only when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Read {
    /// Large pages.
    Pages,
    /// One transaction, or its journal.
    Looks,
    /// A page of what happened before somebody listened.
    History,
}

impl Read {
    fn at_once(self) -> usize {
        match self {
            Self::Pages => 2,
            Self::Looks => 4,
            Self::History => 1,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Pages => "large pages",
            Self::Looks => "single transactions",
            Self::History => "pages of earlier events",
        }
    }
}

/// Keys that are remembered before it is looked which may be forgotten.
const MANY: usize = 256;

/// A turn that is held; none is needed where no key is shown.
pub(crate) type Turn = Option<OwnedSemaphorePermit>;

type Turns = Arc<Semaphore>;

/// The places that all keys hold now.
#[derive(Default)]
pub(crate) struct Quotas {
    shares: Shares,
    held: Mutex<HashMap<(Arc<str>, Quota), usize>>,
    reads: Mutex<HashMap<(Arc<str>, Read), Turns>>,
}

impl Quotas {
    pub(crate) fn new(shares: Shares) -> Self {
        Self { shares, ..Self::default() }
    }

    /// A turn to read a large page, after others of the same key. An open server has none.
    pub(crate) async fn read_much(&self, caller: &Caller) -> Result<Turn, Problem> {
        self.turn(caller, Read::Pages).await
    }

    /// A turn to look at one transaction.
    pub(crate) async fn look(&self, caller: &Caller) -> Result<Turn, Problem> {
        self.turn(caller, Read::Looks).await
    }

    /// Reads a page of history in the key's turn, however long it waits for that: whoever listens has time. After it the key rests as
    /// long as the page took, so that it has half of one processor at most.
    pub(crate) async fn in_history<T>(&self, caller: &Caller, page: impl Future<Output = T>) -> T {
        let Some(turns) = self.turns(caller, Read::History) else { return page.await };
        // None is ever closed.
        let _turn = turns.acquire_owned().await;
        let began = Instant::now();
        let read = page.await;
        tokio::time::sleep(began.elapsed()).await;
        read
    }

    async fn turn(&self, caller: &Caller, what: Read) -> Result<Turn, Problem> {
        let Some(turns) = self.turns(caller, what) else { return Ok(None) };
        if let Ok(Ok(turn)) = tokio::time::timeout(WAIT, turns.acquire_owned()).await {
            return Ok(Some(turn));
        }
        let detail = format!(
            "this API key reads {} {} at once, which is the most, and this one had no turn for {} s; ask for fewer at once, or for \
             smaller ones",
            what.at_once(),
            what.words(),
            WAIT.as_secs()
        );
        Err(Problem { retry_after: Some(1), ..Problem::new(Code::QuotaReached, detail) })
    }

    fn turns(&self, caller: &Caller, what: Read) -> Option<Turns> {
        let key = caller.key.as_ref()?;
        let mut all = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MANY {
            // What nobody else holds is all free.
            all.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let turns = || Arc::new(Semaphore::new(what.at_once()));
        Some(all.entry((key.clone(), what)).or_insert_with(turns).clone())
    }

    /// A place for one more, given back when it is dropped. Where no key is shown the server is open, and has one bound for all.
    pub(crate) fn take(self: &Arc<Self>, caller: &Caller, what: Quota) -> Result<Place, Problem> {
        let Some(key) = caller.key.clone() else { return Ok(Place(None)) };
        let most = what.most(&self.shares);
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.entry((key.clone(), what)).or_default();
        if *held >= most {
            let (things, setting) = what.words();
            let detail = format!(
                "this API key has {most} {things} open, as many as {setting} allows; close one first, or try again later"
            );
            return Err(Problem { retry_after: Some(1), ..Problem::new(Code::QuotaReached, detail) });
        }
        *held += 1;
        Ok(Place(Some((self.clone(), key, what))))
    }

    fn give_back(&self, key: Arc<str>, what: Quota) {
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (key, what);
        if let Some(held) = all.get_mut(&place) {
            *held -= 1;
            if *held == 0 {
                all.remove(&place);
            }
        }
    }
}

/// A place that a key holds.
pub(crate) struct Place(Option<(Arc<Quotas>, Arc<str>, Quota)>);

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((quotas, key, what)) = self.0.take() {
            quotas.give_back(key, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::role::Role;
    use super::*;

    fn caller(key: &str) -> Caller {
        Caller::with(key.into(), key, Role::Viewer, None, None)
    }

    #[test]
    fn a_key_has_so_many_places_gets_them_back_and_takes_none_of_another() {
        let quotas = Arc::new(Quotas::new(Shares { listeners: 2, sockets: 1, ..Shares::default() }));
        let (one, other) = (caller("one"), caller("other"));
        let first = quotas.take(&one, Quota::Listeners).ok();
        let second = quotas.take(&one, Quota::Listeners).ok();
        assert!(first.is_some() && second.is_some());
        let refused = quotas.take(&one, Quota::Listeners).err().unwrap();
        assert_eq!((refused.code, refused.retry_after), (Code::QuotaReached, Some(1)));
        assert!(refused.detail.contains("2 event streams"), "{}", refused.detail);
        assert!(refused.detail.contains("access.max_listeners_per_key"), "{}", refused.detail);
        let _socket = quotas.take(&one, Quota::Sockets).ok().unwrap();
        let _others = quotas.take(&other, Quota::Listeners).ok().unwrap();
        drop(second);
        let _again = quotas.take(&one, Quota::Listeners).ok().unwrap();
        drop(first);
        assert_eq!(quotas.held.lock().unwrap().len(), 3, "what nobody holds is not remembered");
    }

    #[tokio::test(start_paused = true)]
    async fn large_pages_of_a_key_are_read_one_after_the_other_and_of_another_beside() {
        let quotas = Quotas::new(Shares::default());
        let (one, other) = (caller("one"), caller("other"));
        let mut held = Vec::new();
        for _ in 0..Read::Pages.at_once() {
            held.push(quotas.read_much(&one).await.ok().flatten());
        }
        assert!(held.iter().all(Option::is_some));
        assert!(quotas.read_much(&other).await.is_ok_and(|turn| turn.is_some()));
        let refused = quotas.read_much(&one).await.err().unwrap();
        assert_eq!((refused.code, refused.retry_after), (Code::QuotaReached, Some(1)));
        let (next, ()) = tokio::join!(quotas.read_much(&one), async { drop(held.pop()) });
        assert!(next.is_ok_and(|turn| turn.is_some()));
    }

    #[tokio::test(start_paused = true)]
    async fn looks_of_a_key_have_their_turns_in_the_order_they_came() {
        let quotas = Arc::new(Quotas::new(Shares::default()));
        let (one, other) = (caller("one"), caller("other"));
        let (mut most, mut under_way, mut done) = (0, 0, Vec::new());
        let counts = std::cell::RefCell::new((&mut most, &mut under_way, &mut done));
        let look = async |number: usize| {
            let _turn = quotas.look(&one).await.ok().flatten().unwrap();
            {
                let (most, under_way, done) = &mut *counts.borrow_mut();
                **under_way += 1;
                **most = (**most).max(**under_way);
                done.push(number);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            *counts.borrow_mut().1 -= 1;
        };
        futures::future::join_all((0..100).map(look)).await;
        assert_eq!((most, done), (4, (0..100).collect()));
        let _held = quotas.look(&other).await.ok().flatten().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn history_of_a_key_is_read_a_page_at_a_time_with_a_rest_after_each_and_of_another_beside() {
        let quotas = Quotas::new(Shares::default());
        let (one, other) = (caller("one"), caller("other"));
        let page = async || {
            let began = Instant::now();
            tokio::time::sleep(Duration::from_millis(20)).await;
            (began, Instant::now())
        };
        let began = Instant::now();
        let (mut pages, beside) = tokio::join!(
            futures::future::join_all((0..50).map(|_| quotas.in_history(&one, page()))),
            quotas.in_history(&other, page()),
        );
        assert_eq!(beside.0, began);
        pages.sort_unstable();
        let rests = pages.windows(2).map(|pair| pair[1].0 - pair[0].1);
        assert!(rests.into_iter().all(|rest| rest >= Duration::from_millis(20)), "{pages:?}");
        assert!(began.elapsed() > WAIT / 6, "nobody gave up");
    }

    #[test]
    fn an_open_server_has_one_bound_for_all() {
        let quotas = Arc::new(Quotas::new(Shares { sockets: 1, ..Shares::default() }));
        let places: Vec<_> = (0..9).map(|_| quotas.take(&Caller::anyone(), Quota::Sockets)).collect();
        assert!(places.iter().all(Result::is_ok));
    }
}
