//! `/metrics`: what this process counts, in the text format that Prometheus reads (OpenMetrics
//! 1.0).
//!
//! Other crates register their own metrics through [`Metrics::registry`] before the server starts;
//! every name gets the prefix `consort_`.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing;
use futures::future::{BoxFuture, join_all};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::problem::Problem;
use crate::problems;

const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long a scrape waits for metrics that must be asked for; those that are late keep what they
/// showed last.
const REFRESH_WITHIN: Duration = Duration::from_secs(1);

/// From a tenth of a millisecond, a cached answer, to the ten seconds of a query that waits for a
/// position.
const DURATION_BUCKETS: [f64; 15] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0,
];

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    http: HttpMetrics,
    refreshes: Vec<Refresh>,
}

/// Brings a metric up to date that is not counted as it happens.
type Refresh = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What the HTTP side counts. A clone counts into the same metrics.
#[derive(Clone)]
pub struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabel, Histogram, fn() -> Histogram>,
    open: Gauge,
    refused: Family<ReasonLabel, Counter>,
    timed_out: Family<ReasonLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    method: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

impl Metrics {
    /// `version` is the binary's, for `consort_build_info`.
    pub fn new(version: &str) -> Metrics {
        let mut registry = Registry::with_prefix("consort");
        let build = vec![("version".to_owned(), version.to_owned())];
        registry.register("build", "The binary that runs", Info::new(build));
        registry.register_collector(Box::new(Uptime { since: Instant::now() }));
        let http = HttpMetrics::register(registry.sub_registry_with_prefix("http"));
        Metrics { registry, http, refreshes: Vec::new() }
    }

    /// Where other crates register theirs.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Shows as `consort_engine_info` which engine holds the log and which the store.
    pub fn describe_engine(&mut self, log: &str, store: &str) {
        let engine =
            vec![("log".to_owned(), log.to_owned()), ("store".to_owned(), store.to_owned())];
        self.registry.register(
            "engine",
            "The engines that hold the log and the store",
            Info::new(engine),
        );
    }

    /// Has `refresh` called before each scrape, which waits for it, but not for long.
    pub(crate) fn refresh_by(
        &mut self,
        refresh: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        self.refreshes.push(Box::new(refresh));
    }

    pub(crate) fn http(&self) -> HttpMetrics {
        self.http.clone()
    }

    pub(crate) fn routes(self) -> Router {
        let metrics = Arc::new(self);
        let scrape = async move || {
            let refreshes = join_all(metrics.refreshes.iter().map(|refresh| refresh()));
            // What is late shows what it showed last.
            let _ = tokio::time::timeout(REFRESH_WITHIN, refreshes).await;
            exposition(&metrics.registry)
        };
        Router::new().route("/metrics", routing::get(scrape))
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl fmt::Debug for HttpMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpMetrics").finish_non_exhaustive()
    }
}

impl HttpMetrics {
    fn register(registry: &mut Registry) -> HttpMetrics {
        let http = HttpMetrics {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            open: Gauge::default(),
            refused: Family::default(),
            timed_out: Family::default(),
        };
        registry.register(
            "requests",
            "Answered requests by route, method and class of status",
            http.requests.clone(),
        );
        registry.register(
            "request_seconds",
            "Time from the headers to the answer's head",
            http.durations.clone(),
        );
        registry.register("connections_open", "Connections being served", http.open.clone());
        registry.register(
            "connections_refused",
            "Connections not served, by reason",
            http.refused.clone(),
        );
        registry.register(
            "timeouts",
            "Connections and requests given up, by what was waited for",
            http.timed_out.clone(),
        );
        http
    }

    pub(crate) fn answered(
        &self,
        route: &str,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let labels =
            RequestLabels { route: route.to_owned(), method: known(method), status: class(status) };
        self.requests.get_or_create(&labels).inc();
        self.durations
            .get_or_create(&RouteLabel { route: labels.route })
            .observe(took.as_secs_f64());
    }

    /// What counts the requests of one route, for whoever answers many of them.
    pub(crate) fn route(&self, route: &str, method: &Method) -> RouteMetrics {
        let labels = RequestLabels {
            route: route.to_owned(),
            method: known(method),
            status: class(StatusCode::OK),
        };
        let duration = self.durations.get_or_create(&RouteLabel { route: route.to_owned() });
        let (succeeded, duration) =
            (self.requests.get_or_create(&labels).clone(), duration.clone());
        RouteMetrics(Arc::new(OfRoute { labels, succeeded, duration }))
    }

    /// As [`answered`](HttpMetrics::answered).
    pub(crate) fn answered_by(&self, route: &RouteMetrics, status: StatusCode, took: Duration) {
        let OfRoute { labels, succeeded, duration } = &*route.0;
        match class(status) {
            same if same == labels.status => succeeded.inc(),
            status => {
                self.requests.get_or_create(&RequestLabels { status, ..labels.clone() }).inc()
            }
        };
        duration.observe(took.as_secs_f64());
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(crate) fn timed_out(&self, reason: &'static str) {
        self.timed_out.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(crate) fn opened(&self) -> OpenConnection {
        self.open.inc();
        OpenConnection(self.open.clone())
    }

    pub(crate) fn open_connections(&self) -> usize {
        usize::try_from(self.open.get()).unwrap_or(0)
    }
}

/// The counts of one route and method. A clone counts into the same ones.
#[derive(Clone, Debug)]
pub(crate) struct RouteMetrics(Arc<OfRoute>);

#[derive(Debug)]
struct OfRoute {
    /// Of those that succeeded.
    labels: RequestLabels,
    succeeded: Counter,
    duration: Histogram,
}

/// Counts one open connection for as long as it lives.
pub(crate) struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Debug)]
struct Uptime {
    since: Instant,
}

impl Collector for Uptime {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let uptime = ConstGauge::<f64>::new(self.since.elapsed().as_secs_f64());
        let encoder = encoder.encode_descriptor(
            "uptime_seconds",
            "Time since the process began to serve",
            None,
            uptime.metric_type(),
        )?;
        uptime.encode(encoder)
    }
}

fn exposition(registry: &Registry) -> Response {
    let mut text = String::new();
    match text::encode(&mut text, registry) {
        Ok(()) => ([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response(),
        Err(error) => Problem::new(problems::METRICS,
            format!("the metrics could not be written out ({error}); this is a defect of Consort, please report it"),
        )
        .into_response(),
    }
}

/// Methods are what clients send, so an unknown one must not become a label of its own.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    }
}
