//! The node's own tables: `[node]`, `[http]`, `[engine]`, `[cluster]`, `[scale]` and `[log]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use consort_cluster::ScaleSettings;
use consort_server::Tokens;

use super::checks;
use super::part::PartConfig;
use super::read::{self, duration_text, size_text};
use super::spec::{SettingSpec, TableSpec, Visibility, quoted};
use super::{ClusterConfig, Durability, EngineConfig, HttpConfig, LogConfig, LogFormat};

const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

/// A lease below what a busy machine may pause for would be lost without need; one of minutes leaves the
/// work of a dead node undone for as long.
const LEASES: RangeInclusive<Duration> = Duration::from_millis(300)..=Duration::from_secs(300);

const HEARTBEATS: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(100);

/// More than a stream may have partitions, nodes would have no work.
const NODES: RangeInclusive<u64> = 1..=1024;

/// Shorter than two decisions, a pause between two batches would count as calm.
const DOWN_AFTER: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(86_400);

/// The node itself, in the form of a part. Its reserved paths are those of the server, and those that parts to come
/// will have.
pub(super) static NODE: PartConfig = PartConfig {
    tables: &[
        TableSpec { name: "node", doc: "This node.", settings: &NODE_SETTINGS },
        TableSpec { name: "http", doc: "The HTTP interface.", settings: &HTTP },
        TableSpec { name: "engine", doc: "Where streams and state are kept.", settings: &ENGINE },
        TableSpec { name: "cluster", doc: "How nodes share the work.", settings: &CLUSTER },
        TableSpec {
            name: "scale",
            doc: "How many nodes the cluster wants. The same on all nodes.",
            settings: &SCALE,
        },
        TableSpec { name: "log", doc: "What the node writes to standard error.", settings: &LOG },
    ],
    reserved: &["healthz", "readyz", "metrics", "cluster", "console", "db"],
    finish: checks::across,
    ..PartConfig::new("node")
};

static NODE_SETTINGS: [SettingSpec; 2] = [
    SettingSpec::new(
        "id",
        &[
            "The node's name in the cluster; no two live nodes may share one.",
            "Default: host name and a random part.",
        ],
    )
    .with_example("\"a\"")
    .with_reader(|config, raw| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        read::name(raw, 64, allowed, "letters, digits, '.', '_' and '-'")
            .map(|id| config.node.id = Some(id))
    }),
    SettingSpec::new(
        "data",
        &[
            "The folder for this node's own files, such as the caches of databases. Nodes on one machine need one each.",
            "Default: the folder 'node' in that of an embedded engine; ./consort-node with other engines.",
        ],
    )
    .with_example("\"./consort-node\"")
    .with_reader(|config, raw| read::folder(raw).map(|data| config.node.data = Some(data))),
];

static HTTP: [SettingSpec; 11] = [
    SettingSpec::new(
        "listen",
        &[
            "Address and port; port 0 takes a free one.",
            "An address that other machines can reach needs tokens.",
        ],
    )
    .with_default_from(|| quoted(&HttpConfig::default().listen.to_string()))
    .with_reader(|config, raw| read::address(raw).map(|address| config.http.listen = address)),
    SettingSpec::new(
        "advertise",
        &[
            "Host and port by which other nodes and people reach this node; default: listen.",
            "To be set where listen is an address such as 0.0.0.0, or behind a proxy.",
        ],
    )
    .with_example("\"node-a.example.org:7400\"")
    .with_reader(|config, raw| {
        read::host_and_port(raw).map(|address| config.http.advertise = Some(address))
    }),
    SettingSpec::new(
        "tokens",
        &[
            "Access tokens, at least 16 characters each (`openssl rand -hex 32` makes one).",
            "With tokens, every request but /healthz and /readyz needs 'Authorization: Bearer <token>'.",
        ],
    )
    .with_default("[]")
    .with_visibility(Visibility::Secret)
    .with_reader(|config, raw| {
        let tokens =
            Tokens::new(read::texts(raw)?).map_err(|bad| format!("cannot be used: {bad}"))?;
        config.http.tokens = tokens;
        Ok(())
    }),
    SettingSpec::new(
        "tokens_file",
        &["A file with one access token a line, instead of tokens."],
    )
    .with_example("\"/run/secrets/consort-tokens\"")
    .with_reader(|config, raw| {
        read::path(raw).map(|path| config.http.tokens_file = Some(path))
    }),
    SettingSpec::new(
        "hosts",
        &[
            "Further host names of this node, such as [\"consort.example.org\"]; ports do not count. Without tokens,",
            "a request whose Host is not loopback, listen, advertise or one of these: 421.",
        ],
    )
    .with_default("[]")
    .with_reader(|config, raw| {
        config.http.hosts = read::parsed_texts(raw)?;
        Ok(())
    }),
    SettingSpec::new(
        "origins",
        &[
            "Web pages that may use this node, by origin, such as [\"https://app.example.org\"].",
            "A page of any other origin, without a token: 403.",
        ],
    )
    .with_default("[]")
    .with_reader(|config, raw| {
        config.http.origins = read::parsed_texts(raw)?;
        Ok(())
    }),
    SettingSpec::new("max_body", &["The largest request body; beyond it: 413."])
        .with_default_from(|| quoted(&size_text(HttpConfig::default().max_body)))
        .with_reader(|config, raw| {
            read::size(raw, 1 << 10..=1 << 30).map(|size| config.http.max_body = size)
        }),
    SettingSpec::new(
        "max_connections",
        &["Connections served at one time; beyond it: 503 at once."],
    )
    .with_default_from(|| HttpConfig::default().max_connections.to_string())
    .with_reader(|config, raw| {
        read::integer(raw, 1..=100_000)
            .map(|number| config.http.max_connections = number as usize)
    }),
    SettingSpec::new("first_byte_timeout", &["How long a new connection may stay silent."])
        .with_default_from(|| quoted(&duration_text(HttpConfig::default().first_byte_timeout)))
        .with_reader(|config, raw| {
            read::duration(raw, TIMEOUTS).map(|time| config.http.first_byte_timeout = time)
        }),
    SettingSpec::new(
        "header_timeout",
        &["From a request's first byte to the end of its headers; beyond it: 408."],
    )
    .with_default_from(|| quoted(&duration_text(HttpConfig::default().header_timeout)))
    .with_reader(|config, raw| {
        read::duration(raw, TIMEOUTS).map(|time| config.http.header_timeout = time)
    }),
    SettingSpec::new(
        "body_timeout",
        &["How long a request may keep us waiting for its body, in all; beyond it: 408."],
    )
    .with_default_from(|| quoted(&duration_text(HttpConfig::default().body_timeout)))
    .with_reader(|config, raw| {
        read::duration(raw, TIMEOUTS).map(|time| config.http.body_timeout = time)
    }),
];

static ENGINE: [SettingSpec; 8] = [
    SettingSpec::new(
        "url",
        &[
            "embedded:FOLDER (one node), redis://host:6379/0, redis-cluster://h1:p1,h2:p2,h3:p3,",
            "rediss:// and rediss-cluster:// for the same over TLS, or memory: (keeps nothing; for trials).",
        ],
    )
    .with_default_from(|| quoted(&EngineConfig::default().url.to_string()))
    .with_visibility(Visibility::Url)
    .with_reader(|config, raw| read::engine_url(raw).map(|url| config.engine.url = url)),
    SettingSpec::new(
        "broker",
        &["Keeps the streams on RabbitMQ instead; the state stays on Redis. amqps:// for TLS."],
    )
    .with_example("\"amqp://user:password@host/vhost\"")
    .with_visibility(Visibility::Url)
    .with_reader(|config, raw| {
        read::broker_url(raw).map(|url| config.engine.broker = Some(url))
    }),
    SettingSpec::new(
        "namespace",
        &["Several Consorts may share one Redis and one RabbitMQ, each with a namespace of its own."],
    )
    .with_default_from(|| quoted(&EngineConfig::default().namespace))
    .with_reader(|config, raw| {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
        read::name(raw, 32, allowed, "a-z, 0-9, '_' and '-'")
            .map(|name| config.engine.namespace = name)
    }),
    SettingSpec::new(
        "partitions",
        &[
            "Partitions of a new stream: the most nodes that can share its work. Fixed once the stream exists.",
            "Default: 32; on an embedded engine, which has one node, 4. With a broker, fewer make fuller frames:",
            "each costs RabbitMQ much the same, however many events are in it.",
        ],
    )
    .with_example("32")
    .with_reader(|config, raw| {
        read::integer(raw, 1..=1024).map(|number| config.engine.partitions = Some(number as u16))
    }),
    SettingSpec::new(
        "shards",
        &["Parts into which the state is split. Fixed once the namespace exists."],
    )
    .with_default_from(|| EngineConfig::default().shards.to_string())
    .with_reader(|config, raw| {
        read::integer(raw, 1..=256).map(|number| config.engine.shards = number as u16)
    }),
    SettingSpec::new(
        "durability",
        &["For embedded: \"fsync\" survives a power loss, \"process\" only a killed process."],
    )
    .with_default("\"fsync\"")
    .with_reader(|config, raw| {
        let words = [("fsync", Durability::Fsync), ("process", Durability::Process)];
        read::one_of(raw, words).map(|durability| config.engine.durability = durability)
    }),
    SettingSpec::new(
        "allow_volatile",
        &["Accept a Redis that keeps nothing on disk or evicts keys. Acknowledged input can then be lost."],
    )
    .with_default_from(|| EngineConfig::default().allow_volatile.to_string())
    .with_reader(|config, raw| read::flag(raw).map(|flag| config.engine.allow_volatile = flag)),
    SettingSpec::new(
        "tls_ca",
        &["Certificate of the authority (PEM) that signed the server's, for rediss:// and amqps://."],
    )
    .with_example("\"/etc/ssl/redis-ca.pem\"")
    .with_reader(|config, raw| read::path(raw).map(|path| config.engine.tls_ca = Some(path))),
];

static CLUSTER: [SettingSpec; 2] = [
    SettingSpec::new(
        "lease",
        &[
            "How long a node may be silent before its work is taken over. Shorter: sooner after a crash;",
            "longer: fewer needless moves where machines or the network stall. The same on all nodes.",
        ],
    )
    .with_default_from(|| quoted(&duration_text(ClusterConfig::default().lease)))
    .with_reader(|config, raw| {
        read::duration(raw, LEASES).map(|time| config.cluster.lease = time)
    }),
    SettingSpec::new(
        "heartbeat",
        &["How often a node says that it is there: at most a third of lease."],
    )
    .with_default_from(|| quoted(&duration_text(ClusterConfig::default().heartbeat)))
    .with_reader(|config, raw| {
        read::duration(raw, HEARTBEATS).map(|time| config.cluster.heartbeat = time)
    }),
];

static SCALE: [SettingSpec; 3] = [
    SettingSpec::new("min", &["The fewest nodes that are ever wanted."])
        .with_default_from(|| ScaleSettings::default().min.to_string())
        .with_reader(|config, raw| {
            read::integer(raw, NODES).map(|number| config.scale.min = number)
        }),
    SettingSpec::new(
        "max",
        &["The most nodes that are ever wanted. An autoscaler's own maximum should be the same."],
    )
    .with_default_from(|| ScaleSettings::default().max.to_string())
    .with_reader(|config, raw| read::integer(raw, NODES).map(|number| config.scale.max = number)),
    SettingSpec::new(
        "down_after",
        &["How long the load must fit one node less, with room to spare, before that is wanted."],
    )
    .with_default_from(|| quoted(&duration_text(ScaleSettings::default().down_after)))
    .with_reader(|config, raw| {
        read::duration(raw, DOWN_AFTER).map(|time| config.scale.down_after = time)
    }),
];

static LOG: [SettingSpec; 2] = [
    SettingSpec::new(
        "format",
        &["\"text\" for people, \"json\" for programs: one object a line."],
    )
    .with_default("\"text\"")
    .with_reader(|config, raw| {
        let words = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        read::one_of(raw, words).map(|format| config.log.format = format)
    }),
    SettingSpec::new(
        "level",
        &["off, error, warn, info, debug, trace, or directives such as \"info,consort_server=debug\"."],
    )
    .with_default_from(|| quoted(&LogConfig::default().level))
    .with_reader(|config, raw| read::log_level(raw).map(|level| config.log.level = level)),
];
