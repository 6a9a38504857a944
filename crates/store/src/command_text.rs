//! A command as text: what a column holds of it, and by which it is measured where no database is.

use landfall_core::Origin;
use landfall_core::ports::store::{Command, CommandKind};
use serde::Serialize;

#[derive(Serialize)]
struct CommandText<'a> {
    #[serde(flatten)]
    kind: &'a CommandKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a Origin>,
}

/// The text column of a command: what is asked for, and beside it who asks.
pub(crate) fn command_text(command: &Command) -> serde_json::Result<String> {
    serde_json::to_string(&CommandText { kind: &command.kind, by: command.by.as_deref() })
}
