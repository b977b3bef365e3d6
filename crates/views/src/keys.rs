//! Where views keep their cells and lists.

use bytes::Bytes;
use consort_kernel::{Element, Key, Moment, Name, NameError, Note, Shard, shard_of};

use crate::row::WindowRow;
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

/// What the keys of the groups of one window begin with.
pub(crate) fn window_groups(view: &View, start: Moment) -> Key {
    Key::of([view.number.into(), start.0.into()])
}

/// The window of a group's key, if the view has windows and this is such a key.
pub(crate) fn window_of(key: &Key) -> Option<Moment> {
    match &key.elements().ok()?[..] {
        [_, Element::Number(start), ..] => i64::try_from(*start).ok().map(Moment),
        _ => None,
    }
}

/// The values of a group, or nothing if this is not a key of the view.
pub(crate) fn group_values(view: &View, key: &Key) -> Option<Vec<Value>> {
    let elements = key.elements().ok()?;
    let values = match &elements[..] {
        [Element::Number(_), Element::Number(_), values @ ..] if view.windows.is_some() => values,
        [Element::Number(_), values @ ..] if view.windows.is_none() => values,
        _ => return None,
    };
    if values.len() != view.by.len() {
        return None;
    }
    view.kinds().zip(values).map(|(kind, element)| Value::from_element(kind, element)).collect()
}

/// The shard that keeps a group.
pub(crate) fn shard(group: &Key, shards: u16) -> Shard {
    shard_of(group, shards)
}

/// The state of a window, in every shard that has a group of it.
pub(crate) fn window(view: &View, start: Moment) -> Key {
    windows(view).extended([start.0.into()])
}

/// What the states of all windows of a view begin with.
pub(crate) fn windows(view: &View) -> Key {
    Key::of(["window".into(), view.number.into()])
}

/// The window of a state's key.
pub(crate) fn window_of_state(key: &Key) -> Option<Moment> {
    match key.elements().ok()?.last() {
        Some(Element::Number(start)) => i64::try_from(*start).ok().map(Moment),
        _ => None,
    }
}

/// The cell that says which windows of a view were let go, in each shard.
pub(crate) fn floor(view: &View) -> Key {
    Key::of(["floor".into(), view.number.into()])
}

/// By how many bytes the key of a dirty counter is longer than that of its group.
pub(crate) const DIRTY_MORE: usize = 8;

/// The counter of how often rows of a window were emitted again. It is no part of the window's state, so that
/// workers, who expect that, are not disturbed.
pub(crate) fn amendments(view: &View, start: Moment) -> Key {
    Key::of(["amended".into(), view.number.into(), start.0.into()])
}

/// What the dirty counters of all groups of a view begin with.
pub(crate) fn dirties(view: &View) -> Key {
    Key::of(["dirty".into(), view.number.into()])
}

/// The dirty counter of a group of a window.
pub(crate) fn dirty(dirties: &Key, group: &Key) -> Key {
    // The key of a group begins with the view's number, as the counter's does.
    let elements = group.elements().unwrap_or_default();
    dirties.extended(elements.into_iter().skip(1))
}

/// The group of a dirty counter.
pub(crate) fn dirty_group(dirty: &Key) -> Option<Key> {
    let elements = dirty.elements().ok()?;
    (elements.len() > 2).then(|| Key::of(elements.into_iter().skip(1)))
}

/// How many events a view with windows has taken, or had to list as late, in this shard.
pub(crate) fn seen(view: &View, what: &str) -> Key {
    Key::of(["seen".into(), view.number.into(), what.into()])
}

/// How far the watermarks of a stream are awaited, and in which shard that is kept.
pub(crate) fn awaited(stream: &Name) -> (Shard, Key) {
    (Shard(0), Key::from(["awaited", stream.as_str()]))
}

/// The list of events that came when their window was gone, in the shard of their group.
pub(crate) fn late(view: &Name) -> Name {
    feed("late", view)
}

/// The rows of a view's windows, in the shard of their group.
pub(crate) fn rows(view: &Name) -> Name {
    named(WindowRow::feed(view.as_str()), view)
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
    named(Name::new(&format!("{what}.{of}")), of)
}

fn named(name: Result<Name, NameError>, of: &Name) -> Name {
    match name {
        Ok(name) => name,
        // Streams and views with longer names are refused when they are declared.
        Err(error) => panic!("the name {of} is too long: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dirty_counter_belongs_to_its_group() {
        for number in [1u64, 300, 70_000] {
            let dirties = Key::of(["dirty".into(), number.into()]);
            let group = Key::of([number.into(), (-60i64).into(), "a".into(), 7i64.into()]);
            let counter = dirty(&dirties, &group);
            assert!(counter.starts_with(&dirties));
            assert_eq!(dirty_group(&counter), Some(group.clone()));
            assert_eq!(window_of(&group), Some(Moment(-60)));
            assert!(counter.as_bytes().len() <= group.as_bytes().len() + DIRTY_MORE);
        }
        assert_eq!(dirty_group(&Key::of(["dirty".into(), 1u64.into()])), None);
    }
}
