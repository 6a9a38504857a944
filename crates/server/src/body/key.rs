//! A new API key: `{name, role, signers?, chains?, ratePerS?, expiresAt?}`.

use landfall_core::{ChainId, Millis};
use serde_json::Value;

use super::fields::{Fields, address, wrong_type};
use super::limits::{LONGEST_KEY_NAME as LONGEST_NAME, MOST_CHAINS, MOST_SIGNERS};
use crate::access::{NewKey, Role};
use crate::problem::{Code, Problem, quoted};

pub(crate) fn new_key(value: Value, now: Millis) -> Result<NewKey, Problem> {
    let mut fields = Fields::of(value, "")?;
    let missing = |name: &str| Problem::at(Code::MissingField, name, format!("{name} is missing"));
    let name = fields.text("name")?.ok_or_else(|| missing("name"))?;
    let role = fields.text("role")?.ok_or_else(|| missing("role"))?;
    let signers = fields.take("signers").filter(|value| !value.is_null()).map(signers).transpose()?;
    let chains = fields.take("chains").filter(|value| !value.is_null()).map(chains).transpose()?;
    let rate = fields.number("ratePerS")?;
    let expires_at = fields.time("expiresAt")?;
    fields.finish()?;
    if name.trim().is_empty() || name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control) {
        let detail = format!("a name has 1 to {LONGEST_NAME} characters");
        return Err(Problem::at(Code::BadValue, "name", detail));
    }
    let role = Role::from_name(&role).ok_or_else(|| {
        let detail = format!(
            "{} is not a role; there are viewer, approver, submitter, operator and admin",
            quoted(&role)
        );
        Problem::at(Code::BadValue, "role", detail)
    })?;
    let limited = signers.is_some().then_some("signers").or(chains.is_some().then_some("chains"));
    if let (true, Some(field)) = (role.covers(Role::Operator), limited) {
        let detail = format!(
            "the role {role} is for all signers and chains; only viewers, approvers and submitters can be limited"
        );
        return Err(Problem::at(Code::BadValue, field, detail));
    }
    let rate_per_s = rate
        .map(|rate| {
            let fits = u32::try_from(rate).ok().filter(|rate| *rate <= 1_000_000);
            fits.ok_or_else(|| Problem::at(Code::BadValue, "ratePerS", "it may be 0, no limit, to 1000000"))
        })
        .transpose()?;
    if expires_at.is_some_and(|end| end <= now) {
        return Err(Problem::at(Code::BadValue, "expiresAt", "this time has passed"));
    }
    Ok(NewKey { name, role, signers, chains, rate_per_s, expires_at })
}

fn chains(value: Value) -> Result<Vec<ChainId>, Problem> {
    let Value::Array(items) = value else {
        return Err(wrong_type("chains", "an array of chain ids", &value));
    };
    if items.is_empty() || items.len() > MOST_CHAINS {
        let detail = format!("name 1 to {MOST_CHAINS} chains, or leave it out for all");
        return Err(Problem::at(Code::BadValue, "chains", detail));
    }
    let one = |(position, item): (usize, Value)| {
        let id = item.as_u64().map(ChainId);
        id.ok_or_else(|| {
            wrong_type(&format!("chains[{position}]"), "the id of a chain, a whole number", &item)
        })
    };
    items.into_iter().enumerate().map(one).collect()
}

fn signers(value: Value) -> Result<Vec<landfall_core::Account>, Problem> {
    let Value::Array(items) = value else {
        return Err(wrong_type("signers", "an array of addresses", &value));
    };
    if items.is_empty() || items.len() > MOST_SIGNERS {
        let detail = format!("name 1 to {MOST_SIGNERS} signers, or leave it out for all");
        return Err(Problem::at(Code::BadValue, "signers", detail));
    }
    let one = |(position, item): (usize, Value)| {
        let path = format!("signers[{position}]");
        match &item {
            Value::String(text) => address(&path, text),
            other => Err(wrong_type(&path, "an address", other)),
        }
    };
    items.into_iter().enumerate().map(one).collect()
}
