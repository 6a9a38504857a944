//! `landfall webhook`.

use clap::{Args, Subcommand};

use super::Remote;

#[derive(Debug, Subcommand)]
pub(crate) enum Webhook {
    /// Deliver events to a URL; prints the secret that signs them, this once.
    #[command(after_help = "Examples:\n  landfall webhook create https://example.com/hook\n  \
        landfall webhook create https://example.com/hook --event tx.confirmed --event tx.failed --chain 1")]
    Create(WebhookCreate),
    /// List all webhooks.
    #[command(after_help = "Example:\n  landfall webhook list")]
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// Show one webhook: how far it is, and why it stands still if it does.
    #[command(after_help = "Example:\n  landfall webhook show wh_…")]
    Show(WebhookName),
    /// Change where events go, or which.
    #[command(after_help = "Example:\n  landfall webhook change wh_… --to https://example.com/other")]
    Change(WebhookChange),
    /// Deliver nothing to it any more, and forget it.
    #[command(after_help = "Example:\n  landfall webhook delete wh_…")]
    Delete(WebhookName),
    /// Make a new secret and print it, this once; the old one signs as well for a while.
    #[command(after_help = "Example:\n  landfall webhook rotate wh_…")]
    Rotate(WebhookRotate),
    /// Go on with a webhook that was disabled, from where it was.
    #[command(after_help = "Example:\n  landfall webhook enable wh_…")]
    Enable(WebhookName),
    /// Deliver nothing for now; events wait.
    #[command(after_help = "Example:\n  landfall webhook disable wh_…")]
    Disable(WebhookName),
    /// Send a made-up event now and say what came of it; the exit code is 5 if it was not delivered.
    #[command(after_help = "Example:\n  landfall webhook test wh_…")]
    Test(WebhookName),
    /// List events that failed, are held back, or were given up.
    #[command(after_help = "Example:\n  landfall webhook deliveries wh_… --state given_up")]
    Deliveries(WebhookDeliveries),
    /// Deliver one event again, by its number.
    #[command(after_help = "Example:\n  landfall webhook redeliver wh_… 1")]
    Redeliver {
        #[command(flatten)]
        webhook: WebhookName,
        /// The number of the event (`seq`).
        seq: u64,
    },
    /// Deliver everything after an event again.
    #[command(after_help = "Example:\n  landfall webhook replay wh_… --after 0")]
    Replay {
        #[command(flatten)]
        webhook: WebhookName,
        /// The number of the last event that is not delivered again; 0: all are.
        #[arg(long)]
        after: u64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WebhookName {
    /// Its id.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookCreate {
    /// Where events are delivered to.
    #[arg(value_name = "RECEIVER")]
    pub(crate) receiver: String,
    #[command(flatten)]
    pub(crate) wanted: WebhookWanted,
    /// Deliver everything after this event, instead of what happens from now on; 0: all.
    #[arg(long)]
    pub(crate) after: Option<u64>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookWanted {
    /// Only these events, such as tx.confirmed; may be given several times.
    #[arg(long = "event", value_name = "NAME")]
    pub(crate) events: Vec<String>,
    /// Only events of these chains.
    #[arg(long = "chain", value_name = "ID")]
    pub(crate) chains: Vec<u64>,
    /// Only events of these signers.
    #[arg(long = "signer", value_name = "ADDRESS")]
    pub(crate) signers: Vec<String>,
    /// What it is for.
    #[arg(long)]
    pub(crate) description: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookChange {
    #[command(flatten)]
    pub(crate) webhook: WebhookName,
    /// Where events are delivered to from now on.
    #[arg(long, value_name = "RECEIVER")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) wanted: WebhookWanted,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookRotate {
    #[command(flatten)]
    pub(crate) webhook: WebhookName,
    /// How long the old secret signs as well; 0 if it is known to others.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) overlap: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookDeliveries {
    #[command(flatten)]
    pub(crate) webhook: WebhookName,
    /// waiting, held or given_up.
    #[arg(long)]
    pub(crate) state: Option<String>,
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
    /// Where the page before ended.
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}
