//! What is asked of something that exists: a new content, a price, a range of slots.

use landfall_core::request::{AskedFees, Options, Payload, Speed};
use landfall_core::transaction::{Terms, Whose};
use landfall_core::{ContentVersion, SessionId, Slot, TxHash};
use landfall_engine::Despite;
use serde_json::{Map, Value};

use super::fields::{Fields, wrong_type};
use super::submission::{choice, options, payload};
use crate::problem::{Code, Problem, quoted};

const SPEEDS: [(&str, Speed); 3] = [("slow", Speed::Slow), ("normal", Speed::Normal), ("fast", Speed::Fast)];

/// `{payload, options?: {maxFeePerGas, speed, deadline}}`.
pub(crate) fn replacement(value: Value) -> Result<(Payload, Terms), Problem> {
    let mut fields = Fields::of(value, "")?;
    let payload = payload(fields.need("payload")?)?;
    let given = fields.take("options").unwrap_or(Value::Object(Map::new()));
    fields.finish()?;
    let mut options = Fields::of(given, "options")?;
    let terms = Terms {
        speed: choice(&mut options, "speed", &SPEEDS)?,
        max_fee_per_gas: options.price("maxFeePerGas")?,
        deadline: options.time("deadline")?,
    };
    options.finish()?;
    Ok((payload, terms))
}

/// `{maxFeePerGas?, maxPriorityFeePerGas?, speed?}`.
pub(crate) fn speed_up(value: Value) -> Result<(AskedFees, Option<Speed>), Problem> {
    let mut fields = Fields::of(value, "")?;
    let (max_fee, tip) = (fields.price("maxFeePerGas")?, fields.price("maxPriorityFeePerGas")?);
    let speed = choice(&mut fields, "speed", &SPEEDS)?;
    fields.finish()?;
    let fees = match (max_fee, tip) {
        (None, None) => AskedFees::Market,
        (max_fee, tip) => AskedFees::Dynamic { max_fee, tip },
    };
    Ok((fees, speed))
}

/// `{version?, heldFor?}`.
pub(crate) fn decision(value: Value) -> Result<(Option<ContentVersion>, Option<Slot>), Problem> {
    let mut fields = Fields::of(value, "")?;
    let number = fields.number("version")?;
    let held_for = fields.number("heldFor")?.map(Slot);
    fields.finish()?;
    let fits = |number: u64| {
        u32::try_from(number).map(ContentVersion).map_err(|_| {
            Problem::at(Code::BadValue, "version", format!("{number} is not a version of a content"))
        })
    };
    Ok((number.map(fits).transpose()?, held_for))
}

/// `{taken, hash?}`: whose it was, and the hash of the one that the person looked at.
pub(crate) fn taken(value: Value) -> Result<(Whose, Option<TxHash>), Problem> {
    const WORDS: [(&str, Whose); 2] = [("ours", Whose::Ours), ("foreign", Whose::Foreign)];
    let mut fields = Fields::of(value, "")?;
    let whose = choice(&mut fields, "taken", &WORDS)?;
    let looked_at = match fields.take("hash") {
        None => None,
        Some(Value::String(text)) => Some(text.parse().map(TxHash).map_err(|_| {
            Problem::at(
                Code::BadValue,
                "hash",
                format!("hash is {}; it must be 0x and 64 hexadecimal digits", quoted(&text)),
            )
        })?),
        Some(other) => return Err(wrong_type("hash", "a string", &other)),
    };
    fields.finish()?;
    let whose = whose.ok_or_else(|| {
        let text = "taken is missing: \"ours\" if the transaction is done by it, \"foreign\" if not";
        Problem::at(Code::MissingField, "taken", text)
    })?;
    Ok((whose, looked_at))
}

/// `{options?}`: what is given takes the place of the old ones as a whole.
pub(crate) fn retry(value: Value) -> Result<Option<Options>, Problem> {
    let mut fields = Fields::of(value, "")?;
    let given = fields.take("options").map(options).transpose()?;
    fields.finish()?;
    Ok(given)
}

/// `{despitePool?, despiteOldHead?}`.
pub(crate) fn acceptance(value: Value) -> Result<Despite, Problem> {
    let mut fields = Fields::of(value, "")?;
    let mut flag = |name: &str| match fields.take(name) {
        None => Ok(false),
        Some(Value::Bool(given)) => Ok(given),
        Some(other) => Err(wrong_type(name, "true or false", &other)),
    };
    let despite = Despite { pool: flag("despitePool")?, old_head: flag("despiteOldHead")? };
    fields.finish()?;
    Ok(despite)
}

/// `{session}`.
pub(crate) fn session(value: Value) -> Result<SessionId, Problem> {
    let mut fields = Fields::of(value, "")?;
    let given = fields.text("session")?;
    fields.finish()?;
    let Some(given) = given else {
        let text = "session is missing: the one that `owner` of the lane shows";
        return Err(Problem::at(Code::MissingField, "session", text));
    };
    let bad = |_| Problem::at(Code::BadValue, "session", format!("{} is not a session's id", quoted(&given)));
    given.parse().map(SessionId).map_err(bad)
}

/// `{from, to}`, both ends included.
pub(crate) fn range(value: Value, most: u64) -> Result<(Slot, Slot), Problem> {
    let mut fields = Fields::of(value, "")?;
    let mut slot = |name: &str| {
        let number = fields.number(name)?;
        number.ok_or_else(|| Problem::at(Code::MissingField, name, format!("{name} is missing")))
    };
    let (from, to) = (slot("from")?, slot("to")?);
    fields.finish()?;
    if to < from {
        return Err(Problem::at(Code::BadValue, "to", format!("to is {to}, below from, {from}")));
    }
    if to - from >= most {
        return Err(Problem::at(Code::BadValue, "to", format!("at most {most} nonces are filled at once")));
    }
    Ok((Slot(from), Slot(to)))
}
