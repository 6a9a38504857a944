//! A machine whose clock is set while the engine runs: nothing waits for a time that was given by the old clock.

use super::*;

const HOUR: i64 = 3_600_000;
const YEARS: i64 = 10 * 365 * 24 * HOUR;
pub(super) const STEPS: [i64; 6] = [-HOUR, HOUR, -24 * HOUR, 24 * HOUR, -YEARS, YEARS];

async fn cancelled(store: &Handled, tx: TxId) {
    until("it is cancelled", async || {
        store.memory.tx(tx).await.unwrap().unwrap().tx.status.state.is_terminal()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_comes_in_time_whatever_the_clock_does_meanwhile() {
    for step in STEPS {
        let clock = TokioClock::new();
        let (engine, store) = engine_at(clock.clone()).await;
        let handle = engine.handle();
        let tx = submit(&handle).await;
        until("it runs", async || handle.explain(LANE, tx).await.is_some()).await;
        store.unreadable.store(true, Ordering::SeqCst);
        handle.command(LANE, CommandKind::Cancel { tx }).await.unwrap();
        let asked = store.asked_for_queue.load(Ordering::SeqCst);
        until("it was tried", async || store.asked_for_queue.load(Ordering::SeqCst) > asked + 2).await;
        clock.set(step);
        store.unreadable.store(false, Ordering::SeqCst);
        let begun = Instant::now();
        cancelled(&store, tx).await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(2), "after a step of {step} ms it took {took:?}");
        engine.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lane_without_work_is_given_back_in_time_whatever_the_clock_does_meanwhile() {
    for step in STEPS {
        let clock = TokioClock::new();
        let (engine, store) = engine_at(clock.clone()).await;
        let handle = engine.handle();
        let tx = submit(&handle).await;
        handle.command(LANE, CommandKind::Cancel { tx }).await.unwrap();
        cancelled(&store, tx).await;
        // It rests.
        tokio::time::sleep(Duration::from_secs(5)).await;
        clock.set(step);
        let owned = async || store.memory.lane(LANE).await.unwrap().unwrap().owner.is_some();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(owned().await, "after a step of {step} ms it keeps its lease for as long as it may");
        tokio::time::sleep(Timings::default().idle).await;
        assert!(!owned().await, "after a step of {step} ms it keeps its lease no longer");
        engine.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_after_a_step_has_the_new_time() {
    for step in STEPS {
        let clock = TokioClock::new();
        let (engine, store) = engine_at(clock.clone()).await;
        let handle = engine.handle();
        let tx = submit(&handle).await;
        until("it runs", async || handle.explain(LANE, tx).await.is_some()).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        clock.set(step);
        tokio::time::sleep(Duration::from_secs(15)).await;
        handle.command(LANE, CommandKind::Cancel { tx }).await.unwrap();
        cancelled(&store, tx).await;
        let at = store.memory.tx(tx).await.unwrap().unwrap().tx.status.updated_at;
        let off = clock.now().0.abs_diff(at.0);
        assert!(off <= 1_100, "after a step of {step} ms it is stored with a time that is {off} ms off");
        engine.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_steps_all_the_time_does_not_keep_a_lane_from_its_work() {
    let clock = TokioClock::new();
    let (engine, store) = engine_at(clock.clone()).await;
    let handle = engine.handle();
    let tx = submit(&handle).await;
    until("it runs", async || handle.explain(LANE, tx).await.is_some()).await;
    let steps = tokio::spawn(async move {
        for n in 0_i64.. {
            clock.set(if n % 2 == 0 { HOUR } else { -HOUR });
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
    });
    let loads = store.loads();
    tokio::time::sleep(Duration::from_secs(300)).await;
    let loads = store.loads() - loads;
    assert!(loads <= 31, "{loads} loads in five minutes");
    handle.command(LANE, CommandKind::Cancel { tx }).await.unwrap();
    cancelled(&store, tx).await;
    steps.abort();
    engine.stop().await;
}

fn show_block(handle: &Handle, number: u8, timestamp: Millis) {
    let mut news = crate::directory::tests::news(number, &[]);
    let view = Arc::make_mut(&mut news.view);
    view.head.timestamp = timestamp;
    handle.shared().directory.publish(LANE.chain, news);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_ahead_removes_no_history_before_its_time_also_where_the_chain_stands_still() {
    const KEEP: Duration = Duration::from_secs(3_600);
    for step in STEPS {
        let clock = TokioClock::new();
        let store = Handled::new(TokioClock::new());
        let timings = Timings { keep_finished: Some(KEEP), ..Timings::default() };
        let engine = Engine::start(Parts { timings, ..parts(&store, clock.clone()) }).await.unwrap();
        let handle = engine.handle();
        let tx = submit(&handle).await;
        handle.command(LANE, CommandKind::Cancel { tx }).await.unwrap();
        cancelled(&store, tx).await;
        // One that stays, since the newest always does.
        submit(&handle).await;
        let ended_at = clock.now();
        let is_there = async || store.memory.tx(tx).await.unwrap().is_some();
        clock.set(step.abs());
        tokio::time::sleep(KEEP / 3).await;
        assert!(is_there().await, "no chain has shown a block: {step}");
        show_block(&handle, 1, ended_at.after(KEEP / 3));
        tokio::time::sleep(KEEP / 2).await;
        assert!(is_there().await, "it is not old by what has passed: {step}");
        tokio::time::sleep(KEEP / 3).await;
        assert!(!is_there().await, "it is old, although no other block came: {step}");
        engine.stop().await;
    }
}
