use alloy_primitives::{Address, B256};
use landfall_core::fees::FeeQuote;
use landfall_core::view::{AccountView, Block, BlockRef, Tags};
use landfall_core::witness::Witnessed;
use landfall_core::{Gas, Millis, Price};

use super::*;

const CHAIN: ChainId = ChainId(7);

fn lane(n: u8) -> LaneId {
    LaneId { chain: CHAIN, signer: Account(Address::with_last_byte(n)) }
}

pub(crate) fn news(head: u8, asked: &[LaneId]) -> News {
    let at = BlockRef { number: u64::from(head), hash: B256::with_last_byte(head) };
    let (timestamp, gas_limit) = (Millis(0), Gas(30_000_000));
    let price = Price(1);
    let look = Look(u64::from(head));
    let account =
        AccountView { count: Slot(0), balance: None, delegated: false, at, read: look, agreed: true };
    let view = ChainView {
        status: ChainStatus::Live,
        head: Block { at, parent: B256::ZERO, timestamp, gas_limit, base_fee: None },
        head_since: Millis(0),
        recent: Arc::default(),
        witnessed: Witnessed::by_one(at.number),
        safe: None,
        finalized: None,
        tags: Tags::default(),
        fees: FeeQuote { base_fee: None, slow: price, normal: price, fast: price, data_fee: None },
        accounts: asked.iter().map(|lane| (lane.signer, account)).collect(),
    };
    let asked = asked.iter().map(|lane| lane.signer).collect();
    News { look, view: Arc::new(view), receipts: BTreeMap::new(), asked, for_all: false }
}

fn receipt_for(lane: LaneId, hash: TxHash, mut news: News) -> News {
    let (gas_used, gas_price) = (Gas(21_000), Price(1));
    let block = news.view.head.at;
    let receipt =
        Receipt { hash, block, index: 0, success: true, gas_used, gas_price, data_fee: None, contract: None };
    news.receipts.insert(lane, vec![receipt]);
    news
}

/// A directory, and two lanes that were shown head 1: the first is at work, the second at rest.
fn one_at_rest() -> (Directory, [Arc<Mailbox>; 2]) {
    let directory = Directory::default();
    let mailboxes = [Arc::<Mailbox>::default(), Arc::default()];
    for (n, mailbox) in (1..).zip(&mailboxes) {
        directory.enter(lane(n), Pace::Busy, mailbox.clone(), std::iter::empty());
    }
    let first = news(1, &[lane(1), lane(2)]);
    let view = first.view.clone();
    directory.publish(CHAIN, first);
    for (n, mailbox) in (1..).zip(&mailboxes) {
        assert!(mailbox.has_mail(), "lane {n} is shown its first count");
        empty(mailbox);
        directory.took(lane(n), Some(&view), None);
    }
    directory.goes_at(lane(2), Pace::Resting);
    (directory, mailboxes)
}

/// Reads all mail, and says whether there was any.
fn empty(mailbox: &Mailbox) -> bool {
    let had = mailbox.has_mail();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(mailbox.take(std::time::Duration::ZERO));
    had
}

fn shown(directory: &Directory) -> Option<u64> {
    directory.shown(CHAIN).0.map(|view| view.head.at.number)
}

#[test]
fn a_lane_at_rest_is_woken_only_by_what_is_about_itself() {
    let (directory, [at_work, at_rest]) = one_at_rest();
    let hash = TxHash(B256::with_last_byte(9));
    let cases = [
        (news(2, &[]), false, "a new head"),
        (news(3, &[lane(1)]), false, "another's count"),
        (news(4, &[lane(2)]), true, "its own count"),
        (receipt_for(lane(2), hash, news(5, &[])), true, "a receipt"),
        (News { for_all: true, ..news(6, &[]) }, true, "another fork"),
    ];
    for (news, wakes, what) in cases {
        directory.publish(CHAIN, news);
        assert!(empty(&at_work), "one at work is told of every head: {what}");
        assert_eq!(empty(&at_rest), wakes, "{what}");
        directory.goes_at(lane(2), Pace::Resting);
    }
}

#[test]
fn callers_are_shown_a_head_when_every_lane_that_has_something_to_store_has_stored_it() {
    let (directory, [_, at_rest]) = one_at_rest();
    assert_eq!(shown(&directory), Some(1));
    let second = news(2, &[]);
    directory.publish(CHAIN, News { view: second.view.clone(), ..news(2, &[]) });
    assert_eq!(shown(&directory), Some(1), "one has not stored it");
    directory.took(lane(1), Some(&second.view), None);
    assert_eq!(shown(&directory), Some(2), "and the other has nothing to store");

    let third = receipt_for(lane(2), TxHash(B256::ZERO), news(3, &[]));
    let view = third.view.clone();
    directory.publish(CHAIN, third);
    directory.took(lane(1), Some(&view), None);
    // A turn that began before says that there is nothing to do.
    directory.goes_at(lane(2), Pace::Resting);
    let fourth = news(4, &[]);
    directory.publish(CHAIN, News { view: fourth.view.clone(), ..news(4, &[]) });
    directory.took(lane(1), Some(&fourth.view), None);
    assert_eq!(shown(&directory), Some(2), "its receipt is not stored yet");
    empty(&at_rest);
    directory.took(lane(2), Some(&fourth.view), None);
    assert_eq!(shown(&directory), Some(4));
}

#[test]
fn a_lane_that_is_loaded_again_waits_for_a_count_of_the_newest_head() {
    let (directory, _) = one_at_rest();
    let reload = |mailbox: &Arc<Mailbox>| {
        directory.leave(lane(2));
        directory.enter(lane(2), Pace::Busy, mailbox.clone(), std::iter::empty());
    };
    let mailbox = Arc::<Mailbox>::default();
    reload(&mailbox);
    assert!(mailbox.has_mail() && !directory.is_asked(CHAIN), "it was asked at this head");
    directory.publish(CHAIN, news(2, &[lane(1)]));
    let mailbox = Arc::<Mailbox>::default();
    reload(&mailbox);
    assert!(!mailbox.has_mail());
    assert_eq!(directory.asking(CHAIN), [lane(2).signer].into());
    directory.publish(CHAIN, news(3, &[]));
    assert!(!mailbox.has_mail(), "a view without its count");
    directory.publish(CHAIN, news(3, &[lane(2)]));
    assert!(mailbox.has_mail() && !directory.is_asked(CHAIN));
}

#[test]
fn the_hashes_of_a_lane_go_with_it() {
    let (directory, _) = one_at_rest();
    let hashes = [1, 2, 3].map(|n| TxHash(B256::with_last_byte(n)));
    directory.want(lane(1), hashes.iter().copied());
    directory.want(lane(1), hashes.iter().copied());
    directory.forget(lane(1), &hashes[..2]);
    assert!(directory.wants_any(CHAIN));
    directory.leave(lane(1));
    assert!(!directory.wants_any(CHAIN));
}

/// It left, and was no more in what the watcher knows when the head was shown again for another lane.
#[test]
fn a_lane_that_comes_back_waits_for_its_count_where_the_newest_view_has_none() {
    let (directory, _) = one_at_rest();
    directory.leave(lane(2));
    directory.publish(CHAIN, news(1, &[lane(1)]));
    let mailbox = Arc::<Mailbox>::default();
    directory.enter(lane(2), Pace::Busy, mailbox.clone(), std::iter::empty());
    assert!(!mailbox.has_mail() && directory.is_asked(CHAIN));
    directory.publish(CHAIN, news(1, &[lane(2)]));
    assert!(mailbox.has_mail() && !directory.is_asked(CHAIN));
}

#[test]
fn a_lane_that_wants_the_head_is_asked_about_once_at_whatever_look() {
    let (directory, [_, at_rest]) = one_at_rest();
    assert!(directory.wants_head(lane(2)), "somebody has to look");
    assert!(!directory.wants_head(lane(2)), "somebody does");
    assert_eq!(directory.asking(CHAIN), [lane(2).signer].into());
    directory.publish(CHAIN, news(2, &[lane(1)]));
    assert!(directory.is_asked(CHAIN), "it was another's");
    directory.publish(CHAIN, news(2, &[lane(2)]));
    assert!(!directory.is_asked(CHAIN) && empty(&at_rest));
}

/// What a look finds that has begun before may be older than the question.
#[test]
fn a_lane_that_asks_anew_is_asked_about_by_a_look_that_begins_then() {
    let (directory, _) = one_at_rest();
    let under_way = directory.begin_look(CHAIN);
    assert_eq!(directory.wants_anew(lane(2)), under_way);
    let found = |look: Look| News { look, ..news(2, &[lane(2)]) };
    directory.publish(CHAIN, found(under_way));
    assert_eq!(directory.asking(CHAIN), [lane(2).signer].into());
    let next = directory.begin_look(CHAIN);
    directory.publish(CHAIN, found(next));
    assert!(!directory.is_asked(CHAIN));
}

#[test]
fn nobody_asks_for_a_lane_that_has_gone() {
    let (directory, _) = one_at_rest();
    directory.wants_anew(lane(2));
    directory.leave(lane(2));
    assert!(!directory.is_asked(CHAIN));
    assert!(!directory.wants_head(lane(2)));
    directory.wants_anew(lane(2));
    assert!(!directory.is_asked(CHAIN));
}
