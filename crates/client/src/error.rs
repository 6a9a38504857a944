//! Why a call has no answer.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The server's own refusal (RFC 9457). `docs/errors.md` has a line for each code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// A stable word for programs.
    pub code: String,
    /// What happened and what to do, for people.
    pub detail: String,
    /// The field it is about, as a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// After how many seconds it may be asked again.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail, self.code)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Problem(Box<Problem>),
    /// Whether the request arrived is not known.
    #[error("no server answers at {url}")]
    Unreachable { url: String, source: reqwest::Error },
    /// Whether it was done is not known.
    #[error("the answer of {url} broke off")]
    BrokeOff { url: String, source: reqwest::Error },
    #[error("{url} does not answer like Landfall (HTTP {status})")]
    Foreign { url: String, status: u16 },
    /// Something answers there, and its certificate is not trusted.
    #[error("the certificate of {url} is not trusted: {why}")]
    Certificate { url: String, why: String, source: reqwest::Error },
    /// Something answers there without TLS.
    #[error("{url} answers without TLS")]
    NotTls { url: String, source: reqwest::Error },
    /// Something answers there that is not HTTP, most often TLS.
    #[error("{url} answers, but not in plain HTTP")]
    NotHttp { url: String, source: reqwest::Error },
    #[error("the authority's certificate cannot be used")]
    BadCertificate(#[source] reqwest::Error),
    #[error("there is no certificate in what was given as the authority's")]
    NoCertificate,
    #[error("the API key has characters that no API key has")]
    BadKey,
    #[error("the HTTP client could not be made")]
    Setup(#[source] reqwest::Error),
    #[error("{tx} has not ended after {} s; it goes on all the same", limit.as_secs_f64())]
    NotEnded { tx: String, limit: Duration },
}

impl Error {
    /// A request that got no answer: nobody is there, or somebody who does not speak as the URL says.
    pub(crate) fn unanswered(url: String, source: reqwest::Error) -> Self {
        use rustls::Error as Tls;
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&source);
        let mut tls = None;
        let mut is_no_http = false;
        while let Some(at) = cause {
            tls = tls.or_else(|| tls_fault(at));
            is_no_http |= at.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
            cause = at.source();
        }
        match tls {
            Some(Tls::InvalidCertificate(why)) => Self::Certificate { url, why: plain(&why), source },
            Some(Tls::InvalidMessage(_)) => Self::NotTls { url, source },
            _ if is_no_http => Self::NotHttp { url, source },
            _ => Self::Unreachable { url, source },
        }
    }

    /// The server's refusal, if it is one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The same call may go well later. A submission is repeated with the same `requestId`, or it may be done twice.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::BrokeOff { .. } => true,
            Self::Problem(problem) => matches!(problem.status, 429 | 503),
            Self::Foreign { .. }
            | Self::Certificate { .. }
            | Self::NotTls { .. }
            | Self::NotHttp { .. }
            | Self::BadCertificate(_)
            | Self::NoCertificate
            | Self::BadKey
            | Self::Setup(_)
            | Self::NotEnded { .. } => false,
        }
    }
}

/// A fault of TLS, also inside of I/O errors, which hide what they were made from.
fn tls_fault(error: &(dyn std::error::Error + 'static)) -> Option<rustls::Error> {
    if let Some(fault) = error.downcast_ref::<rustls::Error>() {
        return Some(fault.clone());
    }
    tls_fault(error.downcast_ref::<std::io::Error>()?.get_ref()?)
}

/// A certificate's fault for people.
fn plain(why: &rustls::CertificateError) -> String {
    use rustls::CertificateError as Fault;
    match why {
        Fault::UnknownIssuer => "its issuer is not known here".to_owned(),
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
            "it is for another name than the one in the URL".to_owned()
        }
        Fault::Expired | Fault::ExpiredContext { .. } => "it has expired".to_owned(),
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => "it is not valid yet".to_owned(),
        Fault::Revoked => "its authority has revoked it".to_owned(),
        Fault::BadSignature => "its signature does not fit".to_owned(),
        Fault::BadEncoding => "it cannot be read".to_owned(),
        Fault::InvalidPurpose | Fault::InvalidPurposeContext { .. } => "it is not for servers".to_owned(),
        // The library has no word of its own for this one.
        other if other.to_string().contains("CaUsedAsEndEntity") => "it is an authority's own certificate, which no server may show. Make \
             one for the server: openssl req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.crt -days 365 -subj /CN=localhost \
             -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
            .to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// As the TLS library tells it: by the name of its variant.
    #[derive(Debug)]
    struct CaUsedAsEndEntity;

    impl fmt::Display for CaUsedAsEndEntity {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{self:?}")
        }
    }

    impl std::error::Error for CaUsedAsEndEntity {}

    #[test]
    fn a_certificate_of_an_authority_is_told_in_words_with_how_to_make_another() {
        let fault = rustls::CertificateError::Other(rustls::OtherError(Arc::new(CaUsedAsEndEntity)));
        let said = plain(&fault);
        assert!(said.contains("basicConstraints=critical,CA:FALSE") && !said.contains("CaUsed"), "{said}");
    }
}
