//! The place of a subscriber in the change stream: a position, and the digest of its entry where it is known.

use std::fmt;
use std::str::FromStr;

use consort_db::DbPosition;
use consort_kernel::{Cursor, Digest};

/// Behind the group that ends at a position. With the digest of its last entry, a feed that lost its tail is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangeCursor {
    pub(super) position: DbPosition,
    pub(super) digest: Option<Digest>,
}

/// A text that is not the place of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'after' is a 'position' or the 'Consort-Cursor' of an earlier answer, such as 1-17, or now; leave it out to begin \
     with the oldest change"
)]
pub(super) struct ChangeCursorError;

impl ChangeCursor {
    /// Where the feed goes on: entry number n has index n + 1.
    pub(super) fn to_feed(self) -> Cursor {
        let index = self.position.index;
        match (index.checked_sub(1), self.digest) {
            (Some(last), Some(digest)) => Cursor::behind(last, digest),
            _ => Cursor::at(index),
        }
    }
}

impl fmt::Display for ChangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.digest {
            Some(digest) => write!(f, "{}.{digest}", self.position),
            None => self.position.fmt(f),
        }
    }
}

impl FromStr for ChangeCursor {
    type Err = ChangeCursorError;

    fn from_str(text: &str) -> Result<Self, ChangeCursorError> {
        let (position, digest) = match text.split_once('.') {
            Some((position, digest)) => (position, Some(digest)),
            None => (text, None),
        };
        let position = position.parse().map_err(|_| ChangeCursorError)?;
        let digest =
            digest.map(|digest| read_digest(digest).ok_or(ChangeCursorError)).transpose()?;
        Ok(ChangeCursor { position, digest })
    }
}

fn read_digest(text: &str) -> Option<Digest> {
    let digits = text.as_bytes();
    if digits.len() != 2 * Digest::LENGTH || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let number = u128::from_str_radix(text, 16).ok()?;
    Some(Digest(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_a_position_with_or_without_the_digest_of_its_entry() {
        let position = DbPosition { era: 1, index: 17 };
        let digest = Digest::of(b"x");
        let known = ChangeCursor { position, digest: Some(digest) };
        assert_eq!(known.to_string().parse(), Ok(known));
        assert_eq!(known.to_feed(), Cursor::behind(16, digest));
        let plain: ChangeCursor = "1-17".parse().unwrap();
        assert_eq!(plain, ChangeCursor { position, digest: None });
        assert_eq!((plain.to_string().as_str(), plain.to_feed()), ("1-17", Cursor::at(17)));
        let start: ChangeCursor = "1-0".parse().unwrap();
        assert_eq!(start.to_feed(), Cursor::START);
        let short = "1-17.abc";
        let signed = format!("1-17.+{}", "0".repeat(31));
        for wrong in ["", "17", "1-17.", short, &signed, "1-17.zz", "now"] {
            assert_eq!(wrong.parse::<ChangeCursor>(), Err(ChangeCursorError), "{wrong}");
        }
    }
}
