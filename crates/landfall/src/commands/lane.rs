//! `landfall lane`: seeing and steering lanes.

use anyhow::Result;
use landfall_client::CommandAccepted;
use serde_json::{Value, json};

use crate::cli::{Lane, LaneName};
use crate::client::Client;
use crate::output::{self, Colour, coloured, text};

const HEADER: [&str; 10] = [
    "chain",
    "signer",
    "next nonce",
    "chain count",
    "waiting",
    "in flight",
    "health",
    "owner",
    "since",
    "token",
];

pub(crate) async fn run(command: Lane) -> Result<()> {
    match command {
        Lane::List { remote } => {
            let lanes: Vec<Value> =
                Client::new(&remote.url)?.lanes().await?.into_iter().map(|lane| json!(lane)).collect();
            if remote.json {
                output::json(&json!({ "items": lanes, "nextCursor": null }));
            } else {
                let rows = lanes.iter().map(row).collect();
                println!("{}", output::table(&HEADER, rows));
            }
            Ok(())
        }
        Lane::Show(name) => {
            let lane = json!(Client::new(&name.remote.url)?.lane(name.chain, &name.signer).await?);
            if name.remote.json {
                output::json(&lane);
            } else {
                show(&lane);
            }
            Ok(())
        }
        Lane::Pause(name) => steer(&name, "pause").await,
        Lane::Resume(name) => steer(&name, "resume").await,
        Lane::Disable(name) => steer(&name, "disable").await,
        Lane::Reset(name) => steer(&name, "reset").await,
        Lane::Fill(fill) => {
            let name = &fill.lane;
            let client = Client::new(&name.remote.url)?;
            let stored = client.fill(name.chain, &name.signer, fill.from, fill.to).await?;
            told(name, &stored);
            Ok(())
        }
        Lane::CancelAll(name) => cancel_all(&name).await,
    }
}

async fn cancel_all(name: &LaneName) -> Result<()> {
    let client = Client::new(&name.remote.url)?;
    let answer = json!(client.steer_lane(name.chain, &name.signer, "cancel-all").await?);
    if name.remote.json {
        output::json(&answer);
    } else {
        println!(
            "accepted: {} are to be cancelled, {} are in a block already",
            text(&answer, "queued"),
            text(&answer, "tooLate")
        );
    }
    Ok(())
}

async fn steer(name: &LaneName, verb: &str) -> Result<()> {
    let stored = Client::new(&name.remote.url)?.steer_lane(name.chain, &name.signer, verb).await?;
    told(name, &stored);
    Ok(())
}

fn told(name: &LaneName, stored: &CommandAccepted) {
    if name.remote.json {
        output::json(&json!(stored));
    } else {
        println!("accepted; the lane's owner applies it (command {})", stored.command_id);
    }
}

fn row(lane: &Value) -> Vec<String> {
    let fields = ["chainId", "signer", "nextNonce", "chainCount", "waiting", "inFlight"];
    let mut row: Vec<String> = fields.iter().map(|field| text(lane, field)).collect();
    row.extend([health(lane), text(lane, "owner.node"), text(lane, "owner.since"), text(lane, "token")]);
    row
}

fn health(lane: &Value) -> String {
    if lane["paused"] == true {
        return coloured("paused", Colour::Yellow);
    }
    if lane["disabled"] == true {
        return coloured("disabled", Colour::Yellow);
    }
    if lane["healthy"] == true { coloured("well", Colour::Green) } else { coloured("holds", Colour::Red) }
}

fn show(lane: &Value) {
    let line = |name: &str, value: String| println!("{name:<12} {value}");
    line("chain", text(lane, "chainId"));
    line("signer", text(lane, "signer"));
    line("health", health(lane));
    if lane["holdReason"].is_string() {
        line("why", text(lane, "holdReason"));
    }
    line("next nonce", text(lane, "nextNonce"));
    line("chain count", text(lane, "chainCount"));
    line("waiting", text(lane, "waiting"));
    line("in flight", format!("{} of {}", text(lane, "inFlight"), text(lane, "window")));
    line("returned", text(lane, "returned"));
    line("owner", format!("{} (session {})", text(lane, "owner.node"), text(lane, "owner.session")));
    line("since", text(lane, "owner.since"));
    line("token", format!("{} (version {})", text(lane, "token"), text(lane, "version")));
}
