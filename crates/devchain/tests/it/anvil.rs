//! Starting and ending a real anvil.

use std::time::Duration;

use landfall_devchain::{
    Mining,
    anvil::{Anvil, Options},
};
use serde_json::json;

use crate::support::{Rpc, eventually, key, transfer};

async fn start(options: Options) -> (Anvil, Rpc) {
    match Anvil::start(options).await {
        Ok(anvil) => {
            let rpc = Rpc::new(anvil.http_url());
            (anvil, rpc)
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn it_mines_as_told() {
    let every = Mining::Interval(Duration::from_millis(100));
    let (_timed, rpc) = start(Options { mining: every, chain_id: 7, ..Options::default() }).await;
    assert_eq!(rpc.call("eth_chainId", json!([])).await, "0x7");
    eventually("two blocks", async || (rpc.head().await >= 2).then_some(())).await;

    let (_instant, rpc) = start(Options { mining: Mining::Instant, ..Options::default() }).await;
    let hash = rpc.send(&transfer(key(0), 0)).await;
    eventually("the receipt", async || Some(rpc.receipt(&hash).await).filter(|r| !r.is_null())).await;
    assert_eq!(rpc.head().await, 1);
}

#[tokio::test]
async fn it_is_gone_when_dropped() {
    let (anvil, rpc) = start(Options::default()).await;
    assert!(anvil.id().is_some());
    assert_eq!(rpc.head().await, 0);
    drop(anvil);
    eventually("the port to close", async || {
        rpc.try_call("eth_blockNumber", json!([])).await.is_err().then_some(())
    })
    .await;
}
