//! Going on with a chain that took back what was final: everything of it stays.

use landfall_core::ports::reorg::{self, Error};
use landfall_core::ports::store::{ChainRecord, Write};
use landfall_core::view::BlockRef;
use landfall_core::{ChainId, Slot};

use crate::fixtures::*;
use crate::world::World;

const CHAIN: ChainId = ChainId(1);

fn block(number: u64, fork: u64) -> BlockRef {
    BlockRef { number, hash: hash(fork).0 }
}

pub(crate) async fn a_chain_is_known_by_the_block_that_a_person_accepts_and_keeps_everything(world: World) {
    let store = world.store();
    admit_new(store, keyed(lane(1), 1, "a")).await;
    let token = own(store, lane(1)).await;
    let mut first = bind(lane(1), token, 0, 1, 7);
    first.row.history = Some(Slot(6));
    commit(store, first).await.unwrap();
    let genesis = hash(1).0;
    let record = ChainRecord { chain: CHAIN, genesis, scanned: block(90, 90), settled: Some(block(50, 50)) };
    write_one(store, Write::Chain(Box::new(record.clone()))).await.unwrap();

    // Not while anybody is at work, not if it is another chain, and not if nothing was replaced.
    let at_work = reorg::accept(store, CHAIN, genesis, block(50, 51)).await;
    assert!(matches!(at_work, Err(Error::AtWork)), "{at_work:?}");
    store.close_session(session(1)).await.unwrap();
    let other = reorg::accept(store, CHAIN, hash(2).0, block(50, 51)).await.unwrap_err().to_string();
    assert!(other.contains("landfall chain forget 1"), "{other}");
    let same = reorg::accept(store, CHAIN, genesis, block(50, 50)).await;
    assert!(matches!(same, Err(Error::Unchanged { .. })), "{same:?}");
    let unknown = reorg::accept(store, ChainId(99), genesis, block(50, 51)).await;
    assert!(matches!(unknown, Err(Error::UnknownChain(_))), "{unknown:?}");
    assert_eq!(store.chain(CHAIN).await.unwrap(), Some(record.clone()), "nothing was changed");

    let accepted = reorg::accept(store, CHAIN, genesis, block(50, 51)).await.unwrap();
    let wanted = ChainRecord { scanned: block(50, 51), settled: Some(block(50, 51)), ..record };
    assert_eq!(accepted, wanted);
    assert_eq!(store.chain(CHAIN).await.unwrap(), Some(wanted));
    // The key is taken, the slot is bound, and what is history is known.
    let known = store.tx_by_request(account(1), &key("a")).await.unwrap().unwrap();
    assert_eq!((known.tx.id, known.tx.status.slot), (tx_id(1), Some(Slot(7))));
    let loaded = store.load_lane(lane(1)).await.unwrap();
    assert_eq!((loaded.bound.len(), loaded.attempts.len(), loaded.row.history), (1, 1, Some(Slot(6))));
    let again = reorg::accept(store, CHAIN, genesis, block(50, 51)).await;
    assert!(matches!(again, Err(Error::Unchanged { .. })), "{again:?}");
}

pub(crate) async fn a_chain_without_a_final_block_has_nothing_to_accept(world: World) {
    let store = world.store();
    let genesis = hash(1).0;
    let record = ChainRecord { chain: CHAIN, genesis, scanned: block(5, 5), settled: None };
    write_one(store, Write::Chain(Box::new(record))).await.unwrap();
    let nothing = reorg::accept(store, CHAIN, genesis, block(5, 6)).await;
    assert!(matches!(nothing, Err(Error::NothingFinal(_))), "{nothing:?}");
}
