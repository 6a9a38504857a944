//! Which event may go now, and how far the cursor is. Pure: no clock, no store.
//!
//! Events of one transaction go one after the other; the first of them that failed holds the later ones back, and nobody
//! else. An event that failed, or is held back, gets a row; what has no row and was not delivered holds the cursor.

use std::collections::{BTreeMap, BTreeSet};

use landfall_core::ports::records::{RecordKind, RecordWrite};
use landfall_core::ports::store::Error;
use landfall_core::{JournalSeq, Millis};

use super::delivery::{Delivery, DeliveryState, OrderOf, row_id};
use super::time::Step;

/// Events that were given up are kept for people, the newest of them.
const MOST_GIVEN_UP: usize = 1_000;

struct Item {
    order: OrderOf,
    event: String,
    row: Option<Delivery>,
    /// The version of the stored row; 0: there is none.
    version: u64,
    dirty: bool,
    flying: bool,
}

pub(super) struct Queue {
    /// The journal was read up to here.
    read: JournalSeq,
    /// Events that are not delivered yet.
    items: BTreeMap<JournalSeq, Item>,
    orders: BTreeMap<OrderOf, BTreeSet<JournalSeq>>,
    /// How many items have a row.
    rows: usize,
    most_rows: usize,
    given_up: BTreeMap<JournalSeq, Item>,
    /// Rows that are to be removed, by their version.
    gone: BTreeMap<JournalSeq, u64>,
}

/// What is being written: the versions it leads to.
pub(super) struct Batch {
    written: Vec<JournalSeq>,
    removed: Vec<JournalSeq>,
}

/// Why an event failed.
pub(super) struct Failed {
    pub(super) at: Millis,
    pub(super) due: Millis,
    pub(super) why: String,
    pub(super) give_up: bool,
}

impl Queue {
    /// As stored: the cursor, and rows with their versions. Rows beyond the cursor go, since their events come again.
    pub(super) fn load(
        cursor: JournalSeq,
        most_rows: usize,
        rows: impl IntoIterator<Item = (JournalSeq, u64, Delivery)>,
    ) -> Self {
        let mut queue = Self {
            read: cursor,
            items: BTreeMap::new(),
            orders: BTreeMap::new(),
            rows: 0,
            most_rows,
            given_up: BTreeMap::new(),
            gone: BTreeMap::new(),
        };
        for (seq, version, row) in rows {
            if seq > cursor {
                queue.gone.insert(seq, version);
                continue;
            }
            let (order, event, state) = (row.order, row.event.clone(), row.state);
            let item = Item { order, event, row: Some(row), version, dirty: false, flying: false };
            if state == DeliveryState::GivenUp {
                queue.given_up.insert(seq, item);
            } else {
                queue.rows += 1;
                queue.orders.entry(order).or_default().insert(seq);
                queue.items.insert(seq, item);
            }
        }
        queue
    }

    /// An event from the journal, later than all before it.
    pub(super) fn push(&mut self, seq: JournalSeq, order: OrderOf, event: &str) {
        // It may have a row from before, which was beyond the cursor.
        let version = self.gone.remove(&seq).unwrap_or(0);
        let item = Item { order, event: event.to_owned(), row: None, version, dirty: false, flying: false };
        self.items.insert(seq, item);
        self.orders.entry(order).or_default().insert(seq);
        self.read = self.read.max(seq);
        self.hold_back(order);
    }

    /// The journal has nothing else up to here.
    pub(super) fn read_to(&mut self, seq: JournalSeq) {
        self.read = self.read.max(seq);
    }

    pub(super) fn read(&self) -> JournalSeq {
        self.read
    }

    /// Every event up to this one was delivered or has a row.
    pub(super) fn cursor(&self) -> JournalSeq {
        let first = self.items.iter().find(|(_, item)| item.row.is_none()).map(|(seq, _)| *seq);
        first.map_or(self.read, |seq| JournalSeq(seq.0 - 1))
    }

    /// Events without a row.
    pub(super) fn fresh(&self) -> usize {
        self.items.len() - self.rows
    }

    /// Events with one.
    pub(super) fn waiting(&self) -> usize {
        self.rows
    }

    /// An event that may go now: the first of its order, and due. Fresh ones only, or those with a row only, if asked.
    pub(super) fn next(&self, now: Millis, which: Which) -> Option<JournalSeq> {
        let first = self.orders.values().filter_map(|seqs| seqs.first());
        let may = first.filter(|seq| {
            let Some(item) = self.items.get(seq) else { return false };
            let (due, fits) = match &item.row {
                None => (true, which != Which::Rows),
                Some(row) => (row.state == DeliveryState::Held || row.due <= now, which != Which::Fresh),
            };
            due && fits && !item.flying
        });
        may.min().copied()
    }

    /// When the next row is due; none if none waits.
    pub(super) fn next_due(&self) -> Option<Millis> {
        let first = self.orders.values().filter_map(|seqs| self.items.get(seqs.first()?));
        first.filter(|item| !item.flying).filter_map(|item| Some(item.row.as_ref()?.due)).min()
    }

    pub(super) fn fly(&mut self, seq: JournalSeq) {
        if let Some(item) = self.items.get_mut(&seq) {
            item.flying = true;
        }
    }

    pub(super) fn order(&self, seq: JournalSeq) -> Option<OrderOf> {
        self.items.get(&seq).map(|item| item.order)
    }

    pub(super) fn row(&self, seq: JournalSeq) -> Option<&Delivery> {
        self.items.get(&seq)?.row.as_ref()
    }

    pub(super) fn delivered(&mut self, seq: JournalSeq) {
        if let Some(item) = self.take(seq)
            && item.version > 0
        {
            self.gone.insert(seq, item.version);
        }
    }

    pub(super) fn failed(&mut self, seq: JournalSeq, failed: Failed) {
        let Some(item) = self.items.get_mut(&seq) else { return };
        let before = item.row.take();
        if before.is_some() {
            self.rows -= 1;
        }
        let state = if failed.give_up { DeliveryState::GivenUp } else { DeliveryState::Waiting };
        item.row = Some(Delivery {
            order: item.order,
            event: item.event.clone(),
            state,
            failures: before.as_ref().map_or(0, |row| row.failures).saturating_add(1),
            due: failed.due,
            first_tried: before.and_then(|row| row.first_tried).or(Some(failed.at)),
            last_tried: Some(failed.at),
            last_failure: Some(failed.why),
        });
        self.rows += 1;
        (item.dirty, item.flying) = (true, false);
        let order = item.order;
        if failed.give_up
            && let Some(item) = self.take(seq)
        {
            self.given_up.insert(seq, item);
            while self.given_up.len() > MOST_GIVEN_UP
                && let Some((oldest, item)) = self.given_up.pop_first()
            {
                if item.version > 0 {
                    self.gone.insert(oldest, item.version);
                }
            }
        }
        self.hold_back(order);
    }

    /// Whatever waits is due.
    pub(super) fn all_due(&mut self, now: Millis) {
        for row in self.items.values_mut().filter_map(|item| item.row.as_mut()) {
            row.due = row.due.min(now);
        }
    }

    /// The clock has stepped: whatever was written down by it moves along.
    pub(super) fn stepped(&mut self, step: Step) {
        for item in self.items.values_mut() {
            if let Some(row) = &mut item.row {
                row.stepped(step);
                item.dirty = true;
            }
        }
    }

    /// Gives rows to what is behind one, as long as there may be more.
    fn hold_back(&mut self, order: OrderOf) {
        let Some(seqs) = self.orders.get(&order) else { return };
        let has_row = |seq: &JournalSeq| self.items.get(seq).is_some_and(|item| item.row.is_some());
        if !seqs.first().is_some_and(has_row) {
            return;
        }
        for seq in seqs.iter().skip(1) {
            if self.rows >= self.most_rows {
                return;
            }
            if let Some(item) = self.items.get_mut(seq)
                && item.row.is_none()
            {
                item.row = Some(Delivery {
                    order,
                    event: item.event.clone(),
                    state: DeliveryState::Held,
                    failures: 0,
                    due: Millis(0),
                    first_tried: None,
                    last_tried: None,
                    last_failure: None,
                });
                item.dirty = true;
                self.rows += 1;
            }
        }
    }

    fn take(&mut self, seq: JournalSeq) -> Option<Item> {
        let item = self.items.remove(&seq)?;
        if item.row.is_some() {
            self.rows -= 1;
        }
        if let Some(seqs) = self.orders.get_mut(&item.order) {
            seqs.remove(&seq);
            if seqs.is_empty() {
                self.orders.remove(&item.order);
            }
        }
        Some(item)
    }

    /// What has to be written.
    pub(super) fn changes(&self, webhook: &str) -> Result<(Vec<RecordWrite>, Batch), Error> {
        let mut batch = Batch { written: Vec::new(), removed: Vec::new() };
        let mut writes = Vec::new();
        for (seq, item) in self.items.iter().chain(&self.given_up) {
            if let (true, Some(row)) = (item.dirty, &item.row) {
                writes.push(row.write(webhook, *seq, item.version)?);
                batch.written.push(*seq);
            }
        }
        for (seq, version) in &self.gone {
            let (kind, id) = (RecordKind::Delivery, row_id(webhook, *seq));
            writes.push(RecordWrite { kind, id, expected: *version, body: None });
            batch.removed.push(*seq);
        }
        Ok((writes, batch))
    }

    /// It is written.
    pub(super) fn written(&mut self, batch: &Batch) {
        for seq in &batch.written {
            let item = self.items.get_mut(seq).or_else(|| self.given_up.get_mut(seq));
            if let Some(item) = item {
                item.version += 1;
                item.dirty = false;
            }
        }
        for seq in &batch.removed {
            self.gone.remove(seq);
        }
    }
}

/// Which events are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Any,
    Fresh,
    Rows,
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_core::TxId;
    use proptest::prelude::*;

    const MOST: usize = 6;

    fn tx(n: u64) -> OrderOf {
        OrderOf::Tx(TxId::new(Millis(n), 0))
    }

    fn failed(due: u64) -> Failed {
        Failed { at: Millis(1), due: Millis(due), why: "no".into(), give_up: false }
    }

    fn queue(most: usize, events: &[u64]) -> Queue {
        let mut queue = Queue::load(JournalSeq(0), most, []);
        for (position, of) in events.iter().enumerate() {
            queue.push(JournalSeq(position as i64 + 1), tx(*of), "tx.mined");
        }
        queue
    }

    #[test]
    fn an_event_that_failed_holds_back_its_own_transaction_only() {
        let mut queue = queue(100, &[1, 1, 2, 1]);
        queue.fly(JournalSeq(1));
        assert_eq!(queue.next(Millis(1), Which::Any), Some(JournalSeq(3)));
        queue.failed(JournalSeq(1), failed(10));
        queue.delivered(JournalSeq(3));
        assert_eq!((queue.cursor(), queue.waiting()), (JournalSeq(4), 3), "those behind it have rows");
        assert_eq!(queue.next(Millis(9), Which::Any), None);
        assert_eq!(queue.next_due(), Some(Millis(10)));
        assert_eq!(queue.next(Millis(10), Which::Any), Some(JournalSeq(1)));
        queue.delivered(JournalSeq(1));
        assert_eq!(queue.next(Millis(10), Which::Any), Some(JournalSeq(2)));
        let give_up = Failed { give_up: true, ..failed(20) };
        queue.failed(JournalSeq(2), give_up);
        assert_eq!(
            queue.next(Millis(10), Which::Any),
            Some(JournalSeq(4)),
            "one that is given up holds nobody"
        );
    }

    #[test]
    fn at_the_most_rows_the_cursor_waits() {
        let mut queue = queue(2, &[1, 1, 1, 2]);
        queue.failed(JournalSeq(1), failed(10));
        queue.delivered(JournalSeq(4));
        assert_eq!((queue.cursor(), queue.waiting()), (JournalSeq(2), 2));
        queue.delivered(JournalSeq(1));
        assert_eq!(queue.next(Millis(1), Which::Any), Some(JournalSeq(2)));
    }

    #[test]
    fn what_is_written_is_what_a_later_load_goes_on_with() {
        let mut queue = queue(100, &[1, 1, 2, 3]);
        queue.failed(JournalSeq(1), failed(10));
        queue.failed(JournalSeq(4), failed(11));
        let (writes, batch) = queue.changes("wh").unwrap();
        queue.written(&batch);
        assert_eq!((writes.len(), queue.cursor()), (3, JournalSeq(2)));
        assert!(queue.changes("wh").unwrap().0.is_empty());
        let rows: Vec<_> = writes
            .into_iter()
            .map(|write| {
                let record = landfall_core::ports::records::Record {
                    id: write.id,
                    version: write.expected + 1,
                    body: write.body.unwrap(),
                };
                Delivery::read(record).unwrap()
            })
            .collect();
        let mut again = Queue::load(JournalSeq(2), 100, rows);
        assert_eq!((again.waiting(), again.read()), (2, JournalSeq(2)));
        let (writes, _) = again.changes("wh").unwrap();
        assert_eq!(writes.len(), 1, "the row beyond the cursor goes; its event comes again");
        again.push(JournalSeq(4), tx(3), "tx.mined");
        assert_eq!(again.next(Millis(1), Which::Any), Some(JournalSeq(4)));
        assert_eq!(again.next(Millis(10), Which::Rows), Some(JournalSeq(1)));
    }

    proptest! {
        /// Whatever fails, and whenever it is stopped and loaded again: every event is delivered, in order per
        /// transaction, and what was delivered is never behind the cursor for good.
        #[test]
        fn every_event_arrives_in_order_through_failures_and_restarts(
            events in prop::collection::vec(0_u64..4, 1..40),
            steps in prop::collection::vec(0_u8..10, 200),
        ) {
            let mut stored: BTreeMap<JournalSeq, (u64, Delivery)> = BTreeMap::new();
            let mut cursor = JournalSeq(0);
            let mut arrived: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
            let load = |cursor, stored: &BTreeMap<JournalSeq, (u64, Delivery)>| {
                Queue::load(cursor, MOST, stored.iter().map(|(seq, (version, row))| (*seq, *version, row.clone())))
            };
            let mut queue = load(cursor, &stored);
            let mut now = 1;
            for step in steps.into_iter().chain(std::iter::repeat_n(5, 400)) {
                now += 1;
                while queue.fresh() < 5 && (queue.read().0 as usize) < events.len() {
                    let next = queue.read().0 + 1;
                    queue.push(JournalSeq(next), tx(events[next as usize - 1]), "tx.mined");
                }
                match step {
                    0..=2 => if let Some(seq) = queue.next(Millis(now), Which::Any) {
                        queue.failed(seq, Failed { at: Millis(now), due: Millis(now + 3), why: String::new(), give_up: false });
                    },
                    3 => queue = load(cursor, &stored),
                    4 => {
                        let (writes, batch) = queue.changes("wh").unwrap();
                        for write in writes {
                            let seq = JournalSeq(write.id[3..].parse().unwrap());
                            prop_assert_eq!(stored.get(&seq).map_or(0, |(version, _)| *version), write.expected);
                            match write.body {
                                None => drop(stored.remove(&seq)),
                                Some(body) => {
                                    let row = serde_json::from_value(body).unwrap();
                                    stored.insert(seq, (write.expected + 1, row));
                                }
                            }
                        }
                        queue.written(&batch);
                        cursor = queue.cursor();
                    }
                    _ => if let Some(seq) = queue.next(Millis(now), Which::Any) {
                        queue.delivered(seq);
                        arrived.entry(events[seq.0 as usize - 1]).or_default().push(seq.0);
                    },
                }
                prop_assert!(queue.waiting() <= MOST + 5);
            }
            for (of, seqs) in &arrived {
                let mut first: Vec<i64> = Vec::new();
                for seq in seqs {
                    if !first.contains(seq) { first.push(*seq); }
                }
                let all: Vec<i64> = (1..=events.len() as i64).filter(|seq| events[*seq as usize - 1] == *of).collect();
                prop_assert_eq!(first, all);
            }
            prop_assert_eq!(arrived.len(), events.iter().collect::<BTreeSet<_>>().len());
        }
    }
}
