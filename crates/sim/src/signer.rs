//! Signers: one that always signs, in memory, or one behind a network that may not answer.

use std::sync::Arc;

use alloy_primitives::U256;
use async_trait::async_trait;
use landfall_core::Account;
use landfall_core::ports::signer::{Custody, Error, Preimage, Signature, Signer};

use crate::scenario::Fault;
use crate::world::World;

pub(crate) struct SimSigner {
    pub(crate) world: Arc<World>,
    pub(crate) node: usize,
    pub(crate) account: Account,
}

#[async_trait]
impl Signer for SimSigner {
    fn account(&self) -> Account {
        self.account
    }

    fn custody(&self) -> Custody {
        if self.world.scenario.remote_signers { Custody::Remote } else { Custody::Local }
    }

    async fn sign(&self, requests: Vec<Preimage>) -> Vec<Result<Signature, Error>> {
        if self.custody() == Custody::Remote {
            self.world.pass(self.node).await;
        }
        let sign = |_| {
            if self.world.strikes(Fault::SignerDown) {
                return Err(Error::Unavailable("made to fail".into()));
            }
            Ok(Signature { r: U256::from(1), s: U256::from(1), y_parity: false })
        };
        requests.into_iter().map(sign).collect()
    }
}
