//! TLS in front of everything: a certificate and its key, from files. They are read again when they change, so that a
//! certificate is renewed without a restart; connections that are open keep the one they have.
//!
//! TLS 1.3 and 1.2 are spoken, the latter with ECDHE and an AEAD only: that is all that rustls has with ring. The server's order of
//! suites counts, the strongest first. Answers tell browsers to come by TLS only.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::response::Response;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long reading them may take before it is said that they hang.
const LONGEST: Duration = Duration::from_secs(10);
/// Bytes of one file; chains have a few thousand.
const LARGEST: u64 = 1 << 20;

/// `Strict-Transport-Security`: a year, for this name and not for those below it, which may be others'.
const STRICT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Says in an answer over TLS that there is nothing else here.
pub(crate) async fn says_strict(mut response: Response) -> Response {
    response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, STRICT);
    response
}

/// Where the certificate and its key are.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate and those that lead to its authority, in PEM.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Opens the key's file if nobody else can read it, at the start and whenever it is read again.
    pub open_key: fn(&Path) -> Result<File, String>,
}

/// The files' bytes.
#[derive(Default, PartialEq, Eq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl TlsFiles {
    fn read(&self) -> Result<Content, String> {
        let bytes = |what: &str, file: &Path, open: fn(&Path) -> Result<File, String>| {
            bounded(file, open)
                .map_err(|error| format!("the {what} {} cannot be read: {error}", file.display()))
        };
        let open = |file: &Path| File::open(file).map_err(|error| error.to_string());
        let certificate = bytes("certificate", &self.certificate, open)?;
        Ok(Content { certificate, key: bytes("key", &self.key, self.open_key)? })
    }

    fn pair(&self, content: &Content, crypto: &CryptoProvider) -> Result<CertifiedKey, String> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let unreadable = |error| format!("the certificate {certificate} cannot be read: {error}");
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&content.certificate)
            .collect::<Result<_, _>>()
            .map_err(unreadable)?;
        if chain.is_empty() {
            return Err(format!("there is no certificate in {certificate}"));
        }
        let secret = PrivateKeyDer::from_pem_slice(&content.key)
            .map_err(|error| format!("the key {key} cannot be read: {error}"))?;
        CertifiedKey::from_der(chain, secret, crypto).map_err(|error| {
            format!("the certificate {certificate} and the key {key} cannot be used: {error}")
        })
    }

    pub(crate) fn load(self) -> Result<Tls, String> {
        let builder = ServerConfig::builder();
        let crypto = builder.crypto_provider().clone();
        let content = self.read()?;
        let pair = Arc::new(Pair(RwLock::new(Arc::new(self.pair(&content, &crypto)?))));
        let mut config = builder.with_no_client_auth().with_cert_resolver(pair.clone());
        config.ignore_client_order = true;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { files: self, content, refused: None, pair, crypto, config: Arc::new(config) })
    }
}

/// The bytes of a file that is one, and no larger than such files are.
fn bounded(file: &Path, open: fn(&Path) -> Result<File, String>) -> Result<Vec<u8>, String> {
    // Looking comes first: opening something else, such as a pipe, may take for ever.
    if !std::fs::metadata(file).map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    open(file)?.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("it has more than {LARGEST} bytes"));
    }
    Ok(bytes)
}

/// The certificate that new connections are shown.
#[derive(Debug)]
struct Pair(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Pair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// TLS as it is served.
pub(crate) struct Tls {
    files: TlsFiles,
    content: Content,
    /// The files that could not be used at the last look, and why, once that was said.
    refused: Option<(String, bool)>,
    pair: Arc<Pair>,
    crypto: Arc<CryptoProvider>,
    config: Arc<ServerConfig>,
}

impl Tls {
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Looks at the files for ever.
    pub(crate) async fn follow(mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let files = self.files.clone();
            let mut reading = tokio::task::spawn_blocking(move || files.read());
            let read = match tokio::time::timeout(LONGEST, &mut reading).await {
                Ok(read) => read,
                Err(_) => {
                    tracing::error!(
                        "reading {} and {} takes longer than {} s; connections are shown the certificate from before meanwhile",
                        self.files.certificate.display(),
                        self.files.key.display(),
                        LONGEST.as_secs()
                    );
                    reading.await
                }
            };
            self.look(read.unwrap_or_else(|error| Err(error.to_string())));
        }
    }

    /// Takes a new pair; what cannot be used leaves the old one in place. One of two files may be newer for a moment, so
    /// that is said when it is so twice.
    fn look(&mut self, read: Result<Content, String>) {
        if matches!(&read, Ok(content) if *content == self.content) {
            self.refused = None;
            return;
        }
        let new = read.and_then(|content| Ok((self.files.pair(&content, &self.crypto)?, content)));
        match new {
            Ok((pair, content)) => {
                *self.pair.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
                self.content = content;
                self.refused = None;
                tracing::info!(
                    certificate = %self.files.certificate.display(),
                    "new connections are shown the new certificate"
                );
            }
            Err(why) => {
                let again = self.refused.take().filter(|(before, _)| *before == why);
                if matches!(again, Some((_, false))) {
                    tracing::error!(
                        "the new certificate is not used, and the one before is kept, until it expires: {why}. Put a \
                         certificate and its key in place that belong together"
                    );
                }
                self.refused = Some((why, again.is_some()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_judged_at_each_reading_and_not_only_at_the_start() {
        let folder = std::env::temp_dir().join(format!("landfall-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (certificate, key) = (folder.join("a.crt"), folder.join("a.key"));
        for file in [&certificate, &key] {
            std::fs::write(file, "text").unwrap();
        }
        let open_key = |path: &Path| {
            let file = File::open(path).map_err(|error| error.to_string())?;
            let is_open = file.metadata().map_err(|error| error.to_string())?.len() > 4;
            if is_open { Err("others can read it".to_owned()) } else { Ok(file) }
        };
        let files = TlsFiles { certificate, key: key.clone(), open_key };
        assert!(files.read().is_ok());
        std::fs::write(&key, "the new text").unwrap();
        let refused = files.read().err().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(refused.contains("others can read it"), "{refused}");
    }
}
