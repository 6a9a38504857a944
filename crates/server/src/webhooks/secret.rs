//! Secrets and signatures, as <https://www.standardwebhooks.com> has them.
//!
//! An endpoint's secret is derived from the installation's, by the endpoint's id and a generation. So the store holds no
//! secret, and whoever reads a backup of it cannot sign. A check value tells when the installation's secret was changed.

use std::fmt;

use alloy_primitives::hex;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// What all endpoints' secrets are derived from.
#[derive(Clone)]
pub struct InstallationSecret(String);

impl InstallationSecret {
    /// Fewer could be guessed.
    pub const LEAST_BYTES: usize = 32;

    /// None if it is too short.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (text.len() >= Self::LEAST_BYTES).then(|| Self(text.to_owned()))
    }

    /// The secret of an endpoint.
    pub(crate) fn of(&self, webhook: &str, generation: u32) -> EndpointSecret {
        EndpointSecret(mac(self.0.as_bytes(), &["landfall webhook v1", webhook, &generation.to_string()]))
    }

    /// Tells this secret from others, and tells nothing of it.
    pub(crate) fn check(&self) -> String {
        hex::encode(&mac(self.0.as_bytes(), &["landfall webhook check v1"])[..8])
    }
}

impl fmt::Debug for InstallationSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstallationSecret")
    }
}

/// What an endpoint and its receiver know.
pub(crate) struct EndpointSecret([u8; 32]);

impl EndpointSecret {
    /// As receivers' libraries want it.
    pub(crate) fn shown(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.0))
    }

    /// One signature of the header `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, timestamp: u64, body: &str) -> String {
        signature(&self.0, id, timestamp, body)
    }
}

fn signature(key: &[u8], id: &str, timestamp: u64, body: &str) -> String {
    let mut mac = keyed(key);
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body.as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Parts are told apart by their lengths.
fn mac(key: &[u8], parts: &[&str]) -> [u8; 32] {
    let mut mac = keyed(key);
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    mac.finalize().into_bytes().into()
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    // HMAC takes keys of any length, as the standard says: a longer one than a block is hashed first.
    Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the public libraries' own tests.
    #[test]
    fn a_signature_is_the_one_that_the_standard_publishes() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed =
            signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_differ_by_installation_endpoint_and_generation_and_stay_what_they_are() {
        let one = InstallationSecret::new(&"a".repeat(32)).unwrap();
        let other = InstallationSecret::new(&"b".repeat(32)).unwrap();
        let shown = |of: &InstallationSecret, webhook, generation| of.of(webhook, generation).shown();
        let all = [
            shown(&one, "wh_1", 1),
            shown(&one, "wh_1", 2),
            shown(&one, "wh_2", 1),
            shown(&other, "wh_1", 1),
        ];
        let different: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(shown(&one, "wh_1", 1), all[0]);
        assert!(all[0].starts_with("whsec_") && STANDARD.decode(&all[0][6..]).unwrap().len() == 32);
        assert_ne!(one.check(), other.check());
        assert!(InstallationSecret::new("short").is_none());
    }

    #[test]
    fn a_secret_is_not_shown_by_accident() {
        let secret = InstallationSecret::new(&"geheim".repeat(6)).unwrap();
        assert!(!format!("{secret:?} {}", secret.check()).contains("geheim"));
    }
}
