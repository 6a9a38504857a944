//! Everything that happened, as lines and as one number. The same seed gives the same number.

use std::fmt::Arguments;

/// Lines are kept only when somebody wants to read them.
const KEPT: usize = 200_000;

#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
    count: u64,
}

impl Trace {
    #[must_use]
    pub(crate) fn new(readable: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, lines: readable.then(Vec::new), count: 0 }
    }

    pub(crate) fn add(&mut self, at_ms: u64, what: Arguments<'_>) {
        let line = format!("{:>9.3}  {what}", at_ms as f64 / 1_000.0);
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.count += 1;
        if let Some(lines) = &mut self.lines
            && lines.len() < KEPT
        {
            lines.push(line);
        }
    }

    #[must_use]
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    #[must_use]
    pub(crate) fn events(&self) -> u64 {
        self.count
    }

    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
