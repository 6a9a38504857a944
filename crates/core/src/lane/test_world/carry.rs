//! Carries actions out, well or badly, and makes their answers.

use super::play::{Fault, World};
use super::seal;
use crate::Gas;
use crate::attempt::{Draft, Sealed};
use crate::lane::{Action, LaneEvent, Outgoing, Pooled, PrepareTarget, Prepared, Sent};
use crate::outcome::{SendOutcome, SendReport};
use crate::ports::chain::EstimateFailure;
use crate::ports::signer;

impl World {
    pub(in super::super) fn act(&mut self, action: Action, fault: &Fault) -> LaneEvent {
        match action {
            Action::Load { limit, taken } => match fault {
                Fault::NotDone | Fault::AnswerLost => LaneEvent::LoadFailed,
                _ => LaneEvent::Loaded(self.desk.store.load(limit, &taken)),
            },
            Action::Prepare(jobs) => LaneEvent::Prepared(
                jobs.into_iter()
                    .map(|job| Prepared { target: job.target, result: self.estimate(job.target, fault) })
                    .collect(),
            ),
            Action::Sign(drafts) => LaneEvent::Signed(
                drafts
                    .into_iter()
                    .enumerate()
                    .map(|(index, draft)| {
                        let result = self.sign(index, &draft, fault);
                        (draft, result)
                    })
                    .collect(),
            ),
            Action::Send(outgoing) => {
                LaneEvent::Sent(outgoing.into_iter().map(|one| self.send(one, fault)).collect())
            }
            Action::Look(wanted) => {
                let (slots, hashes): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
                let found = match fault {
                    Fault::NotDone | Fault::AnswerLost => Vec::new(),
                    _ => self.chain.receipts(&hashes.concat()),
                };
                LaneEvent::Looked { slots, found }
            }
            Action::Second(given) => {
                let answer = |(slot, receipt): (crate::Slot, crate::view::Receipt)| {
                    let word = self.chain.second.clone();
                    (slot, receipt, word.unwrap_or(crate::witness::SecondWord::Same))
                };
                LaneEvent::Second(given.into_iter().map(answer).collect())
            }
            Action::Follow(asked) => match fault {
                Fault::NotDone | Fault::AnswerLost => LaneEvent::FollowFailed { asked },
                _ => {
                    let statuses = asked.iter().filter_map(|id| {
                        let tx = self.desk.store.txs.get(id)?;
                        Some((*id, tx.status.clone()))
                    });
                    LaneEvent::Followed { statuses: statuses.collect(), asked }
                }
            },
            Action::Probe(wanted) => {
                let pooled = |(slot, hash): (crate::Slot, crate::TxHash)| Pooled {
                    slot,
                    hash,
                    shown: match fault {
                        Fault::NotDone | Fault::AnswerLost => None,
                        _ => Some(self.chain.shows(&hash)),
                    },
                };
                LaneEvent::Pooled(wanted.into_iter().map(pooled).collect())
            }
            Action::Prove(proof) => match (fault, self.chain.winner(proof.slot)) {
                (Fault::None, Some((block, winner)))
                    if winner.draft.is_none() && block.at.number <= proof.up_to =>
                {
                    LaneEvent::Foreign {
                        slot: proof.slot,
                        block: block.at,
                        taker: self.chain.takers.get(&proof.slot).cloned(),
                    }
                }
                _ => LaneEvent::Unproven { slot: proof.slot },
            },
        }
    }

    fn estimate(&mut self, target: PrepareTarget, fault: &Fault) -> Result<Gas, EstimateFailure> {
        let text = "as the step says".to_owned();
        let lets_others_first =
            matches!(fault, Fault::AnswerLost | Fault::NotDone | Fault::Funds | Fault::Never);
        if let (PrepareTarget::Tx(id, _), true) = (target, lets_others_first) {
            self.overtaken.insert(id);
        }
        match fault {
            Fault::AnswerLost | Fault::NotDone => Err(EstimateFailure::Unavailable { text }),
            Fault::Funds => Err(EstimateFailure::InsufficientFunds { text }),
            Fault::Never => Err(EstimateFailure::Reverted { reason: text }),
            Fault::None | Fault::Silent | Fault::Says { .. } => Ok(self.chain.gas),
        }
    }

    /// In a batch every second signature fails, so that batches are cut in the middle.
    fn sign(&mut self, index: usize, draft: &Draft, fault: &Fault) -> Result<Sealed, signer::Error> {
        let text = "as the step says".to_owned();
        let failed = match fault {
            Fault::AnswerLost | Fault::NotDone => Some(signer::Error::Unavailable(text)),
            Fault::Never if !draft.no_op => Some(signer::Error::Refused(text)),
            _ => None,
        };
        if let Some(error) = failed.filter(|_| index.is_multiple_of(2)) {
            self.overtaken.extend(draft.tx);
            return Err(error);
        }
        let sealed = seal(draft);
        self.chain.know(draft, &sealed);
        Ok(sealed)
    }

    fn send(&mut self, one: Outgoing, fault: &Fault) -> Sent {
        let outcome = match fault {
            Fault::None | Fault::Never | Fault::Funds => self.chain.send(&one.sealed),
            Fault::AnswerLost => {
                self.chain.send(&one.sealed);
                SendOutcome::Unknown
            }
            Fault::NotDone => SendOutcome::Unknown,
            Fault::Silent => SendOutcome::Accepted,
            Fault::Says { outcome, taken } => {
                if *taken {
                    self.chain.send(&one.sealed);
                }
                *outcome
            }
        };
        let report = SendReport { outcome, endpoint: "node".into(), code: None, text: None, latency_ms: 1 };
        Sent { slot: one.slot, hash: one.sealed.hash, report }
    }
}
