use std::collections::BTreeSet;

use landfall_core::fees::Fees;
use landfall_core::journal::{Entry, JournalRow};
use landfall_core::outcome::{SendOutcome, SendReport};
use landfall_core::request::{AskedFees, Speed};
use landfall_core::transaction::{Reason, ReasonCode, TxState};
use landfall_core::view::{BlockRef, Receipt};
use landfall_core::{
    Account, ChainId, ContentVersion, Gas, JournalSeq, LaneId, Millis, Price, QueueOrder, Slot, TxHash, Wei,
};

use axum::http::Method;

use super::*;
use crate::access::Need;
use crate::problem::Code;
use crate::routes::table::TABLE;
use crate::show;

fn validator(schema: &str) -> jsonschema::Validator {
    let mut whole = document();
    whole["$ref"] = json!(format!("#/components/schemas/{schema}"));
    jsonschema::options().should_validate_formats(true).build(&whole).unwrap()
}

const ON_GRPC_ALONE: [Code; 2] = [Code::OutOfSync, Code::TooManyStreams];

/// The paths of the table but those of gRPC, which has a proto file and reflection to say what it takes.
fn rest() -> impl Iterator<Item = &'static (Method, &'static str, Need)> {
    TABLE.iter().filter(|(_, path, _)| !crate::grpc::is_service(path))
}

#[test]
fn the_document_has_the_calls_of_the_table_and_no_others() {
    let table: BTreeSet<(String, &str)> =
        rest().map(|(method, path, _)| (method.as_str().to_ascii_lowercase(), *path)).collect();
    let written: Vec<(String, &str)> =
        calls::all().iter().map(|call| (call.method.as_str().to_ascii_lowercase(), call.path)).collect();
    assert_eq!(
        written.iter().cloned().collect::<BTreeSet<_>>(),
        table,
        "openapi/calls.rs and routes/table.rs differ"
    );
    assert_eq!(written.len(), table.len(), "a call is there twice");
}

#[test]
fn every_call_says_the_role_that_the_table_asks_for() {
    let document = document();
    for (method, path, need) in rest() {
        let call = &document["paths"][path][method.as_str().to_ascii_lowercase()];
        let (role, open) = match need {
            Need::Nobody => ("nobody", true),
            Need::Role(role) => (role.name(), false),
        };
        assert_eq!(call["x-landfall-role"], role, "{method} {path}");
        assert_eq!(call["security"].as_array().unwrap().is_empty(), open, "{method} {path}");
        let names: BTreeSet<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let said: BTreeSet<&str> = call["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "path")
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        assert_eq!(said, names, "{method} {path}");
    }
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let document = document();
    let mut names = BTreeSet::new();
    for path in document["paths"].as_object().unwrap().values() {
        for call in path.as_object().unwrap().values() {
            assert!(
                names.insert(call["operationId"].as_str().unwrap().to_owned()),
                "{}",
                call["operationId"]
            );
        }
    }
}

#[test]
fn every_problem_is_the_answer_of_some_call() {
    let text = document()["paths"].to_string();
    for code in Code::ALL {
        if !ON_GRPC_ALONE.contains(code) {
            assert!(text.contains(&format!("\"{}\"", code.text())), "no call answers {}", code.text());
        }
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(path)) = map.get("$ref") {
                    found.insert(path.clone());
                }
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let there: BTreeSet<String> = schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
    assert_eq!(found, there);
}

#[test]
fn nothing_in_the_document_is_null() {
    fn nulls(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Object(map) => map.values().any(nulls),
            Value::Array(items) => items.iter().any(nulls),
            _ => false,
        }
    }
    assert!(!nulls(&document()));
}

#[test]
fn every_example_fits_its_schema() {
    let document = document();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for example in schema["examples"].as_array().into_iter().flatten() {
            if let Err(error) = validator(name).validate(example) {
                panic!("{name}: {error}");
            }
        }
    }
}

#[test]
fn every_entry_of_the_journal_fits_the_document() {
    let lane = LaneId { chain: ChainId(31_337), signer: Account(SIGNER.parse().unwrap()) };
    let validator = validator("JournalEntry");
    let mut kinds = BTreeSet::new();
    for entry in entries() {
        let row = JournalRow { seq: JournalSeq(1), lane, tx: None, at: Millis(1), entry, by: None };
        let shown = show::journal_row(&row, show::Addresses::Shown);
        if let Err(error) = validator.validate(&shown) {
            panic!("{shown}: {error}");
        }
        kinds.insert(position(&row.entry));
        assert!(row.entry.event().is_none_or(|event| journal::events().contains(&event)), "{shown}");
    }
    assert_eq!(kinds, (0..KINDS).collect(), "an entry has no example here");
}

/// One of each kind of entry.
fn entries() -> Vec<Entry> {
    let (slot, hash, version) = (Slot(1), TxHash(alloy_primitives::B256::ZERO), ContentVersion(1));
    let block = BlockRef { number: 1, hash: hash.0 };
    let reason = || Reason { code: ReasonCode::Displaced, text: "because".to_owned() };
    let text = || "because".to_owned();
    let report = || SendReport {
        outcome: SendOutcome::Accepted,
        endpoint: text(),
        code: Some(-32_000),
        text: Some(text()),
        latency_ms: 1,
    };
    let receipt = || Receipt {
        hash,
        block,
        index: 0,
        success: true,
        gas_used: Gas(1),
        gas_price: Price(1),
        data_fee: Some(Wei(alloy_primitives::U256::from(1))),
        contract: Some(Account(SIGNER.parse().unwrap())),
    };
    let signed =
        |attempt, fees| Entry::Signed { slot, attempt, version, no_op: false, hash, fees, gas: Gas(1) };
    vec![
        Entry::Accepted,
        Entry::Simulated,
        Entry::ApprovalAsked,
        Entry::Approved,
        Entry::PrepareFailed { reason: text(), tries: 1 },
        Entry::SlotReserved { slot },
        Entry::SlotReturned { slot },
        signed(0, Fees::Legacy { gas_price: Price(1) }),
        signed(1, Fees::Dynamic { max_fee: Price(2), tip: Price(1) }),
        Entry::Broadcast { hash, report: report() },
        Entry::SendAnswered { hash, report: report() },
        Entry::AtCeiling { slot, needed: Price(2), ceiling: Price(1) },
        Entry::Mined { receipt: receipt(), version, no_op: false },
        Entry::Reorged { hash, block },
        Entry::RecheckBegan { slot },
        Entry::FinalReorged { hash, block },
        Entry::LandedAgain { receipt: receipt(), version },
        Entry::BoundBack { slot },
        Entry::FinalLost { slot, block },
        Entry::EndingBegan { state: TxState::Cancelled, reason: reason() },
        Entry::Replaced { version },
        Entry::ReplaceDropped { version, reason: reason() },
        Entry::EarlierWon { won: version, newest: version },
        Entry::SpeedUpAsked { fees: AskedFees::Market, speed: None },
        Entry::SpeedUpAsked { fees: AskedFees::Legacy { gas_price: None }, speed: Some(Speed::Fast) },
        Entry::SpeedUpAsked { fees: AskedFees::Dynamic { max_fee: Some(Price(1)), tip: None }, speed: None },
        Entry::VersionApprovalAsked { version },
        Entry::VersionApproved { version },
        Entry::Held { reason: reason() },
        Entry::Released,
        Entry::Displaced { slot },
        Entry::Requeued { slot, block },
        Entry::Confirmed { hash, block, version },
        Entry::Reverted { hash, block, reason: reason() },
        Entry::Failed { reason: reason() },
        Entry::Cancelled { reason: reason() },
        Entry::Expired { reason: reason() },
        Entry::LowBalance { balance: Wei::default(), text: text() },
        Entry::BalanceRestored { balance: Wei::default() },
        Entry::LaneHeld { text: text() },
        Entry::LaneResumed { text: text() },
        Entry::LanePaused { text: text() },
        Entry::LaneDisabled { text: text() },
        Entry::LaneFilled { text: text() },
        Entry::LaneReset { text: text() },
        Entry::AllCancelled { up_to: QueueOrder(1), text: text() },
        Entry::SingleWitness { hash, block },
        Entry::LaneAdopted { nonces: vec![Slot(1)], hashes: vec![hash], text: text() },
        Entry::CarriedOut { slot: Slot(1), hash, block },
        Entry::TakenAlike { slot: Slot(1), hash, block },
        Entry::TakenByOther { slot: Slot(1), hash, block },
    ]
}

const KINDS: u32 = 48;

/// A number for each kind, so that a new kind does not compile until it is here.
fn position(entry: &Entry) -> u32 {
    match entry {
        Entry::Accepted => 0,
        Entry::Simulated => 1,
        Entry::ApprovalAsked => 2,
        Entry::Approved => 3,
        Entry::PrepareFailed { .. } => 4,
        Entry::SlotReserved { .. } => 5,
        Entry::SlotReturned { .. } => 6,
        Entry::Signed { .. } => 7,
        Entry::Broadcast { .. } => 8,
        Entry::SendAnswered { .. } => 9,
        Entry::AtCeiling { .. } => 10,
        Entry::Mined { .. } => 11,
        Entry::Reorged { .. } => 12,
        Entry::RecheckBegan { .. } => 13,
        Entry::FinalReorged { .. } => 14,
        Entry::LandedAgain { .. } => 15,
        Entry::BoundBack { .. } => 16,
        Entry::FinalLost { .. } => 17,
        Entry::EndingBegan { .. } => 18,
        Entry::Replaced { .. } => 19,
        Entry::ReplaceDropped { .. } => 20,
        Entry::EarlierWon { .. } => 21,
        Entry::SpeedUpAsked { .. } => 22,
        Entry::VersionApprovalAsked { .. } => 23,
        Entry::VersionApproved { .. } => 24,
        Entry::Held { .. } => 25,
        Entry::Released => 26,
        Entry::Displaced { .. } => 27,
        Entry::Requeued { .. } => 28,
        Entry::Confirmed { .. } => 29,
        Entry::Reverted { .. } => 30,
        Entry::Failed { .. } => 31,
        Entry::Cancelled { .. } => 32,
        Entry::Expired { .. } => 33,
        Entry::LowBalance { .. } => 34,
        Entry::BalanceRestored { .. } => 35,
        Entry::LaneHeld { .. } => 36,
        Entry::LaneResumed { .. } => 37,
        Entry::LanePaused { .. } => 38,
        Entry::LaneDisabled { .. } => 39,
        Entry::LaneFilled { .. } => 40,
        Entry::LaneReset { .. } => 41,
        Entry::AllCancelled { .. } => 42,
        Entry::SingleWitness { .. } => 43,
        Entry::LaneAdopted { .. } => 44,
        Entry::CarriedOut { .. } => 45,
        Entry::TakenAlike { .. } => 46,
        Entry::TakenByOther { .. } => 47,
    }
}
