//! The answer of a node to one request, read without a second copy of its result. Pure.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::evm::rpc::error_data;

/// A node's reply to one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// The JSON of its result.
    Result(String),
    Error {
        code: i64,
        message: String,
        data: Option<Value>,
    },
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow, default, deserialize_with = "also_null")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<ErrorReply<'a>>,
}

#[derive(Deserialize)]
struct ErrorReply<'a> {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// Bytes of an error's message.
const LONGEST_MESSAGE: usize = 64 << 10;

/// An error's message, not all of it if it is very long.
pub(super) fn message(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
    message
}

/// `null` is a result.
fn also_null<'de, D: Deserializer<'de>>(d: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

/// As much of something that is no answer as is shown.
const SHOWN: usize = 600;

/// Reads a body; what it says where it is no answer.
pub(super) fn read(body: Vec<u8>) -> Result<Said, String> {
    let mut text = match String::from_utf8(body) {
        Ok(text) => text,
        Err(error) => {
            return Err(shown(&String::from_utf8_lossy(
                &error.as_bytes()[..error.as_bytes().len().min(SHOWN)],
            )));
        }
    };
    let reply: Reply<'_> = match serde_json::from_str(&text) {
        Ok(reply) => reply,
        Err(_) => return Err(shown(&text)),
    };
    if let Some(error) = reply.error {
        let data = error.data.and_then(error_data);
        return Ok(Said::Error { code: error.code, message: message(error.message), data });
    }
    let Some(result) = reply.result else { return Err(shown(&text)) };
    // The result lies within the text: what stands around it is cut off.
    let start = result.get().as_ptr() as usize - text.as_ptr() as usize;
    let end = start + result.get().len();
    text.truncate(end);
    text.drain(..start);
    Ok(Said::Result(text))
}

fn shown(text: &str) -> String {
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(end, _)| end);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(body: &str) -> Result<Said, String> {
        read(body.as_bytes().to_vec())
    }

    #[test]
    fn a_result_is_cut_out_as_the_node_wrote_it() {
        for result in ["null", "\"0x1\"", "[1, 2,\n 3]", "{\"a\":{\"result\":null}}", "\"ü — \\u00fc\""] {
            for body in [
                format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}"),
                format!(" {{\"result\" : {result} , \"error\":null,\"id\":7}}\n"),
            ] {
                assert_eq!(said(&body), Ok(Said::Result(result.to_owned())), "{body}");
            }
        }
    }

    #[test]
    fn an_error_is_handed_on_with_all_it_says() {
        let body = r#"{"id":1,"error":{"code":3,"message":"execution reverted","data":"0x08"}}"#;
        let error = Said::Error { code: 3, message: "execution reverted".into(), data: Some("0x08".into()) };
        assert_eq!(said(body), Ok(error));
    }

    #[test]
    fn an_errors_data_is_not_read_if_it_is_much_and_a_text_may_be_longer() {
        let with = |data: &str| {
            said(&format!("{{\"id\":1,\"error\":{{\"code\":3,\"message\":\"no\",\"data\":{data}}}}}"))
        };
        let reverted = format!("\"0x{}\"", "08".repeat(400 << 10));
        let objects = format!("[{}0]", "{\"\":0},".repeat(100_000));
        for (given, is_kept) in [
            (reverted, true),
            ("[{\"\":0}]".to_owned(), true),
            (objects, false),
            (format!("\"{}\"", "0".repeat(2 << 20)), false),
        ] {
            let Ok(Said::Error { data: Some(data), .. }) = with(&given) else { panic!("an error with data") };
            let shown = data.to_string();
            assert_eq!((shown == given, shown.starts_with("\"left out: ")), (is_kept, !is_kept));
        }
        let long = format!("{{\"error\":{{\"code\":3,\"message\":\"{}\"}}}}", "ü".repeat(1 << 20));
        let Ok(Said::Error { message, .. }) = said(&long) else { panic!("an error") };
        assert_eq!(message.len(), LONGEST_MESSAGE);
    }

    #[test]
    fn what_is_no_answer_is_shown_and_not_all_of_it() {
        for body in ["", "<html>", "{}", "7", "[]", "{\"id\":1,\"resu"] {
            assert_eq!(said(body), Err(body.to_owned()));
        }
        assert_eq!(said(&"ü".repeat(2_000)).unwrap_err().chars().count(), SHOWN);
        assert!(read(vec![0xff; 5_000]).unwrap_err().chars().count() <= SHOWN);
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read(bytes).ok();
        }
    }
}
