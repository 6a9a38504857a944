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
    /// The id of its key; none where the server is open, and for those who show none.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    /// The signers it may see and use; none: all.
    pub(crate) signers: Option<Arc<BTreeSet<Account>>>,
    /// Requests per second; 0: no limit.
    pub(super) per_s: u32,
    /// It has shown a key, or needs none here.
    known: bool,
}

impl Caller {
    pub(super) fn with(key: Arc<str>, name: &str, role: Role, signers: Option<BTreeSet<Account>>) -> Self {
        Self {
            key: Some(key),
            name: name.into(),
            role,
            signers: signers.map(Arc::new),
            per_s: 0,
            known: true,
        }
    }

    /// Whoever reaches a server that is open.
    pub(crate) fn anyone() -> Self {
        Self { key: None, name: "anyone".into(), role: Role::Admin, signers: None, per_s: 0, known: true }
    }

    /// Whoever has shown no key. It may do what needs nobody.
    pub(crate) fn nobody() -> Self {
        Self {
            key: None,
            name: "nobody".into(),
            role: Role::Viewer,
            signers: Some(Arc::default()),
            per_s: 0,
            known: false,
        }
    }

    /// It may know of what this signer does.
    pub(crate) fn sees(&self, signer: Account) -> bool {
        self.signers.as_ref().is_none_or(|signers| signers.contains(&signer))
    }

    /// It may know of everything that is no signer's own.
    pub(crate) fn sees_all(&self) -> bool {
        self.known && self.signers.is_none()
    }

    /// It may do what needs this role.
    pub(crate) fn is(&self, role: Role) -> bool {
        self.known && self.role >= role
    }

    /// Says no to what needs a higher role, or a signer that the caller does not have.
    pub(crate) fn may(&self, role: Role, signer: Account) -> Result<(), Problem> {
        if !self.is(role) {
            return Err(self.lacks(role));
        }
        if !self.sees(signer) {
            let detail = format!("this API key is not for signer {signer}");
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(())
    }

    pub(crate) fn lacks(&self, needed: Role) -> Problem {
        let detail = format!("this needs the role {needed}, and this API key has the role {}", self.role);
        Problem::new(Code::Forbidden, detail)
    }

    /// What is not a signer's own is for those who see all signers.
    pub(crate) fn must_see_all(&self) -> Result<(), Problem> {
        if self.sees_all() {
            return Ok(());
        }
        Err(Problem::new(
            Code::Forbidden,
            "this API key is for some signers only, and this is about all of them",
        ))
    }
}

/// What the admission in front of all handlers found out. Without it nobody is asking.
impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(Self::nobody))
    }
}
