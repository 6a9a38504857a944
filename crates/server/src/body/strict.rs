//! JSON in which no object has a field twice. Readers differ on which of two counts: what a gateway in front has checked
//! and what is sent must not be two different amounts.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::problem::quoted;

/// An empty object or a number is a few bytes of text, and many more when it is read. So many values are read of any text, and beyond
/// that one for each so many bytes of it.
const FEW: usize = 40_000;
const BYTES_OF_A_VALUE: usize = 4;
/// What nodes answer has longer values.
const BYTES_OF_A_NODES_VALUE: usize = 16;
/// An object counts as so many values more.
const OBJECT: usize = 7;

/// Reads a whole body.
pub(super) fn from_slice(body: &[u8]) -> Result<Value, serde_json::Error> {
    read(body, BYTES_OF_A_VALUE, false)
}

/// Reads an answer of a node, which may name a field twice: the last one counts.
pub(super) fn of_node(text: &str) -> Result<Value, serde_json::Error> {
    read(text.as_bytes(), BYTES_OF_A_NODES_VALUE, true)
}

fn read(text: &[u8], bytes_of_a_value: usize, twice: bool) -> Result<Value, serde_json::Error> {
    let most = FEW.max(text.len() / bytes_of_a_value);
    let left = Cell::new(most);
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Strict { left: &left, most, twice }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Strict<'a> {
    /// Values that may still come.
    left: &'a Cell<usize>,
    most: usize,
    /// A field may be there twice.
    twice: bool,
}

impl Strict<'_> {
    fn count<E: Error>(self, values: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(values).ok_or_else(|| {
            E::custom(format_args!(
                "it has more than {} values, which is the most for its length; an object counts as {}",
                self.most,
                OBJECT + 1
            ))
        })?;
        self.left.set(left);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        self.count(OBJECT)?;
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = fields.next_value_seed(self)?;
            if !self.twice && map.contains_key(&name) {
                return Err(A::Error::custom(format_args!(
                    "the field {} is there twice; which one counts?",
                    quoted(&name)
                )));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_as_it_is() {
        let text = r#"{"a":[1,-2,1.5,"x\n",true,null,{}],"b":{"a":18446744073709551615}}"#;
        assert_eq!(from_slice(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn a_field_that_is_there_twice_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"c":2,"a":3}}]"#, r#"{"a":1,"\u0061":2}"#] {
            let error = from_slice(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("twice"), "{error}");
        }
    }

    #[test]
    fn what_comes_after_the_value_is_refused() {
        assert!(from_slice(b"{} {}").is_err());
        assert!(from_slice(b"").is_err());
    }

    #[test]
    fn what_is_small_as_text_and_large_when_read_is_refused() {
        for item in [r#"{"":0},"#, "[0],", "0,", "{},"] {
            let text = format!("[{}0]", item.repeat((2 << 20) / item.len()));
            for read in [from_slice(text.as_bytes()), of_node(&text)] {
                let error = read.unwrap_err().to_string();
                assert!(error.contains("more than"), "{item}: {error}");
            }
            let few = format!("[{}0]", item.repeat(2_000));
            assert!(from_slice(few.as_bytes()).is_ok() && of_node(&few).is_ok(), "{item}");
        }
    }

    #[test]
    fn the_largest_that_anybody_means_is_read() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;
        let account = format!(r#"{{"address":"0x{0}","storageKeys":["0x{0}"]}}"#, "a".repeat(40));
        let address = format!("\"0x{}\"", "a".repeat(40));
        for item in [call, account.as_str(), address.as_str()] {
            let text = format!("[{}]", vec![item; (4 << 20) / item.len()].join(","));
            assert!(from_slice(text.as_bytes()).is_ok(), "{item}");
        }
    }

    #[test]
    fn a_node_may_name_a_field_twice() {
        assert_eq!(of_node(r#"{"a":1,"a":2}"#).unwrap()["a"], 2);
    }
}
