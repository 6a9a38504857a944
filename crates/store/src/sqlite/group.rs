//! A group of writes as one database transaction.
//!
//! The group is tried whole. If one of its writes cannot be stored, everything is rolled back and tried again with a
//! savepoint around each write, so that only the bad one fails. A fenced lane is not such a failure: its fence is its
//! first statement and has changed nothing.

use landfall_core::ports::store::{self, ChainRecord, Command, Write, WriteError, Written};
use rusqlite::{Connection, TransactionBehavior, params};

use super::error::{self, Fault};
use super::known::Known;
use super::rows::bits;
use super::scope::Scope;
use super::writer::WriteSide;
use super::{admit, commit, forget};
use crate::command_text::command_text;
use crate::rules;

const DOING: &str = "write";

type Answer = Result<Written, WriteError>;

/// Commits a group; the answers are in its order.
pub(super) fn write(side: &mut WriteSide, group: &[Write]) -> Vec<Answer> {
    if group.is_empty() {
        return Vec::new();
    }
    match together(side, group) {
        Ok(answers) => answers,
        Err(Failure::Whole(error)) => group.iter().map(|_| Err(error.clone())).collect(),
        Err(Failure::One(fault)) if group.len() == 1 => vec![Err(fault.into_write_error(DOING))],
        Err(Failure::One(fault)) => {
            tracing::warn!(%fault, writes = group.len(), "a write failed its group; each is tried on its own");
            match one_by_one(side, group) {
                Ok(answers) => answers,
                Err(error) => group.iter().map(|_| Err(error.clone())).collect(),
            }
        }
    }
}

/// Why a group was not committed.
enum Failure {
    /// One write cannot be stored; the others may.
    One(Fault),
    /// The database transaction itself failed.
    Whole(WriteError),
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        Self::Whole(error)
    }
}

fn together(side: &mut WriteSide, group: &[Write]) -> Result<Vec<Answer>, Failure> {
    let WriteSide { db, namespace, known, .. } = side;
    let open = begin(db)?;
    let mut answers = Answers::new(group);
    for index in rules::order(group) {
        let Some(write) = group.get(index) else { continue };
        let mut scope = Scope { db: &open, namespace: *namespace, known };
        match apply(&mut scope, write) {
            Ok(written) => answers.set(index, Ok(written)),
            Err(Fault::Fenced(lane)) => answers.set(index, Err(WriteError::Fenced { lane })),
            Err(fault) => {
                // Dropping the transaction rolls it back.
                drop(open);
                known.clear();
                return Err(Failure::One(fault));
            }
        }
    }
    finish(open, known)?;
    Ok(answers.into_inner())
}

fn one_by_one(side: &mut WriteSide, group: &[Write]) -> Result<Vec<Answer>, WriteError> {
    // What was stored before a failure of the whole is rolled back with it.
    savepoints(side, group).inspect_err(|_| side.known.clear())
}

fn savepoints(side: &mut WriteSide, group: &[Write]) -> Result<Vec<Answer>, WriteError> {
    let WriteSide { db, namespace, known, .. } = side;
    let mut open = begin(db)?;
    let mut answers = Answers::new(group);
    for index in rules::order(group) {
        let Some(write) = group.get(index) else { continue };
        let savepoint = open.savepoint().map_err(|error| failed(error.into()))?;
        let applied = apply(&mut Scope { db: &savepoint, namespace: *namespace, known }, write);
        match applied {
            Ok(written) => {
                savepoint.commit().map_err(|error| failed(error.into()))?;
                answers.set(index, Ok(written));
            }
            Err(fault) => {
                known.clear();
                // A savepoint that is dropped rolls back, unless the failure has ended the whole transaction.
                drop(savepoint);
                if open.is_autocommit() {
                    return Err(fault.into_write_error(DOING));
                }
                answers.set(index, Err(fault.into_write_error(DOING)));
            }
        }
    }
    finish(open, known)?;
    Ok(answers.into_inner())
}

fn apply(scope: &mut Scope<'_>, write: &Write) -> Result<Written, Fault> {
    match write {
        Write::Admit(new) => Ok(Written::Admitted(Box::new(admit::admit(scope, new)?))),
        Write::Lane(lane) => Ok(Written::Lane(commit::commit(scope, lane)?)),
        Write::Command(command) => insert_command(scope, command),
        Write::Chain(record) => put_chain(scope, record),
        Write::Forget(step) => Ok(Written::Forgotten(forget::forget(scope, *step)?)),
    }
}

/// A command is accepted once, however often it is inserted.
pub(super) fn insert_command(scope: &mut Scope<'_>, command: &Command) -> Result<Written, Fault> {
    let lane = scope.lane_or_new(command.lane)?;
    scope
        .db
        .prepare_cached(
            "INSERT INTO command (namespace, id, lane, at, kind, tx) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            scope.namespace,
            command.id.0.as_bytes(),
            lane.lane,
            bits(command.at.0),
            command_text(command)?,
            command.kind.tx().map(|tx| tx.0.into_bytes()),
        ])?;
    Ok(Written::Command)
}

fn put_chain(scope: &mut Scope<'_>, record: &ChainRecord) -> Result<Written, Fault> {
    scope
        .db
        .prepare_cached(
            "INSERT INTO chain (namespace, chain, record) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET record = excluded.record",
        )?
        .execute(params![scope.namespace, bits(record.chain.0), serde_json::to_string(record)?])?;
    Ok(Written::Chain)
}

/// Begins a transaction that may write.
pub(super) fn begin(db: &mut Connection) -> Result<rusqlite::Transaction<'_>, WriteError> {
    // A rollback that failed must not stand in the way of everything after it.
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK").map_err(|error| failed(error.into()))?;
    }
    db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|error| failed(error.into()))
}

/// Commits, and says honestly what is known if that fails.
pub(super) fn finish(open: rusqlite::Transaction<'_>, known: &mut Known) -> Result<(), WriteError> {
    open.commit().map_err(|error| {
        known.clear();
        if error::surely_not_committed(&error) {
            failed(error.into())
        } else {
            WriteError::Unknown(error::sentence(&error))
        }
    })
}

fn failed(fault: Fault) -> WriteError {
    WriteError::Failed(fault.into_error(DOING))
}

/// Answers in the order of the group, filled in the order of the work.
struct Answers(Vec<Answer>);

impl Answers {
    fn new(group: &[Write]) -> Self {
        let none = || store::Error::Failed { doing: DOING, text: "it was never reached".to_owned() };
        Self(group.iter().map(|_| Err(WriteError::Failed(none()))).collect())
    }

    fn set(&mut self, index: usize, answer: Answer) {
        if let Some(place) = self.0.get_mut(index) {
            *place = answer;
        }
    }

    fn into_inner(self) -> Vec<Answer> {
        self.0
    }
}
