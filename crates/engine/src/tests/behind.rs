//! A call whose hash is waited for, behind a queue of which only the front is in memory.

use super::*;

/// Far more than a lane reads of its queue at once.
const QUEUE: usize = 300;

fn named(nonce: u64) -> Submission {
    let call = CallId { api_key: None, nonce: CallerNonce(nonce) };
    Submission { at_once: Some(AtOnce { call: Some(call) }), ..submission() }
}

fn signers() -> BTreeMap<LaneId, Arc<dyn Signer>> {
    let signer: Arc<dyn Signer> = Arc::new(NoKey);
    BTreeMap::from([(LANE, signer)])
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_repeated_after_a_restart_is_read_from_behind_a_long_queue() {
    let clock = TokioClock::new();
    let store = Handled::new(clock.clone());
    let engine = engine_on(&store, clock.clone(), signers()).await;
    let handle = engine.handle();
    let queue = handle.submit_all((0..QUEUE).map(|_| submission()).collect()).await;
    assert!(queue.iter().all(Result::is_ok));
    let Admission::New(first) = handle.admit_at_once(named(7)).await.unwrap().0 else { panic!("not new") };
    let last = submit(&handle).await;
    engine.stop().await;

    tokio::time::sleep(Duration::from_secs(1)).await;
    let engine = engine_on(&store, clock, signers()).await;
    let handle = engine.handle();
    until("the lane runs", async || handle.hold(LANE).await.is_some()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(handle.explain(LANE, first.id).await, None, "it is far behind");
    // Its caller asks for the hash, by the nonce. Nobody is told that: the lane sees it when it reads for another reason.
    let Admission::Replay(known) = handle.admit_at_once(named(7)).await.unwrap().0 else {
        panic!("not the same call")
    };
    assert_eq!(known.id, first.id);
    let asking = handle.clone();
    let asked = tokio::spawn(async move {
        asking.hash_of(&known, None, Duration::from_secs(300), std::future::pending()).await
    });
    tokio::task::yield_now().await;
    submit(&handle).await;
    until("the lane has it in memory", async || handle.explain(LANE, first.id).await.is_some()).await;
    assert_eq!(handle.explain(LANE, last).await, None, "the rest of the queue is not read for that");
    asked.abort();
    engine.stop().await;
}
