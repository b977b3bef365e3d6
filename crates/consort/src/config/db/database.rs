//! Reads `[db.NAME]`: one database.

use std::ops::RangeInclusive;
use std::time::Duration;

use consort_db::settings::DatabaseSettings;
use consort_db::supervise::scale::ScaleRule;
use consort_kernel::Name;

use super::database_spec::READERS;
use super::{DbConfig, schema_files};
use crate::config::declared::{Contents, Declaration, Entry};
use crate::config::part::Context;
use crate::config::read::{self, Raw};
use crate::config::reader::Reader;

/// Clients of libSQL add these to the path of a database, and a slash that is forgotten must not reach another one.
const PROTOCOL_NAMES: [&str; 2] = ["v2", "v3"];

/// Each reader has a file of its own, and the store a cell for each.
const COUNTS: RangeInclusive<u64> = 1..=64;

const PER_READS: RangeInclusive<u64> = 1..=1_000_000_000;

/// In less than a second no reader would be there in time; after an hour nobody remembers the load.
const WINDOWS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// A new worker loads all of it, and a scan reads all of it.
const SIZES: RangeInclusive<u64> = 1 << 20..=16 << 30;

/// Workers look at the head several times a second; after some minutes data is old for anybody.
const STALE: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(300);

const WAITS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// All other writes wait meanwhile.
const WRITES: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// A read keeps the WAL from being checkpointed.
const READS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(300);

/// Zero forbids them.
const TRANSACTIONS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);

/// A migration may build an index over all rows.
const DDL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

const ROWS: RangeInclusive<u64> = 1..=1_000_000;

/// A node keeps an answer in memory, and JSON may write each byte as six.
const ANSWERS: RangeInclusive<u64> = 1 << 10..=64 << 20;

/// Reads a `[db.NAME]`.
pub(super) fn read_declaration(
    reader: &mut Reader<'_>,
    declaration: &Declaration,
    context: &mut Context<'_>,
) {
    if PROTOCOL_NAMES.contains(&declaration.name.as_str()) {
        reader.reserved_name("clients of libSQL add /v2 and /v3 to the path of a database");
    }
    // A database of another name stands in, so that all mistakes are told.
    let Some(name) = Name::new(&declaration.name).or_else(|_| Name::new("x")).ok() else { return };
    let mut settings = DatabaseSettings::new(name);
    read_schema(reader, &mut settings);
    settings.readers = read_readers(reader, settings.readers);
    read_times(reader, &mut settings);
    read_amounts(reader, &mut settings);
    if !reader.is_flawed() {
        context.config.part_mut::<DbConfig>().databases.push(settings);
    }
}

fn read_schema(reader: &mut Reader<'_>, settings: &mut DatabaseSettings) {
    let Some(folder) = reader.read("schema", read::folder) else { return };
    if let (Err(wrong), Some(entry)) = (schema_files(&folder), reader.entry("schema")) {
        reader.explain("schema", &entry.value.span, wrong);
    }
    settings.schema = Some(folder);
}

fn read_readers(reader: &mut Reader<'_>, default: ScaleRule) -> ScaleRule {
    let Some(entry) = reader.entry("readers") else { return default };
    let Contents::Table(entries) = &entry.value.contents else {
        let wrong = format!(
            "must be a table, as in {{ min = 1, max = 8 }}, not {}",
            entry.value.raw.kind()
        );
        reader.wrong("readers", &entry.value.span, wrong);
        return default;
    };
    reader.inner(entry, entries, &READERS, |reader| read_rule(reader, entry, default))
}

fn read_rule(reader: &mut Reader<'_>, entry: &Entry, default: ScaleRule) -> ScaleRule {
    let mut rule = default;
    let count = |raw: &Raw| read::integer(raw, COUNTS).map(|number| number as u16);
    set(reader, "min", count, &mut rule.min);
    if rule.min > rule.max && reader.get("max").is_none() {
        rule.max = rule.min;
    }
    set(reader, "max", count, &mut rule.max);
    set(reader, "per_reads", |raw| read::integer(raw, PER_READS), &mut rule.per_reads);
    set(reader, "window", |raw| read::duration(raw, WINDOWS), &mut rule.window);
    if rule.min > rule.max && !reader.is_flawed() {
        let span = reader.get("min").map_or(&entry.span, |node| &node.span).clone();
        let wrong = format!("must not be above 'max', but it is {} of {}", rule.min, rule.max);
        reader.wrong("min", &span, wrong);
    }
    rule
}

fn read_times(reader: &mut Reader<'_>, settings: &mut DatabaseSettings) {
    let mut time = |setting: &str, range: RangeInclusive<Duration>, into: &mut Duration| {
        set(reader, setting, |raw| read::duration(raw, range), into);
    };
    time("max_stale", STALE, &mut settings.max_stale);
    time("wait", WAITS, &mut settings.wait);
    time("write_time", WRITES, &mut settings.write_time);
    time("read_time", READS, &mut settings.read_time);
    time("transaction_time", TRANSACTIONS, &mut settings.transaction_time);
    time("ddl_time", DDL, &mut settings.ddl_time);
}

fn read_amounts(reader: &mut Reader<'_>, settings: &mut DatabaseSettings) {
    set(reader, "max_size", |raw| read::size(raw, SIZES), &mut settings.max_size);
    let rows = |raw: &Raw| read::integer(raw, ROWS).map(|number| number as usize);
    set(reader, "max_rows", rows, &mut settings.max_rows);
    let answer = |raw: &Raw| read::size(raw, ANSWERS).map(|size| size as usize);
    set(reader, "max_answer", answer, &mut settings.max_answer);
}

/// Sets what is given, and leaves the default otherwise.
fn set<T>(
    reader: &mut Reader<'_>,
    setting: &str,
    read: impl FnOnce(&Raw) -> Result<T, String>,
    into: &mut T,
) {
    if let Some(value) = reader.read(setting, read) {
        *into = value;
    }
}
