//! Chunks of a snapshot, each named by the SHA-256 of its bytes and stored compressed.
//!
//! A page of SQLite keeps its place in the file, so the next snapshot shares most chunks with this one.

use std::fmt;

use bytes::Bytes;
use lz4_flex::block;
use ring::digest::{SHA256, digest};

/// Bytes of a chunk, except the last one of a file. A multiple of every page size, and small enough that one
/// changed page does not cost much.
pub const CHUNK_BYTES: usize = 256 * 1024;

pub(crate) const VERSION: u8 = 1;

/// The SHA-256 of a chunk's bytes. Users choose the bytes, so a weaker hash could be made to collide (H39).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkName(pub [u8; ChunkName::LENGTH]);

/// A stored chunk that is not the one its name promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// A later release wrote it.
    #[error("chunk {name} has format version {found}: upgrade this node")]
    Version {
        /// Its name.
        name: ChunkName,
        /// The version it has.
        found: u8,
    },
    /// It cannot be decompressed, or has other contents than its name says.
    #[error("chunk {0} is damaged: its contents do not match its name")]
    Damaged(ChunkName),
}

impl ChunkName {
    /// Bytes in a name.
    pub const LENGTH: usize = 32;

    /// The name of the chunk with these contents.
    pub fn new(contents: &[u8]) -> Self {
        let mut name = [0; ChunkName::LENGTH];
        name.copy_from_slice(digest(&SHA256, contents).as_ref());
        ChunkName(name)
    }
}

impl fmt::Display for ChunkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChunkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkName({self})")
    }
}

/// The bytes to store under a chunk's name.
pub fn pack(contents: &[u8]) -> Bytes {
    let mut packed = vec![VERSION];
    packed.extend_from_slice(&block::compress(contents));
    packed.into()
}

/// The contents of a stored chunk, checked against its name.
pub fn unpack(name: ChunkName, stored: &[u8]) -> Result<Vec<u8>, ChunkError> {
    let (&version, packed) = stored.split_first().ok_or(ChunkError::Damaged(name))?;
    if version != VERSION {
        return Err(ChunkError::Version { name, found: version });
    }
    // The bound on the output keeps a damaged chunk from claiming more memory than a chunk has.
    let contents = block::decompress(packed, CHUNK_BYTES).map_err(|_| ChunkError::Damaged(name))?;
    match ChunkName::new(&contents) == name {
        true => Ok(contents),
        false => Err(ChunkError::Damaged(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_read_in_every_release() {
        let name = ChunkName::new(b"consort");
        let hex = "53aac2b29abef627c8642d1cb627089ea2cce658400d3efd229508728003f129";
        assert_eq!(name.to_string(), hex);
        let stored = b"\x01\x70consort";
        assert_eq!(&pack(b"consort")[..], stored);
        assert_eq!(unpack(name, stored), Ok(b"consort".to_vec()));
    }

    #[test]
    fn chunks_of_any_length_are_read_back() {
        for length in [0, 1, 4096, CHUNK_BYTES] {
            let contents: Vec<u8> = (0..length).map(|n| (n / 7) as u8).collect();
            let name = ChunkName::new(&contents);
            assert_eq!(unpack(name, &pack(&contents)), Ok(contents));
        }
    }

    #[test]
    fn h39_a_chunk_with_other_contents_than_its_name_says_is_refused() {
        let name = ChunkName::new(b"one");
        let larger = vec![0; CHUNK_BYTES + 1];
        assert_eq!(unpack(name, &pack(b"two")), Err(ChunkError::Damaged(name)));
        assert_eq!(unpack(name, b""), Err(ChunkError::Damaged(name)));
        assert_eq!(unpack(name, b"\x01\xff\xff"), Err(ChunkError::Damaged(name)));
        assert_eq!(unpack(name, b"\x02x"), Err(ChunkError::Version { name, found: 2 }));
        let large = ChunkName::new(&larger);
        assert_eq!(unpack(large, &pack(&larger)), Err(ChunkError::Damaged(large)));
    }
}
