//! `metrics.md`: every family of metrics that a node or a relay registers.
//!
//! A family without a sample does not show at `/metrics`. So the names and the help texts come from the registry
//! itself, which a part of the test reads while the node starts. Types and labels stand below, and every sample of
//! a busy node must agree with them.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use consort::config::relay::{RelayConfig, RelayFlags};
use consort::config::{ConfigFile, Sources};
use consort::parts::{OpenPart, Opening, Part, PartError};
use consort::relay::Relay;
use consort::{Config, Node};

use super::{compare, row};

const HEAD: &str = "
# Metrics

`GET /metrics` of a node, and of a relay, in the text format of Prometheus (OpenMetrics 1.0). A family shows as soon as
it has a value. Names of counters end in `_total` there, and those of histograms in `_bucket`, `_count` and `_sum`.
[Monitoring](../operate/monitoring.md) says which of them matter and what to do.
";

/// Type and labels of every family.
const FAMILIES: &[(&str, &str, &str)] = &[
    ("consort_build", "info", "version"),
    ("consort_uptime_seconds", "gauge", ""),
    ("consort_engine", "info", "log, store"),
    ("consort_http_requests", "counter", "route, method, status"),
    ("consort_http_request_seconds", "histogram", "route"),
    ("consort_http_connections_open", "gauge", ""),
    ("consort_http_connections_refused", "counter", "reason"),
    ("consort_http_timeouts", "counter", "reason"),
    ("consort_cluster_handover_pause_seconds", "histogram", "cause"),
    ("consort_cluster_roles_acquired", "counter", "kind"),
    ("consort_cluster_roles_released", "counter", "kind"),
    ("consort_cluster_roles_lost", "counter", "kind"),
    ("consort_cluster_fenced", "counter", ""),
    ("consort_cluster_roles_held", "gauge", "kind"),
    ("consort_cluster_lag_seconds", "gauge", "kind"),
    ("consort_cluster_nodes", "gauge", "state"),
    ("consort_cluster_nodes_wanted", "gauge", ""),
    ("consort_gate_admitted", "counter", "stream"),
    ("consort_gate_refused", "counter", "stream, reason"),
    ("consort_gate_in_flight", "gauge", "stream"),
    ("consort_gate_waiting", "gauge", "stream"),
    ("consort_gate_limit", "gauge", "stream"),
    ("consort_gate_records_per_second", "gauge", "stream"),
    ("consort_gate_breaker_open", "gauge", "stream"),
    ("consort_gate_breaker_k", "gauge", "stream"),
    ("consort_stream_accepted", "counter", "stream"),
    ("consort_stream_rejected", "counter", "stream"),
    ("consort_stream_unappended", "counter", "stream"),
    ("consort_stream_events", "gauge", "stream, outcome"),
    ("consort_stream_lag_seconds", "gauge", "stream"),
    ("consort_view_events", "gauge", "view, outcome"),
    ("consort_udp_datagrams", "counter", "stream"),
    ("consort_udp_lines", "counter", "stream"),
    ("consort_udp_dropped", "counter", "stream, reason"),
    ("consort_sink_rows_delivered", "counter", "sink"),
    ("consort_sink_rows_parked", "counter", "sink"),
    ("consort_sink_retries", "counter", "sink"),
    ("consort_sink_rows_held", "gauge", "sink"),
    ("consort_sink_alarms", "gauge", "sink"),
    ("consort_sink_oldest_seconds", "gauge", "sink"),
    ("consort_feed_subscribers", "gauge", ""),
    ("consort_glue_pieces", "gauge", "collection, tenant, outcome"),
    ("consort_glue_documents_bytes", "gauge", "collection, tenant"),
    ("consort_db_writes", "counter", "database, outcome"),
    ("consort_db_reads", "counter", "database, outcome"),
    ("consort_db_index", "gauge", "database"),
    ("consort_db_leads", "gauge", "database"),
    ("consort_db_stopped", "gauge", "database"),
    ("consort_db_workers", "gauge", "database"),
    ("consort_db_workers_wanted", "gauge", "database"),
    ("consort_db_lag", "gauge", "database, worker"),
    ("consort_db_size_bytes", "gauge", "database"),
    ("consort_db_snapshot_index", "gauge", "database"),
    ("consort_db_snapshots_bytes", "gauge", "database"),
    ("consort_once_answers", "counter", "once, source"),
    ("consort_once_errors", "counter", "once, reason"),
    ("consort_once_computations", "counter", ""),
    ("consort_once_refreshes", "counter", ""),
    ("consort_once_early_refreshes", "counter", ""),
    ("consort_once_failures", "counter", ""),
    ("consort_once_takeovers", "counter", ""),
    ("consort_once_refused", "counter", ""),
    ("consort_once_stale", "counter", ""),
    ("consort_once_crowded", "counter", ""),
    ("consort_once_deadlines", "counter", ""),
    ("consort_once_purged", "counter", ""),
    ("consort_once_cache_interruptions", "counter", ""),
    ("consort_once_cache_fills_discarded", "counter", ""),
    ("consort_once_waiting", "gauge", ""),
    ("consort_once_flights", "gauge", ""),
    ("consort_once_cached", "gauge", ""),
    ("consort_once_cached_bytes", "gauge", ""),
    ("consort_relay_lines", "counter", ""),
    ("consort_relay_stamped", "counter", ""),
    ("consort_relay_refused", "counter", "reason"),
    ("consort_relay_sent", "counter", "target"),
    ("consort_relay_dropped", "counter", "target, reason"),
    ("consort_relay_waiting_bytes", "gauge", "target"),
    ("consort_relay_retries", "counter", "target"),
];

/// A node with every part that counts.
const CONFIG: &str = r#"
[http]
listen = "127.0.0.1:0"
[engine]
url = "memory:"
[stream.lines]
form = "line-loose"
udp = "127.0.0.1:0"
[stream.calm]
fields = { a = "int" }
gate = "breaker"
[sink.rows]
kind = "file"
path = "/dev/null"
[view.each]
from = "lines"
by = ["a"]
count = true
window = "1m"
sink = "rows"
[view.all]
from = "calm"
by = ["a"]
count = true
[once.items]
upstream = "http://127.0.0.1:9/{path}"
[glue.content]
format = "json"
[db.notes]
"#;

const RELAY: &str = "[relay]\nudp = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\ndefault = [\"a\"]\n[target.a]\nudp = \"127.0.0.1:9\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_metrics_is_current() {
    let seen = Arc::new(Mutex::new(String::new()));
    let file = ConfigFile { name: "test".into(), text: CONFIG.into() };
    let config = Config::resolve(&Sources { file: Some(file), ..Sources::default() })
        .unwrap_or_else(|problems| panic!("{problems}"));
    let node =
        Node::start_with(config, vec![Arc::new(Reader(Arc::clone(&seen)))]).await.expect("a node");
    for path in ["/", "/once/items/x", "/views/all?a=1", "/none"] {
        get(node.address(), path).await;
    }
    let scraped = get(node.address(), "/metrics").await;
    node.stop().await;
    let relayed = relay().await;

    let mut helps = registered(&seen.lock().expect("no thread panicked"));
    // The relay's families always have values; uptime comes from a collector, which the registry does not list.
    for text in [&relayed, &scraped] {
        for (name, (_, help)) in families(text) {
            helps.entry(name).or_insert(help);
        }
    }
    for text in [&relayed, &scraped] {
        check_samples(text);
    }
    let known: Vec<&str> = FAMILIES.iter().map(|(name, ..)| *name).collect();
    let missing: Vec<_> = helps.keys().filter(|name| !known.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "FAMILIES does not list {missing:?}");
    let gone: Vec<_> = known.iter().filter(|name| !helps.contains_key(**name)).collect();
    assert!(gone.is_empty(), "FAMILIES lists what is not registered: {gone:?}");
    compare("metrics.md", &page(&helps));
}

fn page(helps: &BTreeMap<String, String>) -> String {
    let mut text = HEAD.to_owned();
    for (title, is_relay) in [("A node", false), ("A relay", true)] {
        text.push_str(&format!(
            "\n## {title}\n\n| family | type | labels | meaning |\n| --- | --- | --- | --- |\n"
        ));
        for (name, kind, labels) in FAMILIES {
            if name.starts_with("consort_relay_") == is_relay {
                let labels: Vec<String> = labels
                    .split(", ")
                    .filter(|l| !l.is_empty())
                    .map(|l| format!("`{l}`"))
                    .collect();
                text.push_str(&row(&[
                    &format!("`{name}`"),
                    kind,
                    &labels.join(", "),
                    &helps[*name],
                ]));
            }
        }
    }
    text
}

/// Every sample has the type and the labels that the page shows.
fn check_samples(text: &str) {
    let families = families(text);
    for (name, (kind, _)) in &families {
        let listed = FAMILIES.iter().find(|(listed, ..)| listed == name);
        let (_, expected, _) = listed.unwrap_or_else(|| panic!("FAMILIES does not list {name}"));
        assert_eq!(kind, expected, "the type of {name}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (sample, labels) = match line.split_once('{') {
            Some((sample, rest)) => {
                (sample, rest.rsplit_once('}').map_or("", |(labels, _)| labels))
            }
            None => (line.split(' ').next().unwrap_or_default(), ""),
        };
        let family = families
            .keys()
            .filter(|name| sample.starts_with(name.as_str()))
            .max_by_key(|name| name.len());
        let family = family.unwrap_or_else(|| panic!("{line} belongs to no family"));
        let (_, kind, expected) =
            FAMILIES.iter().find(|(name, ..)| name == family).expect("it is listed");
        let mut names: Vec<&str> =
            labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0)).collect();
        names.retain(|name| *kind != "histogram" || *name != "le");
        assert_eq!(names.join(", "), *expected, "the labels of {line}");
    }
}

/// Families of an exposition with their types and helps.
fn families(text: &str) -> BTreeMap<String, (String, String)> {
    let mut found: BTreeMap<String, (String, String)> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        let (Some("#"), Some(what), Some(name), Some(rest)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let family = found.entry(name.to_owned()).or_default();
        match what {
            "HELP" => rest.trim_end_matches('.').clone_into(&mut family.1),
            "TYPE" => rest.clone_into(&mut family.0),
            _ => {}
        }
    }
    found
}

/// The families of a registry, as its debug output shows them: the prefix stands before what it is the prefix of.
fn registered(shown: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut prefix = String::new();
    for piece in shown.split_inclusive("unit: ") {
        if let Some((_, rest)) = piece.rsplit_once("Prefix(\"") {
            prefix = rest.split('"').next().unwrap_or_default().to_owned();
        }
        let Some((_, rest)) = piece.rsplit_once("Descriptor { name: \"") else { continue };
        let (name, rest) = rest.split_once("\", help: \"").expect("a name is followed by its help");
        let (help, _) = rest.rsplit_once("\", unit: ").expect("a help is followed by its unit");
        found.insert(format!("{prefix}_{name}"), help.trim_end_matches('.').to_owned());
    }
    assert!(found.len() > 40, "the registry is not shown as expected:\n{shown}");
    found
}

/// Reads the registry while the node starts, behind all other parts.
struct Reader(Arc<Mutex<String>>);

#[async_trait]
impl Part for Reader {
    fn config(&self) -> &'static consort::config::PartConfig {
        static NONE: consort::config::PartConfig = consort::config::PartConfig::new("reader");
        &NONE
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        *self.0.lock().expect("no thread panicked") = format!("{:?}", opening.metrics.registry());
        Ok(OpenPart::default())
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}

async fn relay() -> String {
    let file = ConfigFile { name: "test".into(), text: RELAY.into() };
    let config = RelayConfig::resolve(Some(&file), &RelayFlags::default())
        .unwrap_or_else(|problems| panic!("{problems}"));
    let relay = Relay::bind(config).await.expect("a relay");
    let address = relay.http();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(relay.run(async { drop(stopped.await) }));
    let text = get(address, "/metrics").await;
    stop.send(()).expect("the relay runs");
    running.await.expect("the relay ends");
    text
}

/// The body of an answer.
pub(crate) async fn get(address: SocketAddr, path: &str) -> String {
    ask(address, "GET", path).await.1
}

/// Status and body of an answer.
pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    });
    let answer = asked.await.expect("no panic").expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    // A chunked body keeps its chunks' lengths, which are lines of their own without a blank.
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    assert!(!is_chunked, "{path} is answered in chunks");
    (status, body.to_owned())
}
