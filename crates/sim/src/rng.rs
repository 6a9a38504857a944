//! The one source of chance in a run: a small generator whose whole future follows from the seed.

/// SplitMix64: fast, well spread, and the same on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    #[must_use]
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` up to, not including, `high`; `low` where there is nothing between.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        if high <= low { low } else { low + self.next() % (high - low) }
    }

    /// True this often, out of a thousand.
    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.range(0, 1_000) < permille
    }

    /// One of these; none of an empty list.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() {
            None
        } else {
            of.get(usize::try_from(self.range(0, of.len() as u64)).unwrap_or(0))
        }
    }
}
