//! What `GET /metrics` says, read by a strict parser of Prometheus' text format.

use std::collections::{BTreeMap, BTreeSet};

use landfall_server::metrics::{Kind, METRICS};
use serde_json::json;

use crate::support::{Api, Chain, Server, Settings, signer, transfer, transfer_as};

/// A page: the value of each series, by its name and sorted labels.
#[derive(Debug)]
struct Page {
    series: BTreeMap<(String, BTreeMap<String, String>), f64>,
    kinds: BTreeMap<String, String>,
    text: String,
}

impl Page {
    /// The sum over all series of this name that have these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |own: &BTreeMap<String, String>| {
            labels.iter().all(|(label, value)| own.get(*label).is_some_and(|shown| shown == value))
        };
        let found = self.series.iter().filter(|((series, own), _)| series == name && fits(own));
        found.map(|(_, value)| value).sum()
    }
}

async fn scrape(api: &Api) -> Page {
    let answer = api.get("/metrics").await;
    assert_eq!(answer.content_type, "text/plain; version=0.0.4");
    let text = answer.expect(200);
    parse(text.as_str().expect("a text"))
}

/// Reads the text format, and panics at whatever its description does not allow.
fn parse(text: &str) -> Page {
    let mut page = Page { series: BTreeMap::new(), kinds: BTreeMap::new(), text: text.to_owned() };
    let mut helped = BTreeSet::new();
    let mut family = String::new();
    assert!(text.ends_with('\n'), "the last line ends");
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, sentence) = help.split_once(' ').expect("a name and a sentence");
            assert!(helped.insert(name.to_owned()) && !sentence.is_empty(), "one HELP for {name}");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a kind");
            assert!(helped.contains(name), "HELP comes before TYPE: {name}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(page.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "one TYPE for {name}");
            name.clone_into(&mut family);
            continue;
        }
        let (name, labels, value) = sample(line);
        let base = if page.kinds.get(&family).is_some_and(|kind| kind == "histogram") {
            let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            of_histogram.unwrap_or_else(|| panic!("not a series of a histogram: {line}"))
        } else {
            name.as_str()
        };
        assert_eq!(base, family, "series stand below their TYPE: {line}");
        assert_eq!(name.ends_with("_bucket"), labels.contains_key("le"), "{line}");
        assert!(page.series.insert((name, labels), value).is_none(), "given twice: {line}");
    }
    check_histograms(&page);
    page
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
            assert!(is_name(label), "{line}");
            let mut value = String::new();
            let mut letters = after.char_indices();
            let close = loop {
                match letters.next().unwrap_or_else(|| panic!("a value that does not end: {line}")) {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match letters.next() {
                        Some((_, 'n')) => '\n',
                        Some((_, letter @ ('\\' | '"'))) => letter,
                        other => panic!("not an escape: {other:?} in {line}"),
                    }),
                    (_, letter) => value.push(letter),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "a label twice: {line}");
            rest = &after[close + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap_or_else(|| panic!("no end of labels: {line}"));
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no space before the value: {line}"));
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("not a number: {line}")))
}

/// Buckets grow, and the last one holds everything.
fn check_histograms(page: &Page) {
    let mut buckets: BTreeMap<_, Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), value) in &page.series {
        let Some(base) = name.strip_suffix("_bucket") else { continue };
        let mut labels = labels.clone();
        let le = labels.remove("le").and_then(|le| le.replace("+Inf", "inf").parse().ok());
        buckets.entry((base.to_owned(), labels)).or_default().push((le.expect("a bound"), *value));
    }
    for ((base, labels), mut bounds) in buckets {
        bounds.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        assert!(bounds.is_sorted_by(|(_, one), (_, other)| one <= other), "{base} {labels:?}: {bounds:?}");
        let (last, all) = bounds[bounds.len() - 1];
        assert!(last.is_infinite(), "{base}");
        assert_eq!(page.series[&(format!("{base}_count"), labels.clone())], all, "{base} {labels:?}");
        assert!(page.series.contains_key(&(format!("{base}_sum"), labels)), "{base}");
    }
}

#[tokio::test]
async fn a_life_is_counted_step_by_step_and_measured_once() {
    let chain = Chain::without_mining().await;
    let server = Server::start(&chain.url(), Settings { finality: 2, ..Settings::default() }).await;
    let api = &server.api;
    chain.mine(3).await;
    let before = scrape(api).await;
    assert_eq!(before.sum("landfall_submit_total", &[]), 0.0);
    assert_eq!(before.sum("landfall_build_info", &[("node", "landfall")]), 1.0);

    let body = transfer_as("counted");
    let id = api.submit(&body).await;
    api.post("/api/v1/tx", &body).await.expect(200);
    let mut other = body.clone();
    other["payload"]["value"] = json!("2");
    api.post("/api/v1/tx", &other).await.expect(422);
    let mut stranger = transfer();
    stranger["signer"] = json!(signer(5));
    api.post("/api/v1/tx", &stranger).await;
    api.until_state(&id, "broadcast").await;
    let page = scrape(api).await;
    for (result, count) in
        [("new", 1.0), ("replay", 1.0), ("conflict", 1.0), ("refused", 1.0), ("failed", 0.0)]
    {
        assert_eq!(page.sum("landfall_submit_total", &[("result", result)]), count, "{result}");
    }
    let lane = [("chain", "31337"), ("signer", &*signer(0))];
    assert_eq!(page.sum("landfall_lane_out", &lane), 1.0, "{}", page.text);
    assert_eq!(page.sum("landfall_lane_window", &lane), 64.0);
    assert_eq!(page.sum("landfall_lane_held", &lane), 0.0);
    assert_eq!(page.sum("landfall_lease_acquired_total", &[]), 1.0);
    assert_eq!(page.sum("landfall_send_total", &[("outcome", "accepted")]), 1.0);
    assert_eq!(page.sum("landfall_tx_queued_to_sent_seconds_count", &[]), 1.0);
    assert_eq!(page.sum("landfall_tx_queued_to_mined_seconds_count", &[]), 0.0);

    // It is mined, taken back, mined again, and final.
    chain.mine(1).await;
    api.until_state(&id, "mined").await;
    chain.mine(1).await;
    api.until_tx(&id, "a block on top is seen", |tx| tx["confirmations"] == 1).await;
    chain.call("anvil_reorg", json!([2, []])).await;
    api.until_state(&id, "broadcast").await;
    chain.until_pooled(1).await;
    chain.mine(1).await;
    api.until_state(&id, "mined").await;
    chain.mine(2).await;
    api.until_state(&id, "confirmed").await;

    let page = scrape(api).await;
    let moved =
        |from: &str, to: &str| page.sum("landfall_tx_transitions_total", &[("from", from), ("to", to)]);
    assert_eq!(moved("none", "accepted"), 1.0);
    assert_eq!(moved("accepted", "signed"), 1.0);
    assert_eq!(moved("signed", "broadcast"), 1.0);
    assert_eq!(moved("broadcast", "mined"), 2.0);
    assert_eq!(moved("mined", "broadcast"), 1.0);
    assert_eq!(moved("mined", "confirmed"), 1.0);
    assert_eq!(page.sum("landfall_confirmations_new_fork_total", &[("chain", "31337")]), 1.0);
    assert_eq!(page.sum("landfall_tx_reorged_total", &[("chain", "31337")]), 1.0);
    for milestone in ["signed", "sent", "mined", "final"] {
        let count =
            page.sum(&format!("landfall_tx_queued_to_{milestone}_seconds_count"), &[("chain", "31337")]);
        assert_eq!(count, 1.0, "{milestone}");
    }
    assert_eq!(page.sum("landfall_tx_stage_seconds_count", &[("state", "accepted")]), 1.0);
    assert_eq!(page.sum("landfall_slots_settled_total", &[("result", "won")]), 1.0);
    assert_eq!(page.sum("landfall_attempts_total", &[("kind", "first")]), 1.0);
    assert!(page.sum("landfall_receipt_check_total", &[("result", "found")]) >= 1.0);
    let journal = api.journal(&id).await.len() as f64;
    assert_eq!(page.sum("landfall_journal_entries_total", &[]), journal);
    assert!(page.sum("landfall_store_commit_seconds_count", &[]) >= 4.0);
    for zero in ["alarm_two_winners", "alarm_won_twice", "deep_reorgs", "lease_fenced"] {
        assert_eq!(page.sum(&format!("landfall_{zero}_total"), &[]), 0.0, "{zero}");
    }
    assert_eq!(page.sum("landfall_endpoint_usable", &[]), 1.0);
    assert_eq!(page.sum("landfall_chain_head", &[]), chain.head().await as f64);

    // Everything that is shown is in the table, as the kind it says; all of it is shown by now.
    let kinds: BTreeMap<String, String> =
        METRICS.iter().map(|metric| (metric.name.to_owned(), metric.kind.name().to_owned())).collect();
    for (name, kind) in &page.kinds {
        assert_eq!(kinds.get(name), Some(kind), "{name}");
    }
    // A single endpoint is seldom asked for its last final block, and there is no webhook here.
    let seldom = |name: &str| {
        let webhooks = ["landfall_outbox_", "landfall_webhook_"];
        name == "landfall_endpoint_finalized" || webhooks.iter().any(|part| name.starts_with(part))
    };
    let missing = kinds.keys().filter(|name| !page.kinds.contains_key(*name));
    let missing: Vec<&String> = missing.filter(|name| !seldom(name)).collect();
    assert!(missing.is_empty(), "not shown: {missing:?}");
    for metric in METRICS.iter().filter(|metric| metric.kind != Kind::Histogram) {
        for (name, labels) in page.series.keys().filter(|(name, _)| name == metric.name) {
            let shown: BTreeSet<&str> = labels.keys().map(String::as_str).collect();
            assert_eq!(shown, metric.labels.iter().copied().collect(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_masked_signer_is_named_neither_in_metrics_nor_in_log_lines_and_every_write_is_logged() {
    let chain = Chain::without_mining().await;
    let settings = Settings { chain: MASKED, log: "info,landfall_engine=debug", ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let api = &server.api;
    let id = api.submit(&transfer()).await;
    api.until_state(&id, "broadcast").await;
    chain.mine(3).await;
    api.until_state(&id, "confirmed").await;
    let page = scrape(api).await;
    let address = signer(0).to_lowercase();
    assert!(!page.text.to_lowercase().contains(&address[2..]), "{}", page.text);
    assert_eq!(
        page.sum("landfall_lane_window", &[("chain", "31337")]),
        64.0,
        "it is there, under another name"
    );
    let log = server.log();
    assert!(!log.to_lowercase().contains(&address[2..]), "{log}");
    let lines: Vec<serde_json::Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let said = |what: &str| {
        let of_it =
            |line: &&serde_json::Value| line["fields"]["message"] == what && line["fields"]["tx"] == id;
        lines.iter().find(of_it).unwrap_or_else(|| panic!("no {what:?} of {id} in {log}"))["fields"].clone()
    };
    let accepted = said("accepted");
    let committed = said("committed");
    for fields in [&accepted, &committed] {
        assert_eq!(fields["node"], "landfall", "{fields}");
        assert!(fields["signer"].as_str().unwrap().starts_with("signer-"), "{fields}");
    }
    assert_eq!(committed["token"], "1", "{committed}");
}

/// Lines that end the `[[chain]]` part with the one that masks.
const MASKED: &str = "[metrics]\nmask_signers = true";
