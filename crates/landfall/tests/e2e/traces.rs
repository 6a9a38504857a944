//! Traces arrive at a collector: a transaction's under its own id, a request's under the caller's.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use reqwest::Method;
use tonic::{Request, Response, Status};

use crate::support::{Chain, Server, Settings, free_port, text, transfer, until};

/// A collector that keeps what it is sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans;
        let spans = resources.into_iter().flat_map(|one| one.scope_spans).flat_map(|scope| scope.spans);
        self.0.lock().unwrap().extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    async fn start() -> (Self, String) {
        let (collector, port) = (Self::default(), free_port());
        let service = TraceServiceServer::new(collector.clone());
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve(address));
        (collector, format!("http://127.0.0.1:{port}"))
    }

    fn of_trace(&self, trace: &str) -> Vec<Span> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let all = self.0.lock().unwrap();
        all.iter().filter(|span| hex(&span.trace_id) == trace).cloned().collect()
    }
}

#[tokio::test]
async fn the_life_of_a_transaction_is_a_trace_with_its_id_and_a_request_is_part_of_its_callers() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let (collector, url) = Collector::start().await;
    let settings = Settings { env: vec![("LANDFALL_TRACES__OTLP", url)], ..Settings::default() };
    let server = Server::start(&chain.url(), settings).await;
    let callers = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = server.api.request(Method::POST, "/api/v1/tx").json(&transfer());
    let request = request.header("traceparent", format!("00-{callers}-00f067aa0ba902b7-01"));
    let id = text(&server.api.send(request).await.expect(202), "txId");
    server.api.until_state(&id, "confirmed").await;

    let trace = id.replace('-', "");
    let spans = until("the whole life has arrived", async || {
        let spans = collector.of_trace(&trace);
        spans.iter().any(|span| span.name == "transaction").then_some(spans)
    })
    .await;
    let whole = spans.iter().find(|span| span.name == "transaction").unwrap();
    assert!(whole.parent_span_id.is_empty(), "{whole:?}");
    let stages: Vec<&Span> = spans.iter().filter(|span| span.name != "transaction").collect();
    assert!(stages.len() >= 3, "{stages:?}");
    for stage in &stages {
        assert_eq!(stage.parent_span_id, whole.span_id, "{stage:?}");
        assert!(whole.start_time_unix_nano <= stage.start_time_unix_nano);
        assert!(stage.start_time_unix_nano <= stage.end_time_unix_nano);
        assert!(stage.end_time_unix_nano <= whole.end_time_unix_nano);
    }
    let mut ids: Vec<&Vec<u8>> = spans.iter().map(|span| &span.span_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), spans.len(), "every span has an id of its own");

    let requests = until("the request has arrived", async || {
        Some(collector.of_trace(callers)).filter(|spans| !spans.is_empty())
    })
    .await;
    assert_eq!(requests[0].name, "POST /api/v1/tx");
    assert_eq!(requests[0].parent_span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
}

#[tokio::test]
async fn a_collector_that_is_away_keeps_nobody_waiting() {
    let chain = Chain::with_blocks_every(Duration::from_millis(200)).await;
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let settings = Settings { env: vec![("LANDFALL_TRACES__OTLP", nobody)], ..Settings::default() };
    let mut server = Server::start(&chain.url(), settings).await;
    let id = server.api.submit(&transfer()).await;
    server.api.until_state(&id, "confirmed").await;
    server.terminate();
    assert!(server.ended().await.success());
}
