//! Accounts without money: what is refused is refused by the balance of now.

use std::time::Duration;

use serde_json::json;

use crate::rpc::Rpc;
use crate::support::{Chain, RECEIVER, Server, Settings, signer, submission, text};

const ETHER: &str = "0xde0b6b3a7640000";

/// The account was empty when it was last looked at; the lane rests meanwhile, so nobody looks again by himself.
#[tokio::test]
async fn an_account_that_was_funded_since_it_was_refused_pays_for_every_send_one_block_later() {
    let chain = Chain::without_mining().await;
    chain.call("anvil_setBalance", json!([signer(0), "0x0"])).await;
    let server = Server::start(&chain.url(), Settings::default()).await;
    let api = &server.api;
    let call = |n: u64| json!([{ "from": signer(0), "to": RECEIVER, "value": "0x1", "gas": "0x5208", "nonce": format!("{n:#x}") }]);
    let mut body = submission(json!({ "to": RECEIVER, "value": "1", "gas": 21_000 }));
    body["options"] = json!({ "onInsufficientFunds": "fail" });
    let refused = api.submit(&body).await;
    let failed = api.until_state(&refused, "failed").await;
    assert_eq!(text(&failed["reason"], "code"), "insufficient_funds", "{failed}");
    let (_, _, no) = Rpc(api).fail("eth_sendTransaction", call(0)).await;
    assert!(no.contains("wei"), "{no}");

    chain.call("anvil_setBalance", json!([signer(0), ETHER])).await;
    chain.mine(1).await;
    // At once: nothing waits for the next look at the account.
    let mut hashes = Vec::new();
    for n in 0..3 {
        let hash = Rpc(api).get("eth_sendTransaction", call(n)).await;
        hashes.push(hash.as_str().expect("a hash").to_owned());
    }
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(api.submit(&body).await);
    }
    chain.mine_every(1).await;
    for hash in &hashes {
        assert_eq!(Rpc(api).until_receipt(hash).await["status"], "0x1");
    }
    for id in &ids {
        api.until_state(id, "confirmed").await;
    }
    api.until_all_done(Duration::from_secs(30)).await;
    assert_eq!(chain.count(&signer(0)).await, 6);
}
