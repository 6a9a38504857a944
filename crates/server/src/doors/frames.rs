//! Frames that ask for nothing: pings, settings, headers without an end, requests that are not let in. A key does not pay for them by
//! its rate, so it has some bytes of them, on all its connections together. What turns out to belong to a request, its body or a
//! message that was taken does not count; until that is known, a connection may be some way ahead.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Bytes that a key may send beside what it asks for, in a second and at once: as an address without a key.
const PER_SECOND: f64 = (400 << 10) as f64;
const AT_ONCE: f64 = (2 << 20) as f64;
/// The most that it can owe, for what its connections were ahead when they ended: many that break off together are no flood.
const MOST_OWED: f64 = (4 << 20) as f64;
/// Bytes that a connection may be ahead: more than HTTP/2 keeps of bodies that are not read yet.
const AHEAD: u64 = 384 << 10;
/// The same of a WebSocket, of which the largest message is seen only when it is whole.
const AHEAD_OF_SOCKET: u64 = 5 << 19;
/// Cost of a request beside its bytes, which it gets back when it is let in.
pub(super) const REQUEST: u64 = 2 << 10;
/// The most that the headers of one request count for: a few bytes may stand for long ones that were sent before.
const LONGEST_HEADERS: u64 = 4 << 10;

/// Bytes that one key may still send beside what it asks for, as of when.
pub(super) struct Frames(Mutex<(f64, Instant)>);

impl Frames {
    pub(super) fn new() -> Self {
        Self(Mutex::new((AT_ONCE, Instant::now())))
    }

    /// Takes so many, or gives some back; false if none are left.
    fn take(&self, bytes: f64, now: Instant) -> bool {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(left.1).as_secs_f64();
        let has = (left.0 + since * PER_SECOND - bytes).clamp(-MOST_OWED, AT_ONCE);
        // Those who ask at once do not come in their order: no time counts twice.
        *left = (has, now.max(left.1));
        has > 0.0
    }

    pub(super) fn are_left(&self, now: Instant) -> bool {
        self.take(0.0, now)
    }

    /// Nothing of them has to be remembered.
    pub(super) fn are_all_left(&self, now: Instant) -> bool {
        self.take(0.0, now);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 >= AT_ONCE
    }
}

/// Account of one connection: what it sent and did not ask for with it, so far.
pub(super) struct Beside {
    /// None: nobody showed a key, or none is needed.
    frames: Option<Arc<Frames>>,
    ahead: u64,
    may_be_ahead: u64,
    /// Bytes that its key was charged for.
    charged: u64,
}

impl Beside {
    pub(super) fn of(frames: Option<Arc<Frames>>) -> Self {
        Self { frames, ahead: 0, may_be_ahead: AHEAD, charged: 0 }
    }

    pub(super) fn becomes_a_socket(&mut self) {
        self.may_be_ahead = AHEAD_OF_SOCKET;
    }

    /// Counts bytes that came; false if the key has sent too many that ask for nothing.
    pub(super) fn comes(&mut self, bytes: u64, now: impl FnOnce() -> Instant) -> bool {
        let Some(frames) = &self.frames else { return true };
        self.ahead += bytes;
        let over = self.ahead.saturating_sub(self.may_be_ahead);
        if over == 0 {
            return true;
        }
        self.ahead -= over;
        self.charged += over;
        frames.take(over as f64, now())
    }

    /// So many of them were those of a request, its body or a message.
    pub(super) fn is_asked(&mut self, bytes: u64, now: impl FnOnce() -> Instant) {
        let more = bytes.saturating_sub(self.ahead).min(self.charged);
        self.ahead = self.ahead.saturating_sub(bytes);
        self.charged -= more;
        if more > 0
            && let Some(frames) = &self.frames
        {
            frames.take(-(more as f64), now());
        }
    }

    /// Counts the headers of a request that was let in.
    pub(super) fn is_let_in(&mut self, headers: u64, now: impl FnOnce() -> Instant) {
        self.is_asked(REQUEST + headers.min(LONGEST_HEADERS), now);
    }
}

/// Whoever comes again and again gains nothing by being ahead each time.
impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(frames) = &self.frames {
            frames.take(self.ahead as f64, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PING: u64 = 17;

    fn key() -> Arc<Frames> {
        Arc::new(Frames::new())
    }

    fn line(frames: &Arc<Frames>) -> Beside {
        Beside::of(Some(frames.clone()))
    }

    #[test]
    fn over_any_time_a_key_sends_no_more_frames_than_its_rate_and_one_burst_however_often_it_comes_again() {
        let (frames, start) = (key(), Instant::now());
        let mut sent = 0;
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            while frames.are_left(now) {
                let mut line = line(&frames);
                // The first half of them leaves before it is ahead of anything.
                let most = if second % 2 == 0 { AHEAD } else { 16 * AHEAD };
                let mut own = 0;
                while own < most && line.comes(PING, || now) {
                    own += PING;
                }
                sent += own;
            }
        }
        let most = AT_ONCE + 60.0 * PER_SECOND + 60.0 * AHEAD as f64;
        assert!((sent as f64) < most && sent as f64 > 60.0 * PER_SECOND, "{sent} of {most}");
    }

    #[test]
    fn requests_their_bodies_and_messages_never_end_a_connection() {
        let (frames, now) = (key(), Instant::now());
        let mut line = line(&frames);
        for _ in 0..100_000 {
            assert!(line.comes(REQUEST, || now) && line.comes(300, || now));
            line.is_let_in(350, || now);
            // A body is read up to what HTTP/2 keeps before anybody takes it.
            assert!(line.comes(256 << 10, || now));
            line.is_asked(256 << 10, || now);
        }
        let mut sockets: Vec<Beside> = (0..50).map(|_| Beside::of(Some(frames.clone()))).collect();
        for socket in &mut sockets {
            socket.becomes_a_socket();
            assert!(socket.comes((2 << 20) + 14, || now));
        }
        sockets.iter_mut().for_each(|socket| socket.is_asked((2 << 20) + 14, || now));
        drop((sockets, line));
        assert!(frames.are_all_left(now));
    }

    #[test]
    fn what_is_charged_too_early_is_given_back_and_no_more_than_that() {
        let (frames, now) = (key(), Instant::now());
        let mut line = line(&frames);
        assert!(line.comes(2 * AHEAD, || now) && !frames.are_all_left(now));
        line.is_asked(100 * AHEAD, || now);
        assert!(frames.are_all_left(now));
        assert!(!line.comes(AT_ONCE as u64 + AHEAD, || now), "nothing is saved up");
    }

    #[test]
    fn requests_that_are_not_let_in_cost_more_than_their_bytes() {
        let (frames, now) = (key(), Instant::now());
        let mut line = line(&frames);
        let refused =
            (0..100_000).take_while(|_| line.comes(REQUEST, || now) && line.comes(50, || now)).count();
        assert!(refused < 1_500, "{refused}");
    }
}
