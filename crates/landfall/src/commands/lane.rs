//! `landfall lane`: seeing and steering lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use alloy_primitives::U256;
use anyhow::{Result, bail};
use landfall_client::CommandAccepted;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{is_older, unknown};
use crate::amount;
use crate::cli::{Lane, LaneName};
use crate::client::Client;
use crate::exit::NotFound;
use crate::output::{self, Colour, coloured, text};

/// How long a command may take to be applied before its caller is told to look later, and how often it is looked.
const APPLIED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The most lanes whose balances are asked for.
const MOST_BALANCES: usize = 200;

pub(crate) async fn run(command: Lane) -> Result<()> {
    match command {
        Lane::List { remote } => {
            let client = Client::of(&remote)?;
            let lanes: Vec<Value> = client.lanes().await?.into_iter().map(|lane| json!(lane)).collect();
            if remote.json {
                output::json(&json!({ "items": lanes, "nextCursor": null }));
            } else {
                println!("{}", table(&lanes, &balances(&client, &lanes).await));
            }
            Ok(())
        }
        Lane::Show(name) => {
            let (client, signer) = find(&name).await?;
            let lane = json!(client.lane(name.chain, &signer).await?);
            if name.remote.json {
                output::json(&lane);
            } else {
                let known = balances(&client, std::slice::from_ref(&lane)).await;
                show(&lane, known.get(&key(&lane)));
            }
            Ok(())
        }
        Lane::Pause(name) => steer(&name, "pause", |lane| lane["paused"] == true).await,
        Lane::Resume { lane, yes } => resume(&lane, yes).await,
        Lane::Disable(name) => steer(&name, "disable", |lane| lane["disabled"] == true).await,
        Lane::Reset(name) => {
            let (client, signer) = find(&name).await?;
            let stored = client.steer_lane(name.chain, &signer, "reset").await?;
            queued(&client, &name, &stored).await;
            Ok(())
        }
        Lane::Fill(fill) => {
            let (client, signer) = find(&fill.lane).await?;
            let stored = client.fill(fill.lane.chain, &signer, fill.from, fill.to).await?;
            queued(&client, &fill.lane, &stored).await;
            Ok(())
        }
        Lane::CancelAll { lane, yes } => cancel_all(&lane, yes).await,
        Lane::BreakLease { lane, yes } => break_lease(&lane, yes).await,
    }
}

/// The server, and the whole address of a signer that may be given by its beginning.
async fn find(name: &LaneName) -> Result<(Client, String)> {
    let client = Client::of(&name.remote)?;
    if name.signer.len() == 42 {
        return Ok((client, name.signer.clone()));
    }
    // As tables show it: the beginning, and maybe the end.
    let (first, last) = name.signer.split_once('…').unwrap_or((&name.signer, ""));
    let (first, last) = (first.to_lowercase(), last.to_lowercase());
    let fits = |signer: &String| {
        let signer = signer.to_lowercase();
        signer.starts_with(&first) && signer.ends_with(&last)
    };
    let of_chain = client.lanes().await?.into_iter().filter(|lane| lane.chain_id == name.chain);
    let fitting: BTreeSet<String> = of_chain.map(|lane| lane.signer).filter(fits).collect();
    let mut fitting = fitting.into_iter();
    match (fitting.next(), fitting.next()) {
        (Some(signer), None) => Ok((client, signer)),
        (None, _) => {
            Err(NotFound(format!("no lane of chain {} has a signer {}", name.chain, name.signer)).into())
        }
        (Some(one), Some(other)) => {
            bail!("{} may be {one} or {other}; give more of the address", name.signer)
        }
    }
}

async fn cancel_all(name: &LaneName, yes: bool) -> Result<()> {
    let (client, signer) = find(name).await?;
    if !yes {
        let lane = client.lane(name.chain, &signer).await?;
        let question = format!(
            "Cancel everything of {signer} on chain {} that has not ended: {} waiting, {} in flight?",
            name.chain, lane.waiting, lane.in_flight
        );
        match output::asks(&question) {
            Some(true) => {}
            Some(false) => bail!("nothing was cancelled"),
            None => bail!("{question} Say --yes: there is nobody to ask"),
        }
    }
    let answer = json!(client.steer_lane(name.chain, &signer, "cancel-all").await?);
    if name.remote.json {
        output::json(&answer);
    } else {
        println!(
            "queued: {} are to be cancelled, {} are in a block already",
            text(&answer, "queued"),
            text(&answer, "tooLate")
        );
    }
    Ok(())
}

/// Whose lease it is, and by when it would end by itself, a person sees first.
async fn break_lease(name: &LaneName, yes: bool) -> Result<()> {
    let (client, signer) = find(name).await?;
    let lane = json!(client.lane(name.chain, &signer).await?);
    let owner = &lane["owner"];
    let Some(session) = owner["session"].as_str() else {
        bail!("nobody holds the lease of {signer} on chain {}; there is nothing to break", name.chain);
    };
    if !owner["until"].is_string() {
        bail!(
            "this store has no leases to break: with SQLite a lock of the process is in their place, and ends with it. If {} hangs, \
             stop it",
            text(owner, "node")
        );
    }
    let node = text(owner, "node");
    if !yes {
        println!("{}", owner_lines(owner));
        let question = format!("End this session? Say yes only if you know that {node} is dead.");
        match output::asks(&question) {
            Some(true) => {}
            Some(false) => bail!("nothing was ended"),
            None => bail!("{question} Say --yes: there is nobody to ask"),
        }
    }
    let broken = client.break_lease(name.chain, &signer, session).await?;
    if name.remote.json {
        output::json(&broken);
    } else {
        let held = match broken["lanes"].as_u64() {
            Some(1) => "1 lane, which is free now".to_owned(),
            _ => format!("{} lanes, which are free now", text(&broken, "lanes")),
        };
        println!("ended: session {session} of {node} held {held}");
    }
    Ok(())
}

/// Whose a lane is.
fn owner_lines(owner: &Value) -> String {
    let line = |name: &str, value: String| format!("{name:<12} {value}");
    let mut lines = vec![
        line("owner", format!("{} (session {})", text(owner, "node"), text(owner, "session"))),
        line("since", text(owner, "since")),
    ];
    if owner["until"].is_string() {
        lines.push(line(
            "lease until",
            format!("{} by the database's clock, unless renewed", text(owner, "until")),
        ));
    }
    lines.join("\n")
}

/// Where nonces were used that the store does not know, or where that cannot be seen, a person is asked first. It fails while the lane
/// stays on hold.
async fn resume(name: &LaneName, yes: bool) -> Result<()> {
    let (client, signer) = find(name).await?;
    // Its word would wait for the acceptance, and then be about nonces that nobody has seen.
    if is_older(&client).await {
        bail!(
            "the store is an older copy of itself, so every lane is on hold: look with `landfall store accept`, which resumes them \
             with --yes. Nothing was resumed"
        );
    }
    let lane = unknown::lane(&client, name.chain, &signer, unknown::soon()).await?;
    let unknown = unknown::of(&lane);
    if !unknown.is_empty() && !name.remote.json {
        println!("{}\n", unknown::table(unknown));
    }
    let not_compared = unknown::not_compared_question(&lane);
    let first = match unknown::not_looked_at(&lane) {
        Some(why_not) => Some(unknown::blind_question(why_not)),
        None => (!unknown.is_empty()).then(|| unknown::question(unknown)),
    };
    for question in first.into_iter().chain(not_compared).filter(|_| !yes) {
        match output::asks(&question) {
            Some(true) => {}
            Some(false) => bail!("nothing was resumed"),
            None => bail!("{question} Say --yes: there is nobody to ask"),
        }
    }
    let stored = client.steer_lane(name.chain, &signer, "resume").await?;
    if name.remote.json {
        output::json(&json!(stored));
    } else {
        eprintln!("waiting up to {} s for the lane to go on", APPLIED_WITHIN.as_secs());
    }
    // A command that was applied is a write of the lane; before that, or while it is loaded, health tells nothing.
    let before = &lane["version"];
    let is_done = |lane: &Value| lane["version"] != *before && is_healthy(lane);
    let (lane, is_done) = look_until(&client, name.chain, &signer, is_done).await?;
    if !is_healthy(&lane) {
        let why = if lane["holdReason"].is_string() { text(&lane, "holdReason") } else { health(&lane) };
        bail!(
            "the lane is still on hold: {why}. The resume is stored; `landfall lane show {} {}` shows how it goes on",
            name.chain,
            name.signer
        );
    }
    match (name.remote.json, is_done) {
        (true, _) => {}
        (false, true) => println!("{}", health(&lane)),
        (false, false) => queued(&client, name, &stored).await,
    }
    Ok(())
}

/// The lane once it is so, or as it is when that takes too long; and which of the two.
async fn look_until(
    client: &Client,
    chain: u64,
    signer: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<(Value, bool)> {
    let deadline = Instant::now() + APPLIED_WITHIN;
    loop {
        let lane = json!(client.lane(chain, signer).await?);
        let is_so = is_so(&lane);
        if is_so || Instant::now() >= deadline {
            return Ok((lane, is_so));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Asks, waits until it is so, and says how the lane is then.
async fn steer(name: &LaneName, verb: &str, is_done: impl Fn(&Value) -> bool) -> Result<()> {
    let (client, signer) = find(name).await?;
    let stored = client.steer_lane(name.chain, &signer, verb).await?;
    if name.remote.json {
        output::json(&json!(stored));
        return Ok(());
    }
    let (lane, is_done) = match is_older(&client).await {
        true => (Value::Null, false),
        false => look_until(&client, name.chain, &signer, is_done).await?,
    };
    if !is_done {
        queued(&client, name, &stored).await;
        return Ok(());
    }
    println!("{}", health(&lane));
    if lane["holdReason"].is_string() {
        println!("{}", text(&lane, "holdReason"));
    }
    Ok(())
}

async fn queued(client: &Client, name: &LaneName, stored: &CommandAccepted) {
    if name.remote.json {
        return output::json(&json!(stored));
    }
    let when = if is_older(client).await {
        "applied when the store, which is an older copy of itself, is accepted: `landfall store accept`"
    } else {
        "applied within a second by the node that owns the lane"
    };
    println!("queued; {when} (`landfall lane show {} {}`)", name.chain, name.signer);
}

/// Wei by chain and lower-case address.
type Balances = BTreeMap<(String, String), U256>;

fn key(lane: &Value) -> (String, String) {
    (text(lane, "chainId"), text(lane, "signer").to_lowercase())
}

/// What the accounts have, as their chains say; what cannot be asked is left out.
async fn balances(client: &Client, lanes: &[Value]) -> Balances {
    let mut known = Balances::new();
    let chains: BTreeSet<String> = lanes.iter().map(|lane| text(lane, "chainId")).collect();
    for chain in chains {
        let asked: Vec<(String, String)> =
            lanes.iter().map(key).filter(|(of, _)| *of == chain).take(MOST_BALANCES).collect();
        let calls: Vec<Value> = asked
            .iter()
            .enumerate()
            .map(|(id, (_, signer))| {
                json!({ "jsonrpc": "2.0", "id": id, "method": "eth_getBalance", "params": [signer, "latest"] })
            })
            .collect();
        let answers: Result<Vec<Value>, _> = client.post(&format!("/rpc/{chain}"), Some(&calls)).await;
        for answer in answers.unwrap_or_default() {
            let id = answer["id"].as_u64().and_then(|id| usize::try_from(id).ok());
            let balance = answer["result"].as_str().and_then(|wei| wei.parse().ok());
            if let (Some(lane), Some(balance)) = (id.and_then(|id| asked.get(id)), balance) {
                known.insert(lane.clone(), balance);
            }
        }
    }
    known
}

/// Short on a terminal, with everything elsewhere.
fn table(lanes: &[Value], balances: &Balances) -> String {
    let brief = output::on_terminal();
    let mut header = vec!["chain", "signer", "nonce", "waiting", "in flight", "balance", "health", "owner"];
    if !brief {
        // Of a list it is the stored one: only a lane that is asked for by itself is looked at.
        header.extend(["since", "stored count", "token"]);
    }
    let row = |lane: &Value| {
        let balance = balances.get(&key(lane)).map_or("-".to_owned(), |wei| shown_balance(*wei, brief));
        let mut row = vec![
            text(lane, "chainId"),
            output::address(&text(lane, "signer")),
            text(lane, "nextNonce"),
            text(lane, "waiting"),
            text(lane, "inFlight"),
            balance,
            health(lane),
            text(lane, "owner.node"),
        ];
        if !brief {
            row.extend([text(lane, "owner.since"), unknown::chain_count(lane), text(lane, "token")]);
        }
        row
    };
    output::table(&header, lanes.iter().map(row).collect())
}

/// To four digits after the point where room is short.
fn shown_balance(wei: U256, brief: bool) -> String {
    let whole = amount::shown(wei);
    let Some((number, unit)) = whole.split_once(' ').filter(|_| brief) else { return whole };
    match number.split_once('.') {
        Some((whole, part)) if part.len() > 4 => format!("{whole}.{} {unit}", &part[..4]),
        _ => whole,
    }
}

fn is_healthy(lane: &Value) -> bool {
    lane["healthy"] == true && lane["paused"] == false && lane["disabled"] == false
}

fn health(lane: &Value) -> String {
    if lane["paused"] == true {
        return coloured("paused", Colour::Yellow);
    }
    if lane["disabled"] == true {
        return coloured("disabled", Colour::Yellow);
    }
    if lane["healthy"] == true {
        coloured("healthy", Colour::Green)
    } else {
        coloured("on hold", Colour::Red)
    }
}

fn show(lane: &Value, balance: Option<&U256>) {
    let line = |name: &str, value: String| println!("{name:<12} {value}");
    line("chain", text(lane, "chainId"));
    line("signer", text(lane, "signer"));
    line("health", health(lane));
    if lane["holdReason"].is_string() {
        line("why", text(lane, "holdReason"));
    }
    line("balance", balance.map_or("-".to_owned(), |wei| amount::shown(*wei)));
    line("next nonce", text(lane, "nextNonce"));
    line("chain count", unknown::chain_count(lane));
    line("waiting", text(lane, "waiting"));
    line("in flight", format!("{} of {}", text(lane, "inFlight"), text(lane, "window")));
    line("free nonces", text(lane, "returned"));
    println!("{}", owner_lines(&lane["owner"]));
    line("token", format!("{} (version {})", text(lane, "token"), text(lane, "version")));
    if !unknown::of(lane).is_empty() {
        println!("\nNonces that the chain has used and this store does not know:");
        println!("{}", unknown::table(unknown::of(lane)));
    }
    if let Some(why) = unknown::not_looked_at(lane) {
        println!(
            "\nNonces that the chain has used and this store does not know were not looked at here: {why}"
        );
    }
}
