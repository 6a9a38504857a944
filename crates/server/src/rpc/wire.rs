//! JSON-RPC 2.0 as it comes and goes. Pure: bytes into calls, answers into text.

use serde_json::Value;

use super::error::RpcError;
use crate::body;

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// None: nobody waits for an answer.
    pub id: Option<Value>,
    pub method: String,
    pub params: Value,
}

/// What a message asks for; each call is read or refused on its own.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    One(Result<Call, Refusal>),
    Batch(Vec<Result<Call, Refusal>>),
}

impl Incoming {
    /// The id under which a whole message is answered.
    pub(crate) fn id(&self) -> Value {
        match self {
            Self::One(Ok(call)) => call.id.clone().unwrap_or_default(),
            Self::One(Err(refusal)) => refusal.id.clone(),
            Self::Batch(_) => Value::Null,
        }
    }
}

/// Something that is no call, and the id under which that is said.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub id: Value,
    pub error: RpcError,
}

/// Reads a message. `most` is how many calls one may have.
pub fn decode(bytes: &[u8], most: usize) -> Incoming {
    let refuse = |error| Incoming::One(Err(Refusal { id: Value::Null, error }));
    match body::strict_json(bytes) {
        Err(error) => refuse(RpcError::new(-32700, format!("this is not JSON: {error}"))),
        Ok(Value::Array(items)) if items.is_empty() => {
            refuse(RpcError::new(-32600, "a batch has at least one call"))
        }
        Ok(Value::Array(items)) if items.len() > most => {
            let text = format!("the batch has {} calls; at most {most} are taken at once", items.len());
            refuse(RpcError::coded(-32005, text, "batch_too_long"))
        }
        Ok(Value::Array(items)) => Incoming::Batch(items.into_iter().map(call).collect()),
        Ok(value) => Incoming::One(call(value)),
    }
}

/// Bytes of the longest id: the answer repeats it.
const LONGEST_ID: usize = 1_024;

fn call(value: Value) -> Result<Call, Refusal> {
    let Value::Object(mut fields) = value else {
        return Err(Refusal {
            id: Value::Null,
            error: RpcError::new(-32600, "a call is an object with jsonrpc, id, method and params"),
        });
    };
    let id = match fields.remove("id") {
        None => None,
        Some(Value::String(id)) if id.len() > LONGEST_ID => {
            let text = format!("id is longer than {LONGEST_ID} bytes");
            return Err(Refusal { id: Value::Null, error: RpcError::new(-32600, text) });
        }
        Some(id @ (Value::Null | Value::Number(_) | Value::String(_))) => Some(id),
        Some(_) => {
            let error = RpcError::new(-32600, "id is a number, a string or null");
            return Err(Refusal { id: Value::Null, error });
        }
    };
    let refuse =
        |text: &str| Refusal { id: id.clone().unwrap_or_default(), error: RpcError::new(-32600, text) };
    if fields.get("jsonrpc").is_some_and(|version| version != "2.0") {
        return Err(refuse("jsonrpc is \"2.0\""));
    }
    let Some(Value::String(method)) = fields.remove("method") else {
        return Err(refuse("method is missing, or is not a string"));
    };
    let params = match fields.remove("params") {
        None | Some(Value::Null) => Value::Array(Vec::new()),
        Some(params @ (Value::Array(_) | Value::Object(_))) => params,
        Some(_) => return Err(refuse("params is an array or an object")),
    };
    Ok(Call { id, method, params })
}

/// The answer to one call. A result is JSON text already: what a node wrote is handed on as it is.
pub(crate) fn encode(id: &Value, answer: &Result<String, RpcError>) -> String {
    match answer {
        Ok(result) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
        Err(error) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{}}}", error.body()),
    }
}

/// The answer to one call.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) id: Value,
    pub(crate) said: Result<String, RpcError>,
}

/// A result from this length on is not copied.
const LONG: usize = 64 << 10;

impl Answer {
    /// Its text, in pieces that follow one another.
    pub(crate) fn write(self, pieces: &mut Pieces) {
        let Self { id, said } = self;
        match said {
            Ok(result) if result.len() >= LONG => {
                pieces.add(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":"));
                pieces.push(result);
                pieces.add("}".to_owned());
            }
            said => pieces.add(encode(&id, &said)),
        }
    }
}

/// A text in pieces: short ones are put together, long ones stay what they are.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<String>);

impl Pieces {
    pub(crate) fn add(&mut self, text: String) {
        match self.0.last_mut() {
            Some(last) if last.len() < LONG => last.push_str(&text),
            Some(_) | None => self.0.push(text),
        }
    }

    fn push(&mut self, text: String) {
        self.0.push(text);
    }

    pub(crate) fn into_pieces(self) -> Vec<String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn one(text: &str) -> Result<Call, Refusal> {
        match decode(text.as_bytes(), 3) {
            Incoming::One(one) => one,
            Incoming::Batch(_) => panic!("{text} is one call"),
        }
    }

    #[test]
    fn a_call_is_read_with_whatever_id_and_params_it_may_have() {
        let call = one(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}"#).unwrap();
        assert_eq!(call, Call { id: Some(json!(1)), method: "a".into(), params: json!([1]) });
        let call = one(r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#).unwrap();
        assert_eq!((call.id, call.params), (Some(Value::Null), json!([])));
        assert_eq!(one(r#"{"method":"a","params":null}"#).unwrap().id, None, "a notification");
    }

    #[test]
    fn what_is_no_call_is_refused_with_the_code_for_it() {
        let cases = [
            ("{", -32700),
            (r#"{"method":"a","method":"b"}"#, -32700),
            ("[]", -32600),
            ("[1,2,3,4]", -32005),
            ("7", -32600),
            (r#"{"id":1}"#, -32600),
            (r#"{"id":{},"method":"a"}"#, -32600),
            (r#"{"id":1,"method":2}"#, -32600),
            (r#"{"id":1,"jsonrpc":"1.0","method":"a"}"#, -32600),
            (r#"{"id":1,"method":"a","params":3}"#, -32600),
        ];
        for (text, code) in cases {
            assert_eq!(one(text).unwrap_err().error.code, code, "{text}");
        }
        let Incoming::Batch(batch) = decode(br#"[{"id":1,"method":"a"},5]"#, 3) else { panic!("a batch") };
        assert!(batch[0].is_ok() && batch[1].is_err());
    }

    #[test]
    fn a_long_id_is_refused_and_not_repeated() {
        let call = |length| one(&format!(r#"{{"id":"{}","method":"a"}}"#, "x".repeat(length)));
        assert!(call(LONGEST_ID).is_ok());
        let refusal = call(LONGEST_ID + 1).unwrap_err();
        assert_eq!((refusal.id, refusal.error.code), (Value::Null, -32600));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            decode(&bytes, 10);
        }
    }
}
