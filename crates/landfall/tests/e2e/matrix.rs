//! Every door, every role and every kind of key, about what is its own and what is another's: nothing is learnt, nothing changes,
//! and every refusal is on record.
//!
//! Calls come from the server's own tables (paths, JSON-RPC methods, gRPC methods), which tests of the server hold to its router,
//! its dispatcher and its descriptors. A new call fails here until somebody has said what it needs. What a key may not have is
//! asked about something that is not there as well: the two answers must be the same.

mod doors;
mod grpc;
mod nodes;
mod site;

use landfall_server::Role;
use reqwest::Method;
use serde_json::json;
use tonic::transport::Endpoint;

use self::doors::{Call, Caller, Door, Said, is_of_nodes, is_public};
use self::site::{Named, Reach, Site};
use crate::support::text;

const ADMIN_KEY: &str = "an-administrators-key-that-is-long-enough";
const ROLES: [&str; 5] = ["viewer", "approver", "submitter", "operator", "admin"];
/// The ways in for JSON-RPC.
const OF_RPC: [Door; 3] = [Door::Rpc, Door::Batch, Door::Socket];

/// Whether a key of one role may do what needs the other.
fn covers(role: &str, least: &str) -> bool {
    match role {
        "viewer" => least == "viewer",
        "approver" | "submitter" => least == "viewer" || least == role,
        "operator" => least != "admin",
        _ => true,
    }
}

/// The least role for a method of JSON-RPC, as it is meant.
fn least_of_rpc(method: &str) -> &'static str {
    match method {
        "eth_sendTransaction"
        | "wallet_sendTransaction"
        | "eth_sendRawTransaction"
        | "wallet_sendCalls"
        | "landfall_cancel"
        | "landfall_speedUp" => "submitter",
        _ => "viewer",
    }
}

/// The least role for a method of gRPC, as it is meant; for REST the test of all paths says it.
fn least_of_grpc(path: &str) -> &'static str {
    match path.rsplit('/').next() {
        Some("Submit" | "SubmitStream" | "Cancel") => "submitter",
        Some("Get" | "List" | "Watch") => "viewer",
        other => panic!("{other:?} is a method that this test does not know"),
    }
}

/// Every call that the server has, by its own tables.
fn calls() -> Vec<Call> {
    let mut all = Vec::new();
    for (method, path, least) in landfall_server::paths() {
        // Health and reflection are open, and tell nothing of any account; they have tests of their own.
        if path.starts_with("/grpc.") {
            assert_eq!(least, None, "{path}");
            continue;
        }
        let door = match path {
            path if path.starts_with("/landfall.v1.") => Door::Grpc,
            "/api/v1/events" => Door::Events,
            _ => Door::Rest,
        };
        let least = least.map(Role::name);
        if door == Door::Grpc {
            assert_eq!(least, Some(least_of_grpc(path)), "{path}");
        }
        all.push(Call { door, method: method.clone(), name: path, least, params: None });
    }
    for (method, least) in landfall_server::RPC_METHODS {
        assert_eq!(least.name(), least_of_rpc(method), "{method}");
        let least = Some(least.name());
        all.extend(OF_RPC.map(|door| Call { door, method: Method::POST, name: method, least, params: None }));
    }
    all
}

/// The right end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// It is told to everybody.
    Open,
    /// It is refused with this status.
    Refused(u64),
    /// It is as if the thing were not there.
    Hidden,
    /// It is let in.
    Passes,
}

fn cell(holder: &site::Holder, call: &Call, is_own: bool) -> Cell {
    let Some(least) = call.least else { return Cell::Open };
    match holder.reach {
        Reach::Nothing => return Cell::Refused(401),
        Reach::Spent => return Cell::Refused(429),
        Reach::All | Reach::OwnSigner | Reach::OtherChain => {}
    }
    // A WebSocket of another chain is not opened at all.
    if holder.reach == Reach::OtherChain && OF_RPC.contains(&call.door) {
        return Cell::Hidden;
    }
    if !covers(holder.role, least) {
        return Cell::Refused(403);
    }
    match holder.reach {
        // Numbers of all accounts together.
        Reach::OwnSigner | Reach::OtherChain if call.name == "/metrics" => Cell::Refused(403),
        Reach::OwnSigner if is_own => Cell::Passes,
        Reach::OwnSigner | Reach::OtherChain => Cell::Hidden,
        Reach::All | Reach::Spent | Reach::Nothing => Cell::Passes,
    }
}

/// Asks what must not be told or done.
async fn is_kept_from(site: &Site, caller: &mut Caller<'_>, call: &Call, cell: Cell, named: &Named) {
    let what = format!("{} by {:?} {} {} ({cell:?})", caller.holder.who, call.door, call.method, call.name);
    let said = caller.ask(call, named).await;
    if let Cell::Refused(status) = cell {
        assert_eq!(said.status, status, "{what}: {said:?}");
    }
    if caller.holder.reach != Reach::All && named.tx == site.other.tx && !names_it(call) {
        site.free(&what, &said.text);
    }
    // When it may ask again is told in seconds, which go by.
    if matches!(cell, Cell::Open | Cell::Refused(429)) {
        return;
    }
    if cell == Cell::Hidden && caller.holder.reach == Reach::OwnSigner && is_public(call) {
        if is_of_nodes(call) {
            let params = doors::params(call.name, named);
            site.is_the_nodes_own(&what, call.name, params, &said.text).await;
        }
        return;
    }
    let nothing = Named::nothing();
    let of_nothing = caller.ask(call, &nothing).await;
    assert_eq!(said.status, of_nothing.status, "{what}: {said:?} {of_nothing:?}");
    let (said, of_nothing) = (named.masked(&said.text), nothing.masked(&of_nothing.text));
    assert_eq!(said, of_nothing, "{what}: it can be told from one that is not there");
}

/// An answer may repeat what its caller has named.
fn names_it(call: &Call) -> bool {
    let lists = ["/api/v1/tx", "/api/v1/webhooks", "/api/v1/lanes", "/landfall.v1.Lanes/List"];
    let is_list = call.method == Method::GET && lists.contains(&call.name);
    !is_list && call.name != "eth_accounts" && call.name != "eth_requestAccounts"
}

/// Asks what may be told or done. Things that a call ends are made for it.
async fn is_let_in(site: &Site, caller: &mut Caller<'_>, call: &Call, named: &Named) {
    let what = format!("{} by {:?} {} {}", caller.holder.who, call.door, call.method, call.name);
    let mut named = named.clone();
    if call.name.starts_with("/api/v1/webhooks/{id}") {
        let hook = json!({ "url": "https://localhost:1/", "signers": [named.signer] });
        named.webhook = text(&site.admin.post("/api/v1/webhooks", &hook).await.expect(201), "id");
    }
    if call.name == "/api/v1/api-keys/{id}" {
        let key = json!({ "name": "to be revoked", "role": "viewer" });
        named.key = text(&site.admin.post("/api/v1/api-keys", &key).await.expect(201), "id");
    }
    let Said { status, text } = caller.ask(call, &named).await;
    assert!(![401, 403, 404].contains(&status), "{what}: {status} {text}");
    if matches!(call.door, Door::Events) || call.name.ends_with("/Watch") {
        assert!(text.contains(&named.tx), "{what}: it hears of its own: {text}");
    }
    if caller.holder.reach == Reach::OwnSigner {
        site.free(&what, &text);
    }
}

#[tokio::test]
async fn every_door_opens_to_its_roles_for_their_own_and_to_nobody_else() {
    let site = Site::new().await;
    let endpoint = Endpoint::from_shared(site.server.api.url().to_owned()).unwrap();
    let channel = endpoint.connect().await.expect("gRPC is answered");
    let calls = calls();
    let before = site.state().await;
    for holder in &site.holders {
        let mut caller = Caller::new(&site, holder, channel.clone()).await;
        for call in &calls {
            for (named, is_own) in [(&site.own, true), (&site.other, false)] {
                let cell = cell(holder, call, is_own);
                if cell != Cell::Passes {
                    is_kept_from(&site, &mut caller, call, cell, named).await;
                }
            }
        }
        assert_eq!(site.state().await, before, "{} has changed something", holder.who);
    }
    // Those that pass: what steers a lane comes last, since it may end what the others are about.
    let (steers, rest): (Vec<&Call>, Vec<&Call>) = calls.iter().partition(|call| {
        call.method != Method::GET && (call.name.contains("/lanes/") || call.name.contains("/store/"))
    });
    for calls in [rest, steers] {
        for holder in site.holders.iter().filter(|holder| holder.is_good()) {
            let mut caller = Caller::new(&site, holder, channel.clone()).await;
            for call in &calls {
                if cell(holder, call, true) == Cell::Passes {
                    is_let_in(&site, &mut caller, call, &site.own).await;
                }
            }
        }
    }
    assert_ne!(site.state().await, before, "what passes does something");
    site.each_refusal_is_on_record().await;
}
