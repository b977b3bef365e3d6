//! `[stream.NAME]`: what its events are, where they come from and how they are spread.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::Name;
use consort_views::form::TIME;
use consort_views::{Form, Kind, Method, Schema, Stream, Unknown};

use super::fields::{Fields, Shape, read_fields};
use super::stream_spec::AMQP;
use super::udp::{read_udp, taken};
use super::{AmqpSource, Gate, StreamSettings, StreamsConfig, UdpSource, uses};
use crate::config::declared::{Contents, Declaration, Entry};
use crate::config::part::Context;
use crate::config::read;
use crate::config::reader::Reader;
use crate::config::redact::SecretUrl;
use crate::config::routes::Routes;

/// The longest name of a queue that RabbitMQ takes, in bytes.
const QUEUE_MOST: usize = 255;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Retries come within seconds; ids that are kept for longer than a week would fill the store.
const IDS_FOR: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(7 * 86_400);

const RETAIN: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(3650 * 86_400);

const PARTITIONS: RangeInclusive<u64> = 1..=1024;

/// A stream as far as it could be understood: the views of a config need it, flawed or not.
#[derive(Clone, Debug)]
pub(super) struct StreamRead {
    pub(super) fields: Fields,
    /// None if there is a mistake in it.
    pub(super) stream: Option<Arc<Stream>>,
    udp: Option<UdpSource>,
}

/// The streams of a config by their names, noted for its views.
pub(super) type StreamsRead = BTreeMap<String, StreamRead>;

/// What surrounds a stream.
struct Around<'a> {
    /// Partitions of a stream that does not give their number.
    partitions: u16,
    /// The engine's, unless that could not be read.
    broker: Result<Option<SecretUrl>, ()>,
    /// The fields that it and its views name.
    used: BTreeSet<String>,
    routes: &'a mut Routes,
}

/// Reads a `[stream.NAME]`.
pub(super) fn read_declaration(
    reader: &mut Reader<'_>,
    declaration: &Declaration,
    context: &mut Context<'_>,
) {
    let used = uses::fields_used(declaration, context.declarations("view"));
    let around = Around {
        partitions: context.config.engine.partitions(),
        broker: context.broker(),
        used,
        routes: &mut context.routes,
    };
    let (fields, stream, settings) = read_stream(reader, declaration, around);
    let others = context.notes::<StreamsRead>();
    let sockets = others.iter().filter_map(|(name, read)| Some((name, read.udp.as_ref()?)));
    if let Some(source) = &settings.udp
        && let Some(other) = taken(sockets, source.listen)
        && let Some(entry) = reader.entry("udp")
    {
        let reason = format!("[stream.{other}] has {} already", source.listen);
        reader.explain("udp", &entry.value.span, reason);
    }
    let name = declaration.name.clone();
    let read = StreamRead { fields, stream: stream.clone(), udp: settings.udp.clone() };
    others.insert(name.clone(), read);
    if reader.get("amqp").is_some() {
        context.connects_to(settings.amqp.as_ref().map(|source| source.url.reveal()));
    }
    let config = context.config.part_mut::<StreamsConfig>();
    config.definitions.streams.extend(stream);
    config.streams.insert(name, settings);
}

fn read_stream(
    reader: &mut Reader<'_>,
    declaration: &Declaration,
    Around { partitions: default_partitions, broker, used, routes }: Around<'_>,
) -> (Fields, Option<Arc<Stream>>, StreamSettings) {
    let form = read_form(reader);
    let words = [("reject", Unknown::Reject), ("ignore", Unknown::Ignore)];
    let unknown = reader.read("unknown_fields", |raw| read::one_of(raw, words));
    let mut fields = read_fields(reader, Shape { form, unknown, used });
    let is_line = form.is_none_or(Form::is_line);
    let key = read_key(reader, &fields, is_line);
    let id = reader.text("id").and_then(|name| reader.field("id", &fields, &name));
    let time = match is_line {
        true => fields.schema.find(TIME),
        false => read_time(reader, &mut fields),
    };
    let udp = read_udp(reader, is_line);
    if form.is_some_and(Form::is_line) {
        refuse_json_settings(reader, &declaration.name);
    }
    let ids_for = reader.read("ids_for", |raw| read::duration(raw, IDS_FOR));
    let retain = reader.read("retain", |raw| read::duration(raw, RETAIN));
    let partitions = reader.read("partitions", |raw| read::integer(raw, PARTITIONS));
    let route = read_stream_route(reader, &fields, routes);
    let words = [("adaptive", Gate::Adaptive), ("breaker", Gate::Breaker), ("off", Gate::Off)];
    let gate = reader.read("gate", |raw| read::one_of(raw, words)).unwrap_or_default();
    let amqp = reader.entry("amqp").and_then(|entry| read_amqp(reader, entry, broker));
    let build = |name| Stream {
        name,
        schema: Arc::clone(&fields.schema),
        key,
        id,
        ids_for: ids_for.unwrap_or(Duration::from_secs(3600)),
        time,
        partitions: partitions.map_or(u32::from(default_partitions), |number| number as u32),
        retain: retain.unwrap_or(7 * DAY),
        route,
    };
    let name = Name::new(&declaration.name).ok().filter(|_| !reader.is_flawed());
    let stream = name.map(build).map(Arc::new);
    (fields, stream, StreamSettings { gate, amqp, udp })
}

/// None if it could not be read.
fn read_form(reader: &mut Reader<'_>) -> Option<Form> {
    match reader.get("form") {
        Some(_) => reader.read("form", |raw| read::one_of(raw, Form::NAMES)),
        None if reader.may_have("form") => None,
        None => Some(Form::Json),
    }
}

/// Tells which settings a stream of lines cannot have.
fn refuse_json_settings(reader: &mut Reader<'_>, stream: &str) {
    let reasons = [
        ("time", "the time of a line is its timestamp, '_time': leave it out".to_owned()),
        (
            "route",
            format!(
                "it takes JSON, and this stream's form is lines, which go to /streams/{stream}"
            ),
        ),
        (
            "amqp",
            "messages of queues are JSON, and this stream's form is lines: declare another stream"
                .to_owned(),
        ),
    ];
    for (setting, reason) in reasons {
        if let Some(entry) = reader.entry(setting) {
            reader.explain(setting, &entry.span, reason);
        }
    }
}

/// Not all lines of a stream have the same tags, so only those of JSON must have their key.
fn read_key(reader: &mut Reader<'_>, fields: &Fields, is_line: bool) -> Vec<usize> {
    let mut key = Vec::new();
    for name in reader.texts("key", "field").unwrap_or_default() {
        let Some(at) = reader.field("key", fields, &name) else { continue };
        if fields.schema.fields()[at].ty.optional && !is_line {
            let wrong =
                format!("must be fields that every event has, but '{}' may be absent", name.text);
            reader.wrong("key", name.span, wrong);
        } else if key.contains(&at) {
            reader.explain("key", name.span, format!("'{}' comes twice", name.text));
        } else {
            key.push(at);
        }
    }
    key
}

/// The field with the event's time, which expressions also call `_time` from here on.
fn read_time(reader: &mut Reader<'_>, fields: &mut Fields) -> Option<usize> {
    let name = reader.text("time")?;
    let at = reader.field("time", fields, &name)?;
    let kind = fields.schema.fields()[at].ty.kind;
    if kind != Kind::Int {
        let wanted = "must be a field of type int, nanoseconds since the beginning of 1970";
        reader.wrong("time", name.span, format!("{wanted}, but '{}' is {kind}", name.text));
    }
    if fields.schema.find(TIME).is_some_and(|other| other != at) {
        let reason = "'_time' is the time of an event, so another field cannot be called that";
        reader.explain("time", name.span, reason);
    }
    fields.schema = Arc::new(Schema::clone(&fields.schema).timed(at));
    Some(at)
}

fn read_stream_route(
    reader: &mut Reader<'_>,
    fields: &Fields,
    routes: &mut Routes,
) -> Option<consort_views::Route> {
    let text = reader.text("route")?;
    let route = routes.read(reader, &text, Method::Post)?;
    for name in &route.fields {
        if fields.schema.find(name).is_none() {
            reader.unknown_field("route", fields, name, text.span, "");
        }
    }
    routes.add(reader, &route, text.span);
    Some(route)
}

fn read_amqp(
    reader: &mut Reader<'_>,
    entry: &Entry,
    broker: Result<Option<SecretUrl>, ()>,
) -> Option<AmqpSource> {
    let Contents::Table(entries) = &entry.value.contents else {
        let wanted = "must be a table, as in { url = \"amqp://host\", queue = \"rides\" }";
        reader.wrong(
            "amqp",
            &entry.value.span,
            format!("{wanted}, not {}", entry.value.raw.kind()),
        );
        return None;
    };
    reader.inner(entry, entries, &AMQP, |reader| {
        let url = reader.broker(broker, "the RabbitMQ that has the queue");
        if reader.get("queue").is_none() {
            reader.missing(&["queue"], "'queue': the queue that the stream reads");
        }
        let queue = reader.read("queue", |raw| {
            let name = read::text(raw)?;
            match name.len() {
                1..=QUEUE_MOST => Ok(name.to_owned()),
                length => {
                    Err(format!("must be a name of 1 to {QUEUE_MOST} bytes, not of {length}"))
                }
            }
        });
        Some(AmqpSource { url: url?, queue: queue? })
    })
}
