//! The cell of an idempotency key: which piece came with it, and how that piece ended.

use bytes::Bytes;
use consort_kernel::{Digest, Timestamp};

use super::outcome::PieceOutcome;
use super::pack::{Packer, StoredFormatError, Unpacker};
use super::place::PiecePlace;

pub(crate) const VERSION: u8 = 1;

/// The first piece that came with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOutcome {
    /// Where it stands in the log.
    pub place: PiecePlace,
    /// When its frame was appended.
    pub time: Timestamp,
    /// What tells it from another piece under the same key.
    pub digest: Digest,
    /// How it ended, or where it waits.
    pub outcome: PieceOutcome,
}

impl KeyOutcome {
    /// The cell.
    pub fn encode(&self) -> Bytes {
        let mut packer = Packer::new(VERSION);
        packer.place(self.place);
        packer.number(self.time.0);
        packer.bytes(&self.digest.0);
        self.outcome.pack(&mut packer);
        packer.finish().into()
    }

    /// Reads a cell that [`encode`](KeyOutcome::encode) wrote.
    pub fn decode(cell: &[u8]) -> Result<Self, StoredFormatError> {
        let mut from = Unpacker::new("idempotency key", VERSION, cell)?;
        let place = from.place()?;
        let time = Timestamp(from.number()?);
        let digest = Digest::from_slice(from.bytes()?);
        let digest = digest.ok_or_else(|| from.malformed("its digest has another length"))?;
        let outcome = PieceOutcome::unpack(&mut from)?;
        from.end()?;
        Ok(KeyOutcome { place, time, digest, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_read_in_every_release() {
        let first = KeyOutcome {
            place: "3-0-9-5".parse().unwrap(),
            time: Timestamp(300),
            digest: Digest(*b"0123456789abcdef"),
            outcome: PieceOutcome::Queued,
        };
        let stored = b"\x01\x03\x00\x09\x05\xac\x02\x100123456789abcdef\x05";
        assert_eq!(&first.encode()[..], stored);
        assert_eq!(KeyOutcome::decode(stored), Ok(first));
    }
}
