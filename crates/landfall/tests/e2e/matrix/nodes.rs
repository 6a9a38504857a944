//! What reaches a node by whose word, and what of another's is told only as far as a node tells it to everybody.

use futures::SinkExt as _;
use landfall_server::rpc::READS;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::Endpoint;

use super::doors::{Call, Caller};
use super::site::{LISTED, Named, Reach, Site};
use super::{ADMIN_KEY, OF_RPC, covers};
use crate::rpc::Rpc;
use crate::subscriptions::{next, subscribed};
use crate::support::{Api, CHAIN_ID, Chain, RECEIVER, Server, Settings, signer, text, until};

/// Methods that nobody has listed, or that nobody can list.
const UNLISTED: [&str; 8] = [
    "anvil_setBalance",
    "debug_setHead",
    "admin_addPeer",
    "miner_start",
    "personal_sign",
    "eth_sign",
    "eth_newFilter",
    "trace_filter",
];

/// Every method that can be passed on, and the least role that it needs; none: nobody may have it.
fn methods() -> Vec<(&'static str, Option<&'static str>)> {
    let own = |method: &str| landfall_server::RPC_METHODS.iter().any(|(name, _)| *name == method);
    let reads = READS.iter().filter(|method| !own(method)).map(|method| (*method, Some("viewer")));
    let listed = LISTED.map(|(role, method)| (method, Some(role)));
    reads.chain(listed).chain(UNLISTED.map(|method| (method, None))).collect()
}

#[tokio::test]
async fn what_is_passed_on_to_nodes_goes_by_the_list_of_each_role_at_every_door() {
    const WORDS: &str = "as the node was told";
    let site = Site::new().await;
    let endpoint = Endpoint::from_shared(site.server.api.url().to_owned()).unwrap();
    let channel = endpoint.connect().await.expect("gRPC is answered");
    let before = site.state().await;
    let methods = methods();
    assert!(methods.len() > 40, "{methods:?}");
    for holder in &site.holders {
        let mut caller = Caller::new(&site, holder, channel.clone()).await;
        for door in OF_RPC {
            for (name, least) in &methods {
                let params = json!([{ "parrot": { "text": WORDS } }]);
                let call = Call { door, method: Method::POST, name, least: *least, params: Some(params) };
                let asked = site.node.asked(name);
                let said = caller.ask(&call, &site.own).await;
                let what = format!("{} by {door:?} {name}: {said:?}", holder.who);
                let has_role = least.is_some_and(|least| covers(holder.role, least));
                let status = match holder.reach {
                    Reach::Nothing => 401,
                    Reach::Spent => 429,
                    Reach::OtherChain => 404,
                    // The node's error, or that there is no such method.
                    Reach::All | Reach::OwnSigner => 400,
                };
                assert_eq!(said.status, status, "{what}");
                if has_role && status == 400 {
                    assert!(said.text.contains(WORDS), "{what}");
                } else {
                    assert!(!said.text.contains(WORDS), "{what}");
                    assert!(site.node.asked(name) == asked || *least == Some("viewer"), "{what}");
                }
            }
        }
    }
    assert_eq!(site.state().await, before, "questions change nothing");
}

/// The answers to a call by HTTP, alone and among others, and over a WebSocket.
async fn at_each_door(api: &Api, method: &str, params: &Value) -> [Value; 3] {
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let one = Rpc(api).ask(method, params.clone()).await;
    let other = json!({ "jsonrpc": "2.0", "id": 8, "method": "eth_chainId", "params": [] });
    let batch = api.post(&format!("/rpc/{CHAIN_ID}"), &json!([other, call])).await.expect(200);
    let mut socket = subscribed(api, 0, &Value::Null).await;
    socket.send(Message::text(call.to_string())).await.unwrap();
    [one, batch[1].clone(), next(&mut socket).await.unwrap()]
}

#[tokio::test]
async fn a_transaction_that_no_node_was_given_is_not_there_for_keys_of_other_signers() {
    let chain = Chain::without_mining().await;
    let ahead = "max_signed_ahead = 4";
    let mut settings = Settings { signers: 2, max_in_flight: 1, chain: ahead, ..Settings::default() };
    settings.env.push(("LANDFALL_ADMIN_KEY", ADMIN_KEY.to_owned()));
    let server = Server::start(&chain.url(), settings).await;
    let admin = server.api.with_key(ADMIN_KEY);
    let payment = json!([{ "from": signer(0), "to": RECEIVER, "value": "0x1", "gas": "0x5208" }]);
    Rpc(&admin).get("eth_sendTransaction", payment.clone()).await;
    let unsent = Rpc(&admin).get("eth_sendTransaction", payment).await;
    until("a node has the first", async || (chain.pooled().await == 1).then_some(())).await;
    let key = async |role: &str, n: usize| {
        let body = json!({ "name": "limited", "role": role, "signers": [signer(n)] });
        admin.with_key(&text(&admin.post("/api/v1/api-keys", &body).await.expect(201), "key"))
    };
    let (own, nothing) = (key("viewer", 0).await, Named::nothing());
    for answer in at_each_door(&own, "eth_getTransactionByHash", &json!([unsent])).await {
        assert_eq!(answer["result"]["hash"], unsent, "{answer}");
    }
    for role in ["viewer", "approver", "submitter"] {
        let other = key(role, 1).await;
        for method in [
            "eth_getTransactionByHash",
            "eth_getTransactionReceipt",
            "landfall_getTransaction",
            "landfall_getJournal",
        ] {
            let of_unsent = at_each_door(&other, method, &json!([unsent])).await;
            let of_nothing = at_each_door(&other, method, &json!([nothing.hash])).await;
            for (said, of_nothing) in of_unsent.iter().zip(&of_nothing) {
                let masked = said.to_string().replace(unsent.as_str().unwrap(), "…");
                let as_nothing = of_nothing.to_string().replace(&nothing.hash, "…");
                assert_eq!(masked, as_nothing, "{role} {method}");
            }
        }
        // Of a count that is to come it hears what the node knows, and not how much waits here.
        for at in ["latest", "pending"] {
            let params = json!([signer(0), at]);
            let of_node = chain.call("eth_getTransactionCount", params.clone()).await;
            for said in at_each_door(&other, "eth_getTransactionCount", &params).await {
                assert_eq!(said["result"], of_node, "{role} {at}");
            }
            let of_owner = Rpc(&own).get("eth_getTransactionCount", params).await;
            assert_eq!(of_owner == of_node, at == "latest", "its own key hears of both: {of_owner}");
        }
    }
}
