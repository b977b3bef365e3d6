//! The cursor of a subscriber: a place in a feed over all shards, or over the one shard of a subject, as a text.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use consort_kernel::{Cursor, Digest, Shard};

/// The format of a cursor over all shards.
pub(crate) const ALL_SHARDS: u8 = 1;

/// The format of a cursor over one shard, whose number follows.
pub(crate) const ONE_SHARD: u8 = 2;

/// A subscriber's place: a cursor for each shard that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedCursor {
    pub(crate) scope: CursorScope,
    /// One for each shard of the scope.
    pub(crate) cursors: Vec<Cursor>,
}

/// The shards that a subscriber reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CursorScope {
    All,
    One(Shard),
}

/// A text is no cursor of this feed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCursor {
    /// No feed gave it.
    #[error(
        "the cursor is none that this feed gave: use one as it was given, or leave it out to begin with the oldest change"
    )]
    Unknown,
    /// A reader of one document got it.
    #[error(
        "the cursor is that of another document: use it with the 'id' that it was given for, or leave it out to begin with the oldest change"
    )]
    OtherSubject,
}

impl FeedCursor {
    /// Version, for one shard its number, then for each shard the next number, and the digest of the entry before
    /// it, if one was read.
    pub fn encode(&self) -> String {
        let mut bytes = match self.scope {
            CursorScope::All => vec![ALL_SHARDS],
            CursorScope::One(shard) => [&[ONE_SHARD][..], &shard.0.to_be_bytes()].concat(),
        };
        for cursor in &self.cursors {
            // The lowest bit tells whether a digest follows. Numbers of feeds stay far below 63 bits.
            push_number(&mut bytes, (cursor.next << 1) | u64::from(cursor.last.is_some()));
            if let Some((_, digest)) = cursor.last {
                bytes.extend_from_slice(&digest.0);
            }
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The cursor of this text for a reader of `scope`, in a store with so many shards. A cursor over all shards
    /// also serves a reader of one of them.
    pub(crate) fn decode(text: &str, scope: CursorScope, shards: u16) -> Result<Self, BadCursor> {
        let read = FeedCursor::read(text).ok_or(BadCursor::Unknown)?;
        let length = match read.scope {
            CursorScope::All => usize::from(shards),
            CursorScope::One(_) => 1,
        };
        if read.cursors.len() != length {
            return Err(BadCursor::Unknown);
        }
        match (read.scope, scope) {
            (given, wanted) if given == wanted => Ok(read),
            (CursorScope::All, CursorScope::One(shard)) => {
                let cursor = read.cursors.get(usize::from(shard.0)).ok_or(BadCursor::Unknown)?;
                Ok(FeedCursor { scope, cursors: vec![*cursor] })
            }
            _ => Err(BadCursor::OtherSubject),
        }
    }

    fn read(text: &str) -> Option<FeedCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (version, mut rest) = bytes.split_first()?;
        let scope = match *version {
            ALL_SHARDS => CursorScope::All,
            ONE_SHARD => {
                let (shard, behind) = rest.split_first_chunk::<2>()?;
                rest = behind;
                CursorScope::One(Shard(u16::from_be_bytes(*shard)))
            }
            _ => return None,
        };
        let mut cursors = Vec::new();
        while !rest.is_empty() {
            cursors.push(take_cursor(&mut rest)?);
        }
        Some(FeedCursor { scope, cursors })
    }

    /// The shards with their cursors.
    pub(crate) fn shards(&self) -> impl Iterator<Item = (Shard, &Cursor)> {
        let first = match self.scope {
            CursorScope::All => 0,
            CursorScope::One(shard) => shard.0,
        };
        (first..).map(Shard).zip(&self.cursors)
    }
}

fn take_cursor(bytes: &mut &[u8]) -> Option<Cursor> {
    let number = take_number(bytes)?;
    let next = number >> 1;
    if number & 1 == 0 {
        return Some(Cursor { next, last: None });
    }
    // Numbers of a feed have no gaps: the entry read last is the one before.
    let (digest, behind) = bytes.split_at_checked(Digest::LENGTH)?;
    *bytes = behind;
    Some(Cursor { next, last: Some((next.checked_sub(1)?, Digest::from_slice(digest)?)) })
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for at in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(7 * at)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind() -> Cursor {
        Cursor::behind(300, Digest::of(b"consort"))
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written_in_every_release() {
        let cursors = vec![Cursor::START, behind(), Cursor::at(u64::MAX >> 2)];
        let cursor = FeedCursor { scope: CursorScope::All, cursors };
        let written = cursor.encode();
        assert_eq!(written, "AQDbBB3Uy-5MdMtf7xpNg5wi_u_-_________38");
        assert_eq!(FeedCursor::decode(&written, CursorScope::All, 3), Ok(cursor));
        for wrong in ["", "A", "AQ=", "Ag", "AQGA", "AQM", &written[..30], "AQD_________________8B"]
        {
            let read = FeedCursor::decode(wrong, CursorScope::All, 3);
            assert_eq!(read, Err(BadCursor::Unknown), "{wrong}");
        }
    }

    #[test]
    fn a_cursor_of_one_shard_serves_that_shard_alone() {
        let one = |shard| CursorScope::One(Shard(shard));
        let cursor = FeedCursor { scope: one(2), cursors: vec![behind()] };
        let written = cursor.encode();
        assert_eq!(written, "AgAC2wQd1MvuTHTLX-8aTYOcIv7v");
        assert_eq!(FeedCursor::decode(&written, one(2), 3), Ok(cursor));
        for wrong in [CursorScope::All, one(1)] {
            assert_eq!(FeedCursor::decode(&written, wrong, 3), Err(BadCursor::OtherSubject));
        }
        let all = FeedCursor { scope: CursorScope::All, cursors: vec![Cursor::START, behind()] };
        let expected = FeedCursor { scope: one(1), cursors: vec![behind()] };
        assert_eq!(FeedCursor::decode(&all.encode(), one(1), 2), Ok(expected));
    }
}
