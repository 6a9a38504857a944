//! Keys that everybody knows: those of test networks and of examples. Whatever reaches their accounts on a real chain is taken by
//! programs that wait for it.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use alloy_signer_local::MnemonicBuilder;
use alloy_signer_local::coins_bip39::English;
use landfall_core::Account;
use zeroize::Zeroizing;

use super::secret::Secret;

/// The phrases that anvil and Hardhat, Ganache, Truffle and the examples of BIP-39 have, and how many of their accounts are in use.
const PHRASES: [(&str, u32); 7] = [
    ("test test test test test test test test test test test junk", 32),
    ("myth like bonus scare over problem client lizard pioneer submit female collect", 10),
    ("candy maple cake sugar pudding cream honey rich smooth crumble sweet treat", 10),
    ("abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about", 10),
    ("legal winner thank year wave sausage worth useful legal winner thank yellow", 10),
    ("letter advice cage absurd amount doctor acoustic avoid letter advice cage above", 10),
    ("zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo wrong", 10),
];

/// The other phrases of BIP-39's test vectors, whatever their index. Those of one word and a last one are known by that.
const VECTORS: [&str; 16] = [
    "legal winner thank year wave sausage worth useful legal winner thank year wave sausage worth useful legal will",
    "letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic avoid letter always",
    "legal winner thank year wave sausage worth useful legal winner thank year wave sausage worth useful legal winner thank year wave \
     sausage worth title",
    "letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic avoid letter advice cage \
     absurd amount doctor acoustic bless",
    "ozone drill grab fiber curtain grace pudding thank cruise elder eight picnic",
    "gravity machine north sort system female filter attitude volume fold club stay feature office ecology stable narrow fog",
    "hamster diagram private dutch cause delay private meat slide toddler razor book happy fancy gospel tennis maple dilemma loan word \
     shrug inflict delay length",
    "scheme spot photo card baby mountain device kick cradle pact join borrow",
    "horn tenant knee talent sponsor spell gate clip pulse soap slush warm silver nephew swap uncle crack brave",
    "panda eyebrow bullet gorilla call smoke muffin taste mesh discover soft ostrich alcohol speed nation flash devote level hobby \
     quick inner drive ghost inside",
    "cat swing flag economy stadium alone churn speed unique patch report train",
    "light rule cinnamon wrap drastic word pride squirrel upgrade then income fatal apart sustain crack supply proud access",
    "all hour make first leader extend hole alien behind guard gospel lava path output census museum junior mass reopen famous sing \
     advance salt reform",
    "vessel ladder alter error federal sibling chat ability sun glass valve picture",
    "scissors invite lock maple supreme raw rapid void congress muscle digital elegant little brisk hair mango congress clump",
    "void come effort suffer camp survey warrior heavy shoot primary clutch crush open amazing screen patrol group space point ten \
     exist slush involve unfold",
];

/// Everybody knows the phrase, so everybody has the keys at all its indices.
pub(super) fn is_public_phrase(words: &[&str]) -> bool {
    let is_repeated = words.split_last().is_some_and(|(_, rest)| rest.windows(2).all(|two| two[0] == two[1]));
    let mut known = PHRASES.iter().map(|(phrase, _)| *phrase).chain(VECTORS);
    is_repeated || known.any(|phrase| phrase.split(' ').eq(words.iter().copied()))
}

/// The keys 1, 2, 3, …, and those of one byte repeated, as examples have them.
const SMALLEST: u8 = 32;

/// Its private key is public.
pub(super) fn is_public(account: Account) -> bool {
    static KNOWN: OnceLock<BTreeSet<Account>> = OnceLock::new();
    KNOWN.get_or_init(all).contains(&account)
}

fn all() -> BTreeSet<Account> {
    let small = (1..=SMALLEST).map(|number| {
        let mut key = [0; 32];
        key[31] = number;
        key
    });
    let repeated = (1..=u8::MAX - 1).map(|byte| [byte; 32]);
    let plain = small.chain(repeated).filter_map(|key| Secret::new(&Zeroizing::new(key)).ok());
    let of_phrase = |(phrase, count): (&'static str, u32)| {
        let parent = MnemonicBuilder::<English>::from_phrase(phrase).build_parent_key().ok();
        let keys = (0..count).filter_map(move |index| parent.as_ref()?.child(index).ok());
        keys.filter_map(|key| Secret::new(&Zeroizing::new(key.signer().to_bytes().0)).ok())
    };
    let of_phrases = PHRASES.into_iter().flat_map(of_phrase);
    plain.chain(of_phrases).map(|secret| secret.account()).collect()
}

#[cfg(test)]
mod tests {
    use alloy_primitives::address;

    use super::*;

    #[test]
    fn keys_of_test_networks_and_examples_are_known_and_others_are_not() {
        for public in [
            address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"), // anvil 0
            address!("a0Ee7A142d267C1f36714E4a8F75612F20a79720"), // anvil 9
            address!("8626f6940E2eb28930eFb4CeF49B2d1F2C9C1199"), // Hardhat 19
            address!("90F8bf6A479f320ead074411a4B0e7944Ea8c9C1"), // Ganache 0
            address!("627306090abaB3A6e1400e9345bC60c78a8BEf57"), // Truffle 0
            address!("9858EfFD232B4033E47d90003D41EC34EcaEda94"), // BIP-39
            address!("7E5F4552091A69125d5DfCb7b8C2659029395Bdf"), // key 1
            address!("2B5AD5c4795c026514f8317c7a215E218DcCD6cF"), // key 2
            address!("9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F"), // 0x46… of EIP-155
        ] {
            assert!(is_public(Account(public)), "{public}");
        }
        assert!(!is_public(Account(address!("d8dA6BF26964aF9D7eEd9e03E53415D37aA96045"))));
    }

    #[test]
    fn a_phrase_that_everybody_knows_is_known_whatever_its_length() {
        let repeated =
            |word: &str, count: usize, last: &str| format!("{}{last}", format!("{word} ").repeat(count));
        let others = [
            repeated("test", 11, "junk"),
            repeated("abandon", 11, "about"),
            repeated("abandon", 17, "agent"),
            repeated("abandon", 23, "art"),
            repeated("zoo", 11, "wrong"),
            repeated("zoo", 17, "when"),
            repeated("zoo", 23, "vote"),
        ];
        let listed = PHRASES.iter().map(|(phrase, _)| (*phrase).to_owned());
        for phrase in listed.chain(VECTORS.map(str::to_owned)).chain(others) {
            // Its checksum fits: no word of the list is mistyped.
            MnemonicBuilder::<English>::from_phrase(&*phrase).build_parent_key().unwrap();
            let words: Vec<&str> = phrase.split_whitespace().collect();
            assert!(is_public_phrase(&words), "{phrase}");
        }
        let own = "slot wrist rifle cause pitch amused lava stock early crisp swing vanish";
        assert!(!is_public_phrase(&own.split(' ').collect::<Vec<_>>()));
    }
}
