//! Calls that were handed over together (EIP-5792): what is told of them, and for how long.

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::rpc::Rpc;
use crate::support::{CHAIN_ID, Chain, Parrot, RECEIVER, Server, Settings, pass, signer, until};

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

#[tokio::test]
async fn calls_that_landed_are_told_so_also_where_the_callers_endpoint_shows_no_receipt() {
    let chain = Chain::with_blocks_every(std::time::Duration::from_millis(300)).await;
    let callers = Parrot::before(&chain.url()).await;
    callers.answers_null("eth_getTransactionReceipt", true);
    let own = format!("caller_rpc = [\"{}\"]\n", callers.url());
    let settings = Settings { chain: own.leak(), finality: 3, ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let rpc = Rpc(&server.api);
    let pay = |value: &str| json!({ "to": RECEIVER, "value": value });
    let calls = json!([{
        "version": "2.0.0", "id": "paid", "from": signer(0), "chainId": format!("{CHAIN_ID:#x}"),
        "atomicRequired": false, "calls": [pay("0x1"), pay("0x2")],
    }]);
    rpc.get("wallet_sendCalls", calls).await;
    let done = until("both are final", async || {
        let status = rpc.get("wallet_getCallsStatus", json!(["paid"])).await;
        (status["status"] != 100).then_some(status)
    })
    .await;
    assert_eq!(done["status"], 200, "the first final answer of all: {done}");
    assert_eq!(server.api.list("&state=confirmed").await.len(), 2);
    let landed = done["receipts"].as_array().unwrap();
    assert!(landed.len() == 2 && landed.iter().all(|receipt| receipt["logs"] == json!([])), "{done}");
    callers.answers_null("eth_getTransactionReceipt", false);
    for receipt in landed {
        let shown = rpc.get("eth_getTransactionReceipt", json!([receipt["transactionHash"]])).await;
        for field in ["status", "blockHash", "blockNumber", "gasUsed", "logs"] {
            assert_eq!(receipt[field], shown[field], "{field} as the chain has it");
        }
    }
}
