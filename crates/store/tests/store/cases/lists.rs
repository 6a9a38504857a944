//! Look-ups for people and for the outbox.

use alloy_primitives::B256;
use landfall_core::journal::{Entry, NewEntry};
use landfall_core::ports::store::{ChainRecord, Store, TxQuery, Write, Written};
use landfall_core::transaction::TxState;
use landfall_core::view::BlockRef;
use landfall_core::{ChainId, JournalSeq, Millis, QueueOrder, TxId};

use crate::fixtures::*;
use crate::world::World;

pub(crate) async fn a_journal_is_in_the_order_of_its_entries(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    admit_new(store, request(lane(1), 2)).await;
    let token = own(store, lane(1)).await;
    let mut both = bind(lane(1), token, 0, 1, 0);
    both.journal.push(failed_entry(2));
    both.journal.push(failed_entry(1));
    let signed = both.journal[0].entry.clone();
    commit(store, both).await.unwrap();
    let journal = store.journal(tx_id(1)).await.unwrap();
    let entries: Vec<_> = journal.iter().map(|row| row.entry.clone()).collect();
    assert_eq!(entries, [Entry::Accepted, signed, failed_entry(1).entry]);
    assert!(journal.is_sorted_by_key(|row| row.seq));
    assert!(journal.iter().all(|row| row.tx == Some(tx_id(1)) && row.lane == lane(1)));
    assert!(store.journal(tx_id(9)).await.unwrap().is_empty());
}

pub(crate) async fn the_outbox_is_paged_by_number(world: World) {
    let store = world.store();
    for n in 1..=5 {
        admit_new(store, request(lane(u8::try_from(n % 2).unwrap()), n)).await;
    }
    let all = store.journal_after(JournalSeq(0), 100).await.unwrap();
    assert_eq!(all.iter().filter_map(|row| row.tx).collect::<Vec<_>>(), [1, 2, 3, 4, 5].map(tx_id));
    assert!(all.is_sorted_by(|a, b| a.seq < b.seq));
    let mut paged = Vec::new();
    let mut after = JournalSeq(0);
    loop {
        let page = store.journal_after(after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.seq;
        paged.extend(page);
    }
    assert_eq!(paged, all);
    admit_new(store, request(lane(1), 6)).await;
    let next = store.journal_after(after, 2).await.unwrap();
    assert_eq!(next.iter().map(|row| row.tx).collect::<Vec<_>>(), [Some(tx_id(6))]);
}

/// A store may keep what one commit tells of one transaction as one row; a reader sees entries, each with its own number and time.
pub(crate) async fn a_page_may_end_between_entries_of_one_commit(world: World) {
    let store = world.store();
    admit_new(store, request(lane(1), 1)).await;
    admit_new(store, request(lane(1), 2)).await;
    let token = own(store, lane(1)).await;
    let mut told = bind(lane(1), token, 0, 1, 0);
    told.journal.extend([failed_entry(1), failed_entry(1), failed_entry(2)]);
    commit(store, told).await.unwrap();
    let all = store.journal_after(JournalSeq(0), 100).await.unwrap();
    assert_eq!(all.iter().filter_map(|row| row.tx).collect::<Vec<_>>(), [1, 2, 1, 1, 1, 2].map(tx_id));
    let times: Vec<u64> = all.iter().skip(2).map(|row| row.at.0).collect();
    assert_eq!(times, [2_000, 3_000, 3_000, 3_000]);
    assert!(all.is_sorted_by(|one, next| one.seq < next.seq), "{all:?}");
    for limit in 1..=4 {
        let (mut paged, mut after) = (Vec::new(), JournalSeq(0));
        loop {
            let page = store.journal_after(after, limit).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit as usize);
            after = last.seq;
            paged.extend(page);
        }
        assert_eq!(paged, all, "in pages of {limit}");
    }
    admit_new(store, request(lane(1), 3)).await;
    let last = all.last().unwrap().seq;
    let next = store.journal_after(last, 10).await.unwrap();
    assert_eq!(next.iter().map(|row| (row.seq > last, row.tx)).collect::<Vec<_>>(), [(true, Some(tx_id(3)))]);
}

pub(crate) async fn entries_about_a_lane_have_no_transaction(world: World) {
    let store = world.store();
    let token = own(store, lane(1)).await;
    let mut held = turn(lane(1), token, 0);
    let entry = Entry::LaneHeld { text: "paused by an operator".to_owned() };
    held.journal.push(NewEntry { tx: None, at: Millis(4), entry: entry.clone(), by: None });
    commit(store, held).await.unwrap();
    let rows = store.journal_after(JournalSeq(0), 10).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].tx, rows[0].lane, rows[0].at), (None, lane(1), Millis(4)));
    assert_eq!(rows[0].entry, entry);
}

pub(crate) async fn a_transaction_is_found_by_its_key(world: World) {
    let store = world.store();
    admit_new(store, keyed(lane(1), 1, "a")).await;
    admit_new(store, keyed(lane(2), 2, "a")).await;
    let token = own(store, lane(2)).await;
    commit(store, bind(lane(2), token, 0, 2, 0)).await.unwrap();
    let found = store.tx_by_request(account(2), &key("a")).await.unwrap().unwrap();
    assert_eq!(found.tx.id, tx_id(2));
    assert_eq!(found.attempts, [attempt(0, 0, Some(2))]);
    assert!(store.tx_by_request(account(2), &key("A")).await.unwrap().is_none());
    assert!(store.tx_by_request(account(3), &key("a")).await.unwrap().is_none());
}

async fn list(store: &dyn Store, query: TxQuery) -> Vec<TxId> {
    ids(&store.txs(&query).await.unwrap())
}

fn all() -> TxQuery {
    TxQuery { limit: 100, ..TxQuery::default() }
}

pub(crate) async fn lists_are_newest_first_and_paged_by_order(world: World) {
    let store = world.store();
    for n in [4, 2, 5, 1, 3] {
        admit_new(store, request(lane(u8::try_from(n % 3).unwrap()), n)).await;
    }
    assert_eq!(list(store, all()).await, [3, 1, 5, 2, 4].map(tx_id));
    let mut seen = Vec::new();
    let mut before: Option<QueueOrder> = None;
    loop {
        let page = store.txs(&TxQuery { before, limit: 2, ..TxQuery::default() }).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.order);
        seen.extend(ids(&page));
    }
    assert_eq!(seen, [3, 1, 5, 2, 4].map(tx_id));
    assert!(list(store, TxQuery::default()).await.is_empty(), "a limit of zero lists nothing");
}

pub(crate) async fn lists_are_filtered_by_state_signer_and_chain(world: World) {
    let store = world.store();
    // Signer 1 on chains 1 and 2, signer 2 on chain 1.
    let lanes = [lane_on(1, 1), lane_on(2, 1), lane_on(1, 2)];
    for n in 1..=12 {
        admit_new(store, request(lanes[usize::try_from(n % 3).unwrap()], n)).await;
    }
    let token = own(store, lanes[1]).await;
    let mut states = turn(lanes[1], token, 0);
    states.txs = vec![
        update(1, TxState::Confirmed, Some(0)),
        update(4, TxState::Failed, None),
        update(7, TxState::Broadcast, Some(1)),
        update(10, TxState::Accepted, Some(2)),
    ];
    commit(store, states).await.unwrap();
    let by_signer = TxQuery { signer: Some(account(1)), ..all() };
    assert_eq!(list(store, by_signer.clone()).await, [12, 10, 9, 7, 6, 4, 3, 1].map(tx_id));
    let page = TxQuery { before: Some(QueueOrder(9)), limit: 3, ..by_signer.clone() };
    assert_eq!(list(store, page).await, [7, 6, 4].map(tx_id));
    let on_chain = TxQuery { chain: Some(ChainId(2)), ..all() };
    assert_eq!(list(store, on_chain.clone()).await, [10, 7, 4, 1].map(tx_id));
    let both = TxQuery { chain: Some(ChainId(1)), ..by_signer };
    assert_eq!(list(store, both).await, [12, 9, 6, 3].map(tx_id));
    for (state, found) in [
        (TxState::Confirmed, vec![1]),
        (TxState::Failed, vec![4]),
        (TxState::Broadcast, vec![7]),
        (TxState::Signed, vec![]),
        (TxState::Accepted, vec![10]),
    ] {
        let found: Vec<_> = found.into_iter().map(tx_id).collect();
        assert_eq!(list(store, TxQuery { state: Some(state), ..on_chain.clone() }).await, found, "{state:?}");
        let signed = TxQuery { state: Some(state), signer: Some(account(1)), ..on_chain.clone() };
        assert_eq!(list(store, signed).await, found, "{state:?}");
    }
    let accepted = TxQuery { state: Some(TxState::Accepted), limit: 4, ..TxQuery::default() };
    assert_eq!(list(store, accepted).await, [12, 11, 10, 9].map(tx_id));
    assert!(list(store, TxQuery { signer: Some(account(9)), ..all() }).await.is_empty());
    assert!(list(store, TxQuery { chain: Some(ChainId(9)), ..all() }).await.is_empty());
}

pub(crate) async fn a_list_by_an_old_hash_finds_the_transaction(world: World) {
    let store = world.store();
    for n in 1..=2 {
        admit_new(store, request(lane(1), n)).await;
    }
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    let mut replaced = turn(lane(1), token, 1);
    replaced.attempts = vec![attempt(0, 1, Some(1)), attempt(1, 0, None)];
    commit(store, replaced).await.unwrap();
    for ordinal in 0..2 {
        let by_hash = TxQuery { hash: Some(attempt(0, ordinal, None).hash), ..all() };
        assert_eq!(list(store, by_hash.clone()).await, [tx_id(1)]);
        let elsewhere = TxQuery { signer: Some(account(2)), ..by_hash };
        assert!(list(store, elsewhere).await.is_empty());
    }
    let nobodys = TxQuery { hash: Some(attempt(1, 0, None).hash), ..all() };
    assert!(list(store, nobodys).await.is_empty());
    assert!(list(store, TxQuery { hash: Some(hash(9_999)), ..all() }).await.is_empty());
}

pub(crate) async fn lane_summaries_count_and_name_the_owner(world: World) {
    let store = world.store();
    for n in 1..=4 {
        admit_new(store, request(lane(2), n)).await;
    }
    admit_new(store, request(lane(1), 5)).await;
    let token = own(store, lane(2)).await;
    let mut change = bind(lane(2), token, 0, 1, 0);
    change.txs.push(update(2, TxState::Failed, None));
    commit(store, change).await.unwrap();
    let lanes = store.lanes().await.unwrap();
    assert_eq!(lanes.iter().map(|lane| lane.lane).collect::<Vec<_>>(), [lane(1), lane(2)]);
    assert_eq!((lanes[0].waiting, lanes[0].bound, &lanes[0].owner), (1, 0, &None));
    assert_eq!((lanes[1].waiting, lanes[1].bound), (2, 1));
    assert_eq!(lanes[1].owner, Some(("node-1".to_owned(), session(1))));
    assert_eq!((lanes[1].token, lanes[1].version.0), (token, 1));
    let one = store.lane(lane(2)).await.unwrap().unwrap();
    assert_eq!(format!("{one:?}"), format!("{:?}", lanes[1]));
}

pub(crate) async fn a_chain_record_is_replaced_as_a_whole(world: World) {
    let store = world.store();
    let block = |number: u64| BlockRef { number, hash: B256::repeat_byte(number.to_le_bytes()[0]) };
    let mut record = ChainRecord {
        chain: ChainId(1),
        genesis: B256::repeat_byte(9),
        scanned: block(10),
        settled: Some(block(2)),
    };
    assert!(store.chain(ChainId(1)).await.unwrap().is_none());
    for settled in [Some(block(2)), None] {
        record.settled = settled;
        record.scanned.number += 1;
        let answer = write_one(store, Write::Chain(Box::new(record.clone()))).await;
        assert!(matches!(answer, Ok(Written::Chain)));
        assert_eq!(store.chain(ChainId(1)).await.unwrap(), Some(record.clone()));
    }
    assert!(store.chain(ChainId(2)).await.unwrap().is_none());
}

pub(crate) async fn a_store_that_works_is_writable(world: World) {
    world.store().writable().await.unwrap();
    assert!(world.store().write(Vec::new()).await.is_empty());
}

pub(crate) async fn statuses_are_found_by_id_whatever_the_lane(world: World) {
    let store = world.store();
    for n in 1..=2 {
        write_one(store, Write::Admit(Box::new(request(lane(n), u64::from(n))))).await.unwrap();
    }
    let token = own(store, lane(2)).await;
    commit(store, bind(lane(2), token, 0, 2, 7)).await.unwrap();
    let found = store.statuses(&[tx_id(2), tx_id(9), tx_id(1)]).await.unwrap();
    let told: Vec<_> = found.into_iter().map(|(id, status)| (id, status.state, status.slot)).collect();
    assert_eq!(told.len(), 2, "an unknown one is left out");
    assert!(told.contains(&(tx_id(1), TxState::Accepted, None)));
    assert!(told.iter().any(|(id, _, slot)| *id == tx_id(2) && slot.map(|slot| slot.0) == Some(7)));
}

pub(crate) async fn disabled_lanes_are_listed(world: World) {
    let store = world.store();
    let token = own(store, lane(1)).await;
    own(store, lane(2)).await;
    assert!(store.disabled_lanes().await.unwrap().is_empty());
    let mut disable = turn(lane(1), token, 0);
    disable.row.disabled = true;
    commit(store, disable).await.unwrap();
    assert_eq!(store.disabled_lanes().await.unwrap(), [lane(1)]);
    commit(store, turn(lane(1), token, 1)).await.unwrap();
    assert!(store.disabled_lanes().await.unwrap().is_empty());
}
