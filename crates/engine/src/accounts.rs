//! Which accounts the chain is asked about at a look, and what is known of the others.
//!
//! | asked for its count and its balance | when |
//! |---|---|
//! | a lane that was just loaded | at once |
//! | one whose transaction is in a new block | at that block |
//! | one that waits for something or has something out | at a new head, a second after the last time |
//! | one whose last are in blocks and not final | at a new head, ten seconds after the last time |
//! | one at rest | never: it is loaded again when it gets work, if the last answer is older than that |
//! | every lane | when the chain went over to another fork, or a stretch of it was not followed |
//!
//! Of those that are not asked about the last answer stands. So what is asked grows with the work, not with the lanes,
//! and what a stranger does with an account is seen a little later than what we do.
//!
//! The code is read rarely: it only tells a delegation (EIP-7702), and anyone may carry an account's authorization to the
//! chain. It is read again now and then, and after something of the account's own was mined, which may have been one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use alloy_primitives::B256;
use landfall_core::{Account, Millis, Slot, Wei};

use crate::directory::Pace;

const BUSY_EVERY: Duration = Duration::from_secs(1);
/// Answers that are older are old.
pub(crate) const OTHERS_EVERY: Duration = Duration::from_secs(10);
const CODE_EVERY: Duration = Duration::from_secs(60);
/// Of an account that has something mined all the time.
const CODE_WHEN_MINED_EVERY: Duration = Duration::from_secs(5);
/// How often it is looked whether somebody is due, while the head stays.
const LOOKED_EVERY: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(crate) struct Accounts {
    known: BTreeMap<Account, Known>,
    looked_at: Option<Millis>,
}

struct Known {
    count: Slot,
    /// Without it a transaction is tried, and the node says.
    balance: Option<Wei>,
    /// The head of the last answer, and when it came.
    head: B256,
    asked_at: Millis,
    code: Code,
}

#[derive(Default)]
struct Code {
    delegated: bool,
    read_at: Option<Millis>,
    /// Something was mined since it was read.
    mined: bool,
    /// When it was last read for that reason.
    read_when_mined_at: Option<Millis>,
}

/// Who is asked about at one look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) accounts: Vec<Account>,
    /// Of these also the code.
    pub(crate) codes: Vec<Account>,
}

/// What the chain said. A balance is for waiting in time, a code for a smaller window: both may be missing.
pub(crate) struct Answers {
    pub(crate) counts: Vec<Slot>,
    pub(crate) balances: Vec<Wei>,
    pub(crate) codes: Vec<bool>,
}

/// What makes a look ask.
pub(crate) struct Look {
    pub(crate) head: B256,
    pub(crate) now: Millis,
    pub(crate) lanes: BTreeMap<Account, Pace>,
    pub(crate) uncounted: BTreeSet<Account>,
    pub(crate) mined: BTreeSet<Account>,
    /// What was known may not hold any more.
    pub(crate) all: bool,
}

impl Accounts {
    /// While the head stays: is it time to see whether somebody is due?
    pub(crate) fn may_be_due(&self, now: Millis) -> bool {
        !self.known.is_empty() && self.looked_at.is_none_or(|at| now.since(at) >= LOOKED_EVERY)
    }

    /// Forgets who has gone, and says who is due.
    pub(crate) fn due(&mut self, look: &Look) -> Due {
        self.looked_at = Some(look.now);
        self.known.retain(|account, _| look.lanes.contains_key(account));
        let mut due = Due::default();
        for (account, pace) in &look.lanes {
            let known = self.known.get_mut(account);
            let mined = look.mined.contains(account);
            let (asked, code) = match known {
                None => (true, true),
                Some(known) => {
                    known.code.mined |= mined;
                    let asked =
                        look.all || mined || look.uncounted.contains(account) || known.is_old(*pace, look);
                    (asked, asked && known.code.is_old(look.now))
                }
            };
            due.accounts.extend(asked.then_some(*account));
            due.codes.extend(code.then_some(*account));
        }
        due
    }

    /// Takes what was answered, each in the order asked.
    pub(crate) fn take(&mut self, look: &Look, due: &Due, answers: Answers) {
        let mut balances = answers.balances.into_iter();
        for (account, count) in due.accounts.iter().zip(answers.counts) {
            let code = self.known.remove(account).map(|known| known.code).unwrap_or_default();
            let known = Known { count, balance: balances.next(), head: look.head, asked_at: look.now, code };
            self.known.insert(*account, known);
        }
        for (account, delegated) in due.codes.iter().zip(answers.codes) {
            if let Some(known) = self.known.get_mut(account) {
                known.code.take(delegated, look.now);
            }
        }
    }

    pub(crate) fn counts(&self) -> BTreeMap<Account, Slot> {
        self.known.iter().map(|(account, known)| (*account, known.count)).collect()
    }

    pub(crate) fn balances(&self) -> BTreeMap<Account, Wei> {
        self.known.iter().filter_map(|(account, known)| Some((*account, known.balance?))).collect()
    }

    pub(crate) fn delegated(&self) -> BTreeSet<Account> {
        let delegated = self.known.iter().filter(|(_, known)| known.code.delegated);
        delegated.map(|(account, _)| *account).collect()
    }
}

impl Known {
    fn is_old(&self, pace: Pace, look: &Look) -> bool {
        let every = match pace {
            Pace::Busy => BUSY_EVERY,
            Pace::Settling => OTHERS_EVERY,
            Pace::Resting => return false,
        };
        self.head != look.head && look.now.since(self.asked_at) >= every
    }
}

impl Code {
    fn is_old(&self, now: Millis) -> bool {
        let older = |at: Option<Millis>, than: Duration| at.is_none_or(|at| now.since(at) >= than);
        older(self.read_at, CODE_EVERY)
            || (self.mined && older(self.read_when_mined_at, CODE_WHEN_MINED_EVERY))
    }

    fn take(&mut self, delegated: bool, now: Millis) {
        let read_when_mined_at = if self.mined { Some(now) } else { self.read_when_mined_at };
        *self = Self { delegated, read_at: Some(now), mined: false, read_when_mined_at };
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;

    use super::*;

    fn account(n: u8) -> Account {
        Account(Address::with_last_byte(n))
    }

    /// One account that is known since second 0, at head 0: is it due?
    struct Case {
        head: u8,
        second: u64,
        pace: Pace,
        uncounted: bool,
        mined: bool,
        all: bool,
    }

    impl Case {
        fn new(head: u8, second: u64, pace: Pace) -> Self {
            Self { head, second, pace, uncounted: false, mined: false, all: false }
        }

        fn look(&self, accounts: &mut Accounts) -> Due {
            let only = |wanted: bool| wanted.then_some(account(1)).into_iter().collect::<BTreeSet<_>>();
            let look = Look {
                head: B256::with_last_byte(self.head),
                now: Millis(self.second * 1_000),
                lanes: BTreeMap::from([(account(1), self.pace)]),
                uncounted: only(self.uncounted),
                mined: only(self.mined),
                all: self.all,
            };
            let due = accounts.due(&look);
            let (asked, codes) = (due.accounts.len(), due.codes.len());
            let answers = Answers {
                counts: vec![Slot(7); asked],
                balances: vec![Wei::default(); asked],
                codes: vec![false; codes],
            };
            accounts.take(&look, &due, answers);
            due
        }

        fn is_due(&self) -> bool {
            let mut accounts = Accounts::default();
            assert_eq!(Self::new(0, 0, Pace::Busy).look(&mut accounts).codes, [account(1)], "it is new");
            !self.look(&mut accounts).accounts.is_empty()
        }
    }

    #[test]
    fn an_account_is_asked_about_when_it_moved_or_its_last_answer_is_old() {
        use Pace::{Busy, Resting, Settling};
        let cases = [
            (Case::new(0, 100, Busy), false, "the head is the same"),
            (Case::new(1, 0, Busy), false, "asked a moment ago"),
            (Case::new(1, 1, Busy), true, "a second ago"),
            (Case::new(1, 1, Settling), false, "nothing can change its count but a stranger"),
            (Case::new(1, 9, Settling), false, "in blocks"),
            (Case::new(1, 10, Settling), true, "in blocks for long"),
            (Case::new(1, 100, Resting), false, "at rest"),
            (Case { mined: true, ..Case::new(1, 0, Resting) }, true, "it is in a block"),
            (Case { uncounted: true, ..Case::new(0, 0, Resting) }, true, "it was loaded again"),
            (Case { all: true, ..Case::new(1, 0, Resting) }, true, "another fork"),
        ];
        for (case, wanted, what) in cases {
            assert_eq!(case.is_due(), wanted, "{what}");
        }
    }

    #[test]
    fn the_code_is_read_at_once_after_something_was_mined_and_then_seldom() {
        let mut accounts = Accounts::default();
        let mut reads = Vec::new();
        for second in 0..80 {
            let head = u8::try_from(second).unwrap();
            let case = Case { mined: (1..12).contains(&second), ..Case::new(head, second, Pace::Busy) };
            if !case.look(&mut accounts).codes.is_empty() {
                reads.push(second);
            }
        }
        // New; the first that was mined; while more was; the last of it; and a minute later.
        assert_eq!(reads, [0, 1, 6, 11, 71]);
    }

    #[test]
    fn what_is_known_of_a_lane_that_went_is_forgotten() {
        let mut accounts = Accounts::default();
        Case::new(0, 0, Pace::Busy).look(&mut accounts);
        assert_eq!(accounts.counts(), BTreeMap::from([(account(1), Slot(7))]));
        let (lanes, uncounted, mined) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let look = Look { head: B256::ZERO, now: Millis(1), lanes, uncounted, mined, all: false };
        assert_eq!(accounts.due(&look), Due::default());
        assert!(accounts.counts().is_empty() && accounts.balances().is_empty());
    }
}
