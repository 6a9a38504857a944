//! The place of the database, by which one that was restored or moved is noticed: what is stored of it goes along with the rows,
//! what the server says of it does not.
//!
//! | what was done | what differs |
//! |---|---|
//! | a dump in another cluster; a major upgrade | the cluster's number |
//! | a dump or a template in another database of the cluster | the database's number |
//! | a dump in another schema; tables that were dropped and made again | the number of the table of lanes |
//! | recovery to a point in time, a snapshot of the disk, a standby that took over | nothing: a person says it ([`older::take_for`]) |

use deadpool_postgres::ClientWrapper;
use landfall_core::ports::store::Older;
use tokio_postgres::error::SqlState;

use super::error::Fault;
use super::older;

/// Numbers that the server gives, and no dump brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Not every user may ask for it.
    cluster: Option<i64>,
    database: i64,
    lanes: i64,
}

impl Place {
    /// As far as it is known of both.
    fn is(&self, other: &Self) -> bool {
        let same_cluster = self.cluster.zip(other.cluster).is_none_or(|(one, other)| one == other);
        same_cluster && self.database == other.database && self.lanes == other.lanes
    }
}

/// Compares the place with the stored one, and stores it. One that differs makes every namespace older, in the same transaction. A
/// database that has none stored is new, or of a version that stored none: it is not older.
pub(super) async fn settle(db: &ClientWrapper) -> Result<(), Fault> {
    let here = here(db).await?;
    if stored(db).await?.is_some_and(|stored| with_cluster(here, &stored) == stored) {
        return Ok(());
    }
    db.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    // The lock of migrations: of those that open it at once, one compares.
    db.query("SELECT 1 FROM landfall_schema FOR UPDATE", &[]).await?;
    let before = stored(db).await?;
    let is_moved = before.is_some_and(|before| !before.is(&here));
    if is_moved {
        older::flag_all(db, &Older::Elsewhere).await?;
    }
    let Place { cluster, database, lanes } = before.map_or(here, |before| with_cluster(here, &before));
    db.execute(
        "INSERT INTO place (one, cluster, database, lanes) VALUES (true, $1, $2, $3)
         ON CONFLICT (one) DO UPDATE
         SET cluster = excluded.cluster, database = excluded.database, lanes = excluded.lanes",
        &[&cluster, &database, &lanes],
    )
    .await?;
    db.batch_execute("COMMIT").await?;
    if is_moved {
        tracing::warn!("{}", Older::Elsewhere.sentence());
    }
    Ok(())
}

/// A cluster that this user may not ask for is still the one that was stored, if the rest is.
fn with_cluster(here: Place, stored: &Place) -> Place {
    let known = stored.cluster.filter(|_| here.is(stored));
    Place { cluster: here.cluster.or(known), ..here }
}

async fn stored(db: &ClientWrapper) -> Result<Option<Place>, Fault> {
    let row = db.query_opt("SELECT cluster, database, lanes FROM place", &[]).await?;
    let read = |row: tokio_postgres::Row| {
        Ok(Place { cluster: row.try_get(0)?, database: row.try_get(1)?, lanes: row.try_get(2)? })
    };
    row.map(read).transpose()
}

async fn here(db: &ClientWrapper) -> Result<Place, Fault> {
    let asked = db.query_one("SELECT system_identifier FROM pg_control_system()", &[]).await;
    let cluster = match asked {
        Ok(row) => row.try_get(0)?,
        Err(error) if is_refused(error.code()) => None,
        Err(error) => return Err(error.into()),
    };
    let row = db
        .query_one(
            "SELECT oid::bigint, 'lane'::regclass::oid::bigint FROM pg_database WHERE datname = current_database()",
            &[],
        )
        .await?;
    Ok(Place { cluster, database: row.try_get(0)?, lanes: row.try_get(1)? })
}

/// This user may not ask, or this server does not know the question.
fn is_refused(code: Option<&SqlState>) -> bool {
    code.is_some_and(|code| {
        [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::UNDEFINED_FUNCTION, SqlState::FEATURE_NOT_SUPPORTED]
            .contains(code)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_compared_by_what_is_known_of_it() {
        let place = |cluster, database, lanes| Place { cluster, database, lanes };
        let here = place(Some(1), 2, 3);
        assert!(here.is(&here));
        for other in [place(Some(9), 2, 3), place(Some(1), 9, 3), place(Some(1), 2, 9), place(None, 9, 3)] {
            assert!(!here.is(&other) && !other.is(&here), "{other:?}");
        }
        let unknown = place(None, 2, 3);
        assert!(here.is(&unknown) && unknown.is(&here));
        assert_eq!(with_cluster(unknown, &here), here, "it is not forgotten");
        assert_eq!(with_cluster(here, &unknown), here, "it is learnt");
        assert_eq!(with_cluster(place(None, 9, 3), &here), place(None, 9, 3), "it was another place's");
    }
}
