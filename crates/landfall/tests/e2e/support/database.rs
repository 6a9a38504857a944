//! The PostgreSQL that servers of a test share.

use landfall_pgtest::Cluster;

/// The database for all tests where there is one, else one of our own.
pub(crate) struct Database {
    pub(crate) url: String,
    _own: Option<Cluster>,
}

impl Database {
    pub(crate) fn any() -> Self {
        match std::env::var(landfall_pgtest::VARIABLE) {
            Ok(url) => Self { url, _own: None },
            Err(_) => {
                let own = own_database();
                Self { url: own.url(), _own: Some(own) }
            }
        }
    }
}

pub(crate) fn own_database() -> Cluster {
    Cluster::start(landfall_pgtest::Settings::default()).unwrap()
}
