//! Sends of this node that are under way or were answered a moment ago, by lane and the nonce that their caller gave.
//!
//! A library that hears nothing sends the same again with the same nonce, and hears then what the first call heard. The store
//! knows who has a slot; but a caller's nonce need not be the slot that the lane gave, so what was answered is remembered here
//! for as long as libraries try again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use landfall_core::request::Payload;
use landfall_core::{LaneId, Slot};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::RpcError;

/// What a call is told in the end; nothing before that.
type Said = Option<Result<String, RpcError>>;
type Key = (LaneId, Slot);

/// How long, and how many, answers are remembered.
const REMEMBERED: Duration = Duration::from_secs(120);
const MOST_REMEMBERED: usize = 10_000;

struct Call {
    payload: Payload,
    said: watch::Sender<Said>,
    /// When its hash was given; none while it is under way.
    answered: Option<Instant>,
}

#[derive(Default)]
struct Calls {
    by_nonce: BTreeMap<Key, Call>,
    /// Those that were answered, oldest first.
    answered: VecDeque<(Instant, Key)>,
}

impl Calls {
    fn forget_old(&mut self, now: Instant) {
        while let Some((at, key)) = self.answered.front().copied() {
            if now.duration_since(at) < REMEMBERED && self.answered.len() <= MOST_REMEMBERED {
                break;
            }
            self.answered.pop_front();
            // Another one may have come under the same nonce since.
            if self.by_nonce.get(&key).is_some_and(|call| call.answered == Some(at)) {
                self.by_nonce.remove(&key);
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct Underway {
    calls: Mutex<Calls>,
}

/// Who waits for what a call is told.
pub(super) struct Follower(watch::Receiver<Said>);

impl Follower {
    /// None: the server stopped before it was told.
    pub(super) async fn told(mut self) -> Option<Result<String, RpcError>> {
        let said = self.0.wait_for(Option::is_some).await.ok()?;
        said.clone()
    }
}

/// A call that is the first of its kind. While it lives, others like it follow it.
pub(super) struct First {
    all: Arc<Underway>,
    key: Option<Key>,
    said: watch::Sender<Said>,
}

impl First {
    pub(super) fn tell(mut self, said: Result<String, RpcError>) {
        // An error means that nothing landed, or says that something may: then the call may be made anew.
        if let (Some(key), true) = (self.key, said.is_ok()) {
            let (mut calls, now) = (self.all.calls(), Instant::now());
            if let Some(call) = calls.by_nonce.get_mut(&key) {
                call.answered = Some(now);
                calls.answered.push_back((now, key));
            }
            drop(calls);
            self.key = None;
        }
        self.said.send_replace(Some(said));
    }

    /// Ends when nobody waits any more.
    pub(super) async fn left(&self) {
        self.said.closed().await;
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.all.calls().by_nonce.remove(key);
        }
    }
}

/// What a call is to those under way.
pub(super) enum Place {
    First(First, Follower),
    Same(Follower),
    /// The nonce is being used for something else.
    Taken,
}

impl Underway {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call without a nonce is like no other.
    pub(super) fn enter(self: &Arc<Self>, lane: LaneId, nonce: Option<Slot>, payload: &Payload) -> Place {
        let key = nonce.map(|nonce| (lane, nonce));
        let mut calls = self.calls();
        calls.forget_old(Instant::now());
        match key.and_then(|key| calls.by_nonce.get(&key)) {
            Some(first) if does_the_same(&first.payload, payload) => {
                return Place::Same(Follower(first.said.subscribe()));
            }
            Some(first) if first.answered.is_none() => return Place::Taken,
            // What the nonce means now is the store's to say.
            Some(_) | None => {}
        }
        let (said, follower) = watch::channel(None);
        if let Some(key) = key {
            calls.by_nonce.insert(key, Call { payload: payload.clone(), said: said.clone(), answered: None });
        }
        Place::First(First { all: self.clone(), key, said }, Follower(follower))
    }
}

/// Two contents that pay the same to the same with the same data.
pub(super) fn does_the_same(one: &Payload, other: &Payload) -> bool {
    (one.to, one.value, &one.data) == (other.to, other.value, &other.data)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256};
    use landfall_core::{Account, ChainId, Wei};

    use super::*;

    #[tokio::test]
    async fn the_same_call_follows_the_first_and_another_one_does_not() {
        let all = Arc::new(Underway::default());
        let lane = LaneId { chain: ChainId(1), signer: Account(Address::ZERO) };
        let pays = |value: u64| Payload { value: Wei(U256::from(value)), ..Payload::default() };
        let enter = |nonce, value| all.enter(lane, nonce, &pays(value));
        let Place::First(first, waits) = enter(Some(Slot(3)), 1) else { panic!("nobody was here") };
        let Place::Same(follows) = enter(Some(Slot(3)), 1) else { panic!("it is the same") };
        assert!(matches!(enter(Some(Slot(3)), 2), Place::Taken));
        assert!(matches!(enter(Some(Slot(4)), 1), Place::First(..)));
        assert!(matches!(enter(None, 1), Place::First(..)));
        drop(waits);
        assert!(futures::FutureExt::now_or_never(first.left()).is_none(), "the one that follows waits still");
        first.tell(Ok("hash".to_owned()));
        assert_eq!(follows.told().await, Some(Ok("hash".to_owned())));
        assert!(matches!(enter(Some(Slot(3)), 2), Place::First(..)), "it is not under way any more");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_repeated_for_as_long_as_libraries_ask_and_an_error_is_not() {
        let all = Arc::new(Underway::default());
        let lane = LaneId { chain: ChainId(1), signer: Account(Address::ZERO) };
        let enter = |nonce| all.enter(lane, Some(Slot(nonce)), &Payload::default());
        let Place::First(good, _waits) = enter(7) else { panic!("nobody was here") };
        let Place::First(bad, _waits) = enter(8) else { panic!("nobody was here") };
        good.tell(Ok("hash".to_owned()));
        bad.tell(Err(RpcError::new(-32000, "no")));
        // The lane may have given it another slot than its caller's nonce: it is known by the nonce all the same.
        let Place::Same(again) = enter(7) else { panic!("it was answered before") };
        assert_eq!(again.told().await, Some(Ok("hash".to_owned())));
        assert!(matches!(enter(8), Place::First(..)), "what failed may be tried again");
        tokio::time::advance(REMEMBERED).await;
        assert!(matches!(enter(7), Place::First(..)));
        assert!(all.calls().answered.is_empty(), "nothing is remembered for ever");
    }
}
