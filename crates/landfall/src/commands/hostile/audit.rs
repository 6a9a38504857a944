//! What the chain shows, held against what was asked for and against what the store says. Pure: lists in, findings out.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use serde_json::Value;

use crate::output::text;

/// How many findings are shown in words.
const EXAMPLES: usize = 10;

/// One transaction in a block.
#[derive(Debug, Clone)]
pub(super) struct OnChain {
    pub(super) signer: Address,
    pub(super) nonce: u64,
    /// Which of ours it is; none for a no-op.
    pub(super) number: Option<u64>,
    pub(super) hash: String,
    pub(super) block: u64,
    pub(super) success: bool,
    /// The most that it offered per gas, in wei.
    pub(super) cap: u128,
    pub(super) gas_limit: u128,
    pub(super) gas_used: u128,
    /// What it paid per gas, in wei.
    pub(super) price: u128,
}

/// One transaction as the server shows it.
#[derive(Debug, Clone)]
pub(super) struct InStore {
    pub(super) id: String,
    pub(super) number: Option<u64>,
    pub(super) state: String,
    pub(super) hash: String,
    pub(super) block: Option<u64>,
}

impl InStore {
    pub(super) fn read(tx: &Value) -> Self {
        Self {
            id: text(tx, "txId"),
            number: text(tx, "requestId").strip_prefix("rig-").and_then(|n| n.parse().ok()),
            state: text(tx, "state"),
            hash: text(tx, "hash"),
            block: tx["receipt"]["blockNumber"].as_u64(),
        }
    }
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) landed_once: u64,
    pub(super) landed_twice: u64,
    pub(super) lost: u64,
    /// Slots that were handed out and not used, or used and not handed out.
    pub(super) gaps: u64,
    pub(super) over_ceiling: u64,
    /// Transactions that have not ended in the store, or not as confirmed.
    pub(super) not_confirmed: u64,
    /// Transactions of which the store says something else than the chain.
    pub(super) differing: u64,
    /// Slots filled with nothing; no fault.
    pub(super) no_ops: u64,
    /// The first of them in words.
    pub(super) examples: Vec<String>,
}

impl Findings {
    pub(super) fn is_clean(&self, count: u64) -> bool {
        let wrong =
            [self.landed_twice, self.lost, self.gaps, self.over_ceiling, self.not_confirmed, self.differing];
        self.landed_once == count && wrong.iter().all(|count| *count == 0)
    }

    fn example(&mut self, text: String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(text);
        }
    }
}

/// Judges `count` transactions. `slots` says how many each signer's lane has handed out, `ceiling` what a transaction may
/// offer per gas.
pub(super) fn judge(
    count: u64,
    chain: &[OnChain],
    store: &[InStore],
    slots: &BTreeMap<String, u64>,
    ceiling: impl Fn(Option<u64>) -> u128,
) -> Findings {
    let mut found = Findings::default();
    exactly_once(count, chain, &mut found);
    without_gaps(chain, slots, &mut found);
    for tx in chain {
        let limit = ceiling(tx.number);
        if tx.cap > limit || tx.price > limit || tx.gas_used * tx.price > tx.gas_limit * limit {
            found.over_ceiling += 1;
            found.example(format!("{} offers {} wei per gas, its ceiling is {limit}", tx.hash, tx.cap));
        }
    }
    agreement(count, chain, store, &mut found);
    found
}

fn exactly_once(count: u64, chain: &[OnChain], found: &mut Findings) {
    let mut times: BTreeMap<u64, u64> = (0..count).map(|n| (n, 0)).collect();
    for tx in chain {
        match tx.number.and_then(|n| times.get_mut(&n)) {
            Some(times) => *times += 1,
            None => found.no_ops += 1,
        }
    }
    for (n, times) in times {
        match times {
            0 => {
                found.lost += 1;
                found.example(format!("transaction {n} is in no block"));
            }
            1 => found.landed_once += 1,
            _ => {
                found.landed_twice += 1;
                found.example(format!("transaction {n} is on chain {times} times"));
            }
        }
    }
}

fn without_gaps(chain: &[OnChain], slots: &BTreeMap<String, u64>, found: &mut Findings) {
    let mut used: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for tx in chain {
        used.entry(tx.signer.to_string()).or_default().push(tx.nonce);
    }
    for signer in slots.keys().chain(used.keys()).collect::<std::collections::BTreeSet<_>>() {
        let mut nonces = used.get(signer).cloned().unwrap_or_default();
        nonces.sort_unstable();
        let handed_out = slots.get(signer).copied().unwrap_or(0);
        let holes = nonces.iter().zip(0..).filter(|(nonce, place)| *nonce != place).count() as u64;
        let off = holes + handed_out.abs_diff(nonces.len() as u64);
        if off > 0 {
            found.gaps += off;
            found.example(format!("{signer} handed out {handed_out} slots, the chain used {}", nonces.len()));
        }
    }
}

fn agreement(count: u64, chain: &[OnChain], store: &[InStore], found: &mut Findings) {
    let shown: BTreeMap<u64, &OnChain> = chain.iter().filter_map(|tx| Some((tx.number?, tx))).collect();
    let told: BTreeMap<u64, &InStore> = store.iter().filter_map(|tx| Some((tx.number?, tx))).collect();
    for n in 0..count {
        let Some(told) = told.get(&n) else {
            found.not_confirmed += 1;
            found.example(format!("transaction {n} is not in the store"));
            continue;
        };
        if told.state != "confirmed" {
            found.not_confirmed += 1;
            found.example(format!("{} (transaction {n}) is {}", told.id, told.state));
        }
        let same = |tx: &&OnChain| tx.hash == told.hash && Some(tx.block) == told.block && tx.success;
        if !shown.get(&n).is_some_and(same) {
            found.differing += 1;
            found.example(format!(
                "{} says {} in block {:?}, the chain does not",
                told.id, told.hash, told.block
            ));
        }
    }
    found.differing += store.len().abs_diff(usize::try_from(count).unwrap_or(usize::MAX)) as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 6;

    /// Two signers, three transactions each, all well.
    struct World {
        chain: Vec<OnChain>,
        store: Vec<InStore>,
        slots: BTreeMap<String, u64>,
    }

    fn world() -> World {
        let signers = [Address::repeat_byte(1), Address::repeat_byte(2)];
        let chain: Vec<OnChain> = (0..COUNT)
            .map(|n| OnChain {
                signer: signers[(n % 2) as usize],
                nonce: n / 2,
                number: Some(n),
                hash: format!("0x{n}"),
                block: 10 + n,
                success: true,
                cap: 100,
                gas_limit: 30_000,
                gas_used: 21_000,
                price: 60,
            })
            .collect();
        let store = chain.iter().map(|tx| InStore {
            id: format!("tx_{}", tx.hash),
            number: tx.number,
            state: "confirmed".to_owned(),
            hash: tx.hash.clone(),
            block: Some(tx.block),
        });
        let slots = signers.iter().map(|signer| (signer.to_string(), COUNT / 2)).collect();
        World { store: store.collect(), chain, slots }
    }

    fn judged(change: impl FnOnce(&mut World)) -> Findings {
        let mut world = world();
        change(&mut world);
        judge(COUNT, &world.chain, &world.store, &world.slots, |n| if n == Some(0) { 100 } else { 200 })
    }

    #[test]
    fn what_landed_once_within_its_ceiling_is_clean() {
        let found = judged(|_| {});
        assert!(found.is_clean(COUNT) && found.examples.is_empty(), "{found:?}");
        assert_eq!(found.landed_once, COUNT);
    }

    #[test]
    fn a_no_op_in_a_slot_of_its_own_is_no_fault() {
        let found = judged(|world| {
            let mut no_op = world.chain[0].clone();
            (no_op.number, no_op.nonce, no_op.hash) = (None, 3, "0xnoop".to_owned());
            world.slots.insert(no_op.signer.to_string(), 4);
            world.chain.push(no_op);
        });
        assert!(found.is_clean(COUNT) && found.no_ops == 1, "{found:?}");
    }

    /// Each way to break it, and the count that must see it.
    #[test]
    fn everything_that_is_off_is_found() {
        type Change = fn(&mut World);
        type Seen = fn(&Findings) -> u64;
        let cases: [(&str, Change, Seen); 10] = [
            ("twice", |w| w.chain.push(OnChain { nonce: 3, ..w.chain[0].clone() }), |f| f.landed_twice),
            ("lost", |w| drop(w.chain.remove(2)), |f| f.lost),
            ("a hole", |w| w.chain[5].nonce = 7, |f| f.gaps),
            ("a slot too many", |w| w.slots.values_mut().for_each(|n| *n += 1), |f| f.gaps),
            ("its own ceiling", |w| w.chain[0].cap = 101, |f| f.over_ceiling),
            ("the chain's ceiling", |w| w.chain[1].cap = 201, |f| f.over_ceiling),
            ("not ended", |w| w.store[3].state = "mined".to_owned(), |f| f.not_confirmed),
            ("not stored", |w| drop(w.store.remove(3)), |f| f.not_confirmed),
            ("another hash", |w| w.store[3].hash = "0xother".to_owned(), |f| f.differing),
            ("another block", |w| w.store[3].block = Some(1), |f| f.differing),
        ];
        for (what, change, seen) in cases {
            let found = judged(change);
            assert!(seen(&found) > 0 && !found.is_clean(COUNT), "{what}: {found:?}");
            assert!(!found.examples.is_empty(), "{what}");
        }
    }
}
