//! The cell of a worker: who it is, where it runs, and how far it is.

use bytes::Bytes;
use consort_kernel::Timestamp;

use crate::position::DbPosition;
use crate::wire::{DbFormatError, FieldReader, FieldWriter};

pub(crate) const VERSION: u8 = 1;

/// A worker as the others see it. It is live while its node's member cell is live with this incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCell {
    /// Its id, which never comes back (H25).
    pub id: u64,
    /// The slot that it fills.
    pub slot: u16,
    /// Its node.
    pub node: String,
    /// The process of that node.
    pub incarnation: u64,
    /// When it began.
    pub since: Timestamp,
    /// How far it was when the cell was written.
    pub applied: DbPosition,
    /// What it does.
    pub state: WorkerState,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerState {
    /// It loads a file, and serves nothing yet.
    Loading,
    /// It follows the feed, and may lead.
    Fit,
    /// It gave the lead up a moment ago, and takes it back only if no other worker may lead.
    Yielded,
    /// It is quarantined, out of rotation, or its SQLite is too old.
    Unfit,
}

impl WorkerState {
    /// The word for it in answers and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkerState::Loading => "loading",
            WorkerState::Fit => "ready",
            WorkerState::Yielded => "yielded",
            WorkerState::Unfit => "unfit",
        }
    }
}

impl WorkerCell {
    /// The bytes to store.
    pub fn encode(&self) -> Bytes {
        let mut to = FieldWriter::new(VERSION);
        to.u64(self.id).u16(self.slot).bytes(self.node.as_bytes()).u64(self.incarnation);
        to.u64(self.since.0).u64(self.applied.era).u64(self.applied.index);
        to.u8(match self.state {
            WorkerState::Loading => 0,
            WorkerState::Fit => 1,
            WorkerState::Yielded => 2,
            WorkerState::Unfit => 3,
        });
        to.finish().into()
    }

    /// Reads the bytes that [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DbFormatError> {
        let mut from = FieldReader::new("the cell of a worker", bytes, VERSION)?;
        let cell = WorkerCell {
            id: from.u64()?,
            slot: from.u16()?,
            node: from.text()?.to_owned(),
            incarnation: from.u64()?,
            since: Timestamp(from.u64()?),
            applied: DbPosition { era: from.u64()?, index: from.u64()? },
            state: match from.u8()? {
                0 => WorkerState::Loading,
                1 => WorkerState::Fit,
                2 => WorkerState::Yielded,
                3 => WorkerState::Unfit,
                _ => return Err(from.malformed("its state is none of four")),
            },
        };
        from.finish()?;
        Ok(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_read_in_every_release() {
        let cell = WorkerCell {
            id: 3,
            slot: 2,
            node: "a".into(),
            incarnation: 7,
            since: Timestamp(1000),
            applied: DbPosition { era: 1, index: 17 },
            state: WorkerState::Fit,
        };
        let stored = b"\x01\0\0\0\0\0\0\0\x03\0\x02\0\0\0\x01a\0\0\0\0\0\0\0\x07\
            \0\0\0\0\0\0\x03\xe8\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x11\x01";
        assert_eq!(&cell.encode()[..], stored);
        assert_eq!(WorkerCell::decode(stored), Ok(cell));
        assert!(WorkerCell::decode(&stored[..9]).is_err());
        assert!(WorkerCell::decode(b"\x02").is_err());
    }
}
