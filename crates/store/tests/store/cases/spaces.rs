//! Namespaces (E29) and restarts.

use landfall_core::ports::store::{ChainRecord, CommandKind, Store, TxQuery, Write};
use landfall_core::view::BlockRef;
use landfall_core::{ChainId, JournalSeq, Slot, Token};

use crate::fixtures::*;
use crate::world::World;

/// Everything a store can be asked about lane 1, as text.
pub(crate) async fn everything(store: &dyn Store) -> String {
    let all = TxQuery { limit: 100, ..TxQuery::default() };
    let mut text = String::new();
    let mut lanes = store.lanes().await.unwrap();
    lanes.push(store.lane(lane(1)).await.unwrap().unwrap());
    for lane in &mut lanes {
        (lane.owner, lane.owned_until) = (None, None);
    }
    text.push_str(&format!("{lanes:#?}\n"));
    text.push_str(&format!("{:#?}\n", store.load_lane(lane(1)).await.unwrap()));
    text.push_str(&format!("{:#?}\n", store.waiting(lane(1), 100).await.unwrap()));
    text.push_str(&format!("{:#?}\n", store.commands(lane(1), 100).await.unwrap()));
    text.push_str(&format!("{:#?}\n", store.txs(&all).await.unwrap()));
    text.push_str(&format!("{:#?}\n", store.tx(tx_id(1)).await.unwrap()));
    text.push_str(&format!("{:#?}\n", store.journal_after(JournalSeq(0), 100).await.unwrap()));
    text.push_str(&format!("{:#?}\n", store.chain(ChainId(1)).await.unwrap()));
    text
}

/// A lane with something of everything in it.
pub(crate) async fn fill(store: &dyn Store) -> Token {
    for n in 1..=4 {
        admit_new(store, keyed(lane(1), n, &format!("key-{n}"))).await;
    }
    let block = BlockRef { number: 1, hash: hash(1).0 };
    let record = ChainRecord { chain: ChainId(1), genesis: hash(0).0, scanned: block, settled: None };
    write_one(store, Write::Chain(Box::new(record))).await.unwrap();
    for n in 1..=2 {
        let pause = command(lane(1), n, CommandKind::Pause);
        write_one(store, Write::Command(Box::new(pause))).await.unwrap();
    }
    let token = own(store, lane(1)).await;
    commit(store, bind(lane(1), token, 0, 1, 0)).await.unwrap();
    let mut second = bind(lane(1), token, 1, 2, 1);
    second.closed.push(Slot(0));
    second.commands_done.push(command_id(1));
    commit(store, second).await.unwrap();
    token
}

pub(crate) async fn namespaces_do_not_see_each_other(mut world: World) {
    fill(world.store()).await;
    let first = everything(world.store()).await;

    world.enter("other").await;
    let store = world.store();
    assert!(store.lanes().await.unwrap().is_empty());
    assert!(store.lanes_with_work().await.unwrap().is_empty());
    assert!(store.txs(&TxQuery { limit: 10, ..TxQuery::default() }).await.unwrap().is_empty());
    let by_hash = TxQuery { hash: Some(hash(0)), limit: 10, ..TxQuery::default() };
    assert!(store.txs(&by_hash).await.unwrap().is_empty());
    assert!(store.tx(tx_id(1)).await.unwrap().is_none());
    assert!(store.tx_by_request(account(1), &key("key-1")).await.unwrap().is_none());
    assert!(store.journal(tx_id(1)).await.unwrap().is_empty());
    assert!(store.journal_after(JournalSeq(0), 10).await.unwrap().is_empty());
    assert!(store.chain(ChainId(1)).await.unwrap().is_none());
    // The same ids, keys, lanes, slots and commands are free here.
    let token = fill(store).await;
    assert_eq!(token, Token(1));

    world.enter("default").await;
    assert_eq!(everything(world.store()).await, first);
}

pub(crate) async fn everything_is_there_after_a_restart(mut world: World) {
    let token = fill(world.store()).await;
    let before = everything(world.store()).await;
    world.enter("default").await;
    assert_eq!(everything(world.store()).await, before);
    let store = world.store();
    let next = own(store, lane(1)).await;
    assert_eq!(next.0, token.0 + 1);
    assert!(is_fenced(&commit(store, turn(lane(1), token, 2)).await));
    commit(store, turn(lane(1), next, 2)).await.unwrap();
}
