//! `landfall tx`: handing transactions over and seeing where they are.

use std::process::ExitCode;
use std::time::Duration;

use alloy_primitives::U256;
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use landfall_client::{Accepted, CommandAccepted, Payload, State, Submission, TxFilter};
use serde_json::{Map, Value, json};

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
        Tx::Cancel(name) => {
            let stored = Client::new(&name.remote.url)?.cancel(&name.id).await?;
            Ok(told(&name.id, &stored, &name.remote))
        }
        Tx::Replace(args) => replace(args).await,
        Tx::SpeedUp(args) => {
            let mut price = speed(args.speed.as_ref());
            for (field, amount) in [("maxFeePerGas", &args.max_fee), ("maxPriorityFeePerGas", &args.tip)] {
                if let Some(amount) = amount {
                    price.insert(field.to_owned(), json!(wei(amount)?.to_string()));
                }
            }
            let stored = Client::new(&args.remote.url)?.speed_up(&args.id, &price).await?;
            Ok(told(&args.id, &stored, &args.remote))
        }
        Tx::Approve(TxDecision { id, version, remote }) => {
            let stored = Client::new(&remote.url)?.approve(&id, version).await?;
            Ok(told(&id, &stored, &remote))
        }
        Tx::Reject(TxDecision { id, version, remote }) => {
            let stored = Client::new(&remote.url)?.reject(&id, version).await?;
            Ok(told(&id, &stored, &remote))
        }
        Tx::Retry(name) => {
            let accepted = Client::new(&name.remote.url)?.retry(&name.id).await?;
            Ok(taken(&accepted, &name.remote))
        }
    }
}

/// Says that a wish is stored, which is all that is known.
fn told(id: &str, stored: &CommandAccepted, remote: &Remote) -> ExitCode {
    if remote.json {
        output::json(&json!(stored));
    } else {
        println!("accepted; the chain decides whether it was in time (`landfall tx watch {id}`)");
    }
    ExitCode::SUCCESS
}

/// Says that a transaction was taken in.
fn taken(accepted: &Accepted, remote: &Remote) -> ExitCode {
    if remote.json {
        output::json(&json!(accepted));
    } else {
        println!("{}  {}", accepted.tx_id, output::state(accepted.state.name()));
    }
    ExitCode::SUCCESS
}

fn speed(speed: Option<&String>) -> Map<String, Value> {
    speed.map(|speed| ("speed".to_owned(), json!(speed))).into_iter().collect()
}

async fn replace(args: TxReplace) -> Result<ExitCode> {
    let payload = payload(&args.value, &args.to, &args.data, args.gas)?;
    let mut options = speed(args.speed.as_ref());
    if let Some(price) = &args.max_fee {
        options.insert("maxFeePerGas".to_owned(), json!(wei(price)?.to_string()));
    }
    let stored = Client::new(&args.remote.url)?.replace(&args.id, &payload, &options).await?;
    Ok(told(&args.id, &stored, &args.remote))
}

fn payload(value: &str, to: &Option<String>, data: &Option<String>, gas: Option<u64>) -> Result<Payload> {
    let (to, data) = (to.clone(), data.clone());
    Ok(Payload { to, data, gas, value: Some(wei(value)?.to_string()), ..Payload::default() })
}

async fn send(args: TxSend) -> Result<ExitCode> {
    let client = Client::new(&args.remote.url)?;
    let (chain, signer) = match (args.chain, args.signer.clone()) {
        (Some(chain), Some(signer)) => (chain, signer),
        (chain, signer) => fitting_lane(&client, chain, signer).await?,
    };
    let payload = payload(&args.value, &args.to, &args.data, args.gas)?;
    let (request_id, options) = (args.request_id.clone(), speed(args.speed.as_ref()));
    let submission = Submission { chain_id: chain, signer, request_id, payload, options };
    let accepted = client.submit(&submission).await?;
    if args.wait {
        return watch(&accepted.tx_id, &args.remote).await;
    }
    Ok(taken(&accepted, &args.remote))
}

/// The one lane that is meant when only part of its name is given.
async fn fitting_lane(client: &Client, chain: Option<u64>, signer: Option<String>) -> Result<(u64, String)> {
    let lanes = client.lanes().await?;
    let fits = |lane: &landfall_client::Lane| {
        chain.is_none_or(|chain| lane.chain_id == chain)
            && signer.as_ref().is_none_or(|signer| lane.signer.eq_ignore_ascii_case(signer))
    };
    let mut fitting = lanes.into_iter().filter(fits);
    let first = fitting.next().context("no lane fits; see `landfall lane list`")?;
    if fitting.next().is_some() {
        bail!("several lanes fit; choose with --chain and --signer (see `landfall lane list`)");
    }
    Ok((first.chain_id, first.signer))
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
    let mut tx = json!(client.transaction(id).await?);
    let entries = if journal { Some(client.journal(id).await?) } else { None };
    if remote.json {
        if let Some(entries) = entries {
            tx["journal"] = json!(entries);
        }
        output::json(&tx);
        return Ok(ExitCode::SUCCESS);
    }
    show(&tx);
    if let Some(entries) = entries {
        let rows =
            entries.iter().map(|entry| vec![entry.at.clone(), entry.kind.clone(), detail(&entry.rest)]);
        println!("\n{}", output::table(&["at", "what", "detail"], rows.collect()));
    }
    Ok(ExitCode::SUCCESS)
}

/// What an entry says beyond its kind.
fn detail(said: &Map<String, Value>) -> String {
    let parts = said.iter().filter(|(name, _)| *name != "event");
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
    let TxList { state, signer, chain, hash, cursor, limit, remote } = args;
    let filter = TxFilter { state, signer, chain_id: chain, hash, cursor, limit: Some(limit) };
    let page = json!(Client::new(&remote.url)?.transactions(&filter).await?);
    if remote.json {
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
        let tx = client.transaction(id).await?;
        let why = tx.stuck_reason.as_ref().map_or(String::new(), |why| format!(": {why}"));
        bar.set_message(format!("{}{why}", tx.state));
        if tx.state.has_ended() {
            bar.finish_and_clear();
            if remote.json {
                output::json(&json!(tx));
            } else {
                show(&json!(tx));
            }
            let well = tx.state == State::Confirmed;
            return Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
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
