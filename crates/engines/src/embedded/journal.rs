//! A look through fjall's journals before fjall opens them.
//!
//! What fjall cannot parse it takes for the torn end of a journal, and cuts the journal off there: one
//! flipped byte in a length or a marker would cost every write behind it, log, cells and cursors alike, so
//! that not even a cursor could tell. And the number that orders batches is under no checksum. But a torn
//! end has no whole batch behind it, and batches are numbered upwards: whatever else is found is damage.
//!
//! Only the framing of the very last batch stays without this protection, as it cannot be told from one
//! that was being written when the process died. After a power loss that batch may also be whole but for
//! sectors in its middle that were never written, and read as zeros: fjall would refuse such a journal,
//! so it is cut off here. Nothing in it was acknowledged.
//!
//! The journal of fjall 3: batches of a start (tag, count of items `u32`, number `u64`), items (tag, kind,
//! compression, table `u64`, key's length `u16`, value's length `u32`, stored length `u32`, key, value)
//! and an end (tag, checksum of the items `u64`, trailer), all little-endian. Behind them stand zeros, for
//! journals are made larger than what is in them.

use std::fs::File;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const TRAILER: &[u8] = b"FJL\x03";

/// What is cut off at once of the zeros behind the last batch.
const ZEROS: &[u8] = &[0; 4096];

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// What is wrong with the journals in a folder of tables, if anything is. A torn end that fjall would not
/// take is cut off.
pub(super) fn damage(tables: &Path) -> std::io::Result<Option<String>> {
    let mut journals = Vec::new();
    for file in std::fs::read_dir(tables)? {
        let path = file?.path();
        if let Some(number) = number(&path) {
            journals.push((number, path));
        }
    }
    journals.sort_unstable();
    let mut newest = 0;
    let last = journals.last().map(|(number, _)| *number);
    for (number, path) in journals {
        let mut bytes = std::fs::read(&path)?;
        while bytes.ends_with(ZEROS) {
            bytes.truncate(bytes.len() - ZEROS.len());
        }
        if let Some(at) = damaged_at(&bytes, &mut newest) {
            if Some(number) == last && torn_at(&bytes, at, newest) {
                tracing::warn!(
                    journal = %path.display(),
                    "the last batch was being written when the machine stopped; it was not acknowledged, and is cut off"
                );
                let file = File::options().write(true).open(&path)?;
                file.set_len(at as u64)?;
                file.sync_all()?;
                continue;
            }
            return Ok(Some(format!(
                "its journal {} is damaged at byte {at}: a disk fault, or another program wrote to it; restore the folder from a backup",
                path.display()
            )));
        }
    }
    Ok(None)
}

/// The journal of this number in a folder of tables.
pub(super) fn path(tables: &Path, number: u64) -> PathBuf {
    tables.join(format!("{number}.jnl"))
}

/// A journal's number, by its path.
pub(super) fn number(path: &Path) -> Option<u64> {
    let path: PathBuf = path.file_name()?.into();
    path.extension().filter(|extension| *extension == "jnl")?;
    path.file_stem()?.to_str()?.parse().ok()
}

/// Where the batches of a journal stop being what was written. `newest` is the number of the last batch
/// before, and then of the last in this journal.
fn damaged_at(bytes: &[u8], newest: &mut u64) -> Option<usize> {
    let mut at = 0;
    while let Some(batch) = Batch::parse(bytes, at) {
        if !batch.sound || batch.number < *newest {
            return Some(at);
        }
        *newest = batch.number;
        at = batch.end;
    }
    sound_behind(bytes, at, *newest).then_some(at)
}

/// Whether a sound batch stands behind this place.
fn sound_behind(bytes: &[u8], at: usize, newest: u64) -> bool {
    let starts = (at + 1..bytes.len()).filter(|&at| bytes[at] == START);
    let mut behind = starts.filter_map(|at| Batch::parse(bytes, at));
    behind.any(|batch| batch.sound && batch.number >= newest)
}

/// Whether the batch at a damaged place is the last one, with a sector in it that was never written.
fn torn_at(bytes: &[u8], at: usize, newest: u64) -> bool {
    let Some(batch) = Batch::parse(bytes, at) else { return false };
    let mut sectors = (at.next_multiple_of(SECTOR)..batch.end).step_by(SECTOR);
    let unwritten = |start| bytes[start..].first_chunk() == Some(&[0; SECTOR]);
    batch.number >= newest && sectors.any(unwritten) && !sound_behind(bytes, at, newest)
}

/// A batch from its start to its end.
struct Batch {
    number: u64,
    end: usize,
    /// Whether the items match the checksum.
    sound: bool,
}

impl Batch {
    fn parse(bytes: &[u8], at: usize) -> Option<Self> {
        let mut reader = Reader { bytes, at };
        reader.tag(START)?;
        let items = reader.number(4)?;
        let number = reader.number(8)?;
        let from = reader.at;
        for _ in 0..items {
            reader.tag(ITEM)?;
            reader.take(1 + 1 + 8)?;
            let key = reader.number(2)?;
            reader.take(4)?;
            let value = reader.number(4)?;
            reader.take(usize::try_from(key + value).ok()?)?;
        }
        let items = &bytes[from..reader.at];
        reader.tag(END)?;
        let checksum = reader.number(8)?;
        if reader.take(TRAILER.len())? != TRAILER {
            return None;
        }
        let mut hash = Xxh3::new();
        hash.update(items);
        Some(Batch { number, end: reader.at, sound: hash.digest() == checksum })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    fn tag(&mut self, tag: u8) -> Option<()> {
        (self.take(1)? == [tag]).then_some(())
    }

    fn number(&mut self, length: usize) -> Option<u64> {
        let bytes = self.take(length)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(value: &[u8]) -> Vec<u8> {
        let length = (value.len() as u32).to_le_bytes();
        [&[ITEM, 0, 0], &7u64.to_le_bytes()[..], &[1, 0], &length, &length, b"k", value].concat()
    }

    fn batch(number: u64, values: &[&[u8]]) -> Vec<u8> {
        let items: Vec<u8> = values.iter().flat_map(|value| item(value)).collect();
        let mut hash = Xxh3::new();
        hash.update(&items);
        let start = [&[START], &(values.len() as u32).to_le_bytes()[..], &number.to_le_bytes()];
        let end = [&[END], &hash.digest().to_le_bytes()[..], TRAILER];
        [&start.concat()[..], &items, &end.concat()].concat()
    }

    #[test]
    fn every_flipped_bit_in_front_of_another_batch_is_found() {
        let (first, last) = (batch(5, &[b"one", b"two"]), batch(6, &[b"three"]));
        let journal = [&first[..], &last, &[0; 10_000]].concat();
        assert_eq!(damaged_at(&journal, &mut 0), None);
        for at in 0..first.len() {
            for bit in 0..8 {
                let mut journal = journal.clone();
                journal[at] ^= 1 << bit;
                let harmless =
                    (5..13).contains(&at) && Batch::parse(&journal, 0).unwrap().number < 6;
                assert_eq!(damaged_at(&journal, &mut 0).is_none(), harmless, "bit {bit} of {at}");
            }
        }
    }

    #[test]
    fn a_torn_end_is_no_damage() {
        let (first, last) = (batch(5, &[b"one", &[START; 100]]), batch(6, &[b"two", b"three"]));
        for length in 0..last.len() {
            let torn = [&first[..], &last[..length]].concat();
            assert_eq!(damaged_at(&torn, &mut 0), None, "{length} bytes of the last batch");
            let padded = [&torn[..], &[0; 5_000]].concat();
            assert_eq!(damaged_at(&padded, &mut 0), None, "{length} bytes of the last batch");
        }
    }

    #[test]
    fn a_last_batch_with_unwritten_sectors_is_torn_and_any_other_damage_is_not() {
        let (first, last) = (batch(5, &[b"one"]), batch(6, &[&[7; 4 * SECTOR]]));
        let journal = [&first[..], &last].concat();
        let at = first.len();
        let mut torn = journal.clone();
        torn[2 * SECTOR..3 * SECTOR].fill(0);
        assert_eq!(damaged_at(&torn, &mut 0), Some(at));
        assert!(torn_at(&torn, at, 5));
        let mut flipped = journal.clone();
        flipped[2 * SECTOR] ^= 1;
        assert_eq!(damaged_at(&flipped, &mut 0), Some(at));
        assert!(!torn_at(&flipped, at, 5), "a flipped bit is damage");
        let followed = [&torn[..], &batch(7, &[b"more"])].concat();
        assert!(!torn_at(&followed, at, 5), "what was followed by another batch was acknowledged");
    }

    #[test]
    fn batches_are_numbered_upwards_through_all_journals() {
        let mut newest = 0;
        assert_eq!(damaged_at(&batch(5, &[b"one"]), &mut newest), None);
        assert_eq!(damaged_at(&batch(4, &[b"two"]), &mut newest), Some(0));
    }
}
