//! `landfall lane`.

use clap::{Args, Subcommand};

use super::Remote;

#[derive(Debug, Subcommand)]
pub(crate) enum Lane {
    /// List all lanes.
    #[command(after_help = "Examples:\n  landfall lane list\n  landfall lane list --json")]
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// Show one lane.
    #[command(
        after_help = "Examples:\n  landfall lane show 31337 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\n  \
        landfall lane show 31337 0xf39F"
    )]
    Show(LaneName),
    /// Stop assigning nonces; signed transactions continue.
    #[command(
        after_help = "Example:\n  landfall lane pause 31337 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    )]
    Pause(LaneName),
    /// Resume a lane; where the chain has used nonces that this store does not know, shows them and asks.
    ///
    /// Another program used them, or a newer copy of this store. If they are other payments, go on. If this store was put back, have all
    /// requests handed in again first: one that waits and is the same payment as one of them then ends as landed, and is not sent.
    /// What stands under "same as" ends so: if it is another payment, hand it in again with a new request id. Where nonces were used
    /// before this store knew the account, or where no endpoint can say what one did, nothing is compared: it asks whether you have looked
    /// at them. Waits up to 10 seconds
    /// for the lane to go on, and fails while it is on hold.
    #[command(
        after_help = "Example:\n  landfall lane resume 31337 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --yes"
    )]
    Resume {
        #[command(flatten)]
        lane: LaneName,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Take no new transactions in; those that are here are finished.
    #[command(
        after_help = "Example:\n  landfall lane disable 31337 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    )]
    Disable(LaneName),
    /// Give up nonces without stored bytes, after a look at the chain.
    #[command(
        after_help = "Example:\n  landfall lane reset 31337 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    )]
    Reset(LaneName),
    /// Cancel everything that has not ended; the chain decides for what is in flight.
    #[command(
        after_help = "Example:\n  landfall lane cancel-all 31337 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --yes"
    )]
    CancelAll {
        #[command(flatten)]
        lane: LaneName,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// End the lease of a node that is dead, which may be quicker than the lease itself; shows whose it is, and asks.
    ///
    /// Everything that node held is free at once, for the nodes that live. Should it live after all, its writes are refused, and it begins
    /// anew. Not for SQLite: there a lock of the process is in the place of leases.
    #[command(
        after_help = "Example:\n  landfall lane break-lease 31337 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --yes"
    )]
    BreakLease {
        #[command(flatten)]
        lane: LaneName,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Fill a nonce range (inclusive) with no-ops.
    #[command(
        after_help = "Example:\n  landfall lane fill 31337 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --from 1 --to 3"
    )]
    Fill(LaneFill),
}

#[derive(Debug, Args)]
pub(crate) struct LaneFill {
    #[command(flatten)]
    pub(crate) lane: LaneName,
    /// The first nonce.
    #[arg(long)]
    pub(crate) from: u64,
    /// The last nonce.
    #[arg(long)]
    pub(crate) to: u64,
}

#[derive(Debug, Args)]
pub(crate) struct LaneName {
    /// The chain's id.
    pub(crate) chain: u64,
    /// The signer's address, or the beginning of it.
    pub(crate) signer: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}
