//! Who asked: the API key and the address that a request came with. Stored with what it asked for; it decides nothing, and is no
//! part of what makes two requests the same.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The caller behind a transaction, a command or a journal entry. Never a secret: the id of a key opens nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The id of the API key; none where the server asks for none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_text")]
    pub key: Option<Arc<str>>,
    /// The name of the key at the time, or a word for whoever has none.
    #[serde(with = "text")]
    pub name: Arc<str>,
    /// The other end of the connection. Behind a proxy that is the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// A text that many share, as the text.
pub mod text {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(from).map(Into::into)
    }
}

/// The same where it may be absent.
pub mod optional_text {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(text: &Option<Arc<str>>, to: S) -> Result<S::Ok, S::Error> {
        text.as_deref().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<str>>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Into::into))
    }
}

/// An origin that many share, and that may be absent.
pub mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Origin;

    pub fn serialize<S: Serializer>(origin: &Option<Arc<Origin>>, to: S) -> Result<S::Ok, S::Error> {
        origin.as_deref().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<Origin>>, D::Error> {
        Ok(Option::<Origin>::deserialize(from)?.map(Arc::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_comes_back_as_it_was_and_what_it_lacks_takes_no_room() {
        let whole = Origin {
            key: Some("5b1c0f3a9d2e4786".into()),
            name: "shop".into(),
            address: Some(IpAddr::from([192, 0, 2, 7])),
        };
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(text, r#"{"key":"5b1c0f3a9d2e4786","name":"shop","address":"192.0.2.7"}"#);
        assert_eq!(serde_json::from_str::<Origin>(&text).unwrap(), whole);
        let bare = Origin { key: None, name: "anyone".into(), address: None };
        assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"name":"anyone"}"#);
    }
}
