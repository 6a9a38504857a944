//! What this process remembers of the lanes it had: enough to tell, when it has one again, that nobody else had it or wrote it in
//! between. Then what the chain has used meanwhile cannot be ours (L3).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use landfall_core::ports::store::LaneRecord;
use landfall_core::view::BlockRef;
use landfall_core::{LaneId, LaneVersion, Token};

/// A lane as this process last had it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Had {
    pub(crate) token: Token,
    pub(crate) version: LaneVersion,
    /// A commit may have landed whose answer was lost.
    pub(crate) unsure: bool,
    /// The head at which everything was accounted for; none if it never was.
    pub(crate) accounted_at: Option<BlockRef>,
}

#[derive(Default)]
pub(crate) struct Remembered(Mutex<BTreeMap<LaneId, Had>>);

impl Remembered {
    pub(crate) fn ended(&self, lane: LaneId, had: Had) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(lane, had);
    }

    /// The head at which everything was accounted for, if nobody else had the lane since: it is held under the token of before or the very
    /// next one, and every version is ours.
    pub(crate) fn accounted_at(&self, record: &LaneRecord) -> Option<BlockRef> {
        let had = *self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&record.lane)?;
        let same_token = record.token == had.token || record.token.0.checked_sub(1) == Some(had.token.0);
        let more = record.version.0.checked_sub(had.version.0);
        let same_version = more == Some(0) || (had.unsure && more == Some(1));
        had.accounted_at.filter(|_| same_token && same_version)
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, B256};
    use landfall_core::ports::store::LaneRow;
    use landfall_core::{Account, ChainId};

    use super::*;

    const LANE: LaneId = LaneId { chain: ChainId(7), signer: Account(Address::repeat_byte(0xaa)) };
    const HEAD: BlockRef = BlockRef { number: 9, hash: B256::repeat_byte(9) };

    fn record(token: u64, version: u64) -> LaneRecord {
        LaneRecord {
            lane: LANE,
            token: Token(token),
            version: LaneVersion(version),
            row: LaneRow::default(),
            bound: Vec::new(),
            ended: Vec::new(),
            attempts: Vec::new(),
            highest_signed: None,
            older: None,
        }
    }

    #[test]
    fn a_lane_is_the_same_if_its_token_is_the_next_and_its_version_the_last() {
        let remembered = Remembered::default();
        let knows = |token, version| remembered.accounted_at(&record(token, version)) == Some(HEAD);
        assert!(!knows(6, 3), "it was never here");
        let had = Had { token: Token(5), version: LaneVersion(3), unsure: false, accounted_at: Some(HEAD) };
        remembered.ended(LANE, had);
        let cases = [
            (6, 3, true, "given back, and taken again"),
            (5, 3, true, "loaded again"),
            (7, 3, false, "somebody else had it"),
            (6, 4, false, "somebody else wrote it"),
            (6, 2, false, "an older copy of the store"),
            (4, 3, false, "an older copy of the store"),
        ];
        for (token, version, wanted, what) in cases {
            assert_eq!(knows(token, version), wanted, "{what}");
        }
        remembered.ended(LANE, Had { unsure: true, ..had });
        assert!(knows(6, 3) && knows(6, 4) && !knows(6, 5), "its own commit may have landed");
        remembered.ended(LANE, Had { accounted_at: None, ..had });
        assert!(!knows(6, 3), "not everything was known then");
    }
}
