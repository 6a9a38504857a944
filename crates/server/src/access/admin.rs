//! The administrator's key that is not in the store: given once, or kept in a file that is read again and again, so that it can be
//! changed or taken back without a restart. A file that hangs costs this key alone.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::time::Instant;

use super::key::Hash;

/// How long what a file said is believed.
const FRESH: Duration = Duration::from_secs(1);
/// How long reading it may take.
const LONGEST: Duration = Duration::from_secs(2);

/// Reads the key, or says why there is none.
type Read = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Where the key comes from. It is never shown.
#[derive(Clone)]
pub struct AdminKey(From);

#[derive(Clone)]
enum From {
    Given(Hash),
    Kept(Read),
}

impl AdminKey {
    /// The key itself.
    #[must_use]
    pub fn given(key: String) -> Self {
        Self(From::Given(Hash::of(&key)))
    }

    /// A key that is read whenever it is needed, once a second at most. While it cannot be read, there is none.
    #[must_use]
    pub fn kept(read: Arc<dyn Fn() -> Result<String, String> + Send + Sync>) -> Self {
        Self(From::Kept(read))
    }
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            From::Given(_) => "AdminKey(given)",
            From::Kept(_) => "AdminKey(kept)",
        })
    }
}

/// The key as it is now.
pub(super) struct Admin {
    key: Option<AdminKey>,
    looked: Arc<Mutex<Looked>>,
}

#[derive(Default)]
struct Looked {
    seen: Option<(Instant, Option<Hash>)>,
    /// The file is being read since then.
    running: Option<(Instant, Shared<BoxFuture<'static, Option<Hash>>>)>,
    /// It was said that there is no key.
    told: bool,
}

impl Looked {
    fn tell(&mut self, why: &str) {
        if !self.told {
            tracing::warn!("the administrator's key opens nothing until it can be read again: {why}");
        }
        self.told = true;
    }
}

fn locked(looked: &Mutex<Looked>) -> MutexGuard<'_, Looked> {
    looked.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admin {
    pub(super) fn new(key: Option<AdminKey>) -> Self {
        Self { key, looked: Arc::default() }
    }

    /// There is such a key, or should be one.
    pub(super) fn is_configured(&self) -> bool {
        self.key.is_some()
    }

    /// How its holder is called.
    pub(super) fn name(&self) -> &'static str {
        match self.key {
            Some(AdminKey(From::Kept(_))) => "file",
            Some(AdminKey(From::Given(_))) | None => "environment",
        }
    }

    /// The hash of the key as it is now.
    pub(super) async fn now(&self) -> Option<Hash> {
        let read = match &self.key {
            None => return None,
            Some(AdminKey(From::Given(hash))) => return Some(*hash),
            Some(AdminKey(From::Kept(read))) => read,
        };
        let (began, reading) = {
            let mut looked = locked(&self.looked);
            if let Some((_, hash)) = looked.seen.filter(|(at, _)| at.elapsed() < FRESH) {
                return hash;
            }
            match &looked.running {
                Some((began, reading)) => (*began, reading.clone()),
                None => {
                    let (began, reading) = (Instant::now(), self.begin(read.clone()));
                    looked.running = Some((began, reading.clone()));
                    (began, reading)
                }
            }
        };
        let left = LONGEST.saturating_sub(began.elapsed());
        tokio::time::timeout(left, reading).await.unwrap_or_else(|_| {
            locked(&self.looked).tell(&format!("reading it takes longer than {} s", LONGEST.as_secs()));
            None
        })
    }

    /// Reads the file where nobody else waits for it.
    fn begin(&self, read: Read) -> Shared<BoxFuture<'static, Option<Hash>>> {
        let looked = self.looked.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let read = read();
            let mut looked = locked(&looked);
            let hash = match &read {
                Ok(key) => Some(Hash::of(key)),
                Err(why) => {
                    looked.tell(why);
                    None
                }
            };
            looked.told = hash.is_none();
            looked.seen = Some((Instant::now(), hash));
            looked.running = None;
            hash
        });
        reading.map(|read| read.ok().flatten()).boxed().shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_kept_key_is_another_a_second_after_it_was_changed_and_none_while_it_cannot_be_read() {
        let file = Arc::new(Mutex::new(Ok("first".to_owned())));
        let kept = file.clone();
        let admin = Admin::new(Some(AdminKey::kept(Arc::new(move || kept.lock().unwrap().clone()))));
        let opens = async |key: &str| admin.now().await.is_some_and(|hash| hash.is_of(key));
        assert!(opens("first").await && !opens("second").await);
        *file.lock().unwrap() = Ok("second".to_owned());
        tokio::time::advance(FRESH).await;
        assert!(!opens("first").await && opens("second").await);
        *file.lock().unwrap() = Err("gone".to_owned());
        tokio::time::advance(FRESH).await;
        assert!(!opens("first").await && !opens("second").await);
        assert!(admin.is_configured(), "the server is not open because its key is gone");
        *file.lock().unwrap() = Ok("third".to_owned());
        tokio::time::advance(FRESH).await;
        assert!(opens("third").await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_hangs_costs_this_key_alone_and_is_read_once() {
        let (let_go, held) = std::sync::mpsc::channel::<()>();
        let (held, reads) = (Mutex::new(held), Arc::new(Mutex::new(0)));
        let counted = reads.clone();
        let admin = Admin::new(Some(AdminKey::kept(Arc::new(move || {
            *counted.lock().unwrap() += 1;
            held.lock().unwrap().recv().ok();
            Ok("key".to_owned())
        }))));
        // While something blocks, time stands still by itself.
        let waits = tokio::spawn(async move {
            let all = futures::future::join_all((0..20).map(|_| admin.now())).await;
            (all.iter().all(Option::is_none), admin)
        });
        while *reads.lock().unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(LONGEST).await;
        let (none, admin) = waits.await.unwrap();
        assert!(none);
        assert!(admin.now().now_or_never().flatten().is_none(), "nobody waits again");
        assert_eq!(*reads.lock().unwrap(), 1);
        let_go.send(()).unwrap();
        let mut opened = None;
        while opened.is_none() {
            tokio::task::yield_now().await;
            opened = admin.now().now_or_never().flatten();
        }
        assert!(opened.unwrap().is_of("key"));
    }

    #[test]
    fn no_debug_shows_the_key() {
        let policy =
            crate::Policy { admin_key: Some(AdminKey::given("hunter2".to_owned())), ..Default::default() };
        let shown = format!("{policy:?} {policy:#?}");
        assert!(!shown.contains("hunter2") && shown.contains("AdminKey(given)"), "{shown}");
    }
}
