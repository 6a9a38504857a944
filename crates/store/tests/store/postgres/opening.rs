//! Opening: what is said when it cannot be, and schemas that change while others run.

use landfall_core::Namespace;
use landfall_core::ports::store::{Leases as _, Reads};
use landfall_store::Postgres;
use landfall_store::postgres::{OpenError, Options};
use tokio::task::JoinSet;

use super::raw;
use crate::fixtures::*;
use crate::world::Database;

async fn refused(url: &str) -> OpenError {
    Postgres::open(url, &Namespace::default(), &Options::default()).await.unwrap_err()
}

#[tokio::test]
async fn nodes_that_start_at_once_on_an_empty_database_make_one_schema() {
    // They meet at another statement each time.
    for _ in 0..5 {
        let database = std::sync::Arc::new(Database::new());
        let mut nodes = JoinSet::new();
        for _ in 0..8 {
            let database = std::sync::Arc::clone(&database);
            nodes.spawn(async move { database.open().await });
        }
        let nodes = nodes.join_all().await;
        admit_new(&nodes[0], request(lane(1), 1)).await;
        assert!(nodes[7].tx(tx_id(1)).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_schema_of_a_newer_program_is_used_if_it_allows_that_and_refused_if_not() {
    let database = Database::new();
    let running = database.open().await;
    let raw = raw(&database).await;
    raw.batch_execute("UPDATE landfall_schema SET version = 99").await.unwrap();
    database.open().await;
    raw.batch_execute("UPDATE landfall_schema SET runs_with = 98").await.unwrap();
    let error = Postgres::open(&database.url, &Namespace::default(), &database.options).await.unwrap_err();
    assert!(matches!(error, OpenError::NewerSchema { found: 99, .. }), "{error}");
    admit_new(&running, request(lane(1), 1)).await;
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_said_in_words() {
    let database = Database::new();
    let config: tokio_postgres::Config = database.url.parse().unwrap();
    let (user, port) = (config.get_user().unwrap(), config.get_ports()[0]);
    let host = "127.0.0.1";

    let error = refused("mysql://x").await;
    assert!(matches!(error, OpenError::BadUrl { .. }), "{error}");

    let taken = std::net::TcpListener::bind((host, 0)).unwrap();
    let free = taken.local_addr().unwrap().port();
    drop(taken);
    let error = refused(&format!("postgres://{user}:secret@{host}:{free}/postgres")).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");

    let (server, _) = database.url.rsplit_once('/').unwrap();
    let error = refused(&format!("{server}/no_such_database")).await;
    assert!(matches!(error, OpenError::NoDatabase { .. }), "{error}");

    let error = refused(&format!("postgres://{user}:wrong@{host}:{port}/postgres")).await;
    assert!(matches!(error, OpenError::Login { .. }), "{error}");
    assert!(error.to_string().contains("store.url") && !error.to_string().contains("wrong@"), "{error}");
}

/// Callers' nonces as a program left them that stored them with the request alone.
#[tokio::test]
async fn callers_nonces_of_an_earlier_version_are_known_after_the_upgrade() {
    let database = Database::new();
    let store = database.open().await;
    crate::cases::call_before_the_upgrade(&store).await;
    store.close_session(session(1)).await.unwrap();
    drop(store);
    let before = "ALTER TABLE tx DROP COLUMN api_key, DROP COLUMN caller_nonce;
         ALTER TABLE kept DROP COLUMN lane, DROP COLUMN api_key, DROP COLUMN caller_nonce, DROP COLUMN first_hash;
         UPDATE tx SET request = replace(request, '\"nonce\":6', '\"nonce\":5');
         ALTER TABLE command DROP COLUMN tx;
         DROP TABLE audit, audit_ends, place, older;
         DROP SEQUENCE session_pulse; ALTER TABLE session DROP COLUMN pulse, DROP COLUMN lasts_ms;
         UPDATE landfall_schema SET version = 6, runs_with = 6";
    raw(&database).await.batch_execute(before).await.unwrap();
    crate::cases::call_after_the_upgrade(&database.open().await).await;
}

#[tokio::test]
async fn a_user_that_may_not_make_the_schema_is_told_what_to_run() {
    let database = Database::new();
    let name = format!("{}_user", database.options.schema);
    let raw = raw(&database).await;
    raw.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD 'x'")).await.unwrap();
    let config: tokio_postgres::Config = database.url.parse().unwrap();
    let url = format!("postgres://{name}:x@127.0.0.1:{}/postgres", config.get_ports()[0]);
    let error = Postgres::open(&url, &Namespace::default(), &database.options).await.unwrap_err();
    assert!(matches!(error, OpenError::NotAllowed { .. }), "{error}");
    // With a schema of its own it needs nothing more.
    let schema = &database.options.schema;
    raw.batch_execute(&format!("CREATE SCHEMA {schema} AUTHORIZATION {name}")).await.unwrap();
    Postgres::open(&url, &Namespace::default(), &database.options).await.unwrap();
}

#[tokio::test]
async fn tls_is_used_where_it_is_offered_and_checked_where_the_url_asks_for_it() {
    let settings = landfall_pgtest::Settings { tls: true, ..landfall_pgtest::Settings::default() };
    let cluster = landfall_pgtest::Cluster::start(settings).unwrap();
    let url = cluster.url();
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name = 'landfall'";
    let root = cluster.certificate().display().to_string();
    // The first way needs nothing said: the server offers it.
    for (more, expected) in [
        (String::new(), true),
        ("?sslmode=require".to_owned(), true),
        (format!("?sslmode=verify-full&sslrootcert={root}"), true),
        ("?sslmode=disable".to_owned(), false),
    ] {
        let store = Postgres::open(&format!("{url}{more}"), &Namespace::default(), &Options::default())
            .await
            .unwrap();
        store.writable().await.unwrap();
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        assert_eq!(client.query_one(encrypted, &[]).await.unwrap().get::<_, bool>(0), expected, "{more}");
        drop(store);
        super::until(
            &client,
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'landfall'",
        )
        .await;
    }
    // Nobody whom this machine trusts has signed it; and it is not for another name.
    let other = url.replace("@127.0.0.1", "@db.example");
    for (url, more, advice) in [
        (&url, "?sslmode=verify-full".to_owned(), "sslrootcert=/path"),
        (&other, format!("?sslmode=verify-full&sslrootcert={root}&hostaddr=127.0.0.1"), "for another host"),
    ] {
        let error = refused(&format!("{url}{more}")).await;
        assert!(matches!(error, OpenError::Tls { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("certificate") && text.contains(advice), "{text}");
    }
    // One that speaks no TLS gets neither user nor password.
    let plain = Database::new();
    for mode in ["require", "verify-full"] {
        let error = refused(&format!("{}?sslmode={mode}", plain.url)).await;
        assert!(matches!(error, OpenError::Tls { .. }), "{error:?}");
        assert!(error.to_string().contains("Turn on ssl"), "{error}");
    }
}
