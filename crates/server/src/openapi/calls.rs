//! Every call, with what it takes and what it answers. A route without its call here fails a test, and so does a call
//! without its route.

use serde_json::{Value, json};

use super::operation::{Operation, delete, get, post};
use super::requests::{anything, idempotency_key, limit, position};
use super::schema::{any_of, example, refer};
use super::{TX_ID, journal, webhooks};
use crate::problem::Code;

pub(super) fn all() -> Vec<Operation> {
    let groups: [(&str, Vec<Operation>); 8] = [
        ("Transactions", transactions()),
        ("Steering", steering()),
        ("Lanes", lanes()),
        ("Events", events()),
        ("Webhooks", webhooks::calls()),
        ("JSON-RPC", rpc()),
        ("Access", access()),
        ("Server", server()),
    ];
    groups.into_iter().flat_map(|(tag, calls)| calls.into_iter().map(move |call| call.tag(tag))).collect()
}

/// The groups, in the order in which they are read.
pub(super) const TAGS: [(&str, &str); 8] = [
    ("Transactions", "Handing them over, and asking where they are."),
    ("Steering", "Changing a transaction that exists. 202 means that the wish is stored; the chain decides."),
    ("Lanes", "One account on one chain: what it is at, and the operator's hand on it."),
    ("Events", "What happens, as it happens."),
    ("Webhooks", "Events, delivered."),
    ("JSON-RPC", "What wallets and libraries speak, for those that know nothing but a URL."),
    ("Access", "API keys and the audit log."),
    ("Server", "Health, metrics, and this document."),
];

/// What a payload and options may be refused for.
const READING_CONTENT: &[Code] = &[
    Code::BadAddress,
    Code::BadAmount,
    Code::BadData,
    Code::BadTime,
    Code::BadValue,
    Code::NonceNotAllowed,
    Code::ConflictingFees,
    Code::Unsupported,
    Code::DataTooLarge,
];

/// What lists of signers and the like may be refused for.
pub(super) const READING_LISTS: &[Code] = &[Code::BadAddress, Code::BadValue];

pub(super) const WEBHOOK_ID: &str = "the id of the webhook";

/// What a content that can be read may be refused for.
const CHECKING_CONTENT: &[Code] = &[
    Code::UnknownChain,
    Code::UnknownSigner,
    Code::GasAboveLimit,
    Code::GasTooLow,
    Code::FeeAboveCeiling,
    Code::GasAboveCap,
    Code::NotTaken,
    Code::DataTooLarge,
    Code::ConflictingFees,
    Code::BadAuthorization,
    Code::AuthorityManaged,
    Code::DelegationNotAllowed,
    Code::NothingToDo,
    Code::DeadlinePassed,
];

/// What taking a new transaction in may be refused for.
const ADMITTING: &[Code] = &[
    Code::FinalityLacking,
    Code::FinalityUnknown,
    Code::RequestIdReused,
    Code::LaneDisabled,
    Code::TooManyWaiting,
    Code::NotOwner,
    Code::NoSlot,
    Code::UnknownPredecessor,
    Code::OutcomeUnknown,
    Code::MetadataTooLarge,
];

/// What any command may be refused for.
const COMMANDING: &[Code] = &[
    Code::UnknownChain,
    Code::UnknownSigner,
    Code::RequestIdReused,
    Code::TooManyCommands,
    Code::OutcomeUnknown,
];

fn accepted() -> Value {
    json!({ "txId": TX_ID, "state": "accepted" })
}

fn tx_id() -> Value {
    refer("TxId")
}

fn transactions() -> Vec<Operation> {
    let found = || any_of([refer("TransactionDetail"), refer("RemovedTransaction")]);
    vec![
        post("/api/v1/tx", "submit", "Hand over a transaction")
            .says(
                "When the answer is 202 or 200, it is on disk. With a `requestId`, or the same as `Idempotency-Key`, a \
                 retry gives back the same transaction, for ever.",
            )
            .parameter(idempotency_key())
            .takes(refer("Submission"), true)
            .answers(202, "It is new.", refer("Accepted"))
            .like(accepted())
            .answers(200, "The key is known and asks for the same: this is what exists.", refer("Accepted"))
            .like(accepted())
            .refuses(READING_CONTENT)
            .refuses(CHECKING_CONTENT)
            .refuses(ADMITTING)
            .refuses(&[Code::KeysDiffer]),
        get("/api/v1/tx", "listTransactions", "List transactions, newest first")
            .query("state", refer("State"), "only those in this state")
            .query("signer", refer("Address"), "only those of this signer")
            .query("chainId", refer("ChainId"), "only those of this chain")
            .query("hash", refer("Hash"), "the hash of any attempt")
            .query("cursor", position(), "the `nextCursor` of the page before")
            .query("limit", limit(), "how many a page has at most")
            .answers(200, "A page.", refer("TransactionPage"))
            .refuses(&[Code::BadAddress]),
        post("/api/v1/tx/batch", "submitBatch", "Hand over many transactions at once")
            .says("Each is treated as if it were alone and has its own `status`, in the order of the request.")
            .takes(refer("Batch"), true)
            .answers(200, "What became of each.", refer("BatchAnswer"))
            .like(json!({ "items": [{ "txId": TX_ID, "state": "accepted", "status": 202 }] }))
            .refuses(&[Code::BatchTooLong, Code::BadRequestId]),
        get("/api/v1/tx/by-request", "getByRequest", "Find a transaction by the caller's own key")
            .asks("signer", refer("Address"), "the signer it was handed over for")
            .asks("requestId", refer("RequestId"), "the idempotency key")
            .answers(200, "The transaction, or what stays of it.", found())
            .refuses(&[Code::BadAddress, Code::BadRequestId, Code::NotFound]),
        get("/api/v1/tx/{id}", "getTransaction", "One transaction, and everything that was signed for it")
            .at("id", tx_id())
            .answers(200, "The transaction, or what stays of it.", found()),
        get("/api/v1/tx/{id}/journal", "getJournal", "The time line of a transaction, oldest first")
            .at("id", tx_id())
            .answers(200, "Everything that happened to it.", refer("JournalPage"))
            .refuses(&[Code::HistoryRemoved]),
        get("/api/v1/tx/{id}/confirmations", "getConfirmations", "The blocks on top of a transaction's own")
            .at("id", tx_id())
            .query("after", refer("Hash"), "the last block you know: only what came since")
            .answers(200, "The including block and those on top of it, linked by hash.", refer("Confirmations"))
            .refuses(&[Code::AlreadyFinal]),
    ]
}

/// A command on a transaction.
fn on_tx(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    post(path, id, summary)
        .at("id", tx_id())
        .parameter(idempotency_key())
        .answers(202, "The wish is stored.", refer("CommandAccepted"))
        .refuses(COMMANDING)
        .refuses(&[Code::AlreadyFinal])
}

fn steering() -> Vec<Operation> {
    vec![
        on_tx("/api/v1/tx/{id}/cancel", "cancel", "End a transaction without its content")
            .says("At once if nothing was signed, else by a no-op with the same nonce.")
            .like(json!({ "commandId": super::COMMAND_ID, "command": { "type": "cancel", "tx": TX_ID } })),
        on_tx("/api/v1/tx/{id}/replace", "replace", "Give a transaction another content")
            .takes(refer("Replacement"), true)
            .refuses(READING_CONTENT)
            .refuses(CHECKING_CONTENT)
            .refuses(&[Code::Ending, Code::TooManyVersions]),
        on_tx("/api/v1/tx/{id}/speed-up", "speedUp", "Ask for a dearer attempt now")
            .takes(refer("SpeedUp"), false)
            .refuses(&[
                Code::BadAmount,
                Code::BadValue,
                Code::ConflictingFees,
                Code::FeeAboveCeiling,
                Code::AtCeiling,
            ]),
        on_tx("/api/v1/tx/{id}/approve", "approve", "A person's yes")
            .takes(refer("Decision"), false)
            .refuses(&[Code::BadValue, Code::NotAsked, Code::VersionNeeded, Code::HeldForNeeded]),
        on_tx("/api/v1/tx/{id}/reject", "reject", "A person's no")
            .takes(refer("Decision"), false)
            .refuses(&[Code::BadValue, Code::NotAsked, Code::VersionNeeded, Code::HeldForNeeded]),
        on_tx("/api/v1/tx/{id}/settle", "settle", "Say whose transaction took its nonce and does the same")
            .says(
                "For a transaction whose `stuckReason` asks for it. `ours`: it is done by that one, and has ended. \
                 `foreign`: it waits for another nonce or fails, as `onDisplaced` says; one that is being cancelled \
                 ends.",
            )
            .takes(refer("Settlement"), true)
            .refuses(&[Code::BadValue, Code::NothingToSettle, Code::OtherTaker]),
        post("/api/v1/tx/{id}/retry", "retry", "Do an ended transaction again, as a new one")
            .says("A transaction has one retry: asking twice gives the same.")
            .at("id", tx_id())
            .parameter(idempotency_key())
            .takes(refer("Retry"), false)
            .answers(202, "It is new.", refer("RetryAccepted"))
            .answers(200, "It was asked for before.", refer("RetryAccepted"))
            .refuses(READING_CONTENT)
            .refuses(CHECKING_CONTENT)
            .refuses(ADMITTING)
            .refuses(&[Code::NotEnded, Code::Succeeded, Code::AlreadyFinal]),
    ]
}

fn of_lane(call: Operation) -> Operation {
    call.at("chain", refer("ChainId"))
        .at("signer", refer("Address"))
        .refuses(&[Code::WrongType, Code::BadAddress])
}

/// A command on a lane.
fn on_lane(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    of_lane(post(path, id, summary)).parameter(idempotency_key()).refuses(COMMANDING)
}

fn lanes() -> Vec<Operation> {
    let stored = |call: Operation| call.answers(202, "The wish is stored.", refer("CommandAccepted"));
    vec![
        get("/api/v1/lanes", "listLanes", "All lanes that are configured or were used").answers(
            200,
            "All of them, on one page.",
            refer("LanePage"),
        ),
        of_lane(get("/api/v1/lanes/{chain}/{signer}", "getLane", "What a lane is at")).answers(
            200,
            "The lane.",
            refer("Lane"),
        ),
        stored(on_lane(
            "/api/v1/lanes/{chain}/{signer}/pause",
            "pauseLane",
            "Stop assigning nonces; signed transactions continue",
        )),
        stored(on_lane(
            "/api/v1/lanes/{chain}/{signer}/resume",
            "resumeLane",
            "Resume; if it is on hold for nonces that this store does not know, a person's word to go on after them",
        )),
        stored(on_lane(
            "/api/v1/lanes/{chain}/{signer}/disable",
            "disableLane",
            "Take no new transactions in",
        )),
        stored(on_lane(
            "/api/v1/lanes/{chain}/{signer}/reset",
            "resetLane",
            "Read the chain anew, and give up nonces without stored bytes",
        )),
        on_lane(
            "/api/v1/lanes/{chain}/{signer}/cancel-all",
            "cancelAll",
            "Cancel everything that has not ended",
        )
        .answers(202, "The wish is stored; what was found at the time.", refer("AllCancelled")),
        stored(on_lane(
            "/api/v1/lanes/{chain}/{signer}/fill",
            "fillSlots",
            "Fill a nonce range (inclusive) with no-ops",
        ))
        .takes(refer("SlotRange"), true)
        .refuses(&[Code::BadValue, Code::SlotBound, Code::SlotUsed, Code::SlotGap]),
        of_lane(post(
            "/api/v1/lanes/{chain}/{signer}/break-lease",
            "breakLease",
            "End the session that holds a lane and is dead",
        ))
        .says("All that it held is free at once. Should it live, its writes are refused, and it begins anew.")
        .takes(refer("DeadSession"), true)
        .answers(200, "It has ended.", refer("LeaseBroken"))
        .refuses(&[Code::BadValue, Code::NotHeld, Code::OwnerLives, Code::NoLeases]),
    ]
}

fn events() -> Vec<Operation> {
    let stream = json!({
        "type": "string",
        "description": "Server-sent events. `id` is the entry's number, `event` its name, `data` the JSON of `Event`.",
        "x-landfall-data": refer("Event"),
    });
    let name = format!("({})", journal::events().join("|").replace('.', "\\."));
    let types = example(
        json!({ "type": "string", "pattern": format!("^{name}(,{name})*$"),
                "description": "names of events, with commas between them" }),
        json!(journal::events()[..2].join(",")),
    );
    let last = json!({
        "name": "Last-Event-ID", "in": "header", "required": false, "schema": position(),
        "description": "the number of the last event that was heard; outweighs `after`",
    });
    vec![
        get("/api/v1/events", "listen", "Everything that happens, as server-sent events")
            .says(
                "A listener that reconnects with `Last-Event-ID` misses nothing and is told nothing twice. Without it and \
                 without `after`, it hears what happens from now on.",
            )
            .query("after", position(), "go on after the event of this number")
            .query("chainId", refer("ChainId"), "only of this chain")
            .query("signer", refer("Address"), "only of this signer")
            .query("txId", refer("TxId"), "only of this transaction")
            .query("types", types, "only of these names")
            .parameter(last)
            .answers_as(200, "A stream without end.", "text/event-stream", stream)
            .refuses(&[Code::BadAddress, Code::TooManyListeners]),
    ]
}

/// Its own failures are JSON-RPC's, with status 200; problems are for who may not come in at all.
fn rpc() -> Vec<Operation> {
    let chain = || anything("the id of a configured chain");
    vec![
        post("/rpc/{chain}", "rpc", "JSON-RPC 2.0, one call or a batch")
            .says("docs/json-rpc.md has the methods. Error codes are those of EIP-1474 and EIP-1193.")
            .at("chain", chain())
            .parameter(idempotency_key())
            .takes(refer("RpcRequest"), true)
            .answers(200, "The answer, or the error.", refer("RpcAnswer"))
            .answers_nothing(204, "There were notifications only.")
            .refuses(&[Code::BadRequestId]),
        get("/rpc/{chain}", "rpcSocket", "The same over a WebSocket, with subscriptions")
            .at("chain", chain())
            .answers_nothing(101, "The connection is a WebSocket from here on.")
            .refuses(&[Code::MethodNotAllowed, Code::TooManySockets]),
    ]
}

fn access() -> Vec<Operation> {
    vec![
        post("/api/v1/api-keys", "createApiKey", "Make an API key")
            .says("The answer has the key itself, which is shown to nobody again.")
            .takes(refer("NewApiKey"), true)
            .answers(201, "It opens the door at once.", refer("ApiKeyMade"))
            .refuses(&[
                Code::BadAddress,
                Code::BadValue,
                Code::BadTime,
                Code::TooManyKeys,
                Code::ChangedMeanwhile,
            ]),
        get("/api/v1/api-keys", "listApiKeys", "All API keys").answers(
            200,
            "All of them, on one page.",
            refer("ApiKeyPage"),
        ),
        delete("/api/v1/api-keys/{id}", "revokeApiKey", "Revoke an API key")
            .says("It stays in the list, with who revoked it and when.")
            .at("id", anything("the id of the key, not the key"))
            .answers(200, "It opens nothing any more.", refer("ApiKey"))
            .refuses(&[Code::ChangedMeanwhile]),
        get("/api/v1/audit", "listAudit", "Who asked for what, and who was sent away; newest first")
            .query(
                "cursor",
                anything("the `nextCursor` of the page before"),
                "the `nextCursor` of the page before",
            )
            .query("limit", limit(), "how many a page has at most")
            .answers(200, "A page.", refer("AuditPage")),
        get("/api/v1/audit/export", "exportAudit", "The rows of the audit log as they are stored, oldest first")
            .says("Enough to check the chain without this server: `landfall audit verify` does. docs/audit.md has how hashes are made.")
            .query(
                "cursor",
                anything("the `nextCursor` of the page before"),
                "the `nextCursor` of the page before",
            )
            .query(
                "limit",
                json!({ "type": "integer", "minimum": 1, "maximum": 5000 }),
                "how many a page has at most",
            )
            .answers(200, "A page.", refer("AuditExport")),
    ]
}

fn server() -> Vec<Operation> {
    let text = |what: &str| anything(what);
    vec![
        get("/health/live", "live", "Is the process alive?")
            .answers(200, "It is.", refer("Alive"))
            .like(json!({ "status": "alive" })),
        get("/health/ready", "ready", "Can a transaction be stored?")
            .says("Trouble with a chain shows here and does not make it fail: what is stored waits for the chain.")
            .answers(200, "It can.", refer("Ready"))
            .like(json!({ "status": "ready" }))
            .answers(503, "It cannot.", refer("Ready")),
        get("/api/v1/store", "getStore", "Is the store an older copy of itself?")
            .answers(200, "Whether it is, and why.", refer("StoreState"))
            .like(json!({ "older": false })),
        post("/api/v1/store/accept", "acceptStore", "Go on with a store that is an older copy")
            .says("Every lane is on hold until then. Hand all requests in again first: docs/backup.md.")
            .takes(refer("Acceptance"), false)
            .answers(202, "Every lane is told.", refer("StoreAccepted"))
            .refuses(&[Code::NotOlder, Code::InPool, Code::OldHead, Code::OutcomeUnknown]),
        get("/metrics", "metrics", "What is counted and measured, for Prometheus")
            .answers_as(200, "The text format of Prometheus.", "text/plain", text("see docs/metrics.md")),
        get("/openapi.json", "openapi", "This document")
            .answers(200, "OpenAPI 3.1.", json!({ "type": "object", "required": ["openapi", "paths"] })),
        get("/docs", "docs", "This document as a page to read")
            .answers_as(200, "HTML without scripts.", "text/html", text("a page")),
    ]
}
