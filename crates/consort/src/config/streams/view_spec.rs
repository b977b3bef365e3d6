//! The settings of `[view.NAME]`.

use consort_views::Late;

use super::view;
use crate::config::part::ExampleSetting::{Instead, Shown};
use crate::config::part::{DeclarationSpec, ExampleSpec, NameRule};
use crate::config::spec::{SettingSpec, quoted};

pub(super) const VIEW: DeclarationSpec = DeclarationSpec {
    table: "view",
    plural: "views",
    doc: "what is kept of a stream",
    settings: &SETTINGS,
    read: view::read_declaration,
    names: NameRule::PLAIN,
    named_by_others: false,
    sibling: Some("stream"),
    examples: &[
        ExampleSpec {
            name: "paid_per_city",
            doc: "what is kept of a stream, at /views/paid_per_city",
            settings: &[
                Shown("from"),
                Shown("by"),
                Shown("sum"),
                Instead("count"),
                Instead("min"),
                Instead("max"),
                Instead("last"),
                Instead("distinct"),
                Instead("set"),
                Instead("distinct_approx"),
                Shown("where"),
                Shown("route"),
                Shown("answer"),
            ],
        },
        ExampleSpec {
            name: "riders_per_minute",
            doc: "a view with windows: each becomes a row, which sinks and /feeds deliver",
            settings: &[
                Shown("from"),
                Shown("distinct"),
                Shown("window"),
                Shown("grace"),
                Shown("keep"),
                Shown("late"),
                Shown("sink"),
            ],
        },
    ],
};

static SETTINGS: [SettingSpec; 18] = [
    SettingSpec::new("from", &["the stream"]).with_example("\"rides\""),
    SettingSpec::new("by", &["one value for each group; default: one for all"])
        .with_example("[\"city\", { wait_minutes = \"wait / 60\" }]"),
    SettingSpec::new("count", &["how many events"]).with_example("true"),
    SettingSpec::new("sum", &["the sum of an expression: int or decimal"]).with_example("\"paid\""),
    SettingSpec::new("min", &["the smallest value of an expression"]).with_example("\"wait\""),
    SettingSpec::new("max", &["the largest value of an expression"]).with_example("\"wait\""),
    SettingSpec::new("last", &["the value of the latest event"]).with_example("\"rider\""),
    SettingSpec::new(
        "distinct",
        &["how many different values there are of an expression, or of several together"],
    )
    .with_example("\"rider\""),
    SettingSpec::new("set", &["the different values themselves"]).with_example("\"rider\""),
    SettingSpec::new("distinct_approx", &["as distinct, but an estimate in bounded memory"])
        .with_example("[\"rider\", \"city\"]"),
    SettingSpec::new("where", &["which events count; default: all"])
        .with_example("\"wait < 3600 && rider != 7\""),
    SettingSpec::new(
        "window",
        &["one value for each stretch of time of this length; default: one for all time"],
    )
    .with_example("\"1m\""),
    SettingSpec::new("grace", &["how long a window waits for events that come late"])
        .with_default("\"5s\""),
    SettingSpec::new("keep", &["how long a closed window is kept"]).with_default("\"1h\""),
    SettingSpec::new(
        "late",
        &["\"amend\": an event after that amends the closed window; \"list\": it is listed and not counted"],
    )
    .with_default_from(|| quoted(Late::default().name())),
    SettingSpec::new("sink", &["the sink, or sinks, that rows of closed windows go to"])
        .with_example("[\"history\", \"rows\"]"),
    SettingSpec::new("route", &["a path beside /views/NAME, or several"])
        .with_example("[\"GET /cities/{city}/paid\", \"GET /cities/{city}/paid/{wait_minutes}\"]"),
    SettingSpec::new("answer", &["its shape on those routes; \"value\": just the value"])
        .with_example("{ total = \"value\", town = \"city\" }"),
];
