//! An entry of a feed as subscribers and deliverers read it.

use consort_kernel::{Change, ChangeError, Cursor, FeedEntry};

use crate::payload::Payload;
use crate::subjects::SubjectChange;

/// An entry with its change, and with the subject of the change if the payload has subjects.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) number: u64,
    /// The bytes of the stored entry.
    pub(crate) bytes: usize,
    /// The place behind the entry.
    pub(crate) cursor: Cursor,
    pub(crate) change: Result<Change, ChangeError>,
    pub(crate) subject: Option<SubjectChange>,
}

impl Row {
    pub(crate) fn read(payload: &dyn Payload, entry: &FeedEntry) -> Row {
        let (change, subject) = match payload.decode(&entry.entry) {
            Err(error) => (Err(error), None),
            Ok(change) => match payload.subjects().map(|it| it.subject_change(&change)) {
                None => (Ok(change), None),
                Some(Ok(subject)) => (Ok(change), Some(subject)),
                Some(Err(reason)) => (Err(ChangeError::Malformed(reason)), None),
            },
        };
        let bytes = entry.entry.len();
        Row { number: entry.number, bytes, cursor: entry.cursor(), change, subject }
    }
}
