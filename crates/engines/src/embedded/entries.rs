//! Reading the entries of a partition or feed, and where each begins.

use bytes::Bytes;
use consort_kernel::{Cursor, Digest, Fault, Most, ReadError};
use fjall::Readable;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::published::Published;
use super::rows;
use super::tables::{Tables, explain};

/// The oldest number of each partition and feed that was looked up or trimmed in this process, by table
/// and prefix. It spares readers the walk over rows that were trimmed and are not cleared away yet.
#[derive(Debug, Default)]
pub(super) struct Firsts(Mutex<HashMap<(bool, Vec<u8>), u64>>);

impl Firsts {
    /// Notes that nothing below `first` can be read any more, and tells what was known before.
    pub(super) fn raise(&self, log: bool, prefix: &[u8], first: u64) -> u64 {
        let mut firsts = self.0.lock();
        let held = firsts.entry((log, prefix.to_vec())).or_default();
        std::mem::replace(held, first.max(*held))
    }

    fn get(&self, log: bool, prefix: &[u8]) -> Option<u64> {
        self.0.lock().get(&(log, prefix.to_vec())).copied()
    }
}

/// An entry as stored.
pub(super) struct Stored {
    pub(super) number: u64,
    /// The digest that stands beside it.
    pub(super) digest: Vec<u8>,
    pub(super) contents: Bytes,
}

/// The oldest number of a partition (`log`) or feed; 0 if it has none.
pub(super) fn first(tables: &Tables, log: bool, prefix: &[u8]) -> fjall::Result<u64> {
    if let Some(first) = tables.firsts.get(log, prefix) {
        return Ok(first);
    }
    let table = if log { &tables.log } else { &tables.feeds };
    match table.prefix(prefix).next() {
        None => Ok(0),
        Some(row) => {
            let first = rows::entry_number(&row.key()?);
            tables.firsts.raise(log, prefix, first);
            Ok(first)
        }
    }
}

/// The entries behind a cursor, up to `most`. `place` names them in errors.
///
/// Entries are read as they stood when the last batch was published, like cells. A snapshot of this reader's
/// own may fall into the middle of a batch (see [`Published`]), where rows of feeds are applied before the
/// cells of their commits: the reader would be shown an entry, and not find the cells that came with it.
pub(super) fn read(
    tables: &Tables,
    published: &Published,
    log: bool,
    prefix: &[u8],
    after: &Cursor,
    most: Most,
    place: &str,
) -> Result<Vec<Stored>, ReadError> {
    let table = if log { &tables.log } else { &tables.feeds };
    // The snapshot comes before the look at where entries begin: should they be trimmed and cleared away
    // between the two, that look tells. The other way round the reader would go on behind what was
    // cleared, and skip entries that it was never told of.
    let snapshot = published.snapshot();
    let found = match after.last {
        None => None,
        Some((number, _)) => {
            let row = snapshot.get(table, rows::entry(prefix, number));
            let row = row.map_err(|error| damaged(&error, place, number))?;
            row.and_then(|value| Digest::from_slice(value.get(..Digest::LENGTH)?))
        }
    };
    let first = match first(tables, log, prefix) {
        Ok(first) => first,
        // The oldest entries are damaged. Whoever is to read them will be told; others read on.
        Err(fjall::Error::Storage(_)) => 0,
        Err(error) => return Err(ReadError::Engine(failed(&error))),
    };
    after.verify(first, found)?;

    let mut entries = Vec::new();
    let mut bytes = 0;
    let range = rows::entry(prefix, after.next)..=rows::entry(prefix, u64::MAX);
    for row in snapshot.range(table, range) {
        let row = row.into_inner();
        let expected = entries.last().map_or(after.next, |last: &Stored| last.number + 1);
        let (key, value) = match row {
            Ok(row) => row,
            // What stands before the damage is returned first.
            Err(_) if !entries.is_empty() => break,
            Err(error) => return Err(damaged(&error, place, expected)),
        };
        let value = Bytes::from_owner(value);
        let number = rows::entry_number(&key);
        let (digest, contents) = match rows::entry_parts(&value) {
            Some((digest, contents)) => (digest.to_vec(), contents),
            None => (Vec::new(), Bytes::new()),
        };
        bytes += contents.len();
        entries.push(Stored { number, digest, contents });
        if most.reached(entries.len(), bytes) {
            break;
        }
    }
    Ok(entries)
}

pub(super) fn failed(error: &fjall::Error) -> Fault {
    Fault::Fatal(format!("the embedded engine cannot read: {}", explain(error)))
}

/// A read that failed: damage in the stored bytes is told as such.
fn damaged(error: &fjall::Error, place: &str, number: u64) -> ReadError {
    match error {
        fjall::Error::Storage(inner) => {
            ReadError::Corrupt { place: place.to_string(), number, reason: inner.to_string() }
        }
        other => ReadError::Engine(failed(other)),
    }
}
