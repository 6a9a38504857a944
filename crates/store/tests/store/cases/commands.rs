//! Commands: inserted by anybody, applied once by the lane's owner.

use std::collections::BTreeSet;

use landfall_core::ports::store::{CommandKind, Store, Write, Written};
use landfall_core::{CommandId, Slot};

use crate::fixtures::*;
use crate::world::World;

async fn insert(store: &dyn Store, n: u64, kind: CommandKind) {
    let answer = write_one(store, Write::Command(Box::new(command(lane(1), n, kind)))).await;
    assert!(matches!(answer, Ok(Written::Command)));
}

async fn done(store: &dyn Store, version: u64, n: u64) {
    let token = store.load_lane(lane(1)).await.unwrap().token;
    let mut apply = turn(lane(1), token, version);
    apply.commands_done.push(command_id(n));
    commit(store, apply).await.unwrap();
}

pub(crate) async fn a_command_is_listed_until_it_is_done(world: World) {
    let store = world.store();
    own(store, lane(1)).await;
    let cancel = CommandKind::Cancel { tx: tx_id(9) };
    insert(store, 1, cancel.clone()).await;
    assert_eq!(store.commands(lane(1), 10).await.unwrap(), [command(lane(1), 1, cancel)]);
    assert!(store.commands(lane(2), 10).await.unwrap().is_empty());
    done(store, 0, 1).await;
    assert!(store.commands(lane(1), 10).await.unwrap().is_empty());
}

pub(crate) async fn commands_are_listed_oldest_first_up_to_the_limit(world: World) {
    let store = world.store();
    own(store, lane(1)).await;
    for n in [3, 1, 2] {
        insert(store, n, CommandKind::Pause).await;
    }
    let listed = async |limit| {
        let commands = store.commands(lane(1), limit).await.unwrap();
        commands.into_iter().map(|command| command.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(10).await, [3, 1, 2].map(command_id), "as inserted");
    assert_eq!(listed(2).await, [3, 1].map(command_id));
    done(store, 0, 1).await;
    assert_eq!(listed(10).await, [3, 2].map(command_id));
}

pub(crate) async fn commands_that_were_taken_do_not_hide_those_behind_them(world: World) {
    let store = world.store();
    own(store, lane(1)).await;
    for n in 1..=40 {
        insert(store, n, CommandKind::Fill { from: Slot(n), to: Slot(n) }).await;
    }
    for (n, kind) in [(41, CommandKind::Pause), (42, CommandKind::Resume), (43, CommandKind::Pause)] {
        insert(store, n, kind).await;
    }
    let listed = async |taken: &BTreeSet<CommandId>, limit| {
        let commands = store.open_commands(lane(1), taken, limit).await.unwrap();
        commands.into_iter().map(|command| command.id).collect::<Vec<_>>()
    };
    let mut taken: BTreeSet<CommandId> = (1..=40).map(command_id).collect();
    assert_eq!(listed(&taken, 2).await, [41, 42].map(command_id), "oldest first");
    assert_eq!(listed(&taken, 10).await, [41, 42, 43].map(command_id));
    taken.remove(&command_id(7));
    assert_eq!(listed(&taken, 2).await, [7, 41].map(command_id));
    taken.extend([7, 41, 42, 43].map(command_id));
    assert!(listed(&taken, 10).await.is_empty());
    assert_eq!(store.commands(lane(1), 100).await.unwrap().len(), 43, "they are open all the same");
}

pub(crate) async fn a_command_inserted_twice_is_accepted_once(world: World) {
    let store = world.store();
    let twice = [(); 2].map(|()| Write::Command(Box::new(command(lane(1), 1, CommandKind::Pause))));
    let answers = store.write(twice.into()).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Written::Command))));
    insert(store, 1, CommandKind::Resume).await;
    assert_eq!(store.commands(lane(1), 10).await.unwrap(), [command(lane(1), 1, CommandKind::Pause)]);
}

pub(crate) async fn a_command_that_was_done_stays_done(world: World) {
    let store = world.store();
    own(store, lane(1)).await;
    insert(store, 1, CommandKind::Pause).await;
    done(store, 0, 1).await;
    insert(store, 1, CommandKind::Pause).await;
    assert!(store.commands(lane(1), 10).await.unwrap().is_empty());
    done(store, 1, 1).await;
}

pub(crate) async fn a_command_nobody_inserted_cannot_be_done(world: World) {
    let store = world.store();
    let token = own(store, lane(1)).await;
    let elsewhere = Write::Command(Box::new(command(lane(2), 2, CommandKind::Pause)));
    write_one(store, elsewhere).await.unwrap();
    for n in 1..=2 {
        let mut apply = turn(lane(1), token, 0);
        apply.commands_done.push(command_id(n));
        assert!(is_failed(&commit(store, apply).await));
    }
    assert_eq!(store.commands(lane(2), 10).await.unwrap().len(), 1);
}

pub(crate) async fn a_command_to_an_unknown_lane_gives_it_work(world: World) {
    let store = world.store();
    insert(store, 1, CommandKind::Pause).await;
    assert_eq!(store.lanes_with_work().await.unwrap(), [lane(1)]);
    assert_eq!(store.lane(lane(1)).await.unwrap().unwrap().token.0, 0);
}

pub(crate) async fn a_command_is_found_by_its_id_done_or_not(world: World) {
    let store = world.store();
    own(store, lane(1)).await;
    insert(store, 1, CommandKind::Pause).await;
    let found = async |n| store.command(command_id(n)).await.unwrap();
    assert_eq!(found(1).await, Some(command(lane(1), 1, CommandKind::Pause)));
    done(store, 0, 1).await;
    assert_eq!(found(1).await, Some(command(lane(1), 1, CommandKind::Pause)));
    assert_eq!(found(2).await, None);
}
