//! Who is here, and who yields when there is no place: of those without a key the most silent one of the address that has most, of
//! those with one the most silent one of the key that has most. One on which something is asked for is left to get its answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::crowd::{GRACE, Yielded};
use super::line::Line;
use super::neighbour::{Neighbour, Net};

/// Key that a connection counts for; none where nobody needs one.
pub(super) type Owner = Option<Arc<str>>;

#[derive(Default)]
pub(super) struct Here {
    pub(super) next: u64,
    /// Connections without a key, oldest first, and where each comes from.
    pub(super) keyless: BTreeMap<u64, (Net, Arc<Line>)>,
    /// Connections on which a key was shown last, by its id.
    pub(super) known: BTreeMap<u64, (Owner, Arc<Line>)>,
    /// How many each key has.
    pub(super) of_key: HashMap<Owner, usize>,
    /// Connections in the places that are kept, on which no administrator has shown a key yet.
    pub(super) kept: BTreeMap<u64, Arc<Line>>,
    pub(super) neighbours: BTreeMap<Net, Arc<Neighbour>>,
    pub(super) told: Option<Instant>,
}

impl Here {
    /// Takes a connection out, wherever it counts.
    pub(super) fn remove(&mut self, line: &Line) {
        if self.keyless.remove(&line.number).is_some() {
            line.neighbour().keyless.fetch_sub(1, Ordering::Relaxed);
        }
        self.kept.remove(&line.number);
        if let Some((owner, _)) = self.known.remove(&line.number)
            && let Some(count) = self.of_key.get_mut(&owner)
        {
            *count -= 1;
            if *count == 0 {
                self.of_key.remove(&owner);
            }
        }
    }

    pub(super) fn insert_keyless(&mut self, net: Net, line: Arc<Line>) {
        line.neighbour().keyless.fetch_add(1, Ordering::Relaxed);
        self.keyless.insert(line.number, (net, line));
    }

    pub(super) fn insert_known(&mut self, owner: Owner, line: Arc<Line>) {
        *self.of_key.entry(owner.clone()).or_default() += 1;
        self.known.insert(line.number, (owner, line));
    }

    /// Ends a connection for another.
    fn end(&mut self, line: &Line) -> Yielded {
        self.remove(line);
        line.neighbour().connections.fetch_sub(1, Ordering::Relaxed);
        line.yielded.store(true, Ordering::Relaxed);
        line.end();
        Yielded::Now
    }

    /// Ends one without a key, of this address or of the one that has most: the one that was silent longest, or the oldest
    /// that has had time to get its answer.
    pub(super) fn end_keyless(&mut self, of: Option<Net>, patience: Duration) -> Yielded {
        let most = self.neighbours.iter().max_by_key(|(_, at)| at.keyless.load(Ordering::Relaxed));
        let Some(of) = of.or(most.map(|(net, _)| *net)) else { return Yielded::Nobody };
        let own = || self.keyless.values().filter(|(net, _)| *net == of).map(|(_, line)| line);
        let (silent, fresh) = most_silent(own(), patience);
        let Some(line) = silent.or_else(|| own().find(|line| line.age() >= GRACE).cloned()) else {
            return if fresh { Yielded::NotYet } else { Yielded::Nobody };
        };
        self.end(&line)
    }

    /// Ends the most silent one of the key that has most of which some are idle, of those that come from this address or of all.
    pub(super) fn end_known(&mut self, of: Option<Net>, patience: Duration) -> Yielded {
        let is_there = |line: &Arc<Line>| of.is_none_or(|net| Net::of(line.peer().ip()) == net);
        let mut counts: HashMap<&Owner, usize> = HashMap::new();
        for (owner, _) in self.known.values().filter(|(_, line)| is_there(line)) {
            *counts.entry(owner).or_default() += 1;
        }
        let mut owners: Vec<(usize, Owner)> =
            counts.into_iter().map(|(owner, count)| (count, owner.clone())).collect();
        owners.sort_unstable_by(|one, other| other.cmp(one));
        let mut found = Yielded::Nobody;
        for (_, owner) in owners {
            let own = self.known.values().filter(|(by, line)| *by == owner && is_there(line));
            match self.end_most_silent(own.map(|(_, line)| line.clone()).collect(), patience) {
                Yielded::Now => return Yielded::Now,
                Yielded::NotYet => found = Yielded::NotYet,
                Yielded::Nobody => {}
            }
        }
        found
    }

    /// Ends the most silent other one of this key.
    pub(super) fn end_own(&mut self, owner: &Owner, not: &Line, patience: Duration) -> Yielded {
        let own = self.known.values().filter(|(by, line)| by == owner && line.number != not.number);
        self.end_most_silent(own.map(|(_, line)| line.clone()).collect(), patience)
    }

    /// Ends the most silent one in the places that are kept.
    pub(super) fn end_kept(&mut self, patience: Duration) -> Yielded {
        let known = self.known.values().map(|(_, line)| line).filter(|line| line.is_kept());
        let all = self.kept.values().chain(known).cloned().collect();
        self.end_most_silent(all, patience)
    }

    fn end_most_silent(&mut self, lines: Vec<Arc<Line>>, patience: Duration) -> Yielded {
        match most_silent(lines.iter(), patience) {
            (Some(line), _) => self.end(&line),
            (None, true) => Yielded::NotYet,
            (None, false) => Yielded::Nobody,
        }
    }
}

/// The idle one that was silent longest, if that was long enough; and whether any is idle.
fn most_silent<'a>(
    lines: impl Iterator<Item = &'a Arc<Line>>,
    patience: Duration,
) -> (Option<Arc<Line>>, bool) {
    let silent = lines.filter(|line| line.is_idle()).max_by_key(|line| line.silence());
    (silent.filter(|line| line.silence() >= patience).cloned(), silent.is_some())
}
