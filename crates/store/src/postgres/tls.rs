//! TLS to the database, as `sslmode` and `sslrootcert` in the URL ask for it.
//!
//! | `sslmode` | what it means |
//! |---|---|
//! | `disable` | never |
//! | `prefer`, and nothing said | if the server offers it; its certificate is not checked |
//! | `require` | always; its certificate is not checked, unless `sslrootcert` names who must have signed it |
//! | `verify-full` | always; the certificate must be for this host, and signed by `sslrootcert` or by one the system trusts |
//!
//! As in PostgreSQL's own library, only `verify-full` stops somebody who stands in between.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// What a URL says of TLS, and the rest of it.
pub(super) struct Wanted {
    /// The URL without what only this module understands.
    pub(super) url: String,
    verify: bool,
    roots: Option<String>,
}

/// Reads the URL; a sentence if it asks for what is not known.
pub(super) fn wanted(url: &str) -> Result<Wanted, String> {
    let (before, query) = url.split_once('?').unwrap_or((url, ""));
    let mut kept = Vec::new();
    let (mut verify, mut roots) = (false, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", "verify-full")) => {
                verify = true;
                kept.push("sslmode=require");
            }
            Some(("sslmode", "disable" | "prefer" | "require")) => kept.push(pair),
            Some(("sslmode", _)) => {
                return Err("sslmode is one of disable, prefer, require and verify-full".to_owned());
            }
            Some(("sslrootcert", file)) => roots = Some(decoded(file)?),
            Some(_) | None => kept.push(pair),
        }
    }
    let url = if kept.is_empty() { before.to_owned() } else { format!("{before}?{}", kept.join("&")) };
    Ok(Wanted { url, verify, roots })
}

/// The text behind `%2F` and the like.
fn decoded(text: &str) -> Result<String, String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    let bad = || format!("{text} has a % without two digits behind it, or is not UTF-8");
    for part in parts {
        let (code, rest) = part.split_at_checked(2).ok_or_else(bad)?;
        bytes.push(u8::from_str_radix(code, 16).map_err(|_| bad())?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Does the driver say that TLS is why there is no connection?
pub(super) fn is_cause(detail: &str) -> bool {
    detail.contains("TLS handshake")
}

/// What to do about it.
pub(super) fn advice(detail: &str) -> &'static str {
    if detail.contains("does not support TLS") {
        "The URL asks for TLS, so nothing is sent without it. Turn on ssl in PostgreSQL's settings, or say sslmode=disable \
         if nobody can listen on the way there"
    } else if detail.contains("NotValidForName") || detail.contains("not valid for name") {
        "The server's certificate is for another host. Use the host's name that it has, or give the server one for this name"
    } else if detail.contains("UnknownIssuer") {
        "Nobody who is trusted here has signed the server's certificate. Name the file of whoever did with \
         sslrootcert=/path/to/ca.pem in the URL"
    } else if detail.contains("Expired") || detail.contains("expired") {
        "The server's certificate has expired, or a clock is wrong. Give the server a new one"
    } else {
        "Look at PostgreSQL's log, and at sslmode and sslrootcert in the URL"
    }
}

/// Makes connections secure.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(super) fn of(wanted: &Wanted) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        // As in PostgreSQL's own library, a file of roots is used wherever it is named.
        let config = if wanted.verify || wanted.roots.is_some() {
            builder.with_root_certificates(roots(wanted)?).with_no_client_auth()
        } else {
            let unchecked = Arc::new(Unchecked(provider));
            builder.dangerous().with_custom_certificate_verifier(unchecked).with_no_client_auth()
        };
        Ok(Self(Arc::new(config)))
    }
}

fn roots(wanted: &Wanted) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    match &wanted.roots {
        Some(file) => {
            let unusable = |why: String| format!("sslrootcert {file} cannot be used: {why}");
            let found = CertificateDer::pem_file_iter(file).map_err(|error| unusable(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                store.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if store.is_empty() {
        return Err("there is no certificate to check the server by; name a file with sslrootcert".to_owned());
    }
    Ok(store)
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Secured;
    type TlsConnect = Handshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Self::Error> {
        // A socket in the file system has no name; the server never offers TLS there.
        let name = if host.is_empty() || host.starts_with('/') { "localhost" } else { host };
        Ok(Handshake { config: Arc::clone(&self.0), name: ServerName::try_from(name.to_owned())? })
    }
}

/// One connection that is about to be made secure.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Secured;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        let connector = tokio_rustls::TlsConnector::from(self.config);
        Box::pin(async move { connector.connect(self.name, stream).await.map(Box::new).map(Secured) })
    }
}

/// A connection that is secure.
pub(super) struct Secured(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Secured {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}

/// Takes any certificate; that its holder has the key is still checked.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_how_secure_it_must_be() {
        for (url, left, verify, roots) in [
            ("postgres://db/x", "postgres://db/x", false, None),
            ("postgres://db/x?sslmode=require", "postgres://db/x?sslmode=require", false, None),
            (
                "postgres://db/x?connect_timeout=3&sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem",
                "postgres://db/x?connect_timeout=3&sslmode=require",
                true,
                Some("/etc/ca.pem"),
            ),
        ] {
            let wanted = wanted(url).unwrap();
            assert_eq!((wanted.url.as_str(), wanted.verify, wanted.roots.as_deref()), (left, verify, roots));
        }
        assert!(wanted("postgres://db/x?sslmode=verify-ca").is_err());
        let spaced = wanted("postgres://db/x?sslrootcert=/my%20files/c%C3%A4.pem").unwrap();
        assert_eq!(spaced.roots.as_deref(), Some("/my files/cä.pem"));
        for bad in ["%", "%2", "%zz", "%ff", "%é"] {
            assert!(wanted(&format!("postgres://db/x?sslrootcert={bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_said_in_words() {
        let wanted = wanted("postgres://db/x?sslmode=verify-full&sslrootcert=no-such-file.pem").unwrap();
        let refused = Tls::of(&wanted).err().unwrap();
        assert!(refused.contains("no-such-file.pem"), "{refused}");
    }
}
