//! `[lease]`: how long a node owns its lanes without a word, when it renews, and how long before the end it stops acting.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Lease {
    pub(crate) duration_s: f64,
    pub(crate) renew_s: f64,
    pub(crate) skew_s: f64,
}

impl Default for Lease {
    fn default() -> Self {
        Self { duration_s: 10.0, renew_s: 3.0, skew_s: 1.0 }
    }
}

impl Lease {
    /// Shorter leases would end while an ordinary commit is under way, longer ones leave a dead node's lanes alone for hours.
    const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=3_600.0;
    const SHORTEST_RENEWAL: f64 = 0.1;

    pub(super) fn check(&self) -> Result<()> {
        let Self { duration_s, renew_s, skew_s } = *self;
        if !Self::SECONDS.contains(&duration_s) {
            bail!("lease.duration_s is {duration_s}; it may be from 1 to 3600 seconds");
        }
        if !(Self::SHORTEST_RENEWAL..duration_s / 2.0).contains(&renew_s) {
            bail!(
                "lease.renew_s is {renew_s}; it must be at least 0.1 and under half of lease.duration_s, which is {duration_s}"
            );
        }
        if !(0.0..duration_s).contains(&skew_s) {
            bail!("lease.skew_s is {skew_s}; it must be below lease.duration_s, which is {duration_s}");
        }
        Ok(())
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.duration_s)
    }

    pub(crate) fn renew(&self) -> Duration {
        Duration::from_secs_f64(self.renew_s)
    }

    pub(crate) fn skew(&self) -> Duration {
        Duration::from_secs_f64(self.skew_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_of_two_seconds_can_be_had_and_one_that_cannot_be_renewed_in_time_cannot() {
        let lease = |duration_s, renew_s, skew_s| Lease { duration_s, renew_s, skew_s }.check();
        assert!(Lease::default().check().is_ok());
        assert!(lease(2.0, 0.6, 0.4).is_ok());
        for (bad, key) in [
            (lease(0.5, 0.1, 0.1), "duration_s"),
            (lease(f64::NAN, 1.0, 1.0), "duration_s"),
            (lease(10.0, 5.0, 1.0), "renew_s"),
            (lease(10.0, 0.0, 1.0), "renew_s"),
            (lease(10.0, f64::NAN, 1.0), "renew_s"),
            (lease(10.0, 3.0, 10.0), "skew_s"),
            (lease(10.0, 3.0, -1.0), "skew_s"),
        ] {
            let said = bad.unwrap_err().to_string();
            assert!(said.contains(key), "{said}");
        }
    }
}
