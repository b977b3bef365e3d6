//! How a piece ended, and the entry of the outcome feed that tells a waiting request.

use super::etag::DocumentTag;
use super::pack::{Packer, StoredFormatError, Unpacked, Unpacker};
use super::place::PiecePlace;
use crate::{Reason, Rejection};

pub(crate) const VERSION: u8 = 1;
const FORMAT: &str = "outcome";

/// The most bytes of a rejection's detail in cells and entries: outcomes are kept by the thousand.
pub const MAX_DETAIL: usize = 300;

/// The most missing numbers that a held piece names.
pub const MAX_MISSING: usize = 16;

/// How a piece ended, or where it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PieceOutcome {
    /// It made this state of the document.
    Applied(DocumentTag),
    /// It was a DELETE, and there was no document.
    Unchanged,
    /// It was rejected.
    Rejected {
        /// Why.
        reason: Reason,
        /// What happened to which part of it; empty where only the reason is remembered.
        detail: String,
        /// Where the rejected piece stands in the log.
        place: PiecePlace,
        /// The version of the document that it met.
        version: u64,
        /// Source and number of the piece that made this version, told with a failed condition.
        current: Option<(String, u64)>,
    },
    /// It waits for missing numbers: the first of them, at most [`MAX_MISSING`].
    Held(Vec<u64>),
    /// It waits behind a halted or releasing document.
    Queued,
    /// Its number was used before; how that piece ended is no longer remembered.
    Repeat,
    /// It was a discard, and the halting piece is rejected for good.
    Discarded,
}

impl PieceOutcome {
    /// A rejection, with its detail cut to [`MAX_DETAIL`].
    pub fn rejected(rejection: &Rejection, place: PiecePlace, version: u64) -> Self {
        let detail = cut(&rejection.detail).to_owned();
        PieceOutcome::Rejected { reason: rejection.reason, detail, place, version, current: None }
    }

    /// The outcome without details, as heads keep it.
    pub(crate) fn brief(&self) -> Self {
        match self {
            PieceOutcome::Rejected { reason, place, version, .. } => PieceOutcome::Rejected {
                reason: *reason,
                detail: String::new(),
                place: *place,
                version: *version,
                current: None,
            },
            other => other.clone(),
        }
    }

    pub(crate) fn pack(&self, packer: &mut Packer) {
        match self {
            PieceOutcome::Applied(tag) => {
                packer.byte(1);
                packer.place(tag.life);
                packer.number(tag.version);
            }
            PieceOutcome::Unchanged => packer.byte(2),
            PieceOutcome::Rejected { reason, detail, place, version, current } => {
                packer.byte(3);
                packer.reason(*reason);
                packer.text(detail);
                packer.place(*place);
                packer.number(*version);
                packer.option(current.as_ref(), |packer, (source, seq)| {
                    packer.text(source);
                    packer.number(*seq);
                });
            }
            PieceOutcome::Held(missing) => {
                packer.byte(4);
                packer.number(missing.len() as u64);
                missing.iter().for_each(|number| packer.number(*number));
            }
            PieceOutcome::Queued => packer.byte(5),
            PieceOutcome::Repeat => packer.byte(6),
            PieceOutcome::Discarded => packer.byte(7),
        }
    }

    pub(crate) fn unpack(from: &mut Unpacker<'_>) -> Unpacked<Self> {
        Ok(match from.byte()? {
            1 => {
                PieceOutcome::Applied(DocumentTag { life: from.place()?, version: from.number()? })
            }
            2 => PieceOutcome::Unchanged,
            3 => PieceOutcome::Rejected {
                reason: from.reason()?,
                detail: from.text()?.into(),
                place: from.place()?,
                version: from.number()?,
                current: from.option(|from| Ok((from.text()?.to_owned(), from.number()?)))?,
            },
            4 => {
                let count = from.count(MAX_MISSING)?;
                PieceOutcome::Held((0..count).map(|_| from.number()).collect::<Unpacked<_>>()?)
            }
            5 => PieceOutcome::Queued,
            6 => PieceOutcome::Repeat,
            7 => PieceOutcome::Discarded,
            _ => return Err(from.malformed("its kind is unknown")),
        })
    }
}

/// A detail as it is stored: whole characters, at most [`MAX_DETAIL`] bytes.
pub(crate) fn cut(detail: &str) -> &str {
    &detail[..detail.floor_char_boundary(MAX_DETAIL)]
}

/// What a request knows of its piece before the append: by it the request finds its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutcomeKey {
    /// The partition of the collection's log.
    pub partition: u32,
    /// The process that appended the frame.
    pub producer: u64,
    /// The frame's sequence.
    pub sequence: u64,
    /// The record within the frame.
    pub record: u32,
}

/// An entry of the outcome feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeEntry {
    /// Of which piece.
    pub key: OutcomeKey,
    /// Where the piece stands in the log.
    pub place: PiecePlace,
    /// Whether the piece came before, and this is the outcome of the first one.
    pub repeat: bool,
    /// How it ended.
    pub outcome: PieceOutcome,
}

impl OutcomeEntry {
    /// The entry of the feed.
    pub fn encode(&self) -> Vec<u8> {
        let mut packer = Packer::new(VERSION);
        packer.number(self.key.partition.into());
        packer.number(self.key.producer);
        packer.number(self.key.sequence);
        packer.number(self.key.record.into());
        packer.place(self.place);
        packer.byte(self.repeat.into());
        self.outcome.pack(&mut packer);
        packer.finish()
    }

    /// Reads an entry that [`encode`](OutcomeEntry::encode) wrote.
    pub fn decode(entry: &[u8]) -> Result<Self, StoredFormatError> {
        let mut from = Unpacker::new(FORMAT, VERSION, entry)?;
        let key = OutcomeKey {
            partition: from.small()?,
            producer: from.number()?,
            sequence: from.number()?,
            record: from.small()?,
        };
        let place = from.place()?;
        let repeat = from.byte()? != 0;
        let outcome = PieceOutcome::unpack(&mut from)?;
        from.end()?;
        Ok(OutcomeEntry { key, place, repeat, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(outcome: PieceOutcome) -> OutcomeEntry {
        let key = OutcomeKey { partition: 3, producer: 300, sequence: 2, record: 5 };
        OutcomeEntry { key, place: "3-0-9-5".parse().unwrap(), repeat: true, outcome }
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let place: PiecePlace = "3-0-9-5".parse().unwrap();
        let rejection = Rejection::new(Reason::LATE, "x");
        let mut failed = PieceOutcome::rejected(&rejection, place, 4);
        if let PieceOutcome::Rejected { current, .. } = &mut failed {
            *current = Some(("s".into(), 2));
        }
        let cases: [(PieceOutcome, &[u8]); 7] = [
            (PieceOutcome::Applied("3-0-9-5.7".parse().unwrap()), b"\x01\x03\x00\x09\x05\x07"),
            (PieceOutcome::Unchanged, b"\x02"),
            (failed, b"\x03\x0f\x01x\x03\x00\x09\x05\x04\x01\x01s\x02"),
            (PieceOutcome::Held(vec![3, 4]), b"\x04\x02\x03\x04"),
            (PieceOutcome::Queued, b"\x05"),
            (PieceOutcome::Repeat, b"\x06"),
            (PieceOutcome::Discarded, b"\x07"),
        ];
        for (outcome, tail) in cases {
            let stored = [b"\x01\x03\xac\x02\x02\x05\x03\x00\x09\x05\x01", tail].concat();
            let entry = entry(outcome);
            assert_eq!(entry.encode(), stored);
            assert_eq!(OutcomeEntry::decode(&stored), Ok(entry));
        }
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let rejection = Rejection::new(Reason::LATE, "é".repeat(MAX_DETAIL));
        let place = "3-0-9-5".parse().unwrap();
        let rejected = PieceOutcome::rejected(&rejection, place, 4);
        let PieceOutcome::Rejected { detail, .. } = &rejected else { panic!("{rejected:?}") };
        assert_eq!(detail, &"é".repeat(MAX_DETAIL / 2));
        assert!(entry(rejected).encode().len() <= 400);
    }
}
