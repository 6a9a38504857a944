//! What callers send: JSON, read strictly into a submission.

use std::hint::black_box;

use anyhow::{Result, anyhow};
use landfall_server::bench;

/// Bodies of `POST /api/v1/tx`: a token transfer as most callers write it, and one with everything.
pub const SAMPLES: &[&str] = &[
    r#"{"chainId":31337,"signer":"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266","requestId":"order-4711","payload":{"to":"0x70997970c51812dc3a010c7d01b50e0d17dc79c8","data":"0xa9059cbb00000000000000000000000070997970c51812dc3a010c7d01b50e0d17dc79c80000000000000000000000000000000000000000000000000de0b6b3a7640000"}}"#,
    r#"{"chainId":31337,"signer":"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266","requestId":"order-4712","payload":{"to":"0x70997970c51812dc3a010c7d01b50e0d17dc79c8","value":"1000000000000000000","gas":90000},"options":{"speed":"fast","finality":"finalized","metadata":{"order":"4712","shop":"north"}}}"#,
];

/// Reads each of them.
pub fn read() -> Result<()> {
    for text in SAMPLES {
        let read = bench::submission(black_box(text.as_bytes()));
        black_box(read.map_err(|problem| anyhow!("the door refuses {text}: {problem:?}"))?);
    }
    Ok(())
}
