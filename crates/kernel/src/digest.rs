//! The digest of an entry: what a cursor keeps to know the entry again.

use std::fmt;

use xxhash_rust::xxh3::xxh3_128;

/// 128 bits over an entry's stored bytes.
///
/// It tells two entries apart that differ by accident (a log that lost its tail and grew again). It is
/// no protection against somebody who forges entries on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; Digest::LENGTH]);

impl Digest {
    /// Bytes in a digest.
    pub const LENGTH: usize = 16;

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Digest(xxh3_128(bytes).to_be_bytes())
    }

    /// Reads a stored digest back; `None` if it has another length.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_the_same_in_every_release() {
        let digest = Digest::of(b"consort");
        assert_eq!(digest.to_string(), "1dd4cbee4c74cb5fef1a4d839c22feef");
        assert_eq!(Digest::from_slice(&digest.0), Some(digest));
        assert_eq!(Digest::from_slice(b"short"), None);
    }
}
