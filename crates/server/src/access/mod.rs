//! Who may call, and what each may do.
//!
//! ```text
//! request ─► guard (who asks for it: a page?) ─► admit (which key, which role, how often) ─► handler (whose signer?)
//! ```
//!
//! | file | what |
//! |---|---|
//! | `admit` | what every request passes on its way to a handler |
//! | `key`, `keyring` | API keys, and who shows one |
//! | `role` | what keys may do, and what paths need |
//! | `rate` | how often a key may ask |
//! | `audit` | what those who steer have asked for |
//! | `caller` | who a request comes from, as handlers see it |

mod admit;
mod audit;
mod caller;
mod key;
mod keyring;
mod rate;
mod role;

pub(crate) use admit::admit;
pub(crate) use audit::Audit;
pub(crate) use caller::Caller;
pub(crate) use key::ApiKey;
pub use keyring::Policy;
pub(crate) use keyring::{Keyring, Made, NewKey};
pub(crate) use role::Need;
pub use role::Role;
