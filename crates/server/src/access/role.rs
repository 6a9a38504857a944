//! Roles, and what can be needed of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a key may do. Each may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Viewer,
    /// Hand transactions over, and change those.
    Submitter,
    /// Steer lanes, say yes or no to transactions, deliver events again.
    Operator,
    /// Make keys and webhooks, and read the audit log.
    Admin,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Submitter, Self::Operator, Self::Admin];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Submitter => "submitter",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a path needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: whether the server is alive, and what it can do.
    Nobody,
    /// At least this role.
    Role(Role),
}
