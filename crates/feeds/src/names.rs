//! What feeds and cells of this crate are called in the store.

use consort_kernel::{Key, Name, NameError};

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
