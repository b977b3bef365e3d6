//! The table of all settings. A setting exists when it has a row here, and only then.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use consort_server::{HostName, Origin, Tokens};

use super::read::{self, Raw, duration_text, size_text};
use super::{Config, Durability, LogFormat};

/// One setting.
pub(crate) struct Setting {
    /// Table and name, joined by a dot.
    pub(crate) path: &'static str,
    /// What it means, for `consort config --defaults`; one line each.
    pub(crate) doc: &'static [&'static str],
    pub(crate) visibility: Visibility,
    /// Reads the value into the config, or says what it must be.
    pub(crate) set: fn(&mut Config, &Raw) -> Result<(), String>,
    /// The value as it would be written in the file; `None` when there is none.
    pub(crate) show: fn(&Config) -> Option<String>,
    /// What to write where there is no default.
    pub(crate) example: &'static str,
}

/// How much of a setting's value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    Plain,
    /// A URL: without its password.
    Url,
    /// Nothing of it.
    Secret,
}

/// The tables, in the order in which they are written.
pub(crate) const TABLES: [(&str, &str); 6] = [
    ("node", "This node."),
    ("http", "The HTTP interface."),
    ("engine", "Where streams and state are kept."),
    ("cluster", "How nodes share the work."),
    ("once", "Answers that are computed once: what a node holds of them."),
    ("log", "What the node writes to standard error."),
];

const TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(3600);

/// A lease below what a busy machine may pause for would be lost without need; one of minutes leaves the
/// work of a dead node undone for as long.
const LEASES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(300)..=Duration::from_secs(300);

const HEARTBEATS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(100);

static SETTINGS: [Setting; 27] = [
    Setting {
        path: "node.id",
        doc: &[
            "The node's name in the cluster; no two live nodes may share one.",
            "Default: host name and a random part.",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            read::name(raw, 64, allowed, "letters, digits, '.', '_' and '-'")
                .map(|id| config.node.id = Some(id))
        },
        show: |config| config.node.id.as_deref().map(quoted),
        example: "\"a\"",
    },
    Setting {
        path: "http.listen",
        doc: &[
            "Address and port; port 0 takes a free one.",
            "An address that other machines can reach needs tokens.",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| read::address(raw).map(|address| config.http.listen = address),
        show: |config| Some(quoted(&config.http.listen.to_string())),
        example: "",
    },
    Setting {
        path: "http.advertise",
        doc: &[
            "Host and port by which other nodes and people reach this node; default: listen.",
            "To be set where listen is an address such as 0.0.0.0, or behind a proxy.",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::host_and_port(raw).map(|address| config.http.advertise = Some(address))
        },
        show: |config| config.http.advertise.as_deref().map(quoted),
        example: "\"node-a.example.org:7400\"",
    },
    Setting {
        path: "http.tokens",
        doc: &[
            "Access tokens, at least 16 characters each (`openssl rand -hex 32` makes one).",
            "With tokens, every request but /healthz and /readyz needs 'Authorization: Bearer <token>'.",
        ],
        visibility: Visibility::Secret,
        set: |config, raw| {
            let tokens =
                Tokens::new(read::texts(raw)?).map_err(|bad| format!("cannot be used: {bad}"))?;
            config.http.tokens = tokens;
            Ok(())
        },
        show: |config| config.http.tokens.is_empty().then(|| "[]".to_owned()),
        example: "[]",
    },
    Setting {
        path: "http.tokens_file",
        doc: &["A file with one access token a line, instead of tokens."],
        visibility: Visibility::Plain,
        set: |config, raw| read::path(raw).map(|path| config.http.tokens_file = Some(path)),
        show: |config| config.http.tokens_file.as_ref().map(|path| quoted(&path.to_string_lossy())),
        example: "\"/run/secrets/consort-tokens\"",
    },
    Setting {
        path: "http.hosts",
        doc: &[
            "Further host names of this node, such as [\"consort.example.org\"]; ports do not count. Without tokens,",
            "a request whose Host is not loopback, listen, advertise or one of these: 421.",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| {
            config.http.hosts = parsed::<HostName>(raw)?;
            Ok(())
        },
        show: |config| Some(list(&config.http.hosts)),
        example: "",
    },
    Setting {
        path: "http.origins",
        doc: &[
            "Web pages that may use this node, by origin, such as [\"https://app.example.org\"].",
            "A page of any other origin, without a token: 403.",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| {
            config.http.origins = parsed::<Origin>(raw)?;
            Ok(())
        },
        show: |config| Some(list(&config.http.origins)),
        example: "",
    },
    Setting {
        path: "http.max_body",
        doc: &["The largest request body; beyond it: 413."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::size(raw, 1 << 10..=1 << 30).map(|size| config.http.max_body = size)
        },
        show: |config| Some(quoted(&size_text(config.http.max_body))),
        example: "",
    },
    Setting {
        path: "http.max_connections",
        doc: &["Connections served at one time; beyond it: 503 at once."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::integer(raw, 1..=100_000)
                .map(|number| config.http.max_connections = number as usize)
        },
        show: |config| Some(config.http.max_connections.to_string()),
        example: "",
    },
    Setting {
        path: "http.first_byte_timeout",
        doc: &["How long a new connection may stay silent."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::duration(raw, TIMEOUTS).map(|time| config.http.first_byte_timeout = time)
        },
        show: |config| Some(quoted(&duration_text(config.http.first_byte_timeout))),
        example: "",
    },
    Setting {
        path: "http.header_timeout",
        doc: &["From a request's first byte to the end of its headers; beyond it: 408."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::duration(raw, TIMEOUTS).map(|time| config.http.header_timeout = time)
        },
        show: |config| Some(quoted(&duration_text(config.http.header_timeout))),
        example: "",
    },
    Setting {
        path: "http.body_timeout",
        doc: &["How long a request may keep us waiting for its body, in all; beyond it: 408."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::duration(raw, TIMEOUTS).map(|time| config.http.body_timeout = time)
        },
        show: |config| Some(quoted(&duration_text(config.http.body_timeout))),
        example: "",
    },
    Setting {
        path: "engine.url",
        doc: &[
            "embedded:FOLDER (one node), redis://host:6379/0, redis-cluster://h1:p1,h2:p2,h3:p3,",
            "rediss:// and rediss-cluster:// for the same over TLS, or memory: (keeps nothing; for trials).",
        ],
        visibility: Visibility::Url,
        set: |config, raw| read::engine_url(raw).map(|url| config.engine.url = url),
        show: |config| Some(quoted(&config.engine.url.to_string())),
        example: "",
    },
    Setting {
        path: "engine.broker",
        doc: &[
            "Keeps the streams on RabbitMQ instead; the state stays on Redis. amqps:// for TLS.",
        ],
        visibility: Visibility::Url,
        set: |config, raw| read::broker_url(raw).map(|url| config.engine.broker = Some(url)),
        show: |config| config.engine.broker.as_ref().map(|url| quoted(&url.to_string())),
        example: "\"amqp://user:password@host/vhost\"",
    },
    Setting {
        path: "engine.namespace",
        doc: &[
            "Several Consorts may share one Redis and one RabbitMQ, each with a namespace of its own.",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| {
            let allowed =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
            read::name(raw, 32, allowed, "a-z, 0-9, '_' and '-'")
                .map(|name| config.engine.namespace = name)
        },
        show: |config| Some(quoted(&config.engine.namespace)),
        example: "",
    },
    Setting {
        path: "engine.partitions",
        doc: &[
            "Partitions of a new stream: the most nodes that can share its work. Fixed once the stream exists.",
            "Default: 32; on an embedded engine, which has one node, 4. With a broker, fewer make fuller frames:",
            "each costs RabbitMQ much the same, however many events are in it.",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::integer(raw, 1..=1024)
                .map(|number| config.engine.partitions = Some(number as u16))
        },
        show: |config| config.engine.partitions.map(|number| number.to_string()),
        example: "32",
    },
    Setting {
        path: "engine.shards",
        doc: &["Parts into which the state is split. Fixed once the namespace exists."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::integer(raw, 1..=256).map(|number| config.engine.shards = number as u16)
        },
        show: |config| Some(config.engine.shards.to_string()),
        example: "",
    },
    Setting {
        path: "engine.durability",
        doc: &["For embedded: \"fsync\" survives a power loss, \"process\" only a killed process."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            let words = [("fsync", Durability::Fsync), ("process", Durability::Process)];
            read::one_of(raw, words).map(|durability| config.engine.durability = durability)
        },
        show: |config| {
            Some(quoted(match config.engine.durability {
                Durability::Fsync => "fsync",
                Durability::Process => "process",
            }))
        },
        example: "",
    },
    Setting {
        path: "engine.allow_volatile",
        doc: &[
            "Accept a Redis that keeps nothing on disk or evicts keys. Acknowledged input can then be lost.",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| read::flag(raw).map(|flag| config.engine.allow_volatile = flag),
        show: |config| Some(config.engine.allow_volatile.to_string()),
        example: "",
    },
    Setting {
        path: "engine.tls_ca",
        doc: &[
            "Certificate of the authority (PEM) that signed the server's, for rediss:// and amqps://.",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| read::path(raw).map(|path| config.engine.tls_ca = Some(path)),
        show: |config| config.engine.tls_ca.as_ref().map(|path| quoted(&path.to_string_lossy())),
        example: "\"/etc/ssl/redis-ca.pem\"",
    },
    Setting {
        path: "cluster.lease",
        doc: &[
            "How long a node may be silent before its work is taken over. Shorter: sooner after a crash;",
            "longer: fewer needless moves where machines or the network stall. The same on all nodes.",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| read::duration(raw, LEASES).map(|time| config.cluster.lease = time),
        show: |config| Some(quoted(&duration_text(config.cluster.lease))),
        example: "",
    },
    Setting {
        path: "cluster.heartbeat",
        doc: &["How often a node says that it is there: at most a third of lease."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::duration(raw, HEARTBEATS).map(|time| config.cluster.heartbeat = time)
        },
        show: |config| Some(quoted(&duration_text(config.cluster.heartbeat))),
        example: "",
    },
    Setting {
        path: "once.cache",
        doc: &["Answers that the node keeps in memory, in bytes; \"0B\" for none."],
        visibility: Visibility::Plain,
        set: |config, raw| read::size(raw, 0..=1 << 36).map(|size| config.once.cache = size),
        show: |config| Some(quoted(&size_text(config.once.cache))),
        example: "",
    },
    Setting {
        path: "once.waiters",
        doc: &["Requests that may wait for answers on this node, in all; beyond it: 503 at once."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::integer(raw, 1..=1_000_000).map(|number| config.once.waiters = number as usize)
        },
        show: |config| Some(config.once.waiters.to_string()),
        example: "",
    },
    Setting {
        path: "once.waiters_per_key",
        doc: &["The same for one answer."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            read::integer(raw, 1..=1_000_000)
                .map(|number| config.once.waiters_per_key = number as usize)
        },
        show: |config| Some(config.once.waiters_per_key.to_string()),
        example: "",
    },
    Setting {
        path: "log.format",
        doc: &["\"text\" for people, \"json\" for programs: one object a line."],
        visibility: Visibility::Plain,
        set: |config, raw| {
            let words = [("text", LogFormat::Text), ("json", LogFormat::Json)];
            read::one_of(raw, words).map(|format| config.log.format = format)
        },
        show: |config| {
            Some(quoted(match config.log.format {
                LogFormat::Text => "text",
                LogFormat::Json => "json",
            }))
        },
        example: "",
    },
    Setting {
        path: "log.level",
        doc: &[
            "off, error, warn, info, debug, trace, or directives such as \"info,consort_server=debug\".",
        ],
        visibility: Visibility::Plain,
        set: |config, raw| read::log_level(raw).map(|level| config.log.level = level),
        show: |config| Some(quoted(&config.log.level)),
        example: "",
    },
];

impl Setting {
    pub(crate) fn table(&self) -> &'static str {
        self.path.split_once('.').map_or("", |(table, _)| table)
    }

    /// The name within its table.
    pub(crate) fn leaf(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, leaf)| leaf)
    }

    /// How messages call it.
    pub(crate) fn named(&self) -> String {
        format!("'{}' in [{}]", self.leaf(), self.table())
    }

    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("CONSORT_{}", self.path.to_ascii_uppercase().replace('.', "_"))
    }
}

pub(crate) fn find(path: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.path == path)
}

pub(crate) fn all() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter()
}

/// How much of a line may be shown that sets `leaf`, in whichever table; `None` for an unknown
/// name.
pub(crate) fn visibility_of(leaf: &str) -> Option<Visibility> {
    all().find(|setting| setting.leaf() == leaf).map(|setting| setting.visibility)
}

/// A list of texts, each of which is parsed.
fn parsed<T>(raw: &Raw) -> Result<Vec<T>, String>
where
    T: FromStr<Err: Display>,
{
    let texts = read::texts(raw)?;
    let parse = |text: &String| {
        text.parse().map_err(|bad: T::Err| format!("has an entry that cannot be used: {bad}"))
    };
    texts.iter().map(parse).collect()
}

/// A TOML array of basic strings.
fn list<T: Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(&item.to_string())).collect();
    format!("[{}]", items.join(", "))
}

/// A basic TOML string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
