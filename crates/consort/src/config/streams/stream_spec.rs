//! The settings of `[stream.NAME]`.

use super::stream;
use crate::config::part::ExampleSetting::{Shown, With};
use crate::config::part::{DeclarationSpec, ExampleSpec, NameRule};
use crate::config::spec::{SettingSpec, Visibility};

pub(super) const STREAM: DeclarationSpec = DeclarationSpec {
    table: "stream",
    plural: "streams",
    doc: "a stream of events",
    settings: &SETTINGS,
    read: stream::read_declaration,
    names: NameRule::PLAIN,
    named_by_others: false,
    sibling: Some("view"),
    examples: &[
        ExampleSpec {
            name: "rides",
            doc: "a stream of events: JSON, posted to /streams/rides",
            settings: &[
                Shown("fields"),
                Shown("key"),
                Shown("id"),
                Shown("ids_for"),
                Shown("time"),
                Shown("retain"),
                Shown("route"),
                Shown("gate"),
                Shown("unknown_fields"),
                Shown("partitions"),
                Shown("amqp"),
            ],
        },
        ExampleSpec {
            name: "lines",
            doc: "a stream of lines, as agents and databases for metrics send them",
            settings: &[
                Shown("form"),
                With(
                    "key",
                    "[\"host\", \"region\"]",
                    "tags or fields; without 'fields' those that are named here and in views are texts",
                ),
                Shown("udp"),
                Shown("udp_allow"),
                Shown("udp_buffer"),
            ],
        },
    ],
};

static SETTINGS: [SettingSpec; 15] = [
    SettingSpec::new(
        "form",
        &[
            "\"json\", \"line\" (InfluxDB line protocol) or \"line-loose\" (takes bare words, too)",
        ],
    )
    .with_default("\"json\"")
    .with_example("\"line\""),
    SettingSpec::new(
        "fields",
        &["int, text, bool, decimal(DIGITS); '?': may be absent; a range"],
    )
    .with_example(
        "{ ride = \"text 1..36\", rider = \"int 1..100000\", city = \"text 1..64\", paid = \"decimal(2)\", wait = \"int?\", at = \"int\" }",
    ),
    SettingSpec::new(
        "key",
        &["the field, or fields, by which events are spread; default: the whole event"],
    )
    .with_example("\"rider\"")
    .with_visibility(Visibility::PlainInTable),
    SettingSpec::new(
        "id",
        &["the field that tells an event from its repeats; default: only Idempotency-Key"],
    )
    .with_example("\"ride\""),
    SettingSpec::new("ids_for", &["for how long repeats are known: 1m to 7d"])
        .with_default("\"1h\""),
    SettingSpec::new(
        "time",
        &["an int field with the event's time in nanoseconds since 1970; default: its arrival"],
    )
    .with_example("\"at\""),
    SettingSpec::new("retain", &["how long the log keeps applied events"]).with_default("\"7d\""),
    SettingSpec::new(
        "route",
        &["a path beside /streams/NAME; its fields join the body's"],
    )
    .with_example("\"POST /cities/{city}/rides\""),
    SettingSpec::new("gate", &["against overload: \"adaptive\", \"breaker\" or \"off\""])
        .with_default("\"adaptive\""),
    SettingSpec::new(
        "unknown_fields",
        &["\"reject\" or \"ignore\"; for lines the default is \"ignore\""],
    )
    .with_default("\"reject\""),
    SettingSpec::new(
        "partitions",
        &["default: partitions of [engine]; fixed once the stream exists"],
    )
    .with_example("32"),
    SettingSpec::new("amqp", &["a RabbitMQ queue to read as well"])
        .with_example("{ url = \"amqp://user:password@host/vhost\", queue = \"rides\" }")
        .with_visibility(Visibility::Secret)
        .with_inner(&AMQP),
    SettingSpec::new(
        "udp",
        &["datagrams of lines, beside /streams/NAME, /write?db=NAME and /api/v2/write?bucket=NAME"],
    )
    .with_example("\"127.0.0.1:8089\""),
    SettingSpec::new(
        "udp_allow",
        &["who may send; needed where other machines can reach the address"],
    )
    .with_example("[\"127.0.0.0/8\"]"),
    SettingSpec::new("udp_buffer", &["what the kernel may hold of a burst"])
        .with_default("\"8MiB\""),
];

/// `amqp` of a stream.
pub(super) static AMQP: [SettingSpec; 2] = [
    SettingSpec::new("url", &["the RabbitMQ; default: broker of [engine]"])
        .with_example("\"amqp://user:password@host/vhost\"")
        .with_visibility(Visibility::Url),
    SettingSpec::new("queue", &["the queue that the stream reads"]).with_example("\"rides\""),
];
