//! The contents of entries as they are stored: compressed, if that makes them smaller.
//!
//! It is for the fsync. A write that ends in a block of the journal which it has already needs only its own
//! bytes on the disk; one that begins a new block makes the file system commit a journal of its own too,
//! which takes about as long again. Frames of a few KiB, compressed, mostly do without. fjall could
//! compress its journal itself, but see [`super::tables`].
//!
//! A byte says how contents are packed: 0, and they follow as they are; 1, and their length (`u32`,
//! little-endian) and an LZ4 block follow. None of it is under a checksum here: the digest beside an entry
//! is that of its contents unpacked.

use bytes::Bytes;
use consort_kernel::limits::FRAME_BYTES;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

const PLAIN: u8 = 0;
const LZ4: u8 = 1;
const LENGTH_BYTES: usize = 4;

/// Less is not worth the trouble: several fit into a block of the journal anyway.
const LEAST_BYTES: usize = 1024;
/// More is stored as it is: even compressed it would begin a new block each time, and compressing takes time
/// that the caller's task should not hold others up for.
const MOST_BYTES: usize = 16 * 1024;

/// Packs contents as they are, behind what is in `row`.
pub(super) fn plain(row: &mut Vec<u8>, contents: &[u8]) {
    row.reserve_exact(1 + contents.len());
    row.push(PLAIN);
    row.extend(contents);
}

/// Packs contents compressed, if that makes them smaller.
pub(super) fn pack(row: &mut Vec<u8>, contents: &[u8]) {
    let from = row.len();
    if (LEAST_BYTES..=MOST_BYTES).contains(&contents.len()) {
        row.push(LZ4);
        row.extend((contents.len() as u32).to_le_bytes());
        let block = row.len();
        row.resize(block + get_maximum_output_size(contents.len()), 0);
        let length = compress_into(contents, &mut row[block..]);
        if let Ok(length) = length
            && LENGTH_BYTES + length < contents.len()
        {
            row.truncate(block + length);
            return;
        }
        row.truncate(from);
    }
    plain(row, contents);
}

/// The contents that were packed; `None` if these bytes are not what was stored.
pub(super) fn unpack(packed: &Bytes) -> Option<Bytes> {
    match *packed.first()? {
        PLAIN => Some(packed.slice(1..)),
        LZ4 => {
            let (length, block) = packed[1..].split_first_chunk::<LENGTH_BYTES>()?;
            let length = u32::from_le_bytes(*length) as usize;
            // A damaged length must not ask for more memory than the largest frame.
            if length > FRAME_BYTES {
                return None;
            }
            let mut contents = vec![0; length];
            let unpacked = decompress_into(block, &mut contents).ok()?;
            (unpacked == length).then(|| contents.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(contents: &[u8]) -> Bytes {
        let mut row = b"ahead".to_vec();
        pack(&mut row, contents);
        Bytes::from(row).slice(5..)
    }

    /// Bytes that do not compress.
    fn noise(length: usize) -> Vec<u8> {
        use rand::{RngCore, SeedableRng};
        let mut noise = vec![0; length];
        rand::rngs::StdRng::seed_from_u64(7).fill_bytes(&mut noise);
        noise
    }

    #[test]
    fn contents_come_back_as_they_were_and_are_never_stored_larger() {
        let sizes = [0, 1, LEAST_BYTES - 1, LEAST_BYTES, 6_840, MOST_BYTES, MOST_BYTES + 1];
        for contents in sizes.into_iter().flat_map(|size| [noise(size), vec![b' '; size]]) {
            let packed = packed(&contents);
            assert!(packed.len() <= 1 + contents.len());
            assert_eq!(unpack(&packed), Some(contents.into()));
        }
    }

    #[test]
    fn what_compresses_is_compressed_within_the_bounds() {
        assert!(packed(&[b' '; LEAST_BYTES]).len() < 100);
        assert_eq!(packed(&[b' '; LEAST_BYTES - 1])[0], PLAIN);
        assert_eq!(packed(&[b' '; MOST_BYTES + 1])[0], PLAIN);
        assert_eq!(packed(&noise(LEAST_BYTES))[0], PLAIN);
    }

    #[test]
    fn damaged_bytes_are_refused_or_differ_and_take_no_more_memory_than_a_frame() {
        let contents = vec![b' '; 5_000];
        let sound = packed(&contents);
        for at in 0..sound.len() {
            for bit in 0..8 {
                let mut damaged = sound.to_vec();
                damaged[at] ^= 1 << bit;
                let unpacked = unpack(&damaged.into());
                assert!(unpacked.is_none_or(|unpacked| unpacked.len() <= FRAME_BYTES));
            }
        }
        for length in 0..sound.len() {
            assert_eq!(unpack(&sound.slice(..length)), None, "{length} bytes");
        }
        assert_eq!(unpack(&Bytes::from_static(&[LZ4, 255, 255, 255, 255, 0])), None);
        assert_eq!(unpack(&Bytes::from_static(&[2, 0])), None);
    }

    #[test]
    fn the_stored_form_stays_as_it_is() {
        assert_eq!(packed(b"few")[..], *b"\0few");
        // Any compressor may write other blocks; every release must read this one: a literal, and that
        // byte 1,023 times more but for five literals at the end.
        let block = [0x1f, b'a', 1, 0, 255, 255, 255, 234, 0x50, b'a', b'a', b'a', b'a', b'a'];
        let stored = [&[LZ4, 0, 4, 0, 0][..], &block].concat();
        assert_eq!(unpack(&stored.into()), Some(vec![b'a'; 1024].into()));
    }
}
