//! How much may wait in a lane, in transactions and in bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alloy_primitives::{Address, U256};
use landfall_core::ports::store::{Admission, Reads};
use landfall_core::request::{AccessItem, Authorization, Options, Payload, SignedAuthorization};
use landfall_core::settings::LaneSettings;
use landfall_core::{Account, Millis, Origin, RequestId, Slot, Wei};

use super::{Handled, LANE, TokioClock, parts, submission};
use crate::admission::Refused;
use crate::{ChainParts, Engine, Submission, SubmitError};

/// An engine whose lanes may have so many bytes waiting.
async fn bounded(most: u64) -> (Engine, Handled) {
    let clock = TokioClock::new();
    let store = Handled::new(clock.clone());
    let settings = LaneSettings { max_waiting_bytes: most, ..LaneSettings::default() };
    let mut parts = parts(&store, clock);
    let chain = parts.chains.remove(&LANE.chain).unwrap();
    parts.chains.insert(LANE.chain, ChainParts { settings, ..chain });
    (Engine::start(parts).await.unwrap(), store)
}

fn sized(bytes: usize) -> Submission {
    let payload = Payload { data: vec![0xab; bytes].into(), ..submission().payload };
    Submission { payload, ..submission() }
}

#[tokio::test(start_paused = true)]
async fn no_more_bytes_wait_than_a_lane_may_have_however_few_transactions_they_are() {
    const MOST: u64 = 4 << 20;
    let (engine, store) = bounded(MOST).await;
    let handle = engine.handle();
    let mut taken = 0;
    let refused = loop {
        match handle.submit(sized(100_000)).await {
            Ok(Admission::New(_)) => taken += 1,
            Ok(other) => panic!("not new: {other:?}"),
            Err(refused) => break refused,
        }
        assert!(taken < 100, "as many bytes are taken in as anybody likes");
    };
    // Data is stored as hex.
    assert_eq!(taken, 20);
    let SubmitError::Refused(Refused::LaneIsHeavy { lane: LANE, waiting, most: MOST }) = refused else {
        panic!("{refused}");
    };
    assert!((4_000_000..=MOST).contains(&waiting) && store.waiting_bytes(LANE).await.unwrap() <= MOST);
    let said = refused.to_string();
    assert!(said.contains("max_waiting_bytes is 4194304") && said.contains("Nothing was stored"), "{said}");
    assert!(matches!(handle.submit(sized(1_000)).await, Ok(Admission::New(_))), "a small one fits beside");

    // What was refused is not counted for ever: the store is asked again, and by what it says there is room.
    for _ in 0..50 {
        assert!(handle.submit(sized(100_000)).await.is_err());
    }
    let asked = store.measured.load(Ordering::SeqCst);
    assert!(asked <= 25, "the store was asked {asked} times for 72 of them");
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_far_from_its_bounds_asks_the_store_nothing() {
    let (engine, store) = bounded(1 << 30).await;
    let handle = engine.handle();
    for _ in 0..200 {
        handle.submit(sized(1_000)).await.unwrap();
    }
    assert_eq!(store.measured.load(Ordering::SeqCst), 0);
    engine.stop().await;
}

#[test]
fn what_a_submission_takes_in_the_store_is_told_without_writing_it_down_and_never_too_low() {
    let own = Authorization { chain: Some(LANE.chain), address: LANE.signer, signed: None };
    let (r, s) = (U256::MAX, U256::MAX);
    let signed = Some(SignedAuthorization { count: Slot(u64::MAX), r, s, y_parity: true });
    let others = Authorization { signed, ..own.clone() };
    let item = AccessItem { address: Account(Address::ZERO), storage_keys: vec![U256::MAX.into(); 30] };
    let payloads = [
        submission().payload,
        sized(3).payload,
        sized(100_000).payload,
        Payload { access_list: vec![item; 50], ..sized(10).payload },
        Payload { authorization_list: vec![others; 90], ..sized(10).payload },
        Payload { authorization_list: vec![own; 90], value: Wei(U256::MAX), ..sized(10).payload },
    ];
    let options = [None, Some(format!("{{\"a\":\"{}\"}}", "\\\"".repeat(1_900)))].map(|metadata| Options {
        metadata,
        deadline: Some(Millis(u64::MAX)),
        ..Options::default()
    });
    let name = "n".repeat(100);
    let origin = Origin {
        key: Some("0123456789abcdef".into()),
        name: name.into(),
        address: Some([0xffff_u16; 8].into()),
    };
    for payload in payloads {
        for options in options.clone() {
            let told = Submission {
                request_id: Some(RequestId::parse(&"k".repeat(255)).unwrap()),
                payload: payload.clone(),
                options,
                origin: Some(Arc::new(origin.clone())),
                ..submission()
            };
            let origin = told.origin.as_deref();
            let parts = (&told.payload, &told.options, &told.request_id, origin, told.fingerprint().unwrap());
            let stored = serde_json::to_string(&parts).unwrap().len() as u64;
            let bytes = told.stored_bytes();
            assert!((stored..=2 * stored + 1_024).contains(&bytes), "{bytes} told, {stored} stored");
        }
    }
}
