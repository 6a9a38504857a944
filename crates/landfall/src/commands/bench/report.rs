//! What is told of a run: a table for people, the same as JSON for programs.

use serde_json::{Value, json};

use super::history::History;
use super::load::Loaded;
use super::process::Usage;
use super::site::{BLOCK, FINALITY, Reading};
use crate::cli::Bench;
use crate::output;

/// Everything that was seen of a run.
pub(super) struct Run<'a> {
    pub(super) args: &'a Bench,
    pub(super) sign_limit_per_s: f64,
    pub(super) store_limit_per_s: f64,
    pub(super) before: Reading,
    pub(super) after: Reading,
    pub(super) loaded: Loaded,
    /// When the store had the last final state.
    pub(super) ended_ms: u64,
    pub(super) history: History,
    pub(super) store_bytes: u64,
    pub(super) durability: String,
    pub(super) settings: Value,
    pub(super) landed_once: bool,
}

impl Run<'_> {
    /// First request to last final state in the store.
    fn landed_per_s(&self) -> f64 {
        let ms = self.ended_ms.saturating_sub(self.loaded.begun_ms).max(1);
        self.history.final_ms.len() as f64 * 1_000.0 / ms as f64
    }

    pub(super) fn json(&self) -> Value {
        let count = self.args.count as f64;
        let landed = self.landed_per_s();
        let (before, after) = (&self.before, &self.after);
        let server = after.server().since(before.server());
        let each = after.servers.iter().zip(&before.servers).map(|(after, before)| after.since(*before));
        let each: Vec<Usage> = each.collect();
        let database = after.database.zip(before.database).map(|(after, before)| after.since(before));
        let chain = after.chain.since(before.chain);
        let load = self.loaded.usage;
        let per_tx = |now: u64, then: u64| round((now - then) as f64 / count, 4);
        let methods = after.traffic.methods.iter().map(|(method, calls)| {
            let then = before.traffic.methods.get(method).copied().unwrap_or(0);
            (method.clone(), json!(calls - then))
        });
        json!({
            "mode": self.args.mode.name(),
            "store": self.args.store_name(),
            "signers": self.args.signers,
            "count": self.args.count,
            "nodes": self.args.nodes,
            "batch": self.args.batch_size(),
            "connections": self.args.connections(),
            "block_ms": BLOCK.as_millis() as u64,
            "finality": FINALITY,
            "landed_once": self.landed_once,
            "landed_per_s": round(landed, 1),
            "accepted_per_s": round(count / self.loaded.took_s, 1),
            "accept_p50_ms": round(self.loaded.accept_p50_ms, 2),
            "accept_p99_ms": round(self.loaded.accept_p99_ms, 2),
            "final_p50_ms": self.history.final_ms(50),
            "final_p99_ms": self.history.final_ms(99),
            "requests_repeated": self.loaded.again,
            "cpu_s": {
                "server": round(server.cpu_s, 2),
                "each_server": each.iter().map(|one| round(one.cpu_s, 2)).collect::<Vec<_>>(),
                "postgres": database.map(|used| round(used.cpu_s, 2)),
                "chain": round(chain.cpu_s, 2),
                "load": round(load.cpu_s, 2),
            },
            "rss_mb": {
                "server": round(server.peak_mb, 1),
                "each_server": each.iter().map(|one| round(one.peak_mb, 1)).collect::<Vec<_>>(),
                "postgres": database.map(|used| round(used.now_mb, 1)),
                "chain": round(chain.peak_mb, 1),
                "load": round(load.peak_mb, 1),
            },
            "store_bytes_per_tx": round(self.store_bytes as f64 / count, 1),
            "store_commits": after.commits - before.commits,
            "rows_per_tx": round((after.rows - before.rows) / count, 3),
            "rpc_requests_per_tx": per_tx(after.traffic.requests, before.traffic.requests),
            "rpc_methods_per_tx": per_tx(after.traffic.calls, before.traffic.calls),
            "rpc_methods": methods.collect::<serde_json::Map<_, _>>(),
            "sign_limit_per_s": round(self.sign_limit_per_s, 0),
            "store_limit_per_s": round(self.store_limit_per_s, 0),
            "landed_to_sign_limit": round(landed / self.sign_limit_per_s, 4),
            "landed_to_store_limit": round(landed / self.store_limit_per_s, 4),
            "durability": self.durability,
            "settings": self.settings,
        })
    }

    pub(super) fn print(&self) {
        let json = self.json();
        if self.args.json {
            return output::json(&json);
        }
        let rows = ROWS.iter().map(|(field, unit)| {
            let value = output::text(&json, field);
            vec![(*field).to_owned(), format!("{value} {unit}").trim_end().to_owned()]
        });
        println!(
            "{} transactions over {} signers, {} ({}), {} node(s), a block every {} ms, finality {FINALITY}",
            self.args.count,
            self.args.signers,
            self.args.store_name(),
            self.args.mode.name(),
            self.args.nodes,
            BLOCK.as_millis(),
        );
        println!("{}", output::table(&["", ""], rows.collect()));
        for (setting, value) in self.settings.as_object().into_iter().flatten() {
            println!("not the default: {setting} = {value}");
        }
        if !self.landed_once {
            println!("NOT every transaction landed once");
        }
    }
}

const ROWS: &[(&str, &str)] = &[
    ("landed_per_s", ""),
    ("accepted_per_s", ""),
    ("accept_p50_ms", "ms"),
    ("accept_p99_ms", "ms"),
    ("final_p50_ms", "ms"),
    ("final_p99_ms", "ms"),
    ("cpu_s.server", "s"),
    ("cpu_s.postgres", "s"),
    ("cpu_s.chain", "s"),
    ("cpu_s.load", "s"),
    ("rss_mb.server", "MB"),
    ("rss_mb.postgres", "MB"),
    ("rss_mb.chain", "MB"),
    ("rss_mb.load", "MB"),
    ("store_bytes_per_tx", "bytes"),
    ("store_commits", ""),
    ("rows_per_tx", ""),
    ("rpc_requests_per_tx", ""),
    ("rpc_methods_per_tx", ""),
    ("sign_limit_per_s", ""),
    ("store_limit_per_s", ""),
    ("landed_to_sign_limit", ""),
    ("landed_to_store_limit", ""),
    ("durability", ""),
    ("landed_once", ""),
];

pub(super) fn round(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// The middle one; of an even number the upper of the two.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
