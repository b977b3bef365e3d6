//! The names of feeds and cells of this crate in the store.

use consort_kernel::{Key, Name, NameError};

use crate::subjects::Subject;

/// The list of rows that a sink refused for good, in every shard.
pub fn parked(sink: &Name) -> Result<Name, NameError> {
    Name::new(&format!("parked.{sink}"))
}

/// The cell with the marks of a feed of the cell's shard, by which it is trimmed.
pub(crate) fn marks(feed: &Name) -> Key {
    Key::from(["feeds", "marks", feed.as_str()])
}

/// The cell that says how far a sink has come in a feed of the cell's shard.
pub(crate) fn cursor(sink: &Name, feed: &Name) -> Key {
    Key::from(["feeds", "cursor", sink.as_str(), feed.as_str()])
}

/// The beginning of the keys of all subjects that are parked for a sink and feed.
pub(crate) fn parked_subjects(sink: &Name, feed: &Name) -> Key {
    Key::from(["feeds", "subject", sink.as_str(), feed.as_str()])
}

/// The cell of a subject that is parked for a sink.
pub(crate) fn parked_subject(sink: &Name, feed: &Name, subject: &Subject) -> Key {
    let Subject { tenant, id } = subject;
    Key::from(["feeds", "subject", sink.as_str(), feed.as_str(), tenant, id])
}

/// The beginning of the keys of all subjects that an operator has asked to release.
pub(crate) fn releases(sink: &Name, feed: &Name) -> Key {
    Key::from(["feeds", "release", sink.as_str(), feed.as_str()])
}

/// The cell that asks the deliverer to release a parked subject.
pub(crate) fn release(sink: &Name, feed: &Name, subject: &Subject) -> Key {
    let Subject { tenant, id } = subject;
    Key::from(["feeds", "release", sink.as_str(), feed.as_str(), tenant, id])
}

/// The cell that is written with every request to release a subject, and wakes the deliverer.
pub(crate) fn release_news(sink: &Name, feed: &Name) -> Key {
    Key::from(["feeds", "release-news", sink.as_str(), feed.as_str()])
}
