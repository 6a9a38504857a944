//! Lanes, API keys, the audit log, health and problems as they are shown.

use landfall_core::settings::Allocation;
use serde_json::{Value, json};

use super::schema::{
    Field, any_of, flag, has, list, may, number, object, or_null, page, refer, said, text, word, words,
};
use super::transaction::time_or_null;
use super::words::uuid;
use crate::problem::Code;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let mut made = api_key();
    made.push(has("key", said(text(), "the key itself, which is shown to nobody again")));
    vec![
        ("Problem", problem()),
        ("Caller", caller()),
        ("Lane", lane()),
        ("DeadSession", dead_session()),
        ("LeaseBroken", lease_broken()),
        ("RpcRequest", rpc_request()),
        ("RpcAnswer", rpc_answer()),
        ("ApiKey", object("what is known of an API key; never the key itself", api_key())),
        ("ApiKeyMade", object("a new API key", made)),
        ("AuditEntry", audit_entry()),
        ("AuditLink", audit_link()),
        ("AuditRow", audit_row()),
        ("AuditExport", audit_export()),
        ("StoreState", store_state()),
        ("Acceptance", acceptance()),
        ("StoreAccepted", store_accepted()),
        ("Alive", object("", [has("status", word("alive"))])),
        ("Ready", ready()),
        ("ChainHealth", chain_health()),
        ("TransactionPage", page("Transaction")),
        ("JournalPage", page("JournalEntry")),
        ("LanePage", page("Lane")),
        ("ApiKeyPage", page("ApiKey")),
        ("AuditPage", page("AuditEntry")),
    ]
}

fn dead_session() -> Value {
    object(
        "a person's word",
        [has("session", uuid("the session that is dead, as `owner` of the lane shows it"))],
    )
}

fn lease_broken() -> Value {
    object(
        "a session that has ended",
        [has("session", uuid("the session")), has("lanes", said(number(), "how many lanes it held"))],
    )
}

fn store_state() -> Value {
    object(
        "whether the store is an older copy of itself, such as a backup that was put back",
        [
            has("older", flag()),
            may("why", text()),
            may(
                "comparing",
                said(
                    number(),
                    "it was accepted, and so many lanes still compare what it had forgotten with what waits",
                ),
            ),
        ],
    )
}

fn acceptance() -> Value {
    let said_so = said(
        flag(),
        "also if transactions that this store does not know are in an endpoint's pool, or an endpoint does not tell",
    );
    let old_head = said(flag(), "also if the newest block that is seen is old: the chain makes no blocks");
    object("a person's word", [may("despitePool", said_so), may("despiteOldHead", old_head)])
}

fn store_accepted() -> Value {
    let lane = object(
        "",
        [has("chainId", refer("ChainId")), has("signer", refer("Address")), has("commandId", text())],
    );
    object("the lanes that go on, and the command that each was sent", [has("lanes", list(lane))])
}

fn problem() -> Value {
    let owner = object("who could do it", [has("node", text()), has("address", or_null(text()))]);
    object(
        "why it was not done (RFC 9457). docs/errors.md has a line for each code.",
        [
            has("type", json!({ "type": "string", "pattern": "^urn:landfall:problem:[a-z_]+$" })),
            has("title", said(text(), "what the code means")),
            has("status", json!({ "type": "integer", "minimum": 400, "maximum": 599 })),
            has("code", said(words(Code::ALL.iter().map(|code| code.text())), "a stable word for programs")),
            has("detail", said(text(), "what happened and what to do, for people")),
            may("field", said(text(), "the field it is about, as a path")),
            may("owner", owner),
        ],
    )
}

fn rpc_request() -> Value {
    let one = json!({
        "type": "object",
        "required": ["method"],
        "properties": {
            "jsonrpc": word("2.0"),
            "id": { "type": ["string", "integer", "null"] },
            "method": text(),
            "params": { "type": ["array", "object"] },
        },
    });
    any_of([one.clone(), said(list(one), "a batch")])
}

fn rpc_answer() -> Value {
    let one = json!({
        "type": "object",
        "required": ["jsonrpc", "id"],
        "properties": {
            "jsonrpc": word("2.0"),
            "id": {},
            "result": {},
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": { "code": { "type": "integer" }, "message": text(), "data": {} },
                "additionalProperties": false,
            },
        },
        "additionalProperties": false,
    });
    any_of([one.clone(), said(list(one), "to a batch")])
}

fn lane() -> Value {
    let reset = object(
        "",
        [
            has("at", refer("Time")),
            has("from", refer("Nonce")),
            has("to", refer("Nonce")),
            has("givenUp", number()),
        ],
    );
    let owner = object(
        "the node that carries it",
        [
            has("node", text()),
            has("session", uuid("one run of one process")),
            has("since", time_or_null()),
            may(
                "until",
                said(
                    refer("Time"),
                    "how long it counts on its lease without renewing it, by the database's clock",
                ),
            ),
        ],
    );
    let allocations = [Allocation::Dispatch, Allocation::Admission].map(|allocation| json!(allocation));
    object(
        "one account on one chain",
        [
            has("chainId", refer("ChainId")),
            has("signer", refer("Address")),
            may("nextNonce", refer("Nonce")),
            may("chainCount", said(number(), "how many nonces the chain has used, as last seen")),
            has("waiting", said(number(), "transactions without a nonce")),
            has("inFlight", said(number(), "transactions with a nonce")),
            may("window", said(number(), "how many nonces may be in flight at once")),
            may(
                "allocation",
                json!({ "type": "string", "enum": allocations, "description": "when slots are handed out" }),
            ),
            has(
                "returned",
                said(list(refer("Nonce")), "free nonces: given back without signed bytes, and used first"),
            ),
            has("paused", flag()),
            has("disabled", said(flag(), "it takes no new transactions in")),
            may("resets", list(reset)),
            has("healthy", flag()),
            may("holdReason", said(text(), "why no nonces are assigned")),
            may(
                "unknownNonces",
                said(
                    list(unknown_nonce()),
                    "nonces that the chain has used and this store does not know: of another program, or of a newer copy of this store",
                ),
            ),
            may(
                "notLookedAt",
                said(
                    text(),
                    "why this node cannot say which nonces a lane on hold does not know: another node runs it, or none does yet",
                ),
            ),
            may(
                "notCompared",
                said(
                    number(),
                    "so many nonces of the account, from 0 on, were used before this store knew it and were compared with nothing: the \
                     lane holds for them until it is resumed",
                ),
            ),
            may("owner", owner),
            has("token", said(number(), "raised by every acquisition")),
            has("version", said(number(), "raised by every write")),
        ],
    )
}

fn unknown_nonce() -> Value {
    object(
        "a nonce that something else used; what that was is missing until it is found",
        [
            has("nonce", refer("Nonce")),
            may("hash", refer("Hash")),
            may("to", refer("Address")),
            may("value", refer("Wei")),
            may("block", number()),
            may(
                "sameAs",
                said(
                    refer("TxId"),
                    "a waiting transaction that it carried out; a resume ends that as landed",
                ),
            ),
        ],
    )
}

fn api_key() -> Vec<Field> {
    vec![
        has("id", text()),
        has("name", text()),
        has("role", refer("Role")),
        has("state", words(["good", "revoked", "expired"])),
        has("signers", said(or_null(list(refer("Address"))), "null: all")),
        has("chains", said(or_null(list(refer("ChainId"))), "null: all")),
        has("ratePerS", said(or_null(number()), "null: as the configuration says")),
        has("createdAt", refer("Time")),
        has("createdBy", said(or_null(text()), "the id of the key that made it")),
        has("expiresAt", time_or_null()),
        has("revokedAt", time_or_null()),
        has("revokedBy", or_null(text())),
    ]
}

fn audit_entry() -> Value {
    object(
        "who asked for what, when, from where, and how it ended",
        [
            has("id", said(text(), "the number of its row; of entries from before the chain their name")),
            has("at", refer("Time")),
            has(
                "what",
                words([
                    "asked",
                    "wrote",
                    "refused",
                    "command_line",
                    "began",
                    "ended",
                    "lost",
                    "trimmed",
                    "unchained",
                    "other",
                ]),
            ),
            has("keyId", or_null(text())),
            has("keyName", or_null(text())),
            has("role", json!({ "anyOf": [refer("Role"), { "type": "null" }] })),
            has("address", said(or_null(text()), "the other end of the connection")),
            has("node", or_null(text())),
            has("method", said(or_null(text()), "of HTTP, of JSON-RPC, or `gRPC`")),
            has("path", or_null(text())),
            has("body", said(json!({}), "what was sent along, where it is short")),
            has("status", said(or_null(number()), "the answer's; null: not known")),
            may("hash", said(text(), "seals the row and all before it")),
            may("bodyDigest", said(text(), "SHA-256 of what was sent along, where it is not short")),
            may("error", said(text(), "the code of the problem")),
            may("txIds", said(list(refer("TxId")), "the transactions that were stored")),
            may("count", said(number(), "how many it stands for")),
            may(
                "statuses",
                said(
                    json!({ "type": "object", "additionalProperties": number() }),
                    "how many with each status",
                ),
            ),
            may("run", said(number(), "the row with which the server began that wrote it")),
        ],
    )
}

fn caller() -> Value {
    object(
        "who asked",
        [
            may("keyId", said(text(), "the id of the API key")),
            has("name", said(text(), "its name at the time")),
            may(
                "address",
                said(text(), "the other end of its connection; shown to operators and administrators only"),
            ),
        ],
    )
}

fn audit_link() -> Value {
    object("a place in the chain", [has("seq", number()), has("hash", text())])
}

fn audit_row() -> Value {
    object(
        "a row as it is stored",
        [
            has("seq", number()),
            has("at", said(number(), "milliseconds since 1970")),
            has("entry", said(text(), "JSON, by its very bytes")),
            has("hash", text()),
        ],
    )
}

fn audit_export() -> Value {
    object(
        "",
        [
            has("anchor", said(refer("AuditLink"), "the newest row that was removed because of its age")),
            has("head", said(refer("AuditLink"), "the newest row")),
            has(
                "unnumbered",
                said(number(), "rows with a number below 1, which no server gives: somebody added them"),
            ),
            has("items", list(refer("AuditRow"))),
            has("nextCursor", said(or_null(text()), "the `cursor` of the next page; null on the last")),
        ],
    )
}

fn ready() -> Value {
    let status = || has("status", words(["ready", "not_ready"]));
    let trouble = object(
        "",
        [has("chainId", refer("ChainId")), has("signer", refer("Address")), has("trouble", text())],
    );
    any_of([
        object("to whoever shows no key", [status()]),
        object(
            "to whoever may see all",
            [
                status(),
                has(
                    "store",
                    object("", [has("writable", flag()), may("trouble", text()), may("older", text())]),
                ),
                has("chains", list(refer("ChainHealth"))),
                has("lanesRunning", number()),
                has("leases", object("", [has("acquired", number()), has("fenced", number())])),
                has("lanesInTrouble", list(trouble)),
            ],
        ),
    ])
}

fn chain_health() -> Value {
    let endpoint = object(
        "",
        [
            has("endpoint", said(text(), "its URL without credentials")),
            has("usable", flag()),
            has("head", or_null(number())),
            has("latencyMs", or_null(number())),
            has("trouble", or_null(text())),
        ],
    );
    object(
        "",
        [
            has("chainId", refer("ChainId")),
            has("head", or_null(number())),
            has("witnessed", said(or_null(number()), "the newest block that two endpoints have shown")),
            has(
                "singleWitness",
                said(flag(), "several are configured, and what one shows becomes final by its word alone"),
            ),
            has("disagree", said(flag(), "endpoints show different chains, and nothing becomes final")),
            has("usable", flag()),
            has("trouble", or_null(text())),
            has("endpoints", list(endpoint)),
        ],
    )
}
