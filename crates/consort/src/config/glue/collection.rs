//! Reads `[glue.NAME]`: what its documents are, what pieces may do, and how much is kept.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use consort_glue::bounds::{MAX_DOCUMENT_IN_FEED, MAX_HISTORY, MAX_PIECE};
use consort_glue::{
    Absent, Collection, CollectionError, DocumentFormat, FeedContent, OnGap, OnReject,
};

use super::collection_spec::collection_default;
use super::sources::read_queues;
use super::{CollectionSettings, GlueConfig};
use crate::config::Gate;
use crate::config::declared::Declaration;
use crate::config::feeds::{Sinks, read_sinks};
use crate::config::part::Context;
use crate::config::read::{self, Raw};
use crate::config::reader::Reader;
use crate::glue_rows::GlueRows;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// As of streams: retries come within seconds, and keys that are kept for longer than a week would fill the store.
const IDS_FOR: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(7 * 86_400);

const KEEP: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(3650 * 86_400);

/// A gap that is awaited for longer than a day holds pieces that its readers miss for as long.
const GAP_FOR: RangeInclusive<Duration> = Duration::from_millis(100)..=DAY;

const PARTITIONS: RangeInclusive<u64> = 1..=1024;

/// Below the room of one page a subscriber would find nothing.
const FEED_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 40;

/// A quota below 16 pieces would refuse what one client has on its way.
const TENANT_PIECES: RangeInclusive<u64> = 16..=1_000_000;

/// One piece of the largest size must fit, and the queue of a partition holds 16 MiB.
const TENANT_BYTES: RangeInclusive<u64> = 2 << 20..=16 << 20;

/// Reads a `[glue.NAME]`.
pub(super) fn read_declaration(
    reader: &mut Reader<'_>,
    declaration: &Declaration,
    context: &mut Context<'_>,
) {
    let partitions = u32::from(context.config.engine.partitions());
    let definition = read_definition(reader, &declaration.name, partitions);
    let words = [("adaptive", Gate::Adaptive), ("breaker", Gate::Breaker), ("off", Gate::Off)];
    let gate = reader.read("gate", |raw| read::one_of(raw, words)).unwrap_or_default();
    let queues = read_queues(reader, context);
    let sinks = Sinks::declared(context);
    // Whether a sink takes rows does not depend on the collection.
    let rows = GlueRows::new(&collection_default());
    let sinks = rows.map_or_else(|_| Vec::new(), |rows| read_sinks(reader, &sinks, &rows));
    let Some(definition) = definition.filter(|_| !reader.is_flawed()) else { return };
    let settings = CollectionSettings { definition, gate, queues, sinks };
    context.config.part_mut::<GlueConfig>().collections.push(settings);
}

/// None if there is a mistake in it.
fn read_definition(reader: &mut Reader<'_>, name: &str, partitions: u32) -> Option<Collection> {
    if reader.get("format").is_none() {
        reader.missing(&["format"], "'format': \"json\" or \"xml\", which its documents are");
    }
    let formats = [("json", DocumentFormat::Json), ("xml", DocumentFormat::Xml)];
    let format = reader.read("format", |raw| read::one_of(raw, formats));
    // JSON stands in for a format that cannot be read, so that all other mistakes are told.
    let mut collection = Collection::new(name, format.unwrap_or(DocumentFormat::Json), partitions);
    read_choices(reader, &mut collection);
    read_times(reader, &mut collection);
    read_amounts(reader, &mut collection);
    check_together(reader, &collection, format.is_some());
    format.map(|_| collection)
}

fn read_choices(reader: &mut Reader<'_>, collection: &mut Collection) {
    let absent = [("create", Absent::Create), ("reject", Absent::Reject)];
    set(reader, "absent", |raw| read::one_of(raw, absent), &mut collection.absent);
    set(reader, "revive", read::flag, &mut collection.revive);
    let on_reject = [("skip", OnReject::Skip), ("halt", OnReject::Halt)];
    set(reader, "on_reject", |raw| read::one_of(raw, on_reject), &mut collection.on_reject);
    let on_gap = [("skip", OnGap::Skip), ("reject", OnGap::Reject), ("halt", OnGap::Halt)];
    set(reader, "on_gap", |raw| read::one_of(raw, on_gap), &mut collection.on_gap);
    let feed = [("pieces", FeedContent::Pieces), ("document", FeedContent::Document)];
    set(reader, "feed", |raw| read::one_of(raw, feed), &mut collection.feed);
    let template = |raw: &Raw| read::text(raw).map(|text| Bytes::copy_from_slice(text.as_bytes()));
    collection.template = reader.read("template", template);
}

fn read_times(reader: &mut Reader<'_>, collection: &mut Collection) {
    let mut time = |setting: &str, range: RangeInclusive<Duration>, into: &mut Duration| {
        set(reader, setting, |raw| read::duration(raw, range), into);
    };
    time("retain", KEEP, &mut collection.retain);
    time("gap_for", GAP_FOR, &mut collection.gap_for);
    time("ids_for", IDS_FOR, &mut collection.ids_for);
    time("feed_keep", KEEP, &mut collection.feed_keep);
    time("tombstones", KEEP, &mut collection.tombstones);
}

fn read_amounts(reader: &mut Reader<'_>, collection: &mut Collection) {
    let largest = match collection.feed {
        FeedContent::Pieces => MAX_PIECE,
        FeedContent::Document => MAX_DOCUMENT_IN_FEED,
    };
    let document = |raw: &Raw| read::size(raw, 1 << 10..=largest as u64).map(|size| size as usize);
    if collection.feed == FeedContent::Document && reader.get("max_document").is_none() {
        collection.max_document = collection.max_document.min(MAX_DOCUMENT_IN_FEED);
    }
    set(reader, "max_document", document, &mut collection.max_document);
    let whole = |range: RangeInclusive<u64>| {
        move |raw: &Raw| read::integer(raw, range).map(|number| number as u32)
    };
    set(reader, "partitions", whole(PARTITIONS), &mut collection.partitions);
    set(reader, "history", whole(0..=MAX_HISTORY.into()), &mut collection.history);
    set(reader, "feed_bytes", |raw| read::size(raw, FEED_BYTES), &mut collection.feed_bytes);
    let pieces = |raw: &Raw| read::integer(raw, TENANT_PIECES);
    set(reader, "tenant_pieces", pieces, &mut collection.tenant_pieces);
    let bytes = |raw: &Raw| read::size(raw, TENANT_BYTES);
    set(reader, "tenant_bytes", bytes, &mut collection.tenant_bytes);
}

/// Checks across settings, and the template by the format.
fn check_together(reader: &mut Reader<'_>, collection: &Collection, has_format: bool) {
    let Err(CollectionError::Setting { setting, problem }) = collection.check() else { return };
    // The format is missing, or a limit was told with its own setting.
    if (setting == "template" && !has_format) || reader.is_flawed() {
        return;
    }
    match reader.entry(setting) {
        Some(entry) => reader.wrong(setting, &entry.value.span, problem),
        // The default does not go with another setting that is given.
        None => reader.missing(&[], format!("'{setting}' as well: by default it {problem}")),
    }
}

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
