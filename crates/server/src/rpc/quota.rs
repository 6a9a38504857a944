//! How much of what callers signed themselves is kept: for everybody together, for an account, and for an API key. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use landfall_core::{Account, ChainId};

use super::error::{LIMIT, RpcError};

/// As many are kept at once, of so many bytes together.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 256 << 20;
/// And as many of one account.
const MOST_OF_ONE: usize = 64;

/// How much of one API key is kept. What came without a key, to a server that is open, has no such bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawQuota {
    /// Bytes of signed transactions.
    pub bytes: usize,
    /// Accounts that signed them, one on each chain.
    pub accounts: usize,
}

impl Default for RawQuota {
    fn default() -> Self {
        Self { bytes: 4 << 20, accounts: 100 }
    }
}

/// The share that keeping one transaction takes.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) key: Option<Arc<str>>,
    pub(super) chain: ChainId,
    pub(super) from: Account,
    pub(super) bytes: usize,
}

/// Whether one more may be kept beside these; if not, why.
pub(super) fn check<'a>(
    quota: RawQuota,
    kept: impl Iterator<Item = (Option<&'a str>, ChainId, Account, usize)>,
    new: &Claim,
) -> Result<(), RpcError> {
    let (mut all, mut bytes, mut of_account, mut of_key) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut accounts = BTreeSet::from([(new.chain, new.from)]);
    for (key, chain, from, size) in kept {
        all += 1;
        bytes += size;
        of_account += usize::from((chain, from) == (new.chain, new.from));
        if key.is_some() && key == new.key.as_deref() {
            of_key += size;
            accounts.insert((chain, from));
        }
    }
    let no = |what: String| {
        let text = format!("{what}; nothing was kept or sent: send it again when some have landed");
        Err(RpcError::coded(LIMIT, text, "rate_limited"))
    };
    if all >= MOST || bytes + new.bytes > MOST_BYTES {
        return no(format!(
            "{all} signed transactions of {bytes} bytes are being kept already, which is the most"
        ));
    }
    if of_account >= MOST_OF_ONE {
        return no(format!("{MOST_OF_ONE} signed transactions of {} are being kept already", new.from));
    }
    if new.key.is_none() {
        return Ok(());
    }
    if of_key + new.bytes > quota.bytes {
        return no(format!(
            "{of_key} bytes of signed transactions of this API key are being kept already, and this has {}; at most {} are \
             (access.max_raw_bytes_per_key)",
            new.bytes, quota.bytes
        ));
    }
    if accounts.len() > quota.accounts {
        return no(format!(
            "signed transactions of {} accounts are being kept for this API key already, which is the most \
             (access.max_raw_accounts_per_key)",
            quota.accounts
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;

    use super::*;

    const CHAIN: ChainId = ChainId(1);

    fn account(n: u8) -> Account {
        Account(Address::repeat_byte(n))
    }

    fn claim(key: Option<&str>, from: u8, bytes: usize) -> Claim {
        Claim { key: key.map(Arc::from), chain: CHAIN, from: account(from), bytes }
    }

    fn said(kept: &[(Option<&str>, u8, usize)], new: &Claim) -> String {
        let quota = RawQuota { bytes: 1_000, accounts: 3 };
        let kept = kept.iter().map(|(key, from, bytes)| (*key, CHAIN, account(*from), *bytes));
        check(quota, kept, new).map_or_else(|no| no.message, |()| "yes".to_owned())
    }

    #[test]
    fn a_key_has_its_share_of_bytes_and_accounts_and_others_have_theirs() {
        let mine = [(Some("a"), 1, 400), (Some("a"), 2, 400), (Some("b"), 9, 5_000)];
        assert_eq!(said(&mine, &claim(Some("a"), 1, 200)), "yes");
        assert!(said(&mine, &claim(Some("a"), 1, 201)).contains("access.max_raw_bytes_per_key"));
        assert_eq!(said(&mine, &claim(Some("c"), 1, 1_000)), "yes", "another key has its own");
        let three = [(Some("a"), 1, 1), (Some("a"), 2, 1), (Some("a"), 3, 1)];
        assert!(said(&three, &claim(Some("a"), 4, 1)).contains("access.max_raw_accounts_per_key"));
        assert_eq!(said(&three, &claim(Some("a"), 3, 1)), "yes");
        assert_eq!(said(&three, &claim(None, 4, 100_000)), "yes", "an open server knows no keys");
    }

    #[test]
    fn all_together_and_each_account_have_a_bound() {
        let many = vec![(Some("a"), 1, 1); MOST_OF_ONE];
        assert!(said(&many, &claim(Some("b"), 1, 1)).starts_with("64 signed transactions of 0x0101"));
        let large = [(None, 1, MOST_BYTES)];
        assert!(said(&large, &claim(Some("b"), 2, 1)).contains("which is the most"));
    }
}
