//! Whoever was told that a transaction is kept.
//!
//! The same bytes may be given under several API keys. What nobody has sent is forgotten when the key that gave it is revoked, and each
//! of these callers relies on it: so it goes with the last of them. The record names them, or another node would not know.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

/// So many are told apart. What more have given is kept whatever becomes of their keys.
const MOST: usize = 16;

/// Callers who gave the same bytes, by API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Givers {
    first: Option<Arc<str>>,
    others: BTreeSet<Arc<str>>,
    /// Somebody gave it who has no key to revoke, or too many did.
    is_for_good: bool,
}

impl Givers {
    pub(super) fn new(first: Option<Arc<str>>) -> Self {
        Self { is_for_good: first.is_none(), first, others: BTreeSet::new() }
    }

    /// The key in whose turn it is sent, and whose share it takes.
    pub(super) fn first(&self) -> Option<&Arc<str>> {
        self.first.as_ref()
    }

    /// One more; whether that changes anything.
    pub(super) fn add(&mut self, key: Option<&Arc<str>>) -> bool {
        match key {
            Some(key) if self.knows(key) => false,
            Some(key) if self.others.len() + 1 < MOST => self.others.insert(key.clone()),
            Some(_) | None => !std::mem::replace(&mut self.is_for_good, true),
        }
    }

    /// Somebody is among the others who is not among these.
    pub(super) fn lacks(&self, others: &Self) -> bool {
        others.keys().any(|key| !self.knows(key)) || (others.is_for_good && !self.is_for_good)
    }

    /// All keys that must be revoked before it may be forgotten; none: it stays whatever is.
    pub(super) fn revocable(&self) -> Option<impl Iterator<Item = &Arc<str>>> {
        (!self.is_for_good).then(|| self.keys())
    }

    pub(super) fn write(&self, body: &mut Value) {
        body["key"] = json!(self.first.as_deref());
        if !self.others.is_empty() {
            body["alsoBy"] = self.others.iter().map(AsRef::as_ref).collect::<Vec<&str>>().into();
        }
        if self.is_for_good && self.first.is_some() {
            body["forGood"] = json!(true);
        }
    }

    pub(super) fn read(body: &Value) -> Self {
        let mut givers = Self::new(body["key"].as_str().map(Arc::from));
        let others = body["alsoBy"].as_array().into_iter().flatten().filter_map(Value::as_str);
        givers.others = others.map(Arc::from).collect();
        givers.is_for_good |= body["forGood"] == true;
        givers
    }

    fn knows(&self, key: &Arc<str>) -> bool {
        self.first.as_ref() == Some(key) || self.others.contains(key)
    }

    fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.first.iter().chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> Arc<str> {
        Arc::from(n.to_string())
    }

    fn stored(givers: &Givers) -> Givers {
        let mut body = json!({ "raw": "0x" });
        givers.write(&mut body);
        Givers::read(&body)
    }

    #[test]
    fn it_stays_for_good_by_a_caller_without_a_key_and_beyond_the_bound() {
        assert!(Givers::new(None).revocable().is_none());
        let mut givers = Givers::new(Some(key(0)));
        assert!(!givers.add(Some(&key(0))), "the same again");
        for n in 1..MOST {
            assert!(givers.add(Some(&key(n))) && !givers.add(Some(&key(n))));
        }
        assert_eq!(stored(&givers).revocable().map(Iterator::count), Some(MOST));
        assert!(givers.add(Some(&key(MOST))) && !givers.add(Some(&key(MOST))), "written once");
        assert_eq!(stored(&givers), givers);
        assert!(stored(&givers).revocable().is_none());
        let mut open = Givers::new(Some(key(0)));
        assert!(open.add(None) && !open.add(None) && stored(&open).revocable().is_none());
    }

    #[test]
    fn whoever_is_new_in_a_record_is_missed_and_whoever_is_gone_is_not() {
        let one = Givers::new(Some(key(0)));
        let mut both = one.clone();
        assert!(!one.lacks(&both));
        both.add(Some(&key(1)));
        assert!(one.lacks(&both) && !both.lacks(&one));
        assert!(!both.lacks(&Givers::new(Some(key(1)))), "one of them gave it anew");
        assert!(both.lacks(&Givers::new(None)), "nobody can revoke that");
    }
}
