//! What the tests share: a clock, drafts, signed bytes, a real anvil and a scripted endpoint.

pub(crate) mod node;
pub(crate) mod stub;

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256, address};
use landfall_chain::evm::{Config, EvmChain};
use landfall_core::attempt::{Call, Draft, Sealed};
use landfall_core::fees::Fees;
use landfall_core::ports::chain::Chain;
use landfall_core::ports::clock::Clock;
use landfall_core::ports::signer::Signer;
use landfall_core::{Account, ChainId, ContentVersion, Gas, LaneId, Millis, Price, Slot, Wei};
use landfall_signer::{LocalSigner, Place, Source};

/// The first of anvil's public test keys.
const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
pub(crate) const BOB: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
pub(crate) const DEV_CHAIN: ChainId = ChainId(31_337);

/// A clock that stands still: what is measured with it is zero.
struct Still;

impl Clock for Still {
    fn now(&self) -> Millis {
        Millis(1_700_000_000_000)
    }
}

pub(crate) fn signer() -> LocalSigner {
    let source = Source::PrivateKey { from: Place::Env("KEY".into()) };
    LocalSigner::load_with(&source, None, |_| Some(KEY.to_owned())).unwrap()
}

/// A chain on these endpoints, with limits short enough for tests.
pub(crate) fn chain(endpoints: &[String]) -> EvmChain {
    chain_with(endpoints, |_| {})
}

pub(crate) fn chain_with(endpoints: &[String], change: impl FnOnce(&mut Config)) -> EvmChain {
    let mut config = Config::new(DEV_CHAIN, endpoints.to_vec());
    config.poll_interval = Duration::from_millis(20);
    config.request_timeout = Duration::from_secs(5);
    change(&mut config);
    EvmChain::new(config, Arc::new(Still)).unwrap()
}

pub(crate) fn transfer(slot: u64, fees: Fees) -> Draft {
    let from = signer().account();
    Draft {
        serial: slot,
        lane: LaneId { chain: DEV_CHAIN, signer: from },
        slot: Slot(slot),
        tx: None,
        version: ContentVersion::FIRST,
        no_op: false,
        call: Call {
            from,
            to: Some(Account(BOB)),
            value: Wei(U256::from(1_000)),
            data: Bytes::new(),
            access_list: Vec::new(),
            authorization_list: Vec::new(),
        },
        gas: Gas(60_000),
        fees,
    }
}

pub(crate) fn dynamic() -> Fees {
    Fees::Dynamic { max_fee: Price::gwei(10), tip: Price::gwei(1) }
}

pub(crate) async fn seal(chain: &dyn Chain, draft: &Draft) -> Sealed {
    let signer = signer();
    let signatures = signer.sign(vec![chain.codec().preimage(draft)]).await;
    chain.codec().seal(draft, signatures[0].as_ref().unwrap())
}

/// Asks again and again until there is an answer, for at most ten seconds.
pub(crate) async fn until<T, Fut: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> Fut) -> T {
    let waiting = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap_or_else(|_| panic!("no {what}"))
}
