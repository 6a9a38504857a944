//! The message that is on its way on a WebSocket. Nobody sees it before it is whole: until then its bytes are held as those of a body
//! are, and it may not be cut into so many frames that they are more than what they carry. While others hold the bytes there are, no
//! more of it is read.

use std::time::Duration;

use tokio::time::Instant;

use super::bytes::{Charge, SMALL};

/// Bytes that frames may add to a message, as a part of it, and in any case.
const FRAMES_PART: usize = 8;
const FRAMES: usize = 64 << 10;
/// Bytes before those of a message in one frame.
const LONGEST_HEAD: usize = 14;
/// Bytes that are taken at once.
const STEP: usize = 64 << 10;

/// Whether more of a message may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Yes,
    /// There are no bytes for it just now.
    Later,
    /// It comes in frames that carry nothing.
    Never,
}

pub(crate) struct Partial {
    charge: Charge,
    most: usize,
    time: Duration,
    /// Bytes that came of it.
    came: usize,
    held: usize,
    since: Option<Instant>,
}

impl Partial {
    /// For messages of so many bytes at most, each of which is whole within this time.
    pub(crate) fn new(charge: Charge, largest: usize, time: Duration) -> Self {
        let most = largest + largest / FRAMES_PART + FRAMES;
        Self { charge, most, time, came: 0, held: 0, since: None }
    }

    pub(super) fn more(&mut self) -> More {
        if self.came > self.most {
            return More::Never;
        }
        let wanted = if self.came > SMALL { self.came.next_multiple_of(STEP) } else { 0 };
        let more = wanted.saturating_sub(self.held);
        if more > 0 && !self.charge.try_take(more) {
            return More::Later;
        }
        self.held += more;
        More::Yes
    }

    pub(super) fn comes(&mut self, bytes: usize, now: Instant) {
        self.came += bytes;
        if bytes > 0 {
            self.since.get_or_insert(now);
        }
    }

    /// It is whole, with so many bytes: who reads it holds them from now on. What came beyond that is the beginning of the next, or
    /// frames that carried nothing, which add up.
    pub(super) fn is_whole(&mut self, bytes: usize) {
        self.charge.give_back(usize::MAX);
        self.came = self.came.saturating_sub(bytes + bytes / FRAMES_PART + LONGEST_HEAD);
        (self.held, self.since) = (0, None);
    }

    /// A ping or a pong, which may come between its frames.
    pub(super) fn controls(&mut self, bytes: usize) {
        self.came = self.came.saturating_sub(bytes);
        if self.came == 0 {
            self.since = None;
        }
    }

    /// Nothing was read, so that it is not late for that.
    pub(super) fn is_left(&mut self, now: Instant) {
        self.since = self.since.map(|_| now);
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) > self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Caller, Role};
    use crate::doors::Doors;
    use crate::limits::Limits;

    const LARGEST: usize = 2 << 20;
    const TIME: Duration = Duration::from_secs(30);

    fn partial(doors: &Doors, key: &str) -> Partial {
        let caller = Caller::with(key.into(), key, Role::Viewer, None, None);
        Partial::new(doors.charge(None, &caller), LARGEST, TIME)
    }

    /// Reads so many bytes, as far as they may be; how many that were, and what is said then.
    fn read(partial: &mut Partial, most: usize, piece: usize, now: Instant) -> (usize, More) {
        let mut read = 0;
        while read < most {
            match partial.more() {
                More::Yes => partial.comes(piece, now),
                not => return (read, not),
            }
            read += piece;
        }
        (read, partial.more())
    }

    #[test]
    fn messages_that_are_not_whole_hold_the_bytes_of_their_key_and_of_no_other() {
        let (doors, now) = (Doors::new(&Limits::default()), Instant::now());
        let mut greedy: Vec<Partial> = (0..50).map(|_| partial(&doors, "greedy")).collect();
        let held: usize = greedy.iter_mut().map(|one| read(one, LARGEST, 8 << 10, now).0).sum();
        assert!(held <= (8 << 20) + 50 * (SMALL + (8 << 10)), "{held}");
        assert_eq!(read(&mut partial(&doors, "other"), LARGEST, 8 << 10, now), (LARGEST, More::Yes));
        let (whole, rest) = greedy.split_at_mut(1);
        assert_eq!(rest[48].more(), More::Later);
        whole[0].is_whole(LARGEST);
        assert_eq!(rest[48].more(), More::Yes, "what is whole makes room");
    }

    #[test]
    fn frames_that_carry_nothing_end_a_message_and_those_that_libraries_make_do_not() {
        let (doors, now) = (Doors::new(&Limits::default()), Instant::now());
        let (read_of, ended) = read(&mut partial(&doors, "one"), 100 << 20, 6, now);
        assert!(ended == More::Never && read_of < LARGEST * 5 / 4, "{read_of}");
        // Nor does it help to end one now and then.
        let (mut ended, mut junk) = (partial(&doors, "two"), 0);
        while ended.more() == More::Yes {
            (0..100).for_each(|_| ended.comes(6, now));
            ended.is_whole(1);
            junk += 600;
        }
        assert!(junk < LARGEST * 5 / 4, "{junk}");
        let mut small = partial(&doors, "three");
        // Of frames of 128 bytes each.
        let message = LARGEST + LARGEST / 128 * 8;
        for _ in 0..10 {
            assert_eq!(read(&mut small, message, 8 << 10, now).1, More::Yes);
            small.is_whole(LARGEST);
        }
    }

    #[test]
    fn a_message_is_whole_within_its_time_whatever_comes_between() {
        let (doors, start) = (Doors::new(&Limits::default()), Instant::now());
        let mut one = partial(&doors, "one");
        one.comes(100, start);
        for second in 0..30 {
            let now = start + Duration::from_secs(second);
            one.comes(6, now);
            one.controls(6);
            assert!(!one.is_late(now));
        }
        assert!(one.is_late(start + Duration::from_secs(31)));
        one.is_left(start + TIME);
        assert!(!one.is_late(start + Duration::from_secs(31)), "the server itself did not read");
        let mut silent = partial(&doors, "two");
        silent.comes(6, start);
        silent.controls(6);
        assert!(!silent.is_late(start + 100 * TIME), "nothing is on its way");
    }
}
