//! The audit chain: the row with its ends is locked while rows are appended, so that those of several processes follow each other.

use alloy_primitives::B256;
use deadpool_postgres::ClientWrapper;
use landfall_core::Millis;
use landfall_core::audit::{Cut, Ends, Link, New, Row, Seal, Trimmed};
use landfall_core::ports::audit::Page;

use super::error::Fault;
use super::rows::{bits, number};

const APPEND: &str = "INSERT INTO audit (namespace, seq, at, entry, hash)
     SELECT $1, u.seq, u.at, u.entry, u.hash
     FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bytea[]) AS u (seq, at, entry, hash)";
const MOVE: &str =
    "UPDATE audit_ends SET seq = $2, hash = $3, anchor = $4, anchor_hash = $5 WHERE namespace = $1";
const FIRST: &str =
    "INSERT INTO audit_ends (namespace, seq, hash, anchor, anchor_hash) VALUES ($1, 0, $2, 0, $2)
     ON CONFLICT DO NOTHING";
const ENDS: &str = "SELECT seq, hash, anchor, anchor_hash FROM audit_ends WHERE namespace = $1";

/// Appends entries; the head after them.
pub(super) async fn append(db: &ClientWrapper, namespace: i64, entries: &[New]) -> Result<Link, Fault> {
    db.batch_execute("BEGIN").await?;
    let before = locked(db, namespace).await?;
    let after = put(db, namespace, before, entries.iter().cloned()).await?;
    db.batch_execute("COMMIT").await?;
    Ok(after.head)
}

/// The ends, held until the transaction is over.
async fn locked(db: &ClientWrapper, namespace: i64) -> Result<Ends, Fault> {
    let lock = db.prepare_cached(&format!("{ENDS} FOR UPDATE")).await?;
    if let Some(row) = db.query_opt(&lock, &[&namespace]).await? {
        return read(&row);
    }
    let origin = Link::ORIGIN.hash;
    db.execute(FIRST, &[&namespace, &origin.0.as_slice()]).await?;
    read(&db.query_one(&lock, &[&namespace]).await?)
}

async fn put(
    db: &ClientWrapper,
    namespace: i64,
    mut ends: Ends,
    entries: impl Iterator<Item = New>,
) -> Result<Ends, Fault> {
    let (mut seqs, mut times, mut texts, mut hashes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for new in entries {
        let row = ends.head.then(new);
        ends.head = row.link();
        seqs.push(bits(row.seq));
        times.push(bits(row.at.0));
        texts.push(row.text);
        hashes.push(row.hash.0.to_vec());
    }
    let append = db.prepare_cached(APPEND).await?;
    db.execute(&append, &[&namespace, &seqs, &times, &texts, &hashes]).await?;
    let Ends { anchor, head } = ends;
    let (seq, hash) = (bits(head.seq), head.hash.0.to_vec());
    let (from, from_hash) = (bits(anchor.seq), anchor.hash.0.to_vec());
    let move_to = db.prepare_cached(MOVE).await?;
    db.execute(&move_to, &[&namespace, &seq, &hash, &from, &from_hash]).await?;
    Ok(ends)
}

pub(super) async fn ends(db: &ClientWrapper, namespace: i64) -> Result<Ends, Fault> {
    db.query_opt(ENDS, &[&namespace]).await?.as_ref().map_or(Ok(Ends::EMPTY), read)
}

fn read(row: &tokio_postgres::Row) -> Result<Ends, Fault> {
    Ok(Ends {
        head: Link { seq: number(row.try_get(0)?), hash: seal(row.try_get(1)?)? },
        anchor: Link { seq: number(row.try_get(2)?), hash: seal(row.try_get(3)?)? },
    })
}

pub(super) async fn list(
    db: &ClientWrapper,
    namespace: i64,
    page: Page,
    limit: u32,
) -> Result<Vec<Row>, Fault> {
    let (which, order, from) = match page {
        Page::After(seq) => ("seq > $2", "ASC", seq),
        // Rows at or before the anchor are none of the chain.
        Page::Before(seq) => (
            "seq < $2 AND seq > coalesce((SELECT anchor FROM audit_ends WHERE namespace = $1), 0)",
            "DESC",
            seq,
        ),
    };
    let sql = format!(
        "SELECT seq, at, entry, hash FROM audit WHERE namespace = $1 AND {which} ORDER BY seq {order} LIMIT $3"
    );
    // Numbers of rows stay far below where the sign begins.
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let rows = db.query(&sql, &[&namespace, &from, &i64::from(limit)]).await?;
    let row = |row: &tokio_postgres::Row| {
        Ok(Row {
            seq: number(row.try_get(0)?),
            at: Millis(number(row.try_get(1)?)),
            text: row.try_get(2)?,
            hash: seal(row.try_get(3)?)?,
        })
    };
    rows.iter().map(row).collect()
}

/// How many rows have a number that nothing here gives.
pub(super) async fn unnumbered(db: &ClientWrapper, namespace: i64) -> Result<u64, Fault> {
    let count = "SELECT count(*) FROM audit WHERE namespace = $1 AND seq < 1";
    Ok(number(db.query_one(count, &[&namespace]).await?.try_get(0)?))
}

/// The newest of the rows that may go, and the time of the newest among them.
async fn oldest(
    db: &ClientWrapper,
    namespace: i64,
    ends: Ends,
    (before, limit, now): (Millis, u32, Millis),
) -> Result<Option<(u64, Millis)>, Fault> {
    let oldest =
        "SELECT seq, at FROM audit WHERE namespace = $1 AND seq > $2 AND seq < $3 ORDER BY seq LIMIT $4";
    let (after, head) = (bits(ends.anchor.seq), bits(ends.head.seq));
    let rows = db.query(oldest, &[&namespace, &after, &head, &i64::from(limit)]).await?;
    let mut oldest = Vec::with_capacity(rows.len());
    for row in &rows {
        oldest.push((number(row.try_get(0)?), Millis(number(row.try_get(1)?))));
    }
    match Cut::of(oldest, before, now) {
        Cut::Nothing => Ok(None),
        Cut::UpTo { seq, newest } => Ok(Some((seq, newest))),
        Cut::WithTheNext { seq } => {
            let next =
                "SELECT at FROM audit WHERE namespace = $1 AND seq > $2 AND at <= $3 ORDER BY seq LIMIT 1";
            let Some(next) = db.query_opt(next, &[&namespace, &bits(seq), &bits(now.0)]).await? else {
                return Ok(None);
            };
            let newest = Millis(number(next.try_get(0)?));
            Ok((newest < before).then_some((seq, newest)))
        }
    }
}

/// Removes the oldest rows, and says so in a new one.
pub(super) async fn trim(
    db: &ClientWrapper,
    namespace: i64,
    before: Millis,
    limit: u32,
    now: Millis,
) -> Result<u64, Fault> {
    db.batch_execute("BEGIN").await?;
    let ends = locked(db, namespace).await?;
    let Some((last, newest)) = oldest(db, namespace, ends, (before, limit, now)).await? else {
        db.batch_execute("ROLLBACK").await?;
        return Ok(0);
    };
    let hash = "SELECT hash FROM audit WHERE namespace = $1 AND seq = $2";
    let hash = db.query_one(hash, &[&namespace, &bits(last)]).await?;
    let anchor = Link { seq: last, hash: seal(hash.try_get(0)?)? };
    let gone = "DELETE FROM audit WHERE namespace = $1 AND seq > $2 AND seq <= $3";
    let gone = db.execute(gone, &[&namespace, &bits(ends.anchor.seq), &bits(last)]).await?;
    let told = Trimmed::entry(anchor, newest, now)?;
    put(db, namespace, Ends { anchor, ..ends }, std::iter::once(told)).await?;
    db.batch_execute("COMMIT").await?;
    Ok(gone)
}

fn seal(bytes: &[u8]) -> Result<Seal, Fault> {
    B256::try_from(bytes).map(Seal).map_err(|error| Fault::corrupt("audit.hash", error))
}
