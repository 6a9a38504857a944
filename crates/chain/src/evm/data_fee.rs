//! What a rollup charges for a transaction's bytes on its parent chain, on top of gas.
//!
//! The formula changes with forks, so the contract that the chain keeps for it is asked. It gives a bound for a size.
//! That bound never bends downwards, so the straight line between two sizes lies above it for every size between them.

use alloy_primitives::{Address, Bytes, U256, address};
use alloy_sol_types::{SolCall, sol};
use landfall_core::Wei;
use landfall_core::fees::DataFee;
use serde_json::json;

use super::endpoint::Endpoint;
use super::rpc::{Ask, Failure, read_some};
use crate::spec::DataFeeKind;

sol! {
    function getL1FeeUpperBound(uint256 unsignedTxSize) external view returns (uint256);
}

/// The OP stack's `GasPriceOracle`.
const ORACLE: Address = address!("420000000000000000000000000000000000000F");
/// The largest transaction that nodes take.
const LARGEST: u64 = 131_072;

/// The bound as of the head; none where the chain charges no such fee.
pub(super) async fn bound(endpoint: &Endpoint, kind: DataFeeKind) -> Result<Option<DataFee>, Failure> {
    match kind {
        DataFeeKind::None | DataFeeKind::InGas => Ok(None),
        DataFeeKind::OpStack => {
            let answers = endpoint.ask_all(&[ask(0), ask(LARGEST)]).await;
            let fees = answers.into_iter().map(|answer| fee(&read_some::<Bytes>("eth_call", &answer?)?));
            match fees.collect::<Result<Vec<U256>, Failure>>()?.as_slice() {
                [least, most] => Ok(Some(line(*least, *most))),
                _ => Err(Failure::Unreadable("two fees were asked for".to_owned())),
            }
        }
    }
}

fn ask(bytes: u64) -> Ask {
    let call = getL1FeeUpperBoundCall { unsignedTxSize: U256::from(bytes) };
    let data = Bytes::from(call.abi_encode());
    Ask::new("eth_call", json!([{ "to": ORACLE, "data": data }, "latest"]))
}

fn fee(answer: &Bytes) -> Result<U256, Failure> {
    getL1FeeUpperBoundCall::abi_decode_returns(answer)
        .map_err(|error| Failure::Unreadable(format!("the data fee: {error}")))
}

/// The line through the fees of no byte and of the largest transaction, rounded up.
fn line(least: U256, most: U256) -> DataFee {
    let rise = most.saturating_sub(least);
    DataFee { fixed: Wei(least), per_byte: Wei(rise.div_ceil(U256::from(LARGEST))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As the contract computes it since Fjord: a floor, then so much per byte.
        #[test]
        fn the_line_is_never_under_what_the_contract_says(
            floor in 0u128..1 << 90, per_byte in 0u128..1 << 70, begins in 0u64..LARGEST, size in 0u64..LARGEST,
        ) {
            let contract = |size: u64| {
                U256::from(floor) + U256::from(per_byte) * U256::from(size.saturating_sub(begins))
            };
            let bound = line(contract(0), contract(LARGEST));
            prop_assert!(bound.of(usize::try_from(size).unwrap()) >= contract(size));
        }
    }
}
