//! What `cargo xtask counts` runs under valgrind:
//!
//! ```sh
//! cargo run -p landfall-benches --example instructions                     # the cases, their rounds, and things per round
//! cargo run -p landfall-benches --example instructions -- <case> <rounds>  # runs one
//! ```
//!
//! The same case with the same rounds runs the same instructions each time.

use anyhow::{Context, Result, bail};
use landfall_benches::cases::Case;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next(), arguments.next()) {
        (None, None) => {
            for case in Case::ALL {
                println!("{} {} {}", case.name(), case.rounds(), case.per_round());
            }
            Ok(())
        }
        (Some(case), Some(rounds)) => {
            let rounds = rounds.parse().with_context(|| format!("`{rounds}` is no number of rounds"))?;
            Case::from_name(&case)?.run(rounds)
        }
        _ => bail!("say a case and how many rounds, or nothing to see what there is"),
    }
}
