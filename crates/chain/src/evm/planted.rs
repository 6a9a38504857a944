//! Bugs that the seeded world of the endpoints plants on purpose (`seeded`), one question for each. Outside of tests
//! nothing can be planted, and the answer is no before the program runs.

/// A bug in how endpoints are chosen and believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Planted {
    /// A node's "no" counts as a lost answer.
    NoIsALoss,
    /// However many answers are lost, the breaker stays closed.
    NeverOpens,
    /// What has opened stays open.
    NeverTriedAgain,
    /// After its time an open breaker lets everything through at once.
    AllDecide,
    /// One that asks for patience is asked as before.
    RestIgnored,
    /// The best endpoint is asked, and no other.
    NoSecondEndpoint,
    /// An endpoint that is out of reach is not asked anew whose chain it serves.
    IdentityKept,
    /// Any answer is taken for the head.
    OlderHeadTaken,
    /// Any answer is taken for the last final or safe block.
    OlderTagTaken,
    /// A count by number is taken from an endpoint that has not got to that block.
    OlderCountTaken,
    /// One that is far behind may say that there is no receipt.
    LaggingSaysNone,
    /// Receipts count whatever block they are of.
    AnyBlockWillDo,
    /// A receipt that one endpoint gave counts as given by two.
    OneGivesReceipts,
}

/// Is this bug planted?
#[cfg(not(test))]
pub(super) const fn has(_: Planted) -> bool {
    false
}

#[cfg(test)]
pub(super) use in_tests::{has, with};

#[cfg(test)]
mod in_tests {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        /// A seeded run stays on its thread.
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    pub(in super::super) fn has(bug: Planted) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Does this with a bug planted.
    pub(in super::super) fn with<T>(bug: Option<Planted>, run: impl FnOnce() -> T) -> T {
        PLANTED.set(bug);
        let done = run();
        PLANTED.set(None);
        done
    }
}
