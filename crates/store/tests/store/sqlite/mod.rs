//! What only a file can go through: being opened twice, damaged, copied half-way, full, read-only, or newer.

mod copies;
mod full;
mod mark;
mod marked;
mod opening;
mod plans;
mod rest;

use std::path::Path;

use landfall_core::Namespace;
use landfall_store::Sqlite;
use landfall_store::sqlite::{OpenError, Options};

fn open(file: &Path) -> Result<Sqlite, OpenError> {
    Sqlite::open(file.to_str().unwrap(), &Namespace::default(), &Options::default())
}
