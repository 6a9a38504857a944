//! `payload.authorizationList` (EIP-7702): others' signed authorizations, and the sender's own, which Landfall signs.

use landfall_core::request::{Authorization, SignedAuthorization};
use landfall_core::{ChainId, Slot};
use serde_json::Value;

use super::fields::{Fields, wrong_type};
use super::limits::MOST_AUTHORIZATIONS as MOST;
use crate::problem::{Code, Problem};

const PATH: &str = "payload.authorizationList";

pub(super) fn list(value: Value) -> Result<Vec<Authorization>, Problem> {
    let Value::Array(items) = value else { return Err(wrong_type(PATH, "an array", &value)) };
    if items.is_empty() || items.len() > MOST {
        let detail = format!("it has {} items; it may have 1 to {MOST}", items.len());
        return Err(Problem::at(Code::BadValue, PATH, detail));
    }
    items.into_iter().enumerate().map(|(position, item)| one(item, &format!("{PATH}[{position}]"))).collect()
}

fn one(value: Value, path: &str) -> Result<Authorization, Problem> {
    let mut fields = Fields::of(value, path)?;
    let missing = |name: &str| {
        let detail = format!(
            "{path}.{name} is missing; a signed authorization has nonce, yParity, r and s, and one by the sender itself none of them"
        );
        Problem::at(Code::MissingField, format!("{path}.{name}"), detail)
    };
    let address = fields
        .address("address")?
        .ok_or_else(|| Problem::at(Code::MissingField, format!("{path}.address"), "address is missing"))?;
    let chain = fields.quantity("chainId")?;
    let nonce = fields.quantity("nonce")?;
    let parity = fields.quantity("yParity")?;
    let (r, s) = (fields.wei("r")?, fields.wei("s")?);
    fields.finish()?;
    let signed = if nonce.is_none() && parity.is_none() && r.is_none() && s.is_none() {
        if chain == Some(0) {
            let detail = "an authorization for chain 0 holds on every chain, and Landfall signs none of those: leave chainId out \
                          for the chain of the transaction";
            return Err(Problem::at(Code::BadValue, format!("{path}.chainId"), detail));
        }
        None
    } else {
        let parity = parity.ok_or_else(|| missing("yParity"))?;
        if parity > 1 {
            let detail = format!("yParity is {parity}; it may be 0 or 1");
            return Err(Problem::at(Code::BadValue, format!("{path}.yParity"), detail));
        }
        Some(SignedAuthorization {
            count: Slot(nonce.ok_or_else(|| missing("nonce"))?),
            r: r.ok_or_else(|| missing("r"))?.0,
            s: s.ok_or_else(|| missing("s"))?.0,
            y_parity: parity == 1,
        })
    };
    Ok(Authorization { chain: chain.filter(|chain| *chain != 0).map(ChainId), address, signed })
}
