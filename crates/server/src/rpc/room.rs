//! Room for what nodes answer to callers: for one answer, for all answers to one message, and for all that callers have not
//! been sent yet, with a share of that for each key. It is taken while an answer is read, and given back when the caller has it. Large
//! answers of the rest of the API take of the same room.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use landfall_core::ports::chain::{NoRoom, Room};
use tokio::time::Instant;

use super::error::{LIMIT, RpcError, UNAVAILABLE};
use crate::problem::{Code, Problem};

/// Bytes of an answer that takes room while it is sent, whatever it is about.
pub(crate) const LARGE: usize = 64 << 10;
/// Bytes of the answer to one call that takes none: all of a batch are not many.
const SHORT: usize = 4 << 10;
/// Keys that are remembered before it is looked which may be forgotten.
const MANY: usize = 256;

/// How much is taken from nodes for callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of one answer.
    pub answer: usize,
    /// Bytes of all answers to one message.
    pub batch: usize,
    /// Bytes of all answers that callers have not been sent yet.
    pub in_flight: usize,
    /// How long the calls of one message may take that are passed on.
    pub batch_time: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self { answer: 16 << 20, batch: 32 << 20, in_flight: 128 << 20, batch_time: Duration::from_secs(30) }
    }
}

impl Budget {
    /// Bytes of one key's answers that it has not been sent yet: a quarter of all, and always one answer.
    fn of_key(&self) -> usize {
        (self.in_flight / 4).max(self.answer)
    }
}

/// The answers that callers have not been sent yet.
pub(crate) struct Answers {
    budget: Budget,
    held: AtomicUsize,
    of_keys: Mutex<HashMap<Arc<str>, Arc<AtomicUsize>>>,
}

impl Answers {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, held: AtomicUsize::new(0), of_keys: Mutex::default() }
    }

    /// Room for the answers to a message of this key that came now.
    pub(crate) fn message(self: &Arc<Self>, key: Option<&Arc<str>>) -> Arc<MessageRoom> {
        Arc::new(MessageRoom {
            answers: Arc::clone(self),
            key: key.map(|key| (key.clone(), self.of_key(key))),
            until: Instant::now() + self.budget.batch_time,
            taken: AtomicUsize::new(0),
            full: OnceLock::new(),
        })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.held.load(Ordering::Relaxed) == 0
    }

    fn of_key(&self, key: &Arc<str>) -> Arc<AtomicUsize> {
        let mut all = self.of_keys.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MANY {
            all.retain(|_, held| Arc::strong_count(held) > 1);
        }
        all.entry(key.clone()).or_default().clone()
    }

    /// Room for an answer that tells what was done: it takes room also where there is none.
    pub(crate) fn hold_anyway(self: &Arc<Self>, key: Option<&Arc<str>>, bytes: usize) -> Arc<MessageRoom> {
        let room = self.message(key);
        room.take_anyway(bytes);
        room
    }

    /// Says no to a key that has its share unread already: nothing is to be done for an answer that would
    /// find no room.
    pub(crate) fn has_room(self: &Arc<Self>, key: Option<&Arc<str>>) -> Result<(), Problem> {
        let most = self.budget.of_key();
        let is_full = key.is_some_and(|key| self.of_key(key).load(Ordering::Relaxed) >= most);
        if is_full { Err(self.key_is_full()) } else { Ok(()) }
    }

    fn key_is_full(&self) -> Problem {
        let most = self.budget.of_key();
        let detail = format!(
            "{most} bytes of answers to this API key wait to be sent, which is the most (a quarter of \
             rpc.max_answer_bytes_in_flight); read those, or ask for less at once"
        );
        Problem { retry_after: Some(1), ..Problem::new(Code::QuotaReached, detail) }
    }

    /// Room for an answer that is there. One that is larger than the key's share is sent alone.
    pub(crate) fn hold(
        self: &Arc<Self>,
        key: Option<&Arc<str>>,
        bytes: usize,
    ) -> Result<Arc<MessageRoom>, Problem> {
        let room = self.message(key);
        let most = self.budget.of_key();
        let own = |held: usize| (held == 0 || held + bytes <= most).then_some(held + bytes);
        if let Some((_, held)) = &room.key
            && held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, own).is_err()
        {
            return Err(self.key_is_full());
        }
        if !take(&self.held, bytes, self.budget.in_flight.max(bytes)) {
            if let Some((_, held)) = &room.key {
                held.fetch_sub(bytes, Ordering::Relaxed);
            }
            let detail = format!(
                "{} bytes of answers wait to be sent, which is the most (rpc.max_answer_bytes_in_flight); ask again in a moment",
                self.budget.in_flight
            );
            return Err(Problem { retry_after: Some(1), ..Problem::new(Code::TooManyBytes, detail) });
        }
        room.taken.store(bytes, Ordering::Relaxed);
        Ok(room)
    }
}

/// Takes from a count that may not pass its limit.
fn take(count: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let more = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= most);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// Room for the answers to one message. What was taken is given back with it.
pub(crate) struct MessageRoom {
    answers: Arc<Answers>,
    /// Whose message it is, and what all answers to that key hold.
    key: Option<(Arc<str>, Arc<AtomicUsize>)>,
    until: Instant,
    taken: AtomicUsize,
    /// Why an answer did not fit beside others: those after it are not asked for.
    full: OnceLock<Full>,
}

impl MessageRoom {
    /// Nothing is held, so nothing has to be given back.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.load(Ordering::Relaxed) == 0
    }

    /// Room for one more answer, and by when it must be there.
    pub(super) fn call(&self) -> Result<(CallRoom<'_>, Instant), RpcError> {
        if let Some(full) = self.full.get() {
            return Err(no_room(&self.is_full(*full, "this call was not asked")));
        }
        if Instant::now() >= self.until {
            return Err(self.too_slow());
        }
        Ok((CallRoom { message: self, taken: AtomicUsize::new(0) }, self.until))
    }

    /// Room for an answer that is there and goes to the caller. Short ones take none.
    pub(super) fn keep(&self, bytes: usize) -> Result<(), RpcError> {
        if bytes > SHORT {
            let room = CallRoom { message: self, taken: AtomicUsize::new(0) };
            room.take(bytes).map_err(|full| no_room(&full))?;
            room.keep();
        }
        Ok(())
    }

    /// A large answer takes room whoever made it, also where there is none: what it tells of was done.
    pub(super) fn fill(&self, bytes: usize) {
        let taken = self.taken.load(Ordering::Relaxed);
        if bytes > LARGE && bytes > taken {
            self.take_anyway(bytes - taken);
        }
    }

    fn take_anyway(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        self.answers.held.fetch_add(bytes, Ordering::Relaxed);
        if let Some((_, held)) = &self.key {
            held.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn too_slow(&self) -> RpcError {
        let text = format!(
            "the calls of this message took longer than {} s (rpc.batch_time_s), and this one has no answer; ask for less at once",
            self.answers.budget.batch_time.as_secs()
        );
        let mut error = RpcError::coded(UNAVAILABLE, text, "batch_too_slow");
        error.with("setting", "rpc.batch_time_s");
        error
    }

    fn give_back(&self, bytes: usize) {
        self.answers.held.fetch_sub(bytes, Ordering::Relaxed);
        if let Some((_, held)) = &self.key {
            held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn is_full(&self, full: Full, this: &str) -> NoRoom {
        let budget = &self.answers.budget;
        match full {
            Full::Batch => NoRoom {
                setting: "rpc.max_batch_answer_bytes",
                text: format!(
                    "the answers to this message came to more than {} bytes (rpc.max_batch_answer_bytes), and {this}; ask for less at \
                     once",
                    budget.batch
                ),
            },
            Full::Key => NoRoom {
                setting: "rpc.max_answer_bytes_in_flight",
                text: format!(
                    "answers of {} bytes together wait to be sent to this API key, which is the most (a quarter of \
                     rpc.max_answer_bytes_in_flight), and {this}; read those, or ask for less at once",
                    budget.of_key()
                ),
            },
            Full::InFlight => NoRoom {
                setting: "rpc.max_answer_bytes_in_flight",
                text: format!(
                    "answers of {} bytes together wait to be sent to callers, which is the most (rpc.max_answer_bytes_in_flight), \
                     and {this}; ask again later",
                    budget.in_flight
                ),
            },
        }
    }
}

/// The bound that was reached.
#[derive(Debug, Clone, Copy)]
enum Full {
    Batch,
    Key,
    InFlight,
}

impl Drop for MessageRoom {
    fn drop(&mut self) {
        self.give_back(self.taken.load(Ordering::Relaxed));
    }
}

/// Room for one answer; given back unless it is kept.
pub(super) struct CallRoom<'a> {
    message: &'a MessageRoom,
    taken: AtomicUsize,
}

impl CallRoom<'_> {
    /// The answer goes to the caller: its room is given back with that of the message.
    pub(super) fn keep(self) {
        self.taken.store(0, Ordering::Relaxed);
    }
}

impl Room for CallRoom<'_> {
    fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        let (message, answers) = (self.message, &self.message.answers);
        let most = answers.budget.answer;
        if !take(&self.taken, bytes, most) {
            let text = format!(
                "the answer is longer than {most} bytes (rpc.max_answer_bytes) and was not read to its end; ask for less, such as \
                 fewer blocks"
            );
            return Err(NoRoom { setting: "rpc.max_answer_bytes", text });
        }
        let own = message.key.as_ref().map(|(_, held)| held);
        let full = if !take(&message.taken, bytes, answers.budget.batch) {
            Full::Batch
        } else if own.is_some_and(|own| !take(own, bytes, answers.budget.of_key())) {
            message.taken.fetch_sub(bytes, Ordering::Relaxed);
            Full::Key
        } else if !take(&answers.held, bytes, answers.budget.in_flight) {
            message.taken.fetch_sub(bytes, Ordering::Relaxed);
            if let Some(own) = own {
                own.fetch_sub(bytes, Ordering::Relaxed);
            }
            Full::InFlight
        } else {
            return Ok(());
        };
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        Err(message.is_full(*message.full.get_or_init(|| full), "this answer was not read to its end"))
    }

    fn begin_anew(&self) {
        let taken = self.taken.swap(0, Ordering::Relaxed);
        self.message.taken.fetch_sub(taken, Ordering::Relaxed);
        self.message.give_back(taken);
    }

    fn owner(&self) -> &str {
        self.message.key.as_ref().map_or("", |(key, _)| key)
    }
}

impl Drop for CallRoom<'_> {
    fn drop(&mut self) {
        self.begin_anew();
    }
}

pub(super) fn no_room(no_room: &NoRoom) -> RpcError {
    let mut error = RpcError::coded(LIMIT, no_room.text.clone(), "answer_too_long");
    error.with("setting", no_room.setting);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> Arc<Answers> {
        let budget = Budget { answer: 10, batch: 15, in_flight: 20, ..Budget::default() };
        Arc::new(Answers::new(budget))
    }

    fn setting(taken: Result<(), NoRoom>) -> &'static str {
        taken.unwrap_err().setting
    }

    #[tokio::test]
    async fn an_answer_a_message_and_all_together_have_a_limit_each() {
        let answers = answers();
        let message = answers.message(None);
        let (first, _) = message.call().unwrap();
        first.take(10).unwrap();
        assert_eq!(setting(first.take(1)), "rpc.max_answer_bytes");
        first.keep();
        let (second, _) = message.call().unwrap();
        second.take(5).unwrap();
        assert_eq!(setting(second.take(1)), "rpc.max_batch_answer_bytes");
        second.keep();
        let refused = message.call().err().unwrap();
        assert!(refused.message.contains("this call was not asked"), "{}", refused.message);
        assert_eq!(refused.data.unwrap()["setting"], "rpc.max_batch_answer_bytes");

        let other = answers.message(None);
        let (third, _) = other.call().unwrap();
        third.take(5).unwrap();
        assert_eq!(setting(third.take(1)), "rpc.max_answer_bytes_in_flight");
        drop(third);
        drop((message, other));
        assert_eq!(answers.held.load(Ordering::Relaxed), 0, "what is not kept is given back");
    }

    #[tokio::test]
    async fn one_key_has_a_share_of_all_answers_and_others_find_room() {
        let budget = Budget { answer: 10, batch: 40, in_flight: 60, ..Budget::default() };
        let answers = Arc::new(Answers::new(budget));
        let (greedy, other) = (Arc::from("greedy"), Arc::from("other"));
        let message = answers.message(Some(&greedy));
        for bytes in [10, 5] {
            let (room, _) = message.call().unwrap();
            room.take(bytes).unwrap();
            room.keep();
        }
        let again = answers.message(Some(&greedy));
        let refused = again.call().unwrap().0.take(1).unwrap_err();
        assert_eq!(refused.setting, "rpc.max_answer_bytes_in_flight");
        assert!(refused.text.contains("this API key"), "{}", refused.text);
        let whole = answers.hold(Some(&greedy), 1).err().unwrap();
        assert_eq!((whole.code, whole.retry_after), (Code::QuotaReached, Some(1)));
        let large = answers.hold(Some(&other), 40).unwrap();
        let refused = answers.hold(Some(&other), 1).err().unwrap();
        assert_eq!(refused.code, Code::QuotaReached, "one that is larger than the share goes alone");
        let third = Arc::from("third");
        assert_eq!(answers.hold(Some(&third), 6).err().unwrap().code, Code::TooManyBytes);
        drop((message, again, large));
        assert_eq!(answers.held.load(Ordering::Relaxed), 0);
        assert!([&greedy, &other, &third].iter().all(|key| answers.of_key(key).load(Ordering::Relaxed) == 0));
    }

    #[tokio::test]
    async fn answers_that_no_node_gave_take_room_too_and_what_was_done_is_told_in_any_case() {
        let budget =
            Budget { answer: 100 << 10, batch: 100 << 10, in_flight: 200 << 10, ..Budget::default() };
        let answers = Arc::new(Answers::new(budget));
        let (greedy, other) = (Arc::from("greedy"), Arc::from("other"));
        let message = answers.message(Some(&greedy));
        message.keep(1 << 10).unwrap();
        assert!(message.is_empty(), "short ones take none");
        message.keep(60 << 10).unwrap();
        assert_eq!(
            message.keep(60 << 10).unwrap_err().data.unwrap()["setting"],
            "rpc.max_batch_answer_bytes"
        );
        message.fill(70 << 10);
        assert_eq!(message.taken.load(Ordering::Relaxed), 70 << 10, "what was taken counts once");
        let done = answers.hold_anyway(Some(&greedy), 150 << 10);
        assert_eq!(answers.held.load(Ordering::Relaxed), 220 << 10);
        assert_eq!(answers.hold(Some(&greedy), 65 << 10).err().unwrap().code, Code::QuotaReached);
        assert_eq!(answers.hold(Some(&other), 65 << 10).err().unwrap().code, Code::TooManyBytes);
        drop((message, done));
        assert!(answers.is_empty() && answers.of_key(&greedy).load(Ordering::Relaxed) == 0);
    }

    #[tokio::test]
    async fn an_answer_that_is_read_anew_counts_once() {
        let answers = answers();
        let message = answers.message(None);
        let (room, _) = message.call().unwrap();
        for _ in 0..5 {
            room.take(9).unwrap();
            room.begin_anew();
        }
        room.take(10).unwrap();
        room.keep();
        assert!(!message.is_empty());
        assert_eq!(answers.held.load(Ordering::Relaxed), 10);
        drop(message);
        assert_eq!(answers.held.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_takes_too_long_gets_no_further_answers() {
        let message = answers().message(None);
        assert!(message.call().is_ok());
        tokio::time::advance(Budget::default().batch_time).await;
        let refused = message.call().err().unwrap();
        assert_eq!(refused.data.unwrap()["code"], "batch_too_slow");
    }
}
