//! One JSON object, read field by field. A field that nobody asked for is an error: a misspelt option must not be
//! taken for a missing one.

use alloy_primitives::{Address, B256, Bytes, hex};
use landfall_core::{Account, Gas, Millis, Price, Wei};
use serde_json::{Map, Value};

use crate::problem::{Code, Problem, quoted, repeated};

pub(crate) struct Fields {
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// The object at `path`; the empty path is the body itself.
    pub(crate) fn of(value: Value, path: &str) -> Result<Self, Problem> {
        match value {
            Value::Object(map) => Ok(Self { path: path.to_owned(), map }),
            other => Err(wrong_type(if path.is_empty() { "the body" } else { path }, "an object", &other)),
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The field's value; `null` counts as absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    pub(crate) fn need(&mut self, name: &str) -> Result<Value, Problem> {
        self.take(name).ok_or_else(|| {
            Problem::at(Code::MissingField, self.path(name), format!("{} is missing", self.path(name)))
        })
    }

    /// Nothing may be left over.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => {
                let path = self.path(&repeated(name));
                Err(Problem::at(
                    Code::UnknownField,
                    path.clone(),
                    format!("{path} is not a field Landfall knows"),
                ))
            }
        }
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let path = self.path(name);
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(&path, "a string", &other)),
        }
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let path = self.path(name);
        self.take(name).map(|value| number(&path, &value)).transpose()
    }

    /// A number, or hex in a string as JSON-RPC clients write it.
    pub(crate) fn quantity(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let path = self.path(name);
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => {
                let bad = || {
                    let text = quoted(&text);
                    Problem::at(Code::BadAmount, path.clone(), format!("{text} is not a number below 2^64"))
                };
                let amount: Wei = text.parse().map_err(|_| bad())?;
                u64::try_from(amount.0).map(Some).map_err(|_| bad())
            }
            Some(value) => number(&path, &value).map(Some),
        }
    }

    pub(crate) fn address(&mut self, name: &str) -> Result<Option<Account>, Problem> {
        let path = self.path(name);
        Ok(match self.text(name)? {
            None => None,
            Some(text) => Some(address(&path, &text)?),
        })
    }

    pub(crate) fn wei(&mut self, name: &str) -> Result<Option<Wei>, Problem> {
        let path = self.path(name);
        let amount =
            |text: &str| text.parse::<Wei>().map_err(|e| Problem::at(Code::BadAmount, path.clone(), e));
        self.amount_text(name)?.map(|text| amount(&text)).transpose()
    }

    pub(crate) fn price(&mut self, name: &str) -> Result<Option<Price>, Problem> {
        let path = self.path(name);
        let price =
            |text: &str| text.parse::<Price>().map_err(|e| Problem::at(Code::BadAmount, path.clone(), e));
        self.amount_text(name)?.map(|text| price(&text)).transpose()
    }

    /// Amounts are strings: a JSON number would lose digits on the way.
    fn amount_text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let path = self.path(name);
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Number(number)) => Err(Problem::at(
                Code::BadAmount,
                path,
                format!("write the amount as a string, \"{number}\": JSON numbers lose digits"),
            )),
            Some(other) => Err(wrong_type(&path, "an amount as a string", &other)),
        }
    }

    /// Gas may be a number or a string, as clients differ.
    pub(crate) fn gas(&mut self, name: &str) -> Result<Option<Gas>, Problem> {
        let path = self.path(name);
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => {
                let wei: Wei = text.parse().map_err(|_| bad_gas(&path, &text))?;
                u64::try_from(wei.0).map(|gas| Some(Gas(gas))).map_err(|_| bad_gas(&path, &text))
            }
            Some(value) => number(&path, &value).map(|gas| Some(Gas(gas))),
        }
    }

    pub(crate) fn bytes(&mut self, name: &str) -> Result<Option<Bytes>, Problem> {
        let path = self.path(name);
        let Some(text) = self.text(name)? else { return Ok(None) };
        let Some(digits) = text.strip_prefix("0x") else {
            return Err(Problem::at(Code::BadData, path.clone(), format!("{path} must start with 0x")));
        };
        hex::decode(digits)
            .map(|bytes| Some(bytes.into()))
            .map_err(|error| Problem::at(Code::BadData, path.clone(), format!("{path} is not hex: {error}")))
    }

    pub(crate) fn time(&mut self, name: &str) -> Result<Option<Millis>, Problem> {
        let path = self.path(name);
        let Some(text) = self.text(name)? else { return Ok(None) };
        let bad = |why: String| Problem::at(Code::BadTime, path.clone(), why);
        let time: jiff::Timestamp = text.parse().map_err(|_| {
            bad(format!("{} is not a time: write it like 2030-01-31T12:00:00Z", quoted(&text)))
        })?;
        u64::try_from(time.as_millisecond())
            .map(|ms| Some(Millis(ms)))
            .map_err(|_| bad(format!("{text} is before 1970")))
    }
}

pub(crate) fn wrong_type(path: &str, wanted: &str, got: &Value) -> Problem {
    let got = match got {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    Problem::at(Code::WrongType, path, format!("{path} must be {wanted}, not {got}"))
}

fn bad_gas(path: &str, text: &str) -> Problem {
    Problem::at(
        Code::BadAmount,
        path,
        format!("{} is not an amount of gas: write a whole number below 2^64", quoted(text)),
    )
}

fn number(path: &str, value: &Value) -> Result<u64, Problem> {
    match value {
        Value::Number(number) => number.as_u64().ok_or_else(|| {
            Problem::at(
                Code::WrongType,
                path,
                format!("{path} must be a whole number from 0 to 2^64-1, not {number}"),
            )
        }),
        other => Err(wrong_type(path, "a number", other)),
    }
}

/// 20 bytes in hex. Mixed case must carry a right checksum, since a typo would send money elsewhere.
pub(crate) fn address(path: &str, text: &str) -> Result<Account, Problem> {
    let bad =
        |why: &str| Problem::at(Code::BadAddress, path, format!("{} is not an address: {why}", quoted(text)));
    let digits = text.strip_prefix("0x").ok_or_else(|| bad("it must start with 0x"))?;
    if digits.len() != 40 {
        return Err(bad(&format!("it must have 40 hex digits, not {}", digits.len())));
    }
    let address: Address = text.parse().map_err(|_| bad("it has characters that are not hex digits"))?;
    let mixed =
        digits.chars().any(|c| c.is_ascii_lowercase()) && digits.chars().any(|c| c.is_ascii_uppercase());
    if mixed && address.to_checksum(None) != text {
        return Err(bad("its checksum (EIP-55) is wrong; check it, or write it in lower case"));
    }
    Ok(Account(address))
}

/// 32 bytes in hex.
pub(crate) fn word(path: &str, value: &Value) -> Result<B256, Problem> {
    let Value::String(text) = value else { return Err(wrong_type(path, "a string", value)) };
    text.parse()
        .ok()
        .filter(|_| text.starts_with("0x"))
        .ok_or_else(|| Problem::at(Code::BadData, path, format!("{} is not 32 bytes in hex", quoted(text))))
}
