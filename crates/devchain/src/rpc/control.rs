//! `devchain_*`: the control handle for a chain in another process. Names and meanings follow `Control`.

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use serde_json::{Value, json};

use super::{Call, RpcError, read::to_value};
use crate::{
    faults::{Rule, RuleId},
    reorg::Removed,
};

pub(crate) fn control(name: &str, call: &Call<'_>) -> Result<Value, RpcError> {
    let (control, params) = (call.control, &call.params);
    match name {
        "mine" => Ok(json!(control.mine(params.optional::<u64>(0)?.unwrap_or(1)))),
        "stopMining" => done(control.stop_mining()),
        "resumeMining" => done(control.resume_mining()),
        "setNextBaseFee" => done(control.set_next_base_fee(params.get::<U64>(0)?.to())),
        "holdBaseFee" => done(control.hold_base_fee(params.optional::<U64>(0)?.map(|w| w.to()))),
        "evict" => Ok(json!(control.evict(params.get::<B256>(0)?))),
        "evictAll" => Ok(json!(control.evict_all())),
        "evictRandom" => to_value(&control.evict_random(params.get::<usize>(0)?)),
        "reorg" => {
            let (depth, removed) = (params.get::<u64>(0)?, params.get::<Removed>(1)?);
            let head = control.reorg(depth, removed).map_err(|e| RpcError::server(e.to_string()))?;
            Ok(json!(head))
        }
        "setBalance" => done(control.set_balance(params.get::<Address>(0)?, params.get::<U256>(1)?)),
        "setCode" => done(control.set_code(params.get::<Address>(0)?, params.get::<Bytes>(1)?)),
        "addFault" => to_value(&control.add_fault(params.get::<Rule>(0)?)),
        "removeFault" => Ok(json!(control.remove_fault(params.get::<RuleId>(0)?))),
        "clearFaults" => done(control.clear_faults()),
        "faults" => to_value(&control.fault_rules()),
        "faultCounts" => to_value(&control.fault_counts()),
        "landed" => {
            let from = params.optional::<u64>(0)?.unwrap_or_default();
            let blocks = params.optional::<u64>(1)?.unwrap_or(u64::MAX);
            let wanted = |l: &crate::Landed| l.block - from < blocks;
            to_value(&control.landed(from).take_while(wanted).collect::<Vec<_>>())
        }
        "stats" => to_value(&control.stats()),
        _ => Err(RpcError::no_method(&format!("devchain_{name}"))),
    }
}

fn done(_: ()) -> Result<Value, RpcError> {
    Ok(Value::Bool(true))
}
