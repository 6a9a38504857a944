//! Who may call, and what each may do.
//!
//! ```text
//! headers ─► guard (who asks for it: a page?) ─► admit (which key, which role, how often) ─► body ─► handler (whose signer?)
//! ```
//!
//! | file | what |
//! |---|---|
//! | `admit` | what every request passes on its way to a handler |
//! | `key`, `keyring`, `looks` | API keys, who shows one, and how they are looked up |
//! | `older` | whom it trusts while the store is an older copy |
//! | `role` | what keys may do, and what paths need |
//! | `admin` | the administrator's key that is not in the store |
//! | `rate`, `quota`, `look` | how often a key may ask, how much it may hold, and have read for it at once |
//! | `unread` | the room that an answer takes until it is read |
//! | `audit` | who asked for what, and who was sent away |
//! | `caller` | who a request comes from, as handlers see it |

mod admin;
mod admit;
pub mod audit;
mod caller;
mod key;
mod keyring;
mod look;
mod looks;
mod older;
mod quota;
mod rate;
mod role;
mod unread;

pub use admin::AdminKey;
pub(crate) use admit::admit;
pub(crate) use audit::{Audit, Wrote};
pub(crate) use caller::Caller;
pub(crate) use key::ApiKey;
pub use keyring::Policy;
pub(crate) use keyring::{Keyring, Made, NewKey, no_longer_good};
pub(crate) use look::turn_to_look;
pub(crate) use older::needs_a_sure_key;
pub use quota::Shares;
pub(crate) use quota::{Place, Quota, Turn};
pub(crate) use role::Need;
pub use role::Role;
