//! How long it is known which calls were handed over together (EIP-5792).

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::rpc::Rpc;
use crate::support::{CHAIN_ID, Chain, RECEIVER, Server, Settings, pass, signer, until};

/// The ids of records of calls in the store.
fn records(server: &Server) -> Vec<String> {
    let file = server.folder().join("landfall.db");
    let store = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut found = store.prepare("SELECT id FROM record WHERE kind = 6 ORDER BY id").unwrap();
    found.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn that_calls_belong_together_is_forgotten_with_their_history_and_not_while_they_are_under_way() {
    let chain = Chain::with_blocks_every(std::time::Duration::from_millis(200)).await;
    // A second and a half; it is looked what may go when the server starts.
    let settings = Settings { signers: 2, store: "keep_finished_days = 0.00002", ..Settings::default() };
    let mut server = Server::start(&chain.url(), settings).await;
    let api = server.api.clone();
    let rpc = Rpc(&api);
    api.command(&format!("/api/v1/lanes/{CHAIN_ID}/{}/pause", signer(1))).await.expect(202);
    for (n, id) in [(0, "ended"), (1, "open")] {
        let calls = json!([{
            "version": "2.0.0", "id": id, "from": signer(n), "chainId": format!("{CHAIN_ID:#x}"),
            "atomicRequired": false, "calls": [{ "to": RECEIVER, "value": "0x1" }],
        }]);
        rpc.get("wallet_sendCalls", calls).await;
    }
    until("the first has ended", async || {
        let status: Value = rpc.get("wallet_getCallsStatus", json!(["ended"])).await;
        let tx = api.list("&state=confirmed").await;
        (status["status"] == 200 && tx.len() == 1).then_some(())
    })
    .await;
    assert_eq!(records(&server).len(), 2);
    // Its nonce is watched until the chain cannot take it back.
    chain.mine(200).await;
    until("the record of the first is gone", async || {
        pass(std::time::Duration::from_secs(2)).await;
        server.restart_after_kill().await;
        (records(&server).len() == 1).then_some(())
    })
    .await;
    assert_eq!(rpc.fail("wallet_getCallsStatus", json!(["ended"])).await.0, 5730);
    assert_eq!(rpc.get("wallet_getCallsStatus", json!(["open"])).await["status"], 100);
}
