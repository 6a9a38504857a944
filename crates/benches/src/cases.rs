//! The cases by name. A case is made once and then run a number of rounds; all rounds cost the same.

use anyhow::{Context, Result, bail};

use crate::{body, lane, signing, texts};

/// How many transactions are in flight in the lanes that are measured.
pub const IN_FLIGHT: u64 = 1_000;
/// How many come in and land with each block of a lane that is busy all the time.
pub const PER_BLOCK: u64 = 10;

/// How many wait in a lane that hands out no slots: more than are held in memory.
pub const BACKLOG: u64 = 5_000;

/// A piece of the hot path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// 1,000 transactions of one lane from the store to their end.
    LaneLife,
    /// A block for a lane of 1,000 in flight: ten come in, ten land.
    LaneSteady,
    /// Ten more for a paused lane with a long queue.
    LaneBacklog,
    /// Drafts into what a key signs.
    Preimage,
    /// Signatures of a key in this process.
    Sign,
    /// Drafts and signatures into bytes and hashes.
    Seal,
    /// Texts of nodes into classes.
    Classify,
    /// JSON of a caller into a submission.
    Submission,
}

impl Case {
    pub const ALL: [Self; 8] = [
        Self::LaneLife,
        Self::LaneSteady,
        Self::LaneBacklog,
        Self::Preimage,
        Self::Sign,
        Self::Seal,
        Self::Classify,
        Self::Submission,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LaneLife => "lane-life",
            Self::LaneSteady => "lane-steady",
            Self::LaneBacklog => "lane-backlog",
            Self::Preimage => "preimage",
            Self::Sign => "sign",
            Self::Seal => "seal",
            Self::Classify => "classify",
            Self::Submission => "submission",
        }
    }

    /// The case of that name.
    pub fn from_name(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|case| case.name() == name);
        found.with_context(|| {
            let names: Vec<_> = Self::ALL.into_iter().map(Self::name).collect();
            format!("there is no case `{name}`; there are {}", names.join(", "))
        })
    }

    /// How many rounds are counted: enough that what happens once in many rounds is spread over them.
    #[must_use]
    pub fn rounds(self) -> u32 {
        match self {
            Self::LaneLife => 1,
            Self::LaneSteady => 4,
            Self::LaneBacklog => 16,
            Self::Preimage | Self::Seal | Self::Classify | Self::Submission => 16,
            Self::Sign => 4,
        }
    }

    /// How many things one round does: transactions, or texts.
    #[must_use]
    pub fn per_round(self) -> u64 {
        match self {
            Self::LaneLife => IN_FLIGHT,
            Self::LaneSteady | Self::LaneBacklog => PER_BLOCK,
            Self::Preimage | Self::Sign | Self::Seal => signing::BATCH as u64,
            Self::Classify => texts::SAMPLES.len() as u64,
            Self::Submission => body::SAMPLES.len() as u64,
        }
    }

    /// Does it that many times, after whatever has to be made first.
    pub fn run(self, rounds: u32) -> Result<()> {
        let mut work = self.prepare()?;
        for _ in 0..rounds {
            work()?;
        }
        Ok(())
    }

    /// What one round is, with everything it needs made already.
    pub fn prepare(self) -> Result<Box<dyn FnMut() -> Result<()>>> {
        Ok(match self {
            Self::LaneLife => Box::new(|| {
                let ended = lane::life(IN_FLIGHT)?;
                if ended != IN_FLIGHT {
                    bail!("{ended} of {IN_FLIGHT} transactions came to their end");
                }
                Ok(())
            }),
            Self::LaneSteady => {
                let mut desk = lane::Desk::filled(IN_FLIGHT)?;
                Box::new(move || desk.block_of(PER_BLOCK))
            }
            Self::LaneBacklog => {
                let mut desk = lane::Desk::backlog(BACKLOG)?;
                Box::new(move || desk.admit(PER_BLOCK))
            }
            Self::Preimage => {
                let bench = signing::Bench::new()?;
                Box::new(move || {
                    bench.preimages();
                    Ok(())
                })
            }
            Self::Sign => {
                let bench = signing::Bench::new()?;
                Box::new(move || bench.sign())
            }
            Self::Seal => {
                let bench = signing::Bench::new()?;
                Box::new(move || {
                    bench.seal();
                    Ok(())
                })
            }
            Self::Classify => {
                let texts = texts::Bench::new()?;
                Box::new(move || texts.classify())
            }
            Self::Submission => Box::new(body::read),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_does_its_work_and_goes_by_its_name() {
        for case in Case::ALL {
            assert_eq!(Case::from_name(case.name()).unwrap(), case);
            case.run(2).unwrap();
        }
    }

    #[test]
    fn a_name_that_is_unknown_is_told_what_there_is() {
        let said = Case::from_name("lane").unwrap_err().to_string();
        assert!(said.contains("lane-life") && said.contains("submission"), "{said}");
    }
}
