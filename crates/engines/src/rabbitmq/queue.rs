//! Stream queues: their names, how they are declared, and the properties of what is in them.

use consort_kernel::Partition;
use lapin::BasicProperties;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};

/// The longest name that AMQP can carry.
pub(super) const QUEUE_NAME_MAX: usize = 255;
/// What a queue's name has beside the namespace, at most: `consort.`, a dot, a stream's name, a dot and
/// a partition's index.
const NAME_AROUND: usize = 8 + 1 + consort_kernel::name::NAME_MAX + 1 + 10;

const PERSISTENT: u8 = 2;
const ANCHOR: &str = "consort.anchor";

/// The queues of one namespace.
#[derive(Debug)]
pub(super) struct Queues {
    namespace: String,
}

impl Queues {
    pub(super) fn new(namespace: &str) -> Result<Self, String> {
        let most = QUEUE_NAME_MAX - NAME_AROUND;
        if namespace.len() > most {
            return Err(format!("the namespace is longer than {most} bytes"));
        }
        Ok(Queues { namespace: namespace.into() })
    }

    /// The queue of a partition.
    pub(super) fn name(&self, at: &Partition) -> String {
        format!("consort.{}.{}.{}", self.namespace, at.stream, at.index)
    }
}

/// Durable, and to be declared again by whoever comes.
pub(super) fn declare_options() -> QueueDeclareOptions {
    QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() }
}

/// The arguments of every declaration: the broker refuses one that differs from the first. Retention
/// would stand here; there is none, so the broker deletes nothing.
pub(super) fn declare_arguments() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("stream".into()));
    arguments
}

/// Of a frame.
pub(super) fn frame_properties() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(PERSISTENT)
}

/// Of an anchor, which has no body: see [`anchor`](super::anchor).
pub(super) fn anchor_properties(id: &str) -> BasicProperties {
    frame_properties().with_type(ANCHOR.into()).with_message_id(id.into())
}

/// The id of an anchor; `None` for a frame.
pub(super) fn anchor_id(properties: &BasicProperties) -> Option<String> {
    let anchor = properties.kind().as_ref().is_some_and(|kind| kind.as_str() == ANCHOR);
    anchor.then(|| properties.message_id().as_ref().map_or(String::new(), ShortString::to_string))
}

/// The offset that the broker gave a message.
pub(super) fn offset(properties: &BasicProperties) -> Option<u64> {
    match properties.headers().as_ref()?.inner().get("x-stream-offset")? {
        AMQPValue::LongLongInt(offset) => u64::try_from(*offset).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::Name;

    #[test]
    fn the_longest_names_fit() {
        let most = QUEUE_NAME_MAX - NAME_AROUND;
        let queues = Queues::new(&"n".repeat(most)).expect("it fits");
        let stream = Name::new(&"s".repeat(consort_kernel::name::NAME_MAX)).expect("a name");
        let queue = queues.name(&Partition::new(stream, u32::MAX));
        assert_eq!(queue.len(), QUEUE_NAME_MAX);
        assert!(Queues::new(&"n".repeat(most + 1)).is_err());
    }

    #[test]
    fn anchors_are_told_from_frames() {
        assert_eq!(anchor_id(&frame_properties()), None);
        assert_eq!(anchor_id(&anchor_properties("7")), Some("7".into()));
    }
}
