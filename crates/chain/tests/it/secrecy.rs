//! Credentials in endpoint URLs appear in no report, error or health page.

use alloy_primitives::{B256, Bytes};
use landfall_chain::evm::{Config, EvmChain};
use landfall_core::attempt::Sealed;
use landfall_core::ports::chain::{BlockAt, Chain};
use landfall_core::{ChainId, TxHash};

use crate::harness::chain;
use crate::harness::stub::{Mood, Say, Stub};

const SECRETS: [&str; 4] = ["someuser", "hunter22", "0123456789abcdef0123", "topsecret"];

fn secret_url(stub: &Stub) -> String {
    let bare = stub.url().replace("http://", "http://someuser:hunter22@");
    format!("{bare}/v3/0123456789abcdef0123?key=topsecret")
}

fn assert_clean(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{text} shows {secret}");
    }
}

#[tokio::test]
async fn nothing_that_is_shown_contains_credentials() {
    let stub = Stub::start().await;
    let moods = [
        Mood::Answering,
        Mood::Http(500, "no project 0123456789abcdef0123 with topsecret"),
        Mood::Http(401, "someuser:hunter22 is not welcome"),
    ];
    stub.on("eth_sendRawTransaction", |_| {
        Say::Error(-32000, "key topsecret of 0123456789abcdef0123 is unknown")
    });
    let raw = [Sealed { raw: Bytes::from_static(&[1]), hash: TxHash(B256::ZERO) }];
    for mood in moods {
        let chain = chain(&[secret_url(&stub)]);
        stub.mood(mood);
        assert_clean(&format!("{:?}", chain.send(&raw).await));
        let error = chain.block(BlockAt::Latest).await.unwrap_err();
        assert_clean(&format!("{error} {error:?}"));
        assert_clean(&format!("{:?}", chain.endpoints()));
        stub.mood(Mood::Answering);
    }
    // Nobody listens there: the error is the client's own.
    let nobody =
        chain(&["http://someuser:hunter22@127.0.0.1:1/0123456789abcdef0123?key=topsecret".to_owned()]);
    let error = nobody.block(BlockAt::Latest).await.unwrap_err().to_string();
    assert_clean(&error);
    assert!(error.contains("http://127.0.0.1:1/***"), "{error}");
}

#[test]
fn an_endpoint_that_cannot_be_used_is_named_without_credentials() {
    struct Still;
    impl landfall_core::ports::clock::Clock for Still {
        fn now(&self) -> landfall_core::Millis {
            landfall_core::Millis(0)
        }
    }
    let build = |endpoints: &[&str]| {
        let config = Config::new(ChainId(1), endpoints.iter().map(|&url| url.to_owned()).collect());
        EvmChain::new(config, std::sync::Arc::new(Still)).err().map(|error| error.to_string())
    };
    assert_eq!(build(&[]).as_deref(), Some("chain 1 has no endpoint"));
    assert_eq!(build(&["https://node.example/x", "wss://node.example", " ws://node.example "]), None);
    let scheme = build(&["ipc://someuser:hunter22@host/0123456789abcdef0123?key=topsecret"]).unwrap();
    assert_clean(&scheme);
    assert!(scheme.contains("ipc is not spoken here"), "{scheme}");
    let no_url = build(&["http://ok", "someuser hunter22 topsecret"]).unwrap();
    assert_clean(&no_url);
    assert!(no_url.contains("endpoint 1 of chain 1 is not a URL"), "{no_url}");
}
