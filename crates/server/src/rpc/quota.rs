//! How much of what callers signed themselves is kept: for everybody together, for an account, and for an API key. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_core::{Account, ChainId, Slot};
use tokio::time::Instant;

use super::error::{LIMIT, RpcError};

/// As many are kept at once, of so many bytes together.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 256 << 20;
/// One API key has a quarter of them at most.
const MOST_OF_KEY: usize = MOST / 4;
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

/// The place that somebody wants for one transaction.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) key: Option<Arc<str>>,
    pub(super) chain: ChainId,
    pub(super) from: Account,
    pub(super) slot: Slot,
    pub(super) bytes: usize,
    /// It would wait behind a gap.
    pub(super) waits: bool,
}

/// The place that one transaction takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share<'a> {
    pub(super) key: Option<&'a str>,
    pub(super) chain: ChainId,
    pub(super) from: Account,
    pub(super) bytes: usize,
    /// Since when it has waited behind a gap, if it does.
    pub(super) held_since: Option<Instant>,
    /// Since when only the silence of others has kept it, if it does: its nonce is used in a final block by one endpoint's word.
    pub(super) used_since: Option<Instant>,
}

impl Share<'_> {
    /// It makes room where there is none for what can be sent.
    fn yields(&self) -> bool {
        self.held_since.is_some() || self.used_since.is_some()
    }
}

impl Claim {
    pub(super) fn share(&self) -> Share<'_> {
        let Self { key, chain, from, bytes, .. } = self;
        Share {
            key: key.as_deref(),
            chain: *chain,
            from: *from,
            bytes: *bytes,
            held_since: None,
            used_since: None,
        }
    }
}

/// Whether one more may be kept beside these; if not, why. Those that wait behind a gap, and those whose nonces are used by one
/// endpoint's word, yield to one that can be sent; the latter take nothing from the shares of their account and key, or an endpoint that
/// is down would stop both.
pub(super) fn check<'a>(
    quota: RawQuota,
    kept: impl Iterator<Item = Share<'a>>,
    new: &Claim,
) -> Result<(), RpcError> {
    let (mut all, mut bytes, mut of_account) = (0_usize, 0_usize, 0_usize);
    let (mut of_key, mut bytes_of_key) = (0_usize, 0_usize);
    let mut accounts = BTreeSet::from([(new.chain, new.from)]);
    for share in kept {
        if new.waits || !share.yields() {
            all += 1;
            bytes += share.bytes;
        }
        if share.used_since.is_some() {
            continue;
        }
        of_account += usize::from((share.chain, share.from) == (new.chain, new.from));
        if share.key.is_some() && share.key == new.key.as_deref() {
            of_key += 1;
            bytes_of_key += share.bytes;
            accounts.insert((share.chain, share.from));
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
    if of_key >= MOST_OF_KEY {
        return no(format!(
            "{of_key} signed transactions of this API key are being kept already, which is the most"
        ));
    }
    if bytes_of_key + new.bytes > quota.bytes {
        return no(format!(
            "{bytes_of_key} bytes of signed transactions of this API key are being kept already, and this has {}; at most {} are \
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

/// The one that yields where there is no room for so many bytes more, and why: one whose nonce is used by one endpoint's word, or else
/// one that waits behind a gap. It came last of the key that has most such.
pub(super) fn yields<'a, Id>(
    kept: impl Iterator<Item = (Id, Share<'a>)>,
    new_bytes: usize,
) -> Option<(Id, &'static str)> {
    let (mut all, mut bytes) = (0_usize, new_bytes);
    let (mut used, mut waiting) = (Yielding::new(), Yielding::new());
    for (id, share) in kept {
        all += 1;
        bytes += share.bytes;
        match (share.used_since, share.held_since) {
            (Some(since), _) => used.entry(share.key).or_default().push((since, id)),
            (None, Some(since)) => waiting.entry(share.key).or_default().push((since, id)),
            (None, None) => {}
        }
    }
    if all < MOST && bytes <= MOST_BYTES {
        return None;
    }
    let used =
        greediest(used).map(|id| (id, "its nonce is used, by one endpoint's word, and its place was needed"));
    used.or_else(|| greediest(waiting).map(|id| (id, "it waited behind a gap, and its place was needed")))
}

/// Transactions that yield, by key.
type Yielding<'a, Id> = BTreeMap<Option<&'a str>, Vec<(Instant, Id)>>;

fn greediest<Id>(of_keys: Yielding<'_, Id>) -> Option<Id> {
    let most = of_keys.into_values().max_by_key(Vec::len)?;
    most.into_iter().max_by_key(|(since, _)| *since).map(|(_, id)| id)
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
        let (key, from, slot) = (key.map(Arc::from), account(from), Slot(0));
        Claim { key, chain: CHAIN, from, slot, bytes, waits: false }
    }

    fn share(key: Option<&str>, from: u8, bytes: usize) -> Share<'_> {
        Share { key, chain: CHAIN, from: account(from), bytes, held_since: None, used_since: None }
    }

    fn said(kept: &[(Option<&str>, u8, usize)], new: &Claim) -> String {
        let quota = RawQuota { bytes: 1_000, accounts: 3 };
        let kept = kept.iter().map(|(key, from, bytes)| share(*key, *from, *bytes));
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

    #[test]
    fn a_key_has_a_quarter_of_all_places() {
        let quota = RawQuota { bytes: usize::MAX, accounts: usize::MAX };
        let mine = |count| (0..count).map(|n| share(Some("a"), (n % 250) as u8, 1));
        assert!(check(quota, mine(MOST_OF_KEY - 1), &claim(Some("a"), 251, 1)).is_ok());
        let no = check(quota, mine(MOST_OF_KEY), &claim(Some("a"), 251, 1)).unwrap_err();
        assert!(no.message.starts_with("2500 signed transactions of this API key"), "{}", no.message);
        assert!(check(quota, mine(MOST_OF_KEY), &claim(Some("b"), 251, 1)).is_ok());
    }

    #[test]
    fn what_waits_yields_where_there_is_no_room_and_the_greediest_key_first() {
        let now = Instant::now();
        let waits = |key, after| {
            let held_since = Some(now + std::time::Duration::from_secs(after));
            Share { held_since, ..share(Some(key), 1, 1) }
        };
        let held = [waits("a", 9), waits("b", 1), waits("b", 3), waits("b", 2)];
        let all =
            |others: usize| held.into_iter().chain((0..others).map(|_| share(Some("c"), 2, 1))).enumerate();
        let who = |yields: Option<(usize, &str)>| yields.map(|(id, _)| id);
        assert_eq!(who(yields(all(0), 1)), None, "there is room");
        assert_eq!(who(yields(all(MOST - 4), 1)), Some(2));
        assert_eq!(who(yields(all(0), MOST_BYTES)), Some(2));
        assert_eq!(
            who(yields((0..MOST).map(|n| (n, share(None, 1, 1))), 1)),
            None,
            "what was sent yields to nobody"
        );
        // One that would wait itself takes no place from those that do.
        let quota = RawQuota { bytes: usize::MAX, accounts: usize::MAX };
        let shares = || all(MOST - 4).map(|(_, share)| share);
        assert!(check(quota, shares(), &claim(Some("d"), 9, 1)).is_ok());
        assert!(check(quota, shares(), &Claim { waits: true, ..claim(Some("d"), 9, 1) }).is_err());
    }

    #[test]
    fn what_only_the_silence_of_others_keeps_takes_no_share_and_yields_first() {
        let now = Instant::now();
        let used = |key| Share { used_since: Some(now), ..share(Some(key), 1, 100) };
        let quota = RawQuota { bytes: 1_000, accounts: 1 };
        let many = |count: usize| (0..count).map(|_| used("a"));
        assert!(check(quota, many(MOST), &claim(Some("a"), 1, 1_000)).is_ok(), "its own account and key");
        assert!(check(quota, many(MOST), &claim(Some("a"), 2, 1_000)).is_ok(), "another account");
        assert!(check(quota, many(MOST), &Claim { waits: true, ..claim(Some("a"), 1, 1) }).is_err());
        let held = Share { held_since: Some(now), ..share(Some("b"), 2, 1) };
        let all = (0..MOST - 1).map(|_| held).chain([used("a")]).enumerate();
        assert_eq!(yields(all, 1).map(|(id, _)| id), Some(MOST - 1), "it goes before what waits");
    }
}
