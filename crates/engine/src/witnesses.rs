//! How far a chain is known to two endpoints, from look to look; and who is told when that changes.

use std::time::Duration;

use landfall_core::ChainId;
use landfall_core::view::BlockRef;
use landfall_core::witness::{TagWatch, TimeWatch, Watch, Witness, Witnessed};
use tokio::time::Instant;

use crate::supervisor::Shared;

/// Follows what the endpoints of one chain have shown.
pub(crate) struct Witnesses {
    watch: Watch,
    safe: TagWatch,
    finalized: TagWatch,
    time: TimeWatch,
    /// How long a second endpoint is waited for; none: for ever.
    wait: Option<Duration>,
    /// By a clock that does not step: a leap of the time of day must not let one endpoint decide.
    begun: Instant,
    told: Told,
}

/// What was last said in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    Alone,
    Disagree,
}

impl Witnesses {
    pub(crate) fn new(wait: Option<Duration>) -> Self {
        let tag = || TagWatch::new(wait, Duration::ZERO);
        Self {
            watch: Watch::new(wait, Duration::ZERO),
            safe: tag(),
            finalized: tag(),
            time: TimeWatch::default(),
            wait,
            begun: Instant::now(),
            told: Told::Nothing,
        }
    }

    /// A second endpoint was waited for long enough: the word of one counts.
    pub(crate) fn has_waited(&self) -> bool {
        self.wait.is_some_and(|wait| self.begun.elapsed() >= wait)
    }

    pub(crate) fn judge(
        &mut self,
        shared: &Shared,
        chain: ChainId,
        head: u64,
        shown: &[Witness],
    ) -> Witnessed {
        let (now, clock) = (self.begun.elapsed(), shared.parts.clock.now());
        let mut witnessed = self.watch.judge(head, shown, now, clock);
        if witnessed.several {
            let times = shown.iter().filter_map(|witness| witness.time).collect();
            witnessed.time = self.time.judge(times, witnessed.alone, now, clock);
        }
        self.tell(chain, head, &witnessed);
        witnessed
    }

    /// Which blocks count as safe and as finalized, where several endpoints say so.
    pub(crate) fn tags(
        &mut self,
        shown: &[Witness],
        is_ours: impl Fn(&BlockRef) -> bool,
        witnessed: &mut Witnessed,
    ) -> (Option<BlockRef>, Option<BlockRef>) {
        let now = self.begun.elapsed();
        let said = |word: fn(&Witness) -> Option<BlockRef>| -> Vec<(bool, Option<BlockRef>)> {
            shown.iter().map(|witness| (witness.up, word(witness))).collect()
        };
        let (safe, counts_safe) = self.safe.judge(&said(|witness| witness.safe), &is_ours, now);
        let (finalized, counts_final) =
            self.finalized.judge(&said(|witness| witness.finalized), &is_ours, now);
        (witnessed.safe, witnessed.finalized) = (safe, finalized);
        (counts_safe, counts_final)
    }

    fn tell(&mut self, chain: ChainId, head: u64, witnessed: &Witnessed) {
        let others = witnessed.lack.as_ref().map_or("", |lack| lack.others.as_str());
        let disagree = witnessed.lack.as_ref().is_some_and(|lack| lack.disagree);
        let now = match (disagree, witnessed.alone) {
            (true, _) => Told::Disagree,
            (false, true) => Told::Alone,
            (false, false) => Told::Nothing,
        };
        if std::mem::replace(&mut self.told, now) == now {
            return;
        }
        let by_two = witnessed.by_two;
        match now {
            Told::Nothing => tracing::info!(%chain, head, "two endpoints show the same chain again"),
            Told::Alone => tracing::warn!(
                %chain, head, by_two, others,
                "only one endpoint has shown new blocks for long: what it shows becomes final by its word alone"
            ),
            Told::Disagree => tracing::error!(
                %chain, head, by_two, others,
                "endpoints show different chains: nothing becomes final until they agree, or the wrong one is taken out of \
                 the configuration"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
