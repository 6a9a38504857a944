//! Who may call, and what each may do.
//!
//! ```text
//! request ─► guard (who asks for it: a page?) ─► admit (which key, which role, how often) ─► handler (whose signer?)
//! ```
//!
//! | file | what |
//! |---|---|
//! | `admit` | what every request passes on its way to a handler |
//! | `role` | roles, and what each path needs of them |
//! | `caller` | who a request comes from, as handlers see it |

mod admit;
mod caller;
mod role;

pub(crate) use admit::admit;
pub(crate) use caller::Caller;
pub(crate) use role::Need;
pub use role::Role;
