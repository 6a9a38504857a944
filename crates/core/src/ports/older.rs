//! A store that went back: an older copy of it was put in its place. What it has forgotten may have been sent.

use serde::{Deserialize, Serialize};

use crate::JournalSeq;

/// Why a store is taken for an older copy of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Older {
    /// Its journal ends before the number that the mark beside it has.
    Behind { journal: JournalSeq, mark: JournalSeq },
    /// The mark beside it was written for another line of stores.
    OtherLine,
    /// There is no mark beside it, although there was one.
    NoMark,
    /// The mark beside it says nothing that can be read.
    BadMark,
    /// The database is in another place than the one that is stored in it.
    Elsewhere,
    /// A person said so.
    Said,
    /// A person has accepted it, and a lane is comparing what it has forgotten with what waits. Of a store: lanes that it has never used are
    /// compared when they are first loaded.
    Accepted,
}

impl Older {
    /// Why a store is an older copy that nobody has accepted yet, by what is stored.
    #[must_use]
    pub fn unaccepted(stored: Option<Self>) -> Option<Self> {
        stored.filter(|why| *why != Self::Accepted)
    }

    /// Why a lane is one of an older copy, by what is stored: `awaits` a word for it that is not followed yet, or was never used.
    #[must_use]
    pub fn of_lane(stored: Option<Self>, awaits: bool, was_used: bool) -> Option<Self> {
        match stored {
            Some(Self::Accepted) | None if awaits => Some(Self::Accepted),
            Some(Self::Accepted) if was_used => None,
            stored => stored,
        }
    }

    /// The sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Behind { journal, mark } => format!(
                "the store is an older copy: its journal ends at number {journal}, and it had reached {mark}"
            ),
            Self::OtherLine => {
                "the store is not the one that was here before: the mark beside its file belongs to another".to_owned()
            }
            Self::NoMark => {
                "the store may be an older copy: the mark beside its file is missing, which a file that is copied or \
                 put back does not have"
                    .to_owned()
            }
            Self::BadMark => {
                "the store may be an older copy: the mark beside its file cannot be read".to_owned()
            }
            Self::Elsewhere => {
                "the store may be an older copy: the database is not where it was, so it was restored, or moved".to_owned()
            }
            Self::Said => "the store is an older copy: an operator said so (`landfall store older`)".to_owned(),
            Self::Accepted => "the store is an older copy, and an operator accepted it; what used the nonces that it does not know is \
                 being compared with what waits, so that nothing is done twice"
                .to_owned(),
        }
    }
}
