//! Who may write a lane (L1).

use std::collections::BTreeMap;

use landfall_core::Token;
use landfall_core::ports::store::{Acquired, Broken, Holders, Pulse};

use crate::fixtures::*;
use crate::world::World;

async fn two_sessions(world: &World) {
    for n in 1..=2 {
        world.store().open_session(session(n), &format!("node-{n}"), LEASE).await.unwrap();
    }
}

pub(crate) async fn the_first_token_is_one_and_every_acquisition_raises_it(world: World) {
    let store = world.store();
    two_sessions(&world).await;
    assert_eq!(acquire(store, lane(1), 1).await, Token(1));
    assert_eq!(acquire(store, lane(1), 1).await, Token(2), "also by the same session");
    assert_eq!(acquire(store, lane(2), 1).await, Token(1), "each lane has its own");
    assert_eq!(store.load_lane(lane(1)).await.unwrap().token, Token(2));
}

pub(crate) async fn a_lane_held_by_a_live_session_is_refused_to_others(world: World) {
    let store = world.store();
    two_sessions(&world).await;
    let token = acquire(store, lane(1), 1).await;
    let held = store.acquire(lane(1), session(2)).await.unwrap();
    assert_eq!(held, Acquired::HeldBy { node: "node-1".to_owned(), session: session(1) });
    commit(store, turn(lane(1), token, 0)).await.unwrap();
    assert!(store.renew_session(session(1), LEASE).await.unwrap());
}

pub(crate) async fn a_released_lane_is_taken_by_another_with_a_higher_token(world: World) {
    let store = world.store();
    two_sessions(&world).await;
    let token = acquire(store, lane(1), 1).await;
    store.release(lane(1), session(1), token).await.unwrap();
    let free = store.lane(lane(1)).await.unwrap().unwrap();
    assert_eq!((free.owner, free.token), (None, token), "the row and the token stay");
    assert_eq!(acquire(store, lane(1), 2).await, Token(2));
}

pub(crate) async fn a_release_under_an_old_token_releases_nothing(world: World) {
    let store = world.store();
    two_sessions(&world).await;
    let old = acquire(store, lane(1), 1).await;
    let token = acquire(store, lane(1), 1).await;
    store.release(lane(1), session(1), old).await.unwrap();
    store.release(lane(1), session(2), token).await.unwrap();
    store.release(lane(9), session(1), token).await.unwrap();
    let owner = store.lane(lane(1)).await.unwrap().unwrap().owner;
    assert_eq!(owner, Some(("node-1".to_owned(), session(1))));
}

pub(crate) async fn a_closed_session_gives_its_lanes_back(world: World) {
    let store = world.store();
    two_sessions(&world).await;
    acquire(store, lane(1), 1).await;
    acquire(store, lane(2), 2).await;
    store.close_session(session(1)).await.unwrap();
    assert_eq!(acquire(store, lane(1), 2).await, Token(2));
    let owner = store.lane(lane(2)).await.unwrap().unwrap().owner;
    assert_eq!(owner, Some(("node-2".to_owned(), session(2))));
}

pub(crate) async fn a_closed_session_cannot_be_renewed_or_used(world: World) {
    let store = world.store();
    two_sessions(&world).await;
    store.close_session(session(1)).await.unwrap();
    assert!(!store.renew_session(session(1), LEASE).await.unwrap());
    assert!(!store.renew_session(session(7), LEASE).await.unwrap(), "nor one that never was");
    store.acquire(lane(1), session(1)).await.unwrap_err();
    store.close_session(session(1)).await.unwrap();
}

pub(crate) async fn after_a_takeover_the_old_owner_cannot_write(world: World) {
    let store = world.store();
    two_sessions(&world).await;
    admit_new(store, request(lane(1), 1)).await;
    let old = acquire(store, lane(1), 1).await;
    commit(store, turn(lane(1), old, 0)).await.unwrap();
    store.close_session(session(1)).await.unwrap();
    let new = acquire(store, lane(1), 2).await;
    assert!(new > old);
    assert!(is_fenced(&commit(store, bind(lane(1), old, 1, 1, 0)).await));
    commit(store, bind(lane(1), new, 1, 1, 0)).await.unwrap();
}

pub(crate) async fn an_acquisition_keeps_what_the_lane_holds(world: World) {
    let store = world.store();
    two_sessions(&world).await;
    admit_new(store, request(lane(1), 1)).await;
    let token = acquire(store, lane(1), 1).await;
    commit(store, bind(lane(1), token, 0, 1, 5)).await.unwrap();
    let before = store.load_lane(lane(1)).await.unwrap();
    acquire(store, lane(1), 1).await;
    let after = store.load_lane(lane(1)).await.unwrap();
    assert_eq!((after.version, &after.row), (before.version, &before.row));
    assert_eq!((after.bound, after.attempts), (before.bound, before.attempts));
}

pub(crate) async fn everybody_sees_who_is_there_and_who_has_what(world: World) {
    let store = world.store();
    assert_eq!(store.holders().await.unwrap(), Holders::default());
    two_sessions(&world).await;
    let token = acquire(store, lane(1), 1).await;
    acquire(store, lane(2), 2).await;
    let both = Holders {
        live: [session(1), session(2)].into(),
        held: [(lane(1), session(1)), (lane(2), session(2))].into(),
        pulses: BTreeMap::new(),
    };
    let holders = store.holders().await.unwrap();
    assert!(holders.pulses.values().all(|pulse| pulse.lasting == LEASE), "{holders:?}");
    assert_eq!(Holders { pulses: BTreeMap::new(), ..holders }, both);
    store.release(lane(1), session(1), token).await.unwrap();
    store.close_session(session(2)).await.unwrap();
    let one = Holders { live: [session(1)].into(), ..Holders::default() };
    let holders = store.holders().await.unwrap();
    assert_eq!(Holders { pulses: BTreeMap::new(), ..holders }, one, "what was given back is nobody's");
}

pub(crate) async fn a_session_is_ended_by_its_last_sign_of_life_or_not_at_all(world: World) {
    let store = world.store();
    two_sessions(&world).await;
    admit_new(store, request(lane(1), 1)).await;
    let token = acquire(store, lane(1), 1).await;
    let pulse = async || store.holders().await.unwrap().pulses.get(&session(1)).copied();
    let Some(first) = pulse().await else {
        // Where a lock stands for leases, nobody ends another's session.
        let any = Pulse { number: 0, lasting: LEASE };
        assert!(!store.end_session(session(1), any).await.unwrap());
        return commit(store, turn(lane(1), token, 0)).await.map(|_| ()).unwrap();
    };
    assert!(store.renew_session(session(1), LEASE).await.unwrap());
    assert!(!store.end_session(session(1), first).await.unwrap(), "it was renewed since");
    commit(store, turn(lane(1), token, 0)).await.unwrap();
    let last = pulse().await.unwrap();
    assert_ne!(first.number, last.number);
    assert!(store.end_session(session(1), last).await.unwrap());
    assert!(!store.end_session(session(1), last).await.unwrap(), "once");
    assert!(!store.renew_session(session(1), LEASE).await.unwrap());
    assert_eq!(store.lane(lane(1)).await.unwrap().unwrap().owner, None);
    assert_eq!(acquire(store, lane(1), 2).await, Token(token.0 + 1));
    assert!(is_fenced(&commit(store, bind(lane(1), token, 1, 1, 0)).await));
    // One that comes back begins with a sign of life of its own.
    store.open_session(session(1), "node-1", LEASE).await.unwrap();
    assert!(!store.end_session(session(1), last).await.unwrap());
}

pub(crate) async fn a_lease_is_broken_by_a_persons_word_about_its_owner_and_no_other(world: World) {
    let store = world.store();
    two_sessions(&world).await;
    admit_new(store, request(lane(1), 1)).await;
    let token = acquire(store, lane(1), 1).await;
    acquire(store, lane(2), 1).await;
    acquire(store, lane(3), 2).await;
    match store.break_lease(lane(1), session(2)).await.unwrap() {
        Broken::NoLeases => return,
        said => assert_eq!(said, Broken::NotHeld, "another has it"),
    }
    assert_eq!(store.break_lease(lane(9), session(1)).await.unwrap(), Broken::NotHeld, "never heard of");
    assert_eq!(store.break_lease(lane(1), session(1)).await.unwrap(), Broken::Yes { lanes: 2 });
    assert_eq!(store.break_lease(lane(1), session(1)).await.unwrap(), Broken::NotHeld);
    assert_eq!(acquire(store, lane(1), 2).await, Token(token.0 + 1));
    // The person was wrong: its owner lives.
    assert!(is_fenced(&commit(store, bind(lane(1), token, 0, 1, 0)).await));
    assert!(!store.renew_session(session(1), LEASE).await.unwrap());
    acquire(store, lane(2), 2).await;
    let third = store.acquire(lane(3), session(2)).await.unwrap();
    assert!(matches!(third, Acquired::Yes { .. }), "{third:?}");
}
