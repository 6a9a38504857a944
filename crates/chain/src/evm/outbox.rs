//! What many lanes send to one endpoint, in few batches.
//!
//! A thousand lanes that send one transaction each would be a thousand HTTP requests, and those cost more than what is in
//! them. So what comes while another batch is under way waits for company: until nothing is under way any more, until a
//! batch is full, or for a few milliseconds. A quiet endpoint is sent to at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::abilities::MAX_BATCH;
use super::endpoint::{Endpoint, no_answer};
use super::rpc::{Answer, Ask};

/// The longest wait for company: little beside what a node takes to answer.
const GATHER: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct Outbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    jobs: Vec<Job>,
    asks: usize,
    under_way: usize,
    /// Somebody will come for what waits.
    timed: bool,
}

struct Job {
    asks: Vec<Ask>,
    done: oneshot::Sender<Vec<Answer>>,
}

impl Outbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Plain data: a panic elsewhere leaves it readable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be sent now that this has come, and whether somebody has to come for it later.
    fn add(&self, job: Job) -> (Vec<Vec<Job>>, bool) {
        let mut waiting = self.waiting();
        waiting.asks += job.asks.len();
        waiting.jobs.push(job);
        if waiting.under_way == 0 || waiting.asks >= MAX_BATCH {
            return (waiting.batches(), false);
        }
        (Vec::new(), !std::mem::replace(&mut waiting.timed, true))
    }

    fn time_is_up(&self) -> Vec<Vec<Job>> {
        let mut waiting = self.waiting();
        waiting.timed = false;
        waiting.batches()
    }

    /// One that was under way is not any more: what is to be sent now.
    fn ended(&self) -> Vec<Vec<Job>> {
        let mut waiting = self.waiting();
        waiting.under_way -= 1;
        if waiting.under_way == 0 { waiting.batches() } else { Vec::new() }
    }
}

impl Waiting {
    /// Everything that waits, in batches that are under way from now on.
    fn batches(&mut self) -> Vec<Vec<Job>> {
        let mut batches = Vec::new();
        while !self.jobs.is_empty() {
            batches.push(self.batch());
        }
        self.under_way += batches.len();
        batches
    }

    /// The oldest jobs that fit into one batch, at least one.
    fn batch(&mut self) -> Vec<Job> {
        let mut fitting = 0;
        let mut asks = 0;
        for job in &self.jobs {
            if fitting > 0 && asks + job.asks.len() > MAX_BATCH {
                break;
            }
            fitting += 1;
            asks += job.asks.len();
        }
        self.asks -= asks;
        self.jobs.drain(..fitting).collect()
    }
}

/// Asks together with what others ask of this endpoint. One answer for each, in the order asked.
pub(super) async fn ask(endpoint: &Arc<Endpoint>, asks: Vec<Ask>) -> Vec<Answer> {
    let count = asks.len();
    if count >= MAX_BATCH {
        return endpoint.ask_all(&asks).await;
    }
    let (done, answered) = oneshot::channel();
    let (batches, to_be_timed) = endpoint.outbox.add(Job { asks, done });
    send(endpoint, batches);
    if to_be_timed {
        let endpoint = Arc::clone(endpoint);
        tokio::spawn(async move {
            tokio::time::sleep(GATHER).await;
            let batches = endpoint.outbox.time_is_up();
            send(&endpoint, batches);
        });
    }
    answered.await.unwrap_or_else(|_| (0..count).map(|_| Err(no_answer())).collect())
}

/// Starts batches. Not under the lock: a runtime that is ending drops what is spawned at once, and that takes the lock.
fn send(endpoint: &Arc<Endpoint>, batches: Vec<Vec<Job>>) {
    for jobs in batches {
        let under_way = UnderWay(Arc::clone(endpoint));
        tokio::spawn(async move {
            let (asks, askers): (Vec<_>, Vec<_>) = jobs.into_iter().map(|job| (job.asks, job.done)).unzip();
            let counts: Vec<usize> = asks.iter().map(Vec::len).collect();
            let asks: Vec<Ask> = asks.into_iter().flatten().collect();
            let mut answers = under_way.0.ask_all(&asks).await.into_iter();
            for (asker, count) in askers.into_iter().zip(counts) {
                // The asker may have gone; what was sent is sent.
                asker.send(answers.by_ref().take(count).collect()).ok();
            }
        });
    }
}

/// A batch that is not answered yet; when it was, or was lost, what waits may go.
struct UnderWay(Arc<Endpoint>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let batches = self.0.outbox.ended();
        // Without a runtime everything ends, and those who wait are told that there is no answer.
        if tokio::runtime::Handle::try_current().is_ok() {
            send(&self.0, batches);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(count: usize) -> Job {
        Job { asks: vec![Ask::new("x", json!([])); count], done: oneshot::channel().0 }
    }

    fn sizes(batches: &[Vec<Job>]) -> Vec<usize> {
        batches.iter().map(|jobs| jobs.iter().map(|job| job.asks.len()).sum()).collect()
    }

    #[test]
    fn the_first_goes_at_once_and_others_gather_until_it_is_answered_a_batch_is_full_or_time_is_up() {
        let outbox = Outbox::default();
        let add = |count| {
            let (batches, timed) = outbox.add(job(count));
            (sizes(&batches), timed)
        };
        assert_eq!(add(1), (vec![1], false), "nothing is under way");
        assert_eq!(add(1), (vec![], true));
        assert_eq!(add(2), (vec![], false), "one timer is enough");
        assert_eq!(sizes(&outbox.ended()), [3], "the first was answered");
        assert_eq!(add(60), (vec![], false), "the timer still runs");
        assert_eq!(add(50), (vec![60, 50], false), "that makes a batch");
        assert!(outbox.time_is_up().is_empty());
        assert_eq!(add(5), (vec![], true));
        assert_eq!(sizes(&outbox.time_is_up()), [5]);
        for _ in 0..3 {
            assert!(outbox.ended().is_empty());
        }
        assert_eq!(add(1), (vec![], true));
        assert_eq!(sizes(&outbox.ended()), [1]);
    }
}
