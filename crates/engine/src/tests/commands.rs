//! Commands behind more than are read at once.

use std::collections::BTreeMap;

use landfall_core::ports::store::{Command, CommandKind, Log, Reads, Write};
use landfall_core::transaction::TxState;
use landfall_core::{CommandId, Millis, Slot, TxId};

use super::{Handled, LANE, TokioClock, engine, engine_on, submit, until};
use crate::actions::COMMANDS;

async fn until_cancelled(store: &Handled, tx: TxId) {
    until("it is cancelled", async || {
        store.memory.tx(tx).await.unwrap().unwrap().tx.status.state == TxState::Cancelled
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_read_behind_more_fills_than_are_read_at_once_although_none_of_them_can_be_done() {
    let (engine, store) = engine().await;
    let handle = engine.handle();
    let tx = submit(&handle).await;
    for _ in 0..2 * COMMANDS {
        handle.command(LANE, CommandKind::Fill { from: Slot(3), to: Slot(3) }).await.unwrap();
    }
    handle.command(LANE, CommandKind::Cancel { tx }).await.unwrap();
    until_cancelled(&store, tx).await;
    let open = store.memory.commands(LANE, u32::MAX).await.unwrap().len();
    assert_eq!(open, 2 * COMMANDS as usize, "the chain was never seen");
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_signer_a_cancel_is_read_behind_more_than_can_be_done_without_one() {
    let (engine, store) = engine().await;
    let handle = engine.handle();
    let tx = submit(&handle).await;
    engine.stop().await;
    let resets = std::iter::repeat_n(CommandKind::Reset, 2 * COMMANDS as usize);
    for (number, kind) in (1..).zip(resets.chain([CommandKind::Cancel { tx }])) {
        let command =
            Command { id: CommandId::new(Millis(1), number), lane: LANE, kind, at: Millis(1), by: None };
        store.memory.write(vec![Write::Command(Box::new(command))]).await.remove(0).unwrap();
    }
    let engine = engine_on(&store, TokioClock::new(), BTreeMap::new()).await;
    until_cancelled(&store, tx).await;
    engine.stop().await;
}
