//! A slot of a document's history: one version, as its piece or as the whole document.

use bytes::Bytes;
use consort_kernel::Timestamp;

use super::etag::DocumentTag;
use super::pack::{Packer, StoredFormatError, Unpacker};
use super::place::PiecePlace;
use crate::PieceForm;

pub(crate) const VERSION: u8 = 1;

/// One version of a document's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingVersion {
    /// Life and version.
    pub tag: DocumentTag,
    /// The form of the piece that made it.
    pub form: PieceForm,
    /// The piece's place.
    pub place: PiecePlace,
    /// The sender's name and its number for the piece.
    pub source: Option<(String, u64)>,
    /// When the piece's frame was appended.
    pub time: Timestamp,
    /// The piece, or the document.
    pub content: RingContent,
}

/// What a slot keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingContent {
    /// The document was deleted.
    Deleted,
    /// The piece, to be applied to the version before.
    Piece(Bytes),
    /// The document at this version.
    Document(Bytes),
}

impl RingVersion {
    /// The cell.
    pub fn encode(&self) -> Bytes {
        let mut packer = Packer::new(VERSION);
        packer.place(self.tag.life);
        packer.number(self.tag.version);
        packer.form(self.form);
        packer.place(self.place);
        packer.option(self.source.as_ref(), |packer, (source, seq)| {
            packer.text(source);
            packer.number(*seq);
        });
        packer.number(self.time.0);
        match &self.content {
            RingContent::Deleted => packer.byte(0),
            RingContent::Piece(piece) => {
                packer.byte(1);
                packer.rest(piece);
            }
            RingContent::Document(document) => {
                packer.byte(2);
                packer.rest(document);
            }
        }
        packer.finish().into()
    }

    /// Reads a cell that [`encode`](RingVersion::encode) wrote. The content shares its memory.
    pub fn decode(cell: &Bytes) -> Result<Self, StoredFormatError> {
        let mut from = Unpacker::new("version", VERSION, cell)?;
        let version = RingVersion {
            tag: DocumentTag { life: from.place()?, version: from.number()? },
            form: from.form()?,
            place: from.place()?,
            source: from.option(|from| Ok((from.text()?.to_owned(), from.number()?)))?,
            time: Timestamp(from.number()?),
            content: match from.byte()? {
                0 => RingContent::Deleted,
                1 => RingContent::Piece(cell.slice_ref(from.rest())),
                2 => RingContent::Document(cell.slice_ref(from.rest())),
                _ => return Err(from.malformed("its content is unknown")),
            },
        };
        from.end()?;
        Ok(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_read_in_every_release() {
        let content = Bytes::from_static(b"{}");
        let cases = [
            (RingContent::Deleted, &b"\x00"[..]),
            (RingContent::Piece(content.clone()), b"\x01{}"),
            (RingContent::Document(content), b"\x02{}"),
        ];
        for (content, tail) in cases {
            let version = RingVersion {
                tag: "3-0-9-5.7".parse().unwrap(),
                form: PieceForm::MergePatch,
                place: "3-0-10-0".parse().unwrap(),
                source: Some(("s".into(), 2)),
                time: Timestamp(300),
                content,
            };
            let start = b"\x01\x03\x00\x09\x05\x07\x02\x03\x00\x0a\x00\x01\x01s\x02\xac\x02";
            let stored = Bytes::from([&start[..], tail].concat());
            assert_eq!(version.encode(), stored);
            assert_eq!(RingVersion::decode(&stored), Ok(version));
        }
    }
}
