//! Licence expressions as SPDX writes them (`MIT OR Apache-2.0`, `(A OR B) AND C`), and whether a list of allowed ones
//! covers one. The older `MIT/Apache-2.0` counts as OR, as crates.io says.

use anyhow::{Result, bail, ensure};

/// Whether the expression can be met with allowed licences alone: one side of an OR, both of an AND.
pub(super) fn is_met(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> Result<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, is_allowed };
    let met = reader.any()?;
    ensure!(reader.words.is_empty(), "`{expression}` goes on with `{}`", reader.words.join(" "));
    Ok(met)
}

struct Reader<'a> {
    words: &'a [&'a str],
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl Reader<'_> {
    /// Terms with OR between them, which binds loosest.
    fn any(&mut self) -> Result<bool> {
        let mut met = self.all()?;
        while self.takes("OR") {
            met |= self.all()?;
        }
        Ok(met)
    }

    fn all(&mut self) -> Result<bool> {
        let mut met = self.one()?;
        while self.takes("AND") {
            met &= self.one()?;
        }
        Ok(met)
    }

    fn one(&mut self) -> Result<bool> {
        let Some((word, rest)) = self.words.split_first() else { bail!("a licence is missing at the end") };
        self.words = rest;
        if *word == "(" {
            let met = self.any()?;
            ensure!(self.takes(")"), "a bracket is not closed");
            return Ok(met);
        }
        ensure!(!["AND", "OR", "WITH", ")"].contains(word), "a licence is missing before `{word}`");
        if !self.takes("WITH") {
            return Ok((self.is_allowed)(word));
        }
        let Some((exception, rest)) = self.words.split_first() else { bail!("WITH names no exception") };
        self.words = rest;
        Ok((self.is_allowed)(&format!("{word} WITH {exception}")))
    }

    fn takes(&mut self, wanted: &str) -> bool {
        match self.words.split_first() {
            Some((word, rest)) if *word == wanted => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(expression: &str) -> bool {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];
        is_met(expression, &|name| allowed.contains(&name)).unwrap()
    }

    #[test]
    fn one_side_of_an_or_and_both_of_an_and_must_be_allowed() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0-only",
            "GPL-3.0-only OR MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "(MIT OR GPL-3.0-only) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0-only AND MIT OR MIT",
        ] {
            assert!(met(good), "{good}");
        }
        for bad in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND GPL-3.0-only",
            "MIT AND (GPL-3.0-only OR AGPL-3.0-only)",
            "MIT WITH LLVM-exception",
            "mit",
            "GPL-3.0-only OR MIT AND AGPL-3.0-only",
        ] {
            assert!(!met(bad), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_never_a_yes() {
        for broken in ["", "MIT OR", "OR MIT", "MIT Apache-2.0", "(MIT", "MIT)", "MIT WITH", "AND", "()"] {
            assert!(is_met(broken, &|_| true).is_err(), "{broken:?}");
        }
    }
}
