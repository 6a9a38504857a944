//! A group of writes as one database transaction, and what is done when it does not come through.
//!
//! | what went wrong | what follows |
//! |---|---|
//! | a commit is stale, or contradicts what is stored | it is left out; the others are written |
//! | the database refuses a value (a NUL, a constraint, a lock that nobody gives up) | the group is halved until the bad one is alone |
//! | two transactions met (deadlock, serialisation) | once more |
//! | the connection broke before COMMIT was sent | once more: nothing of it can be on disk |
//! | the connection broke after | it is looked up: see below |
//!
//! COMMIT is sent when all lanes of the group are locked by its transaction. So whoever gets a lane's lock afterwards
//! knows that it has ended, one way or the other, even if its server process went on without us. The next try does
//! just that: it finds the lane's version as it was, and writes; or one higher under its own token, and knows that it
//! landed. Admissions and commands are found by their ids in the same way: an insert waits for an unfinished one of
//! the same id. What cannot be looked up in time is answered as not known.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use deadpool_postgres::ClientWrapper;
use landfall_core::ports::store::{
    self, Admission, ChainRecord, Command, Forget, LaneCommit, Write, WriteError, Written,
};
use landfall_core::request::NewTransaction;
use landfall_core::transaction::Transaction;
use landfall_core::{LaneId, QueueOrder};
use tokio::time::Instant;
use tokio_postgres::{Row, Statement};

use super::Inner;
use super::admit::{self, Calls, Known};
use super::commit::{self, Lowest, Place, Places, Verdict};
use super::error::Fault;
use super::forget::{self, Stayed};
use super::known::{Learned, OfLane};
use super::leases;
use super::rows::bits;
use super::small::{ChainRows, CommandRows};
use crate::journal;
use crate::rules;

const DOING: &str = "write";

/// How often the same writes are tried after they met another transaction.
const COLLISIONS: u32 = 5;

/// A value of a query.
pub(super) type Value<'a> = &'a (dyn tokio_postgres::types::ToSql + Sync);

type Answer = Result<Written, WriteError>;

/// Writes that are tried together, in the order in which they apply.
#[derive(Clone)]
struct Batch {
    indices: Vec<usize>,
    /// An earlier try may have landed.
    again: bool,
    /// It is a part of one that failed: it waits for locks only shortly.
    part: bool,
    collisions: u32,
    /// How often its connection was lost.
    losses: u32,
}

/// Why a batch was not written.
enum Failure {
    /// These cannot be stored; the others may.
    Some(Vec<(usize, Fault)>),
    /// These were answered by what is known, but rows were inserted for them. The others may have been held up by
    /// such a row: they are tried without.
    Answered(Vec<(usize, Answer)>),
    /// Nothing of it is on disk.
    NotDone(Fault),
    /// It may be on disk. But for these, which were refused and are not in it.
    Maybe(Fault, Vec<(usize, Answer)>),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::NotDone(fault)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::NotDone(error.into())
    }
}

/// Commits a group; the answers are in its order.
pub(super) async fn write(store: &Inner, group: &[Write]) -> Vec<Answer> {
    let until = Instant::now() + store.connections.limits.write;
    let mut answers: BTreeMap<usize, Answer> = BTreeMap::new();
    let mut todo: VecDeque<Batch> = VecDeque::from(cut(store, group));
    while let Some(mut batch) = todo.pop_front() {
        if batch.indices.is_empty() {
            continue;
        }
        match attempt(store, group, &batch).await {
            Ok(done) => answers.extend(done),
            Err(Failure::Some(bad)) => {
                batch.indices.retain(|index| bad.iter().all(|(at, _)| at != index));
                answers.extend(bad.into_iter().map(|(at, fault)| (at, Err(failed(&batch, fault)))));
                todo.push_front(batch);
            }
            Err(Failure::Answered(known)) => {
                batch.indices.retain(|index| known.iter().all(|(at, _)| at != index));
                answers.extend(known);
                todo.push_front(batch);
            }
            Err(Failure::Maybe(fault, refused)) => {
                // Refused stays refused: on a second look, what raised the version instead could be taken for this one.
                batch.indices.retain(|index| refused.iter().all(|(at, _)| at != index));
                answers.extend(refused);
                tracing::warn!(%fault, writes = batch.indices.len(), "the answer to a commit was lost; looking it up");
                batch.again = true;
                next_try(batch, fault, until, &mut todo, &mut answers).await;
            }
            Err(Failure::NotDone(fault)) => {
                next_try(batch, fault, until, &mut todo, &mut answers).await;
            }
        }
    }
    let never = || Err(WriteError::Failed(never_reached()));
    (0..group.len()).map(|index| answers.remove(&index).unwrap_or_else(never)).collect()
}

/// Puts back what may pass when it is tried again, whole or in halves, and answers the rest.
async fn next_try(
    mut batch: Batch,
    fault: Fault,
    until: Instant,
    todo: &mut VecDeque<Batch>,
    answers: &mut BTreeMap<usize, Answer>,
) {
    let lost = matches!(fault, Fault::Lost(_));
    // A process that stood still finds every limit passed. One look more tells what became of its writes.
    let in_time = Instant::now() < until || (lost && batch.losses == 0);
    batch.losses += u32::from(lost);
    if in_time && lost {
        // A database that restarts refuses at once: not so fast.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        todo.push_front(batch);
    } else if in_time && fault.is_collision() && batch.collisions < COLLISIONS {
        batch.collisions += 1;
        todo.push_front(batch);
    } else if in_time && batch.indices.len() > 1 && !lost {
        tracing::warn!(%fault, writes = batch.indices.len(), "a write failed its group, which is tried in halves");
        let rest = batch.indices.split_off(batch.indices.len() / 2);
        batch.part = true;
        batch.collisions = 0;
        todo.push_front(Batch { indices: rest, ..batch.clone() });
        todo.push_front(batch);
    } else if batch.indices.len() == 1 {
        answers.extend(batch.indices.first().map(|index| (*index, Err(failed(&batch, fault)))));
    } else {
        let text = fault.to_string();
        answers.extend(batch.indices.iter().map(|index| {
            let same = Fault::Refused(text.clone());
            (*index, Err(failed(&batch, same)))
        }));
    }
}

/// The answer to a write that could not be done.
fn failed(batch: &Batch, fault: Fault) -> WriteError {
    if batch.again { WriteError::Unknown(fault.to_string()) } else { fault.into_write_error(DOING) }
}

fn never_reached() -> store::Error {
    store::Error::Failed { doing: DOING, text: "it was never reached".to_owned() }
}

/// Cuts a group where a write depends on what became of one before it: a second commit of one lane, a second
/// admission under one id or of one call, or one that would make a lane although its key may just have been taken.
fn cut(store: &Inner, group: &[Write]) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut indices = Vec::new();
    let (mut lanes, mut ids, mut keys) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut calls = BTreeSet::new();
    for index in rules::order(group) {
        let repeated = match group.get(index) {
            Some(Write::Lane(commit)) => !lanes.insert(commit.lane),
            Some(Write::Admit(new)) => {
                let key = new.request.request_id.clone().map(|key| (new.lane.signer, key));
                let key_repeated = key.is_some_and(|key| !keys.insert(key));
                let call_repeated = new.request.call().is_some_and(|call| {
                    let earlier = call.before_keys().map(|call| (new.lane, call));
                    let after_it = earlier.is_some_and(|earlier| calls.contains(&earlier));
                    !calls.insert((new.lane, call.clone())) || after_it
                });
                !ids.insert(new.id)
                    || call_repeated
                    || (key_repeated && store.numbers.known(new.lane).is_none())
            }
            Some(Write::Command(_) | Write::Chain(_) | Write::Forget(_)) | None => false,
        };
        if repeated {
            batches.push(std::mem::take(&mut indices));
            lanes.clear();
            ids.clear();
            keys.clear();
            calls.clear();
            match group.get(index) {
                Some(Write::Lane(commit)) => drop(lanes.insert(commit.lane)),
                Some(Write::Admit(new)) => {
                    ids.insert(new.id);
                    calls.extend(new.request.call().map(|call| (new.lane, call.clone())));
                }
                Some(Write::Command(_) | Write::Chain(_) | Write::Forget(_)) | None => {}
            }
        }
        // A removal is a transaction of its own, between those before and after it.
        let alone = matches!(group.get(index), Some(Write::Forget(_)));
        if alone {
            batches.push(std::mem::take(&mut indices));
        }
        indices.push(index);
        if alone {
            batches.push(std::mem::take(&mut indices));
        }
    }
    batches.push(indices);
    let batch = |indices| Batch { indices, again: false, part: false, collisions: 0, losses: 0 };
    batches.into_iter().map(batch).collect()
}

/// The writes of a batch by what they are.
#[derive(Default)]
struct Sorted<'g> {
    admissions: Vec<(usize, &'g NewTransaction)>,
    commands: Vec<(usize, &'g Command)>,
    chains: Vec<(usize, &'g ChainRecord)>,
    lanes: Vec<(usize, &'g LaneCommit)>,
    /// Alone in its batch.
    forget: Option<(usize, Forget)>,
}

fn sort<'g>(group: &'g [Write], batch: &Batch) -> Sorted<'g> {
    let mut sorted = Sorted::default();
    for index in &batch.indices {
        match group.get(*index) {
            Some(Write::Admit(new)) => sorted.admissions.push((*index, new)),
            Some(Write::Command(command)) => sorted.commands.push((*index, command)),
            Some(Write::Chain(record)) => sorted.chains.push((*index, record)),
            Some(Write::Lane(commit)) => sorted.lanes.push((*index, commit)),
            Some(Write::Forget(step)) => sorted.forget = Some((*index, *step)),
            None => {}
        }
    }
    sorted
}

/// One try: a database transaction from its beginning to its end.
async fn attempt(store: &Inner, group: &[Write], batch: &Batch) -> Result<Vec<(usize, Answer)>, Failure> {
    let connection = store.connections.get().await?;
    let db = connection.db()?;
    let limits = store.connections.limits;
    let mut work = sort(group, batch);
    let mut answers = Vec::new();
    let mut learned = Learned::default();
    let body =
        tokio::time::timeout(limits.step, body(store, db, batch, &mut work, &mut answers, &mut learned));
    let done = body.await.unwrap_or_else(|_| Err(Failure::NotDone(timed_out(store))));
    if let Err(failure) = done {
        let usable = match &failure {
            Failure::Some(_)
            | Failure::Answered(_)
            | Failure::NotDone(Fault::Refused(_) | Fault::Fenced(_)) => true,
            Failure::NotDone(Fault::Sql(error)) => error.code().is_some(),
            Failure::NotDone(_) | Failure::Maybe(..) => false,
        };
        let rollback = async { Ok(db.batch_execute("ROLLBACK").await?) };
        if usable && store.connections.within(rollback).await.is_ok() {
            connection.give_back();
        }
        return Err(failure);
    }
    // From here to its answer nobody knows.
    let commit = async { Ok(db.batch_execute("COMMIT").await?) };
    match store.connections.within(commit).await {
        Ok(()) => {
            connection.give_back();
            store.known.learn(learned);
            Ok(answers)
        }
        Err(fault @ Fault::Lost(_)) => {
            answers.retain(|(_, answer)| matches!(answer, Err(WriteError::Fenced { .. })));
            Err(Failure::Maybe(fault, answers))
        }
        // The server says that it did not commit.
        Err(fault) => Err(Failure::NotDone(fault)),
    }
}

fn timed_out(store: &Inner) -> Fault {
    Fault::Lost(format!("no answer within {:?}", store.connections.limits.step))
}

async fn body<'g>(
    store: &Inner,
    db: &ClientWrapper,
    batch: &Batch,
    work: &mut Sorted<'g>,
    answers: &mut Vec<(usize, Answer)>,
    learned: &mut Learned<'g>,
) -> Result<(), Failure> {
    let namespace = store.namespace;
    if let Some((index, step)) = work.forget {
        db.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        answers.push((index, Ok(Written::Forgotten(forget::forget(db, namespace, step).await?))));
        db.batch_execute("SET LOCAL statement_timeout = 0").await?;
        return Ok(());
    }
    let has_calls = work.admissions.iter().any(|(_, new)| new.request.call().is_some());
    let prepared = Prepared::on(db, has_calls).await?;
    let lanes = resolve_lanes(store, db, batch, work, answers).await?;
    let news: Vec<&NewTransaction> = work.admissions.iter().map(|(_, new)| *new).collect();
    // Numbers are drawn first; without any to draw, the beginning goes with what follows.
    let begin = begin(batch, store);
    let ords = if news.is_empty() { Vec::new() } else { draw(db, &prepared, &begin, news.len()).await? };
    let begin = Some(begin).filter(|_| news.is_empty());
    let inserts = admit::Rows::of(&news, &ords, &lanes)?;
    let commands = CommandRows::of(&work.commands, &lanes)?;
    let chains = ChainRows::of(&work.chains)?;
    let numbers: Vec<i64> =
        work.lanes.iter().filter_map(|(_, commit)| lanes.get(&commit.lane).copied()).collect();
    let (named, known) = named(store, work, &lanes);
    let session = store.known.session();
    let others_of: [Value<'_>; 2] = [&namespace, &session];
    let heads_of: [Value<'_>; 1] = [&numbers];
    let places_of: [Value<'_>; 1] = [&named];
    let earlier = Calls::before_keys(&news, &lanes);
    let earlier_of: [Value<'_>; 2] = [&earlier.lanes, &earlier.nonces];
    let mut calls = Calls::of(&news, &lanes);
    calls.append(&earlier);
    let calls_of: [Value<'_>; 3] = [&calls.lanes, &calls.keys, &calls.nonces];
    // Sent at once; the server does them in this order.
    let ((), inserted, alone, stayed, stayed_calls, earlier, (), (), (), heads, places) = tokio::try_join!(
        biased;
        async { if let Some(begin) = &begin { db.batch_execute(begin).await } else { Ok(()) } },
        inserts.insert(db, &prepared.insert, namespace, has_calls),
        some(db, &prepared.alone, news.is_empty(), &others_of),
        Stayed::rows(db, &prepared.stayed, namespace, &news),
        some(db, &prepared.stayed_calls, calls.lanes.is_empty(), &calls_of),
        some(db, &prepared.before_keys, earlier.lanes.is_empty(), &earlier_of),
        commands.insert(db, &prepared.command, namespace),
        chains.put(db, &prepared.chain, namespace),
        lock(db, &prepared.lock, &numbers),
        some(db, &prepared.heads, numbers.is_empty(), &heads_of),
        some(db, &prepared.places, named.is_empty(), &places_of),
    )?;
    answers.extend(work.commands.iter().map(|(index, _)| (*index, Ok(Written::Command))));
    answers.extend(work.chains.iter().map(|(index, _)| (*index, Ok(Written::Chain))));

    let mut rows = commit::Rows::default();
    let mut waiting = Vec::new();
    let inserted: BTreeSet<i64> = inserted.into_iter().collect();
    let stayed = Stayed::of(stayed.iter().chain(&stayed_calls))?;
    let found = Found { ords: &ords, inserted: &inserted, stayed: &stayed, earlier: &earlier };
    let admitted = admissions(store, db, batch, work, &lanes, found).await?;
    let told = work.admissions.iter().zip(&ords).zip(admitted);
    let told = told.map(|((&(index, new), &ord), admitted)| (index, new, ord, admitted));
    let (removed, told): (Vec<_>, Vec<_>) = told.partition(|(.., admitted)| admitted.by_what_stayed);
    let answer = |admission: Result<Admission, Fault>| {
        let admission = admission.map(|admission| Written::Admitted(Box::new(admission)));
        admission.map_err(|fault| failed(batch, fault))
    };
    let in_vain = removed.iter().any(|(_, _, ord, _)| inserted.contains(ord));
    let removed = removed.into_iter().map(|(index, _, _, admitted)| (index, answer(admitted.admission)));
    if in_vain {
        return Err(Failure::Answered(removed.collect()));
    }
    answers.extend(removed);
    for (index, new, ord, admitted) in told {
        if inserted.contains(&ord) {
            let lane = lanes.get(&new.lane).copied().unwrap_or_default();
            let entry = journal::accepted(&new.request).map_err(Fault::from)?.into_owned();
            rows.journal(lane, Some(new.id), 1, bits(new.request.accepted_at.0), entry);
            waiting.push((lane, new.id, Place::admitted(ord)));
        }
        answers.push((index, answer(admitted.admission)));
    }

    let heads = commit::heads(&heads)?;
    let mut places = Places::of(&places, known)?;
    let mut fit = Vec::new();
    for (index, commit) in &work.lanes {
        let number = lanes.get(&commit.lane).copied();
        let head = number.and_then(|number| heads.get(&number).copied());
        match (commit::judge(commit, head, batch.again), number.zip(head)) {
            (Ok(Verdict::Write), Some((number, head))) => fit.push((*index, (number, *commit, head))),
            (Ok(Verdict::Landed), _) => {
                answers.push((*index, Ok(Written::Lane(commit::next_version(commit)))));
            }
            (Ok(Verdict::Write) | Err(Fault::Fenced(_)), _) => {
                answers.push((*index, Err(WriteError::Fenced { lane: commit.lane })));
            }
            (Err(fault), _) => answers.push((*index, Err(failed(batch, fault)))),
        }
    }
    let (indices, fit): (Vec<_>, Vec<_>) = fit.into_iter().unzip();
    let lowest = Lowest::read(db, &prepared.open, &fit).await?;
    for ((index, (number, commit, _)), lowest) in indices.into_iter().zip(fit).zip(&lowest) {
        if let Err(fault) = rows.add(index, commit, number, lowest, &places) {
            answers.push((index, Err(failed(batch, fault))));
        }
    }
    change(db, &prepared, namespace, &rows).await?;
    // One that a commit of this group goes on with is where that leaves it.
    if !waiting.is_empty() {
        let gone_on: BTreeSet<_> = rows.commits().flat_map(|(_, commit)| commit::named(commit)).collect();
        waiting.retain(|(_, id, _)| !gone_on.contains(id));
    }
    store.known.admitted(&waiting);
    learned.alone = alone.first().map(|row| row.try_get(0)).transpose()?;
    for (_, commit) in rows.commits() {
        if let Some(number) = lanes.get(&commit.lane) {
            learned.lanes.push((*number, commit, places.after(*number, commit)));
        }
    }
    answers.extend(
        rows.commits().map(|(index, commit)| (index, Ok(Written::Lane(commit::next_version(commit))))),
    );
    Ok(())
}

/// The transactions that commits name and nothing is remembered of, and what is remembered.
fn named(
    store: &Inner,
    work: &Sorted<'_>,
    lanes: &BTreeMap<LaneId, i64>,
) -> (Vec<uuid::Uuid>, BTreeMap<i64, OfLane>) {
    let (mut named, mut known) = (BTreeSet::new(), BTreeMap::new());
    for (_, commit) in &work.lanes {
        let Some(number) = lanes.get(&commit.lane) else { continue };
        let of_lane = store.known.take(*number, commit);
        named.extend(commit::named(commit).filter(|id| !of_lane.contains_key(id)).map(|id| id.0));
        known.insert(*number, of_lane);
    }
    (named.into_iter().collect(), known)
}

/// Everything that lanes change, sent at once. The journal comes last: its numbers are taken under a lock that all
/// nodes of the namespace share.
async fn change(
    db: &ClientWrapper,
    prepared: &Prepared,
    namespace: i64,
    rows: &commit::Rows<'_>,
) -> Result<(), Failure> {
    let (fenced, (), updated, (), (), hints, (), commands, (), ()) = tokio::try_join!(
        biased;
        rows.fence(db, &prepared.fence),
        rows.leave_slots(db, &prepared.leave),
        rows.update_txs(db, &prepared.update),
        rows.free_nonces(db, &prepared.free),
        rows.insert_attempts(db, &prepared.attempts),
        rows.update_hints(db, &prepared.hints),
        rows.close_slots(db, &prepared.close),
        rows.finish_commands(db, &prepared.done, namespace),
        rows.write_journal(db, &prepared.journal, namespace),
        // A statement timeout that strikes while COMMIT waits for a standby would answer "committed" for what the
        // standby does not have. A COMMIT that takes too long is given up by us, and looked up.
        db.batch_execute("SET LOCAL statement_timeout = 0"),
    )?;
    let mut bad = hints;
    bad.extend(commands);
    if !bad.is_empty() {
        return Err(Failure::Some(bad));
    }
    if !updated {
        // What was remembered is forgotten by now: the next try reads it.
        let text = "a transaction is not where it was remembered to be";
        return Err(Failure::NotDone(Fault::Lost(text.to_owned())));
    }
    if !fenced {
        // A session ended between the look and the fence. The next look sees it.
        return Err(Failure::NotDone(Fault::Lost("a lease ended while its lane was written".to_owned())));
    }
    Ok(())
}

/// The rows that were found when admissions were inserted.
struct Found<'f> {
    /// The numbers drawn for them, and those of them that were inserted.
    ords: &'f [i64],
    inserted: &'f BTreeSet<i64>,
    stayed: &'f Stayed,
    /// Calls from before keys.
    earlier: &'f [Row],
}

/// What became of an admission.
struct Admitted {
    admission: Result<Admission, Fault>,
    /// It repeats one whose history was removed, or a call from before keys. No constraint of the table knows these:
    /// a row may have been inserted for it all the same.
    by_what_stayed: bool,
}

/// What became of each admission: inserted, or known already.
async fn admissions(
    store: &Inner,
    db: &ClientWrapper,
    batch: &Batch,
    work: &Sorted<'_>,
    lanes: &BTreeMap<LaneId, i64>,
    Found { ords, inserted, stayed, earlier }: Found<'_>,
) -> Result<Vec<Admitted>, Fault> {
    let old: Vec<&NewTransaction> = work
        .admissions
        .iter()
        .zip(ords)
        .filter(|(_, ord)| !inserted.contains(ord))
        .map(|((_, new), _)| *new)
        .collect();
    let known = Known::read(db, store.namespace, &old, lanes).await?;
    let mut before_keys = Known::default();
    before_keys.take_calls(earlier)?;
    let answer = |(&(_, new), ord): (&(usize, &NewTransaction), &i64)| {
        // A later one of this group may have taken the key, because this one could not: its id is another's.
        let is_later = |tx: &Transaction| tx.order.0 > *ord && inserted.contains(&tx.order.0);
        let by_nonce = || {
            let repeated = || before_keys.before_keys(new, is_later).or_else(|| stayed.before_keys(new));
            stayed.under_nonce(new).or_else(repeated).map(Ok)
        };
        let by_what_stayed = stayed.answer(new).or_else(|| by_nonce().filter(|_| inserted.contains(ord)));
        if let Some(admission) = by_what_stayed {
            return Ok(Admitted { admission, by_what_stayed: true });
        }
        let known = if inserted.contains(ord) {
            Some(Ok(Admission::New(rules::admitted(new, QueueOrder(*ord)))))
        } else {
            let under_nonce = || stayed.under_nonce(new).or_else(|| known.under_nonce(new));
            known.answer(new, batch.again, is_later).or_else(|| under_nonce().map(Ok))
        };
        // What stood in its way has gone since: it ended unsigned, or its history was removed. The next look sees it.
        let gone = || Fault::Lost(format!("what {} met is not there any more", new.id));
        Ok(Admitted { admission: known.ok_or_else(gone)?, by_what_stayed: false })
    };
    work.admissions.iter().zip(ords).map(answer).collect()
}

/// The row numbers of all lanes that are named. A lane is made for a command, and for an admission that is new: those
/// whose key or id is known are answered here, and write nothing.
async fn resolve_lanes(
    store: &Inner,
    db: &ClientWrapper,
    batch: &Batch,
    work: &mut Sorted<'_>,
    answers: &mut Vec<(usize, Answer)>,
) -> Result<BTreeMap<LaneId, i64>, Fault> {
    let namespace = store.namespace;
    let named = work.lanes.iter().map(|(_, commit)| commit.lane);
    let asked = named.chain(work.admissions.iter().map(|(_, new)| new.lane));
    let mut found = store.numbers.find(db, namespace, asked).await?;
    let homeless: Vec<&NewTransaction> =
        work.admissions.iter().map(|(_, new)| *new).filter(|new| !found.contains_key(&new.lane)).collect();
    // A lane without a row has had no calls.
    let known = Known::read(db, namespace, &homeless, &found).await?;
    let stayed = Stayed::read(db, namespace, &homeless).await?;
    work.admissions.retain(|(index, new)| {
        let answer = if found.contains_key(&new.lane) {
            None
        } else {
            stayed.answer(new).or_else(|| known.answer(new, batch.again, |_| false))
        };
        match answer {
            None => true,
            Some(Ok(admission)) => {
                answers.push((*index, Ok(Written::Admitted(Box::new(admission)))));
                false
            }
            Some(Err(fault)) => {
                answers.push((*index, Err(failed(batch, fault))));
                false
            }
        }
    });
    let wanted: BTreeSet<LaneId> = work
        .admissions
        .iter()
        .map(|(_, new)| new.lane)
        .chain(work.commands.iter().map(|(_, command)| command.lane))
        .filter(|lane| !found.contains_key(lane))
        .collect();
    if !wanted.is_empty() {
        found.extend(store.numbers.find_or_make(db, namespace, wanted).await?);
    }
    Ok(found)
}

/// How the transaction begins. Its statements name what they need by lists, and find each by an index: a plan that is made
/// for one list after the other costs more than it saves.
fn begin(batch: &Batch, store: &Inner) -> String {
    let mut begin = "BEGIN ISOLATION LEVEL READ COMMITTED; \
         SET LOCAL plan_cache_mode = force_generic_plan"
        .to_owned();
    if batch.part {
        begin.push_str(&format!(
            "; SET LOCAL lock_timeout = {}",
            store.connections.limits.lock.as_millis() / 10
        ));
    }
    begin
}

/// Begins the transaction and draws numbers for the queue.
async fn draw(
    db: &ClientWrapper,
    prepared: &Prepared,
    begin: &str,
    count: usize,
) -> Result<Vec<i64>, tokio_postgres::Error> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let drawn_of: [Value<'_>; 1] = [&count];
    let ((), drawn) = tokio::try_join!(
        biased;
        db.batch_execute(begin),
        db.query(&prepared.draw, &drawn_of),
    )?;
    let mut ords = drawn.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    ords.sort_unstable();
    Ok(ords)
}

async fn lock(
    db: &ClientWrapper,
    statement: &Statement,
    lanes: &Vec<i64>,
) -> Result<(), tokio_postgres::Error> {
    if !lanes.is_empty() {
        db.query(statement, &[lanes]).await?;
    }
    Ok(())
}

/// The rows of a query that is not asked if there is nothing to ask for.
async fn some(
    db: &ClientWrapper,
    statement: &Statement,
    nothing: bool,
    values: &[Value<'_>],
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    if nothing { Ok(Vec::new()) } else { db.query(statement, values).await }
}

/// The statements of a group. They are prepared before any is sent: what is sent at once must not be held up in the
/// middle by one that is not.
struct Prepared {
    draw: Statement,
    insert: Statement,
    stayed: Statement,
    stayed_calls: Statement,
    before_keys: Statement,
    command: Statement,
    chain: Statement,
    lock: Statement,
    heads: Statement,
    places: Statement,
    alone: Statement,
    fence: Statement,
    leave: Statement,
    update: Statement,
    free: Statement,
    attempts: Statement,
    hints: Statement,
    close: Statement,
    open: Statement,
    done: Statement,
    journal: Statement,
}

impl Prepared {
    /// `has_calls`: some admission has a caller's nonce.
    async fn on(db: &ClientWrapper, has_calls: bool) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            draw: db.prepare_cached("SELECT nextval('tx_ord') FROM generate_series(1, $1::bigint)").await?,
            insert: db.prepare_cached(if has_calls { admit::INSERT_CALLS } else { admit::INSERT }).await?,
            stayed: db.prepare_cached(forget::STAYED).await?,
            stayed_calls: db.prepare_cached(forget::STAYED_CALLS).await?,
            before_keys: db.prepare_cached(&admit::before_keys()).await?,
            command: db.prepare_cached(CommandRows::INSERT).await?,
            chain: db.prepare_cached(ChainRows::PUT).await?,
            lock: db.prepare_cached(commit::LOCK).await?,
            heads: db.prepare_cached(commit::HEADS).await?,
            places: db.prepare_cached(commit::PLACES).await?,
            alone: db.prepare_cached(leases::ALONE).await?,
            fence: db.prepare_cached(commit::FENCE).await?,
            leave: db.prepare_cached(commit::LEAVE).await?,
            update: db.prepare_cached(commit::UPDATE).await?,
            free: db.prepare_cached(commit::FREE).await?,
            attempts: db.prepare_cached(commit::ATTEMPTS).await?,
            hints: db.prepare_cached(commit::HINTS).await?,
            close: db.prepare_cached(commit::CLOSE).await?,
            open: db.prepare_cached(commit::OPEN).await?,
            done: db.prepare_cached(commit::DONE).await?,
            journal: db.prepare_cached(commit::JOURNAL).await?,
        })
    }
}
