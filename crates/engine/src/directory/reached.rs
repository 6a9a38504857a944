//! How many lanes have stored what they were shown up to which head: the lowest is known without a look at each lane.

use std::collections::BTreeMap;

/// Lanes by head; those without one have taken no view yet, and come first.
#[derive(Debug, Default)]
pub(super) struct Reached(BTreeMap<Option<u64>, usize>);

impl Reached {
    pub(super) fn arrives(&mut self, head: Option<u64>) {
        *self.0.entry(head).or_default() += 1;
    }

    pub(super) fn leaves(&mut self, head: Option<u64>) {
        if let Some(lanes) = self.0.get_mut(&head) {
            *lanes -= 1;
            if *lanes == 0 {
                self.0.remove(&head);
            }
        }
    }

    /// Up to here every lane has stored what it was shown; none if one has taken nothing yet.
    pub(super) fn by_all(&self) -> Option<u64> {
        // Without lanes there is nothing to wait for.
        self.0.keys().next().map_or(Some(u64::MAX), |lowest| *lowest)
    }
}
