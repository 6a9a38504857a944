//! Exit codes: what a script can tell without reading. `docs/cli.md` has the table.

use std::fmt;
use std::process::ExitCode;

use landfall_client::Error;

/// How a command ended. Wrong usage is 2, which the argument parser says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It could not be done, or was refused.
    Failed = 1,
    /// A transaction that was waited for ended as reverted, failed, cancelled or expired.
    NoSuccess = 3,
    /// What was asked for is not there.
    NotFound = 4,
    /// A receiver did not take what was sent to it.
    NotDelivered = 5,
    /// No answer came: whether the request arrived is not known.
    NoServer = 6,
    /// The audit log is not what was written.
    Tampered = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Something that was looked for and is not there.
#[derive(Debug)]
pub(crate) struct NotFound(pub(crate) String);

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFound {}

impl Exit {
    /// The code that an error ends with.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if error.is::<NotFound>() {
            return Self::NotFound;
        }
        match error.downcast_ref::<Error>() {
            Some(Error::Problem(problem)) if problem.status == 404 => Self::NotFound,
            Some(
                Error::Unreachable { .. }
                | Error::BrokeOff { .. }
                | Error::Foreign { .. }
                | Error::Certificate { .. }
                | Error::NotTls { .. }
                | Error::NotHttp { .. },
            ) => Self::NoServer,
            Some(
                Error::Problem(_)
                | Error::BadKey
                | Error::BadCertificate(_)
                | Error::NoCertificate
                | Error::Setup(_),
            )
            | Some(Error::NotEnded { .. })
            | None => Self::Failed,
        }
    }
}
