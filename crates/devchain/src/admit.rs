//! Which transactions the pool takes: geth's rules in geth's order, with geth's words for what it refuses.

use std::sync::Arc;

use alloy_consensus::{Transaction as _, Typed2718};
use alloy_primitives::U256;
use revm::{context_interface::cfg::gas::calculate_initial_tx_gas, primitives::hardfork::SpecId};

use crate::{
    chain::Chain,
    reject::{Reject, Shortfall},
    tx::Tx,
};

/// EIP-7825: no transaction may ask for more gas than this.
pub(crate) const TX_GAS_CAP: u64 = 1 << 24;
/// EIP-3860.
const MAX_INIT_CODE: usize = 49_152;
/// A replacement must be this many percent dearer, in both fee fields.
const PRICE_BUMP: u128 = 10;

impl Chain {
    /// Takes a transaction into the pool, or says why not. A gapped one is taken too, as far as the queue reaches.
    pub(crate) fn admit(&mut self, tx: Tx) -> Result<(), Reject> {
        if self.pool.get(&tx.hash).is_some() {
            return Err(Reject::AlreadyKnown);
        }
        self.check_form(&tx)?;
        self.check_state(&tx)?;
        self.check_place(&tx)?;
        let (sender, nonce) = (tx.sender, self.state.nonce(tx.sender));
        self.pool.insert(Arc::new(tx), nonce);
        self.pool.cap_queue(sender, self.config.queue_per_account);
        Ok(())
    }

    /// What can be judged from the transaction alone.
    fn check_form(&self, tx: &Tx) -> Result<(), Reject> {
        let body = tx.body();
        self.check_fee_cap(tx)?;
        match body.chain_id() {
            None => return Err(Reject::NotReplayProtected),
            Some(have) if have != self.config.chain_id => {
                return Err(Reject::ChainId { have, want: self.config.chain_id });
            }
            Some(_) => {}
        }
        if body.is_create() && body.input().len() > MAX_INIT_CODE {
            return Err(Reject::InitCode { size: body.input().len(), limit: MAX_INIT_CODE });
        }
        let gas = body.gas_limit();
        if gas > TX_GAS_CAP {
            return Err(Reject::TxGasCap { cap: TX_GAS_CAP, gas });
        }
        if gas > self.config.gas_limit {
            return Err(Reject::BlockGasLimit);
        }
        if tx.tip_cap() > tx.fee_cap() {
            return Err(Reject::TipAboveFeeCap);
        }
        if tx.nonce() == u64::MAX {
            return Err(Reject::NonceMax);
        }
        let (intrinsic, floor) = intrinsic_gas(tx);
        if gas < intrinsic {
            return Err(Reject::IntrinsicGas { gas, minimum: intrinsic });
        }
        if gas < floor {
            return Err(Reject::FloorGas { gas, minimum: floor });
        }
        if tx.tip_cap() < self.config.min_tip {
            return Err(Reject::TipBelowMinimum { tip: tx.tip_cap(), minimum: self.config.min_tip });
        }
        if body.is_eip7702() && body.authorization_list().is_none_or(<[_]>::is_empty) {
            return Err(Reject::EmptyAuthorizations);
        }
        Ok(())
    }

    /// The node's own cap on what may be paid over RPC.
    fn check_fee_cap(&self, tx: &Tx) -> Result<(), Reject> {
        let Some(cap) = self.config.fee_cap else { return Ok(()) };
        let fee = tx.cost.saturating_sub(tx.body().value());
        if fee > cap {
            return Err(Reject::NodeFeeCap { fee: in_ether(fee), cap: in_ether(cap) });
        }
        Ok(())
    }

    /// What depends on the sender's account.
    fn check_state(&self, tx: &Tx) -> Result<(), Reject> {
        let (nonce, next) = (tx.nonce(), self.state.nonce(tx.sender));
        if nonce < next {
            return Err(Reject::NonceTooLow { next, nonce });
        }
        if !self.config.execute {
            return Ok(());
        }
        self.check_funds(tx)?;
        self.check_delegation(tx, next)
    }

    /// The balance must reach for this transaction together with the executable ones that wait already.
    fn check_funds(&self, tx: &Tx) -> Result<(), Reject> {
        let (balance, cost) = (self.state.balance(tx.sender), tx.cost);
        let short = |shortfall| Err(Reject::Funds(Box::new(shortfall)));
        if balance < cost {
            return short(Shortfall::Alone { balance, cost, overshot: cost - balance });
        }
        let queued = self.pool.ready_cost(tx.sender);
        let replaced = self.pool.at(tx.sender, tx.nonce());
        match replaced.filter(|old| self.pool.is_ready(old.sender, old.nonce())) {
            Some(old) => {
                let bump = cost.saturating_sub(old.cost);
                let need = queued.saturating_add(bump);
                if balance < need {
                    return short(Shortfall::OnReplace { balance, queued, bump, overshot: need - balance });
                }
            }
            None => {
                let need = queued.saturating_add(cost);
                if balance < need {
                    return short(Shortfall::WithQueue { balance, queued, cost, overshot: need - balance });
                }
            }
        }
        Ok(())
    }

    /// An account with delegated code gets one executable transaction; an account with other code gets none.
    fn check_delegation(&self, tx: &Tx, next: u64) -> Result<(), Reject> {
        let code = self.state.info(tx.sender).and_then(|i| i.code.as_ref()).filter(|c| !c.is_empty());
        let Some(code) = code else { return Ok(()) };
        if !code.is_eip7702() {
            return Err(Reject::SenderNotEoa);
        }
        if self.pool.ready(tx.sender) == 0 {
            return if tx.nonce() == next { Ok(()) } else { Err(Reject::DelegatedGap) };
        }
        if self.pool.is_ready(tx.sender, tx.nonce()) { Ok(()) } else { Err(Reject::DelegatedLimit) }
    }

    /// What depends on the other transactions of the pool.
    fn check_place(&mut self, tx: &Tx) -> Result<(), Reject> {
        if let Some(old) = self.pool.at(tx.sender, tx.nonce()) {
            return if outbids(old, tx) { Ok(()) } else { Err(Reject::ReplacementUnderpriced) };
        }
        if self.pool.len() < self.config.pool_limit {
            return Ok(());
        }
        let base_fee = self.next_base_fee();
        let worth = |tx: &Tx| (tx.tip_at(base_fee), tx.fee_cap());
        let cheapest = self.pool.all().min_by_key(|w| (worth(&w.tx), std::cmp::Reverse(w.arrival)));
        match cheapest.map(|w| (worth(&w.tx), w.tx.hash)) {
            Some((price, hash)) if price < worth(tx) => {
                self.pool.remove(&hash);
                Ok(())
            }
            Some(_) | None => Err(Reject::Underpriced),
        }
    }
}

/// True if `new` is dear enough to take `old`'s place.
fn outbids(old: &Tx, new: &Tx) -> bool {
    let enough = |old: u128, new: u128| {
        let threshold = old.saturating_mul(100 + PRICE_BUMP) / 100;
        new > old && new >= threshold
    };
    enough(old.fee_cap(), new.fee_cap()) && enough(old.tip_cap(), new.tip_cap())
}

/// Gas that is gone before the first instruction, and the floor of EIP-7623.
pub(crate) fn intrinsic_gas(tx: &Tx) -> (u64, u64) {
    let body = tx.body();
    let (accounts, slots) = body
        .access_list()
        .map_or((0, 0), |l| (l.len() as u64, l.iter().map(|i| i.storage_keys.len() as u64).sum()));
    let authorizations = body.authorization_list().map_or(0, |l| l.len() as u64);
    debug_assert!(body.ty() != 3, "blobs never get here");
    let gas = calculate_initial_tx_gas(
        SpecId::OSAKA,
        body.input(),
        body.is_create(),
        accounts,
        slots,
        authorizations,
        None,
    );
    (gas.initial_regular_gas, gas.floor_gas)
}

/// Wei as ether with two decimals, as geth prints it.
fn in_ether(wei: U256) -> String {
    let cents = (wei + U256::from(5_000_000_000_000_000u64)) / U256::from(10_000_000_000_000_000u64);
    let (whole, rest) = cents.div_rem(U256::from(100));
    format!("{whole}.{:02}", rest.to::<u64>())
}
