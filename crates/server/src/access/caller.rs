//! Who a request comes from, as handlers see it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use landfall_core::{Account, ChainId, LaneId, Origin};

use super::key::Hash;
use super::role::Role;
use crate::problem::{Code, Problem};
use crate::show::Addresses;

/// Who asks. Handlers get it as an argument, and ask it before they show or change something of a signer.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The id of its key; none where the server is open, and for those who show none.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    /// The signers it may see and use; none: all.
    pub(crate) signers: Option<Arc<BTreeSet<Account>>>,
    /// The other end of its connection. Behind a proxy that is the proxy.
    pub(crate) address: Option<IpAddr>,
    /// The chains it may see and use them on; none: all.
    pub(crate) chains: Option<Arc<BTreeSet<ChainId>>>,
    /// The administrator's key that was shown, if that is not in the store.
    pub(super) admin: Option<Hash>,
    /// Requests per second; 0: no limit.
    pub(super) per_s: u32,
    /// It has shown a key, or needs none here.
    known: bool,
}

impl Caller {
    pub(crate) fn with(
        key: Arc<str>,
        name: &str,
        role: Role,
        signers: Option<BTreeSet<Account>>,
        chains: Option<BTreeSet<ChainId>>,
    ) -> Self {
        Self {
            key: Some(key),
            name: name.into(),
            role,
            signers: signers.map(Arc::new),
            address: None,
            chains: chains.map(Arc::new),
            admin: None,
            per_s: 0,
            known: true,
        }
    }

    /// Whoever reaches a server that is open.
    pub(crate) fn anyone() -> Self {
        Self {
            key: None,
            name: "anyone".into(),
            role: Role::Admin,
            signers: None,
            address: None,
            chains: None,
            admin: None,
            per_s: 0,
            known: true,
        }
    }

    /// Whoever has shown no key. It may do what needs nobody.
    pub(crate) fn nobody() -> Self {
        Self {
            key: None,
            name: "nobody".into(),
            role: Role::Viewer,
            signers: Some(Arc::default()),
            address: None,
            chains: Some(Arc::default()),
            admin: None,
            per_s: 0,
            known: false,
        }
    }

    /// It has shown the same key.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.key == other.key && self.admin == other.admin
    }

    /// It has shown a key, or needs none here.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Its origin, stored with whatever it asks for.
    pub(crate) fn origin(&self) -> Arc<Origin> {
        Arc::new(Origin { key: self.key.clone(), name: self.name.clone(), address: self.address })
    }

    /// Its role, if it has shown a key or needs none here.
    pub(crate) fn known_role(&self) -> Option<Role> {
        self.known.then_some(self.role)
    }

    /// It may know of what this signer does, on some chain. What is about one chain asks for the lane.
    pub(crate) fn sees(&self, signer: Account) -> bool {
        self.signers.as_ref().is_none_or(|signers| signers.contains(&signer))
    }

    /// It may know of what some signer does on this chain.
    pub(crate) fn sees_chain(&self, chain: ChainId) -> bool {
        self.chains.as_ref().is_none_or(|chains| chains.contains(&chain))
    }

    /// It may know of what this lane does.
    pub(crate) fn sees_lane(&self, lane: LaneId) -> bool {
        self.sees(lane.signer) && self.sees_chain(lane.chain)
    }

    /// It may know of everything that is no lane's own.
    pub(crate) fn sees_all(&self) -> bool {
        self.known && self.signers.is_none() && self.chains.is_none()
    }

    /// Whether it is told from where others called: those who run the server are.
    pub(crate) fn addresses(&self) -> Addresses {
        if self.is(Role::Operator) { Addresses::Shown } else { Addresses::Hidden }
    }

    /// It may do what needs this role.
    pub(crate) fn is(&self, role: Role) -> bool {
        self.known && self.role.covers(role)
    }

    /// Says no to what needs another role, or a lane that the caller does not have.
    pub(crate) fn may(&self, role: Role, lane: LaneId) -> Result<(), Problem> {
        if !self.is(role) {
            return Err(self.lacks(role));
        }
        if !self.sees(lane.signer) {
            let detail = format!("this API key is not for signer {}", lane.signer);
            return Err(Problem::new(Code::Forbidden, detail));
        }
        if !self.sees_chain(lane.chain) {
            let detail = format!("this API key is not for chain {}", lane.chain);
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(())
    }

    pub(crate) fn lacks(&self, needed: Role) -> Problem {
        let detail = format!("this needs the role {needed}, and this API key has the role {}", self.role);
        Problem::new(Code::Forbidden, detail)
    }

    /// Things that are no lane's own are for those who see all lanes.
    pub(crate) fn must_see_all(&self) -> Result<(), Problem> {
        if self.sees_all() {
            return Ok(());
        }
        Err(Problem::new(
            Code::Forbidden,
            "this API key is for some signers or chains only, and this is about all of them",
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
