//! A place in a log or feed, with what is needed to notice that the place is no longer the same.

use crate::digest::Digest;
use crate::error::ReadError;

/// Where a reader goes on: the number of the next entry, and number and digest of the last one it
/// consumed, for which it *vouches*.
///
/// An engine that is restarted without its tail, or replaced by a copy that lagged, may hold other
/// entries under numbers that were read before. The vouched entry must be found again, the same, or the
/// read is [`ReadError::Lost`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The first number not consumed yet.
    pub next: u64,
    /// The last entry consumed, if any.
    pub last: Option<(u64, Digest)>,
}

impl Cursor {
    /// Before the first entry there ever was.
    pub const START: Cursor = Cursor { next: 0, last: None };

    /// At entry `next`, vouching for nothing.
    pub fn at(next: u64) -> Self {
        Cursor { next, last: None }
    }

    /// Behind an entry that was just consumed.
    pub fn behind(number: u64, digest: Digest) -> Self {
        Cursor { next: number + 1, last: Some((number, digest)) }
    }

    /// Checks this cursor against what an engine holds: `first`, the oldest number that can be read, and
    /// `found`, the digest that now stands at the vouched number.
    pub fn verify(&self, first: u64, found: Option<Digest>) -> Result<(), ReadError> {
        let oldest_needed = self.last.map_or(self.next, |(number, _)| number);
        if oldest_needed < first {
            return Err(ReadError::Trimmed { cursor: *self, first });
        }
        match self.last {
            Some((number, expected)) if found != Some(expected) => {
                Err(ReadError::Lost { number, expected, found })
            }
            _ => Ok(()),
        }
    }
}

/// The entries that stand before the first damaged one; the damage itself if it comes first.
pub fn sound<T, E>(entries: impl IntoIterator<Item = Result<T, E>>) -> Result<Vec<T>, E> {
    let mut sound = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => sound.push(entry),
            Err(damage) if sound.is_empty() => return Err(damage),
            Err(_) => break,
        }
    }
    Ok(sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_damage_is_returned_first() {
        assert_eq!(sound([Ok(1), Ok(2), Err("damaged"), Ok(4)]), Ok(vec![1, 2]));
        assert_eq!(sound([Err("damaged"), Ok(2)]), Err("damaged"));
        assert_eq!(sound::<u8, &str>([]), Ok(vec![]));
    }

    #[test]
    fn a_cursor_notices_what_is_gone_and_what_is_another() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let behind = Cursor::behind(6, a);
        let trimmed = |first| Err(ReadError::Trimmed { cursor: behind, first });
        let lost = |found| Err(ReadError::Lost { number: 6, expected: a, found });
        assert_eq!(behind.next, 7);
        assert_eq!(behind.verify(0, Some(a)), Ok(()));
        assert_eq!(behind.verify(6, Some(a)), Ok(()));
        assert_eq!(behind.verify(7, None), trimmed(7));
        assert_eq!(behind.verify(0, Some(b)), lost(Some(b)));
        assert_eq!(behind.verify(0, None), lost(None));
        assert_eq!(Cursor::START.verify(0, None), Ok(()));
        assert!(Cursor::START.verify(1, None).is_err());
        assert_eq!(Cursor::at(9).verify(3, None), Ok(()));
    }
}
