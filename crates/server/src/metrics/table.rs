//! Every metric: its name, kind, labels and meaning. The page in `docs/` and the alert rules are held to this table.

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, and begins at 0 with the process.
    Counter,
    Gauge,
    /// Also known under its name with `_bucket`, `_sum` and `_count`.
    Histogram,
}

impl Kind {
    /// The word in the text format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

type Labels = &'static [&'static str];

const fn counter(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

const fn histogram(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, labels, help }
}

/// Declares the constants, and the list of all of them.
macro_rules! metrics {
    ($($id:ident = $metric:expr;)*) => {
        $(pub(super) const $id: Metric = $metric;)*
        /// All of them, in the order of the page.
        pub const METRICS: &[Metric] = &[$($id),*];
    };
}

const CHAIN: Labels = &["chain"];
const LANE: Labels = &["chain", "signer"];
const WEBHOOK: Labels = &["webhook"];
const ENDPOINT: Labels = &["chain", "endpoint"];

metrics! {
    BUILD_INFO = gauge("landfall_build_info", &["version", "node"], "Always 1: the version and the node's name.");

    SUBMIT = counter("landfall_submit_total", &["result"], "Submissions by what became of them: new, replay, conflict, refused, failed, unknown.");
    TRANSITIONS = counter("landfall_tx_transitions_total", &["from", "to"], "Transactions that went from one state into another; from none when stored.");
    TO_SIGNED = histogram("landfall_tx_queued_to_signed_seconds", CHAIN, "From acceptance to the first stored bytes.");
    TO_SENT = histogram("landfall_tx_queued_to_sent_seconds", CHAIN, "From acceptance to the first node that took the bytes.");
    TO_MINED = histogram("landfall_tx_queued_to_mined_seconds", CHAIN, "From acceptance to the first block.");
    TO_FINAL = histogram("landfall_tx_queued_to_final_seconds", CHAIN, "From acceptance to the end, whatever it is.");
    STAGE = histogram("landfall_tx_stage_seconds", &["state"], "How long transactions stayed in a state that they have left.");

    LANES_RUNNING = gauge("landfall_lanes_running", &[], "Lanes that this node runs.");
    LANES_IN_TROUBLE = gauge("landfall_lanes_in_trouble", &[], "Lanes that should run here and cannot be loaded or written.");
    LANE_WAITING = gauge("landfall_lane_waiting", LANE, "Transactions that wait for a nonce.");
    LANE_OLDEST = gauge("landfall_lane_oldest_waiting_seconds", LANE, "How long the oldest waiting transaction has waited; 0 if none waits.");
    LANE_SIGNED = gauge("landfall_lane_signed", LANE, "Slots with stored bytes that no node is known to have taken.");
    LANE_OUT = gauge("landfall_lane_out", LANE, "Slots whose bytes a node took, and that are in no block.");
    LANE_MINED = gauge("landfall_lane_mined", LANE, "Slots in a block that is not final.");
    LANE_WITHOUT_RECEIPT = gauge("landfall_lane_without_receipt", LANE, "Slots that the chain has passed and that show no receipt of ours.");
    LANE_RETURNED = gauge("landfall_lane_returned", LANE, "Slots that were given back without stored bytes.");
    LANE_WINDOW = gauge("landfall_lane_window", LANE, "How many nonces may be in flight at once.");
    LANE_HELD = gauge("landfall_lane_held", LANE, "1 if the lane is on hold: it assigns no nonces.");

    ATTEMPTS = counter("landfall_attempts_total", &["chain", "kind"], "Signed and stored byte strings: first, reprice (dearer, or another content), no_op.");
    RESUBMITS = counter("landfall_resubmits_total", CHAIN, "Byte strings that were sent again.");
    SENDS = counter("landfall_send_total", &["chain", "endpoint", "outcome"], "What endpoints answered to byte strings, by class.");
    RECEIPT_CHECKS = counter("landfall_receipt_check_total", &["chain", "result"], "Looks for receipts by result: found, missing, failed.");
    SETTLED = counter("landfall_slots_settled_total", &["chain", "result"], "Slots of transactions that ended: won, no_op, displaced.");

    NEW_FORKS = counter("landfall_confirmations_new_fork_total", CHAIN, "Times that the chain replaced blocks that had been scanned.");
    TX_REORGED = counter("landfall_tx_reorged_total", CHAIN, "Transactions whose block was replaced before it was final.");
    DEEP_REORGS = counter("landfall_deep_reorgs_total", CHAIN, "Final blocks, and transactions in them, that the chain took back.");
    SINGLE_WITNESS_TX = counter("landfall_tx_single_witness_total", CHAIN, "Transactions that ended by the word of one endpoint, where several are configured.");
    CHAIN_HEAD = gauge("landfall_chain_head", CHAIN, "The newest block that was scanned.");
    CHAIN_HEAD_AGE = gauge("landfall_chain_head_age_seconds", CHAIN, "How long ago that block was new.");
    CHAIN_FOLLOWED = gauge("landfall_chain_followed", CHAIN, "1 if the last look at the chain went well.");
    CHAIN_WITNESSED = gauge("landfall_chain_witnessed", CHAIN, "The newest block that two endpoints have shown; the head where one is configured.");
    CHAIN_SINGLE_WITNESS = gauge("landfall_chain_single_witness", CHAIN, "1 if several endpoints are configured and what one shows becomes final by its word alone.");
    CHAIN_DISAGREE = gauge("landfall_chain_endpoints_disagree", CHAIN, "1 if endpoints show different chains, so that nothing becomes final.");
    ENDPOINT_USABLE = gauge("landfall_endpoint_usable", ENDPOINT, "1 if the endpoint is asked.");
    ENDPOINT_BREAKER = gauge("landfall_endpoint_breaker_open", ENDPOINT, "1 if it lost too many answers in a row and is left alone.");
    ENDPOINT_HEAD = gauge("landfall_endpoint_head", ENDPOINT, "The newest block that it has shown.");
    ENDPOINT_FINALIZED = gauge("landfall_endpoint_finalized", ENDPOINT, "The newest final block that it has shown.");
    ENDPOINT_LATENCY = gauge("landfall_endpoint_latency_seconds", ENDPOINT, "How long its answers take, smoothed.");

    LEASE_ACQUIRED = counter("landfall_lease_acquired_total", &[], "Lanes that this node took.");
    LEASE_FENCED = counter("landfall_lease_fenced_total", &[], "Writes that were refused since the lane is another's.");
    RENEWALS = counter("landfall_session_renewals_total", &["result"], "Renewals of this node's session: done, ended, failed.");
    SESSION_LIVE = gauge("landfall_session_live", &[], "1 if this node may act.");
    STORE_OLDER = gauge("landfall_store_older", &[], "1 if the store is an older copy of itself: every lane is on hold until a person accepts it.");

    COMMIT_SECONDS = histogram("landfall_store_commit_seconds", &[], "How long a group of writes took.");
    COMMIT_ROWS = histogram("landfall_store_commit_rows", &[], "About how many rows a group of writes touched.");
    GROUP_WRITES = histogram("landfall_store_group_writes", &[], "How many writes were committed together.");
    WRITES = counter("landfall_store_writes_total", &["result"], "Writes by how they ended: done, fenced, failed, unknown.");
    WRITES_WAITING = gauge("landfall_store_writes_waiting", &[], "Writes that wait for their group.");
    JOURNAL_ENTRIES = counter("landfall_journal_entries_total", &[], "Journal entries that this node stored.");

    OUTBOX_LAG = gauge("landfall_outbox_lag", WEBHOOK, "Journal entries that a webhook's cursor is behind the newest.");
    OUTBOX_LAG_SECONDS = gauge("landfall_outbox_lag_seconds", WEBHOOK, "How old the first entry after a webhook's cursor is; 0 if there is none.");
    WEBHOOK_WAITING = gauge("landfall_webhook_waiting", WEBHOOK, "Events of a webhook that failed, or are held back by one that did.");
    WEBHOOK_DISABLED = gauge("landfall_webhook_disabled", WEBHOOK, "1 if nothing is delivered to the webhook until somebody switches it on.");
    WEBHOOK_DELIVERIES = counter("landfall_webhook_deliveries_total", &["result"], "Tries of events by result: delivered, failed (tried again), given_up.");
    RAW_KEPT = gauge("landfall_raw_kept", &["state"], "Transactions that callers signed themselves and that are kept until they are final: open, or held (a lower nonce is missing).");
    LISTENERS = gauge("landfall_event_listeners", &[], "Callers that listen to server-sent events.");
    TURNED_AWAY = counter("landfall_turned_away_total", &["what"], "What was refused or ended for want of room: connection, stream (gRPC without a key), bytes (of bodies), answer (large, or not read).");

    TWO_WINNERS = counter("landfall_alarm_two_winners_total", &[], "Slots won by two of our attempts at once. Must be 0.");
    WON_TWICE = counter("landfall_alarm_won_twice_total", &[], "Transactions whose content won with two nonces. Must be 0.");
}
