//! The settings of a relay's file as specs: `[relay]`, `[target.NAME]` and `[[route]]`.

use super::{BUFFER, DATAGRAM, HTTP, QUEUE};
use crate::config::part::PartConfig;
use crate::config::read::size_text;
use crate::config::spec::{SettingSpec, TableSpec, Visibility, quoted};

pub(super) const RELAY: TableSpec = TableSpec {
    name: "relay",
    doc: "Where lines come in, and where those go that fit no route.",
    settings: &RELAY_SETTINGS,
};

/// A table with a name of the user's choice.
pub(super) const TARGET: TableSpec = TableSpec {
    name: "target",
    doc: "A place that lines go to. Each has either udp or http.",
    settings: &TARGET_SETTINGS,
};

/// A list of tables.
pub(super) const ROUTE: TableSpec = TableSpec {
    name: "route",
    doc: "Which lines go where. The first route that a line fits decides. A route has measurement, tag or both.",
    settings: &ROUTE_SETTINGS,
};

/// The specs in the form in which messages look them up. The relay is no node, and no part of one.
pub(super) static CONFIG: PartConfig =
    PartConfig { tables: &[RELAY, TARGET, ROUTE], ..PartConfig::new("relay") };

static RELAY_SETTINGS: [SettingSpec; 8] = [
    SettingSpec::new("udp", &["The address at which datagrams of lines come in."])
        .with_example("\"127.0.0.1:8090\""),
    SettingSpec::new("tcp", &["The address at which lines come in over connections."])
        .with_example("\"127.0.0.1:8090\""),
    SettingSpec::new("http", &["Where GET /metrics shows the counters: an address on loopback."])
        .with_default_from(|| quoted(&HTTP.to_string())),
    SettingSpec::new(
        "allow",
        &["The networks that may send; needed where other machines can reach udp or tcp."],
    )
    .with_example("[\"10.0.0.0/8\"]"),
    SettingSpec::new(
        "form",
        &["\"line\" (InfluxDB line protocol) or \"line-loose\" (takes bare words, too)."],
    )
    .with_default("\"line\"")
    .with_example("\"line-loose\""),
    SettingSpec::new(
        "default",
        &["The targets of lines that fit no route. Without it such lines are dropped and counted."],
    )
    .with_example("[\"rest\"]"),
    SettingSpec::new(
        "datagram",
        &["The most bytes of a datagram that the relay packs several lines into."],
    )
    .with_default_from(|| DATAGRAM.to_string()),
    SettingSpec::new("udp_buffer", &["What the kernel may hold of a burst of datagrams."])
        .with_default_from(|| quoted(&size_text(BUFFER))),
];

static TARGET_SETTINGS: [SettingSpec; 4] = [
    SettingSpec::new("udp", &["Host and port that datagrams of lines go to, each once."])
        .with_example("\"node-a:8089\""),
    SettingSpec::new(
        "http",
        &["A URL that takes lines. A batch is repeated until the target has taken it."],
    )
    .with_example("\"http://127.0.0.1:7400/write?db=events\"")
    .with_visibility(Visibility::Secret),
    SettingSpec::new("token", &["The access token of an http target."])
        .with_example("\"a-token-of-the-target\"")
        .with_visibility(Visibility::Secret),
    SettingSpec::new(
        "queue",
        &[
            "How much may wait for the target. When the queue is full, its oldest lines are dropped and counted.",
        ],
    )
    .with_default_from(|| quoted(&size_text(QUEUE))),
];

static ROUTE_SETTINGS: [SettingSpec; 3] = [
    SettingSpec::new("measurement", &["Lines of this measurement."]).with_example("\"cpu\""),
    SettingSpec::new("tag", &["Lines with this tag, or with this value of it."])
        .with_example("\"host=h1\""),
    SettingSpec::new("to", &["The targets of these lines."])
        .with_example("[\"node-a\", \"node-b\"]"),
];
