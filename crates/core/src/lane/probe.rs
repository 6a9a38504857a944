//! Probe: does the pool still have what it took? (C5, C7)
//!
//! A node may say yes and keep nothing, or evict later without a word. So after a yes the lowest open slots are looked up
//! by hash, soon at first and then less and less often, all in one question. What nobody shows is sent again at once,
//! long before the resubmit interval ends. That is all that absence means: a node may not show what it has. Where nodes
//! refuse a content, all of its attempts are looked up ([`super::refuse`]); where they refuse a price, it is too low if nobody
//! shows the bytes ([`super::cheap`]).

use std::collections::BTreeMap;

use super::cheap::Cheap;
use super::keep::current;
use super::{Action, Lane, Plan, SlotWork, back_off};
use crate::{Millis, Slot, TxHash};

/// How many of the lowest open slots are looked up: none above them can land first.
const LOWEST: usize = 4;
const FIRST_MS: u64 = 2_000;

/// One pooled byte string, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pooled {
    pub slot: Slot,
    pub hash: TxHash,
    /// None: nobody could be asked.
    pub shown: Option<bool>,
}

impl Lane {
    /// Some node has the newest bytes: they are looked up after a while, unless they are to be sent again before that.
    pub(super) fn probe_later(work: &mut SlotWork, resubmit: std::time::Duration, now: Millis) {
        let most = u64::try_from(resubmit.as_millis()).unwrap_or(u64::MAX);
        let pause = back_off(work.probes, FIRST_MS, most);
        work.probe_at = (pause < resubmit).then(|| now.after(pause));
    }

    pub(super) fn plan_probe(&mut self, plan: &mut Plan, now: Millis) {
        let Some(count) = self.chain_count().filter(|_| self.may_send()) else { return };
        let open = self.slots.each_mut(count..).filter(|(_, record)| record.mined.is_none());
        let mut due = Vec::new();
        for (slot, record) in open.take(LOWEST) {
            let Some(sent) = current(&self.reopened, record) else { continue };
            let (hash, version) = (sent.hash, sent.version);
            let work = &mut record.work;
            let Some(at) = work.probe_at else { continue };
            if work.probing || work.sending {
                continue;
            }
            if at > now {
                plan.wake(at);
                continue;
            }
            work.probing = true;
            due.push((*slot, hash));
            if work.refused.is_some() {
                // A node may have any of its content.
                let others = record.attempts.iter().filter(|a| a.version == version && a.hash != hash);
                due.extend(others.map(|attempt| (*slot, attempt.hash)));
            }
        }
        if !due.is_empty() {
            plan.actions.push(Action::Probe(due));
        }
    }

    pub(super) fn take_pooled(&mut self, answers: Vec<Pooled>, now: Millis) {
        let resubmit = self.settings.resubmit_after;
        let mut refused: BTreeMap<Slot, bool> = BTreeMap::new();
        for Pooled { slot, hash, shown } in answers {
            let Some(record) = self.slots.get_mut(&slot) else { continue };
            let is_current = current(&self.reopened, record).is_some_and(|attempt| attempt.hash == hash);
            let work = &mut record.work;
            work.probing = false;
            if work.refused.is_some() {
                *refused.entry(slot).or_insert(true) &= shown == Some(false);
            }
            if shown == Some(true)
                && let Some(attempt) = record.attempts.iter_mut().find(|attempt| attempt.hash == hash)
                && !attempt.hints.accepted
            {
                attempt.hints.accepted = true;
                self.changes.attempt_hint(slot, attempt.ordinal, false, now);
            }
            if !is_current {
                // Newer bytes have a probe of their own.
                continue;
            }
            work.probes = work.probes.saturating_add(1);
            let in_doubt = work.cheap == Cheap::InDoubt;
            match shown {
                Some(true) if in_doubt => {
                    // The node that refused it has it, or another: the next send is a re-send as any other.
                    work.cheap = Cheap::No;
                    work.unclear_sends = 0;
                    work.send_at = now.after(resubmit);
                    Self::probe_later(work, resubmit, now);
                }
                Some(true) | None => Self::probe_later(work, resubmit, now),
                Some(false) => {
                    work.probe_at = None;
                    if in_doubt {
                        work.is_cheap(now);
                    } else if work.refused.is_none() {
                        work.send_at = work.send_at.min(now);
                        self.planted_probe(slot, now);
                    }
                }
            }
        }
        for (slot, absent) in refused {
            self.judge_refused(slot, absent, now);
        }
    }
}
