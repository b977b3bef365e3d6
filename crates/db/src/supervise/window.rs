//! The window cell: the windows in which reads are counted (§11), and the counts in them.

use bytes::Bytes;
use consort_kernel::Timestamp;

use super::scale::{ReadWindow, ScaleStep};
use crate::wire::{DbFormatError, FieldReader, FieldWriter};

pub(crate) const VERSION: u8 = 1;

/// The contents of the window cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCell {
    /// The number of the window that was opened last; 0 before the first one.
    last: u64,
    /// The running window.
    running: Option<ReadWindow>,
}

impl WindowCell {
    /// The running window.
    pub fn running(&self) -> Option<ReadWindow> {
        self.running
    }

    /// The number that the next window gets.
    pub fn next(&self) -> u64 {
        self.last + 1
    }

    /// The window under which processes count now. While none runs, they count for the next one, and the first
    /// count opens it.
    pub fn counted(&self) -> u64 {
        self.running.map_or(self.next(), |running| running.number)
    }

    /// The cell after a step.
    #[must_use]
    pub fn after(&self, step: &ScaleStep) -> WindowCell {
        let last = step.window.map_or(self.last, |window| window.number);
        WindowCell { last, running: step.window }
    }

    /// The bytes to store.
    pub fn encode(&self) -> Bytes {
        let mut to = FieldWriter::new(VERSION);
        to.u64(self.last);
        match self.running {
            None => to.u8(0),
            Some(window) => to.u8(1).u64(window.start.0).u64(window.before),
        };
        to.finish().into()
    }

    /// Reads the bytes that [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DbFormatError> {
        let mut from = FieldReader::new("the window of reads", bytes, VERSION)?;
        let last = from.u64()?;
        let running = match from.u8()? {
            0 => None,
            1 => {
                let (start, before) = (Timestamp(from.u64()?), from.u64()?);
                Some(ReadWindow { number: last, start, before })
            }
            _ => return Err(from.malformed("a window neither runs nor has ended")),
        };
        from.finish()?;
        Ok(WindowCell { last, running })
    }
}

/// The bytes to store for the count of one process in one window.
pub fn encode_count(reads: u64) -> Bytes {
    let mut to = FieldWriter::new(VERSION);
    to.u64(reads);
    to.finish().into()
}

/// Reads the bytes that [`encode_count`] wrote.
pub fn decode_count(bytes: &[u8]) -> Result<u64, DbFormatError> {
    let mut from = FieldReader::new("a count of reads", bytes, VERSION)?;
    let reads = from.u64()?;
    from.finish()?;
    Ok(reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(number: u64) -> ScaleStep {
        let window = ReadWindow { number, start: Timestamp(1000), before: 5 };
        ScaleStep { window: Some(window), readers: 1 }
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let running = WindowCell::default().after(&opened(7));
        let stored = b"\x01\0\0\0\0\0\0\0\x07\x01\0\0\0\0\0\0\x03\xe8\0\0\0\0\0\0\0\x05";
        assert_eq!(&running.encode()[..], stored);
        assert_eq!(WindowCell::decode(stored), Ok(running));
        let ended = running.after(&ScaleStep { window: None, readers: 1 });
        assert_eq!(&ended.encode()[..], b"\x01\0\0\0\0\0\0\0\x07\0");
        assert_eq!(WindowCell::decode(&ended.encode()), Ok(ended));
        assert!(WindowCell::decode(&stored[..9]).is_err());
        assert_eq!(&encode_count(258)[..], b"\x01\0\0\0\0\0\0\x01\x02");
        assert_eq!(decode_count(&encode_count(258)), Ok(258));
        assert!(decode_count(b"\x02").is_err());
    }

    #[test]
    fn reads_are_counted_under_the_running_window_or_the_next_one() {
        let new = WindowCell::default();
        assert_eq!((new.counted(), new.next()), (1, 1));
        let running = new.after(&opened(1));
        assert_eq!((running.counted(), running.next()), (1, 2));
        let ended = running.after(&ScaleStep { window: None, readers: 1 });
        assert_eq!((ended.counted(), ended.next()), (2, 2));
    }
}
