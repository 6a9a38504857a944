//! Notes to the audit log about calls, and who asks as it is stored.

use landfall_core::TxId;
use landfall_engine::Wish;
use serde_json::Value;

use super::Asker;
use super::error::{INVALID_INPUT, RpcError};
use crate::access::{Role, Wrote};
use crate::problem::Code;

impl Asker {
    /// A command as it was asked for.
    pub(super) fn wish(&self) -> Wish {
        Wish { key: self.key.clone(), by: Some(self.caller.origin()) }
    }

    /// Says no where the key was revoked since the message began and the call would change something: batches may take long.
    pub(super) async fn must_be_good(&self, role: Role) -> Result<(), RpcError> {
        if role == Role::Viewer {
            return Ok(());
        }
        Ok(self.app.keyring.must_be_good(&self.caller).await?)
    }

    /// Says that a call stored or changed something.
    pub(super) fn wrote(&self, method: &'static str, txs: Vec<TxId>, body: Option<Value>) {
        let (method, path) = (method.into(), self.path().into());
        self.app.audit.wrote(&self.caller, Wrote { method, path, status: 200, txs, count: None, body });
    }

    /// Does what a call asks for, also if its caller hangs up meanwhile: then the audit log is told as well.
    pub(super) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, RpcError>> + Send + 'static,
    ) -> Result<T, RpcError> {
        self.app.audit.to_its_end(work).await.unwrap_or_else(|| {
            let text = "the server stops, and whether this was done is not known; look before you ask again";
            Err(RpcError::coded(INVALID_INPUT, text, "outcome_unknown"))
        })
    }

    /// Says that the caller was sent away, if this is about that.
    pub(super) fn refused(&self, method: &str, error: &RpcError) {
        let own = error.data.as_ref().and_then(|data| data["code"].as_str());
        let code = [Code::Unauthorized, Code::Forbidden, Code::RateLimited]
            .into_iter()
            .find(|code| own == Some(code.text()));
        if let Some(code) = code {
            let method = told(method).to_owned();
            let status = code.status().as_u16();
            self.app.audit.refused_with(&self.caller, method.into(), &self.path(), status, Some(code));
        }
    }

    fn path(&self) -> String {
        format!("/rpc/{}", self.chain)
    }
}

/// A method's name as the audit log has it. Callers choose it, so one that is like none is not repeated.
fn told(method: &str) -> &str {
    let is_plain = method.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain && method.len() <= 64 { method } else { "another" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_callers_made_up_is_not_repeated() {
        for made_up in
            ["eth_call\r\n9 all is well", "\u{1b}[2J", "eth\u{9b}31m", "a\u{202e}b", &"a".repeat(65)]
        {
            assert_eq!(told(made_up), "another");
        }
        for name in ["eth_sendRawTransaction", "batch", ""] {
            assert_eq!(told(name), name);
        }
    }
}
