//! How many commands may wait: whoever asks for the same again and again while nothing is applied makes nothing quicker, and
//! would fill the store.
//!
//! | command | bound of its lane | bound of its transaction |
//! |---|---|---|
//! | speed-up, replace | yes | yes |
//! | replace on an older copy of the store | no: it is what an administrator does, and nothing that waits is heard yet | yes |
//! | cancel | no: it finds a place whatever else waits | yes |
//! | what operators, approvers and the server itself ask for | no | no |

use std::mem::discriminant;

use landfall_core::LaneId;
use landfall_core::ports::store::{Command, CommandKind};

use crate::admission::Refused;

/// So many commands of a lane may wait to be applied.
pub(crate) const MOST_COMMANDS: u32 = 1_000;
/// So many of one kind about one transaction.
const MOST_ALIKE: usize = 16;

/// Every submitter can ask for it.
pub(crate) fn is_bounded(kind: &CommandKind) -> bool {
    match kind {
        CommandKind::SpeedUp { .. } | CommandKind::Replace { .. } | CommandKind::Cancel { .. } => true,
        CommandKind::Withdraw { .. }
        | CommandKind::Approve { .. }
        | CommandKind::Reject { .. }
        | CommandKind::Settle { .. }
        | CommandKind::Pause
        | CommandKind::Resume
        | CommandKind::AcceptStore { .. }
        | CommandKind::Disable
        | CommandKind::CancelAll { .. }
        | CommandKind::Fill { .. }
        | CommandKind::Reset => false,
    }
}

/// Says no to one more beside those that wait. `is_older`: the store is an older copy of itself that nobody has accepted yet.
pub(crate) fn has_room(
    lane: LaneId,
    kind: &CommandKind,
    open: &[Command],
    is_older: bool,
) -> Result<(), Refused> {
    let Some(tx) = kind.tx().filter(|_| is_bounded(kind)) else { return Ok(()) };
    let fills = match kind {
        CommandKind::Cancel { .. } => false,
        CommandKind::Replace { .. } => !is_older,
        _ => true,
    };
    if fills && open.len() >= MOST_COMMANDS as usize {
        return Err(Refused::LaneHasCommands { lane, open: open.len() });
    }
    let is_alike = |command: &&Command| {
        command.kind.tx() == Some(tx) && discriminant(&command.kind) == discriminant(kind)
    };
    let alike = open.iter().filter(is_alike).count();
    if alike >= MOST_ALIKE {
        return Err(Refused::TxHasCommands { tx, open: alike });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;
    use landfall_core::request::AskedFees;
    use landfall_core::transaction::Terms;
    use landfall_core::{Account, ChainId, CommandId, Millis, TxId};

    use super::*;

    const LANE: LaneId = LaneId { chain: ChainId(1), signer: Account(Address::ZERO) };

    fn open(kind: &CommandKind, count: u128) -> Vec<Command> {
        let one = |number| Command {
            id: CommandId::new(Millis(1), number),
            lane: LANE,
            kind: kind.clone(),
            at: Millis(1),
            by: None,
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn the_same_wish_again_and_again_is_refused_and_a_cancel_still_finds_a_place() {
        let (tx, other) = (TxId::new(Millis(1), 1), TxId::new(Millis(1), 2));
        let speed_up = |tx| CommandKind::SpeedUp { tx, fees: AskedFees::Market, speed: None };
        let (own, cancel) = (speed_up(tx), CommandKind::Cancel { tx });
        assert_eq!(has_room(LANE, &own, &open(&own, 15), false), Ok(()));
        let refused = has_room(LANE, &own, &open(&own, 16), false).unwrap_err();
        assert_eq!(refused, Refused::TxHasCommands { tx, open: 16 });
        assert_eq!(has_room(LANE, &cancel, &open(&own, 16), false), Ok(()), "another kind");
        let crowded = open(&speed_up(other), 1_000);
        let refused = has_room(LANE, &own, &crowded, false).unwrap_err();
        assert_eq!(refused, Refused::LaneHasCommands { lane: LANE, open: 1_000 });
        for kind in [cancel.clone(), CommandKind::Pause, CommandKind::Withdraw { tx }] {
            assert_eq!(has_room(LANE, &kind, &crowded, false), Ok(()), "{kind:?}");
        }
        assert!(has_room(LANE, &cancel, &open(&cancel, 16), false).is_err());
    }

    #[test]
    fn on_an_older_copy_what_submitters_ask_for_keeps_no_replacement_out() {
        let (tx, other) = (TxId::new(Millis(1), 1), TxId::new(Millis(1), 2));
        let replace = CommandKind::Replace { tx, payload: Box::default(), terms: Terms::default() };
        for waits in [
            CommandKind::SpeedUp { tx: other, fees: AskedFees::Market, speed: None },
            CommandKind::Cancel { tx: other },
        ] {
            let crowded = open(&waits, 1_000);
            assert_eq!(has_room(LANE, &replace, &crowded, true), Ok(()), "{waits:?}");
            assert!(has_room(LANE, &replace, &crowded, false).is_err(), "{waits:?}");
        }
        assert!(has_room(LANE, &replace, &open(&replace, 16), true).is_err());
    }
}
