//! Doing what a plan asks for. Each action ends in one event; if it is lost (a panic in a library), the event it leaves
//! behind is the cautious one, so a lane never waits for an answer that cannot come. What takes long is a task.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use landfall_core::attempt::Draft;
use landfall_core::lane::{Action, LaneEvent, Loaded, Outgoing, Pooled, PrepareJob, Prepared, Sent};
use landfall_core::outcome::{SendOutcome, SendReport};
use landfall_core::ports::chain::{Chain, Codec, Error as ChainError, EstimateFailure};
use landfall_core::ports::signer;
use landfall_core::view::{BlockRef, Receipt, Standing};
use landfall_core::witness::SecondWord;
use landfall_core::{CommandId, LaneId, Slot, TxHash, TxId};

use crate::mailbox::Mailbox;
use crate::prove::prove;
use crate::supervisor::Shared;
use crate::telemetry::{Fact, ReceiptCheck};

/// At most this many commands are read at once.
pub(crate) const COMMANDS: u32 = 256;

/// At most this many are read from behind a queue at once.
const HURRIED: usize = 32;

/// The one answer of an action: given, or made up when the task ends without one.
struct Answer {
    mailbox: Arc<Mailbox>,
    otherwise: Option<LaneEvent>,
}

impl Answer {
    fn give(mut self, event: LaneEvent) {
        self.otherwise = Some(event);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(event) = self.otherwise.take() {
            self.mailbox.answer(event);
        }
    }
}

pub(crate) fn start(shared: &Arc<Shared>, lane: LaneId, action: Action, mailbox: Arc<Mailbox>) {
    let answer = Answer { mailbox, otherwise: Some(otherwise(&action)) };
    let Some(chain) = shared.parts.chains.get(&lane.chain).map(|parts| parts.chain.clone()) else { return };
    let is_signing = matches!(action, Action::Sign(_));
    let mut work = work(shared.clone(), chain, lane, action, answer.mailbox.clone());
    // A few signatures by a key in this process are there at once, and need no task.
    if is_signing {
        let mut now = Context::from_waker(Waker::noop());
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut now))) {
            Ok(Poll::Ready(event)) => return answer.give(event),
            Ok(Poll::Pending) => {}
            Err(_) => return,
        }
    }
    shared.tasks.spawn(async move { answer.give(work.await) });
}

type Work = Pin<Box<dyn Future<Output = LaneEvent> + Send>>;

/// What is to be done. Each kind is kept apart, since they differ in size: a task is copied where it is started.
fn work(
    shared: Arc<Shared>,
    chain: Arc<dyn Chain>,
    lane: LaneId,
    action: Action,
    mailbox: Arc<Mailbox>,
) -> Work {
    match action {
        Action::Load { limit, taken } => {
            Box::pin(async move { load(&shared, lane, limit, &taken, &mailbox).await })
        }
        Action::Prepare(jobs) => Box::pin(async move { prepare(chain.as_ref(), jobs).await }),
        Action::Sign(drafts) => Box::pin(async move { sign(&shared, chain.as_ref(), lane, drafts).await }),
        Action::Send(outgoing) => Box::pin(async move { send(&shared, chain.as_ref(), outgoing).await }),
        Action::Look(slots) => Box::pin(async move { look(&shared, chain.as_ref(), slots).await }),
        Action::Second(given) => Box::pin(async move { second(chain.as_ref(), given).await }),
        Action::Prove(proof) => Box::pin(async move { prove(chain.as_ref(), lane, proof).await }),
        Action::Follow(ids) => Box::pin(async move { follow(&shared, lane, ids).await }),
        Action::Probe(wanted) => Box::pin(async move { probe(chain.as_ref(), wanted).await }),
    }
}

/// What is said of an action whose task was lost.
fn otherwise(action: &Action) -> LaneEvent {
    let lost = || "the task that did it was lost".to_owned();
    match action {
        Action::Load { .. } => LaneEvent::LoadFailed,
        Action::Prepare(jobs) => {
            let failed = |job: &PrepareJob| Prepared {
                target: job.target,
                result: Err(EstimateFailure::Unavailable { text: lost() }),
            };
            LaneEvent::Prepared(jobs.iter().map(failed).collect())
        }
        Action::Sign(drafts) => {
            let failed = |draft: &Draft| (draft.clone(), Err(signer::Error::Unavailable(lost())));
            LaneEvent::Signed(drafts.iter().map(failed).collect())
        }
        Action::Send(outgoing) => LaneEvent::Sent(outgoing.iter().map(|out| unknown(out, &lost())).collect()),
        Action::Second(given) => {
            let lacking = || SecondWord::Lacking { waited: Duration::ZERO, why: lost() };
            LaneEvent::Second(
                given.iter().map(|(slot, receipt)| (*slot, receipt.clone(), lacking())).collect(),
            )
        }
        Action::Prove(proof) => LaneEvent::Unproven { slot: proof.slot },
        Action::Follow(ids) => LaneEvent::FollowFailed { asked: ids.clone() },
        Action::Probe(wanted) => pooled(wanted, |_| None),
        Action::Look(slots) => LaneEvent::LookFailed { slots: slots.iter().map(|(slot, _)| *slot).collect() },
    }
}

fn unknown(out: &Outgoing, text: &str) -> Sent {
    Sent {
        slot: out.slot,
        hash: out.sealed.hash,
        report: SendReport {
            outcome: SendOutcome::Unknown,
            endpoint: String::new(),
            code: None,
            text: Some(text.to_owned()),
            latency_ms: 0,
        },
    }
}

/// Commands that were taken are left out: those that wait for long must not hide one that would free them.
pub(crate) async fn load(
    shared: &Shared,
    lane: LaneId,
    limit: u32,
    taken: &BTreeSet<CommandId>,
    mailbox: &Mailbox,
) -> LaneEvent {
    let store = shared.parts.store.as_ref();
    let may_have_commands = mailbox.may_have_commands();
    let read = async {
        let commands = match may_have_commands {
            true => store.open_commands(lane, taken, COMMANDS).await?,
            false => Vec::new(),
        };
        let waiting = store.waiting(lane, limit).await?;
        let mut mentioned = Vec::new();
        for id in commands.iter().filter_map(|command| command.kind.tx()) {
            mentioned.extend(store.tx(id).await?.map(|record| record.tx));
        }
        // Those whose hashes are waited for are not to wait behind a long queue that is not in memory.
        if waiting.len() as u64 >= u64::from(limit) {
            let hurried = shared.awaited.hurried(lane, HURRIED);
            for id in hurried.into_iter().filter(|id| waiting.iter().all(|tx| tx.id != *id)) {
                mentioned.extend(store.tx(id).await?.map(|record| record.tx));
            }
        }
        let more_commands = commands.len() as u64 >= u64::from(COMMANDS);
        let loaded = Loaded { waiting, asked: limit, commands, more_commands, mentioned };
        Ok::<_, landfall_core::ports::store::Error>(loaded)
    };
    let read = read.await;
    let has_none = taken.is_empty() && read.as_ref().is_ok_and(|loaded| loaded.commands.is_empty());
    if may_have_commands && !has_none {
        mailbox.has_commands();
    }
    match read {
        Ok(loaded) => LaneEvent::Loaded(loaded),
        Err(error) => {
            tracing::warn!(lane = %shared.shown(lane), %error, "waiting transactions could not be read");
            LaneEvent::LoadFailed
        }
    }
}

/// How far the transactions are that this lane's are to follow. From here on the lane is told when one moves here.
async fn follow(shared: &Shared, lane: LaneId, asked: Vec<TxId>) -> LaneEvent {
    shared.directory.follow(lane, &asked);
    match shared.parts.store.statuses(&asked).await {
        Ok(statuses) => LaneEvent::Followed { asked, statuses },
        Err(error) => {
            tracing::warn!(lane = %shared.shown(lane), %error, "what others follow could not be read");
            LaneEvent::FollowFailed { asked }
        }
    }
}

async fn prepare(chain: &dyn Chain, jobs: Vec<PrepareJob>) -> LaneEvent {
    let calls: Vec<_> = jobs.iter().map(|job| job.call.clone()).collect();
    let results = chain.estimate(&calls).await;
    LaneEvent::Prepared(
        jobs.into_iter().zip(results).map(|(job, result)| Prepared { target: job.target, result }).collect(),
    )
}

async fn sign(shared: &Shared, chain: &dyn Chain, lane: LaneId, drafts: Vec<Draft>) -> LaneEvent {
    let Some(signer) = shared.parts.signers.get(&lane) else {
        let missing = || signer::Error::Unavailable("no signer is configured for this lane".to_owned());
        return LaneEvent::Signed(drafts.into_iter().map(|draft| (draft, Err(missing()))).collect());
    };
    let codec = chain.codec();
    let whole = authorize(signer.as_ref(), codec, &drafts).await;
    let preimages = whole.iter().flatten().map(|draft| codec.preimage(draft)).collect();
    let mut signatures = signer.sign(preimages).await.into_iter();
    let missing = || signer::Error::Unavailable("the signer gave no answer".to_owned());
    let seal = |whole: Result<Draft, signer::Error>| {
        let draft = whole?;
        let signature = signatures.next().ok_or_else(missing)??;
        Ok(codec.seal(&draft, &signature))
    };
    let sealed: Vec<_> = whole.into_iter().map(seal).collect();
    LaneEvent::Signed(drafts.into_iter().zip(sealed).collect())
}

/// The drafts with the sender's own authorizations signed, where they have one.
async fn authorize(
    signer: &dyn signer::Signer,
    codec: &dyn Codec,
    drafts: &[Draft],
) -> Vec<Result<Draft, signer::Error>> {
    let mut whole = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let Some(preimage) = codec.authorization(draft) else {
            whole.push(Ok(draft.clone()));
            continue;
        };
        let missing = || signer::Error::Unavailable("the signer gave no answer".to_owned());
        let signed = signer.sign(vec![preimage]).await.into_iter().next().ok_or_else(missing).flatten();
        whole.push(signed.map(|signature| draft.authorized(signature.r, signature.s, signature.y_parity)));
    }
    whole
}

async fn send(shared: &Shared, chain: &dyn Chain, outgoing: Vec<Outgoing>) -> LaneEvent {
    // This may begin long after it was asked for: a node that stood still in between is nobody's owner any more.
    if !shared.session_is_live() {
        let text = "this node's session has ended, so nothing was sent";
        return LaneEvent::Sent(outgoing.iter().map(|out| unknown(out, text)).collect());
    }
    let count = outgoing.iter().filter(|out| out.again).count() as u64;
    shared.note(Fact::Resubmitted { chain: chain.id(), count });
    let sealed: Vec<_> = outgoing.iter().map(|out| out.sealed.clone()).collect();
    let reports = chain.send(&sealed).await;
    LaneEvent::Sent(
        outgoing
            .into_iter()
            .zip(reports)
            .map(|(out, report)| Sent { slot: out.slot, hash: out.sealed.hash, report })
            .collect(),
    )
}

/// Whether any endpoint still shows these attempts.
async fn probe(chain: &dyn Chain, wanted: Vec<(Slot, TxHash)>) -> LaneEvent {
    let hashes: Vec<TxHash> = wanted.iter().map(|(_, hash)| *hash).collect();
    match chain.pooled(&hashes).await {
        Ok(shown) => pooled(&wanted, |position| shown.get(position).copied()),
        Err(error) => {
            tracing::debug!(%error, "the pool could not be asked");
            pooled(&wanted, |_| None)
        }
    }
}

fn pooled(wanted: &[(Slot, TxHash)], shown: impl Fn(usize) -> Option<bool>) -> LaneEvent {
    let one =
        |(position, &(slot, hash)): (usize, &(Slot, TxHash))| Pooled { slot, hash, shown: shown(position) };
    LaneEvent::Pooled(wanted.iter().enumerate().map(one).collect())
}

/// Receipts of every attempt of these slots. One from below the watcher's recent blocks counts only if the chain still
/// has its block; the others are judged by the lane's view. Where nobody can say, that is no look.
async fn look(shared: &Shared, chain: &dyn Chain, slots: Vec<(Slot, Vec<TxHash>)>) -> LaneEvent {
    let hashes: Vec<TxHash> = slots.iter().flat_map(|(_, hashes)| hashes.iter().copied()).collect();
    let found = match receipts(shared, chain, &hashes).await {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%error, "receipts could not be asked for, or not judged");
            checked(shared, chain, ReceiptCheck::Failed, slots.len());
            return LaneEvent::LookFailed { slots: slots.into_iter().map(|(slot, _)| slot).collect() };
        }
    };
    let has_one = |hashes: &[TxHash]| found.iter().any(|receipt| hashes.contains(&receipt.hash));
    let with = slots.iter().filter(|(_, hashes)| has_one(hashes)).count();
    checked(shared, chain, ReceiptCheck::Found, with);
    checked(shared, chain, ReceiptCheck::Missing, slots.len() - with);
    LaneEvent::Looked { slots: slots.into_iter().map(|(slot, _)| slot).collect(), found }
}

/// Words of a second endpoint on these receipts.
async fn second(chain: &dyn Chain, given: Vec<(Slot, Receipt)>) -> LaneEvent {
    let (slots, receipts): (Vec<Slot>, Vec<Receipt>) = given.into_iter().unzip();
    let words = chain.second(&receipts).await;
    LaneEvent::Second(
        slots.into_iter().zip(receipts).zip(words).map(|((slot, of), word)| (slot, of, word)).collect(),
    )
}

fn checked(shared: &Shared, chain: &dyn Chain, result: ReceiptCheck, slots: usize) {
    shared.note(Fact::ReceiptChecked { chain: chain.id(), result, count: slots as u64 });
}

/// The receipts that count, as far as somebody can say; an error if that is true of none.
async fn receipts(shared: &Shared, chain: &dyn Chain, hashes: &[TxHash]) -> Result<Vec<Receipt>, ChainError> {
    let shown = chain.receipts(hashes).await?;
    let Some(view) = shared.directory.view(chain.id()) else { return Ok(Vec::new()) };
    let mut judged: BTreeMap<BlockRef, bool> = BTreeMap::new();
    let mut trouble = None;
    let mut found = Vec::new();
    for receipt in shown {
        let block = receipt.block;
        let counts = match judged.get(&block) {
            _ if view.standing(&block) != Standing::Older => true,
            Some(below) => *below,
            // Nobody could say it of another one just now.
            None if trouble.is_some() => false,
            None => match chain.leads_to(&block, &view.head.at).await {
                Ok(below) => *judged.entry(block).or_insert(below),
                Err(error) => {
                    trouble = Some(error);
                    false
                }
            },
        };
        if counts {
            found.push(receipt);
        }
    }
    match trouble {
        Some(error) if found.is_empty() => Err(error),
        Some(_) | None => Ok(found),
    }
}
