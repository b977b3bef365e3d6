//! The settings of `[once.NAME]`.

use super::space;
use crate::config::part::ExampleSetting::Shown;
use crate::config::part::{DeclarationSpec, ExampleSpec, NameRule};
use crate::config::spec::{SettingSpec, Visibility};

pub(super) const SPACE: DeclarationSpec = DeclarationSpec {
    table: "once",
    plural: "spaces of once",
    doc: "answers of an upstream that is asked once, for all nodes",
    settings: &SETTINGS,
    read: space::read_declaration,
    names: NameRule::PLAIN,
    named_by_others: false,
    sibling: None,
    examples: &[ExampleSpec {
        name: "items",
        doc: "GET /once/items/PATH?QUERY: asked of the upstream once, for all nodes",
        settings: &[
            Shown("upstream"),
            Shown("fresh_for"),
            Shown("stale_for"),
            Shown("stale_if_error"),
            Shown("errors_for"),
            Shown("honour"),
            Shown("headers"),
            Shown("max_value"),
            Shown("timeout"),
            Shown("connect_timeout"),
            Shown("wait"),
            Shown("lease"),
            Shown("on_error"),
            Shown("refresh_early"),
        ],
    }],
};

static SETTINGS: [SettingSpec; 14] = [
    // Its query may hold a key.
    SettingSpec::new("upstream", &["the address that is asked: http:// or https://"])
        .with_example("\"http://127.0.0.1:9000/items/{path}?{query}\"")
        .with_visibility(Visibility::Secret),
    SettingSpec::new(
        "lease",
        &["how long a node that computes may be silent before another takes over"],
    )
    .with_default("\"3s\""),
    SettingSpec::new("fresh_for", &["how long an answer is fresh, from its publication on"])
        .with_default("\"60s\""),
    SettingSpec::new(
        "stale_for",
        &["how long after that it is served while one request refreshes it"],
    )
    .with_default("\"0s\""),
    SettingSpec::new("stale_if_error", &["how long it is served if the upstream fails"])
        .with_default("\"0s\""),
    SettingSpec::new(
        "errors_for",
        &["how long a failure, or an answer such as 404, is kept for later requests"],
    )
    .with_default("\"1s\""),
    SettingSpec::new("max_value", &["the largest answer"]).with_default("\"1MiB\""),
    SettingSpec::new("timeout", &["how long the upstream may take in all"]).with_default("\"10s\""),
    SettingSpec::new("connect_timeout", &["how long a connection to it may take"])
        .with_default("\"2s\""),
    SettingSpec::new("wait", &["how long a request waits for its answer"]).with_default("\"30s\""),
    SettingSpec::new(
        "headers",
        &["headers of requests that the upstream gets, and that split the answers; default: none"],
    )
    .with_example("[\"accept-language\"]"),
    SettingSpec::new("honour", &["the upstream's Cache-Control decides, where it says something"])
        .with_default("true"),
    SettingSpec::new(
        "on_error",
        &["\"keep\": all who wait get the failure; \"reelect\": on every other node one more request tries"],
    )
    .with_default("\"keep\""),
    SettingSpec::new(
        "refresh_early",
        &["somewhat before an answer ceases to be fresh, one request refreshes it"],
    )
    .with_default("true"),
];
