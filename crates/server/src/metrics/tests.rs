use std::collections::BTreeSet;
use std::time::Duration;

use landfall_core::transaction::TxState;
use landfall_core::{Millis, Slot, TxHash, TxId};

use super::*;

const CHAIN: ChainId = ChainId(7);

fn metrics() -> Metrics {
    Metrics::new("here", [CHAIN]).unwrap()
}

fn text(metrics: &Metrics) -> String {
    TextEncoder::new().encode_to_string(&metrics.registry.gather()).unwrap()
}

#[test]
fn every_metric_is_named_once_and_by_the_rules() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len());
    for Metric { name, kind, labels, help } in METRICS {
        assert!(name.starts_with("landfall_") && help.ends_with('.'), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
        assert!(labels.iter().all(|label| !["le", "job", "instance"].contains(label)), "{name}");
    }
}

/// A fact with the wrong number of labels would be lost in silence.
#[test]
fn every_fact_is_counted() {
    let metrics = metrics();
    let second = Duration::from_secs(1);
    let hash = TxHash(alloy_primitives::B256::ZERO);
    let tx = TxId::new(landfall_core::Millis(1), 1);
    let facts = [
        (Fact::LeaseAcquired, "landfall_lease_acquired_total 1"),
        (Fact::LeaseFenced, "landfall_lease_fenced_total 1"),
        (Fact::SessionRenewed(Renewal::Failed), "landfall_session_renewals_total{result=\"failed\"} 1"),
        (Fact::Submitted(Submitted::New), "landfall_submit_total{result=\"new\"} 1"),
        (
            Fact::Moved {
                from: Some(TxState::Signed),
                to: TxState::Mined,
                stayed: second,
                tx: TxId::new(Millis(1), 1),
                chain: CHAIN,
                accepted_at: Millis(1),
                at: Millis(2),
            },
            "landfall_tx_transitions_total{from=\"signed\",to=\"mined\"} 1",
        ),
        (
            Fact::Reached { chain: CHAIN, milestone: Milestone::Final, after: second },
            "landfall_tx_queued_to_final_seconds_bucket{chain=\"7\",le=\"1\"} 1",
        ),
        (
            Fact::Signed { chain: CHAIN, what: Signed::Again },
            "landfall_attempts_total{chain=\"7\",kind=\"reprice\"} 1",
        ),
        (Fact::Resubmitted { chain: CHAIN, count: 3 }, "landfall_resubmits_total{chain=\"7\"} 3"),
        (
            Fact::ReceiptChecked { chain: CHAIN, result: ReceiptCheck::Missing, count: 2 },
            "landfall_receipt_check_total{chain=\"7\",result=\"missing\"} 2",
        ),
        (Fact::NewFork { chain: CHAIN }, "landfall_confirmations_new_fork_total{chain=\"7\"} 1"),
        (Fact::Reorged { chain: CHAIN }, "landfall_tx_reorged_total{chain=\"7\"} 1"),
        (Fact::DeepReorg { chain: CHAIN }, "landfall_deep_reorgs_total{chain=\"7\"} 1"),
        (Fact::SingleWitness { chain: CHAIN }, "landfall_tx_single_witness_total{chain=\"7\"} 1"),
        (
            Fact::Settled { chain: CHAIN, how: Settled::Displaced },
            "landfall_slots_settled_total{chain=\"7\",result=\"displaced\"} 1",
        ),
        (Fact::Group { writes: 3, rows: 9, took: second }, "landfall_store_commit_rows_sum 9"),
        (Fact::Wrote(WriteEnd::Unknown), "landfall_store_writes_total{result=\"unknown\"} 1"),
        (Fact::Journalled { entries: 4 }, "landfall_journal_entries_total 4"),
        (
            Fact::Alarm(Alarm::TwoWinners { slot: Slot(1), first: hash, second: hash }),
            "landfall_alarm_two_winners_total 1",
        ),
        (
            Fact::Alarm(Alarm::WonTwice { tx, one: Slot(1), other: Slot(2) }),
            "landfall_alarm_won_twice_total 1",
        ),
    ];
    for (fact, line) in facts {
        assert!(!text(&metrics).lines().any(|shown| shown == line), "{line} was there before");
        metrics.note(fact);
        assert!(text(&metrics).lines().any(|shown| shown == line), "{line} is not in {}", text(&metrics));
    }
}

#[test]
fn what_has_not_happened_yet_is_shown_as_nothing() {
    let shown = text(&metrics());
    for line in [
        "landfall_alarm_two_winners_total 0",
        "landfall_alarm_won_twice_total 0",
        "landfall_lease_fenced_total 0",
        "landfall_submit_total{result=\"conflict\"} 0",
        "landfall_resubmits_total{chain=\"7\"} 0",
    ] {
        assert!(shown.lines().any(|one| one == line), "{line}");
    }
}

#[test]
fn the_page_in_docs_has_every_metric_with_its_kind_and_labels_and_no_other() {
    let page = include_str!("../../../../docs/metrics.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `landfall_")).collect();
    for Metric { name, kind, labels, help } in METRICS {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let row = format!("| `{name}` | {} | {} | {help} |", kind.name(), labels.join(", "));
        assert!(
            rows.iter().any(|shown| shown.starts_with(&row)),
            "docs/metrics.md has no row that begins\n{row}"
        );
    }
    assert_eq!(rows.len(), METRICS.len());
}
