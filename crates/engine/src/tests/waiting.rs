//! How much may wait in a lane, in transactions and in bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alloy_primitives::{Address, U256};
use landfall_core::ports::store::{Admission, CommandKind, Reads};
use landfall_core::request::{AccessItem, Authorization, Options, Payload, SignedAuthorization};
use landfall_core::settings::LaneSettings;
use landfall_core::transaction::{Ending, Reason, ReasonCode, Status, Terms, TxState};
use landfall_core::{Account, ChainId, Gas, LaneId, Millis, Origin, RequestId, Slot, Wei};
use tokio::sync::Notify;

use super::{Handled, LANE, LoadFate, TokioClock, parts, submission, until};
use crate::admission::Refused;
use crate::{ChainParts, Engine, SteerError, Submission, SubmitError, Wish};

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

    // Many who are refused at once are told by few answers of the store.
    let before = store.measured.load(Ordering::SeqCst);
    let mut many = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let handle = handle.clone();
        many.spawn(async move { handle.submit(sized(100_000)).await.is_err() });
    }
    assert!(many.join_all().await.into_iter().all(|is_refused| is_refused));
    assert!(handle.submit_all(vec![sized(100_000); 50]).await.iter().all(Result::is_err));
    let asked = store.measured.load(Ordering::SeqCst) - before;
    assert!(asked <= 4, "the store was asked {asked} times for 100 of them");
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
            let asked = (&told.payload, &told.options, &told.request_id, told.origin.as_deref());
            let parts = (asked, told.fingerprint().unwrap(), Status::accepted(Millis(u64::MAX)));
            let stored = serde_json::to_string(&parts).unwrap().len() as u64;
            let bytes = told.stored_bytes();
            assert!((stored..=2 * stored + 1_024).contains(&bytes), "{bytes} told, {stored} stored");
        }
    }
}

/// An engine whose lanes may have so many transactions waiting.
async fn counted(most: u64) -> (Engine, Handled) {
    let clock = TokioClock::new();
    let store = Handled::new(clock.clone());
    let settings = LaneSettings { max_waiting: most, ..LaneSettings::default() };
    let mut parts = parts(&store, clock);
    let chain = parts.chains.remove(&LANE.chain).unwrap();
    parts.chains.insert(LANE.chain, ChainParts { settings, ..chain });
    (Engine::start(parts).await.unwrap(), store)
}

fn keyed(key: &str) -> Submission {
    Submission { request_id: Some(RequestId::parse(key).unwrap()), ..submission() }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_new_takes_no_room_from_others() {
    let (engine, _) = counted(40).await;
    let handle = engine.handle();
    for _ in 0..1_000 {
        handle.submit(keyed("one")).await.unwrap();
    }
    let mut batch = vec![keyed("two")];
    batch.extend(vec![sized_gas(1); 100]);
    for answer in handle.submit_all(batch).await.into_iter().skip(1) {
        assert!(matches!(answer, Err(SubmitError::Refused(Refused::GasTooLow { .. }))), "{answer:?}");
    }
    for n in 2..40 {
        let taken = handle.submit(keyed(&format!("other {n}"))).await;
        assert!(matches!(taken, Ok(Admission::New(_))), "{n}: {taken:?}");
    }
    let refused = handle.submit(keyed("one too many")).await;
    let Err(SubmitError::Refused(Refused::LaneIsFull { waiting: 40, most: 40, .. })) = refused else {
        panic!("{refused:?}");
    };
    engine.stop().await;
}

fn sized_gas(gas: u64) -> Submission {
    let payload = Payload { gas: Some(Gas(gas)), ..submission().payload };
    Submission { payload, ..submission() }
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_has_emptied_meanwhile_takes_in_at_once() {
    let (engine, store) = counted(10).await;
    let handle = engine.handle();
    for round in 0..5 {
        let mut taken = Vec::new();
        for n in 0..10 {
            let answer = handle.submit(submission()).await;
            let Ok(Admission::New(tx)) = answer else { panic!("round {round}, {n}: {answer:?}") };
            taken.push(tx.id);
        }
        assert!(handle.submit(submission()).await.is_err(), "round {round}");
        for tx in taken {
            handle.command(LANE, CommandKind::Cancel { tx }).await.unwrap();
        }
        until("all are cancelled", async || store.memory.waiting(LANE, 1).await.unwrap().is_empty()).await;
    }
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn made_up_signers_leave_nothing_in_memory() {
    let (engine, _) = counted(10).await;
    let handle = engine.handle();
    handle.submit(submission()).await.unwrap();
    for n in 0..100_u8 {
        let signer = Account(Address::repeat_byte(n));
        let lane = LaneId { signer, ..LANE };
        let refused = handle.submit(Submission { lane, ..submission() }).await;
        assert!(matches!(refused, Err(SubmitError::Refused(Refused::UnknownSigner { .. }))), "{refused:?}");
        let lane = LaneId { chain: ChainId(1_000 + u64::from(n)), ..LANE };
        let refused = handle.submit(Submission { lane, ..submission() }).await;
        assert!(matches!(refused, Err(SubmitError::Refused(Refused::UnknownChain(_)))), "{refused:?}");
    }
    assert_eq!(handle.shared().queues.lanes(), 1);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn contents_that_replace_others_count_as_what_waits() {
    const MOST: u64 = 2 << 20;
    let (engine, store) = bounded(MOST).await;
    let handle = engine.handle();
    let mut refused = 0;
    for _ in 0..5 {
        let Ok(Admission::New(tx)) = handle.submit(sized(100)).await else { panic!("there is room") };
        for _ in 0..7 {
            let tx = store.memory.tx(tx.id).await.unwrap().unwrap().tx;
            let payload = sized(50_000).payload;
            match handle.replace(&tx, payload, Terms::default(), &Wish::default()).await {
                Ok(command) => {
                    until("it is applied", async || {
                        let open = store.memory.commands(LANE, u32::MAX).await.unwrap();
                        open.iter().all(|open| open.id != command)
                    })
                    .await;
                }
                Err(SteerError::Submit(SubmitError::Refused(Refused::LaneIsHeavy { .. }))) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
    let waiting = store.waiting_bytes(LANE).await.unwrap();
    assert!((MOST / 2..=MOST).contains(&waiting) && refused > 0, "{waiting} bytes, {refused} refused");
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_who_asks_again_for_a_cancel_that_waits_is_told_the_same() {
    let (engine, store) = counted(10).await;
    let handle = engine.handle();
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waits = LoadFate::Waits { begun: begun.clone(), go_on: go_on.clone() };
    store.fates.lock().unwrap().push(waits);
    let Ok(Admission::New(tx)) = handle.submit(submission()).await else { panic!("there is room") };
    // Its lane hears nothing as long as it is not loaded.
    begun.notified().await;
    let first = handle.cancel(&tx, &Wish::default()).await.unwrap();
    for _ in 0..100 {
        assert_eq!(handle.cancel(&tx, &Wish::default()).await.unwrap(), first);
    }
    assert_eq!(store.memory.commands(LANE, u32::MAX).await.unwrap().len(), 1);
    go_on.notify_one();
    until("it is cancelled", async || {
        store.memory.tx(tx.id).await.unwrap().unwrap().tx.status.state == TxState::Cancelled
    })
    .await;
    let mut ending = tx.clone();
    ending.status.ending = Some(Ending::Cancel(Reason {
        code: ReasonCode::CancelledByCaller,
        text: "a caller asked for it".to_owned(),
    }));
    let first = handle.cancel(&ending, &Wish::default()).await.unwrap();
    let again = handle.cancel(&ending, &Wish::default()).await.unwrap();
    assert_eq!(again, first, "one row, however often it is asked for");
    let other = Wish { key: Some(RequestId::parse("other").unwrap()), by: None };
    assert_eq!(handle.cancel(&ending, &other).await.unwrap(), first, "under whatever key");
    engine.stop().await;
}
