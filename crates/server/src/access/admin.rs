//! The administrator's key that is not in the store: given once, or kept in a file that is read again and again, so that it can be
//! changed or taken back without a restart.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::key::Hash;

/// How long what a file said is believed.
const FRESH: Duration = Duration::from_secs(1);

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
#[derive(Default)]
pub(super) struct Admin {
    key: Option<AdminKey>,
    seen: Mutex<Option<(Instant, Option<Hash>)>>,
}

impl Admin {
    pub(super) fn new(key: Option<AdminKey>) -> Self {
        Self { key, seen: Mutex::default() }
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
    pub(super) fn now(&self) -> Option<Hash> {
        let read = match &self.key {
            None => return None,
            Some(AdminKey(From::Given(hash))) => return Some(*hash),
            Some(AdminKey(From::Kept(read))) => read,
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, hash)) = seen.filter(|(at, _)| at.elapsed() < FRESH) {
            return hash;
        }
        let before = seen.map(|(_, hash)| hash.is_some());
        let now = match read() {
            Ok(key) => Some(Hash::of(&key)),
            Err(why) => {
                if before != Some(false) {
                    tracing::warn!("the administrator's key opens nothing until it can be read again: {why}");
                }
                None
            }
        };
        *seen = Some((Instant::now(), now));
        now
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
        let opens = |key: &str| admin.now().is_some_and(|hash| hash.is_of(key));
        assert!(opens("first") && !opens("second"));
        *file.lock().unwrap() = Ok("second".to_owned());
        tokio::time::advance(FRESH).await;
        assert!(!opens("first") && opens("second"));
        *file.lock().unwrap() = Err("gone".to_owned());
        tokio::time::advance(FRESH).await;
        assert!(!opens("first") && !opens("second"));
        assert!(admin.is_configured(), "the server is not open because its key is gone");
        *file.lock().unwrap() = Ok("third".to_owned());
        tokio::time::advance(FRESH).await;
        assert!(opens("third"));
    }

    #[test]
    fn no_debug_shows_the_key() {
        let policy =
            crate::Policy { admin_key: Some(AdminKey::given("hunter2".to_owned())), ..Default::default() };
        let shown = format!("{policy:?} {policy:#?}");
        assert!(!shown.contains("hunter2") && shown.contains("AdminKey(given)"), "{shown}");
    }
}
