//! The store itself: whether it is an older copy, and a person's word that it is to be used all the same.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use landfall_core::ports::store::LaneSummary;
use serde_json::{Value, json};

use super::tx::{Body, taken};
use crate::access::Caller;
use crate::body;
use crate::problem::Problem;
use crate::serve::App;

pub(crate) async fn show(State(app): State<App>, caller: Caller) -> Result<Json<Value>, Problem> {
    let older = app.handle.older().await?;
    let mut shown = json!({ "older": older.is_some() });
    match older {
        Some(why) => shown["why"] = json!(why.sentence()),
        None => {
            let lanes = app.handle.store().lanes().await?;
            let comparing = comparing(&lanes, &caller);
            if comparing > 0 {
                shown["comparing"] = json!(comparing);
            }
        }
    }
    Ok(Json(shown))
}

/// How many lanes of those that a caller may know of still compare what the store had forgotten.
fn comparing(lanes: &[LaneSummary], caller: &Caller) -> usize {
    lanes.iter().filter(|lane| lane.row.older_count.is_some() && caller.sees_lane(lane.lane)).count()
}

pub(crate) async fn accept(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let despite = body::acceptance(body::json_or_nothing(&headers, &taken(body)?)?)?;
    let lanes = app.handle.accept_store(despite, Some(caller.origin())).await?;
    let lanes: Vec<Value> = lanes
        .iter()
        .map(|(lane, command)| {
            json!({ "chainId": lane.chain, "signer": lane.signer.to_string(), "commandId": command })
        })
        .collect();
    Ok((StatusCode::ACCEPTED, Json(json!({ "lanes": lanes }))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use alloy_primitives::Address;
    use landfall_core::ports::store::LaneRow;
    use landfall_core::{Account, ChainId, LaneId, LaneVersion, Slot, Token};

    use super::*;
    use crate::access::Role;

    #[test]
    fn a_key_for_some_lanes_is_told_of_those_that_compare_among_them_and_of_no_others() {
        let signer = |n: u8| Account(Address::repeat_byte(n));
        let lane = |chain: u64, n: u8, older_count: Option<Slot>| LaneSummary {
            lane: LaneId { chain: ChainId(chain), signer: signer(n) },
            token: Token(0),
            version: LaneVersion(0),
            owner: None,
            owned_until: None,
            row: LaneRow { older_count, ..LaneRow::default() },
            waiting: 0,
            bound: 0,
        };
        let compares = Some(Slot(3));
        let lanes = [lane(1, 1, compares), lane(1, 2, compares), lane(2, 1, compares), lane(2, 2, None)];
        let told = |signers: Option<u8>, chains: Option<u64>| {
            let signers = signers.map(|n| BTreeSet::from([signer(n)]));
            let chains = chains.map(|chain| BTreeSet::from([ChainId(chain)]));
            comparing(&lanes, &Caller::with("id".into(), "a key", Role::Viewer, signers, chains))
        };
        assert_eq!(told(None, None), 3);
        assert_eq!((told(Some(1), None), told(Some(2), None), told(Some(3), None)), (2, 1, 0));
        assert_eq!((told(None, Some(2)), told(Some(2), Some(2))), (1, 0));
        assert_eq!(comparing(&lanes, &Caller::nobody()), 0);
    }
}
