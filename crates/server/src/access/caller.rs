//! Who a request comes from, as handlers see it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use landfall_core::Account;

use super::role::Role;
use crate::problem::{Code, Problem};

/// Who asks. Handlers get it as an argument, and ask it before they show or change something of a signer.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The id of its key; none where the server is open.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) role: Role,
    /// The signers it may see and use; none: all.
    pub(crate) signers: Option<Arc<BTreeSet<Account>>>,
}

impl Caller {
    /// Whoever reaches a server that is open.
    pub(crate) fn anyone() -> Self {
        Self { key: None, role: Role::Admin, signers: None }
    }

    /// Whoever has shown no key. It may do what needs nobody.
    pub(crate) fn nobody() -> Self {
        Self { key: None, role: Role::Viewer, signers: Some(Arc::default()) }
    }

    /// It may know of what this signer does.
    pub(crate) fn sees(&self, signer: Account) -> bool {
        self.signers.as_ref().is_none_or(|signers| signers.contains(&signer))
    }

    /// It may do what needs this role.
    pub(crate) fn is(&self, role: Role) -> bool {
        self.role >= role
    }

    /// Says no to what needs a higher role, or a signer that the caller does not have. What it may not see, it is not told of.
    pub(crate) fn may(&self, role: Role, signer: Account) -> Result<(), Problem> {
        if !self.is(role) {
            return Err(Self::lacks(role, self.role));
        }
        if !self.sees(signer) {
            let detail = format!("this API key is not for signer {signer}");
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(())
    }

    pub(super) fn lacks(needed: Role, has: Role) -> Problem {
        let detail = format!("this needs the role {needed}, and this API key has the role {has}");
        Problem::new(Code::Forbidden, detail)
    }
}

/// What the admission in front of all handlers found out. Without it nobody is asking.
impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(Self::nobody))
    }
}
