//! `eth_getLogs`.

use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_rpc_types_eth::{Filter, FilterBlockOption};
use serde_json::Value;

use super::{Call, RpcError, convert, read::to_value, view::View};

pub(crate) fn logs(call: &Call<'_>) -> Result<Value, RpcError> {
    let filter = call.params.get::<Filter>(0)?;
    let chain = call.control.chain();
    let view = View::new(&chain, call);
    let (from, to) = match filter.block_option {
        FilterBlockOption::AtBlockHash(hash) => {
            let block = view.find(BlockId::hash(hash)).ok_or_else(|| RpcError::server("unknown block"))?;
            (block.header.number, block.header.number)
        }
        FilterBlockOption::Range { from_block, to_block } => {
            let number = |tag: Option<BlockNumberOrTag>| view.number_of_tag(tag.unwrap_or_default());
            (number(from_block), number(to_block).min(view.head))
        }
    };
    let mut found = Vec::new();
    for block in (from..=to).filter_map(|number| view.block(number)) {
        for (index, mined) in block.txs.iter().enumerate() {
            let logs = convert::logs(block, index, mined);
            found.extend(logs.into_iter().filter(|log| filter.matches(&log.inner)));
        }
    }
    to_value(&found)
}
