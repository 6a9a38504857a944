//! Transactions as they are shown. In code: `show.rs`.

use serde_json::{Value, json};

use super::requests::finality;
use super::schema::{Field, any_of, has, list, may, number, object, or_null, refer, said, text, word, words};
use super::words::uuid;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Transaction", object("a transaction as lists show it", transaction())),
        ("TransactionDetail", object("a transaction with everything that was signed for it", detail())),
        ("RemovedTransaction", removed()),
        ("Accepted", object("it is on disk", accepted())),
        ("RetryAccepted", object("a new transaction that does an ended one again", retried())),
        ("Payload", payload()),
        (
            "AccessItem",
            object("", [has("address", refer("Address")), has("storageKeys", list(refer("Hash")))]),
        ),
        ("Authorization", authorization()),
        ("Options", options()),
        ("Content", content()),
        ("Receipt", receipt()),
        ("Attempt", attempt()),
        ("Answer", object("what a node said to a send", answer())),
        ("AnswerTally", tally()),
        ("BatchItem", batch_item()),
        ("BatchAnswer", object("in the order of the request", [has("items", list(refer("BatchItem")))])),
        ("Confirmations", confirmations()),
        ("CommandAccepted", command()),
        ("AllCancelled", all_cancelled()),
    ]
}

fn accepted() -> Vec<Field> {
    vec![
        has("txId", refer("TxId")),
        has("state", refer("State")),
        may("nonce", refer("Nonce")),
        may("hash", refer("Hash")),
        may(
            "removed",
            said(
                json!({ "type": "boolean", "const": true }),
                "it ended so long ago that its history was removed",
            ),
        ),
    ]
}

fn retried() -> Vec<Field> {
    let mut fields = accepted();
    fields.push(has("retryOf", refer("TxId")));
    fields
}

fn transaction() -> Vec<Field> {
    let changed = object(
        "options that a replace or a speed-up changed",
        [may("speed", refer("Speed")), may("maxFeePerGas", refer("Wei")), may("deadline", refer("Time"))],
    );
    vec![
        has("txId", refer("TxId")),
        has("chainId", refer("ChainId")),
        has("signer", refer("Address")),
        may("requestId", refer("RequestId")),
        has("state", refer("State")),
        has(
            "cancelling",
            said(json!({ "type": "boolean" }), "a no-op is to take its slot; the chain decides"),
        ),
        has(
            "displaced",
            said(
                json!({ "type": "boolean" }),
                "the chain's count has passed its nonce, and no attempt of ours is known to have won it",
            ),
        ),
        may("nonce", refer("Nonce")),
        may("hash", said(refer("Hash"), "the one to look for: the winner's, else the newest attempt's")),
        has(
            "payload",
            said(refer("Payload"), "the version that the chain took, or while it has taken none, the newest"),
        ),
        has("payloadVersion", said(refer("Version"), "the version that `payload` shows")),
        has("version", said(refer("Version"), "the newest")),
        may("contents", said(list(refer("Content")), "all versions, where there are several")),
        has("options", refer("Options")),
        may("changed", changed),
        may("retryOf", said(refer("TxId"), "the transaction that this one does again")),
        may(
            "asksApproval",
            said(json!({ "type": "boolean", "const": true }), "a new version waits for a person's yes"),
        ),
        may("held", said(refer("Reason"), "what it was to follow failed, and it waits for a person")),
        may(
            "heldFor",
            said(number(), "the nonce with which it may have landed, before the store was put back"),
        ),
        may("receipt", refer("Receipt")),
        may("confirmations", said(number(), "blocks on top of the including one")),
        may("wonVersion", said(refer("Version"), "the version that the chain took, once that is final")),
        may(
            "singleWitness",
            said(
                json!({ "type": "boolean", "const": true }),
                "it became final by the word of one endpoint, where several are configured",
            ),
        ),
        may("reason", refer("Reason")),
        may("submittedBy", refer("Caller")),
        has("acceptedAt", refer("Time")),
        has("updatedAt", refer("Time")),
    ]
}

fn detail() -> Vec<Field> {
    let mut fields = transaction();
    fields.extend([
        has("attempts", list(refer("Attempt"))),
        may("confirmationBlocks", said(list(refer("Block")), "the including block and those on top of it")),
        may("stuckReason", said(text(), "while it has not ended: what it waits for")),
        may("retriedAs", said(refer("TxId"), "the transaction that does this one again")),
    ]);
    fields
}

fn removed() -> Value {
    object(
        "what stays of a transaction whose history was removed",
        [
            has("txId", refer("TxId")),
            has("chainId", refer("ChainId")),
            has("signer", refer("Address")),
            may("requestId", refer("RequestId")),
            has("state", refer("State")),
            may("nonce", refer("Nonce")),
            may("hash", refer("Hash")),
            may("reason", refer("Reason")),
            may("submittedBy", refer("Caller")),
            has("acceptedAt", refer("Time")),
            has("updatedAt", refer("Time")),
            has("removed", json!({ "type": "boolean", "const": true })),
        ],
    )
}

fn payload() -> Value {
    object(
        "what to do on chain",
        [
            may("to", refer("Address")),
            has("value", refer("Wei")),
            has("data", refer("Bytes")),
            may("gas", number()),
            may("gasPrice", refer("Wei")),
            may("maxFeePerGas", refer("Wei")),
            may("maxPriorityFeePerGas", refer("Wei")),
            may("accessList", list(refer("AccessItem"))),
            may("authorizationList", list(refer("Authorization"))),
        ],
    )
}

fn authorization() -> Value {
    let word = || json!({ "type": "string", "pattern": "^0x[0-9a-f]+$" });
    object(
        "EIP-7702",
        [
            has("chainId", said(number(), "0: any chain")),
            has("address", refer("Address")),
            may("nonce", refer("Nonce")),
            may("yParity", json!({ "type": "integer", "enum": [0, 1] })),
            may("r", word()),
            may("s", word()),
        ],
    )
}

fn options() -> Value {
    let after = object(
        "the transaction that this one is to follow",
        [
            has("txId", refer("TxId")),
            has("state", words(["confirmed", "mined"])),
            has("onFailure", words(["cancel", "hold"])),
        ],
    );
    object(
        "how it is carried",
        [
            has("speed", refer("Speed")),
            may("maxFeePerGas", refer("Wei")),
            may("deadline", refer("Time")),
            may("finality", finality()),
            may("onDisplaced", words(["requeue", "fail"])),
            has("onReorg", words(["resend", "cancel"])),
            has("onInsufficientFunds", words(["hold", "fail"])),
            may("after", after),
            may("metadata", said(json!({}), "the caller's own JSON")),
        ],
    )
}

fn content() -> Value {
    let no_op = json!({ "type": "boolean", "const": true });
    any_of([
        object("", [has("version", refer("Version")), has("payload", refer("Payload"))]),
        object(
            "nothing, to oneself: it uses up the nonce",
            [has("version", refer("Version")), has("noOp", no_op)],
        ),
    ])
}

fn receipt() -> Value {
    object(
        "what the chain made of it",
        [
            has("transactionHash", refer("Hash")),
            has("blockNumber", number()),
            has("blockHash", refer("Hash")),
            has("transactionIndex", number()),
            has("status", words(["success", "reverted"])),
            has("gasUsed", number()),
            has("effectiveGasPrice", refer("Wei")),
            may(
                "dataFee",
                said(refer("Wei"), "what a rollup charged on top for its bytes on the parent chain"),
            ),
            may("contractAddress", refer("Address")),
            may("version", said(refer("Version"), "which version this is; of one transaction, not in lists")),
            may(
                "noOp",
                said(json!({ "type": "boolean" }), "true: it did nothing of what was asked; not in lists"),
            ),
        ],
    )
}

fn attempt() -> Value {
    object(
        "one signed byte string for a nonce",
        [
            has("hash", refer("Hash")),
            has("nonce", refer("Nonce")),
            has("attempt", said(number(), "counted from 0 for each nonce")),
            has("version", refer("Version")),
            has("noOp", json!({ "type": "boolean" })),
            has("gas", number()),
            may("gasPrice", refer("Wei")),
            may("maxFeePerGas", refer("Wei")),
            may("maxPriorityFeePerGas", refer("Wei")),
            has("createdAt", refer("Time")),
            has("sends", number()),
            has(
                "accepted",
                said(
                    json!({ "type": "boolean" }),
                    "some node said that it has the bytes; no proof that it kept them",
                ),
            ),
            may("firstSentAt", refer("Time")),
            may("lastSentAt", refer("Time")),
            may("lastAnswer", refer("Answer")),
            has("answers", list(refer("AnswerTally"))),
        ],
    )
}

pub(super) fn answer() -> Vec<Field> {
    vec![
        has("outcome", refer("Outcome")),
        has("endpoint", said(text(), "its URL without credentials")),
        may("code", said(json!({ "type": "integer" }), "the JSON-RPC error code")),
        may("text", said(text(), "the node's own words")),
        has("latencyMs", number()),
    ]
}

fn tally() -> Value {
    let mut fields = answer();
    fields.extend([has("count", number()), has("firstAt", refer("Time")), has("lastAt", refer("Time"))]);
    object("an answer, and how often it was given", fields)
}

fn batch_item() -> Value {
    let mut fields = accepted();
    fields.push(has("status", json!({ "type": "integer", "enum": [200, 202] })));
    any_of([object("", fields), refer("Problem")])
}

fn confirmations() -> Value {
    object(
        "",
        [
            has(
                "newFork",
                said(
                    json!({ "type": "boolean" }),
                    "the block you know is not in the list: these take the place of yours",
                ),
            ),
            has("confirmations", number()),
            has("items", list(refer("Block"))),
        ],
    )
}

fn kind() -> Value {
    let tx = || has("tx", refer("TxId"));
    let version = || has("version", refer("Version"));
    let simple = ["pause", "resume", "disable", "reset", "cancel_all"];
    let mut kinds: Vec<Value> =
        simple.into_iter().map(|name| object("", [has("type", word(name))])).collect();
    kinds.extend([
        object("", [has("type", words(["cancel", "speed_up"])), tx()]),
        object("", [has("type", words(["replace", "approve", "reject"])), tx(), version()]),
        object("", [has("type", word("settle")), tx(), has("taken", words(["ours", "foreign"]))]),
        object("", [has("type", word("fill")), has("from", refer("Nonce")), has("to", refer("Nonce"))]),
    ]);
    any_of(kinds)
}

fn command() -> Value {
    object(
        "The wish is stored. Whether it comes in time, the chain decides.",
        [has("commandId", uuid("the stored command")), has("command", kind())],
    )
}

fn all_cancelled() -> Value {
    object(
        "the command, and what it found",
        [
            has("commandId", uuid("the stored command")),
            has("command", object("", [has("type", word("cancel_all"))])),
            has("queued", said(number(), "how many are to end")),
            has("tooLate", said(number(), "in a block already")),
            has("waiting", said(number(), "without a nonce: they end at once")),
            has("inFlight", said(number(), "with a nonce: a no-op is sent for each")),
        ],
    )
}

/// A time that may be missing.
pub(super) fn time_or_null() -> Value {
    or_null(refer("Time"))
}
