//! What every test here needs: a chain, a server, a caller, and a way to wait.

mod api;
mod chain;
mod contract;
mod database;
mod dev;
pub(crate) mod frames;
mod gate;
mod line;
mod nodes;
mod parrot;
mod process;
mod receiver;
mod restored;
mod server;
mod wait;

pub(crate) use api::{Answer, Api, http_client, text};
pub(crate) use chain::{Chain, marker, number_of};
pub(crate) use contract::check_event;
pub(crate) use database::{Database, own_database};
pub(crate) use dev::Dev;
pub(crate) use gate::Gate;
pub(crate) use line::Line;
pub(crate) use nodes::Nodes;
pub(crate) use parrot::Parrot;
pub(crate) use process::{Output, is_here, program, run, run_within, secret_file, signal};
pub(crate) use receiver::{Receiver, Taken};
pub(crate) use restored::Restored;
pub(crate) use server::{QUICK_WEBHOOKS, Server, Settings, WEBHOOK_SECRET, free_port};
pub(crate) use wait::{LIMIT, pass, until, until_within};

use landfall_devchain::{DevAccount, dev_accounts};
use serde_json::{Value, json};

/// The id every chain here has.
pub(crate) const CHAIN_ID: u64 = 31_337;

/// Where transfers go: an account that signs nothing here.
pub(crate) const RECEIVER: &str = "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720";

/// The `n`th account that the chain funds.
pub(crate) fn account(n: usize) -> DevAccount {
    dev_accounts().nth(n).expect("the chain funds ten accounts")
}

/// The `n`th account's address as callers write it.
pub(crate) fn signer(n: usize) -> String {
    account(n).address.to_string()
}

/// A transaction of the first signer with this payload.
pub(crate) fn submission(payload: Value) -> Value {
    json!({ "chainId": CHAIN_ID, "signer": signer(0), "payload": payload })
}

/// A small transfer with its gas given.
pub(crate) fn transfer() -> Value {
    submission(json!({ "to": RECEIVER, "value": "1", "gas": 21_000 }))
}

/// The same with a requestId.
pub(crate) fn transfer_as(request_id: &str) -> Value {
    let mut body = transfer();
    body["requestId"] = json!(request_id);
    body
}
