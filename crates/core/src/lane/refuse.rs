//! Refuse: a node says that bytes can never land (invalid, reverted, never includable).
//!
//! That begins the end of a transaction only where nobody can have it: it is the answer to the first send of this content, by
//! the load that signed it. Any other no may come from a node that has the bytes, or beside one that has them, and an
//! error on a re-send ends nothing. So the pools are asked:
//!
//! | what is known | what happens |
//! |---|---|
//! | some node took it, or shows it | the same bytes go on being sent; only its caller can end it |
//! | for a whole resubmit interval nobody took it, and then nobody shows it | its slot gets a no-op, so that a crash before the first answer was stored does not keep the lane waiting for ever |
//! | a send was not answered meanwhile | the interval begins again |

use super::{Lane, SlotRecord};
use crate::outcome::{SendOutcome, SendReport};
use crate::transaction::{Ending, Reason, ReasonCode, Transaction, TxState};
use crate::{ContentVersion, Millis, Slot, TxHash};

/// A content that nodes refuse, though one of them may have it.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    since: Millis,
    version: ContentVersion,
    reason: Reason,
}

impl Refused {
    /// The refusal is of another content than this one.
    pub(super) fn is_of_another(&self, version: ContentVersion) -> bool {
        self.version != version
    }
}

impl Lane {
    /// A node refused the newest content of a transaction for good. `is_first`: nothing was known of sends of these bytes.
    pub(super) fn take_refusal(
        &mut self,
        slot: Slot,
        hash: TxHash,
        is_first: bool,
        report: &SendReport,
        now: Millis,
    ) {
        let always = self.planted_refusal(slot, now);
        let Some(record) = self.slots.get_mut(&slot) else { return };
        let Some(version) = record.attempts.iter().find(|a| a.hash == hash).map(|attempt| attempt.version)
        else {
            return;
        };
        let Some(id) = record.tx else { return };
        let reason = reason(report);
        let nobody_has_it = is_first && is_first_send(record, hash, version);
        if nobody_has_it || always {
            self.begin_ending(id, Ending::Fail(reason), now);
            return;
        }
        let refused = record.work.refused.get_or_insert(Refused { since: now, version, reason });
        refused.version = version;
        record.work.probe_at.get_or_insert(now);
    }

    /// The pools were asked for every attempt of a refused content. `absent`: all who were asked show none.
    pub(super) fn judge_refused(&mut self, slot: Slot, absent: bool, now: Millis) {
        let resubmit = self.settings.resubmit_after;
        let passed = self.chain_count().is_none_or(|count| slot < count);
        let Some(record) = self.slots.get_mut(&slot) else { return };
        let Some(refused) = record.work.refused.clone() else { return };
        let tx = record.tx.and_then(|id| self.bound.get(&id)).filter(|tx| tx.version() == refused.version);
        let Some(tx) = tx else {
            record.work.refused = None;
            return;
        };
        let decided_at = refused.since.after(resubmit);
        let may_end = absent && !passed && record.mined.is_none() && !was_taken(record, tx);
        if may_end && decided_at <= now {
            let id = tx.id;
            record.work.refused = None;
            self.begin_ending(id, Ending::Fail(refused.reason), now);
        } else if decided_at > now && absent {
            record.work.probe_at = Some(decided_at);
        }
    }

    /// The sentence for people.
    pub(super) fn explain_refused(
        &self,
        record: &SlotRecord,
        tx: &Transaction,
        now: Millis,
    ) -> Option<String> {
        let refused = record.work.refused.as_ref().filter(|_| tx.status.ending.is_none())?;
        let left = refused.since.after(self.settings.resubmit_after).since(now);
        let then = if was_taken(record, tx) {
            "a node had taken it before, so the same bytes go on being sent; cancel it if it is not to land"
                .to_owned()
        } else {
            let left = super::explain::span(left);
            format!(
                "a node may have it all the same; if none shows it within {left}, a no-op takes its place"
            )
        };
        Some(format!("{}; {then}; ", refused.reason.text))
    }
}

/// Nothing of this content went out before, and all of it was signed since the load.
fn is_first_send(record: &SlotRecord, hash: TxHash, version: ContentVersion) -> bool {
    let Some(made_from) = record.work.made_from else { return false };
    let mut of_content = record.attempts.iter().filter(|attempt| attempt.version == version);
    of_content
        .all(|attempt| attempt.ordinal >= made_from && (attempt.hash == hash || attempt.hints.sends == 0))
}

/// Some node said that it has the newest content, or it was in a block. Hints may be lost in a crash; what the transaction
/// says of itself was stored too, and speaks of this content where there is no other.
fn was_taken(record: &SlotRecord, tx: &Transaction) -> bool {
    let version = tx.version();
    let hinted = |attempt: &crate::attempt::Attempt| attempt.version == version && attempt.hints.accepted;
    let alone = record.attempts.iter().all(|attempt| attempt.version == version);
    record.attempts.iter().any(hinted)
        || (alone && matches!(tx.status.state, TxState::Broadcast | TxState::Mined))
}

fn reason(report: &SendReport) -> Reason {
    let said = report.text.as_deref().unwrap_or(report.outcome.name());
    let code =
        if report.outcome == SendOutcome::Reverted { ReasonCode::WouldRevert } else { ReasonCode::Invalid };
    Reason { code, text: format!("{} refused it: {said}", report.endpoint) }
}
