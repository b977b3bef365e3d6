//! The manifest of a snapshot: what it is a snapshot of, and its chunks in order.

use bytes::Bytes;
use consort_kernel::Digest;

use super::chunks::{CHUNK_BYTES, ChunkName};
use crate::hash::{ContentHash, SchemaChain};
use crate::position::DbPosition;
use crate::wire::{DbFormatError, FieldReader, FieldWriter};

pub(crate) const VERSION: u8 = 1;
const WHAT: &str = "the manifest of a snapshot";

/// A snapshot that is whole: its manifest is stored last (H13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The era it belongs to.
    pub era: u64,
    /// The last index in it. It is always the end of a group (H14).
    pub index: u64,
    /// The digest of the entry there; `None` at index 0.
    pub digest: Option<Digest>,
    /// The schema.
    pub chain: SchemaChain,
    /// The contents.
    pub content: ContentHash,
    /// The version of SQLite that made it.
    pub sqlite: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The chunks of the file, in order.
    pub chunks: Vec<ChunkName>,
}

impl Manifest {
    /// Where a worker stands that has loaded it.
    pub fn position(&self) -> DbPosition {
        DbPosition { era: self.era, index: self.index }
    }

    /// The bytes to store. The largest database has 65,536 chunks, which make 2 MiB.
    pub fn encode(&self) -> Bytes {
        let mut to = FieldWriter::new(VERSION);
        to.u64(self.era).u64(self.index);
        match self.digest {
            None => to.u8(0),
            Some(digest) => to.u8(1).raw(&digest.0),
        };
        to.raw(&self.chain.0).u128(self.content.0).u32(self.sqlite);
        to.u32(self.page_bytes).u64(self.file_bytes);
        for chunk in &self.chunks {
            to.raw(&chunk.0);
        }
        to.finish().into()
    }

    /// Reads the bytes that [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DbFormatError> {
        let mut from = FieldReader::new(WHAT, bytes, VERSION)?;
        let mut manifest = Manifest {
            era: from.u64()?,
            index: from.u64()?,
            digest: match from.u8()? {
                0 => None,
                1 => Some(Digest(from.array()?)),
                _ => return Err(from.malformed("a digest is neither there nor absent")),
            },
            chain: SchemaChain(from.array()?),
            content: ContentHash(from.u128()?),
            sqlite: from.u32()?,
            page_bytes: from.u32()?,
            file_bytes: from.u64()?,
            chunks: Vec::new(),
        };
        while !from.is_empty() {
            manifest.chunks.push(ChunkName(from.array()?));
        }
        if manifest.file_bytes.div_ceil(CHUNK_BYTES as u64) != manifest.chunks.len() as u64 {
            return Err(from.malformed("its chunks do not make up its file"));
        }
        Ok(manifest)
    }
}

/// The number of the first entry that stays when the feed is trimmed behind the older of two manifests.
/// Entry number *n* has index *n* + 1. The entry that the manifest vouches for stays, so that a loader's
/// cursor finds it again. `None`: nothing may be trimmed yet.
pub fn trim_before(manifests: [Option<&Manifest>; 2]) -> Option<u64> {
    let [Some(a), Some(b)] = manifests else {
        return None;
    };
    match a.era == b.era {
        true => Some(a.index.min(b.index).saturating_sub(1)),
        false => None,
    }
}

/// Which of two manifest cells the next snapshot replaces: an empty one, or the older one.
pub fn cell_to_replace(manifests: [Option<&Manifest>; 2]) -> usize {
    match manifests {
        [None, _] => 0,
        [_, None] => 1,
        [Some(a), Some(b)] => usize::from(b.position() < a.position()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(era: u64, index: u64) -> Manifest {
        Manifest {
            era,
            index,
            digest: Some(Digest([7; 16])),
            chain: SchemaChain::START,
            content: ContentHash(9),
            sqlite: 3_054_001,
            page_bytes: 4096,
            file_bytes: 8192,
            chunks: vec![ChunkName([3; 32])],
        }
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let stored = b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x05\
            \x01\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\x00\x2e\x99\xb1\0\0\x10\0\0\0\0\0\0\0\x20\0\
            \x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\
            \x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03";
        assert_eq!(&manifest(2, 5).encode()[..], stored);
        assert_eq!(Manifest::decode(stored), Ok(manifest(2, 5)));
        for length in 0..stored.len() {
            assert!(Manifest::decode(&stored[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn h13_the_feed_is_trimmed_to_the_entry_that_the_older_manifest_vouches_for() {
        let (old, new, later_era) = (manifest(1, 5), manifest(1, 9), manifest(2, 1));
        let cases = [
            ([None, None], None),
            ([Some(&old), None], None),
            ([Some(&new), Some(&old)], Some(4)),
            ([Some(&old), Some(&later_era)], None),
            ([Some(&manifest(1, 0)), Some(&old)], Some(0)),
        ];
        for (manifests, expected) in cases {
            assert_eq!(trim_before(manifests), expected, "{manifests:?}");
        }
    }

    #[test]
    fn h13_a_new_snapshot_replaces_the_older_manifest() {
        let (old, new, later_era) = (manifest(1, 5), manifest(1, 9), manifest(2, 1));
        let cases = [
            ([None, Some(&old)], 0),
            ([Some(&old), None], 1),
            ([Some(&old), Some(&new)], 0),
            ([Some(&new), Some(&old)], 1),
            ([Some(&later_era), Some(&new)], 1),
        ];
        for (manifests, expected) in cases {
            assert_eq!(cell_to_replace(manifests), expected, "{manifests:?}");
        }
    }
}
