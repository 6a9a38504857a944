//! Every task of an engine, so that all of them can be ended at once.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

/// The tasks of one engine. Dropping the last copy aborts them.
#[derive(Clone, Default)]
pub(crate) struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are let go of here, so that the set does not grow.
        while set.try_join_next().is_some() {}
        set.spawn(task);
    }

    pub(crate) fn abort_all(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}
