//! The mark of a store that is moved in from a file. It keeps servers away until the store is whole.

use deadpool_postgres::ClientWrapper;
use uuid::Uuid;

use super::error::Fault;

/// How far a move is, as the database has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Filling,
    /// Whole and verified; the file may still say that it is moving.
    Filled,
    Servable,
}

/// The database's mark of a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) id: Uuid,
    pub(crate) stage: Stage,
    pub(crate) origin: String,
}

/// Where a move that is not finished comes from.
pub(super) async fn unfinished(db: &ClientWrapper) -> Result<Option<String>, Fault> {
    Ok(mark(db).await?.filter(|mark| mark.stage != Stage::Servable).map(|mark| mark.origin))
}

pub(super) async fn mark(db: &ClientWrapper) -> Result<Option<Mark>, Fault> {
    let Some(row) = db.query_opt("SELECT id, state, source FROM moved_in", &[]).await? else {
        return Ok(None);
    };
    let stage = match row.try_get::<_, i16>(1)? {
        0 => Stage::Filling,
        1 => Stage::Filled,
        2 => Stage::Servable,
        other => return Err(Fault::corrupt("moved_in.state", format!("{other} is no state"))),
    };
    Ok(Some(Mark { id: row.try_get(0)?, stage, origin: row.try_get(2)? }))
}
