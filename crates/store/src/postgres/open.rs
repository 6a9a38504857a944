//! Opening the database: reaching it, whether it can be used, and a plain sentence when it cannot.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use landfall_core::Namespace;
use landfall_core::ports::store;
use tokio_postgres::error::SqlState;

use super::error::{Fault, plain};
use super::pool::{Connection, Connections};
use super::{moved_in, older, place as places};
use super::{schema, tls};

/// The oldest PostgreSQL that is used, as `server_version_num` has it.
const OLDEST_SERVER: i32 = 130_000;

/// How often the first connection is tried when there is no answer.
const CONNECT_TRIES: u32 = 5;

/// How the adapter uses the database.
#[derive(Debug, Clone)]
pub struct Options {
    /// The schema that holds the tables; it is made if it is missing.
    pub schema: String,
    /// The most connections at once.
    pub connections: usize,
    /// How long a session lasts: every wait for the database ends before.
    pub lease: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { schema: "landfall".to_owned(), connections: 10, lease: Duration::from_secs(10) }
    }
}

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "{url:?} is not a PostgreSQL URL ({detail}). Write one like postgres://user:password@host:5432/database"
    )]
    BadUrl { url: String, detail: String },
    #[error(
        "the database at {place} cannot be reached ({detail}). See that PostgreSQL runs there and that this machine may \
         connect, or correct store.url"
    )]
    Unreachable { place: String, detail: String },
    #[error("the database at {place} is not ready ({detail}). Wait until it has started, and try again")]
    Starting { place: String, detail: String },
    #[error("there is no TLS connection to the database at {place} ({detail}). {}", tls::advice(.detail))]
    Tls { place: String, detail: String },
    #[error(
        "the database at {place} does not let this user in ({detail}). Correct the user and password in store.url, or the \
         server's pg_hba.conf"
    )]
    Login { place: String, detail: String },
    #[error(
        "the server at {place} has no such database ({detail}). Create it with `createdb`, or correct store.url"
    )]
    NoDatabase { place: String, detail: String },
    #[error(
        "the database at {place} is PostgreSQL {found}, and Landfall needs 13 or newer. Upgrade it, or use another one"
    )]
    OldServer { place: String, found: String },
    #[error(
        "the database at {place} takes no writes: it is a standby, or set read-only. Point store.url to the primary"
    )]
    ReadOnly { place: String },
    #[error(
        "the database at {place} does not let this user make or use Landfall's tables ({detail}). As its owner, run \
         CREATE SCHEMA {schema} AUTHORIZATION with the user's name"
    )]
    NotAllowed { place: String, schema: String, detail: String },
    #[error(
        "the database has schema version {found}, and this Landfall knows versions up to {known} and cannot work with it. \
         It was upgraded by a newer Landfall. Use that one, or restore a backup from before the upgrade (docs/backup.md)"
    )]
    NewerSchema { found: i32, known: i32 },
    #[error(
        "the database at {place} is being filled from {origin}, and that was not finished, so no server starts on it. Run \
         the same `landfall migrate` again to finish it"
    )]
    HalfFilled { place: String, origin: String },
    #[error("the database cannot be opened: {0}")]
    Failed(String),
}

impl OpenError {
    /// Waiting may help: nobody answers there yet, or the server is starting. A wrong password stays wrong.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Starting { .. } => true,
            Self::BadUrl { .. }
            | Self::Tls { .. }
            | Self::Login { .. }
            | Self::NoDatabase { .. }
            | Self::OldServer { .. }
            | Self::ReadOnly { .. }
            | Self::NotAllowed { .. }
            | Self::NewerSchema { .. }
            | Self::HalfFilled { .. }
            | Self::Failed(_) => false,
        }
    }

    pub(super) fn of(fault: Fault) -> Self {
        Self::Failed(fault.to_string())
    }
}

impl From<OpenError> for store::Error {
    fn from(error: OpenError) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// A URL as it may be shown: without its password.
#[must_use]
pub fn without_password(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some(parts) => parts,
        // A list of words, one of which may be `password=…`.
        None => return "postgres".to_owned(),
    };
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let shown = match before.rsplit_once('@') {
        Some((who, place)) => {
            let user = who.split_once(':').map_or(who, |(user, _)| user);
            format!("{scheme}://{user}@{place}")
        }
        None => format!("{scheme}://{before}"),
    };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.to_ascii_lowercase().starts_with("password"))
        .collect();
    if kept.is_empty() { shown } else { format!("{shown}?{}", kept.join("&")) }
}

/// Reads the URL.
pub(super) fn config_of(url: &str) -> Result<tokio_postgres::Config, OpenError> {
    let bad = |detail: String| OpenError::BadUrl { url: without_password(url), detail };
    if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
        return Err(bad("it does not begin with postgres://".to_owned()));
    }
    let config: tokio_postgres::Config = url.parse().map_err(|error| bad(plain(&error)))?;
    if config.get_hosts().is_empty() {
        return Err(bad("it names no host".to_owned()));
    }
    Ok(config)
}

/// The connections that a URL asks for; none is made yet.
pub(super) fn connections_of(url: &str, options: &Options) -> Result<Connections, OpenError> {
    let bad = |detail: String| OpenError::BadUrl { url: without_password(url), detail };
    let wanted = tls::wanted(url).map_err(bad)?;
    let config = config_of(&wanted.url)?;
    let secure = tls::Tls::of(&wanted).map_err(bad)?;
    Connections::new(config, secure, options).map_err(|error| bad(error.to_string()))
}

/// Connects, checks the server and brings the schema; answers the namespace's number.
pub(super) async fn open(
    connections: &Connections,
    url: &str,
    namespace: &Namespace,
    options: &Options,
) -> Result<i64, OpenError> {
    let connection = reach(connections, url, options).await?;
    let db = connection.db().map_err(OpenError::of)?;
    let place = without_password(url);
    if let Some(origin) = moved_in::unfinished(db).await.map_err(OpenError::of)? {
        return Err(OpenError::HalfFilled { place, origin });
    }
    let entered = async {
        let id = enter(db, namespace).await?;
        // After the namespace is there: one that the copy was too old to have is older as well.
        places::settle(db).await?;
        Ok(id)
    };
    let id = entered.await.map_err(|fault| not_allowed(OpenError::of(fault), place, &options.schema))?;
    connection.give_back();
    Ok(id)
}

/// A connection to a server that can be used, with the newest schema.
pub(super) async fn reach(
    connections: &Connections,
    url: &str,
    options: &Options,
) -> Result<Connection, OpenError> {
    let place = without_password(url);
    let mut connection = connections.get().await;
    // The limits of a connection come from the lease, and may be short for a machine that is just starting everything.
    for _ in 1..CONNECT_TRIES {
        if !matches!(connection, Err(Fault::Lost(_))) {
            break;
        }
        connection = connections.get().await;
    }
    let connection = connection.map_err(|fault| unreachable_as(fault, &place))?;
    let db = connection.db().map_err(OpenError::of)?;
    check_server(db, &place).await?;
    let prepared = schema::prepare(db, &options.schema).await;
    prepared.map_err(|error| not_allowed(error, place, &options.schema))?;
    Ok(connection)
}

fn not_allowed(error: OpenError, place: String, schema: &str) -> OpenError {
    match error {
        OpenError::Failed(detail)
            if detail.contains("permission denied") || detail.contains("may not do") =>
        {
            OpenError::NotAllowed { place, schema: schema.to_owned(), detail }
        }
        other => other,
    }
}

fn unreachable_as(fault: Fault, place: &str) -> OpenError {
    let place = place.to_owned();
    let Fault::Sql(error) = &fault else {
        let detail = fault_text(fault);
        return if tls::is_cause(&detail) {
            OpenError::Tls { place, detail }
        } else {
            OpenError::Unreachable { place, detail }
        };
    };
    let detail = plain(error);
    match error.code() {
        Some(code)
            if *code == SqlState::INVALID_PASSWORD
                || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
        {
            OpenError::Login { place, detail }
        }
        Some(code) if *code == SqlState::INVALID_CATALOG_NAME => OpenError::NoDatabase { place, detail },
        Some(code) if *code == SqlState::CANNOT_CONNECT_NOW => OpenError::Starting { place, detail },
        Some(_) => OpenError::Failed(fault.to_string()),
        // The driver's own refusals, such as a password that is needed and missing.
        None if detail.contains("password") => OpenError::Login { place, detail },
        None if tls::is_cause(&detail) => OpenError::Tls { place, detail },
        None => OpenError::Unreachable { place, detail },
    }
}

fn fault_text(fault: Fault) -> String {
    match fault {
        Fault::Lost(text) => text,
        other => other.to_string(),
    }
}

async fn check_server(db: &ClientWrapper, place: &str) -> Result<(), OpenError> {
    let look = async {
        let row = db
            .query_one(
                "SELECT current_setting('server_version_num'), current_setting('server_version'),
                        current_setting('transaction_read_only')",
                &[],
            )
            .await?;
        let (number, name, read_only): (String, String, String) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        Ok((number, name, read_only))
    };
    let (number, found, read_only) = look.await.map_err(OpenError::of)?;
    if number.parse::<i32>().is_ok_and(|number| number < OLDEST_SERVER) {
        return Err(OpenError::OldServer { place: place.to_owned(), found });
    }
    if read_only == "on" {
        return Err(OpenError::ReadOnly { place: place.to_owned() });
    }
    Ok(())
}

/// The number of a namespace, which is made when it is first heard of.
async fn enter(db: &ClientWrapper, namespace: &Namespace) -> Result<i64, Fault> {
    let name = &namespace.0;
    let known = "SELECT id FROM namespace WHERE name = $1";
    let id: i64 = match db.query_opt(known, &[name]).await? {
        Some(row) => row.try_get(0)?,
        None => {
            older::is_born(db, name).await?;
            db.query_one(known, &[name]).await?.try_get(0)?
        }
    };
    db.execute("INSERT INTO journal_end (namespace, last) VALUES ($1, 0) ON CONFLICT DO NOTHING", &[&id])
        .await?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://me:s3cr:et@db.example:5432/landfall", "postgres://me@db.example:5432/landfall"),
            (
                "postgres://me:a@b@db/landfall?password=x&connect_timeout=3",
                "postgres://me@db/landfall?connect_timeout=3",
            ),
            ("postgresql://db/landfall", "postgresql://db/landfall"),
            ("host=db password=s3cret", "postgres"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
