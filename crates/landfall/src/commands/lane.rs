//! `landfall lane`: seeing and steering lanes.

use anyhow::Result;
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
            let lanes = Client::new(&remote.url)?.get("/api/v1/lanes").await?;
            if remote.json {
                output::json(&lanes);
            } else {
                let rows = lanes["items"].as_array().into_iter().flatten().map(row).collect();
                println!("{}", output::table(&HEADER, rows));
            }
            Ok(())
        }
        Lane::Show(name) => {
            let lane = Client::new(&name.remote.url)?.get(&path(&name, "")).await?;
            if name.remote.json {
                output::json(&lane);
            } else {
                show(&lane);
            }
            Ok(())
        }
        Lane::Pause(name) => steer(&name, "/pause", None).await,
        Lane::Resume(name) => steer(&name, "/resume", None).await,
        Lane::Disable(name) => steer(&name, "/disable", None).await,
        Lane::Reset(name) => steer(&name, "/reset", None).await,
        Lane::Fill(fill) => {
            steer(&fill.lane, "/fill", Some(&json!({ "from": fill.from, "to": fill.to }))).await
        }
        Lane::CancelAll(name) => cancel_all(&name).await,
    }
}

fn path(name: &LaneName, then: &str) -> String {
    format!("/api/v1/lanes/{}/{}{then}", name.chain, name.signer)
}

async fn cancel_all(name: &LaneName) -> Result<()> {
    let answer = Client::new(&name.remote.url)?.post(&path(name, "/cancel-all"), None).await?;
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

async fn steer(name: &LaneName, verb: &str, body: Option<&Value>) -> Result<()> {
    let answer = Client::new(&name.remote.url)?.post(&path(name, verb), body).await?;
    if name.remote.json {
        output::json(&answer);
    } else {
        println!("accepted; the lane's owner applies it (command {})", text(&answer, "commandId"));
    }
    Ok(())
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
