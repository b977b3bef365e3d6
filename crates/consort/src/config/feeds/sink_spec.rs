//! The settings of `[sink.NAME]`. Each kind of sink takes some of them.

use super::sinks;
use crate::config::part::ExampleSetting::{Shown, With};
use crate::config::part::{DeclarationSpec, ExampleSpec, NameRule};
use crate::config::spec::{SettingSpec, Visibility};

pub(super) const SINK: DeclarationSpec = DeclarationSpec {
    table: "sink",
    plural: "sinks",
    doc: "where rows are delivered to",
    settings: &SETTINGS,
    read: sinks::read_declaration,
    names: NameRule::PLAIN,
    named_by_others: true,
    sibling: None,
    examples: &[
        ExampleSpec {
            name: "history",
            doc: "rows of views go to an InfluxDB 1",
            settings: &[
                Shown("kind"),
                Shown("url"),
                Shown("database"),
                Shown("retention"),
                Shown("user"),
                Shown("password"),
            ],
        },
        ExampleSpec {
            name: "cloud",
            doc: "to an InfluxDB 2",
            settings: &[
                With("kind", "\"influx\"", ""),
                Shown("url"),
                Shown("org"),
                Shown("bucket"),
                Shown("token"),
            ],
        },
        ExampleSpec {
            name: "hook",
            doc: "to an address that takes posts",
            settings: &[
                With("kind", "\"webhook\"", ""),
                With("url", "\"https://example.org/rows\"", "where rows are posted to"),
                Shown("secret"),
                Shown("allow_private"),
                Shown("send"),
            ],
        },
        ExampleSpec {
            name: "broker",
            doc: "to a RabbitMQ",
            settings: &[
                With("kind", "\"amqp\"", ""),
                With(
                    "url",
                    "\"amqp://user:password@host/vhost\"",
                    "the RabbitMQ; default: broker of [engine]",
                ),
                Shown("exchange"),
                Shown("routing_key"),
            ],
        },
        ExampleSpec {
            name: "rows",
            doc: "to a file",
            settings: &[With("kind", "\"file\"", ""), Shown("path"), Shown("format")],
        },
    ],
};

// An address of a webhook is often a secret by itself.
static SETTINGS: [SettingSpec; 16] = [
    SettingSpec::new("kind", &["\"influx\", \"webhook\", \"amqp\" or \"file\""])
        .with_example("\"influx\""),
    SettingSpec::new("url", &["where it is"])
        .with_example("\"http://127.0.0.1:8086\"")
        .with_visibility(Visibility::Secret),
    SettingSpec::new("database", &["the database to write to, of InfluxDB 1"])
        .with_example("\"events\""),
    SettingSpec::new("retention", &["its retention policy; default: the database's own"])
        .with_example("\"week\""),
    SettingSpec::new("user", &["user and password come together; default: none"])
        .with_example("\"consort\""),
    SettingSpec::new("password", &["the user's password"])
        .with_example("\"password\"")
        .with_visibility(Visibility::Secret),
    SettingSpec::new("org", &["the organisation that has the bucket, of InfluxDB 2"])
        .with_example("\"acme\""),
    SettingSpec::new("bucket", &["the bucket to write to"]).with_example("\"events\""),
    SettingSpec::new("token", &["a token that may write there"])
        .with_example("\"token\"")
        .with_visibility(Visibility::Secret),
    SettingSpec::new(
        "secret",
        &["signs each post; at least 16 characters (`openssl rand -hex 32` makes one); default: none"],
    )
    .with_example("\"0123456789abcdef\"")
    .with_visibility(Visibility::Secret),
    SettingSpec::new("allow_private", &["whether the address may lead to this machine or a private network"])
        .with_default("false"),
    SettingSpec::new("exchange", &["the exchange; \"\": the default one"]).with_default("\"\""),
    SettingSpec::new(
        "routing_key",
        &["what the exchange routes by; without an exchange, the name of the queue"],
    )
    .with_example("\"rows\""),
    SettingSpec::new("path", &["the file that rows are appended to"])
        .with_example("\"./rows.ndjson\""),
    SettingSpec::new("format", &["\"ndjson\" or \"line\" (line protocol)"])
        .with_default("\"ndjson\""),
    SettingSpec::new(
        "send",
        &["of documents: \"pieces\", every version, or \"states\", the latest document"],
    )
    .with_default("\"pieces\""),
];
