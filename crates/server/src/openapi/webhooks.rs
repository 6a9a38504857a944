//! Webhooks as they are asked for and shown. In code: `routes/webhooks.rs`.

use landfall_core::journal::EVENTS;
use serde_json::{Value, json};

use super::calls::{READING_LISTS, WEBHOOK_ID};
use super::operation::{Operation, delete, get, patch, post};
use super::requests::{anything, position};
use super::schema::{
    Field, example, flag, has, list, may, number, object, optional, or_null, page, refer, said, text, words,
};
use super::transaction::time_or_null;
use crate::problem::Code;
use crate::webhooks::DeliveryState;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let mut with_secret = webhook();
    with_secret.push(has("secret", said(text(), "what its receiver verifies with; shown this once")));
    vec![
        (
            "NewWebhook",
            example(new(), json!({ "url": "https://example.com/hook", "events": ["tx.confirmed"] })),
        ),
        ("WebhookChange", change()),
        (
            "Rotation",
            object(
                "",
                [optional(
                    "overlapSeconds",
                    json!({
                        "type": "integer", "minimum": 0, "maximum": 2_592_000,
                        "description": "for how long the old secret is used beside the new one",
                    }),
                )],
            ),
        ),
        ("SwitchOff", object("", [optional("reason", short())])),
        (
            "Replay",
            object("", [has("after", said(number(), "everything after this event is delivered again"))]),
        ),
        ("Webhook", object("where events are delivered to, and how that goes", webhook())),
        ("WebhookMade", object("a webhook with its new secret", with_secret)),
        (
            "WebhookDeleted",
            object("", [has("id", text()), has("deleted", json!({ "type": "boolean", "const": true }))]),
        ),
        ("WebhookTest", tested()),
        ("Delivery", delivery()),
        ("WebhookPage", page("Webhook")),
        ("DeliveryPage", page("Delivery")),
    ]
}

fn short() -> Value {
    json!({ "type": "string", "maxLength": 500 })
}

/// What a webhook is to hear of.
fn filter() -> Vec<Field> {
    let most = |items: Value| json!({ "type": "array", "items": items, "maxItems": 1_000 });
    vec![
        optional("events", said(most(words(EVENTS.iter().copied())), "only of these names; empty: all")),
        optional("chains", said(most(refer("ChainId")), "only of these chains; empty: all")),
        optional("signers", said(most(refer("Address")), "only of these signers; empty: all")),
        optional("description", short()),
    ]
}

fn new() -> Value {
    let mut fields = vec![has(
        "url",
        said(text(), "where to; https, and no private address unless the configuration says so"),
    )];
    fields.extend(filter());
    fields.push(optional(
        "after",
        said(number(), "begin after the event of this number; from now on if left out"),
    ));
    object("", fields)
}

fn change() -> Value {
    let mut fields = vec![optional("url", text())];
    fields.extend(filter());
    object("what is left out stays as it is", fields)
}

fn webhook() -> Vec<Field> {
    let retiring = object("", [has("generation", number()), has("until", refer("Time"))]);
    vec![
        has("id", text()),
        has("url", text()),
        has("description", text()),
        has("events", list(words(EVENTS.iter().copied()))),
        has("chains", list(refer("ChainId"))),
        has("signers", list(refer("Address"))),
        has("createdAt", refer("Time")),
        has("enabled", flag()),
        has("healthy", flag()),
        has("trouble", said(or_null(text()), "why events are late or not sent")),
        has("disabledSince", time_or_null()),
        has("cursor", said(json!({ "type": "integer" }), "events up to this number were taken up")),
        has("behind", number()),
        has("waiting", said(number(), "how many are tried again")),
        has("deliveredAt", time_or_null()),
        has("failingSince", time_or_null()),
        has("lastFailure", or_null(text())),
        has("node", said(or_null(text()), "who delivers")),
        has("secretGeneration", number()),
        has("retiringSecrets", list(retiring)),
    ]
}

fn tested() -> Value {
    object(
        "",
        [
            has("delivered", flag()),
            has("messageId", text()),
            has("status", said(or_null(number()), "the receiver's")),
            has("tookMs", number()),
            may("failure", text()),
        ],
    )
}

fn delivery() -> Value {
    object(
        "an event that failed, is held back, or was given up",
        [
            has("seq", json!({ "type": "integer" })),
            has("messageId", text()),
            has("event", text()),
            has("txId", or_null(refer("TxId"))),
            has("lane", or_null(text())),
            has("state", words(DeliveryState::ALL.map(DeliveryState::name))),
            has("failures", number()),
            has("dueAt", time_or_null()),
            has("firstTriedAt", time_or_null()),
            has("lastTriedAt", time_or_null()),
            has("lastFailure", or_null(text())),
        ],
    )
}

pub(super) fn calls() -> Vec<Operation> {
    let of = |call: Operation| call.at("id", anything(WEBHOOK_ID)).refuses(&[Code::Busy]);
    let shown = |call: Operation| of(call).answers(200, "The webhook.", refer("Webhook"));
    vec![
        get("/api/v1/webhooks", "listWebhooks", "All webhooks").answers(200, "All of them, on one page.", refer("WebhookPage")),
        post("/api/v1/webhooks", "createWebhook", "Have events delivered to a URL")
            .says("At least once, in order for each transaction, signed as Standard Webhooks has it. The secret is in this answer only.")
            .takes(refer("NewWebhook"), true)
            .answers(201, "It is delivered to.", refer("WebhookMade"))
            .refuses(READING_LISTS)
            .refuses(&[Code::BadUrl, Code::WebhooksOff, Code::TooManyWebhooks, Code::Busy]),
        shown(get("/api/v1/webhooks/{id}", "getWebhook", "A webhook, and how it goes")),
        shown(patch("/api/v1/webhooks/{id}", "changeWebhook", "Change a webhook"))
            .takes(refer("WebhookChange"), true)
            .refuses(READING_LISTS)
            .refuses(&[Code::BadUrl]),
        of(delete("/api/v1/webhooks/{id}", "deleteWebhook", "Delete a webhook, and what waits for it"))
            .answers(200, "It is gone.", refer("WebhookDeleted")),
        of(post("/api/v1/webhooks/{id}/rotate", "rotateWebhook", "Give a webhook a new secret"))
            .takes(refer("Rotation"), false)
            .answers(200, "The new secret is in this answer only.", refer("WebhookMade"))
            .refuses(&[Code::BadValue, Code::WebhooksOff]),
        shown(post("/api/v1/webhooks/{id}/enable", "enableWebhook", "Deliver again, from where it was")),
        shown(post("/api/v1/webhooks/{id}/disable", "disableWebhook", "Deliver nothing for now"))
            .takes(refer("SwitchOff"), false)
            .refuses(&[Code::BadValue]),
        shown(post("/api/v1/webhooks/{id}/replay", "replayWebhook", "Deliver everything after an event again"))
            .takes(refer("Replay"), true)
            .refuses(&[Code::NothingToReplay]),
        of(post("/api/v1/webhooks/{id}/test", "testWebhook", "Send a made-up event now"))
            .answers(200, "What came of it.", refer("WebhookTest"))
            .refuses(&[Code::WebhooksOff]),
        of(get("/api/v1/webhooks/{id}/deliveries", "listDeliveries", "Events that failed, are held back, or were given up"))
            .query("state", words(DeliveryState::ALL.map(DeliveryState::name)), "only those in this state")
            .query("cursor", position(), "the `nextCursor` of the page before")
            .query("limit", json!({ "type": "integer", "minimum": 1, "maximum": 500, "default": 100 }), "how many a page has at most")
            .answers(200, "A page, the oldest first.", refer("DeliveryPage")),
        of(post("/api/v1/webhooks/{id}/deliveries/{seq}/redeliver", "redeliver", "Deliver one event again"))
            .at("seq", position())
            .answers(202, "It is to be delivered.", refer("Delivery"))
            .refuses(&[Code::NothingToReplay]),
    ]
}
