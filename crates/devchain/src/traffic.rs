//! What was asked of the chain: requests and the calls in them, by method. Questions to the control are not counted.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

/// How much was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    /// HTTP requests and WebSocket messages.
    pub requests: u64,
    /// Calls in them.
    pub calls: u64,
    /// Calls by method.
    pub methods: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(Mutex<Traffic>);

impl Counter {
    /// One request with these calls.
    pub(crate) fn count<'a>(&self, methods: impl Iterator<Item = &'a str>) {
        let mut traffic = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = traffic.calls;
        for method in methods.filter(|method| !method.starts_with("devchain_")) {
            traffic.calls += 1;
            match traffic.methods.get_mut(method) {
                Some(count) => *count += 1,
                None => {
                    traffic.methods.insert(method.to_owned(), 1);
                }
            }
        }
        traffic.requests += u64::from(traffic.calls > before);
    }

    pub(crate) fn read(&self) -> Traffic {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
