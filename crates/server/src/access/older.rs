//! Who may steer while the store is an older copy of itself: keys that were revoked since the copy was made are valid in it again.

use axum::http::Method;

use super::caller::Caller;
use super::role::{Need, Role};
use crate::problem::{Code, Problem};
use crate::serve::App;

/// A request that must not be done by the word of a key that may have been revoked. Handing in is not among them, since it waits; nor
/// is revoking, since that only takes away.
pub(crate) fn needs_a_sure_key(method: &Method, path: &str, need: Need) -> bool {
    if matches!(*method, Method::GET | Method::HEAD) || path == "/api/v1/api-keys/{id}" {
        return false;
    }
    match need {
        Need::Role(Role::Approver | Role::Operator | Role::Admin) => true,
        // Another content for what was handed in by somebody else.
        Need::Role(Role::Submitter) => path == "/api/v1/tx/{id}/replace",
        Need::Role(Role::Viewer) | Need::Nobody => false,
    }
}

/// Refuses a key of the store where the store is older. The administrator's key that is not in it may go on, and so may callers of an
/// open server.
pub(super) async fn may(
    app: &App,
    caller: &Caller,
    (method, path, need): (&Method, &str, Need),
) -> Result<(), Problem> {
    let is_sure = caller.key.is_none() || caller.admin.is_some();
    if is_sure || !needs_a_sure_key(method, path, need) || app.handle.older().await?.is_none() {
        return Ok(());
    }
    let detail = "the store is an older copy of itself, in which API keys that were revoked since are valid again. Until it is \
                  accepted, only the administrator's key that is not in the store may do this: set LANDFALL_ADMIN_KEY or \
                  access.admin_key_file, start the server again, revoke again what was revoked, and run `landfall store accept` \
                  with that key";
    Err(Problem::new(Code::StoreOlder, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::table::TABLE;

    #[test]
    fn what_only_hands_in_or_takes_away_needs_no_sure_key_and_everything_that_steers_does() {
        let free: Vec<_> = TABLE
            .iter()
            .filter(|(method, path, need)| *method != Method::GET && !needs_a_sure_key(method, path, *need))
            .map(|(_, path, _)| *path)
            .filter(|path| path.starts_with("/api/"))
            .collect();
        assert_eq!(
            free,
            [
                "/api/v1/tx",
                "/api/v1/tx/batch",
                "/api/v1/tx/{id}/cancel",
                "/api/v1/tx/{id}/speed-up",
                "/api/v1/tx/{id}/retry",
                "/api/v1/api-keys/{id}",
            ]
        );
    }
}
