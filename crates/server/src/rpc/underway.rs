//! Sends under way on this node, by lane and the nonce that their caller gave.
//!
//! A library that hears nothing sends the same again with the same nonce. Whoever has a slot is found in the store; before
//! that the first call is found here, and the second one hears what the first one hears.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use landfall_core::request::Payload;
use landfall_core::{LaneId, Slot};
use tokio::sync::watch;

use super::error::RpcError;

/// What a call is told in the end; nothing before that.
type Said = Option<Result<String, RpcError>>;
type Calls = BTreeMap<(LaneId, Slot), (Payload, watch::Sender<Said>)>;

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
    key: Option<(LaneId, Slot)>,
    said: watch::Sender<Said>,
}

impl First {
    pub(super) fn tell(self, said: Result<String, RpcError>) {
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
            self.all.calls().remove(key);
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
        if let Some((first, said)) = key.and_then(|key| calls.get(&key)) {
            return if does_the_same(first, payload) {
                Place::Same(Follower(said.subscribe()))
            } else {
                Place::Taken
            };
        }
        let (said, follower) = watch::channel(None);
        if let Some(key) = key {
            calls.insert(key, (payload.clone(), said.clone()));
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
}
