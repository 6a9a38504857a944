//! What the parts of this machine allow, measured in the same run before the load: signatures of one thread, and
//! fenced commits of the store with the settings that the server has.

use alloy_primitives::{B256, Bytes};
use anyhow::{Context, Result};
use landfall_core::ports::clock::Clock as _;
use landfall_core::ports::signer::{Preimage, Signer as _};
use landfall_devchain::dev_accounts;

use super::rows::{GROUP, Rows};
use crate::commands::dev_keys;
use crate::config::Config;
use crate::node;
use crate::system::{SystemClock, moment};

const SIGNATURES: u64 = 2_000;
/// The best of so many counts: whatever else the machine does meanwhile can only make it less.
const ROUNDS: usize = 10;
/// So many groups at most; a short run measures fewer.
const GROUPS: u64 = 16;

/// Bare recoverable signatures per second of one thread.
pub(super) async fn sign_per_s() -> Result<f64> {
    let account = dev_accounts().next().context("there are no test accounts")?;
    let signer = dev_keys::signer(&account)?;
    let digest = |n: u64| Preimage { bytes: Bytes::new(), digest: B256::left_padding_from(&n.to_be_bytes()) };
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let requests: Vec<Preimage> = (0..SIGNATURES).map(digest).collect();
        let begun = moment();
        let signed = signer.sign(requests).await;
        let took = begun.elapsed().as_secs_f64();
        anyhow::ensure!(signed.iter().all(Result::is_ok), "signing failed");
        best = best.max(SIGNATURES as f64 / took);
    }
    Ok(best)
}

/// Fenced commits of three rows per second, in groups of 1,024, in a store of its own beside the one that is used.
pub(super) async fn store_per_s(url: Option<&str>, count: u64) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let mut config = Config::default();
    config.store.url =
        url.map_or_else(|| format!("sqlite://{}", folder.path().join("limit.db").display()), str::to_owned);
    let now = SystemClock.now();
    config.store.namespace = format!("limit-{}-{}", now.0, std::process::id());
    let store = node::open_store(&config).await?.store;
    let mut rows = Rows::new(store.as_ref(), 31_337, now).await?;
    let per_s = rows.fenced_per_s(count.div_ceil(GROUP).clamp(2, GROUPS)).await?;
    rows.close().await?;
    Ok(per_s)
}
