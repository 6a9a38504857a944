//! One connection: what goes on on it, and whether anybody has shown a key there. One on which nothing goes on is given up after
//! a time, so that silent callers cannot take all places.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::crowd::Crowd;
use super::neighbour::Neighbour;

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Bytes that may come before a key: some requests and their answers' worth, and no body. They bound every flood of frames.
const BYTES_WITHOUT_KEY: u64 = 1 << 20;
/// Requests at once before a key.
const REQUESTS_WITHOUT_KEY: usize = 32;
/// How long new connections of an address wait that asked for too much.
const WAIT_OF_MANY: Duration = Duration::from_millis(100);
/// How long one may stay without a key while nothing goes on, and at all.
pub(super) const AGE_WITHOUT_KEY: Duration = Duration::from_secs(300);

pub(crate) struct Line {
    pub(super) number: u64,
    peer: SocketAddr,
    began: Instant,
    crowd: Arc<Crowd>,
    neighbour: Arc<Neighbour>,
    /// Somebody has shown a key here, or the server is open.
    known: AtomicBool,
    /// It has made room, and is no longer counted.
    pub(super) yielded: AtomicBool,
    end: Notify,
    running: AtomicUsize,
    /// When something last went on, in milliseconds since it began.
    last: AtomicU64,
    read: AtomicU64,
}

impl Line {
    pub(super) fn new(number: u64, peer: SocketAddr, crowd: Arc<Crowd>, neighbour: Arc<Neighbour>) -> Self {
        Self {
            number,
            peer,
            began: Instant::now(),
            crowd,
            neighbour,
            known: AtomicBool::new(false),
            yielded: AtomicBool::new(false),
            end: Notify::new(),
            running: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            read: AtomicU64::new(0),
        }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn neighbour(&self) -> &Arc<Neighbour> {
        &self.neighbour
    }

    pub(super) fn crowd(&self) -> &Arc<Crowd> {
        &self.crowd
    }

    pub(super) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Relaxed) == 0
    }

    /// How long nothing has gone on, if nothing does.
    pub(super) fn silence(&self) -> Duration {
        self.age().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Its caller has shown a key: it no longer counts as one without.
    pub(crate) fn shows_key(&self) {
        if !self.is_known() && !self.known.swap(true, Ordering::Relaxed) {
            self.crowd.knows(self);
        }
    }

    /// How long it waits before it is read from: where an address asks for too much without a key, its new connections are
    /// not worth much haste.
    pub(crate) fn waits(&self) -> Option<Duration> {
        self.neighbour.asks_too_much(self.began).then_some(WAIT_OF_MANY)
    }

    /// Ends it, whatever goes on.
    pub(super) fn end(&self) {
        self.end.notify_one();
    }

    /// Counts bytes that came; false if that were too many from somebody unknown.
    pub(crate) fn reads(&self, bytes: usize) -> bool {
        self.is_known() || self.read.fetch_add(bytes as u64, Ordering::Relaxed) < BYTES_WITHOUT_KEY
    }

    fn touch(&self) {
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    /// A request that begins.
    pub(crate) fn begins(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Ordering::Relaxed);
        self.touch();
        Running { line: self.clone(), answered: false }
    }

    /// A request was answered, or taken back before. Whoever asks for too much without a key loses the connection.
    fn counts(&self) {
        if self.is_known() {
            return;
        }
        let in_time = self.neighbour.asks_without_key(Instant::now());
        if !in_time || self.running.load(Ordering::Relaxed) > REQUESTS_WITHOUT_KEY {
            self.end();
        }
    }

    /// Comes when it has to end: nothing went on for so long, it is old and unknown, or it makes room.
    pub(crate) async fn is_over(&self, silence: Duration) -> &'static str {
        loop {
            tokio::select! {
                () = self.end.notified() => return "it asked for too much without a key, or made room for another",
                () = tokio::time::sleep(LOOK_EVERY.min(silence)) => {}
            }
            if self.is_idle() && self.silence() >= silence {
                return "nothing went on";
            }
            let too_old = if self.is_idle() { AGE_WITHOUT_KEY } else { 2 * AGE_WITHOUT_KEY };
            if !self.is_known() && self.age() >= too_old {
                return "nobody showed a key for long";
            }
        }
    }
}

/// One request, until the last of its answer.
pub(crate) struct Running {
    line: Arc<Line>,
    answered: bool,
}

impl Running {
    pub(crate) fn is_answered(&mut self) {
        self.answered = true;
        self.line.counts();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.answered {
            self.line.counts();
        }
        self.line.touch();
        self.line.running.fetch_sub(1, Ordering::Relaxed);
    }
}
