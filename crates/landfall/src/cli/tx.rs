//! `landfall tx`.

use alloy_primitives::U256;
use clap::{Args, Subcommand};

use super::Remote;
use crate::amount::wei;

#[derive(Debug, Subcommand)]
pub(crate) enum Tx {
    /// Hand over a transaction.
    #[command(after_help = "Examples:\n  \
        landfall tx send --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --value 1ether --wait\n  \
        landfall tx send --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --data 0xa9059cbb --request-id invoice-17 --speed fast\n\n\
        Without --request-id one is made and printed: repeat the command with it, and it is the same transaction.")]
    Send(TxSend),
    /// Show one transaction.
    #[command(
        after_help = "Examples:\n  landfall tx get invoice-17\n  landfall tx get invoice-17 --journal --json"
    )]
    Get {
        #[command(flatten)]
        name: TxName,
        /// Its time line as well.
        #[arg(long)]
        journal: bool,
    },
    /// List transactions, newest first.
    #[command(after_help = "Examples:\n  landfall tx list\n  landfall tx list --state mined --limit 20")]
    List(TxList),
    /// Follow a transaction until it has ended.
    #[command(after_help = "Example:\n  landfall tx watch invoice-17\n\n\
        The exit code is 0 if it was confirmed, and 3 if it ended otherwise.")]
    Watch(TxName),
    /// Ask for a transaction to be cancelled; the chain decides.
    #[command(after_help = "Example:\n  landfall tx cancel invoice-17")]
    Cancel(TxName),
    /// Replace a pending transaction; the chain decides which version wins.
    ///
    /// Everything that is not said stays as it was.
    #[command(
        after_help = "Example:\n  landfall tx replace invoice-17 --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --value 2ether --max-fee 90gwei"
    )]
    Replace(TxReplace),
    /// Resend now with a higher fee.
    #[command(
        after_help = "Examples:\n  landfall tx speed-up invoice-17\n  landfall tx speed-up invoice-17 --max-fee 90gwei"
    )]
    SpeedUp(TxSpeedUp),
    /// Approve a waiting transaction, or release one that is held.
    ///
    /// Held is one whose predecessor failed, or that may have landed before a restore: approve it if it is another one, reject it if it
    /// is that one. Shows the content that is approved; of one that may have landed it asks, since approving sends it as another payment,
    /// and of one that delegates the signer's code (EIP-7702), since that code can then spend all the signer has.
    #[command(after_help = "Example:\n  landfall tx approve invoice-17")]
    Approve {
        #[command(flatten)]
        decision: TxDecision,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Reject a transaction that waits for approval, or one that is held.
    ///
    /// It ends without being sent. Held is one whose predecessor failed, or that may have landed before a restore: reject it if it is that
    /// one, approve it if it is another one.
    #[command(after_help = "Example:\n  landfall tx reject invoice-17")]
    Reject(TxDecision),
    /// Say whose transaction took its nonce and does the same.
    #[command(
        after_help = "Examples:\n  landfall tx settle invoice-17 --ours\n  landfall tx settle invoice-17 --foreign\n\n\
        For a transaction whose stuckReason asks for it. Look at the hash that it names first: --ours ends it as done, and\n\
        --foreign lets it be sent again with another nonce, or fail, as its onDisplaced says."
    )]
    Settle(TxSettle),
    /// Do a transaction again that ended without success, as a new one.
    #[command(after_help = "Example:\n  landfall tx retry invoice-17")]
    Retry(TxName),
}

#[derive(Debug, Args)]
pub(crate) struct TxName {
    /// Its txId, the hash of one of its attempts, or its requestId.
    #[arg(value_name = "TX")]
    pub(crate) id: String,
    /// The signer, where several have used the same requestId.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) signer: Option<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct TxReplace {
    #[command(flatten)]
    pub(crate) name: TxName,
    /// The new recipient.
    #[arg(long)]
    pub(crate) to: Option<String>,
    /// The new amount in wei, or as 1.5ether, 20gwei.
    #[arg(long, value_parser = wei, value_name = "AMOUNT")]
    pub(crate) value: Option<U256>,
    /// The new call data in hex; 0x for none.
    #[arg(long)]
    pub(crate) data: Option<String>,
    /// The new gas limit. Left out, it stays, and is estimated again where the recipient or the data change.
    #[arg(long)]
    pub(crate) gas: Option<u64>,
    /// slow, normal or fast.
    #[arg(long)]
    pub(crate) speed: Option<String>,
    /// The new ceiling of the price per gas, such as 90gwei.
    #[arg(long, value_parser = wei, value_name = "AMOUNT")]
    pub(crate) max_fee: Option<U256>,
}

#[derive(Debug, Args)]
pub(crate) struct TxSpeedUp {
    #[command(flatten)]
    pub(crate) name: TxName,
    /// What to offer per gas at least, such as 90gwei.
    #[arg(long, value_parser = wei, value_name = "AMOUNT")]
    pub(crate) max_fee: Option<U256>,
    /// The least tip per gas, such as 2gwei.
    #[arg(long, value_parser = wei, value_name = "AMOUNT")]
    pub(crate) tip: Option<U256>,
    /// slow, normal or fast.
    #[arg(long)]
    pub(crate) speed: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TxDecision {
    #[command(flatten)]
    pub(crate) name: TxName,
    /// The version that is meant; if left out, the newest, which is shown.
    #[arg(long)]
    pub(crate) version: Option<u32>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whose").required(true).args(["ours", "foreign"]))]
pub(crate) struct TxSettle {
    #[command(flatten)]
    pub(crate) name: TxName,
    /// It was ours: the transaction is done by it.
    #[arg(long)]
    pub(crate) ours: bool,
    /// It was somebody else's: the transaction is still to be done, or fails, as its onDisplaced says.
    #[arg(long)]
    pub(crate) foreign: bool,
    /// The hash that you looked at: nothing is said of another.
    #[arg(long)]
    pub(crate) hash: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TxSend {
    /// The recipient; leave out to create a contract.
    #[arg(long)]
    pub(crate) to: Option<String>,
    /// The amount in wei, or as 1.5ether, 20gwei.
    #[arg(long, default_value = "0", value_parser = wei, value_name = "AMOUNT")]
    pub(crate) value: U256,
    /// Call data in hex.
    #[arg(long)]
    pub(crate) data: Option<String>,
    /// The gas limit; estimated if left out.
    #[arg(long)]
    pub(crate) gas: Option<u64>,
    /// slow, normal or fast.
    #[arg(long)]
    pub(crate) speed: Option<String>,
    /// The signer's address; may be left out where there is one lane, and on a development chain.
    #[arg(long, alias = "from", value_name = "ADDRESS")]
    pub(crate) signer: Option<String>,
    /// The chain's id; may be left out where there is only one lane.
    #[arg(long)]
    pub(crate) chain: Option<u64>,
    /// An idempotency key: the same one never lands twice. Made and printed if left out.
    #[arg(long)]
    pub(crate) request_id: Option<String>,
    /// Wait until it has ended.
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct TxList {
    /// Only those in this state, such as awaiting_approval, broadcast, mined or confirmed.
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Only those of this signer.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) signer: Option<String>,
    /// Only those on this chain, by its id.
    #[arg(long, value_name = "ID")]
    pub(crate) chain: Option<u64>,
    /// Only the one that has an attempt with this hash.
    #[arg(long)]
    pub(crate) hash: Option<String>,
    /// How many.
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
    /// Where the page before ended.
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}
