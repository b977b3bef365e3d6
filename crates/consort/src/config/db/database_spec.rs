//! The settings of `[db.NAME]`.

use std::time::Duration;

use consort_db::settings::DatabaseSettings;
use consort_kernel::Name;

use super::database;
use crate::config::part::ExampleSetting::{Instead, Shown};
use crate::config::part::{DeclarationSpec, ExampleSpec, NameRule};
use crate::config::read::{duration_text, size_text};
use crate::config::spec::{SettingSpec, quoted};

pub(super) const DATABASE: DeclarationSpec = DeclarationSpec {
    table: "db",
    plural: "databases",
    doc: "a SQL database that several services share; all nodes declare the same, but for the schema folder",
    settings: &SETTINGS,
    read: database::read_declaration,
    names: NameRule::PLAIN,
    named_by_others: false,
    sibling: None,
    examples: &[ExampleSpec {
        name: "notes",
        doc: "POST /db/notes/write and /db/notes/read: SQL statements as JSON",
        settings: &[
            Shown("readers"),
            Instead("schema"),
            Shown("max_size"),
            Shown("max_stale"),
            Shown("wait"),
            Shown("write_time"),
            Shown("read_time"),
            Shown("transaction_time"),
            Shown("ddl_time"),
            Shown("max_rows"),
            Shown("max_answer"),
        ],
    }],
};

static SETTINGS: [SettingSpec; 11] = [
    SettingSpec::new(
        "schema",
        &["a folder of *.sql files, each applied once, in the order of their names; default: none"],
    )
    .with_example("\"schema/notes\""),
    SettingSpec::new("readers", &["how many workers serve reads beside the leader"])
        .with_default_from(readers_text)
        .with_inner(&READERS),
    SettingSpec::new("max_size", &["the largest database; beyond it writes get 507"])
        .with_default_from(|| size(default().max_size)),
    SettingSpec::new(
        "max_stale",
        &["a worker that has not looked at the database's head for this long serves no default read"],
    )
    .with_default_from(|| duration(default().max_stale)),
    SettingSpec::new("wait", &["how long a request may wait for a worker; beyond it: 503"])
        .with_default_from(|| duration(default().wait)),
    SettingSpec::new("write_time", &["how long the statements of one write may run"])
        .with_default_from(|| duration(default().write_time)),
    SettingSpec::new("read_time", &["how long the queries of one read may run"])
        .with_default_from(|| duration(default().read_time)),
    SettingSpec::new(
        "transaction_time",
        &["how long an interactive transaction of a libSQL client may last; \"0s\" forbids them"],
    )
    .with_default_from(|| duration(default().transaction_time)),
    SettingSpec::new("ddl_time", &["how long a change of the schema may run"])
        .with_default_from(|| duration(default().ddl_time)),
    SettingSpec::new("max_rows", &["the most rows of one answer"])
        .with_default_from(|| default().max_rows.to_string()),
    SettingSpec::new("max_answer", &["and the most bytes, before they are written as JSON"])
        .with_default_from(|| size(default().max_answer as u64)),
];

/// `readers` of a database.
pub(super) static READERS: [SettingSpec; 4] = [
    SettingSpec::new("min", &["the fewest readers"])
        .with_default_from(|| default().readers.min.to_string()),
    SettingSpec::new("max", &["the most readers"])
        .with_default_from(|| default().readers.max.to_string()),
    SettingSpec::new("per_reads", &["one reader for every so many reads in a window"])
        .with_default_from(|| default().readers.per_reads.to_string()),
    SettingSpec::new("window", &["the length of a window"])
        .with_default_from(|| duration(default().readers.window)),
];

fn readers_text() -> String {
    let readers = default().readers;
    format!(
        "{{ min = {}, max = {}, per_reads = {}, window = {} }}",
        readers.min,
        readers.max,
        readers.per_reads,
        duration(readers.window)
    )
}

/// A database without any settings: all defaults are its.
fn default() -> DatabaseSettings {
    match Name::new("default") {
        Ok(name) => DatabaseSettings::new(name),
        Err(_) => unreachable!("'default' is a name"),
    }
}

fn duration(time: Duration) -> String {
    quoted(&duration_text(time))
}

fn size(bytes: u64) -> String {
    quoted(&size_text(bytes))
}
