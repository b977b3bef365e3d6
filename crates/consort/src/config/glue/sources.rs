//! Reads `amqp` of a collection: queues with pieces, each of one tenant.

use consort_server::TenantName;

use super::collection_spec::AMQP;
use super::{GlueConfig, PieceQueue};
use crate::config::declared::{Contents, Entry, Node};
use crate::config::part::Context;
use crate::config::read::{self, Raw};
use crate::config::reader::Reader;
use crate::config::redact::SecretUrl;

/// The longest name of a queue that RabbitMQ takes, in bytes.
const QUEUE_MOST: usize = 255;

/// The queues of a collection. Those with mistakes are told and left out.
pub(super) fn read_queues(reader: &mut Reader<'_>, context: &mut Context<'_>) -> Vec<PieceQueue> {
    let Some(entry) = reader.entry("amqp") else { return Vec::new() };
    let wanted = "must be a list of tables, as in [{ queue = \"pieces-a\", tenant = \"a\" }]";
    let Contents::List(items) = &entry.value.contents else {
        let wrong = format!("{wanted}, not {}", entry.value.raw.kind());
        reader.wrong("amqp", &entry.value.span, wrong);
        return Vec::new();
    };
    let mut queues: Vec<PieceQueue> = Vec::new();
    for item in items {
        let Contents::Table(entries) = &item.contents else {
            reader.wrong("amqp", &item.span, format!("{wanted}, not of {}", item.raw.kind()));
            continue;
        };
        let Some(queue) = read_queue(reader, entry, entries, context.broker()) else { continue };
        context.connects_to(Some(queue.url.reveal()));
        match taken(context, &queues, &queue) {
            true => tell_taken(reader, item, &queue.queue),
            false => queues.push(queue),
        }
    }
    queues
}

fn read_queue(
    reader: &mut Reader<'_>,
    entry: &Entry,
    entries: &[Entry],
    broker: Result<Option<SecretUrl>, ()>,
) -> Option<PieceQueue> {
    reader.inner(entry, entries, &AMQP, |reader| {
        let url = reader.broker(broker, "the RabbitMQ that has the queue");
        if reader.get("queue").is_none() {
            reader.missing(&["queue"], "'queue': the queue with the pieces");
        }
        let queue = reader.read("queue", queue_name);
        let tenant = match reader.get("tenant") {
            None => Some(TenantName::default()),
            Some(_) => reader.read("tenant", tenant_name),
        };
        Some(PieceQueue { url: url?, queue: queue?, tenant: tenant? })
    })
}

fn queue_name(raw: &Raw) -> Result<String, String> {
    let name = read::text(raw)?;
    match name.len() {
        1..=QUEUE_MOST => Ok(name.to_owned()),
        length => Err(format!("must be a name of 1 to {QUEUE_MOST} bytes, not of {length}")),
    }
}

fn tenant_name(raw: &Raw) -> Result<TenantName, String> {
    let name = read::text(raw)?;
    name.parse().map_err(|bad| format!("{bad}, not \"{name}\""))
}

/// Whether another collection reads the queue, or this one reads a queue of that name: names of queues are parts of the
/// names of roles.
fn taken(context: &Context<'_>, queues: &[PieceQueue], queue: &PieceQueue) -> bool {
    let others = context.config.part::<GlueConfig>().collections.iter();
    let mut others = others.flat_map(|collection| &collection.queues);
    let same = |other: &PieceQueue| other.queue == queue.queue && other.url == queue.url;
    others.any(same) || queues.iter().any(|other| other.queue == queue.queue)
}

fn tell_taken(reader: &mut Reader<'_>, item: &Node, queue: &str) {
    let reason = format!("the queue '{queue}' is read already: one role consumes a queue, alone");
    reader.explain("amqp", &item.span, reason);
}
