//! The pending cell of a document: the pieces that wait, and the numbers that were used up ahead of their turn.

use std::collections::VecDeque;

use bytes::Bytes;
use consort_kernel::Timestamp;

use super::pack::{Packer, StoredFormatError, Unpacked, Unpacker};
use super::place::PiecePlace;
use super::record::{PieceRecord, SourceNumber};
use crate::bounds::{MAX_PASSED_RANGES, MAX_PENDING_PIECES};

pub(crate) const VERSION: u8 = 1;
const FORMAT: &str = "pending cell";

/// Where a waiting piece stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingState {
    /// It waits for a missing number.
    Held,
    /// It waits behind a halt, or to be released.
    Queued,
    /// It halted the document, by a rejection or by the gap before it. It counts as queued.
    Halting,
    /// It halted the document and was too large to be kept: its content is only in the log.
    HaltingWithoutContent,
}

/// A piece that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPiece {
    /// Where it stands.
    pub state: PendingState,
    /// Its place in the log.
    pub place: PiecePlace,
    /// When its frame was appended.
    pub time: Timestamp,
    /// The encoded record, without tenant and id.
    pub record: Bytes,
}

impl PendingPiece {
    /// The piece. Tenant and id are empty: the cell's key has them.
    pub fn piece(&self) -> Result<PieceRecord<'_>, StoredFormatError> {
        PieceRecord::decode(&self.record)
    }

    /// The piece of a cell that was read, or written.
    ///
    /// # Panics
    /// If the record is none: `PendingPieces::decode` reads each.
    pub(crate) fn piece_record(&self) -> PieceRecord<'_> {
        match self.piece() {
            Ok(piece) => piece,
            Err(error) => {
                panic!("the waiting piece at {} cannot be read again: {error}", self.place)
            }
        }
    }

    /// Source and number of the piece.
    pub(crate) fn number(&self) -> Option<SourceNumber<'_>> {
        self.piece_record().source
    }

    /// The bytes that it takes in the cell, at most.
    pub fn weight(&self) -> usize {
        // State, place, time and length: 1 + 30 + 10 + 4 bytes at most.
        self.record.len() + 45
    }
}

/// Numbers of a source that were used up while a lower one is still open: first and last number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedRange {
    /// The sender's name.
    pub source: String,
    /// The first number.
    pub first: u64,
    /// The last number.
    pub last: u64,
}

/// The pending cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPieces {
    /// The pieces. Queued ones stand in the order of their release; the halting one is the first.
    pub pieces: VecDeque<PendingPiece>,
    /// Numbers used up ahead of their turn.
    pub passed: Vec<PassedRange>,
}

impl PendingPieces {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.passed.is_empty()
    }

    /// The bytes that the pieces take in the cell, at most.
    pub fn weight(&self) -> usize {
        self.pieces.iter().map(PendingPiece::weight).sum()
    }

    /// The cell.
    pub fn encode(&self) -> Bytes {
        let mut packer = Packer::new(VERSION);
        packer.number(self.pieces.len() as u64);
        for piece in &self.pieces {
            packer.byte(match piece.state {
                PendingState::Held => 1,
                PendingState::Queued => 2,
                PendingState::Halting => 3,
                PendingState::HaltingWithoutContent => 4,
            });
            packer.place(piece.place);
            packer.number(piece.time.0);
            packer.bytes(&piece.record);
        }
        packer.number(self.passed.len() as u64);
        for range in &self.passed {
            packer.text(&range.source);
            packer.number(range.first);
            packer.number(range.last);
        }
        packer.finish().into()
    }

    /// Reads a cell that [`encode`](PendingPieces::encode) wrote. The pieces share its memory.
    pub fn decode(cell: &Bytes) -> Result<Self, StoredFormatError> {
        let mut from = Unpacker::new(FORMAT, VERSION, cell)?;
        let count = from.count(MAX_PENDING_PIECES + 1)?;
        let pieces = (0..count).map(|_| piece(&mut from, cell)).collect::<Unpacked<_>>()?;
        let count = from.count(MAX_PASSED_RANGES)?;
        let passed = (0..count).map(|_| passed(&mut from)).collect::<Unpacked<_>>()?;
        from.end()?;
        Ok(PendingPieces { pieces, passed })
    }
}

fn piece(from: &mut Unpacker<'_>, cell: &Bytes) -> Unpacked<PendingPiece> {
    let state = match from.byte()? {
        1 => PendingState::Held,
        2 => PendingState::Queued,
        3 => PendingState::Halting,
        4 => PendingState::HaltingWithoutContent,
        _ => return Err(from.malformed("the state of a piece is unknown")),
    };
    let piece = PendingPiece {
        state,
        place: from.place()?,
        time: Timestamp(from.number()?),
        record: cell.slice_ref(from.bytes()?),
    };
    piece.piece()?;
    Ok(piece)
}

fn passed(from: &mut Unpacker<'_>) -> Unpacked<PassedRange> {
    Ok(PassedRange { source: from.text()?.into(), first: from.number()?, last: from.number()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_read_in_every_release() {
        let record = Bytes::from_static(b"\x01\x00\x02\x00\x00{}");
        let piece = |state| PendingPiece {
            state,
            place: "3-0-9-5".parse().unwrap(),
            time: Timestamp(300),
            record: record.clone(),
        };
        let pending = PendingPieces {
            pieces: [PendingState::Halting, PendingState::Held].map(piece).into(),
            passed: vec![PassedRange { source: "epg".into(), first: 4, last: 5 }],
        };
        let stored = Bytes::from_static(
            b"\x01\x02\x03\x03\x00\x09\x05\xac\x02\x07\x01\x00\x02\x00\x00{}\
              \x01\x03\x00\x09\x05\xac\x02\x07\x01\x00\x02\x00\x00{}\x01\x03epg\x04\x05",
        );
        assert_eq!(pending.encode(), stored);
        assert_eq!(PendingPieces::decode(&stored), Ok(pending.clone()));
        assert!(pending.weight() >= 2 * record.len());
    }

    #[test]
    fn a_cell_with_a_record_that_is_none_is_refused() {
        let stored = Bytes::from_static(b"\x01\x01\x01\x03\x00\x09\x05\x00\x01\xff\x00");
        assert!(PendingPieces::decode(&stored).is_err());
    }
}
