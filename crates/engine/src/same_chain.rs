//! Whether the endpoints still show a block that was final. Where some do and some do not, those that do not serve another chain. Pure.

use alloy_primitives::B256;
use landfall_core::ports::chain::{BlockWord, ShownBlock};

/// The word of all endpoints on a block that was final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// It is part of the chain. These endpoints, by their places, serve another one; `again`: what is being looked at may be theirs.
    Stands { others: Vec<usize>, again: Option<String> },
    /// Nobody shows it, and some show another in its place.
    Replaced,
    /// Nobody shows any: they have not reached it, or do not keep blocks for so long.
    Lacked,
    /// Nobody answers.
    Silent,
}

/// The word on the block with this hash, by what each shows in its place. That one shows none proves nothing: many nodes keep the newest
/// blocks only.
pub(crate) fn word(shown: &[ShownBlock], hash: B256) -> Word {
    let is_other = |one: &&ShownBlock| matches!(one.word, BlockWord::Is(other) if other != hash);
    if !shown.iter().any(|one| one.word == BlockWord::Is(hash)) {
        let lacks = shown.iter().any(|one| one.word == BlockWord::Lacks);
        return match shown.iter().any(|one| is_other(&one)) {
            true => Word::Replaced,
            false if lacks => Word::Lacked,
            false => Word::Silent,
        };
    }
    let others = shown.iter().filter(is_other).map(|one| one.place).collect();
    let is_unproven = |one: &&ShownBlock| one.word == BlockWord::NoAnswer || is_other(one);
    let giver = shown.iter().find(|one| one.gave_head && is_unproven(one));
    Word::Stands { others, again: giver.map(|giver| giver.endpoint.clone()) }
}

/// Endpoints that show different blocks with one number, in words; none if those that answer agree.
pub(crate) fn disagreement(shown: &[ShownBlock]) -> Option<String> {
    let mut said = shown.iter().filter_map(said);
    let first = said.next()?;
    said.any(|hash| hash != first).then(|| words(shown))
}

/// How many show a block with that number.
pub(crate) fn shows(shown: &[ShownBlock]) -> usize {
    shown.iter().filter_map(said).count()
}

/// The blocks that those who answer show, in words.
pub(crate) fn words(shown: &[ShownBlock]) -> String {
    let words = shown.iter().filter_map(|one| Some(format!("{} shows {}", one.endpoint, said(one)?)));
    words.collect::<Vec<_>>().join(", ")
}

fn said(one: &ShownBlock) -> Option<B256> {
    match one.word {
        BlockWord::Is(hash) => Some(hash),
        BlockWord::Lacks | BlockWord::NoAnswer => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: B256 = B256::repeat_byte(1);
    const OTHER: B256 = B256::repeat_byte(2);

    /// Endpoints a, b, …; the place of the one that gave the head.
    fn shown(words: &[BlockWord], giver: usize) -> Vec<ShownBlock> {
        let one = |(place, word): (usize, &BlockWord)| ShownBlock {
            place,
            endpoint: char::from(b'a' + place as u8).to_string(),
            word: *word,
            gave_head: place == giver,
        };
        words.iter().enumerate().map(one).collect()
    }

    #[test]
    fn whoever_shows_another_block_than_the_known_one_serves_another_chain_if_anybody_shows_the_known_one() {
        use BlockWord::{Is, Lacks, NoAnswer};
        let (ours, other) = (Is(OURS), Is(OTHER));
        let stands = |others: &[usize], again: Option<&str>| Word::Stands {
            others: others.to_vec(),
            again: again.map(str::to_owned),
        };
        let cases: [(&[BlockWord], usize, Word); 13] = [
            (&[ours, ours], 0, stands(&[], None)),
            (&[other, ours], 1, stands(&[0], None)),
            (&[other, ours], 0, stands(&[0], Some("a"))),
            (&[other, ours, other], 2, stands(&[0, 2], Some("c"))),
            (&[Lacks, ours], 1, stands(&[], None)),
            (&[Lacks, ours], 0, stands(&[], None)),
            (&[NoAnswer, ours], 0, stands(&[], Some("a"))),
            (&[other, other], 0, Word::Replaced),
            (&[other, NoAnswer], 0, Word::Replaced),
            (&[other, Lacks], 1, Word::Replaced),
            (&[Lacks, NoAnswer], 0, Word::Lacked),
            (&[NoAnswer, NoAnswer], 0, Word::Silent),
            (&[], 0, Word::Silent),
        ];
        for (words, giver, wanted) in cases {
            assert_eq!(word(&shown(words, giver), OURS), wanted, "{words:?}, head by {giver}");
        }
    }

    #[test]
    fn endpoints_that_differ_are_named_with_what_each_shows() {
        use BlockWord::{Is, Lacks, NoAnswer};
        assert_eq!(disagreement(&shown(&[Is(OURS), Lacks, Is(OURS), NoAnswer], 0)), None);
        assert_eq!(disagreement(&[]), None);
        let said = disagreement(&shown(&[Is(OURS), Is(OTHER)], 0)).unwrap();
        assert_eq!(said, format!("a shows {OURS}, b shows {OTHER}"));
    }
}
