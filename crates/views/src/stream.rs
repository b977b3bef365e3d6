//! A stream: what its events are, and how they are spread over partitions.

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::{Key, Name, Partition, partition_of};

use crate::event::Event;
use crate::route::Route;
use crate::schema::Schema;

/// A declared stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its name.
    pub name: Name,
    /// Its fields.
    pub schema: Arc<Schema>,
    /// The fields whose values pick the partition. Without any, the whole record does.
    pub key: Vec<usize>,
    /// The field that tells an event from its repeats.
    pub id: Option<usize>,
    /// For how long ids are remembered, in log time.
    pub ids_for: Duration,
    /// The field with the event's time, in nanoseconds since the Unix epoch. Without it, the time of its
    /// frame counts.
    pub time: Option<usize>,
    /// Over how many partitions it is spread; fixed when it is created.
    pub partitions: u32,
    /// How long the log keeps what was applied.
    pub retain: Duration,
    /// Where its events are posted, beside `/streams/{stream}`.
    pub route: Option<Route>,
}

impl Stream {
    /// One of these fields and nothing else: no key, no id, one partition, kept for an hour.
    pub fn plain(name: Name, schema: Schema) -> Self {
        let hour = Duration::from_secs(3600);
        Stream {
            name,
            schema: Arc::new(schema),
            key: Vec::new(),
            id: None,
            ids_for: hour,
            time: None,
            partitions: 1,
            retain: hour,
            route: None,
        }
    }

    /// The partition that takes this event, whose record is `record`. A repeat with the same key gets the
    /// same one, so that it meets its id there.
    pub fn partition_for(&self, event: &Event, record: &[u8]) -> u32 {
        self.partition_by(event, record, &mut Vec::with_capacity(64))
    }

    /// The same for one who asks for many: the key is made in `key`, whatever that held.
    pub fn partition_by(&self, event: &Event, record: &[u8], key: &mut Vec<u8>) -> u32 {
        if self.partitions == 1 {
            return 0;
        }
        if self.key.is_empty() {
            let id = event.id.as_ref().map(|id| id.as_bytes());
            return partition_of(id.unwrap_or(record), self.partitions);
        }
        key.clear();
        for value in self.key.iter().filter_map(|&at| event.values[at].as_ref()) {
            Key::push(key, value.part());
        }
        partition_of(key, self.partitions)
    }

    /// The id of an event that carries it in a field.
    pub fn id_in(&self, event: &Event) -> Option<String> {
        let at = self.id?;
        let kind = self.schema.fields()[at].ty.kind;
        event.values[at].as_ref().map(|value| value.shown(kind))
    }

    /// Its partition `index`.
    pub fn partition(&self, index: u32) -> Partition {
        Partition::new(self.name.clone(), index)
    }
}
