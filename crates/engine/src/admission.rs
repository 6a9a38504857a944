//! Which submissions are taken in: everything that can be told without the chain, or from what is known of it.

use std::sync::Arc;

use landfall_core::ports::chain::{Chain, EndpointHealth};
use landfall_core::request::{
    AskedFees, AtOnce, Finality, NewTransaction, OnInsufficientFunds, Options, Payload, Request, fingerprint,
};
use landfall_core::settings::{LaneSettings, TxLimits};
use landfall_core::view::{ChainStatus, ChainView, Tag, Tags};
use landfall_core::{Account, ChainId, Fingerprint, Gas, LaneId, Millis, Origin, Price, RequestId, TxId};

use crate::parts::{Parts, PlantedInEngine};

/// What a caller hands over.
#[derive(Debug, Clone)]
pub struct Submission {
    pub lane: LaneId,
    pub request_id: Option<RequestId>,
    pub payload: Payload,
    pub options: Options,
    /// The caller waits for its hash.
    pub at_once: Option<AtOnce>,
    /// Who asks. It is no part of the fingerprint: whoever asks, what is asked for is the same.
    pub origin: Option<Arc<Origin>>,
}

impl Submission {
    /// One number for what is asked. What a waiting caller is told when the account cannot pay comes with the way it asks,
    /// so it makes no other request of it.
    pub(crate) fn fingerprint(&self) -> Result<Fingerprint, Refused> {
        let mut options = self.options.clone();
        if self.at_once.is_some() {
            options.on_insufficient_funds = OnInsufficientFunds::default();
        }
        fingerprint(&self.lane, &self.payload, &options)
            .map_err(|error| Refused::Unwritable(error.to_string()))
    }

    /// About how many bytes it takes in the store, rather too many than too few.
    pub(crate) fn stored_bytes(&self) -> u64 {
        // Who asks, fingerprint, times, options that have no length, and its first status.
        const REST: u64 = 768;
        // Quotes in a text are stored with a backslash.
        let text = |text: Option<&str>| 2 * text.map_or(0, str::len) as u64;
        let texts =
            text(self.options.metadata.as_deref()) + text(self.request_id.as_ref().map(RequestId::as_str));
        REST + texts + self.payload.stored_bytes()
    }
}

/// Why a submission is not taken in. Nothing was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("chain {0} is not configured here")]
    UnknownChain(ChainId),
    #[error("{signer} is not a signer of chain {chain} here")]
    UnknownSigner { chain: ChainId, signer: Account },
    #[error("gas {gas} is above the block gas limit of {limit}: no block could hold it")]
    GasAboveBlockLimit { gas: Gas, limit: Gas },
    #[error("gas {gas} is below {needed}, which this transaction costs before it does anything")]
    GasTooLow { gas: Gas, needed: Gas },
    #[error("maxPriorityFeePerGas {tip} is above maxFeePerGas {cap}")]
    TipAboveCap { tip: Price, cap: Price },
    #[error("the price {asked} is above the ceiling of {ceiling}")]
    PriceAboveCeiling { fees: AskedFees, asked: Price, ceiling: Price },
    #[error(
        "maxFeePerGas {asked} is above the chain's own ceiling of {ceiling}; a transaction can only lower it"
    )]
    CeilingAboveChains { asked: Price, ceiling: Price },
    #[error("the deadline has already passed")]
    DeadlinePassed,
    #[error("without a recipient it creates a contract, and that needs data")]
    NothingToDo,
    #[error("lane {0} is disabled: it takes no new transactions in until an operator resumes it")]
    LaneDisabled(LaneId),
    #[error("there is no transaction {0} here that could be followed")]
    UnknownPredecessor(TxId),
    #[error(
        "lane {0} hands out slots at admission, and a slot cannot wait until another transaction has landed; leave out \
         `after`, or use a signer whose allocation is \"dispatch\""
    )]
    SlotCannotWait(LaneId),
    #[error("the key {:?} belongs to another command of this lane; use a new one for a new command", key.as_str())]
    CommandKeyReused { key: RequestId },
    #[error(
        "{open} commands of lane {lane} wait to be applied, as many as may; look why the lane does not go on, and ask again later. \
         Nothing was stored"
    )]
    LaneHasCommands { lane: LaneId, open: usize },
    #[error(
        "{waiting} transactions of lane {lane} wait, and chain.max_waiting is {most}; look why they do, and hand it in again later, under \
         the same id. Nothing was stored"
    )]
    LaneIsFull { lane: LaneId, waiting: u64, most: u64 },
    #[error(
        "the transactions of lane {lane} that wait have {waiting} bytes, and chain.max_waiting_bytes is {most}; look why they wait, and \
         hand it in again later, under the same id. Nothing was stored"
    )]
    LaneIsHeavy { lane: LaneId, waiting: u64, most: u64 },
    #[error(
        "{open} such commands about transaction {tx} wait to be applied, as many as may; ask again later. Nothing was stored"
    )]
    TxHasCommands { tx: TxId, open: usize },
    #[error("chain {chain} does not take this: {what}")]
    NotTaken { chain: ChainId, what: String },
    #[error("gas {gas} is above {limit}, the most that this chain takes in one transaction")]
    GasAboveCap { gas: Gas, limit: Gas },
    #[error("its data of {bytes} bytes makes it larger than the {limit} bytes that this chain takes")]
    TooLarge { bytes: usize, limit: u64 },
    #[error("authorization {position}: {why}")]
    BadAuthorization { position: usize, why: String },
    #[error(
        "authorization {position} would let the code at {address} act for {signer}, and spend all that account has; \
         this signer's delegate_to does not list that address, so it is not signed. Nothing was stored"
    )]
    DelegationNotListed { position: usize, signer: Account, address: Account },
    #[error(
        "authorization {position} is by {authority}, which is a signer here: its own lane would lose a slot to it; let that \
         account send its authorization itself"
    )]
    AuthorityManaged { position: usize, authority: Account },
    #[error(
        "chain {chain} has no {tag} block: it would stay mined for ever. Leave finality out, which is {own} here, or ask for a \
         number of blocks{other}"
    )]
    FinalityLacking { chain: ChainId, tag: &'static str, own: String, other: &'static str },
    #[error(
        "no endpoint of chain {chain} has said yet whether there is a {tag} block; ask again, or ask for a number of blocks"
    )]
    FinalityUnknown { chain: ChainId, tag: &'static str },
    #[error("the request could not be written down: {0}")]
    Unwritable(String),
}

/// Checks a submission and gives it its id.
pub(crate) fn admit(
    parts: &Parts,
    view: Option<&ChainView>,
    submission: Submission,
    retry_of: Option<TxId>,
    id: TxId,
    now: Millis,
) -> Result<NewTransaction, Refused> {
    let fingerprint = submission.fingerprint();
    let Submission { lane, request_id, payload, options, at_once, origin } = submission;
    check_signer(parts, lane)?;
    if options.after.is_some() && (parts.slots_at_admission.contains(&lane) || at_once.is_some()) {
        return Err(Refused::SlotCannotWait(lane));
    }
    check(parts, lane, view, &payload, options.max_fee_per_gas, options.deadline, now)?;
    let asked = options.finality.filter(|_| parts.timings.planted != Some(PlantedInEngine::AnyFinality));
    if let (Some(asked), Some(chain)) = (asked, parts.chains.get(&lane.chain)) {
        let tags = view.map(|view| view.tags).unwrap_or_default();
        check_finality(lane.chain, asked, &chain.settings, tags)?;
    }
    let fingerprint = fingerprint?;
    let accepted_at = now;
    let request =
        Request { request_id, payload, options, fingerprint, accepted_at, retry_of, at_once, origin };
    Ok(NewTransaction { id, lane, request })
}

/// The lane is one of a signer here.
pub(crate) fn check_signer(parts: &Parts, lane: LaneId) -> Result<(), Refused> {
    if !parts.chains.contains_key(&lane.chain) {
        return Err(Refused::UnknownChain(lane.chain));
    }
    if !parts.signers.contains_key(&lane) {
        return Err(Refused::UnknownSigner { chain: lane.chain, signer: lane.signer });
    }
    Ok(())
}

/// What a content must fulfil, whether it is the first one or replaces another.
pub(crate) fn check(
    parts: &Parts,
    lane: LaneId,
    view: Option<&ChainView>,
    payload: &Payload,
    max_fee: Option<Price>,
    deadline: Option<Millis>,
    now: Millis,
) -> Result<(), Refused> {
    let chain = parts.chains.get(&lane.chain).ok_or(Refused::UnknownChain(lane.chain))?;
    let settings = &chain.settings;
    check_gas(payload, view, &settings.limits)?;
    check_limits(payload, lane.chain, &settings.limits)?;
    check_authorizations(parts, chain.chain.as_ref(), lane, payload)?;
    let ceiling = max_fee.unwrap_or(settings.max_fee);
    if ceiling > settings.max_fee {
        return Err(Refused::CeilingAboveChains { asked: ceiling, ceiling: settings.max_fee });
    }
    check_fees(payload.fees, ceiling)?;
    if payload.to.is_none() && payload.data.as_ref().is_empty() {
        return Err(Refused::NothingToDo);
    }
    let block_time = view.filter(|view| view.status == ChainStatus::Live).and_then(ChainView::time);
    if is_late(deadline, block_time, now) {
        return Err(Refused::DeadlinePassed);
    }
    Ok(())
}

/// What waits for a block that the chain never names stays mined for ever. The chain's own finality is taken on its operator's word.
fn check_finality(
    chain: ChainId,
    asked: Finality,
    settings: &LaneSettings,
    tags: Tags,
) -> Result<(), Refused> {
    let tag = match asked.tag() {
        None => return Ok(()),
        Some(_) if asked == settings.finality => return Ok(()),
        Some(tag) => tag,
    };
    let known = if settings.tags { tags.of(asked) } else { Tag::Lacking };
    match known {
        Tag::Known => Ok(()),
        Tag::Unknown => Err(Refused::FinalityUnknown { chain, tag }),
        Tag::Lacking => {
            let own = match settings.finality {
                Finality::Blocks(blocks) => format!("{blocks} blocks"),
                Finality::Safe => "\"safe\"".to_owned(),
                Finality::Finalized => "\"finalized\"".to_owned(),
            };
            let others = [(Finality::Safe, ", or \"safe\""), (Finality::Finalized, ", or \"finalized\"")];
            let has = |(other, _): &&(Finality, &str)| {
                *other != asked && settings.tags && tags.of(*other) == Tag::Known
            };
            let other = others.iter().find(has).map_or("", |(_, word)| word);
            Err(Refused::FinalityLacking { chain, tag, own, other })
        }
    }
}

/// No block can still be in time. A deadline is judged by block time; only while no block is known, by our clock.
fn is_late(deadline: Option<Millis>, block_time: Option<Millis>, now: Millis) -> bool {
    deadline.is_some_and(|deadline| deadline <= block_time.unwrap_or(now))
}

fn check_gas(payload: &Payload, view: Option<&ChainView>, limits: &TxLimits) -> Result<(), Refused> {
    let Some(gas) = payload.gas else { return Ok(()) };
    let floor = if limits.calldata_floor { floor_gas(payload) } else { Gas(0) };
    let needed = intrinsic_gas(payload).max(floor);
    if gas < needed {
        return Err(Refused::GasTooLow { gas, needed });
    }
    match view.map(|view| view.head.gas_limit) {
        Some(limit) if gas > limit => Err(Refused::GasAboveBlockLimit { gas, limit }),
        Some(_) | None => Ok(()),
    }
}

/// What the chain takes at all, by its type and size.
fn check_limits(payload: &Payload, chain: ChainId, limits: &TxLimits) -> Result<(), Refused> {
    let takes = |kind: u8| limits.types.contains(&kind);
    let what = if !payload.authorization_list.is_empty() && !takes(4) {
        Some("an authorization list (type 4)")
    } else if !payload.access_list.is_empty() && !takes(1) {
        Some("an access list")
    } else {
        match payload.fees {
            AskedFees::Dynamic { .. } if !takes(2) => Some("maxFeePerGas (type 2); use gasPrice"),
            AskedFees::Legacy { .. } if !takes(0) => Some("gasPrice (type 0); use maxFeePerGas"),
            AskedFees::Dynamic { .. } | AskedFees::Legacy { .. } | AskedFees::Market => None,
        }
    };
    if let Some(what) = what {
        return Err(Refused::NotTaken { chain, what: what.to_owned() });
    }
    if let (Some(gas), Some(limit)) = (payload.gas, limits.gas)
        && gas > limit
    {
        return Err(Refused::GasAboveCap { gas, limit });
    }
    // The envelope is more than nothing; what is just below the limit is for the node to say.
    let bytes = payload.data.len();
    match limits.bytes {
        Some(limit) if bytes as u64 >= limit => Err(Refused::TooLarge { bytes, limit }),
        Some(_) | None => Ok(()),
    }
}

/// An authorization by the sender is signed here, when its slot is known, and only to what the operator listed. One by another
/// account that is a signer here would use up a slot of a lane that does not know of it.
fn check_authorizations(
    parts: &Parts,
    chain: &dyn Chain,
    lane: LaneId,
    payload: &Payload,
) -> Result<(), Refused> {
    let bad = |position: usize, why: &str| Refused::BadAuthorization { position, why: why.to_owned() };
    if !payload.authorization_list.is_empty() && payload.to.is_none() {
        return Err(bad(
            0,
            "a transaction with authorizations cannot create a contract; give it a recipient",
        ));
    }
    let mut own = 0;
    for (position, item) in payload.authorization_list.iter().enumerate() {
        if item.chain.is_some_and(|chain| chain != lane.chain) {
            return Err(bad(position, "it is for another chain"));
        }
        if item.signed.is_none() {
            own += 1;
            if own > 1 {
                return Err(bad(position, "the sender can authorize itself once"));
            }
            if !parts.delegates.get(&lane).is_some_and(|listed| listed.contains(&item.address)) {
                let (signer, address) = (lane.signer, item.address);
                return Err(Refused::DelegationNotListed { position, signer, address });
            }
            continue;
        }
        let Some(authority) = chain.codec().authority(item) else {
            return Err(bad(position, "its signature is not valid"));
        };
        if authority == lane.signer {
            let why = "it is by the sender, whose nonce is not known before it is sent: leave out nonce, yParity, r and s, \
                       and Landfall signs it";
            return Err(bad(position, why));
        }
        let managed = parts
            .signers
            .keys()
            .any(|known| known.signer == authority && item.chain.is_none_or(|chain| chain == known.chain));
        if managed {
            return Err(Refused::AuthorityManaged { position, authority });
        }
    }
    Ok(())
}

/// What every EVM chain charges at least: the base cost and a create's. Data costs more, but chains differ there.
fn intrinsic_gas(payload: &Payload) -> Gas {
    if payload.to.is_some() { Gas(21_000) } else { Gas(53_000) }
}

/// What the data costs at least where it has a floor (EIP-7623): 10 for a zero byte, 40 for another.
fn floor_gas(payload: &Payload) -> Gas {
    let data = payload.data.as_ref();
    let zeros = data.iter().filter(|byte| **byte == 0).count() as u64;
    let others = data.len() as u64 - zeros;
    Gas(21_000 + 10 * zeros + 40 * others)
}

pub(crate) fn check_fees(fees: AskedFees, ceiling: Price) -> Result<(), Refused> {
    let (cap, tip) = match fees {
        AskedFees::Market => (None, None),
        AskedFees::Legacy { gas_price } => (gas_price, None),
        AskedFees::Dynamic { max_fee, tip } => (max_fee, tip),
    };
    if let (Some(cap), Some(tip)) = (cap, tip)
        && tip > cap
    {
        return Err(Refused::TipAboveCap { tip, cap });
    }
    match cap.or(tip) {
        Some(asked) if asked > ceiling => Err(Refused::PriceAboveCeiling { fees, asked, ceiling }),
        Some(_) | None => Ok(()),
    }
}

/// An endpoint that can be used, among these.
pub(crate) fn any_usable(endpoints: &[EndpointHealth]) -> bool {
    endpoints.iter().any(|endpoint| endpoint.usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_judged_by_block_time_whatever_our_clock_says() {
        let years = 10 * 365 * 86_400_000;
        let block = Millis(2_000_000_000_000);
        for ours in [block, Millis(block.0 + years), Millis(block.0 - years)] {
            let is_late = |deadline: u64| is_late(Some(Millis(deadline)), Some(block), ours);
            assert!(!is_late(block.0 + 1), "at {ours:?}");
            assert!(is_late(block.0), "at {ours:?}: the next block is later");
            assert!(is_late(block.0 - 1), "at {ours:?}");
        }
        assert!(is_late(Some(block), None, block), "before the first block our clock is all there is");
        assert!(!is_late(None, Some(block), block));
    }

    #[test]
    fn finality_that_the_chain_lacks_is_refused_and_one_that_nobody_knows_of_may_be_asked_for_again() {
        let finalized = Finality::Finalized;
        let (twenty, own) =
            (LaneSettings::default(), LaneSettings { finality: finalized, ..LaneSettings::default() });
        let untagged = LaneSettings { tags: false, ..LaneSettings::default() };
        let of = |safe: Tag, finalized: Tag| Tags { safe, finalized };
        let (known, lacking, unknown) = (Tag::Known, Tag::Lacking, Tag::Unknown);
        let words = |asked: Finality, settings: &LaneSettings, tags: Tags| {
            check_finality(ChainId(7), asked, settings, tags).map_err(|refused| match refused {
                Refused::FinalityLacking { .. } => ("lacking", refused.to_string()),
                Refused::FinalityUnknown { .. } => ("unknown", refused.to_string()),
                other => panic!("{other}"),
            })
        };
        assert_eq!(words(Finality::Blocks(3), &untagged, of(lacking, lacking)), Ok(()));
        assert_eq!(words(finalized, &twenty, of(lacking, known)), Ok(()));
        assert_eq!(words(finalized, &own, of(unknown, unknown)), Ok(()), "as the operator says");
        assert_eq!(words(finalized, &own, of(lacking, lacking)), Ok(()), "as if it were left out");
        let (why, said) = words(finalized, &twenty, of(known, lacking)).unwrap_err();
        assert_eq!(why, "lacking");
        for part in
            ["chain 7 has no finalized block", "which is 20 blocks here", "number of blocks, or \"safe\""]
        {
            assert!(said.contains(part), "{said}");
        }
        let (why, said) = words(Finality::Safe, &own, of(lacking, known)).unwrap_err();
        assert!(why == "lacking" && said.contains("which is \"finalized\" here"), "{said}");
        let (why, said) = words(finalized, &twenty, of(known, unknown)).unwrap_err();
        assert!(why == "unknown" && said.contains("ask again"), "{said}");
        let (why, said) = words(finalized, &untagged, of(known, known)).unwrap_err();
        assert!(why == "lacking" && !said.contains("safe"), "by its configuration: {said}");
    }
}
