//! A database that is copied, and put back from its copy.

use landfall_pgtest::Cluster;
use tokio_postgres::{Client, NoTls};

use super::{own_database, until};

/// Databases of a cluster of their own.
pub(crate) struct Restored {
    cluster: Cluster,
    root: Client,
}

impl Restored {
    /// With an empty database.
    pub(crate) async fn new() -> Self {
        let cluster = own_database();
        let (root, connection) = tokio_postgres::connect(&cluster.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let this = Self { cluster, root };
        this.make("landfall").await;
        this
    }

    pub(crate) async fn make(&self, name: &str) {
        self.root.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    }

    pub(crate) fn url_of(&self, name: &str) -> String {
        let url = self.cluster.url();
        let (server, _) = url.rsplit_once('/').expect("a database");
        format!("{server}/{name}")
    }

    pub(crate) fn url(&self) -> String {
        self.url_of("landfall")
    }

    /// Copies it. No server may run.
    pub(crate) async fn back_up(&self) {
        self.copy("landfall", "backup").await;
    }

    /// Puts the copy where the database was.
    pub(crate) async fn put_back(&self) {
        self.root.batch_execute("DROP DATABASE landfall WITH (FORCE)").await.unwrap();
        self.copy("backup", "landfall").await;
    }

    async fn copy(&self, from: &str, to: &str) {
        let copy = format!("CREATE DATABASE {to} TEMPLATE {from}");
        until("nobody is connected to what is copied", async || {
            self.root.batch_execute(&copy).await.is_ok().then_some(())
        })
        .await;
    }
}
