//! Why a transaction is not taken, in geth's words. Callers classify these texts, so every character counts.

use alloy_primitives::U256;

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Reject {
    #[error("already known")]
    AlreadyKnown,
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow { next: u64, nonce: u64 },
    #[error("nonce has max value")]
    NonceMax,
    #[error("replacement transaction underpriced")]
    ReplacementUnderpriced,
    #[error("transaction gas price below minimum: gas tip cap {tip}, minimum needed {minimum}")]
    TipBelowMinimum { tip: u128, minimum: u128 },
    #[error("transaction underpriced")]
    Underpriced,
    #[error("max priority fee per gas higher than max fee per gas")]
    TipAboveFeeCap,
    #[error("tx fee ({fee} ether) exceeds the configured cap ({cap} ether)")]
    NodeFeeCap { fee: String, cap: String },
    #[error("insufficient funds for gas * price + value: {0}")]
    Funds(Box<Shortfall>),
    #[error("intrinsic gas too low: gas {gas}, minimum needed {minimum}")]
    IntrinsicGas { gas: u64, minimum: u64 },
    #[error("insufficient gas for floor data gas cost: gas {gas}, minimum needed {minimum}")]
    FloorGas { gas: u64, minimum: u64 },
    #[error("exceeds block gas limit")]
    BlockGasLimit,
    #[error("transaction gas limit too high (cap: {cap}, tx: {gas})")]
    TxGasCap { cap: u64, gas: u64 },
    #[error("transaction type not supported")]
    UnknownType,
    #[error("transaction type not supported: tx type {0} not supported by this pool")]
    TypeNotPooled(u8),
    #[error("oversized data: transaction size {size}, limit {limit}")]
    Oversized { size: usize, limit: usize },
    #[error("max initcode size exceeded: code size {size}, limit {limit}")]
    InitCode { size: usize, limit: usize },
    #[error("only replay-protected (EIP-155) transactions allowed over RPC")]
    NotReplayProtected,
    #[error("invalid sender: invalid chain id for signer: have {have} want {want}")]
    ChainId { have: u64, want: u64 },
    #[error("invalid sender: invalid transaction v, r, s values")]
    Signature,
    #[error("sender not an eoa")]
    SenderNotEoa,
    #[error("set code tx must have at least one authorization tuple")]
    EmptyAuthorizations,
    #[error("gapped-nonce tx from delegated accounts")]
    DelegatedGap,
    #[error("in-flight transaction limit reached for delegated accounts")]
    DelegatedLimit,
    #[error("typed transaction too short")]
    TooShort,
    #[error("rlp: {0}")]
    Rlp(String),
}

/// What the sender's balance does not reach for.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Shortfall {
    #[error("balance {balance}, tx cost {cost}, overshot {overshot}")]
    Alone { balance: U256, cost: U256, overshot: U256 },
    #[error("balance {balance}, queued cost {queued}, tx cost {cost}, overshot {overshot}")]
    WithQueue { balance: U256, queued: U256, cost: U256, overshot: U256 },
    #[error("balance {balance}, queued cost {queued}, tx bumped {bump}, overshot {overshot}")]
    OnReplace { balance: U256, queued: U256, bump: U256, overshot: U256 },
}
