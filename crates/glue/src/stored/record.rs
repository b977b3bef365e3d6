//! A piece as the log of its collection keeps it.
//!
//! Version 1: version, flags, form, tenant, id; by flag the idempotency key, source and number, condition; then the
//! content, as it was sent.

use consort_kernel::Digest;

use super::etag::DocumentTag;
use super::pack::{Packer, StoredFormatError, Unpacker};
use crate::PieceForm;

pub(crate) const VERSION: u8 = 1;
const FORMAT: &str = "piece";

const KEY: u8 = 1;
const NUMBER: u8 = 1 << 1;
const CONDITION: u8 = 1 << 2;
const WANTED: u8 = 1 << 3;

/// A piece, borrowed from the request or from the record that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRecord<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The document.
    pub id: &'a str,
    /// How the piece changes the document.
    pub form: PieceForm,
    /// The idempotency key.
    pub key: Option<&'a str>,
    /// The sender's name and its number for the piece.
    pub source: Option<SourceNumber<'a>>,
    /// When the piece may be applied.
    pub condition: Option<Condition>,
    /// Whether a request waits for the outcome.
    pub wanted: bool,
    /// The document or patch, as it was sent. A delete has none.
    pub content: &'a [u8],
}

/// A sender's name and its number for a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceNumber<'a> {
    /// The sender's name.
    pub source: &'a str,
    /// The number, from 1.
    pub seq: u64,
}

/// A condition on the document, checked when the piece is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `If-Match: *`: there is a document.
    Exists,
    /// `If-Match: "life.version"`: the document is in exactly this state.
    Is(DocumentTag),
    /// `If-None-Match: *`: there is no document.
    Absent,
}

impl<'a> PieceRecord<'a> {
    /// The record to append.
    pub fn encode(&self) -> Vec<u8> {
        let mut packer = Packer::new(VERSION);
        let flags = [
            (KEY, self.key.is_some()),
            (NUMBER, self.source.is_some()),
            (CONDITION, self.condition.is_some()),
            (WANTED, self.wanted),
        ];
        packer.byte(flags.into_iter().filter(|(_, set)| *set).map(|(flag, _)| flag).sum());
        packer.form(self.form);
        packer.text(self.tenant);
        packer.text(self.id);
        self.pack_optional(&mut packer);
        packer.rest(self.content);
        packer.finish()
    }

    /// Reads a record that [`encode`](PieceRecord::encode) wrote.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, StoredFormatError> {
        let mut from = Unpacker::new(FORMAT, VERSION, bytes)?;
        let flags = from.byte()?;
        if flags >= WANTED << 1 {
            return Err(from.malformed("a flag is unknown"));
        }
        let form = from.form()?;
        let (tenant, id) = (from.text()?, from.text()?);
        let key = if flags & KEY != 0 { Some(from.text()?) } else { None };
        let source = match flags & NUMBER {
            0 => None,
            _ => Some(SourceNumber { source: from.text()?, seq: from.number()? }),
        };
        let condition = if flags & CONDITION != 0 { Some(condition(&mut from)?) } else { None };
        let wanted = flags & WANTED != 0;
        let content = from.rest();
        Ok(PieceRecord { tenant, id, form, key, source, condition, wanted, content })
    }

    /// What tells this piece from another one under the same key.
    pub fn digest(&self) -> Digest {
        let mut packer = Packer::new(VERSION);
        packer.form(self.form);
        packer.option(self.source, |packer, number| {
            packer.text(number.source);
            packer.number(number.seq);
        });
        packer.option(self.condition, pack_condition);
        packer.rest(self.content);
        Digest::of(&packer.finish())
    }

    fn pack_optional(&self, packer: &mut Packer) {
        if let Some(key) = self.key {
            packer.text(key);
        }
        if let Some(number) = self.source {
            packer.text(number.source);
            packer.number(number.seq);
        }
        if let Some(condition) = self.condition {
            pack_condition(packer, condition);
        }
    }
}

fn pack_condition(packer: &mut Packer, condition: Condition) {
    match condition {
        Condition::Exists => packer.byte(1),
        Condition::Is(tag) => {
            packer.byte(2);
            packer.place(tag.life);
            packer.number(tag.version);
        }
        Condition::Absent => packer.byte(3),
    }
}

fn condition(from: &mut Unpacker<'_>) -> Result<Condition, StoredFormatError> {
    match from.byte()? {
        1 => Ok(Condition::Exists),
        2 => Ok(Condition::Is(DocumentTag { life: from.place()?, version: from.number()? })),
        3 => Ok(Condition::Absent),
        _ => Err(from.malformed("its condition is unknown")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PiecePlace;

    fn plain() -> PieceRecord<'static> {
        PieceRecord {
            tenant: "a",
            id: "crid://a/1",
            form: PieceForm::MergePatch,
            key: None,
            source: None,
            condition: None,
            wanted: false,
            content: b"{}",
        }
    }

    fn full() -> PieceRecord<'static> {
        let life = PiecePlace { partition: 3, era: 0, offset: 300, record: 5 };
        PieceRecord {
            key: Some("k"),
            source: Some(SourceNumber { source: "epg", seq: 12 }),
            condition: Some(Condition::Is(DocumentTag { life, version: 7 })),
            wanted: true,
            ..plain()
        }
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        assert_eq!(plain().encode(), b"\x01\x00\x02\x01a\x0acrid://a/1{}");
        let stored =
            b"\x01\x0f\x02\x01a\x0acrid://a/1\x01k\x03epg\x0c\x02\x03\x00\xac\x02\x05\x07{}";
        assert_eq!(full().encode(), stored);
        assert_eq!(PieceRecord::decode(stored), Ok(full()));
        assert_eq!(PieceRecord::decode(&plain().encode()), Ok(plain()));
    }

    #[test]
    fn another_version_and_unknown_flags_are_refused() {
        assert!(matches!(PieceRecord::decode(b"\x02"), Err(StoredFormatError::Version(_, 2, 1))));
        assert!(PieceRecord::decode(b"\x01\x10\x01\x00\x00").is_err());
        assert!(PieceRecord::decode(b"").is_err());
    }

    #[test]
    fn a_digest_tells_pieces_apart_and_ignores_who_waits() {
        let waited = PieceRecord { wanted: true, ..plain() };
        assert_eq!(waited.digest(), plain().digest());
        for other in [
            PieceRecord { content: b"[]", ..plain() },
            PieceRecord { form: PieceForm::Whole, ..plain() },
            PieceRecord { source: full().source, ..plain() },
            PieceRecord { condition: Some(Condition::Absent), ..plain() },
        ] {
            assert_ne!(other.digest(), plain().digest());
        }
    }
}
