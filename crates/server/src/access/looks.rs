//! Looks at the keys in the store. One look at a time, for all who wait for it. While the store does not answer, the keys that were
//! known last hold for a moment, and nobody waits long to be told so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use landfall_core::ports::records::{Record, RecordKind, RecordQuery, Records};
use landfall_core::ports::store::Error;
use tokio::time::Instant;

use super::key::ApiKey;

/// A key that was revoked on another node is refused here after this time. A store that failed is left alone as long.
const FRESH: Duration = Duration::from_secs(1);
/// How long a look may take before what is known holds on, and before it is told that nothing is known.
const PATIENCE: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(5);
/// How long the keys that were known last hold while the store does not answer.
const STALE: Duration = Duration::from_secs(30);
pub(super) const KIND: RecordKind = RecordKind::ApiKey;
/// The most keys there may be, and how many revoked ones are remembered.
pub(super) const MOST: usize = 1_000;
pub(super) const REVOKED: usize = 200;

/// All keys at one time.
pub(super) struct Snapshot {
    at: Instant,
    pub(super) keys: BTreeMap<Arc<str>, Arc<Kept>>,
}

pub(super) struct Kept {
    pub(super) record: Record,
    pub(super) key: ApiKey,
}

type Look = Shared<BoxFuture<'static, Result<Arc<Snapshot>, Error>>>;

#[derive(Default)]
struct State {
    seen: Option<Arc<Snapshot>>,
    failed: Option<(Instant, Error)>,
    /// The look that is under way, when it began, and after how many changes.
    running: Option<(Instant, u64, Look)>,
    /// How often a key was changed here. A look that began before the last change tells nothing.
    changes: u64,
}

/// Reads all records of keys.
type Read = Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<Record>, Error>> + Send + Sync>;

pub(super) struct Looks {
    records: Read,
    state: Arc<Mutex<State>>,
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Looks {
    pub(super) fn new(records: Arc<dyn Records>) -> Self {
        let most = u32::try_from(MOST + REVOKED + 1).unwrap_or(u32::MAX);
        Self::over(Arc::new(move || {
            let records = records.clone();
            async move { records.records(&RecordQuery::all(KIND, most)).await }.boxed()
        }))
    }

    fn over(records: Read) -> Self {
        Self { records, state: Arc::default() }
    }

    /// The keys as they are now, or were a moment ago.
    pub(super) async fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        loop {
            let (known, began, changes, look) = {
                let mut state = locked(&self.state);
                let seen = state.seen.as_ref();
                if let Some(fresh) = seen.filter(|seen| seen.at.elapsed() < FRESH) {
                    return Ok(fresh.clone());
                }
                let known = seen.filter(|seen| seen.at.elapsed() < STALE).cloned();
                if let Some((_, error)) = state.failed.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
                    return known.ok_or_else(|| error.clone());
                }
                let changes = state.changes;
                let (began, look) = match &state.running {
                    Some((began, of, look)) if *of == changes => (*began, look.clone()),
                    Some(_) | None => {
                        let (began, look) = (Instant::now(), self.begin(changes));
                        state.running = Some((began, changes, look.clone()));
                        (began, look)
                    }
                };
                (known, began, changes, look)
            };
            let most = if known.is_some() { PATIENCE } else { LONGEST };
            let looked = tokio::time::timeout(most.saturating_sub(began.elapsed()), look).await;
            match looked {
                Ok(Ok(snapshot)) if locked(&self.state).changes == changes => return Ok(snapshot),
                // A key was changed meanwhile.
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return known.ok_or(error),
                Err(_) => {
                    let text = format!("it did not answer for {} s", LONGEST.as_secs());
                    return known.ok_or(Error::Failed { doing: "look up API keys", text });
                }
            }
        }
    }

    /// Begins a look, which goes on whoever waits for it.
    fn begin(&self, changes: u64) -> Look {
        let (records, state) = (self.records.clone(), self.state.clone());
        let look = tokio::spawn(async move {
            let read = read(&records).await;
            let mut state = locked(&state);
            if state.changes == changes {
                state.running = None;
                match &read {
                    Ok(snapshot) => (state.seen, state.failed) = (Some(snapshot.clone()), None),
                    Err(error) => state.failed = Some((Instant::now(), error.clone())),
                }
            }
            read
        });
        let broken = |error: tokio::task::JoinError| Error::Failed {
            doing: "look up API keys",
            text: error.to_string(),
        };
        look.map(move |ended| ended.map_err(broken).and_then(|read| read)).boxed().shared()
    }

    /// The keys as the store has them.
    pub(super) async fn read(&self) -> Result<Arc<Snapshot>, Error> {
        read(&self.records).await
    }

    /// A key was changed: what is known no longer holds.
    pub(super) fn forget(&self) {
        let mut state = locked(&self.state);
        state.changes += 1;
        (state.seen, state.failed, state.running) = (None, None, None);
    }
}

async fn read(records: &Read) -> Result<Arc<Snapshot>, Error> {
    let at = Instant::now();
    let mut keys = BTreeMap::new();
    for record in records().await? {
        let key = serde_json::from_value(record.body.clone())
            .map_err(|error| Error::Corrupt { what: "api key", text: error.to_string() })?;
        keys.insert(Arc::from(record.id.as_str()), Arc::new(Kept { record, key }));
    }
    Ok(Arc::new(Snapshot { at, keys }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// A store that answers when it is let, and counts how often it is asked.
    struct Slow {
        answers: Semaphore,
        asked: AtomicUsize,
    }

    fn slow(answers: usize, fails: bool) -> (Arc<Slow>, Looks) {
        let store = Arc::new(Slow { answers: Semaphore::new(answers), asked: AtomicUsize::new(0) });
        let asked = store.clone();
        let read = move || {
            let store = asked.clone();
            let read = async move {
                store.asked.fetch_add(1, Ordering::Relaxed);
                store.answers.acquire().await.unwrap().forget();
                let failed = || Error::Failed { doing: "read", text: "gone".to_owned() };
                if fails { Err(failed()) } else { Ok(Vec::new()) }
            };
            read.boxed()
        };
        (store, Looks::over(Arc::new(read)))
    }

    async fn took(looks: &Looks) -> (bool, Duration) {
        let began = Instant::now();
        (looks.snapshot().await.is_ok(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_store_is_frozen_what_is_known_holds_at_once_for_everybody_and_one_look_goes_on() {
        let (store, looks) = slow(1, false);
        assert!(took(&looks).await.0);
        tokio::time::advance(FRESH).await;
        let all = futures::future::join_all((0..50).map(|_| took(&looks))).await;
        assert!(all.iter().all(|(good, took)| *good && *took <= PATIENCE), "{all:?}");
        assert_eq!(took(&looks).await, (true, Duration::ZERO), "nobody waits for a look that hangs");
        assert_eq!(store.asked.load(Ordering::Relaxed), 2);
        tokio::time::advance(STALE).await;
        assert_eq!(took(&looks).await, (false, Duration::ZERO), "what is known does not hold for ever");
        store.answers.add_permits(2);
        tokio::time::advance(FRESH).await;
        assert!(took(&looks).await.0, "what it told was of long ago, and it is asked again");
        assert_eq!(store.asked.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_fails_is_asked_again_after_a_second() {
        let (store, looks) = slow(100, true);
        for _ in 0..20 {
            assert!(!took(&looks).await.0);
        }
        assert_eq!(store.asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(FRESH).await;
        assert!(!took(&looks).await.0);
        assert_eq!(store.asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_began_before_a_change_tells_nothing() {
        let (store, looks) = slow(0, false);
        let (looked, ()) = tokio::join!(took(&looks), async {
            tokio::task::yield_now().await;
            looks.forget();
            store.answers.add_permits(2);
        });
        assert!(looked.0);
        assert_eq!(store.asked.load(Ordering::Relaxed), 2);
    }
}
