//! `devchain_*`: the control handle for a chain in another process. Names and meanings follow `Control`.

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use serde_json::{Value, json};

use super::{Call, RpcError, read::to_value};
use crate::{
    audit::Landed,
    faults::{Rule, RuleId},
    reorg::Removed,
};

pub(crate) fn control(name: &str, call: &Call<'_>) -> Result<Value, RpcError> {
    match steer(name, call)? {
        Some(()) => Ok(Value::Bool(true)),
        None => ask(name, call),
    }
}

/// What is told and has no answer; nothing if the name is none of these.
fn steer(name: &str, call: &Call<'_>) -> Result<Option<()>, RpcError> {
    let (control, params) = (call.control, &call.params);
    match name {
        "stopMining" => control.stop_mining(),
        "resumeMining" => control.resume_mining(),
        "setNextBaseFee" => control.set_next_base_fee(params.get::<U64>(0)?.to()),
        "holdBaseFee" => control.hold_base_fee(params.optional::<U64>(0)?.map(|wei| wei.to())),
        "setBalance" => control.set_balance(params.get::<Address>(0)?, params.get::<U256>(1)?),
        "setCode" => control.set_code(params.get::<Address>(0)?, params.get::<Bytes>(1)?),
        "clearFaults" => control.clear_faults(),
        _ => return Ok(None),
    }
    Ok(Some(()))
}

fn ask(name: &str, call: &Call<'_>) -> Result<Value, RpcError> {
    let (control, params) = (call.control, &call.params);
    match name {
        "mine" => Ok(json!(control.mine(params.optional::<u64>(0)?.unwrap_or(1)))),
        "evict" => Ok(json!(control.evict(params.get::<B256>(0)?))),
        "evictAll" => Ok(json!(control.evict_all())),
        "evictRandom" => to_value(&control.evict_random(params.get::<usize>(0)?)),
        "reorg" => {
            let (depth, removed) = (params.get::<u64>(0)?, params.get::<Removed>(1)?);
            let head = control.reorg(depth, removed).map_err(|e| RpcError::server(e.to_string()))?;
            Ok(json!(head))
        }
        "addFault" => to_value(&control.add_fault(params.get::<Rule>(0)?)),
        "removeFault" => Ok(json!(control.remove_fault(params.get::<RuleId>(0)?))),
        "faults" => to_value(&control.fault_rules()),
        "faultCounts" => to_value(&control.fault_counts()),
        "landed" => {
            let from = params.optional::<u64>(0)?.unwrap_or_default();
            let blocks = params.optional::<u64>(1)?.unwrap_or(u64::MAX);
            let wanted = |landed: &Landed| landed.block - from < blocks;
            to_value(&control.landed(from).take_while(wanted).collect::<Vec<_>>())
        }
        "traffic" => to_value(&control.asked()),
        "stats" => to_value(&control.stats()),
        _ => Err(RpcError::no_method(&format!("devchain_{name}"))),
    }
}
