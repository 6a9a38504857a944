//! Failures as callers see them: RFC 9457 problems with a stable code. `docs/errors.md` has a line for each.

use std::fmt;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use landfall_core::ports::store;
use landfall_core::request::AskedFees;
use landfall_engine::{AcceptError, Cannot, Refused, SteerError, SubmitError};
use serde_json::json;

/// Where the owner of a lane can be reached, or else its name (L17).
const OWNER: HeaderName = HeaderName::from_static("landfall-owner");

/// Declares the codes with their status and title, so that none can be without.
macro_rules! codes {
    ($($name:ident, $text:literal, $status:ident, $title:literal;)*) => {
        /// A stable word for each kind of failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $($name),* }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word in the JSON.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The HTTP status.
            #[must_use]
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status),* }
            }

            /// What it means, the same for every occurrence.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }
        }
    };
}

codes! {
    InvalidJson, "invalid_json", BAD_REQUEST, "The body is not JSON";
    WrongContentType, "wrong_content_type", UNSUPPORTED_MEDIA_TYPE, "The body must be sent as application/json";
    BodyTooLarge, "body_too_large", PAYLOAD_TOO_LARGE, "The body is larger than allowed";
    BodyTooSlow, "body_too_slow", REQUEST_TIMEOUT, "The body did not come in time";
    TooManyBytes, "too_many_bytes", SERVICE_UNAVAILABLE, "As many bytes of bodies are being read, or of answers sent, as there may be";
    TooManyBytesOfOne, "too_many_bytes_from_address", TOO_MANY_REQUESTS, "As many bytes of bodies from one address are being read as there may be";
    TooManyConnections, "too_many_connections", SERVICE_UNAVAILABLE, "As many connections are open as there may be";
    TooManyStreams, "too_many_streams", TOO_MANY_REQUESTS, "Callers without a key hold as many streams as they may";
    MissingField, "missing_field", BAD_REQUEST, "A field is missing";
    UnknownField, "unknown_field", BAD_REQUEST, "A field is not known";
    WrongType, "wrong_type", BAD_REQUEST, "A field has the wrong type";
    BadAddress, "bad_address", BAD_REQUEST, "An address cannot be read";
    BadAmount, "bad_amount", BAD_REQUEST, "An amount cannot be read";
    BadData, "bad_data", BAD_REQUEST, "Data cannot be read";
    BadTime, "bad_time", BAD_REQUEST, "A time cannot be read";
    BadValue, "bad_value", BAD_REQUEST, "A field has a value that is not allowed";
    BadRequestId, "bad_request_id", BAD_REQUEST, "The requestId cannot be used";
    BadQuery, "bad_query", BAD_REQUEST, "The query cannot be read";
    KeysDiffer, "idempotency_keys_differ", BAD_REQUEST, "Idempotency-Key and requestId differ";
    NonceNotAllowed, "nonce_not_allowed", BAD_REQUEST, "Landfall chooses the nonce";
    ConflictingFees, "conflicting_fees", BAD_REQUEST, "The fee fields contradict each other";
    Unsupported, "unsupported", UNPROCESSABLE_ENTITY, "This is not supported yet";
    BatchTooLong, "batch_too_long", BAD_REQUEST, "The batch has too many items";
    DataTooLarge, "data_too_large", UNPROCESSABLE_ENTITY, "The data is larger than a node would take";
    MetadataTooLarge, "metadata_too_large", BAD_REQUEST, "The metadata is larger than 4 KB";
    UnknownChain, "unknown_chain", UNPROCESSABLE_ENTITY, "The chain is not configured here";
    UnknownSigner, "unknown_signer", UNPROCESSABLE_ENTITY, "The signer is not configured here";
    GasAboveLimit, "gas_above_block_limit", UNPROCESSABLE_ENTITY, "No block could hold this gas";
    GasTooLow, "gas_too_low", UNPROCESSABLE_ENTITY, "The gas does not cover the base cost";
    FeeAboveCeiling, "fee_above_ceiling", UNPROCESSABLE_ENTITY, "The fee is above the ceiling";
    GasAboveCap, "gas_above_chain_cap", UNPROCESSABLE_ENTITY, "The chain takes no such gas in one transaction";
    NotTaken, "not_taken_by_chain", UNPROCESSABLE_ENTITY, "The chain does not take such a transaction";
    BadAuthorization, "bad_authorization", UNPROCESSABLE_ENTITY, "An authorization cannot be used";
    DelegationNotAllowed, "delegation_not_allowed", FORBIDDEN, "The signer may not be delegated to this address";
    AuthorityManaged, "authority_managed", UNPROCESSABLE_ENTITY, "An authorization is by another signer of this installation";
    FinalityLacking, "finality_unavailable", UNPROCESSABLE_ENTITY, "The chain has no such finality";
    FinalityUnknown, "finality_unknown", SERVICE_UNAVAILABLE, "It is not known yet whether the chain has such a finality";
    NothingToDo, "nothing_to_do", UNPROCESSABLE_ENTITY, "The transaction does nothing";
    DeadlinePassed, "deadline_passed", UNPROCESSABLE_ENTITY, "The deadline has passed";
    RequestIdReused, "request_id_reused", UNPROCESSABLE_ENTITY, "The requestId was used for something else";
    Unauthorized, "unauthorized", UNAUTHORIZED, "An API key is needed";
    Forbidden, "forbidden", FORBIDDEN, "The API key may not do this";
    StoreOlder, "store_older", FORBIDDEN, "The store is an older copy, in which revoked API keys are valid";
    TooManyKeys, "too_many_keys", CONFLICT, "There are too many API keys";
    ChangedMeanwhile, "changed_meanwhile", CONFLICT, "It was changed by somebody else meanwhile";
    RateLimited, "rate_limited", TOO_MANY_REQUESTS, "The API key asks too often";
    TooManyWaiting, "too_many_waiting", TOO_MANY_REQUESTS, "As many transactions of the signer wait as there may";
    TooManyCommands, "too_many_commands", TOO_MANY_REQUESTS, "As many commands wait as there may";
    QuotaReached, "quota_reached", TOO_MANY_REQUESTS, "The API key has as many of these as it may";
    CrossOrigin, "cross_origin", FORBIDDEN, "A web page of another origin may not do this";
    WrongHost, "wrong_host", FORBIDDEN, "The Host header names another server";
    NotFound, "not_found", NOT_FOUND, "Not found";
    MethodNotAllowed, "method_not_allowed", METHOD_NOT_ALLOWED, "The path does not take this method";
    HistoryRemoved, "history_removed", GONE, "The history was removed";
    AlreadyFinal, "already_final", CONFLICT, "The transaction has ended";
    Ending, "ending", CONFLICT, "The transaction is being ended";
    TooManyVersions, "too_many_versions", CONFLICT, "The transaction was replaced too often";
    AtCeiling, "at_ceiling", CONFLICT, "The price cannot rise any further";
    NotAsked, "not_asked", CONFLICT, "Nobody is asked about this";
    VersionNeeded, "version_needed", CONFLICT, "It has several versions";
    HeldForNeeded, "held_for_needed", CONFLICT, "It may have landed";
    NothingToSettle, "nothing_to_settle", CONFLICT, "There is nothing to settle";
    OtherTaker, "other_taker", CONFLICT, "Another transaction took the nonce";
    SlotBound, "slot_bound", CONFLICT, "The nonce is in use";
    SlotUsed, "slot_used", CONFLICT, "The chain has used the nonce";
    SlotGap, "slot_gap", CONFLICT, "A hole would be left";
    NotEnded, "not_ended", CONFLICT, "The transaction has not ended";
    Succeeded, "already_confirmed", CONFLICT, "The transaction was confirmed";
    NotOlder, "not_older", CONFLICT, "The store is not an older copy";
    InPool, "in_pool", CONFLICT, "Transactions that may be ours are in a node's pool";
    OldHead, "old_head", CONFLICT, "The newest block that is seen is not of the present";
    NotHeld, "not_held", CONFLICT, "That session does not hold the lane";
    OwnerLives, "owner_lives", CONFLICT, "The lane's owner lives";
    NoLeases, "no_leases", CONFLICT, "This store has no leases";
    LaneDisabled, "lane_disabled", CONFLICT, "The lane takes no new transactions in";
    NotOwner, "not_the_owner", CONFLICT, "Another node takes this lane's transactions in";
    OutOfSync, "out_of_sync", SERVICE_UNAVAILABLE, "What is known of the chain is too old";
    NoSlot, "no_slot", SERVICE_UNAVAILABLE, "The lane has no nonce to give now";
    TooManySockets, "too_many_sockets", SERVICE_UNAVAILABLE, "As many WebSockets are open as there may be";
    UnknownPredecessor, "unknown_predecessor", UNPROCESSABLE_ENTITY, "The transaction to follow is not known";
    BadUrl, "bad_url", UNPROCESSABLE_ENTITY, "Events cannot be delivered to this URL";
    WebhooksOff, "webhooks_off", CONFLICT, "Webhooks cannot be used here";
    TooManyWebhooks, "too_many_webhooks", CONFLICT, "There are as many webhooks as there may be";
    NothingToReplay, "nothing_to_replay", CONFLICT, "There is nothing to deliver again";
    TooManyListeners, "too_many_listeners", SERVICE_UNAVAILABLE, "Too many callers listen to events";
    Busy, "busy", CONFLICT, "Others are changing this all the time";
    OutcomeUnknown, "outcome_unknown", SERVICE_UNAVAILABLE, "It is not known whether the request was stored";
    StoreUnavailable, "store_unavailable", SERVICE_UNAVAILABLE, "The store cannot be used now";
    Internal, "internal", INTERNAL_SERVER_ERROR, "Landfall made a mistake";
}

/// One failure: what happened, what it means, what to do.
#[derive(Debug, Clone)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    /// The field it is about, as a path.
    pub field: Option<String>,
    /// Who could do it.
    pub owner: Option<Owner>,
    /// After how many seconds it may be asked again.
    pub retry_after: Option<u64>,
}

/// The node that owns a lane.
#[derive(Debug, Clone)]
pub struct Owner {
    pub node: String,
    /// Where it can be reached, if it says so.
    pub address: Option<String>,
}

/// Bytes of a whole sentence, and of the words of a caller that an answer repeats: an answer must not be longer than its question.
const SENTENCE: usize = 2_000;
const REPEATED: usize = 200;

/// The beginning of a sentence that may have a caller's words in it.
pub(crate) fn sentence(text: impl fmt::Display) -> String {
    Beginning::of(&text, SENTENCE)
}

/// The beginning of what a caller said.
pub(crate) fn repeated(said: impl fmt::Display) -> String {
    Beginning::of(&said, REPEATED)
}

/// The beginning of a caller's text, in quotes.
pub(crate) fn quoted(text: &str) -> String {
    repeated(format_args!("{text:?}"))
}

/// A text that takes in no more than its limit. What is written stops there, so that what is long is not even made.
struct Beginning {
    text: String,
    most: usize,
}

impl Beginning {
    fn of(text: &dyn fmt::Display, most: usize) -> String {
        let mut beginning = Self { text: String::new(), most };
        if fmt::write(&mut beginning, format_args!("{text}")).is_err() {
            beginning.text.push('…');
        }
        beginning.text
    }
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let left = self.most - self.text.len();
        if more.len() <= left {
            self.text.push_str(more);
            return Ok(());
        }
        self.text.push_str(&more[..more.floor_char_boundary(left)]);
        Err(fmt::Error)
    }
}

impl Problem {
    #[must_use]
    pub fn new(code: Code, detail: impl fmt::Display) -> Self {
        Self { code, detail: sentence(detail), field: None, owner: None, retry_after: None }
    }

    #[must_use]
    pub fn at(code: Code, field: impl fmt::Display, detail: impl fmt::Display) -> Self {
        Self { field: Some(repeated(field)), ..Self::new(code, detail) }
    }

    /// The JSON of RFC 9457.
    #[must_use]
    pub fn body(&self) -> serde_json::Value {
        let mut body = json!({
            "type": format!("urn:landfall:problem:{}", self.code.text()),
            "title": self.code.title(),
            "status": self.code.status().as_u16(),
            "code": self.code.text(),
            "detail": self.detail,
        });
        if let Some(field) = &self.field {
            body["field"] = json!(field);
        }
        if let Some(owner) = &self.owner {
            body["owner"] = json!({ "node": owner.node, "address": owner.address });
        }
        body
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // That a lane holds is told elsewhere, once.
        let is_ours = !matches!(
            self.code,
            Code::NoSlot
                | Code::OutOfSync
                | Code::FinalityUnknown
                | Code::TooManyBytes
                | Code::TooManyConnections
        );
        if self.code.status().is_server_error() && is_ours {
            tracing::error!(code = self.code.text(), detail = %self.detail, "answered with a problem");
        }
        let owner = self.owner.as_ref().map(|owner| owner.address.clone().unwrap_or(owner.node.clone()));
        let mut response = (self.code.status(), Json(self.body())).into_response();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(owner) = owner
            && let Ok(value) = HeaderValue::from_str(&owner)
        {
            response.headers_mut().insert(OWNER, value);
        }
        let unavailable = self.code.status() == StatusCode::SERVICE_UNAVAILABLE;
        if let Some(seconds) = self.retry_after.or(unavailable.then_some(1)) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Unusable(_) | store::Error::Failed { .. } => {
                Self::new(Code::StoreUnavailable, format!("{error}; nothing was changed, try again"))
            }
            store::Error::Corrupt { .. } => Self::new(Code::Internal, error.to_string()),
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Refused(refused) => refused.into(),
            SubmitError::Store(error) => error.into(),
            SubmitError::Unknown(_) => Self::new(Code::OutcomeUnknown, error.to_string()),
            SubmitError::NoSlot { .. } => Self::new(Code::NoSlot, format!("{error}; nothing was stored")),
            SubmitError::NotOwner { ref node, ref address, .. } => {
                let owner = Owner { node: node.clone(), address: address.clone() };
                Self { owner: Some(owner), ..Self::new(Code::NotOwner, error.to_string()) }
            }
        }
    }
}

impl From<AcceptError> for Problem {
    fn from(error: AcceptError) -> Self {
        let code = match error {
            AcceptError::Submit(error) => return error.into(),
            AcceptError::NotOlder => Code::NotOlder,
            AcceptError::OldHead { .. } => Code::OldHead,
            AcceptError::InPool { .. } | AcceptError::PoolUnknown { .. } | AcceptError::Begun { .. } => {
                Code::InPool
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<SteerError> for Problem {
    fn from(error: SteerError) -> Self {
        let cannot = match error {
            SteerError::Submit(error) => return error.into(),
            SteerError::Cannot(cannot) => cannot,
        };
        let code = match &cannot {
            Cannot::AlreadyFinal(_) => Code::AlreadyFinal,
            Cannot::Ending(_) => Code::Ending,
            Cannot::TooManyContents(_) => Code::TooManyVersions,
            Cannot::AtCeiling { .. } | Cannot::TooManyAttempts(_) => Code::AtCeiling,
            Cannot::NotAsked(_) | Cannot::OtherVersion { .. } => Code::NotAsked,
            Cannot::VersionNeeded { .. } => Code::VersionNeeded,
            Cannot::NotTaken(_) | Cannot::MayHaveLanded => Code::NothingToSettle,
            Cannot::OtherTaker { .. } => Code::OtherTaker,
            Cannot::SlotBound { .. } => Code::SlotBound,
            Cannot::SlotUsed { .. } => Code::SlotUsed,
            Cannot::SlotGap { .. } => Code::SlotGap,
            Cannot::NotEnded(_) => Code::NotEnded,
            Cannot::Succeeded => Code::Succeeded,
        };
        Self::new(code, cannot.to_string())
    }
}

/// The field that says how much is paid at most.
fn dearest(fees: AskedFees) -> &'static str {
    match fees {
        AskedFees::Legacy { .. } => "payload.gasPrice",
        AskedFees::Dynamic { max_fee: None, .. } => "payload.maxPriorityFeePerGas",
        AskedFees::Dynamic { max_fee: Some(_), .. } | AskedFees::Market => "payload.maxFeePerGas",
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let (code, field) = match &refused {
            Refused::UnknownChain(_) => (Code::UnknownChain, "chainId"),
            Refused::UnknownSigner { .. } => (Code::UnknownSigner, "signer"),
            Refused::GasAboveBlockLimit { .. } => (Code::GasAboveLimit, "payload.gas"),
            Refused::GasTooLow { .. } => (Code::GasTooLow, "payload.gas"),
            Refused::TipAboveCap { .. } => (Code::ConflictingFees, "payload.maxPriorityFeePerGas"),
            Refused::PriceAboveCeiling { fees, .. } => (Code::FeeAboveCeiling, dearest(*fees)),
            Refused::CeilingAboveChains { .. } => (Code::FeeAboveCeiling, "options.maxFeePerGas"),
            Refused::DeadlinePassed => (Code::DeadlinePassed, "options.deadline"),
            Refused::NothingToDo => (Code::NothingToDo, "payload"),
            Refused::LaneDisabled(_) => (Code::LaneDisabled, "signer"),
            Refused::UnknownPredecessor(_) => (Code::UnknownPredecessor, "options.after.txId"),
            Refused::SlotCannotWait(_) => (Code::Unsupported, "options.after"),
            Refused::CommandKeyReused { .. } => (Code::RequestIdReused, "requestId"),
            Refused::LaneHasCommands { .. } | Refused::TxHasCommands { .. } => {
                let problem = Self::new(Code::TooManyCommands, refused.to_string());
                return Self { retry_after: Some(1), ..problem };
            }
            Refused::LaneIsFull { .. } | Refused::LaneIsHeavy { .. } => {
                let problem = Self::new(Code::TooManyWaiting, refused.to_string());
                return Self { retry_after: Some(1), ..problem };
            }
            Refused::NotTaken { .. } => (Code::NotTaken, "payload"),
            Refused::GasAboveCap { .. } => (Code::GasAboveCap, "payload.gas"),
            Refused::TooLarge { .. } => (Code::DataTooLarge, "payload.data"),
            Refused::BadAuthorization { .. } => (Code::BadAuthorization, "payload.authorizationList"),
            Refused::DelegationNotListed { .. } => (Code::DelegationNotAllowed, "payload.authorizationList"),
            Refused::AuthorityManaged { .. } => (Code::AuthorityManaged, "payload.authorizationList"),
            Refused::FinalityLacking { .. } => (Code::FinalityLacking, "options.finality"),
            Refused::FinalityUnknown { .. } => (Code::FinalityUnknown, "options.finality"),
            Refused::Unwritable(_) => (Code::Internal, "payload"),
        };
        Self::at(code, field, refused.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_repeats_no_more_than_the_beginning_of_what_a_caller_said() {
        let long = "\u{7f}".repeat(1 << 20);
        for problem in [
            Problem::at(Code::BadAddress, &long, format_args!("{long:?} is not an address")),
            Problem::new(Code::BadQuery, format!("?{long}= is not known")),
            Problem::new(Code::BadValue, "ü".repeat(5_000)),
        ] {
            let body = problem.body().to_string();
            assert!(body.len() < 3_000, "{} bytes", body.len());
            assert!(problem.detail.ends_with('…'));
        }
        assert_eq!(quoted("a\n"), "\"a\\n\"");
        assert!(quoted(&long).len() <= REPEATED + '…'.len_utf8());
        assert_eq!(Problem::new(Code::Busy, "ü".repeat(1_000)).detail.len(), SENTENCE, "what fits is whole");
    }
}
