//! Traces for OpenTelemetry, where the configuration names a collector.
//!
//! The trace of a transaction has the transaction's own id: `txId` without its dashes is the trace's id, so that whoever has the one
//! finds the other. Its root spans the whole life; every state it went through is a span below. A request to the API is a span too,
//! under the caller's own trace where the caller sends one.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use landfall_core::ports::clock::Random;
use landfall_core::{Millis, TxId};
use landfall_engine::{Fact, Meter};
use landfall_server::{Answered, Metrics, Observer};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor as _,
};

use crate::config;
use crate::system::SystemRandom;

/// Spans wait for each other this long before they go out.
const GATHER: Duration = Duration::from_secs(1);
/// Spans that may wait; beyond it they are dropped, and nothing else waits for them.
const QUEUE: usize = 16_384;
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Sends spans to a collector, in the background.
pub(crate) struct Traces {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    /// Of 1,000 transactions, as many are traced.
    per_mille: u64,
}

impl Traces {
    /// None where no collector is named. It must be called where a runtime runs, which the exporter's connection needs.
    pub(crate) fn start(settings: &config::Traces, node: &str) -> Result<Option<Arc<Self>>> {
        if settings.otlp.is_empty() {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(&settings.otlp).build();
        // Neither the address nor what is said of it: a password may be in it.
        let exporter = exporter.map_err(|_| {
            anyhow!(
                "traces.otlp is no address that can be used; it is not shown, since it may have a password in it. Write the \
                 collector's gRPC address, such as http://127.0.0.1:4317"
            )
        })?;
        let batches =
            BatchConfigBuilder::default().with_scheduled_delay(GATHER).with_max_queue_size(QUEUE).build();
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let resource = Resource::builder()
            .with_service_name("landfall")
            .with_attribute(KeyValue::new("service.instance.id", node.to_owned()))
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        processor.set_resource(&resource);
        let scope = InstrumentationScope::builder("landfall").build();
        let per_mille = (settings.sample * 1_000.0).round() as u64;
        Ok(Some(Arc::new(Self { processor, scope, per_mille })))
    }

    /// Sends what is left.
    pub(crate) fn stop(&self) {
        if let Err(error) = self.processor.shutdown_with_timeout(LAST_WORDS) {
            tracing::warn!(%error, "the last traces may not have reached the collector");
        }
    }

    /// All of a transaction is traced, or nothing, on every node.
    fn is_traced(&self, tx: TxId) -> bool {
        (tx.0.as_u128() % 1_000) as u64 <= self.per_mille.saturating_sub(1) && self.per_mille > 0
    }

    fn span(&self, trace: TraceId, id: SpanId, parent: SpanId, name: String, span: Span) {
        self.processor.on_end(SpanData {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default()),
            parent_span_id: parent,
            parent_span_is_remote: span.remote,
            span_kind: span.kind,
            name: name.into(),
            start_time: span.began,
            end_time: span.ended,
            attributes: span.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: span.status,
            instrumentation_scope: self.scope.clone(),
        });
    }
}

struct Span {
    kind: SpanKind,
    remote: bool,
    began: SystemTime,
    ended: SystemTime,
    attributes: Vec<KeyValue>,
    status: Status,
}

fn moment(at: Millis) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.0)
}

fn any_span() -> SpanId {
    SpanId::from_bytes(((SystemRandom.bits() as u64) | 1).to_be_bytes())
}

/// The root of a transaction's trace: the same whoever asks.
fn root(tx: TxId) -> (TraceId, SpanId) {
    let bits = tx.0.as_u128();
    (TraceId::from_bytes(bits.to_be_bytes()), SpanId::from_bytes(((bits as u64) | 1).to_be_bytes()))
}

impl Meter for Traces {
    fn note(&self, fact: Fact) {
        let Fact::Moved { from: Some(from), to, stayed, tx, chain, accepted_at, at } = fact else { return };
        if !self.is_traced(tx) {
            return;
        }
        let (trace, whole) = root(tx);
        let about = |more: Vec<KeyValue>| {
            let chain = i64::try_from(chain.0).unwrap_or(i64::MAX);
            let mut all = vec![
                KeyValue::new("landfall.tx_id", tx.to_string()),
                KeyValue::new("landfall.chain_id", chain),
            ];
            all.extend(more);
            all
        };
        let stage = Span {
            kind: SpanKind::Internal,
            remote: false,
            began: moment(at).checked_sub(stayed).unwrap_or(UNIX_EPOCH),
            ended: moment(at),
            attributes: about(vec![KeyValue::new("landfall.next_state", to.name())]),
            status: Status::Unset,
        };
        self.span(trace, any_span(), whole, from.name().to_owned(), stage);
        if to.is_terminal() {
            let good = to == landfall_core::transaction::TxState::Confirmed;
            let life = Span {
                kind: SpanKind::Internal,
                remote: false,
                began: moment(accepted_at),
                ended: moment(at),
                attributes: about(vec![KeyValue::new("landfall.state", to.name())]),
                status: if good { Status::Ok } else { Status::error(to.name()) },
            };
            self.span(trace, whole, SpanId::INVALID, "transaction".to_owned(), life);
        }
    }
}

impl Observer for Traces {
    fn answered(&self, request: Answered) {
        let Answered { method, route, status, began, took, key, traceparent } = request;
        let parent = traceparent.as_deref().and_then(parent);
        // Health checks and scrapes of nobody in particular would drown the rest.
        if parent.is_none()
            && !route.starts_with("/api/")
            && !route.starts_with("/rpc/")
            && !route.starts_with("/landfall.")
        {
            return;
        }
        let (trace, parent) = parent.unwrap_or_else(|| {
            (TraceId::from_bytes((SystemRandom.bits() | 1).to_be_bytes()), SpanId::INVALID)
        });
        let mut attributes = vec![
            KeyValue::new("http.request.method", method.clone()),
            KeyValue::new("http.route", route.clone()),
            KeyValue::new("http.response.status_code", i64::from(status)),
        ];
        attributes.extend(key.map(|key| KeyValue::new("landfall.api_key_id", key)));
        let span = Span {
            kind: SpanKind::Server,
            remote: parent != SpanId::INVALID,
            began: moment(began),
            ended: moment(began) + took,
            attributes,
            status: if status >= 500 { Status::error("") } else { Status::Unset },
        };
        self.span(trace, any_span(), parent, format!("{method} {route}"), span);
    }
}

/// The caller's trace and span, if it wants them to be recorded.
fn parent(text: &str) -> Option<(TraceId, SpanId)> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let lower =
        |text: &str, len| text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !(lower(version, 2) && version != "ff" && lower(trace, 32) && lower(span, 16) && lower(flags, 2)) {
        return None;
    }
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let wanted = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    (wanted && trace != TraceId::INVALID && span != SpanId::INVALID).then_some((trace, span))
}

/// Counts facts, and traces them.
pub(crate) struct CountedAndTraced {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Arc<Traces>,
}

impl Meter for CountedAndTraced {
    fn note(&self, fact: Fact) {
        self.metrics.note(fact);
        self.traces.note(fact);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_trace_is_taken_where_it_is_well_formed_and_wanted() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let (trace, span) = parent(good).unwrap();
        assert_eq!(trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(span.to_string(), "00f067aa0ba902b7");
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47-00f067aa0ba902b7-01",
        ] {
            assert!(parent(bad).is_none(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_collector_that_cannot_be_used_is_not_repeated() {
        let settings = config::Traces { otlp: "http://u:hunter2@ bad".to_owned(), sample: 1.0 };
        let refused = Traces::start(&settings, "one").err().unwrap();
        let said = format!("{refused:#} {refused:?}");
        assert!(said.contains("traces.otlp") && !said.contains("hunter2"), "{said}");
    }

    #[test]
    fn the_trace_of_a_transaction_has_its_id() {
        let tx = TxId::new(Millis(1_700_000_000_000), 0x1234_5678);
        assert_eq!(root(tx).0.to_string(), tx.to_string().replace('-', ""));
        assert_eq!(root(tx), root(tx));
    }
}
