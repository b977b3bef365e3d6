//! Control records: what Consort itself says in a partition's log, in order with everything else.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::format::{self, FormatError};

/// One control record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// Time passes: the frame's time moves the watermark of a silent partition.
    Tick,
    /// A part's own word: a time-out, an operator's retry or discard.
    Word {
        /// Whose it is.
        part: String,
        /// What it says.
        text: String,
    },
}

impl Control {
    /// The record to append.
    pub fn encode(&self) -> Bytes {
        format::encode(self)
    }

    /// Reads a control record.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        format::decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_is_the_same_in_every_release() {
        assert_eq!(&Control::Tick.encode()[..], b"\x01\"tick\"");
        let word = Control::Word { part: "glue".into(), text: "retry 7".into() };
        let stored = b"\x01{\"word\":{\"part\":\"glue\",\"text\":\"retry 7\"}}";
        assert_eq!(&word.encode()[..], stored);
        assert_eq!(Control::decode(stored), Ok(word));
    }
}
