//! The settings of `[glue.NAME]`.

use std::time::Duration;

use consort_glue::{Collection, DocumentFormat};

use super::collection;
use crate::config::part::ExampleSetting::{Shown, With};
use crate::config::part::{DeclarationSpec, ExampleSpec, NameRule};
use crate::config::read::{duration_text, size_text};
use crate::config::spec::{SettingSpec, Visibility, quoted};

pub(super) const COLLECTION: DeclarationSpec = DeclarationSpec {
    table: "glue",
    plural: "collections",
    doc: "a collection of documents that are assembled from pieces",
    settings: &SETTINGS,
    read: collection::read_declaration,
    names: NameRule { most: 80, ..NameRule::PLAIN },
    named_by_others: false,
    sibling: None,
    examples: &[
        ExampleSpec {
            name: "content",
            doc: "documents from pieces: PUT, PATCH, DELETE and GET /glue/content/ID",
            settings: &[
                Shown("format"),
                Shown("max_document"),
                Shown("absent"),
                Shown("template"),
                Shown("revive"),
                Shown("on_reject"),
                Shown("on_gap"),
                Shown("gap_for"),
                Shown("ids_for"),
                Shown("history"),
                Shown("feed"),
                Shown("feed_keep"),
                Shown("feed_bytes"),
                Shown("tombstones"),
                Shown("retain"),
                Shown("tenant_pieces"),
                Shown("tenant_bytes"),
                Shown("gate"),
                Shown("partitions"),
                Shown("amqp"),
                Shown("sink"),
            ],
        },
        ExampleSpec {
            name: "schedules",
            doc: "the same for XML documents",
            settings: &[With("format", "\"xml\"", "")],
        },
    ],
};

static SETTINGS: [SettingSpec; 21] = [
    SettingSpec::new("format", &["\"json\" or \"xml\"; it never changes"]).with_example("\"json\""),
    SettingSpec::new(
        "partitions",
        &["default: partitions of [engine]; the most nodes that share it; fixed once it exists"],
    )
    .with_example("32"),
    SettingSpec::new("retain", &["how long the log keeps applied pieces"])
        .with_default_from(|| duration(|collection| collection.retain)),
    SettingSpec::new(
        "max_document",
        &["the largest document: up to 1984KiB, with feed = \"document\" up to 256KiB"],
    )
    .with_default_from(|| size(|collection| collection.max_document as u64)),
    SettingSpec::new(
        "absent",
        &["a merge patch without a document: \"create\" creates it, \"reject\" rejects the piece"],
    )
    .with_default("\"create\""),
    SettingSpec::new(
        "template",
        &["the document that a JSON Patch or XML patch starts from when there is none"],
    )
    .with_example("'{\"kind\": \"unknown\"}'"),
    SettingSpec::new(
        "revive",
        &["whether a merge patch after a DELETE begins a new life, as PUT does"],
    )
    .with_default("false"),
    SettingSpec::new(
        "on_reject",
        &["\"skip\": the next piece is applied; \"halt\": the document waits for retry or discard"],
    )
    .with_default("\"skip\""),
    SettingSpec::new(
        "on_gap",
        &["when a missing number does not come: \"skip\" it, \"reject\" what waits, or \"halt\""],
    )
    .with_default("\"skip\""),
    SettingSpec::new("gap_for", &["how long a missing number is awaited"])
        .with_default_from(|| duration(|collection| collection.gap_for)),
    SettingSpec::new("ids_for", &["for how long an Idempotency-Key is known: 1m to 7d"])
        .with_default_from(|| duration(|collection| collection.ids_for)),
    SettingSpec::new("history", &["how many versions can be read back: up to 1000"])
        .with_default_from(|| collection_default().history.to_string()),
    SettingSpec::new(
        "feed",
        &["\"pieces\": rows of the feed hold the piece; \"document\": the document as well"],
    )
    .with_default("\"pieces\""),
    SettingSpec::new("feed_keep", &["how long rows of the feed stay"])
        .with_default_from(|| duration(|collection| collection.feed_keep)),
    SettingSpec::new("feed_bytes", &["and how many bytes of rows stay in each shard"])
        .with_default_from(|| size(|collection| collection.feed_bytes)),
    SettingSpec::new(
        "tombstones",
        &["how long a deleted document is remembered; at least ids_for and retain"],
    )
    .with_default_from(|| duration(|collection| collection.tombstones)),
    SettingSpec::new(
        "tenant_pieces",
        &["unapplied pieces that a tenant may have in a partition; beyond it: 429"],
    )
    .with_default_from(|| collection_default().tenant_pieces.to_string()),
    SettingSpec::new("tenant_bytes", &["and bytes of unapplied pieces"])
        .with_default_from(|| size(|collection| collection.tenant_bytes)),
    SettingSpec::new("gate", &["against overload: \"adaptive\", \"breaker\" or \"off\""])
        .with_default("\"adaptive\""),
    SettingSpec::new("amqp", &["RabbitMQ queues with pieces, each of one tenant"])
        .with_example(
            "[{ queue = \"pieces-a\", tenant = \"a\", url = \"amqp://user:password@host/vhost\" }]",
        )
        .with_visibility(Visibility::Secret)
        .with_inner(&AMQP),
    SettingSpec::new("sink", &["the sink, or sinks, that rows of the feed go to"])
        .with_example("[\"rows\"]"),
];

/// `amqp` of a collection.
pub(super) static AMQP: [SettingSpec; 3] = [
    SettingSpec::new("queue", &["the queue, which no other consumer reads"])
        .with_example("\"pieces-a\""),
    SettingSpec::new("tenant", &["the tenant whose pieces it has; default: \"default\""])
        .with_example("\"a\""),
    SettingSpec::new("url", &["the RabbitMQ; default: broker of [engine]"])
        .with_example("\"amqp://user:password@host/vhost\"")
        .with_visibility(Visibility::Url),
];

/// A collection without any settings: all defaults are its.
pub(super) fn collection_default() -> Collection {
    Collection::new("default", DocumentFormat::Json, 1)
}

fn duration(setting: fn(&Collection) -> Duration) -> String {
    quoted(&duration_text(setting(&collection_default())))
}

fn size(setting: fn(&Collection) -> u64) -> String {
    quoted(&size_text(setting(&collection_default())))
}
