//! The load: a process that makes its requests first, then sends them over kept connections as fast as they are
//! answered. What was not taken (503) is sent again with the same key, as a caller that does not give up would.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use landfall_core::ports::clock::Clock as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::rig;
use super::http::{self, Connection};
use super::process::{Helper, Usage};
use crate::cli::BenchMode;
use crate::system::{SystemClock, moment};

const AGAIN: Duration = Duration::from_millis(20);
/// A request that was not taken by then never will be.
const MOST_TRIES: u32 = 3_000;

/// What to send.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Callers do not know who owns a lane: connections go to the servers in turn.
    pub(super) urls: Vec<String>,
    pub(super) chain_id: u64,
    pub(super) signers: Vec<alloy_primitives::Address>,
    pub(super) mode: BenchMode,
    /// Transactions in a request, in batch mode.
    pub(super) batch: u64,
    pub(super) connections: u64,
    /// What each offers; by default Landfall decides.
    pub(super) max_fee_gwei: Option<u64>,
    /// The first transaction's number, and how many there are.
    pub(super) first: u64,
    pub(super) count: u64,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Loaded {
    /// When the first request was sent, and when the last was answered.
    pub(super) begun_ms: u64,
    pub(super) took_s: f64,
    pub(super) accept_p50_ms: f64,
    pub(super) accept_p99_ms: f64,
    /// Requests that had to be sent again.
    pub(super) again: u64,
    pub(super) usage: Usage,
}

/// The process: a plan in, a word that it is ready, a word to go, what came of it.
pub(in super::super) fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut lines = std::io::stdin().lines();
    let mut next = || lines.next().context("nobody says what to do")?.map_err(anyhow::Error::from);
    let plan: Plan = serde_json::from_str(&next()?)?;
    let requests = requests(&plan);
    println!("true");
    next()?;
    let loaded = tokio::task::LocalSet::new().block_on(&runtime, send(&plan, requests))?;
    println!("{}", serde_json::to_string(&loaded)?);
    Ok(())
}

/// The load process as its parent holds it.
pub(super) struct Loader(Helper);

impl Loader {
    /// Starts it, and returns once it has made its requests.
    pub(super) async fn prepare(plan: &Plan) -> Result<Self> {
        let mut helper = Helper::start("bench-load", &[])?;
        helper.tell(plan).await?;
        helper.hear::<bool>().await?;
        Ok(Self(helper))
    }

    /// Sends everything.
    pub(super) async fn go(mut self) -> Result<Loaded> {
        self.0.tell(&true).await?;
        self.0.hear().await
    }
}

fn requests(plan: &Plan) -> Vec<Vec<u8>> {
    let host = plan.urls.first().map_or("localhost", |url| url.trim_start_matches("http://"));
    let signer = |n: u64| {
        plan.signers.get((n % plan.signers.len().max(1) as u64) as usize).copied().unwrap_or_default()
    };
    let item = |n: u64| {
        let mut item = rig::submission(plan.chain_id, signer(n), n);
        if let Some(gwei) = plan.max_fee_gwei {
            item["payload"]["maxFeePerGas"] = json!(format!("0x{:x}", u128::from(gwei) * 1_000_000_000));
            item["payload"]["maxPriorityFeePerGas"] = json!("0x3b9aca00");
        }
        item
    };
    let numbers = plan.first..plan.first + plan.count;
    match plan.mode {
        BenchMode::Single => {
            numbers.map(|n| http::post(host, "/api/v1/tx", "", &item(n).to_string())).collect()
        }
        BenchMode::Batch => {
            let size = plan.batch.max(1);
            let starts = numbers.clone().step_by(size as usize);
            let body = |from: u64| Value::Array((from..(from + size).min(numbers.end)).map(item).collect());
            starts.map(|from| http::post(host, "/api/v1/tx/batch", "", &body(from).to_string())).collect()
        }
        BenchMode::Rpc => {
            let path = format!("/rpc/{}", plan.chain_id);
            let body = |n: u64| {
                let mut call = item(n)["payload"].take();
                call["from"] = json!(signer(n).to_string());
                call["gas"] = json!("0x7530");
                call["value"] = json!("0x0");
                json!({ "jsonrpc": "2.0", "id": n, "method": "eth_sendTransaction", "params": [call] })
            };
            let key = |n: u64| format!("idempotency-key: rig-{n}\r\n");
            numbers.map(|n| http::post(host, &path, &key(n), &body(n).to_string())).collect()
        }
    }
}

struct Shared {
    mode: BenchMode,
    requests: Vec<Vec<u8>>,
    next: Cell<usize>,
    again: Cell<u64>,
    took: RefCell<Vec<Duration>>,
}

async fn send(plan: &Plan, requests: Vec<Vec<u8>>) -> Result<Loaded> {
    let took = RefCell::new(Vec::with_capacity(requests.len()));
    let shared = Rc::new(Shared { mode: plan.mode, requests, next: Cell::new(0), again: Cell::new(0), took });
    let mut connections = Vec::new();
    for url in plan.urls.iter().cycle().take(plan.connections as usize) {
        connections.push(Connection::open(url.trim_start_matches("http://")).await?);
    }
    let before = Usage::of("self");
    let (begun, begun_ms) = (moment(), SystemClock.now().0);
    let callers: Vec<_> = connections
        .into_iter()
        .map(|connection| tokio::task::spawn_local(call(Rc::clone(&shared), connection)))
        .collect();
    for caller in callers {
        caller.await??;
    }
    let took_s = begun.elapsed().as_secs_f64();
    let mut took = shared.took.take();
    took.sort_unstable();
    Ok(Loaded {
        begun_ms,
        took_s,
        accept_p50_ms: percentile(&took, 50),
        accept_p99_ms: percentile(&took, 99),
        again: shared.again.get(),
        usage: Usage::of("self").since(before),
    })
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |took| took.as_secs_f64() * 1_000.0)
}

/// One connection: the next request that nobody has, until there is none.
async fn call(shared: Rc<Shared>, mut connection: Connection) -> Result<()> {
    loop {
        let at = shared.next.get();
        let Some(request) = shared.requests.get(at) else { return Ok(()) };
        shared.next.set(at + 1);
        let begun = moment();
        let mut tries = 0;
        loop {
            let (status, body) = connection.exchange(request).await?;
            match judge(shared.mode, status, body) {
                Verdict::Taken => break,
                Verdict::Again if tries < MOST_TRIES => tries += 1,
                Verdict::Again | Verdict::Refused => {
                    bail!("a transaction was refused ({status}): {}", String::from_utf8_lossy(body));
                }
            }
            shared.again.set(shared.again.get() + 1);
            tokio::time::sleep(AGAIN).await;
        }
        shared.took.borrow_mut().push(begun.elapsed());
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Taken,
    Again,
    Refused,
}

fn judge(mode: BenchMode, status: u16, body: &[u8]) -> Verdict {
    match (mode, status) {
        (_, 503 | 429) => Verdict::Again,
        (BenchMode::Single, 200 | 202) => Verdict::Taken,
        (BenchMode::Rpc, 200) if has(body, b"\"result\":\"0x") => Verdict::Taken,
        // Every item has a status of its own. Reading them as numbers in a text costs next to nothing.
        (BenchMode::Batch, 200) => {
            if has(body, b"\"status\":4") || has(body, b"\"status\":500") {
                Verdict::Refused
            } else if has(body, b"\"status\":503") {
                Verdict::Again
            } else {
                Verdict::Taken
            }
        }
        _ => Verdict::Refused,
    }
}

fn has(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_is_sent_again_and_what_was_refused_is_told() {
        let batch = |items: &str| judge(BenchMode::Batch, 200, items.as_bytes());
        assert_eq!(batch(r#"{"items":[{"status":202,"txId":"1"},{"status":200}]}"#), Verdict::Taken);
        assert_eq!(batch(r#"{"items":[{"status":202},{"status":503}]}"#), Verdict::Again);
        assert_eq!(batch(r#"{"items":[{"status":503},{"status":422}]}"#), Verdict::Refused);
        assert_eq!(judge(BenchMode::Single, 202, b""), Verdict::Taken);
        assert_eq!(judge(BenchMode::Single, 503, b""), Verdict::Again);
        assert_eq!(judge(BenchMode::Rpc, 200, br#"{"id":1,"error":{}}"#), Verdict::Refused);
        assert_eq!(
            judge(BenchMode::Rpc, 200, br#"{"jsonrpc":"2.0","id":1,"result":"0xab"}"#),
            Verdict::Taken
        );
    }
}
