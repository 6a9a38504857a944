//! Questions of callers, passed on as they are. The first endpoint that looks at one answers it, with a result or with its
//! own error; one that does not know the method leaves it to the next.

use std::sync::Arc;

use landfall_core::ports::chain::AskError;
use serde_json::Value;

use super::pool::Pool;
use super::rpc::{Ask, Failure, NodeError};

/// JSON-RPC's and EIP-1474's words for a method that is not there.
const NO_SUCH_METHOD: [i64; 2] = [-32601, -32004];

pub(super) async fn first(pool: &Pool, method: &str, params: &Value) -> Result<String, AskError> {
    let ask = Arc::new(Ask::new(method.to_owned(), params.clone()));
    let answer = pool
        .first("answer a caller", |endpoint| {
            let ask = Arc::clone(&ask);
            async move {
                match endpoint.ask(&ask).await {
                    Ok(result) => Ok(Ok(result.get().to_owned())),
                    Err(Failure::Refused(error)) if !NO_SUCH_METHOD.contains(&error.code) => Ok(Err(error)),
                    Err(failure) => Err(failure),
                }
            }
        })
        .await;
    match answer {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(NodeError { code, message, data, .. })) => Err(AskError::Node { code, message, data }),
        Err(error) => Err(error.into()),
    }
}
