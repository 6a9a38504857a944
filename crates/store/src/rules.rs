//! What holds in every adapter, wherever the rows live: the order in which a group is applied, which transactions
//! wait or are bound, and what makes an admission a replay.
//!
//! An admission is looked for by its key, then by its id, then by its caller's nonce: a key that is known says what is meant,
//! whatever nonce comes with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_core::ports::store::{Admission, Command, Kept, TxUpdate, Write};
use landfall_core::request::NewTransaction;
use landfall_core::transaction::{Status, Transaction};
use landfall_core::{CommandId, LaneId, Millis, QueueOrder, SessionId, Slot, TxId};

/// So many commands a step of forgetting removes because of their age.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) const COMMANDS_AT_ONCE: i64 = 1_000;

/// How far a transaction is, as the store's look-ups need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Without a slot, and not ended.
    Waiting,
    /// With a slot, and not ended: nobody else may have that slot.
    Bound,
    /// Ended.
    Done,
}

impl Phase {
    /// The phase a status stands for. A status that is none of them would be found by no look-up, and so be lost:
    /// it is refused instead.
    pub(crate) fn of(status: &Status) -> Result<Self, String> {
        if status.state.is_terminal() {
            return Ok(Self::Done);
        }
        match status.slot {
            Some(_) => Ok(Self::Bound),
            None if status.state.is_waiting() => Ok(Self::Waiting),
            None => Err(format!("a transaction cannot be {} without a slot", status.state.name())),
        }
    }
}

/// The order in which the writes of a group are applied: as given, with lanes last and in lane order, so that two
/// groups never wait for each other's lanes crosswise.
pub(crate) fn order(group: &[Write]) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..group.len()).collect();
    indices.sort_by_key(|&index| group.get(index).and_then(lane_of));
    indices
}

fn lane_of(write: &Write) -> Option<LaneId> {
    match write {
        Write::Lane(commit) => Some(commit.lane),
        Write::Admit(_) | Write::Command(_) | Write::Chain(_) | Write::Forget(_) => None,
    }
}

/// What a commit leaves each transaction at: the last update of each counts.
pub(crate) fn last_updates(updates: &[TxUpdate]) -> Vec<(TxId, &Status)> {
    let all = updates.iter().map(|update| (update.id, update.status.as_ref()));
    // A lane gives them in the order of their ids, each once.
    if updates.is_sorted_by(|one, next| one.id < next.id) {
        return all.collect();
    }
    all.collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// A transaction as it is just after its admission.
pub(crate) fn admitted(new: &NewTransaction, order: QueueOrder) -> Transaction {
    Transaction {
        id: new.id,
        lane: new.lane,
        order,
        request: Arc::new(new.request.clone()),
        status: Status::accepted(new.request.accepted_at),
    }
}

/// Does an admission under a known key ask for what exists?
pub(crate) fn asks_the_same(existing: &Transaction, new: &NewTransaction) -> bool {
    existing.request.fingerprint == new.request.fingerprint
}

/// Is an admission under a known id the same admission, made again because its answer was lost?
pub(crate) fn is_again(existing: &Transaction, new: &NewTransaction) -> bool {
    existing.lane == new.lane
        && existing.request.request_id == new.request.request_id
        && asks_the_same(existing, new)
}

/// What an admission with the nonce of a known call is told.
pub(crate) fn under_nonce(existing: Transaction, new: &NewTransaction) -> Admission {
    Admission::under_nonce(existing, new.request.request_id.as_ref(), &new.request.payload)
}

/// What an admission with the nonce of a call whose transaction was removed is told.
pub(crate) fn kept_under_nonce(kept: Kept, new: &NewTransaction) -> Admission {
    Admission::under_kept_nonce(kept, new.request.request_id.as_ref(), &new.request.payload)
}

/// What an admission under the key of a removed transaction is told.
pub(crate) fn kept_under_key(kept: Kept, new: &NewTransaction) -> Admission {
    if kept.fingerprint == new.request.fingerprint {
        Admission::Removed(kept)
    } else {
        Admission::Conflict(kept.id)
    }
}

/// What an admission under the id of a removed transaction is told; an error where it is another request.
pub(crate) fn kept_under_id(kept: Kept, new: &NewTransaction) -> Result<Admission, String> {
    let again = kept.lane == new.lane
        && kept.request_id == new.request.request_id
        && kept.fingerprint == new.request.fingerprint;
    if again { Ok(Admission::Removed(kept)) } else { Err(id_taken(kept.id)) }
}

/// A lane that no command is for, while a store is accepted.
pub(crate) fn untold(lanes: impl IntoIterator<Item = LaneId>, commands: &[Command]) -> Option<LaneId> {
    let told: BTreeSet<LaneId> = commands.iter().map(|command| command.lane).collect();
    lanes.into_iter().find(|lane| !told.contains(lane))
}

/// Is a transaction so long finished that its history may go?
pub(crate) fn may_go(tx: &Transaction, before: Millis) -> bool {
    tx.status.state.is_terminal() && tx.status.updated_at < before
}

/// Those accepted later were accepted no earlier: from the first that is young enough to stay, all are.
pub(crate) fn is_young(tx: &Transaction, before: Millis) -> bool {
    tx.request.accepted_at >= before
}

/// Why an admission under a known id that is not the same one is refused.
pub(crate) fn id_taken(id: TxId) -> String {
    format!("transaction id {id} already stands for another request")
}

/// Why a write that names a transaction the lane does not have is refused.
pub(crate) fn no_such_tx(lane: LaneId, id: TxId) -> String {
    format!("lane {lane} has no transaction {id}")
}

/// Why a change to a transaction that has ended is refused: an end is for ever. Only what the chain shows of it (its
/// receipt) may change, when the chain takes a block back; its state and its slot stay.
pub(crate) fn has_ended(id: TxId) -> String {
    format!("transaction {id} has ended and stays as it is")
}

/// Why a hint about bytes that were never stored is refused.
pub(crate) fn no_such_attempt(lane: LaneId, slot: Slot, ordinal: u32) -> String {
    format!("lane {lane} has no attempt {ordinal} in slot {slot}")
}

/// Why a command that was never inserted cannot be done.
pub(crate) fn no_such_command(lane: LaneId, id: CommandId) -> String {
    format!("lane {lane} has no command {id}")
}

/// Why a session that is not open cannot take a lane.
pub(crate) fn session_ended(session: SessionId) -> String {
    format!("session {session} has ended, or was never opened; open a new one")
}
