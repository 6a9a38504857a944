//! Which accounts the chain is asked about at a look, and what is known of the others.
//!
//! | asked for its count and its balance | when |
//! |---|---|
//! | a lane that was just loaded, or that asks for it | at once |
//! | one that has never had a slot, where a second endpoint has not said the same count yet | every second |
//! | one whose transaction is in a new block | at that block |
//! | one that has something to give a slot to | at every new head |
//! | one that has something out | at a new head, a second after the last time |
//! | one whose last are in blocks and not final | at a new head, ten seconds after the last time |
//! | one at rest | never: it asks when it gets work |
//! | every lane | when the chain went over to another fork, or a stretch of it was not followed |
//!
//! Of those that are not asked about the last answer stands, and says of which head it is: no slot is bound by an old one. So
//! what is asked grows with the work, not with the lanes, and what a stranger does with an account at rest is seen when it
//! matters.
//!
//! The code is read rarely: it only tells a delegation (EIP-7702), and anyone may carry an account's authorization to the
//! chain. It is read again now and then, and after something of the account's own was mined, which may have been one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use landfall_core::view::{AccountView, BlockRef, Look};
use landfall_core::{Account, Slot, Wei};
use tokio::time::Instant;

use crate::directory::Pace;

const BEGINNING_EVERY: Duration = Duration::from_secs(1);
const BUSY_EVERY: Duration = Duration::from_secs(1);
const OTHERS_EVERY: Duration = Duration::from_secs(10);
const CODE_EVERY: Duration = Duration::from_secs(60);
/// Of an account that has something mined all the time.
const CODE_WHEN_MINED_EVERY: Duration = Duration::from_secs(5);
/// How often it is looked whether somebody is due, while the head stays.
const LOOKED_EVERY: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(crate) struct Accounts {
    known: BTreeMap<Account, Known>,
    looked_at: Option<Instant>,
}

struct Known {
    /// As last answered. Without a balance a transaction is tried, and the node says.
    account: AccountView,
    asked_at: Instant,
    code: Code,
}

#[derive(Default)]
struct Code {
    delegated: bool,
    read_at: Option<Instant>,
    /// Something was mined since it was read.
    mined: bool,
    /// When it was last read for that reason.
    read_when_mined_at: Option<Instant>,
}

/// Who is asked about at one look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) accounts: Vec<Account>,
    /// Of these also the code.
    pub(crate) codes: Vec<Account>,
    /// Of these a second endpoint must say the same count: it is to be the lane's first.
    pub(crate) first: Vec<Account>,
}

/// What the chain said. A balance is for waiting in time, a code for a smaller window: both may be missing.
pub(crate) struct Answers {
    pub(crate) counts: Vec<Slot>,
    pub(crate) balances: Vec<Wei>,
    pub(crate) codes: Vec<bool>,
    /// Of which first counts two endpoints say the same.
    pub(crate) agreed: Vec<bool>,
}

/// What makes a look ask.
pub(crate) struct Reasons {
    pub(crate) look: Look,
    pub(crate) head: BlockRef,
    pub(crate) now: Instant,
    pub(crate) lanes: BTreeMap<Account, Pace>,
    /// Lanes that were just loaded, or that ask for it.
    pub(crate) asking: BTreeSet<Account>,
    pub(crate) mined: BTreeSet<Account>,
    /// What was known may not hold any more.
    pub(crate) all: bool,
}

impl Accounts {
    /// While the head stays: is it time to see whether somebody is due?
    pub(crate) fn may_be_due(&self, now: Instant) -> bool {
        !self.known.is_empty() && self.looked_at.is_none_or(|at| now.duration_since(at) >= LOOKED_EVERY)
    }

    /// Forgets who has gone, and says who is due.
    pub(crate) fn due(&mut self, reasons: &Reasons) -> Due {
        self.looked_at = Some(reasons.now);
        self.known.retain(|account, _| reasons.lanes.contains_key(account));
        let mut due = Due::default();
        for (account, pace) in &reasons.lanes {
            let known = self.known.get_mut(account);
            let mined = reasons.mined.contains(account);
            let (asked, code) = match known {
                None => (true, true),
                Some(known) => {
                    known.code.mined |= mined;
                    let asked = reasons.all
                        || mined
                        || reasons.asking.contains(account)
                        || known.is_old(*pace, reasons);
                    (asked, asked && known.code.is_old(reasons.now))
                }
            };
            due.accounts.extend(asked.then_some(*account));
            due.codes.extend(code.then_some(*account));
            let is_first = asked && *pace == Pace::Beginning && !self.is_agreed(account);
            due.first.extend(is_first.then_some(*account));
        }
        due
    }

    /// Takes what was answered, each in the order asked.
    pub(crate) fn take(&mut self, reasons: &Reasons, due: &Due, answers: Answers) {
        let mut balances = answers.balances.into_iter();
        for (account, count) in due.accounts.iter().zip(answers.counts) {
            let agreed = self.is_agreed(account);
            let code = self.known.remove(account).map(|known| known.code).unwrap_or_default();
            let balance = balances.next();
            let (at, read, delegated) = (reasons.head, reasons.look, code.delegated);
            let view = AccountView { count, balance, delegated, at, read, agreed };
            self.known.insert(*account, Known { account: view, asked_at: reasons.now, code });
        }
        for (account, delegated) in due.codes.iter().zip(answers.codes) {
            if let Some(known) = self.known.get_mut(account) {
                known.code.take(delegated, reasons.now);
                known.account.delegated = delegated;
            }
        }
        for (account, agreed) in due.first.iter().zip(answers.agreed) {
            if let Some(known) = self.known.get_mut(account) {
                known.account.agreed = agreed;
            }
        }
    }

    /// A second endpoint has said a count of its as well.
    fn is_agreed(&self, account: &Account) -> bool {
        self.known.get(account).is_some_and(|known| known.account.agreed)
    }

    /// What is known, as a view shows it.
    pub(crate) fn views(&self) -> BTreeMap<Account, AccountView> {
        self.known.iter().map(|(account, known)| (*account, known.account)).collect()
    }
}

impl Known {
    fn is_old(&self, pace: Pace, reasons: &Reasons) -> bool {
        let age = reasons.now.duration_since(self.asked_at);
        let every = match pace {
            Pace::Beginning if !self.account.agreed => return age >= BEGINNING_EVERY,
            Pace::Beginning | Pace::Giving => Duration::ZERO,
            Pace::Busy => BUSY_EVERY,
            Pace::Settling => OTHERS_EVERY,
            Pace::Resting => return false,
        };
        self.account.at != reasons.head && age >= every
    }
}

impl Code {
    fn is_old(&self, now: Instant) -> bool {
        let older = |at: Option<Instant>, than: Duration| at.is_none_or(|at| now.duration_since(at) >= than);
        older(self.read_at, CODE_EVERY)
            || (self.mined && older(self.read_when_mined_at, CODE_WHEN_MINED_EVERY))
    }

    fn take(&mut self, delegated: bool, now: Instant) {
        let read_when_mined_at = if self.mined { Some(now) } else { self.read_when_mined_at };
        *self = Self { delegated, read_at: Some(now), mined: false, read_when_mined_at };
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, B256};

    use super::*;

    static BEGUN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

    fn account(n: u8) -> Account {
        Account(Address::with_last_byte(n))
    }

    /// One account that is known since second 0, at head 0: is it due?
    struct Case {
        head: u8,
        second: u64,
        pace: Pace,
        asking: bool,
        mined: bool,
        all: bool,
    }

    impl Case {
        fn new(head: u8, second: u64, pace: Pace) -> Self {
            Self { head, second, pace, asking: false, mined: false, all: false }
        }

        fn look(&self, accounts: &mut Accounts) -> Due {
            let only = |wanted: bool| wanted.then_some(account(1)).into_iter().collect::<BTreeSet<_>>();
            let look = Reasons {
                look: Look(self.second),
                head: BlockRef { number: u64::from(self.head), hash: B256::with_last_byte(self.head) },
                now: *BEGUN + Duration::from_secs(self.second),
                lanes: BTreeMap::from([(account(1), self.pace)]),
                asking: only(self.asking),
                mined: only(self.mined),
                all: self.all,
            };
            let due = accounts.due(&look);
            let (asked, codes) = (due.accounts.len(), due.codes.len());
            let answers = Answers {
                counts: vec![Slot(7); asked],
                balances: vec![Wei::default(); asked],
                codes: vec![false; codes],
                agreed: vec![false; due.first.len()],
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
        use Pace::{Beginning, Busy, Giving, Resting, Settling};
        let cases = [
            (Case::new(0, 0, Beginning), false, "asked a moment ago"),
            (Case::new(0, 1, Beginning), true, "no second endpoint has said its first count"),
            (Case::new(0, 100, Giving), false, "the head is the same"),
            (Case::new(1, 0, Giving), true, "a slot is to be given"),
            (Case::new(0, 100, Busy), false, "the head is the same"),
            (Case::new(1, 0, Busy), false, "asked a moment ago"),
            (Case::new(1, 1, Busy), true, "a second ago"),
            (Case::new(1, 1, Settling), false, "nothing can change its count but a stranger"),
            (Case::new(1, 9, Settling), false, "in blocks"),
            (Case::new(1, 10, Settling), true, "in blocks for long"),
            (Case::new(1, 100, Resting), false, "at rest"),
            (Case { mined: true, ..Case::new(1, 0, Resting) }, true, "it is in a block"),
            (Case { asking: true, ..Case::new(0, 0, Resting) }, true, "it asks"),
            (Case { all: true, ..Case::new(1, 0, Resting) }, true, "another fork"),
        ];
        for (case, wanted, what) in cases {
            assert_eq!(case.is_due(), wanted, "{what}");
        }
    }

    #[test]
    fn an_answer_says_of_which_head_it_is_and_which_look_read_it() {
        let mut accounts = Accounts::default();
        Case::new(0, 1, Pace::Resting).look(&mut accounts);
        let shown = |accounts: &Accounts| {
            let view = accounts.views()[&account(1)];
            (view.at.number, view.read)
        };
        Case::new(1, 2, Pace::Resting).look(&mut accounts);
        assert_eq!(shown(&accounts), (0, Look(1)), "it was not asked about");
        Case::new(2, 3, Pace::Giving).look(&mut accounts);
        assert_eq!(shown(&accounts), (2, Look(3)));
        Case { asking: true, ..Case::new(2, 4, Pace::Resting) }.look(&mut accounts);
        assert_eq!(shown(&accounts), (2, Look(4)), "read again at the same head");
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
        assert_eq!(accounts.views().get(&account(1)).map(|account| account.count), Some(Slot(7)));
        let head = BlockRef { number: 0, hash: B256::ZERO };
        let (lanes, asking, mined) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let reasons = Reasons { look: Look(1), head, now: *BEGUN, lanes, asking, mined, all: false };
        assert_eq!(accounts.due(&reasons), Due::default());
        assert!(accounts.views().is_empty());
    }
}
