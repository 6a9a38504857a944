//! `landfall tx`: handing transactions over and seeing where they are.

use std::process::ExitCode;
use std::time::Duration;

use alloy_primitives::U256;
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use landfall_core::transaction::TxState;
use serde_json::{Value, json};

use crate::cli::{Remote, Tx, TxDecision, TxList, TxReplace, TxSend};
use crate::client::Client;
use crate::output::{self, text};

/// How often a followed transaction is asked for.
const ASK_EVERY: Duration = Duration::from_millis(250);

pub(crate) async fn run(command: Tx) -> Result<ExitCode> {
    match command {
        Tx::Send(args) => send(args).await,
        Tx::Get { id, journal, remote } => get(&id, journal, &remote).await,
        Tx::List(args) => list(args).await,
        Tx::Watch { id, remote } => watch(&id, &remote).await,
        Tx::Cancel(name) => steer(&name.id, "cancel", None, &name.remote).await,
        Tx::Replace(args) => replace(args).await,
        Tx::SpeedUp(args) => {
            let mut body = json!({});
            for (field, price) in [("maxFeePerGas", &args.max_fee), ("maxPriorityFeePerGas", &args.tip)] {
                if let Some(price) = price {
                    body[field] = json!(wei(price)?.to_string());
                }
            }
            if let Some(speed) = &args.speed {
                body["speed"] = json!(speed);
            }
            steer(&args.id, "speed-up", Some(body), &args.remote).await
        }
        Tx::Approve(args) => decide(&args, "approve").await,
        Tx::Reject(args) => decide(&args, "reject").await,
        Tx::Retry(name) => {
            let path = format!("/api/v1/tx/{}/retry", name.id);
            let answer = Client::new(&name.remote.url)?.post(&path, None).await?;
            if name.remote.json {
                output::json(&answer);
            } else {
                println!("{}  {}", text(&answer, "txId"), output::state(&text(&answer, "state")));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Asks for something; the answer says only that it is stored.
async fn steer(id: &str, verb: &str, body: Option<Value>, remote: &Remote) -> Result<ExitCode> {
    let path = format!("/api/v1/tx/{id}/{verb}");
    let answer = Client::new(&remote.url)?.post(&path, body.as_ref()).await?;
    if remote.json {
        output::json(&answer);
    } else {
        println!("accepted; the chain decides whether it was in time (`landfall tx watch {id}`)");
    }
    Ok(ExitCode::SUCCESS)
}

async fn decide(args: &TxDecision, verb: &str) -> Result<ExitCode> {
    let body = args.version.map(|version| json!({ "version": version }));
    steer(&args.id, verb, body, &args.remote).await
}

async fn replace(args: TxReplace) -> Result<ExitCode> {
    let payload = payload(&args.value, &args.to, &args.data, args.gas)?;
    let mut options = json!({});
    if let Some(speed) = &args.speed {
        options["speed"] = json!(speed);
    }
    if let Some(price) = &args.max_fee {
        options["maxFeePerGas"] = json!(wei(price)?.to_string());
    }
    let body = json!({ "payload": payload, "options": options });
    steer(&args.id, "replace", Some(body), &args.remote).await
}

fn payload(value: &str, to: &Option<String>, data: &Option<String>, gas: Option<u64>) -> Result<Value> {
    let mut payload = json!({ "value": wei(value)?.to_string() });
    for (name, value) in [("to", to), ("data", data)] {
        if let Some(value) = value {
            payload[name] = json!(value);
        }
    }
    if let Some(gas) = gas {
        payload["gas"] = json!(gas);
    }
    Ok(payload)
}

async fn send(args: TxSend) -> Result<ExitCode> {
    let client = Client::new(&args.remote.url)?;
    let (chain, signer) = match (args.chain, args.signer.clone()) {
        (Some(chain), Some(signer)) => (chain, signer),
        (chain, signer) => fitting_lane(&client, chain, signer).await?,
    };
    let payload = payload(&args.value, &args.to, &args.data, args.gas)?;
    let mut body = json!({ "chainId": chain, "signer": signer, "payload": payload });
    if let Some(id) = &args.request_id {
        body["requestId"] = json!(id);
    }
    if let Some(speed) = &args.speed {
        body["options"] = json!({ "speed": speed });
    }
    let answer = client.post("/api/v1/tx", Some(&body)).await?;
    let id = text(&answer, "txId");
    if args.wait {
        return watch(&id, &args.remote).await;
    }
    if args.remote.json {
        output::json(&answer);
    } else {
        println!("{id}  {}", output::state(&text(&answer, "state")));
    }
    Ok(ExitCode::SUCCESS)
}

/// The one lane that is meant when only part of its name is given.
async fn fitting_lane(client: &Client, chain: Option<u64>, signer: Option<String>) -> Result<(u64, String)> {
    let lanes = client.get("/api/v1/lanes").await?;
    let lanes = lanes["items"].as_array().cloned().unwrap_or_default();
    let fits = |lane: &&Value| {
        chain.is_none_or(|chain| lane["chainId"] == chain)
            && signer.as_ref().is_none_or(|signer| text(lane, "signer").eq_ignore_ascii_case(signer))
    };
    let mut fitting = lanes.iter().filter(fits);
    let first = fitting.next().context("no lane fits; see `landfall lane list`")?;
    if fitting.next().is_some() {
        bail!("several lanes fit; choose with --chain and --signer (see `landfall lane list`)");
    }
    let id = first["chainId"].as_u64().context("the server's answer has no chainId")?;
    Ok((id, text(first, "signer")))
}

/// `5`, `0x5`, `20gwei`, `1.5ether`.
fn wei(amount: &str) -> Result<U256> {
    let (number, decimals) = match amount {
        text if text.ends_with("ether") => (text.trim_end_matches("ether"), 18),
        text if text.ends_with("gwei") => (text.trim_end_matches("gwei"), 9),
        text => return Ok(text.parse::<landfall_core::Wei>()?.0),
    };
    let (whole, part) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
    if part.len() > decimals || whole.is_empty() {
        bail!("{amount:?} is not an amount: write 1.5ether, 20gwei, or wei as a whole number");
    }
    Ok(format!("{whole}{part:0<decimals$}").parse::<landfall_core::Wei>()?.0)
}

async fn get(id: &str, journal: bool, remote: &Remote) -> Result<ExitCode> {
    let client = Client::new(&remote.url)?;
    let mut tx = client.get(&format!("/api/v1/tx/{id}")).await?;
    let entries = if journal { Some(client.get(&format!("/api/v1/tx/{id}/journal")).await?) } else { None };
    if remote.json {
        if let Some(entries) = entries {
            tx["journal"] = entries["items"].clone();
        }
        output::json(&tx);
        return Ok(ExitCode::SUCCESS);
    }
    show(&tx);
    if let Some(entries) = entries {
        let rows = entries["items"].as_array().into_iter().flatten();
        let rows = rows.map(|entry| vec![text(entry, "at"), text(entry, "type"), detail(entry)]);
        println!("\n{}", output::table(&["at", "what", "detail"], rows.collect()));
    }
    Ok(ExitCode::SUCCESS)
}

/// What an entry says beyond its kind.
fn detail(entry: &Value) -> String {
    let Value::Object(map) = entry else { return String::new() };
    let told = ["seq", "at", "type", "event"];
    let parts = map.iter().filter(|(name, _)| !told.contains(&name.as_str()));
    let part = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    };
    parts.map(part).collect::<Vec<_>>().join(" ")
}

fn show(tx: &Value) {
    let line = |name: &str, value: String| println!("{name:<14} {value}");
    line("txId", text(tx, "txId"));
    line("state", output::state(&text(tx, "state")));
    if tx["stuckReason"].is_string() {
        line("why", text(tx, "stuckReason"));
    }
    if tx["reason"].is_object() {
        line("reason", format!("{} ({})", text(tx, "reason.text"), text(tx, "reason.code")));
    }
    line("chain", text(tx, "chainId"));
    line("signer", text(tx, "signer"));
    line("requestId", text(tx, "requestId"));
    line("nonce", text(tx, "nonce"));
    line("hash", text(tx, "hash"));
    line("to", text(tx, "payload.to"));
    line("value", text(tx, "payload.value"));
    if tx["receipt"].is_object() {
        line("block", text(tx, "receipt.blockNumber"));
        line("confirmations", text(tx, "confirmations"));
        line("gas used", text(tx, "receipt.gasUsed"));
    }
    if tx["wonVersion"].is_number() {
        line("won version", text(tx, "wonVersion"));
    }
    for (name, field) in [("retry of", "retryOf"), ("retried as", "retriedAs")] {
        if tx[field].is_string() {
            line(name, text(tx, field));
        }
    }
    line("attempts", tx["attempts"].as_array().map_or(0, Vec::len).to_string());
    line("accepted", text(tx, "acceptedAt"));
    line("updated", text(tx, "updatedAt"));
}

async fn list(args: TxList) -> Result<ExitCode> {
    let mut query = vec![format!("limit={}", args.limit)];
    let filters = [
        ("state", args.state),
        ("signer", args.signer),
        ("chainId", args.chain.map(|id| id.to_string())),
        ("hash", args.hash),
        ("cursor", args.cursor),
    ];
    query.extend(filters.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))));
    let page = Client::new(&args.remote.url)?.get(&format!("/api/v1/tx?{}", query.join("&"))).await?;
    if args.remote.json {
        output::json(&page);
        return Ok(ExitCode::SUCCESS);
    }
    let rows = page["items"].as_array().into_iter().flatten().map(|tx| {
        vec![
            text(tx, "txId"),
            output::state(&text(tx, "state")),
            text(tx, "chainId"),
            text(tx, "signer"),
            text(tx, "nonce"),
            text(tx, "receipt.blockNumber"),
            text(tx, "acceptedAt"),
        ]
    });
    let header = ["txId", "state", "chain", "signer", "nonce", "block", "accepted"];
    println!("{}", output::table(&header, rows.collect()));
    if page["nextCursor"].is_string() {
        println!("more: --cursor {}", text(&page, "nextCursor"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Follows a transaction to its end. The exit code is 0 only if it was confirmed.
async fn watch(id: &str, remote: &Remote) -> Result<ExitCode> {
    let client = Client::new(&remote.url)?;
    let bar = if remote.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    bar.enable_steady_tick(Duration::from_millis(100));
    loop {
        let tx = client.get(&format!("/api/v1/tx/{id}")).await?;
        let state = text(&tx, "state");
        let why = tx["stuckReason"].as_str().map_or(String::new(), |why| format!(": {why}"));
        bar.set_message(format!("{state}{why}"));
        if TxState::from_name(&state).is_some_and(TxState::is_terminal) {
            bar.finish_and_clear();
            if remote.json {
                output::json(&tx);
            } else {
                show(&tx);
            }
            return Ok(if state == "confirmed" { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_may_be_written_in_ether_gwei_or_wei() {
        assert_eq!(wei("1ether").unwrap(), U256::from(10).pow(U256::from(18)));
        assert_eq!(wei("1.5gwei").unwrap(), U256::from(1_500_000_000));
        assert_eq!(wei("0x10").unwrap(), U256::from(16));
        assert_eq!(wei("7").unwrap(), U256::from(7));
        for bad in ["ether", ".5ether", "1.0000000001gwei", "-1", "1,5ether", "1e3"] {
            assert!(wei(bad).is_err(), "{bad}");
        }
    }
}
