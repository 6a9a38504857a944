//! TLS in front of everything: a certificate and its key, from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Where the certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and those that lead to its authority, in PEM.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl TlsFiles {
    pub(crate) fn load(&self) -> Result<Arc<ServerConfig>, String> {
        let certificates = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| format!("the key {} cannot be read: {error}", self.key.display()))?;
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(|error| {
                format!(
                    "the certificate {} and the key {} cannot be used: {error}",
                    self.certificate.display(),
                    self.key.display()
                )
            })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = file.display();
    let unreadable = |error| format!("the certificate {shown} cannot be read: {error}");
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if found.is_empty() {
        return Err(format!("there is no certificate in {shown}"));
    }
    Ok(found)
}
