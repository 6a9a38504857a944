//! Running transactions on revm: inside a block, where results are kept, and as calls, where they are not.

use std::convert::Infallible;

use alloy_consensus::{Header, Transaction as _, Typed2718};
use alloy_primitives::{Address, B256, Bytes, Log, U256};
use revm::{
    Context, Database, DatabaseCommit, ExecuteCommitEvm, ExecuteEvm, MainBuilder, MainContext, MainnetEvm,
    bytecode::Bytecode,
    context::{BlockEnv, CfgEnv, TxEnv, result::ExecutionResult},
    context_interface::{block::BlobExcessGasAndPrice, either::Either, result::EVMError},
    handler::MainnetContext,
    primitives::{AddressMap, hardfork::SpecId},
    state::{Account, AccountInfo},
};

use crate::{
    block::Block,
    state::{Pruned, State},
    tx::Tx,
};
use std::sync::Arc;

pub(crate) type RunError = EVMError<Infallible>;

/// What a transaction did.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) gas_used: u64,
    pub(crate) logs: Vec<Log>,
    pub(crate) created: Option<Address>,
}

/// The EVM of one block under construction.
pub(crate) struct BlockRunner<'a> {
    evm: MainnetEvm<MainnetContext<HeadDb<'a>>>,
}

impl<'a> BlockRunner<'a> {
    pub(crate) fn new(
        state: &'a mut State,
        blocks: &'a [Arc<Block>],
        header: &Header,
        chain_id: u64,
    ) -> Self {
        let context = Context::mainnet()
            .with_db(HeadDb { state, blocks })
            .with_cfg(config(chain_id))
            .with_block(block_env(header));
        Self { evm: context.build_mainnet() }
    }

    /// Runs and keeps the result. An error means that the transaction cannot be in this block; nothing was changed.
    pub(crate) fn run(&mut self, tx: &Tx) -> Result<Outcome, RunError> {
        let result = self.evm.transact_commit(tx_env(tx))?;
        Ok(Outcome {
            success: result.is_success(),
            gas_used: result.tx_gas_used(),
            created: result.created_address(),
            // What a failed transaction logged before its end did not happen.
            logs: if result.is_success() { result.into_logs() } else { Vec::new() },
        })
    }
}

/// Runs a call on the state after `block` and throws its changes away.
pub(crate) fn call(
    state: &State,
    blocks: &[Arc<Block>],
    header: &Header,
    chain_id: u64,
    tx: TxEnv,
) -> Result<ExecutionResult, EVMError<Pruned>> {
    let mut cfg = config(chain_id);
    cfg.disable_nonce_check = true;
    cfg.disable_eip3607 = true;
    cfg.tx_gas_limit_cap = Some(u64::MAX);
    let mut block = block_env(header);
    if tx.gas_price == 0 {
        // As in geth: a call that names no price is not held to one.
        block.basefee = 0;
    }
    let db = PastDb { state, blocks, block: header.number };
    let mut evm = Context::mainnet().with_db(db).with_cfg(cfg).with_block(block).build_mainnet();
    evm.transact(tx).map(|r| r.result)
}

fn config(chain_id: u64) -> CfgEnv {
    CfgEnv::new_with_spec(SpecId::OSAKA).with_chain_id(chain_id)
}

fn block_env(header: &Header) -> BlockEnv {
    BlockEnv {
        number: U256::from(header.number),
        beneficiary: header.beneficiary,
        timestamp: U256::from(header.timestamp),
        gas_limit: header.gas_limit,
        basefee: header.base_fee_per_gas.unwrap_or_default(),
        difficulty: U256::ZERO,
        prevrandao: Some(header.mix_hash),
        blob_excess_gas_and_price: Some(BlobExcessGasAndPrice { excess_blob_gas: 0, blob_gasprice: 1 }),
        slot_num: header.number,
    }
}

fn tx_env(tx: &Tx) -> TxEnv {
    let body = tx.body();
    TxEnv {
        tx_type: body.ty(),
        caller: tx.sender,
        gas_limit: body.gas_limit(),
        gas_price: body.max_fee_per_gas(),
        kind: body.kind(),
        value: body.value(),
        data: body.input().clone(),
        nonce: body.nonce(),
        chain_id: body.chain_id(),
        access_list: body.access_list().cloned().unwrap_or_default(),
        gas_priority_fee: body.max_priority_fee_per_gas(),
        blob_hashes: Vec::new(),
        max_fee_per_blob_gas: 0,
        authorization_list: body
            .authorization_list()
            .map(|list| list.iter().cloned().map(Either::Left).collect())
            .unwrap_or_default(),
    }
}

/// The newest state, written to as transactions commit.
struct HeadDb<'a> {
    state: &'a mut State,
    blocks: &'a [Arc<Block>],
}

impl Database for HeadDb<'_> {
    type Error = Infallible;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Infallible> {
        Ok(self.state.info(address).cloned())
    }

    fn code_by_hash(&mut self, _: B256) -> Result<Bytecode, Infallible> {
        // Accounts carry their code, so nobody asks by hash.
        Ok(Bytecode::default())
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, Infallible> {
        Ok(self.state.slot(address, slot))
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Infallible> {
        Ok(hash_of(self.blocks, number))
    }
}

impl DatabaseCommit for HeadDb<'_> {
    fn commit(&mut self, changes: AddressMap<Account>) {
        for (address, account) in changes {
            if !account.is_touched() {
                continue;
            }
            // Since EIP-6780 only an account born in the same transaction can vanish, so it left no storage here.
            if account.is_selfdestructed() || account.is_empty() {
                self.state.write_info(address, None);
                continue;
            }
            for (slot, value) in &account.storage {
                if value.is_changed() {
                    self.state.write_slot(address, *slot, value.present_value);
                }
            }
            self.state.write_info(address, Some(account.info));
        }
    }
}

/// The state as it was after a block.
struct PastDb<'a> {
    state: &'a State,
    blocks: &'a [Arc<Block>],
    block: u64,
}

impl revm::database_interface::DBErrorMarker for Pruned {}

impl Database for PastDb<'_> {
    type Error = Pruned;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Pruned> {
        self.state.info_at(self.block, address)
    }

    fn code_by_hash(&mut self, _: B256) -> Result<Bytecode, Pruned> {
        Ok(Bytecode::default())
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, Pruned> {
        self.state.slot_at(self.block, address, slot)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Pruned> {
        Ok(hash_of(self.blocks, number))
    }
}

fn hash_of(blocks: &[Arc<Block>], number: u64) -> B256 {
    blocks.get(number as usize).map_or(B256::ZERO, |b| b.hash)
}

/// The bytes a call gave back, whatever its end.
pub(crate) fn output_of(result: &ExecutionResult) -> Bytes {
    result.output().cloned().unwrap_or_default()
}
