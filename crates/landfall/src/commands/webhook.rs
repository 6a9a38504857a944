//! `landfall webhook`: where events go, and how that goes.

use std::process::ExitCode;

use anyhow::Result;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::cli::{Webhook, WebhookDeliveries, WebhookName, WebhookWanted};
use crate::client::Client;
use crate::exit::Exit;
use crate::output::{self, Colour, coloured, text};

const HEADER: [&str; 7] = ["id", "url", "health", "cursor", "behind", "waiting", "description"];
const DELIVERIES: [&str; 6] = ["seq", "event", "state", "failures", "due", "last failure"];

pub(crate) async fn run(command: Webhook) -> Result<ExitCode> {
    match command {
        Webhook::Create(args) => {
            let mut body = wanted(&args.wanted);
            body.insert("url".into(), json!(args.receiver));
            if let Some(after) = args.after {
                body.insert("after".into(), json!(after));
            }
            let client = Client::of(&args.remote)?;
            let made: Value = client.post("/api/v1/webhooks", Some(&Value::Object(body))).await?;
            with_secret(&made, args.remote.json);
        }
        Webhook::List { remote } => {
            let all: Value = Client::of(&remote)?.get("/api/v1/webhooks").await?;
            if remote.json {
                output::json(&all);
            } else {
                let rows = all["items"].as_array().into_iter().flatten().map(row).collect();
                println!("{}", output::table(&HEADER, rows));
            }
        }
        Webhook::Show(name) => answer(&name, Method::GET, "", None).await?,
        Webhook::Change(args) => {
            let mut body = wanted(&args.wanted);
            if let Some(url) = &args.to {
                body.insert("url".into(), json!(url));
            }
            answer(&args.webhook, Method::PATCH, "", Some(&Value::Object(body))).await?;
        }
        Webhook::Delete(name) => {
            let gone = ask(&name, Method::DELETE, "", None).await?;
            if name.remote.json {
                output::json(&gone);
            } else {
                println!("deleted");
            }
        }
        Webhook::Rotate(args) => {
            let body = args.overlap.map(|overlap| json!({ "overlapSeconds": overlap }));
            let rotated = ask(&args.webhook, Method::POST, "/rotate", body.as_ref()).await?;
            with_secret(&rotated, args.webhook.remote.json);
        }
        Webhook::Enable(name) => answer(&name, Method::POST, "/enable", None).await?,
        Webhook::Disable(name) => answer(&name, Method::POST, "/disable", None).await?,
        Webhook::Test(name) => return test(&name).await,
        Webhook::Deliveries(args) => deliveries(&args).await?,
        Webhook::Redeliver { webhook, seq } => {
            let row = ask(&webhook, Method::POST, &format!("/deliveries/{seq}/redeliver"), None).await?;
            if webhook.remote.json {
                output::json(&row);
            } else {
                println!("queued: event {seq} ({}) is delivered again", text(&row, "event"));
            }
        }
        Webhook::Replay { webhook, after } => {
            answer(&webhook, Method::POST, "/replay", Some(&json!({ "after": after }))).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What was given on the command line; the rest is left out.
fn wanted(given: &WebhookWanted) -> Map<String, Value> {
    let mut body = Map::new();
    if !given.events.is_empty() {
        body.insert("events".into(), json!(given.events));
    }
    if !given.chains.is_empty() {
        body.insert("chains".into(), json!(given.chains));
    }
    if !given.signers.is_empty() {
        body.insert("signers".into(), json!(given.signers));
    }
    if let Some(description) = &given.description {
        body.insert("description".into(), json!(description));
    }
    body
}

async fn ask(name: &WebhookName, method: Method, then: &str, body: Option<&Value>) -> Result<Value> {
    let path = format!("/api/v1/webhooks/{}{then}", name.id);
    Ok(Client::of(&name.remote)?.ask(method, &path, body).await?)
}

/// Asks, and shows the webhook that comes back.
async fn answer(name: &WebhookName, method: Method, then: &str, body: Option<&Value>) -> Result<()> {
    let webhook = ask(name, method, then, body).await?;
    if name.remote.json {
        output::json(&webhook);
    } else {
        show(&webhook);
    }
    Ok(())
}

fn with_secret(webhook: &Value, json: bool) {
    if json {
        output::json(webhook);
        return;
    }
    show(webhook);
    println!("{:<12} {}", "secret", text(webhook, "secret"));
    println!(
        "\nKeep the secret now: it is not shown again. The receiver checks signatures with it (docs/webhooks.md)."
    );
}

async fn test(name: &WebhookName) -> Result<ExitCode> {
    let result = ask(name, Method::POST, "/test", None).await?;
    let delivered = result["delivered"] == true;
    if name.remote.json {
        output::json(&result);
    } else if delivered {
        println!(
            "delivered: the receiver answered {} after {} ms",
            text(&result, "status"),
            text(&result, "tookMs")
        );
    } else {
        println!("not delivered: {}", text(&result, "failure"));
    }
    Ok(if delivered { ExitCode::SUCCESS } else { Exit::NotDelivered.into() })
}

async fn deliveries(args: &WebhookDeliveries) -> Result<()> {
    let mut query = format!("/deliveries?limit={}", args.limit);
    for (name, value) in [("state", &args.state), ("cursor", &args.cursor)] {
        if let Some(value) = value {
            query.push_str(&format!("&{name}={value}"));
        }
    }
    let page = ask(&args.webhook, Method::GET, &query, None).await?;
    if args.webhook.remote.json {
        output::json(&page);
        return Ok(());
    }
    let fields = ["seq", "event", "state", "failures", "dueAt", "lastFailure"];
    let row = |row: &Value| fields.iter().map(|field| text(row, field)).collect();
    println!(
        "{}",
        output::table(&DELIVERIES, page["items"].as_array().into_iter().flatten().map(row).collect())
    );
    if let Some(next) = page["nextCursor"].as_str() {
        println!("\nmore with --cursor {next}");
    }
    Ok(())
}

fn row(webhook: &Value) -> Vec<String> {
    let fields = ["cursor", "behind", "waiting", "description"];
    let mut row = vec![text(webhook, "id"), text(webhook, "url"), health(webhook)];
    row.extend(fields.iter().map(|field| text(webhook, field)));
    row
}

fn health(webhook: &Value) -> String {
    if webhook["enabled"] == false {
        return coloured("disabled", Colour::Red);
    }
    if webhook["healthy"] == true {
        coloured("healthy", Colour::Green)
    } else {
        coloured("failing", Colour::Red)
    }
}

fn show(webhook: &Value) {
    let line = |name: &str, value: String| println!("{name:<12} {value}");
    let list = |field: &str| {
        let all = webhook[field].as_array().into_iter().flatten();
        let all: Vec<String> = all.map(|one| one.as_str().map_or(one.to_string(), str::to_owned)).collect();
        if all.is_empty() { "all".to_owned() } else { all.join(", ") }
    };
    line("id", text(webhook, "id"));
    line("url", text(webhook, "url"));
    if webhook["description"].as_str().is_some_and(|text| !text.is_empty()) {
        line("description", text(webhook, "description"));
    }
    line("events", list("events"));
    line("chains", list("chains"));
    line("signers", list("signers"));
    line("health", health(webhook));
    if webhook["trouble"].is_string() {
        line("why", text(webhook, "trouble"));
    }
    if webhook["disabledSince"].is_string() {
        line("since", text(webhook, "disabledSince"));
    }
    line("cursor", format!("{} ({} behind)", text(webhook, "cursor"), text(webhook, "behind")));
    line("waiting", text(webhook, "waiting"));
    line("delivered", text(webhook, "deliveredAt"));
    line("node", text(webhook, "node"));
}
