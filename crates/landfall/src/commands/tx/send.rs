//! `landfall tx send`: which lane is meant, and a requestId that makes it safe to repeat.

use std::process::ExitCode;

use anyhow::{Result, bail};
use landfall_chain::spec::Spec;
use landfall_client::{Error, Lane, Submission};
use landfall_core::ChainId;
use landfall_core::ports::clock::Random as _;
use landfall_devchain::dev_accounts;
use serde_json::json;

use crate::cli::TxSend;
use crate::client::Client;
use crate::exit::NotFound;
use crate::output;
use crate::system::SystemRandom;

pub(super) async fn run(args: TxSend) -> Result<ExitCode> {
    if let Some(short) = args.signer.as_ref().filter(|signer| is_cut_short(signer)) {
        bail!(
            "--signer {short} is not a whole address: addresses are not cut short here. `landfall lane list --json` has them whole"
        );
    }
    let client = Client::of(&args.remote)?;
    let (chain, signer) = match (args.chain, args.signer.clone()) {
        (Some(chain), Some(signer)) => (chain, signer),
        (chain, signer) => fitting_lane(&client, chain, signer).await?,
    };
    let payload = super::payload(args.value, &args.to, &args.data, args.gas);
    let request_id = match &args.request_id {
        Some(given) => given.clone(),
        None => {
            // Told before it goes out: whoever gets no answer needs it.
            let made = format!("cli-{:032x}", SystemRandom.bits());
            eprintln!("requestId {made}");
            made
        }
    };
    let submission = Submission::new(chain, signer, payload)
        .request_id(&request_id)
        .options(super::speed(args.speed.as_ref()));
    let accepted = client.submit(&submission).await.map_err(|error| open_end(error, &submission))?;
    if args.wait {
        return super::watch(&client, &accepted.tx_id, &args.remote).await;
    }
    if args.remote.json {
        let mut shown = json!(accepted);
        shown["requestId"] = json!(request_id);
        output::json(&shown);
        return Ok(ExitCode::SUCCESS);
    }
    Ok(super::taken(&accepted, &args.remote))
}

/// The beginning of an address, or one as tables show it.
fn is_cut_short(signer: &str) -> bool {
    signer.strip_prefix("0x").is_some_and(|digits| digits.chars().count() < 40)
}

/// The one lane that is meant when only part of its name is given.
async fn fitting_lane(client: &Client, chain: Option<u64>, signer: Option<String>) -> Result<(u64, String)> {
    let fits = |lane: &Lane| {
        chain.is_none_or(|chain| lane.chain_id == chain)
            && signer.as_ref().is_none_or(|signer| lane.signer.eq_ignore_ascii_case(signer))
    };
    let fitting: Vec<(u64, String)> =
        client.lanes().await?.into_iter().filter(fits).map(|lane| (lane.chain_id, lane.signer)).collect();
    match fitting.as_slice() {
        [] => Err(NotFound("no lane fits; see `landfall lane list`".to_owned()).into()),
        [one] => Ok(one.clone()),
        several => match usual(several)? {
            Some(usual) => {
                eprintln!(
                    "signer {} (the first of {} on development chain {}; choose with --signer)",
                    usual.1,
                    several.len(),
                    usual.0
                );
                Ok(usual)
            }
            None => bail!("several lanes fit; choose with --chain and --signer:\n{}", candidates(several)),
        },
    }
}

/// The lane that is taken where nothing is at stake: that of the first test account, else of the lowest address. It does not
/// change with what the lanes have done, so that a repeated command means the same transaction.
fn usual(lanes: &[(u64, String)]) -> Result<Option<(u64, String)>> {
    let Some((chain, _)) = lanes.first() else { return Ok(None) };
    if lanes.iter().any(|(other, _)| other != chain) || !Spec::is_development(ChainId(*chain))? {
        return Ok(None);
    }
    let known: Vec<String> = dev_accounts().map(|account| account.address.to_string()).collect();
    let rank = |(_, signer): &&(u64, String)| {
        let place = known.iter().position(|account| account.eq_ignore_ascii_case(signer));
        (place.unwrap_or(known.len()), signer.to_lowercase())
    };
    Ok(lanes.iter().min_by_key(rank).cloned())
}

/// How many lanes an error lists.
const LISTED: usize = 10;

fn candidates(lanes: &[(u64, String)]) -> String {
    let mut lines: Vec<String> = lanes
        .iter()
        .take(LISTED)
        .map(|(chain, signer)| format!("  --chain {chain} --signer {signer}"))
        .collect();
    if lanes.len() > LISTED {
        lines.push(format!("  and {} more: `landfall lane list`", lanes.len() - LISTED));
    }
    lines.join("\n")
}

/// Where nobody knows whether it arrived, says how to repeat it without doing it twice.
fn open_end(error: Error, submission: &Submission) -> anyhow::Error {
    let is_open = match &error {
        Error::Unreachable { source, .. } => !source.is_connect(),
        Error::BrokeOff { .. } => true,
        Error::Problem(problem) => problem.status >= 500,
        _ => false,
    };
    if !is_open {
        return error.into();
    }
    let (chain, signer) = (submission.chain_id, &submission.signer);
    let request_id = submission.request_id.as_deref().unwrap_or_default();
    anyhow::Error::new(error).context(format!(
        "whether it was taken in is not known; repeat the command with --chain {chain} --signer {signer} --request-id \
         {request_id}, and it is sent once"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(chain: u64, signer: &str) -> (u64, String) {
        (chain, signer.to_owned())
    }

    #[test]
    fn an_address_that_is_cut_short_is_told_from_a_whole_one() {
        for short in ["0x70997", "0x7099…79C8", "0x"] {
            assert!(is_cut_short(short), "{short}");
        }
        assert!(!is_cut_short("0x70997970C51812dc3A010C7d01b50e0d17dc79C8"));
    }

    #[test]
    fn a_development_chain_has_a_usual_lane_whatever_the_order_and_others_have_none() {
        let first = dev_accounts().next().unwrap().address.to_string();
        let third = dev_accounts().nth(2).unwrap().address.to_string();
        let stranger = "0x0000000000000000000000000000000000000001";
        let mut lanes = [lane(31_337, stranger), lane(31_337, &third), lane(31_337, &first)];
        assert_eq!(usual(&lanes).unwrap(), Some(lane(31_337, &first)));
        lanes.reverse();
        assert_eq!(usual(&lanes).unwrap(), Some(lane(31_337, &first)));
        assert_eq!(usual(&[lane(1, stranger), lane(1, &first)]).unwrap(), None, "money is at stake");
        assert_eq!(usual(&[lane(31_337, &first), lane(1_337, &first)]).unwrap(), None, "which chain?");
        let listed = candidates(&lanes);
        assert!(listed.contains(&format!("--chain 31337 --signer {first}")), "{listed}");
    }
}
