//! Looks at single transactions, of which nobody knows how large they are before they are read: a key has few under way at once, however
//! many it asks for, so that others have their turn beside; and none while it leaves unread what it was answered before.

use super::caller::Caller;
use super::quota::Turn;
use crate::problem::Problem;
use crate::serve::App;

/// A turn, to be held until the answer is made.
pub(crate) async fn turn_to_look(app: &App, caller: &Caller) -> Result<Turn, Problem> {
    let turn = app.keyring.quotas().look(caller).await?;
    app.answers.has_room(caller.key.as_ref())?;
    Ok(turn)
}
