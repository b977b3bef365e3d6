//! Datagrams of lines beside a log that takes nothing: what waits is bounded, and what is dropped is counted.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_cluster::{Appender, Collector, FramesInFlight, TokioRuntime};
use consort_kernel::{
    AppendError, Cursor, Fault, Frame, Log, LogEntry, Most, Name, Partition, ReadError,
    SeededEntropy, SystemClock, memory,
};
use consort_line::Dialect;
use consort_server::prometheus_client::encoding::text::encode;
use consort_server::streams::{Options, Streams};
use consort_server::udp::{self, Bound, Source};
use consort_server::{IngressOptions, Ingresses, Metrics};
use consort_views::{Definitions, Field, Schema, Stream, Unknown};

/// What may be on its way into the log, in bytes, and what one batch of datagrams may add.
const MOST: u64 = (16 << 20) + 64 * 65_536;

/// A log that never answers.
#[derive(Debug)]
struct Stuck;

#[async_trait]
impl Log for Stuck {
    async fn append(&self, _: &Partition, _: &Frame) -> Result<(), AppendError> {
        std::future::pending().await
    }

    async fn read(
        &self,
        _: &Partition,
        _: &Cursor,
        _: Most,
        _: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        std::future::pending().await
    }

    async fn first(&self, _: &Partition) -> Result<u64, Fault> {
        Ok(0)
    }

    async fn trim(&self, _: &Partition, _: u64) -> Result<(), Fault> {
        Ok(())
    }

    async fn ping(&self) -> Result<(), Fault> {
        Ok(())
    }
}

fn stream() -> Arc<Stream> {
    let field = Field { name: "note".into(), ty: "text? 0..60000".parse().unwrap() };
    let schema = Schema::of_lines(vec![field], Unknown::Ignore, Dialect::Strict);
    Arc::new(Stream { partitions: 4, ..Stream::plain(Name::new("events").unwrap(), schema) })
}

/// The value of a counter.
fn counted(metrics: &mut Metrics, name: &str) -> u64 {
    let mut text = String::new();
    encode(&mut text, metrics.registry()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).trim().parse().unwrap()
}

#[tokio::test]
async fn a_log_that_takes_nothing_costs_bounded_memory() {
    let (_, store) = memory::open(1, Arc::new(SystemClock::default()));
    let store: Arc<dyn consort_kernel::Store> = Arc::new(store);
    let (runtime, entropy) = (TokioRuntime::current(), Arc::new(SeededEntropy::new(7)));
    let intake = runtime.clone();
    let hour = Duration::from_secs(3600);
    let appender =
        Appender::new(Arc::new(Stuck), Arc::clone(&store), runtime.clone(), entropy.clone(), hour);
    let millisecond = Duration::from_millis(1);
    let mut metrics = Metrics::new("0");
    let collector =
        Collector::new(Arc::new(appender), runtime.clone(), millisecond, FramesInFlight::Unbounded);
    let ingresses = Ingresses::new(IngressOptions {
        collector,
        store: Arc::clone(&store),
        runtime,
        entropy,
        metrics: &mut metrics,
    });
    let streams = Streams::new(Options {
        definitions: &Definitions { streams: vec![stream()], views: Vec::new() },
        gates: BTreeMap::new(),
        ingresses: &ingresses,
        intake,
    });
    let listen = "127.0.0.1:0".parse().unwrap();
    let source = Source { listen, allow: Vec::new(), buffer: 4 << 20 };
    let sources = BTreeMap::from([("events".to_owned(), source)]);
    let bound =
        Bound::open(udp::Options { streams: &streams, sources, store, metrics: &mut metrics });
    let bound = bound.unwrap();
    let address = bound.addresses()["events"];
    let receiving = bound.run();

    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let line = format!("m note=\"{}\"", "x".repeat(50_000));
    let overload = r#"consort_udp_dropped_total{stream="events",reason="overload"}"#;
    while counted(&mut metrics, overload) < 200 {
        for _ in 0..16 {
            // It is refused while the socket's buffer is full.
            let _ = sender.send_to(line.as_bytes(), address);
        }
        tokio::time::sleep(millisecond).await;
    }
    let lines = counted(&mut metrics, r#"consort_udp_lines_total{stream="events"}"#);
    let kept = (lines - counted(&mut metrics, overload)) * line.len() as u64;
    assert!(kept <= MOST, "{kept} bytes wait for the log");
    assert!(kept >= 16 << 20, "only {kept} bytes wait for the log");
    drop(receiving);
}
