//! Roles, and what can be needed of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The role of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Viewer,
    /// Look, and say yes or no to transactions that wait for a person. Nothing else: whoever approves does not submit.
    Approver,
    /// Hand transactions over, and change those.
    Submitter,
    /// Steer lanes, say yes or no to transactions, deliver events again.
    Operator,
    /// Make keys and webhooks, and read the audit log.
    Admin,
}

impl Role {
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Approver, Self::Submitter, Self::Operator, Self::Admin];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Approver => "approver",
            Self::Submitter => "submitter",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// It may do what needs the other. Approvers and submitters stand beside each other; both may look.
    #[must_use]
    pub fn covers(self, needed: Self) -> bool {
        match self {
            Self::Viewer => needed == Self::Viewer,
            Self::Approver => matches!(needed, Self::Viewer | Self::Approver),
            Self::Submitter => matches!(needed, Self::Viewer | Self::Submitter),
            Self::Operator => needed != Self::Admin,
            Self::Admin => true,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approvers_do_not_submit_and_submitters_do_not_approve() {
        let covered = |role: Role| -> Vec<&str> {
            Role::ALL.into_iter().filter(|needed| role.covers(*needed)).map(Role::name).collect()
        };
        assert_eq!(covered(Role::Viewer), ["viewer"]);
        assert_eq!(covered(Role::Approver), ["viewer", "approver"]);
        assert_eq!(covered(Role::Submitter), ["viewer", "submitter"]);
        assert_eq!(covered(Role::Operator), ["viewer", "approver", "submitter", "operator"]);
        assert_eq!(covered(Role::Admin), Role::ALL.map(Role::name));
    }
}
