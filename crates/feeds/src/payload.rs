//! Payloads: the kinds of changes. A feed carries one kind, and the part that fills the feed brings it.

use std::fmt;

use consort_kernel::{Change, ChangeError};
use consort_line::Point;

use crate::subjects::SubjectPayload;

/// A kind of payload.
///
/// Every payload is a JSON object, so subscribers, webhooks, brokers and NDJSON files take any of them.
pub trait Payload: Send + Sync + fmt::Debug {
    /// Its name, such as `row`. CloudEvents of it have the type `consort.NAME.v1`.
    fn name(&self) -> &'static str;

    /// Reads an entry of a feed, written by this release or an earlier one.
    fn decode(&self, entry: &[u8]) -> Result<Change, ChangeError> {
        Change::decode(entry)
    }

    /// An id for the change: a repeat has the same, and every other change of the feed has another.
    fn id(&self, change: &Change) -> Result<String, String>;

    /// The changes as points of line protocol, if the payload has such a form.
    fn points(&self) -> Option<&dyn LinePayload> {
        None
    }

    /// The subjects of the changes, if they have a present state that can be read.
    fn subjects(&self) -> Option<&dyn SubjectPayload> {
        None
    }
}

/// A payload that can be written in line protocol.
pub trait LinePayload {
    /// The change as a point with measurement and time. A later revision of the same subject and time has the
    /// same measurement, tags and time, so that it overwrites the earlier one.
    fn point(&self, change: &Change) -> Result<Point<'static>, String>;
}
