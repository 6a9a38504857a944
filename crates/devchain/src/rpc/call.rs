//! `eth_call` and `eth_estimateGas`: running something without keeping it.

use alloy_eips::BlockId;
use alloy_primitives::{Address, TxKind, U256};
use alloy_rpc_types_eth::TransactionRequest;
use revm::{
    context::{TxEnv, result::ExecutionResult},
    context_interface::{
        either::Either,
        result::{EVMError, HaltReason, InvalidTransaction},
    },
};
use serde_json::{Value, json};

use super::{Call, RpcError, convert::quantity, view::View};
use crate::{
    admit::TX_GAS_CAP,
    block::Block,
    execute::{self, output_of},
    state::Pruned,
};

const TRANSFER_GAS: u64 = 21_000;

/// A call that is ready to run on the state after one block.
struct Dry<'a> {
    view: View<'a>,
    block: &'a Block,
    tx: TxEnv,
}

pub(crate) fn call(call: &Call<'_>) -> Result<Value, RpcError> {
    let chain = call.control.chain();
    let dry = Dry::new(View::new(&chain, call), call)?;
    match dry.run(dry.tx.gas_limit)? {
        result @ ExecutionResult::Success { .. } => Ok(json!(output_of(&result))),
        ExecutionResult::Revert { output, .. } => Err(RpcError::reverted(output)),
        ExecutionResult::Halt { reason, .. } => Err(RpcError::server(halt_text(&reason))),
    }
}

pub(crate) fn estimate(call: &Call<'_>) -> Result<Value, RpcError> {
    let chain = call.control.chain();
    let mut dry = Dry::new(View::new(&chain, call), call)?;
    dry.tx.gas_limit = dry.affordable_gas(dry.tx.gas_limit.min(TX_GAS_CAP))?;
    if dry.is_plain_transfer()? && dry.succeeds(TRANSFER_GAS) {
        return Ok(quantity(TRANSFER_GAS));
    }
    let mut high = dry.tx.gas_limit;
    let used = match dry.run(high)? {
        ExecutionResult::Success { gas, .. } => gas.total_gas_spent().max(gas.tx_gas_used()),
        ExecutionResult::Revert { output, .. } => return Err(RpcError::reverted(output)),
        ExecutionResult::Halt { reason: HaltReason::OutOfGas(_), .. } => {
            return Err(RpcError::server(format!("gas required exceeds allowance ({high})")));
        }
        ExecutionResult::Halt { reason, .. } => return Err(RpcError::server(halt_text(&reason))),
    };
    // What was used is often enough, and nearly always with the share that calls hold back.
    let mut low = used.saturating_sub(1);
    let guess = (used + 2_300).saturating_mul(64) / 63;
    if guess < high && dry.succeeds(guess) {
        high = guess;
    }
    // geth stops at 1.5 % too.
    while low + 1 < high && (high - low) as f64 / high as f64 > 0.015 {
        let middle = (low + (high - low) / 2).min(low.saturating_mul(2).max(TRANSFER_GAS));
        if dry.succeeds(middle) { high = middle } else { low = middle }
    }
    Ok(quantity(high))
}

impl<'a> Dry<'a> {
    fn new(view: View<'a>, call: &Call<'_>) -> Result<Self, RpcError> {
        let request = call.params.get::<TransactionRequest>(0)?;
        let id = call.params.optional::<BlockId>(1)?.unwrap_or(BlockId::latest());
        if call.params.optional::<Value>(2)?.is_some() {
            return Err(RpcError::params("state overrides are not supported"));
        }
        let block = view.require(id)?;
        let limit = block.header.gas_limit;
        let tx = tx_env(request, limit)?;
        Ok(Self { view, block, tx })
    }

    fn run(&self, gas: u64) -> Result<ExecutionResult, RpcError> {
        let chain = self.view.chain;
        let tx = TxEnv { gas_limit: gas, ..self.tx.clone() };
        let header = &self.block.header;
        execute::call(&chain.state, &chain.blocks, header, chain.config.chain_id, tx)
            .map_err(|error| self.explain(error))
    }

    fn succeeds(&self, gas: u64) -> bool {
        self.run(gas).is_ok_and(|r| r.is_success())
    }

    fn is_plain_transfer(&self) -> Result<bool, RpcError> {
        let TxKind::Call(to) = self.tx.kind else { return Ok(false) };
        let plain = self.tx.data.is_empty() && self.tx.authorization_list.is_empty();
        Ok(plain && self.view.account(self.block.header.number, to)?.is_empty_code_hash())
    }

    /// No more gas than the sender can pay for at the price it names.
    fn affordable_gas(&self, gas: u64) -> Result<u64, RpcError> {
        if self.tx.gas_price == 0 {
            return Ok(gas);
        }
        let balance = self.view.account(self.block.header.number, self.tx.caller)?.balance;
        let rest = balance
            .checked_sub(self.tx.value)
            .ok_or_else(|| RpcError::server("insufficient funds for transfer"))?;
        let allowance = rest / U256::from(self.tx.gas_price);
        Ok(u64::try_from(allowance).unwrap_or(u64::MAX).min(gas))
    }

    fn explain(&self, error: EVMError<Pruned>) -> RpcError {
        let from = self.tx.caller;
        let invalid = match error {
            EVMError::Database(pruned) => return pruned.into(),
            EVMError::Transaction(invalid) => invalid,
            other => return RpcError::server(other.to_string()),
        };
        RpcError::server(match invalid {
            InvalidTransaction::LackOfFundForMaxFee { fee, balance } => format!(
                "insufficient funds for gas * price + value: address {from} have {balance} want {fee}"
            ),
            InvalidTransaction::GasPriceLessThanBasefee => format!(
                "max fee per gas less than block base fee: address {from}, maxFeePerGas: {}, baseFee: {}",
                self.tx.gas_price,
                self.block.base_fee()
            ),
            InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
                format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}")
            }
            other => other.to_string(),
        })
    }
}

fn tx_env(request: TransactionRequest, block_gas: u64) -> Result<TxEnv, RpcError> {
    let authorizations = request.authorization_list.unwrap_or_default();
    let dynamic = request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some();
    if dynamic && request.gas_price.is_some() {
        return Err(RpcError::server("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified"));
    }
    let tx_type = match (authorizations.is_empty(), dynamic, request.access_list.is_some()) {
        (false, _, _) => 4,
        (true, true, _) => 2,
        (true, false, true) => 1,
        (true, false, false) => 0,
    };
    let tip = request.max_priority_fee_per_gas.unwrap_or_default();
    Ok(TxEnv {
        tx_type,
        caller: request.from.unwrap_or(Address::ZERO),
        gas_limit: request.gas.unwrap_or(block_gas).min(block_gas),
        gas_price: request.gas_price.or(request.max_fee_per_gas).unwrap_or_default(),
        kind: request.to.unwrap_or(TxKind::Create),
        value: request.value.unwrap_or_default(),
        data: request.input.into_input().unwrap_or_default(),
        nonce: request.nonce.unwrap_or_default(),
        chain_id: None,
        access_list: request.access_list.unwrap_or_default(),
        gas_priority_fee: (tx_type == 2 || tx_type == 4).then_some(tip),
        blob_hashes: Vec::new(),
        max_fee_per_blob_gas: 0,
        authorization_list: authorizations.into_iter().map(Either::Left).collect(),
    })
}

fn halt_text(reason: &HaltReason) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".to_owned(),
        HaltReason::OpcodeNotFound | HaltReason::InvalidFEOpcode => "invalid opcode".to_owned(),
        HaltReason::InvalidJump => "invalid jump destination".to_owned(),
        HaltReason::StackUnderflow => "stack underflow".to_owned(),
        HaltReason::StackOverflow => "stack limit reached".to_owned(),
        HaltReason::CreateCollision => "contract address collision".to_owned(),
        HaltReason::CreateContractSizeLimit => "max code size exceeded".to_owned(),
        other => format!("{other:?}"),
    }
}
