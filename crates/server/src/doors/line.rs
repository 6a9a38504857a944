//! One connection: what goes on on it, and whether anybody has shown a key there. One on which nothing goes on is given up after
//! a time, so that silent callers cannot take all places.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::crowd::Crowd;
use super::neighbour::Neighbour;
use super::partial::{More, Partial};
use crate::access::Caller;
use crate::metrics::NoRoom;

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Bytes that may come before a key: some requests and their answers' worth, and no body. They bound every flood of frames.
const BYTES_WITHOUT_KEY: u64 = 1 << 20;
/// Bytes that cost the address nothing: the headers that show a key are among them, whatever others of that address did.
const BYTES_FREE: u64 = 8 << 10;
/// Requests at once before a key.
const REQUESTS_WITHOUT_KEY: usize = 32;
/// How long new connections of an address wait that asked for too much.
const WAIT_OF_MANY: Duration = Duration::from_millis(100);
/// How long one may stay without a key while nothing goes on, and at all.
pub(super) const AGE_WITHOUT_KEY: Duration = Duration::from_secs(300);

/// How long one in a place that is kept may take to show an administrator's key, and to be told of health.
const KEPT_TIME: Duration = Duration::from_secs(2);
const KEPT_ANSWER_TIME: Duration = Duration::from_secs(10);
/// Answers over HTTP/2 that were given up because nobody read them, until their connection is given up too.
const UNREAD: usize = 8;

pub(crate) struct Line {
    pub(super) number: u64,
    peer: SocketAddr,
    began: Instant,
    crowd: Arc<Crowd>,
    neighbour: Arc<Neighbour>,
    /// In one of the places that are kept for administrators and health.
    kept: bool,
    /// Somebody has shown a key here, or the server is open.
    known: AtomicBool,
    /// Who showed a key last.
    owner: Mutex<Option<Caller>>,
    /// Since when it is without a key, in milliseconds since it began.
    keyless_since: AtomicU64,
    /// Answers that were given up because nobody read them.
    unread: AtomicUsize,
    /// The message that is on its way, once it is a WebSocket.
    partial: Mutex<Option<Partial>>,
    /// That it agreed on TLS was counted as a request of its address.
    agreed: AtomicBool,
    /// It has ended or made room, and is no longer counted.
    pub(super) yielded: AtomicBool,
    end: Notify,
    running: AtomicUsize,
    /// When something last went on, in milliseconds since it began.
    last: AtomicU64,
    read: AtomicU64,
}

impl Line {
    pub(super) fn new(
        number: u64,
        peer: SocketAddr,
        crowd: Arc<Crowd>,
        neighbour: Arc<Neighbour>,
        kept: bool,
    ) -> Self {
        Self {
            number,
            peer,
            began: Instant::now(),
            crowd,
            neighbour,
            kept,
            known: AtomicBool::new(false),
            owner: Mutex::new(None),
            keyless_since: AtomicU64::new(0),
            unread: AtomicUsize::new(0),
            partial: Mutex::new(None),
            agreed: AtomicBool::new(false),
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

    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Relaxed) == 0
    }

    /// How long nothing has gone on, if nothing does.
    pub(super) fn silence(&self) -> Duration {
        self.age().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }

    /// Its caller has shown a key: it counts for that one. An error is how many connections the key may have.
    pub(crate) fn shows_key(self: &Arc<Self>, caller: &Caller) -> Result<(), usize> {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if owner.as_ref().is_some_and(|owner| owner.is_same(caller)) {
            return Ok(());
        }
        self.crowd.knows(self, caller.key.clone())?;
        *owner = Some(caller.clone());
        self.known.store(true, Ordering::Relaxed);
        if self.agreed.swap(false, Ordering::Relaxed) {
            self.neighbour.gives_back();
        }
        Ok(())
    }

    /// Who showed a key last.
    pub(crate) fn owner(&self) -> Option<Caller> {
        self.is_known().then(|| self.owner.lock().unwrap_or_else(PoisonError::into_inner).clone()).flatten()
    }

    /// The key that was shown is no longer good: it is one without, from now on.
    pub(crate) fn forgets_key(self: &Arc<Self>) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if owner.take().is_some() {
            self.keyless_since.store(self.since_it_began(), Ordering::Relaxed);
            self.known.store(false, Ordering::Relaxed);
            self.crowd.forgets(self);
        }
    }

    /// An answer was given up because nobody read it. Over HTTP/1 nothing can follow it.
    pub(crate) fn left_unread(&self, can_go_on: bool) {
        self.crowd.turned_away(NoRoom::Answer);
        if self.unread.fetch_add(1, Ordering::Relaxed) >= UNREAD || !can_go_on {
            self.end();
        }
    }

    /// How long it waits before it is read from: where an address asks for too much without a key, its new connections are
    /// not worth much haste.
    pub(crate) fn waits(&self) -> Option<Duration> {
        self.neighbour.asks_too_much(self.began).then_some(WAIT_OF_MANY)
    }

    /// It becomes a WebSocket: from now on messages come.
    pub(crate) fn carries(&self, message: Partial) {
        *self.partial.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
    }

    /// Looks at the message that is on its way, if it is a WebSocket.
    fn partial<T>(&self, look: impl FnOnce(&mut Partial) -> T) -> Option<T> {
        self.partial.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(look)
    }

    /// Whether more may be read.
    pub(crate) fn more(&self) -> More {
        self.partial(Partial::more).unwrap_or(More::Yes)
    }

    /// A message of so many bytes was whole.
    pub(crate) fn is_heard(&self, bytes: usize) {
        self.partial(|partial| partial.is_whole(bytes));
    }

    /// A ping or a pong came, which took so many bytes.
    pub(crate) fn is_signalled(&self, bytes: usize) {
        self.partial(|partial| partial.controls(bytes));
    }

    /// A message should be whole by now. While nothing is read of it, nobody can say so.
    pub(crate) fn is_late(&self, reads: bool) -> bool {
        let now = Instant::now();
        let late = |partial: &mut Partial| {
            if !reads {
                partial.is_left(now);
            }
            partial.is_late(now)
        };
        self.partial(late).unwrap_or(false)
    }

    /// Counts that a new connection agrees on TLS as a request of its address; false if that has made too many. It gets it back with
    /// a key, whose rate bounds it from then on.
    pub(crate) fn agrees(&self) -> bool {
        let may = self.neighbour.asks_without_key(Instant::now());
        self.agreed.store(may, Ordering::Relaxed);
        may
    }

    /// Ends it, whatever goes on.
    pub(super) fn end(&self) {
        self.end.notify_one();
    }

    /// Counts bytes that came; false if that were too many from somebody unknown.
    pub(crate) fn reads(&self, bytes: usize) -> bool {
        self.partial(|partial| partial.comes(bytes, Instant::now()));
        if self.is_known() {
            return true;
        }
        let bytes = bytes as u64;
        let before = self.read.fetch_add(bytes, Ordering::Relaxed);
        let charged = (before + bytes).saturating_sub(before.max(BYTES_FREE));
        before < BYTES_WITHOUT_KEY && self.neighbour.reads_without_key(charged, Instant::now())
    }

    fn since_it_began(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn touch(&self) {
        self.last.store(self.since_it_began(), Ordering::Relaxed);
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
                () = self.end.notified() => return "it asked for too much without a key, did not read its answers, or made room for another",
                () = tokio::time::sleep(LOOK_EVERY.min(silence)) => {}
            }
            if self.is_idle() && self.silence() >= silence {
                return "nothing went on";
            }
            let kept_time = if self.is_idle() { KEPT_TIME } else { KEPT_ANSWER_TIME };
            if self.kept && !self.is_known() && self.age() >= kept_time {
                return "it is in a place that is kept for administrators and health";
            }
            let without =
                self.age().saturating_sub(Duration::from_millis(self.keyless_since.load(Ordering::Relaxed)));
            let too_old = if self.is_idle() { AGE_WITHOUT_KEY } else { 2 * AGE_WITHOUT_KEY };
            if !self.is_known() && without >= too_old {
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
