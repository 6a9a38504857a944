//! Whether the store can be written, looked up once in a while for everybody who asks without a key: each look is a write.

use std::time::Duration;

use landfall_engine::Handle;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// An answer is good for this long.
const FRESH: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct Probe(Mutex<Option<(Instant, bool)>>);

impl Probe {
    pub(crate) async fn writable(&self, handle: &Handle) -> bool {
        // Whoever comes while it is looked waits for the same answer.
        let mut last = self.0.lock().await;
        if let Some((at, writable)) = *last
            && at.elapsed() < FRESH
        {
            return writable;
        }
        let writable = handle.store().writable().await.is_ok();
        *last = Some((Instant::now(), writable));
        writable
    }
}
