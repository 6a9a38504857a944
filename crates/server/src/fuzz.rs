//! Decoders under bytes that nobody would send on purpose: whatever comes, they answer, and do not panic.
//!
//! Inputs are good messages with mutations, in their bytes and in their values, from a seed that a failure names. A short run is
//! part of every test run; `cargo xtask test --all` tries a million for each decoder (`LANDFALL_FUZZ_INPUTS`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use landfall_core::Millis;
use landfall_core::request::fingerprint;
use serde_json::{Value, json};

use crate::body;
use crate::rpc::wire;

const SHORT: u64 = 5_000;

const SIGNER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

fn inputs() -> u64 {
    std::env::var("LANDFALL_FUZZ_INPUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(SHORT)
}

/// What has made decoders stumble before.
fn nasty() -> Vec<Value> {
    let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
    vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(1e308),
        json!(1.5),
        json!(""),
        json!("0x"),
        json!("0X10"),
        json!("0x0"),
        json!("-0"),
        json!("999999999999999999999999999999999999999999999999999999999999999999999999999999999"),
        json!(format!("0x{}", "f".repeat(65))),
        json!("\u{0}\u{ffff}\u{202e}é😀"),
        json!("9999-12-31T23:59:59.999999999Z"),
        json!("-009999-01-01T00:00:00Z"),
        json!([]),
        json!({}),
        json!({ "": "" }),
        deep,
    ]
}

struct Fuzzer {
    state: u64,
    seeds: Vec<Value>,
    nasty: Vec<Value>,
}

impl Fuzzer {
    fn new(seed: u64, seeds: Vec<Value>) -> Self {
        Self { state: seed, seeds, nasty: nasty() }
    }

    /// SplitMix64: good enough to choose by, and the same everywhere.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn input(&mut self) -> Vec<u8> {
        let seed = self.below(self.seeds.len());
        let mut value = self.seeds[seed].clone();
        for _ in 0..self.below(4) {
            let with = self.below(self.nasty.len());
            let with = self.nasty[with].clone();
            self.change(&mut value, with);
        }
        let mut bytes = value.to_string().into_bytes();
        for _ in 0..self.below(5) {
            self.damage(&mut bytes);
        }
        bytes
    }

    /// Puts something else into some place of a value.
    fn change(&mut self, value: &mut Value, with: Value) {
        let inside = match value {
            Value::Object(map) => map.len(),
            Value::Array(list) => list.len(),
            _ => 0,
        };
        let chosen = self.below(inside + 1);
        match value {
            Value::Object(map) if chosen < inside => {
                if let Some(inner) = map.values_mut().nth(chosen) {
                    self.change(inner, with);
                }
            }
            Value::Array(list) if chosen < inside => self.change(&mut list[chosen], with),
            other => *other = with,
        }
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        let to = (at + 1 + self.below(8)).min(bytes.len());
        match self.below(5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 => bytes.insert(at, self.next() as u8),
            2 if at < to => drop(bytes.drain(at..to)),
            3 if at < to => {
                let copied = bytes[at..to].to_vec();
                bytes.splice(at..at, copied);
            }
            _ => bytes.truncate(at),
        }
    }
}

/// Gives inputs to a decoder, and says which one it did not survive. It must have taken some of them, or it saw nothing.
fn survives(seeds: Vec<Value>, decode: impl Fn(&[u8]) -> bool) {
    let mut fuzzer = Fuzzer::new(0x1a2d_fa11, seeds);
    let mut taken = 0_u64;
    for number in 0..inputs() {
        let input = fuzzer.input();
        match catch_unwind(AssertUnwindSafe(|| decode(&input))) {
            Ok(was_taken) => taken += u64::from(was_taken),
            Err(_) => panic!("input {number} was not survived: {:?}", String::from_utf8_lossy(&input)),
        }
    }
    assert!(taken > inputs() / 50, "only {taken} of {} were good", inputs());
    assert!(taken < inputs(), "nothing was refused");
}

fn payload() -> Value {
    json!({
        "to": SIGNER, "value": "1000000000000000000", "data": "0xa9059cbb", "gas": 90_000,
        "maxFeePerGas": "90000000000", "maxPriorityFeePerGas": "0x3b9aca00",
        "accessList": [{ "address": SIGNER, "storageKeys": [format!("0x{}", "11".repeat(32))] }],
    })
}

#[test]
fn submissions_and_what_is_asked_of_them() {
    let options = json!({
        "speed": "fast", "maxFeePerGas": "100000000000", "deadline": "2030-01-01T00:00:00Z", "finality": 3,
        "onDisplaced": "requeue", "onReorg": "resend", "onInsufficientFunds": "hold",
        "after": { "txId": "01a1e0d3-0d68-723f-adfc-baff0193aae9", "state": "mined" }, "metadata": { "a": [1, null] },
    });
    let signed = json!({ "chainId": 1, "address": SIGNER, "nonce": 7, "yParity": 1,
                         "r": format!("0x{}", "22".repeat(32)), "s": format!("0x{}", "33".repeat(32)) });
    let seeds = vec![
        json!({ "chainId": 1, "signer": SIGNER, "requestId": "a", "payload": payload(), "options": options }),
        json!({ "chainId": 1, "signer": SIGNER, "payload": { "to": SIGNER, "gasPrice": "1", "type": "0x0" } }),
        json!({ "chainId": 1, "signer": SIGNER, "payload": { "to": SIGNER, "authorizationList": [signed, { "address": SIGNER }] } }),
        json!({ "payload": payload(), "options": { "speed": "slow" } }),
        json!({ "maxFeePerGas": "1", "speed": "normal" }),
        json!({ "from": 1, "to": 2 }),
        json!({ "version": 2 }),
        json!({ "taken": "ours" }),
        json!({ "name": "a", "role": "submitter", "signers": [SIGNER], "ratePerS": 5, "expiresAt": "2030-01-01T00:00:00Z" }),
    ];
    survives(seeds, |bytes| {
        let Ok(value) = body::strict_json(bytes) else { return false };
        let submission = body::submission(value.clone(), None);
        if let Ok(taken) = &submission {
            fingerprint(&taken.lane, &taken.payload, &taken.options).ok();
        }
        let others = [
            body::replacement(value.clone()).is_ok(),
            body::speed_up(value.clone()).is_ok(),
            body::decision(value.clone()).is_ok(),
            body::taken(value.clone()).is_ok(),
            body::retry(value.clone()).is_ok(),
            body::range(value.clone(), 100).is_ok(),
            body::new_key(value, Millis(1)).is_ok(),
        ];
        submission.is_ok() || others.contains(&true)
    });
}

#[test]
fn json_rpc_messages() {
    let call = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let seeds = vec![
        call("eth_sendTransaction", json!([payload()])),
        call("eth_getTransactionCount", json!([SIGNER, "pending"])),
        call("wallet_sendCalls", json!([{ "version": "2.0.0", "calls": [{ "to": SIGNER }] }])),
        json!([call("eth_chainId", json!([])), call("eth_accounts", json!({})), { "method": "x" }]),
    ];
    survives(seeds, |bytes| {
        let (one, mut good) = (wire::decode(bytes, 10), false);
        let calls = match one {
            wire::Incoming::One(call) => vec![call],
            wire::Incoming::Batch(calls) => calls,
        };
        for call in calls {
            // Whatever is refused is refused under an id, in JSON.
            let text = match call {
                Ok(call) => {
                    good = true;
                    for param in call.params.as_array().into_iter().flatten() {
                        body::payload(param.clone()).ok();
                    }
                    wire::encode(&call.id.unwrap_or_default(), &Ok("null".to_owned()))
                }
                Err(refusal) => wire::encode(&refusal.id, &Err(refusal.error)),
            };
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        }
        good
    });
}
