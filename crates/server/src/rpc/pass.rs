//! Questions to the endpoints as they came. Which methods are passed on is in [`super::allow`], how much of an answer is read in
//! [`super::room`].

use serde_json::Value;

use super::Asker;
use super::allow::signs;
use super::error::{NO_METHOD, RpcError, UNSUPPORTED};
use super::room::CallRoom;
use crate::body;
use crate::problem::repeated;

/// Whether the caller may have this method passed on.
pub(super) fn may(asker: &Asker, method: &str) -> bool {
    asker.app.rpc.allow.passes(|role| asker.caller.is(role), method)
}

/// Why a method is not there.
pub(super) fn refused(method: &str) -> RpcError {
    let (signs, method) = (signs(method), repeated(method));
    if signs {
        let text =
            format!("{method} is not done here: managed keys sign transactions only, by eth_sendTransaction");
        return RpcError::coded(UNSUPPORTED, text, "unsupported");
    }
    // Libraries look for these words to go on without it.
    RpcError::coded(NO_METHOD, format!("the method {method} does not exist/is not available"), "unsupported")
}

/// Asks, for somebody who reads the answer and lets it go with its room.
pub(super) async fn held<'a>(
    asker: &'a Asker,
    method: &str,
    params: &Value,
) -> Result<(String, CallRoom<'a>), RpcError> {
    let (room, until) = asker.room.call()?;
    let asked = tokio::time::timeout_at(until, asker.adapter.ask(method, params, &room)).await;
    match asked.map_err(|_| asker.room.too_slow())? {
        Ok(text) => Ok((text, room)),
        Err(error) => {
            drop(room);
            let error = RpcError::from(error);
            asker.room.keep(error.length())?;
            Err(error)
        }
    }
}

/// Asks, for a caller that gets the answer as it is.
pub(super) async fn on(asker: &Asker, method: &str, params: &Value) -> Result<String, RpcError> {
    let (text, room) = held(asker, method, params).await?;
    room.keep();
    Ok(text)
}

/// As [`on`], read.
pub(super) async fn read(asker: &Asker, method: &str, params: &Value) -> Result<Value, RpcError> {
    let (text, _room) = held(asker, method, params).await?;
    body::of_node(&text).map_err(|error| unreadable(method, &error))
}

/// The JSON of an answer.
pub(super) fn parsed<'a, T: serde::Deserialize<'a>>(method: &str, text: &'a str) -> Result<T, RpcError> {
    serde_json::from_str(text).map_err(|error| unreadable(method, &error))
}

pub(super) fn unreadable(method: &str, error: &serde_json::Error) -> RpcError {
    let text = format!("an endpoint answered {method} with something that cannot be read: {error}");
    RpcError::new(super::error::INTERNAL, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_code_that_libraries_look_for() {
        assert_eq!(refused("personal_sign").code, UNSUPPORTED);
        assert_eq!(refused("eth_signTransaction").code, UNSUPPORTED);
        assert_eq!(refused("debug_traceCall").code, NO_METHOD);
        assert!(refused("eth_newFilter").message.contains("does not exist/is not available"));
    }
}
