//! Where views keep their cells and lists.

use bytes::Bytes;
use consort_kernel::{Element, Key, Name, Note, Shard, shard_of};

use crate::value::Value;
use crate::view::View;

/// The longest name of a stream or view: names of feeds have a few characters more.
pub const NAME_MOST: usize = 64;

/// What the keys of all groups of a view begin with.
///
/// Keys stay short on purpose: there are many of them, and the tables of the embedded engine compare those
/// of up to 20 bytes, its own prefix included, without following a pointer.
pub(crate) fn groups(view: &View) -> Key {
    Key::of([view.number.into()])
}

/// The key of a group, or of all groups that begin with these values.
pub(crate) fn group<'a>(prefix: &Key, values: impl IntoIterator<Item = &'a Value>) -> Key {
    prefix.extended(values.into_iter().map(Value::element))
}

/// The values of a group, or nothing if this is not a key of the view.
pub(crate) fn group_values(view: &View, key: &Key) -> Option<Vec<Value>> {
    let elements = key.elements().ok()?;
    let [Element::Number(_), values @ ..] = &elements[..] else { return None };
    if values.len() != view.by.len() {
        return None;
    }
    view.kinds().zip(values).map(|(kind, element)| Value::from_element(kind, element)).collect()
}

/// The shard that keeps a group.
pub(crate) fn shard(group: &Key, shards: u16) -> Shard {
    shard_of(group, shards)
}

/// The key of a partition's tally, in its home shard.
pub(crate) fn tally(stream: &Name, partition: u32, what: &str) -> Key {
    Key::of(["tally".into(), stream.as_str().into(), partition.into(), what.into()])
}

/// The key of a view's count of events it could not take, in the home shard of their partition.
pub(crate) fn rejected(view: &Name) -> Key {
    Key::from(["rejected", view.as_str()])
}

/// The list of additions that would have overflowed. Its entries are keys of groups.
pub(crate) fn overflows(view: &Name) -> Name {
    feed("overflow", view)
}

/// The list of events that a view could not take.
pub(crate) fn rejects(view: &Name) -> Name {
    feed("rejects", view)
}

/// The list of messages from a queue that are no events of the stream.
pub(crate) fn refused(stream: &Name) -> Name {
    feed("refused", stream)
}

/// What to note where, should an addition to this group overflow.
pub(crate) fn overflow_note(feed: &Name, group: &Key) -> Note {
    Note { feed: feed.clone(), entry: group.to_bytes() }
}

/// The group of an overflow's entry.
pub(crate) fn overflow_group(entry: &Bytes) -> Key {
    Key::from_stored(entry.clone())
}

fn feed(what: &str, of: &Name) -> Name {
    match Name::new(&format!("{what}.{of}")) {
        Ok(name) => name,
        // Streams and views with longer names are refused when they are declared.
        Err(error) => panic!("the name {of} is too long: {error}"),
    }
}
