//! The body cell: a document at its head's version, as it is served.

use bytes::Bytes;

use super::etag::DocumentTag;
use super::pack::{Packer, StoredFormatError, Unpacker};

pub(crate) const VERSION: u8 = 1;

/// A document with the state that it is of. A reader that finds head and body of different states reads both again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentBody {
    /// Life and version.
    pub tag: DocumentTag,
    /// The document, serialised.
    pub document: Bytes,
}

impl DocumentBody {
    /// The most bytes of a cell beside the document.
    pub const MAX_ENVELOPE: usize = 48;

    /// The cell.
    pub fn encode(&self) -> Bytes {
        let mut packer = Packer::new(VERSION);
        packer.place(self.tag.life);
        packer.number(self.tag.version);
        packer.rest(&self.document);
        packer.finish().into()
    }

    /// Reads a cell that [`encode`](DocumentBody::encode) wrote. The document shares its memory.
    pub fn decode(cell: &Bytes) -> Result<Self, StoredFormatError> {
        let mut from = Unpacker::new("body", VERSION, cell)?;
        let tag = DocumentTag { life: from.place()?, version: from.number()? };
        Ok(DocumentBody { tag, document: cell.slice_ref(from.rest()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_read_in_every_release() {
        let body = DocumentBody {
            tag: "3-0-300-5.7".parse().unwrap(),
            document: Bytes::from_static(b"{\"a\":1}"),
        };
        let stored = Bytes::from_static(b"\x01\x03\x00\xac\x02\x05\x07{\"a\":1}");
        assert_eq!(body.encode(), stored);
        assert_eq!(DocumentBody::decode(&stored), Ok(body));
    }
}
