//! A change: the entry of a feed, told to sinks and subscribers. A row of a view is one kind of payload.
//!
//! The parts that fill feeds and the parts that deliver them share this envelope and know nothing else of each other.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::moment::Moment;

/// The format of stored changes. Version 1 was the row of a view; `consort_views` still reads it.
pub(crate) const VERSION: u8 = 2;

/// One change. The feed that it stands in is known to its reader, and so is the kind of its payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Change {
    /// The subject that changed, in the words of its part: the view of a row, the id of a document.
    pub subject: String,
    /// The moment that the change is about.
    pub time: Moment,
    /// The revision of the subject or of a part of it, from 1. It only grows.
    pub revision: u64,
    /// The change as subscribers see it: a JSON object.
    pub payload: Box<RawValue>,
}

/// Why stored bytes are no change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// A later release wrote it.
    #[error("change format {0} is unknown: this release reads up to {VERSION}")]
    Version(u8),
    /// This release writes no such bytes.
    #[error("the change is malformed: {0}")]
    Malformed(String),
}

impl Change {
    /// The entry of a feed: one byte of format version, then JSON.
    pub fn encode(&self) -> Bytes {
        let mut bytes = vec![VERSION];
        // Texts, numbers and JSON: writing them into memory cannot fail.
        if let Err(error) = serde_json::to_writer(&mut bytes, self) {
            panic!("a change could not be encoded: {error}");
        }
        bytes.into()
    }

    /// Reads the bytes that [`encode`](Change::encode) wrote.
    pub fn decode(entry: &[u8]) -> Result<Change, ChangeError> {
        match entry.split_first() {
            Some((&VERSION, json)) => serde_json::from_slice(json)
                .map_err(|error| ChangeError::Malformed(error.to_string())),
            Some((&version, _)) if version > VERSION => Err(ChangeError::Version(version)),
            Some((&version, _)) => {
                Err(ChangeError::Malformed(format!("format {version} is not that of a change")))
            }
            None => Err(ChangeError::Malformed("it is empty".into())),
        }
    }

    /// The payload in one line. JSON that a user wrote may have line ends between its tokens, where a space
    /// means the same.
    pub fn payload_line(&self) -> Cow<'_, str> {
        let payload = self.payload.get();
        match payload.contains(['\n', '\r']) {
            true => Cow::Owned(payload.replace(['\n', '\r'], " ")),
            false => Cow::Borrowed(payload),
        }
    }
}

impl PartialEq for Change {
    fn eq(&self, other: &Change) -> bool {
        self.encode() == other.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(payload: &str) -> Change {
        Change {
            subject: "crid://a/1".into(),
            time: Moment(1_480_876_740_000_000_000),
            revision: 2,
            payload: RawValue::from_string(payload.into()).unwrap(),
        }
    }

    #[test]
    fn the_stored_form_is_the_same_in_every_release() {
        let change = change("{\"title\":\"A\",\"price\":1.50}");
        let stored = concat!(
            "\x02{\"subject\":\"crid://a/1\",\"time\":1480876740000000000,\"revision\":2,",
            "\"payload\":{\"title\":\"A\",\"price\":1.50}}"
        );
        assert_eq!(change.encode(), stored);
        assert_eq!(Change::decode(stored.as_bytes()), Ok(change));
    }

    #[test]
    fn other_bytes_are_told_from_those_of_a_later_release() {
        assert_eq!(Change::decode(b"\x07{}"), Err(ChangeError::Version(7)));
        for wrong in [&b""[..], b"\x01{}", b"\x02{}", b"\x02"] {
            assert!(matches!(Change::decode(wrong), Err(ChangeError::Malformed(_))), "{wrong:?}");
        }
    }

    #[test]
    fn a_payload_is_one_line() {
        assert_eq!(change("{\"a\":\n[1,\r\n2]}").payload_line(), "{\"a\": [1,  2]}");
        assert!(matches!(change("{\"a\":1}").payload_line(), Cow::Borrowed("{\"a\":1}")));
    }
}
