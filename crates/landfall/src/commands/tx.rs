//! `landfall tx`: handing transactions over and seeing where they are.

mod decide;
mod find;
mod send;
mod show;

use std::process::ExitCode;
use std::time::Duration;

use alloy_primitives::U256;
use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use landfall_client::{Accepted, CommandAccepted, Payload, State, Transaction, TxFilter};
use serde_json::{Map, Value, json};

use crate::cli::{Remote, Tx, TxList, TxName, TxReplace, TxSettle};
use crate::client::Client;
use crate::exit::Exit;
use crate::output::{self, text};

/// How often a followed transaction is asked for.
const ASK_EVERY: Duration = Duration::from_millis(250);

pub(crate) async fn run(command: Tx) -> Result<ExitCode> {
    match command {
        Tx::Send(args) => send::run(args).await,
        Tx::Get { name, journal } => get(&name, journal).await,
        Tx::List(args) => list(args).await,
        Tx::Watch(name) => {
            let (client, id) = find::tx(&name).await?;
            watch(&client, &id, &name.remote).await
        }
        Tx::Cancel(name) => {
            let (client, id) = find::tx(&name).await?;
            let stored = client.cancel(&id).await?;
            Ok(told(&client, &id, &stored, &name.remote).await)
        }
        Tx::Replace(args) => replace(args).await,
        Tx::SpeedUp(args) => {
            let mut price = speed(args.speed.as_ref());
            for (field, amount) in [("maxFeePerGas", args.max_fee), ("maxPriorityFeePerGas", args.tip)] {
                if let Some(amount) = amount {
                    price.insert(field.to_owned(), json!(amount.to_string()));
                }
            }
            let (client, id) = find::tx(&args.name).await?;
            let stored = client.speed_up(&id, &price).await?;
            Ok(told(&client, &id, &stored, &args.name.remote).await)
        }
        Tx::Approve { decision, yes } => decide::approve(&decision, yes).await,
        Tx::Reject(decision) => decide::reject(&decision).await,
        Tx::Settle(TxSettle { name, ours, hash, .. }) => {
            let (client, id) = find::tx(&name).await?;
            let whose = if ours { "ours" } else { "foreign" };
            Ok(decided(&id, &client.settle(&id, whose, hash.as_deref()).await?, &name.remote))
        }
        Tx::Retry(name) => {
            let (client, id) = find::tx(&name).await?;
            Ok(taken(&client.retry(&id).await?, &name.remote))
        }
    }
}

/// Says that a wish is stored, which is all that is known.
async fn told(client: &Client, id: &str, stored: &CommandAccepted, remote: &Remote) -> ExitCode {
    if remote.json {
        output::json(&json!(stored));
    } else if super::is_older(client).await {
        println!(
            "queued; it waits until the store, which is an older copy of itself, is accepted: `landfall store accept`"
        );
    } else {
        println!("queued; the chain decides whether it was in time (`landfall tx watch {id}`)");
    }
    ExitCode::SUCCESS
}

/// Says that a person's word is stored. It is not the chain that decides.
fn decided(id: &str, stored: &CommandAccepted, remote: &Remote) -> ExitCode {
    if remote.json {
        output::json(&json!(stored));
    } else {
        println!("queued; `landfall tx watch {id}` shows how it goes on");
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
    let mut options = speed(args.speed.as_ref());
    if let Some(price) = &args.max_fee {
        options.insert("maxFeePerGas".to_owned(), json!(price.to_string()));
    }
    let (client, id) = find::tx(&args.name).await?;
    let payload = changed(&client.transaction(&id).await?, &args)?;
    if !args.name.remote.json {
        println!("new content: {}", show::content(&json!(payload)));
    }
    let stored = client.replace(&id, &payload, &options).await?;
    Ok(told(&client, &id, &stored, &args.name.remote).await)
}

/// The newest content of the transaction, with what was said in the place of what it was.
fn changed(tx: &impl serde::Serialize, args: &TxReplace) -> Result<Payload> {
    let tx = json!(tx);
    let contents = tx["contents"].as_array().into_iter().flatten().rev();
    let newest = contents.map(|one| &one["payload"]).find(|payload| payload.is_object());
    let newest = newest.unwrap_or(&tx["payload"]);
    let mut payload: Payload =
        serde_json::from_value(newest.clone()).context("what is to be changed cannot be read")?;
    if args.to.is_some() || args.data.is_some() {
        payload.gas = None;
    }
    payload.to = args.to.clone().or(payload.to);
    payload.value = args.value.map(|value| value.to_string()).or(payload.value);
    payload.data = args.data.clone().or(payload.data);
    payload.gas = args.gas.or(payload.gas);
    Ok(payload)
}

fn payload(value: U256, to: &Option<String>, data: &Option<String>, gas: Option<u64>) -> Payload {
    let (to, data) = (to.clone(), data.clone());
    Payload { to, data, gas, value: Some(value.to_string()), ..Payload::default() }
}

async fn get(name: &TxName, journal: bool) -> Result<ExitCode> {
    let (client, id) = find::tx(name).await?;
    let tx = client.transaction(&id).await?;
    let entries = if journal { Some(client.journal(&id).await?) } else { None };
    if name.remote.json {
        let mut tx = json!(tx);
        if let Some(entries) = entries {
            tx["journal"] = json!(entries);
        }
        output::json(&tx);
        return Ok(ExitCode::SUCCESS);
    }
    show::transaction(&json!(tx), carried_out(&client, &tx).await);
    if let Some(entries) = entries {
        println!("\n{}", show::journal(&entries));
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(args: TxList) -> Result<ExitCode> {
    let TxList { state, signer, chain, hash, cursor, limit, remote } = args;
    let filter = TxFilter { state, signer, chain_id: chain, hash, cursor, limit: Some(limit) };
    let page = json!(Client::of(&remote)?.transactions(&filter).await?);
    if remote.json {
        output::json(&page);
        return Ok(ExitCode::SUCCESS);
    }
    let rows = page["items"].as_array().into_iter().flatten().map(|tx| {
        let mut row = vec![
            text(tx, "txId"),
            shown_state(tx),
            text(tx, "chainId"),
            output::address(&text(tx, "signer")),
            text(tx, "nonce"),
            output::ago(&text(tx, "acceptedAt")),
        ];
        if !output::on_terminal() {
            row.push(text(tx, "receipt.blockNumber"));
        }
        row
    });
    let header = ["txId", "state", "chain", "signer", "nonce", "accepted", "block"];
    let columns = if output::on_terminal() { header.len() - 1 } else { header.len() };
    let mut header = header[..columns].to_vec();
    if output::on_terminal() {
        header[5] = "age";
    }
    println!("{}", output::table(&header, rows.collect()));
    if page["nextCursor"].is_string() {
        println!("more: --cursor {}", text(&page, "nextCursor"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The state, and that a person has to speak first. What has ended keeps why it was held, and waits for nobody.
fn shown_state(tx: &Value) -> String {
    let state = output::state(&text(tx, "state"));
    if tx["held"].is_object() && !show::has_ended(tx) { format!("{state}, held") } else { state }
}

/// The nonce under which something that this store does not know carried it out. Only its journal has it.
async fn carried_out(client: &Client, tx: &Transaction) -> Option<u64> {
    let is_one = tx.state.has_ended() && tx.hash.is_some() && tx.nonce.is_none();
    let entries = if is_one { client.journal(&tx.tx_id).await.ok()? } else { return None };
    show::carried_out(&entries)
}

/// Follows a transaction to its end. The exit code is 0 only if it was confirmed.
async fn watch(client: &Client, id: &str, remote: &Remote) -> Result<ExitCode> {
    let bar = if remote.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut said = String::new();
    loop {
        let tx = client.transaction(id).await?;
        let why = tx.stuck_reason.as_ref().map_or(String::new(), |why| format!(": {why}"));
        let now = format!("{}{why}", tx.state);
        // Where there is no terminal, a line for each change is all that is seen of it.
        if bar.is_hidden() && !remote.json && now != said {
            eprintln!("{now}");
        }
        bar.set_message(now.clone());
        said = now;
        if tx.state.has_ended() {
            bar.finish_and_clear();
            if remote.json {
                output::json(&json!(tx));
            } else {
                show::transaction(&json!(tx), carried_out(client, &tx).await);
            }
            let well = tx.state == State::Confirmed;
            return Ok(if well { ExitCode::SUCCESS } else { Exit::NoSuccess.into() });
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_not_ended_is_listed_as_held() {
        let held = json!({ "code": "may_have_landed", "text": "x" });
        assert_eq!(shown_state(&json!({ "state": "accepted", "held": held })), "accepted, held");
        assert_eq!(shown_state(&json!({ "state": "cancelled", "held": held })), "cancelled");
        assert_eq!(shown_state(&json!({ "state": "accepted" })), "accepted");
    }
}
