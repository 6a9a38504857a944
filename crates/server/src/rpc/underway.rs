//! Sends of this node that are under way, by the call that they are.
//!
//! Which calls are known is the store's to say, on every node and after every restart. Here it is only seen to that a call
//! which is repeated while it is under way is one: it is taken back when nobody waits for it any more, not when the first who
//! waited has gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use landfall_core::request::{CallId, Payload};
use landfall_core::{LaneId, RequestId};
use landfall_engine::Submission;
use tokio::sync::watch;

use super::error::RpcError;

/// What a call is told in the end; nothing before that.
type Said = Option<Result<String, RpcError>>;
/// Calls that name different keys are different, whatever their nonces.
type Key = (LaneId, CallId, Option<RequestId>);

struct Call {
    payload: Payload,
    said: watch::Sender<Said>,
}

#[derive(Default)]
pub(crate) struct Underway {
    calls: Mutex<BTreeMap<Key, Call>>,
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
        self.leave();
        self.said.send_replace(Some(said));
    }

    /// Ends when nobody waits any more.
    pub(super) async fn left(&self) {
        self.said.closed().await;
    }

    /// Whoever comes from now on asks the store.
    fn leave(&mut self) {
        if let Some(key) = self.key.take() {
            self.all.calls().remove(&key);
        }
    }
}

impl Drop for First {
    fn drop(&mut self) {
        self.leave();
    }
}

/// What a call is to those under way.
pub(super) enum Place {
    First(First, Follower),
    Same(Follower),
}

impl Underway {
    fn calls(&self) -> MutexGuard<'_, BTreeMap<Key, Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call without a nonce is like no other. One whose nonce is being used for something else is for the store to refuse.
    pub(super) fn enter(self: &Arc<Self>, submission: &Submission) -> Place {
        let call = submission.at_once.as_ref().and_then(|at_once| at_once.call.clone());
        let mut key = call.map(|call| (submission.lane, call, submission.request_id.clone()));
        let (said, follower) = watch::channel(None);
        if let Some(name) = &key {
            let mut calls = self.calls();
            match calls.get(name) {
                Some(first) if first.payload.does_the_same(&submission.payload) => {
                    return Place::Same(Follower(first.said.subscribe()));
                }
                Some(_) => key = None,
                None => {
                    let call = Call { payload: submission.payload.clone(), said: said.clone() };
                    calls.insert(name.clone(), call);
                }
            }
        }
        Place::First(First { all: self.clone(), key, said }, Follower(follower))
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256};
    use landfall_core::request::{AtOnce, Options};
    use landfall_core::{Account, ApiKeyId, CallerNonce, ChainId, Wei};

    use super::*;

    fn call(nonce: Option<u64>, api_key: &str, key: Option<&str>, value: u64) -> Submission {
        let api_key = Some(ApiKeyId(api_key.to_owned()));
        let call = nonce.map(|nonce| CallId { api_key, nonce: CallerNonce(nonce) });
        Submission {
            lane: LaneId { chain: ChainId(1), signer: Account(Address::ZERO) },
            request_id: key.map(|key| RequestId::parse(key).unwrap()),
            payload: Payload { value: Wei(U256::from(value)), ..Payload::default() },
            options: Options::default(),
            at_once: Some(AtOnce { call }),
            origin: None,
        }
    }

    #[tokio::test]
    async fn the_same_call_follows_the_first_while_it_is_under_way_and_no_other_does() {
        let all = Arc::new(Underway::default());
        let is_first = |submission: &Submission| matches!(all.clone().enter(submission), Place::First(..));
        let Place::First(first, waits) = all.enter(&call(Some(3), "a", None, 1)) else {
            panic!("nobody was here")
        };
        let Place::Same(follows) = all.enter(&call(Some(3), "a", None, 1)) else { panic!("it is the same") };
        for other in [
            call(Some(3), "a", None, 2),
            call(Some(3), "a", Some("key"), 1),
            call(Some(3), "b", None, 1),
            call(Some(4), "a", None, 1),
            call(None, "a", None, 1),
        ] {
            assert!(is_first(&other), "{other:?}");
        }
        let Place::Same(_) = all.enter(&call(Some(3), "a", None, 1)) else {
            panic!("one that was refused has not taken its place")
        };
        drop(waits);
        assert!(futures::FutureExt::now_or_never(first.left()).is_none(), "the one that follows waits still");
        first.tell(Ok("hash".to_owned()));
        assert_eq!(follows.told().await, Some(Ok("hash".to_owned())));
        assert!(is_first(&call(Some(3), "a", None, 1)), "from here on the store is asked");
        assert!(all.calls().is_empty(), "nothing is remembered");
    }
}
