//! An entry of the reject list.

use bytes::Bytes;
use consort_kernel::Timestamp;

use super::outcome::cut;
use super::pack::{Packer, StoredFormatError, Unpacker};
use super::place::PiecePlace;
use super::record::PieceRecord;
use crate::{PieceForm, Reason, Rejection};

pub(crate) const VERSION: u8 = 1;

/// A larger piece is read from its place in the log, while the log keeps it.
pub const MAX_INLINE: usize = 16 << 10;

/// A rejected piece, or the note that numbers of a source never came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectEntry {
    /// Where the piece stands; of a note, where the gap ended.
    pub place: PiecePlace,
    /// The tenant.
    pub tenant: String,
    /// The document.
    pub id: String,
    /// The version of the document that the piece met.
    pub version: u64,
    /// Why.
    pub reason: Reason,
    /// What happened to which part of the piece.
    pub detail: String,
    /// The piece's form; a note about missing numbers has none.
    pub form: Option<PieceForm>,
    /// The piece.
    pub content: RejectedContent,
    /// The sender's name and its number for the piece, or the first missing number.
    pub source: Option<(String, u64)>,
    /// The last number that never came, of a note.
    pub missing_to: Option<u64>,
    /// When the frame of the piece was appended.
    pub time: Timestamp,
}

/// The content of a rejected piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RejectedContent {
    /// There is none.
    None,
    /// It is here.
    Inline(Bytes),
    /// It has so many bytes, and the log has it at the entry's place.
    InLog(u64),
}

impl RejectEntry {
    /// The entry of a piece.
    pub fn new(
        piece: &PieceRecord<'_>,
        place: PiecePlace,
        time: Timestamp,
        version: u64,
        rejection: &Rejection,
    ) -> Self {
        RejectEntry {
            place,
            tenant: piece.tenant.into(),
            id: piece.id.into(),
            version,
            reason: rejection.reason,
            detail: cut(&rejection.detail).into(),
            form: Some(piece.form),
            content: RejectedContent::new(piece.content),
            source: piece.source.map(|number| (number.source.into(), number.seq)),
            missing_to: None,
            time,
        }
    }

    /// A large content is not at the entry's place in the log, so nothing of it can be shown.
    pub(crate) fn forget_log(&mut self) {
        if let RejectedContent::InLog(_) = self.content {
            self.content = RejectedContent::None;
        }
    }

    /// The entry of the feed.
    pub fn encode(&self) -> Vec<u8> {
        let mut packer = Packer::new(VERSION);
        packer.place(self.place);
        packer.text(&self.tenant);
        packer.text(&self.id);
        packer.number(self.version);
        packer.reason(self.reason);
        packer.text(&self.detail);
        packer.option(self.form, Packer::form);
        packer.option(self.source.as_ref(), |packer, (source, seq)| {
            packer.text(source);
            packer.number(*seq);
        });
        packer.option(self.missing_to, Packer::number);
        packer.number(self.time.0);
        match &self.content {
            RejectedContent::None => packer.byte(0),
            RejectedContent::Inline(content) => {
                packer.byte(1);
                packer.rest(content);
            }
            RejectedContent::InLog(size) => {
                packer.byte(2);
                packer.number(*size);
            }
        }
        packer.finish()
    }

    /// Reads an entry that [`encode`](RejectEntry::encode) wrote.
    pub fn decode(entry: &[u8]) -> Result<Self, StoredFormatError> {
        let mut from = Unpacker::new("rejected piece", VERSION, entry)?;
        let entry = RejectEntry {
            place: from.place()?,
            tenant: from.text()?.into(),
            id: from.text()?.into(),
            version: from.number()?,
            reason: from.reason()?,
            detail: from.text()?.into(),
            form: from.option(Unpacker::form)?,
            source: from.option(|from| Ok((from.text()?.to_owned(), from.number()?)))?,
            missing_to: from.option(Unpacker::number)?,
            time: Timestamp(from.number()?),
            content: match from.byte()? {
                0 => RejectedContent::None,
                1 => RejectedContent::Inline(Bytes::copy_from_slice(from.rest())),
                2 => RejectedContent::InLog(from.number()?),
                _ => return Err(from.malformed("where its content is, is unknown")),
            },
        };
        from.end()?;
        Ok(entry)
    }
}

impl RejectedContent {
    /// The content itself if it is short, or else its size.
    pub fn new(content: &[u8]) -> Self {
        match content.len() {
            0 => RejectedContent::None,
            1..=MAX_INLINE => RejectedContent::Inline(Bytes::copy_from_slice(content)),
            size => RejectedContent::InLog(size as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_read_in_every_release() {
        let entry = |content| RejectEntry {
            place: "3-0-9-5".parse().unwrap(),
            tenant: "a".into(),
            id: "i".into(),
            version: 7,
            reason: Reason::LATE,
            detail: "x".into(),
            form: Some(PieceForm::MergePatch),
            content,
            source: Some(("s".into(), 2)),
            missing_to: None,
            time: Timestamp(300),
        };
        let cases = [
            (RejectedContent::None, &b"\x00"[..]),
            (RejectedContent::Inline(Bytes::from_static(b"{}")), b"\x01{}"),
            (RejectedContent::InLog(300), b"\x02\xac\x02"),
        ];
        for (content, tail) in cases {
            let start =
                b"\x01\x03\x00\x09\x05\x01a\x01i\x07\x0f\x01x\x01\x02\x01\x01s\x02\x00\xac\x02";
            let stored = [&start[..], tail].concat();
            assert_eq!(entry(content.clone()).encode(), stored);
            assert_eq!(RejectEntry::decode(&stored), Ok(entry(content)));
        }
    }

    #[test]
    fn h32_a_large_piece_stays_in_the_log() {
        assert!(matches!(RejectedContent::new(&[b' '; MAX_INLINE]), RejectedContent::Inline(_)));
        let larger = RejectedContent::new(&[b' '; MAX_INLINE + 1]);
        assert_eq!(larger, RejectedContent::InLog(MAX_INLINE as u64 + 1));
    }
}
