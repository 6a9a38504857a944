//! From a draft to bytes: what the key must sign, the signature, and what is sent.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use alloy_primitives::{Address, Bytes, U256};
use anyhow::{Context as _, Result, bail};
use landfall_chain::evm::EvmCodec;
use landfall_core::attempt::{Call, Draft};
use landfall_core::fees::Fees;
use landfall_core::ports::chain::Codec;
use landfall_core::ports::signer::{Preimage, Signature, Signer};
use landfall_core::{Account, ChainId, ContentVersion, Gas, LaneId, Millis, Price, Slot, TxId, Wei};
use landfall_signer::{LocalSigner, Place, Source};

/// As many as a local key signs in the thread that asks.
pub const BATCH: usize = 16;

/// Drafts of token transfers, with what each step of them needs.
pub struct Bench {
    signer: LocalSigner,
    drafts: Vec<Draft>,
    preimages: Vec<Preimage>,
    signatures: Vec<Signature>,
}

impl Bench {
    pub fn new() -> Result<Self> {
        let source = Source::PrivateKey { from: Place::Env("KEY".to_owned()) };
        let signer = LocalSigner::load_with(&source, None, |_| Some("17".repeat(32)))?;
        let drafts: Vec<_> = (0..BATCH as u64).map(|number| draft(signer.account(), number)).collect();
        let preimages: Vec<_> = drafts.iter().map(|draft| EvmCodec.preimage(draft)).collect();
        let signatures = signed(&signer, preimages.clone())?;
        Ok(Self { signer, drafts, preimages, signatures })
    }

    pub fn preimages(&self) {
        for draft in &self.drafts {
            black_box(EvmCodec.preimage(black_box(draft)));
        }
    }

    pub fn sign(&self) -> Result<()> {
        black_box(signed(&self.signer, self.preimages.clone())?);
        Ok(())
    }

    pub fn seal(&self) {
        for (draft, signature) in self.drafts.iter().zip(&self.signatures) {
            black_box(EvmCodec.seal(black_box(draft), signature));
        }
    }
}

fn signed(signer: &LocalSigner, preimages: Vec<Preimage>) -> Result<Vec<Signature>> {
    let signatures = at_once(signer.sign(preimages)).context(
        "the key signs a small batch somewhere else than where it is asked: make the batch smaller",
    )?;
    signatures.into_iter().map(|signature| signature.map_err(anyhow::Error::from)).collect()
}

/// What a future gives that waits for nothing.
fn at_once<T>(future: impl Future<Output = T>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => bail!("it waits for something"),
    }
}

fn draft(from: Account, number: u64) -> Draft {
    let call = Call {
        from,
        to: Some(Account(Address::repeat_byte(0xbb))),
        value: Wei(U256::from(number)),
        data: Bytes::from_static(&[7; 68]),
        access_list: Vec::new(),
        authorization_list: Vec::new(),
    };
    Draft {
        serial: number,
        lane: LaneId { chain: ChainId(7), signer: from },
        slot: Slot(1_000 + number),
        tx: Some(TxId::new(Millis(1_700_000_000_000), u128::from(number))),
        version: ContentVersion::FIRST,
        no_op: false,
        call,
        gas: Gas(62_400),
        fees: Fees::Dynamic { max_fee: Price::gwei(30), tip: Price::gwei(1) },
    }
}
