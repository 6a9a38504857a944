//! What nodes answer to sends: texts at the beginning, in the middle and at the end of the table, and one that nobody knows.

use std::hint::black_box;

use anyhow::{Result, bail};
use landfall_chain::evm::bench::Texts;
use landfall_core::outcome::SendOutcome::{self, *};

/// A text of a node, and its class.
pub const SAMPLES: &[(&str, SendOutcome)] = &[
    ("already known", AlreadyKnown),
    ("nonce too low: next nonce 7, tx nonce 5", NonceTooLow),
    ("replacement transaction underpriced: new tx gas fee cap 30 < 33 needed", ReplacementUnderpriced),
    ("transaction underpriced: gas tip cap 0, minimum needed 1", Underpriced),
    ("insufficient funds for gas * price + value: balance 5, tx cost 7, overshot 2", InsufficientFunds),
    ("txpool is full", PoolFull),
    ("the daily quota of this plan is used up, and nobody has seen this text before", Unknown),
];

/// The table, read.
pub struct Bench(Texts);

impl Bench {
    pub fn new() -> Result<Self> {
        Ok(Self(Texts::load()?))
    }

    pub fn classify(&self) -> Result<()> {
        for (text, class) in SAMPLES {
            let found = self.0.class(Some(-32_000), black_box(text));
            if found != *class {
                bail!("`{text}` is taken for {}, and not for {}", found.name(), class.name());
            }
        }
        Ok(())
    }
}
