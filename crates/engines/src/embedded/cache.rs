//! The cells that the writer touched lately, so that hot ones are not read from the tables each time.
//!
//! The writer is the only one who changes cells, so what it remembers is what the tables hold, once the
//! batch in hand is written. Two generations: when the young one is full it becomes the old one, and
//! what is touched again moves back. What is not, is forgotten.

use hashbrown::HashMap;

use super::cell::Row;

/// Bytes of rows in one generation, about: there are two.
const GENERATION_BYTES: usize = 48 * 1024 * 1024;
/// What the table itself takes for a row.
const ROW_OVERHEAD: usize = 64;
/// Rows larger than this are not remembered: they would push out many small ones.
const LARGE_ROW: usize = 64 * 1024;

type Rows = HashMap<fjall::Slice, Option<Row>>;

/// Rows by their key; `None` for a cell that is known not to be there.
#[derive(Debug, Default)]
pub(super) struct Cache {
    young: Rows,
    old: Rows,
    bytes: usize,
}

impl Cache {
    /// What is known of a cell; the outer `None` if nothing is.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<Option<Row>> {
        if let Some(row) = self.young.get(key) {
            return Some(row.clone());
        }
        let (key, row) = self.old.remove_entry(key)?;
        self.remember(key, row.clone());
        Some(row)
    }

    /// Remembers what a cell holds. During a batch nothing is forgotten: see [`Cache::settle`].
    pub(super) fn remember(&mut self, key: fjall::Slice, row: Option<Row>) {
        self.bytes += size(&key, row.as_ref());
        let before = self.young.insert(key.clone(), row);
        self.bytes -= before.map_or(0, |before| size(&key, before.as_ref()));
    }

    /// Forgets a cell, in both generations: an older row must not come to light under a newer one.
    pub(super) fn forget(&mut self, key: &[u8]) {
        if let Some(row) = self.young.remove(key) {
            self.bytes -= size(key, row.as_ref());
        }
        self.old.remove(key);
    }

    /// Called when a batch is written: makes room, and lets go of large rows.
    pub(super) fn settle(&mut self, written: &[fjall::Slice]) {
        for key in written {
            if self.young.get(key).is_some_and(|row| size(key, row.as_ref()) > LARGE_ROW) {
                self.forget(key);
            }
        }
        if self.bytes > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
    }
}

fn size(key: &[u8], row: Option<&Row>) -> usize {
    ROW_OVERHEAD + key.len() + row.map_or(0, |row| row.contents().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_hot() {
        let mut cache = Cache::default();
        let hot = fjall::Slice::from(&b"hot"[..]);
        cache.remember(hot.clone(), Some(Row::counter(None, 7)));
        let row = Row::new(None, &vec![0; 32 * 1024]);
        for n in 0..10_000u32 {
            let key = fjall::Slice::from(&n.to_be_bytes()[..]);
            cache.remember(key.clone(), Some(row.clone()));
            cache.settle(&[key]);
            assert_eq!(cache.get(b"hot"), Some(Some(Row::counter(None, 7))));
        }
        let rows = cache.young.len() + cache.old.len();
        assert!(rows * 32 * 1024 < 3 * GENERATION_BYTES, "{rows} rows are remembered");
    }

    #[test]
    fn a_large_row_is_remembered_only_within_its_batch() {
        let mut cache = Cache::default();
        let key = fjall::Slice::from(&b"k"[..]);
        cache.remember(key.clone(), Some(Row::new(None, &vec![1; LARGE_ROW])));
        assert!(cache.get(b"k").is_some());
        cache.settle(&[key]);
        assert_eq!(cache.get(b"k"), None);
    }

    #[test]
    fn a_large_row_does_not_bring_an_older_one_to_light() {
        let mut cache = Cache::default();
        let key = fjall::Slice::from(&b"k"[..]);
        cache.remember(key.clone(), Some(Row::new(None, b"older")));
        cache.remember(b"filler".into(), Some(Row::new(None, &vec![0; GENERATION_BYTES])));
        cache.settle(&[]);
        cache.remember(key.clone(), Some(Row::new(None, &vec![1; LARGE_ROW])));
        cache.settle(&[key]);
        assert_eq!(cache.get(b"k"), None, "the tables know what it holds");
    }

    #[test]
    fn a_hot_row_takes_the_room_of_one() {
        let mut cache = Cache::default();
        for n in 0..100 {
            cache.remember(b"hot".into(), Some(Row::counter(None, n)));
        }
        assert_eq!(cache.bytes, size(b"hot", Some(&Row::counter(None, 0))));
        cache.forget(b"hot");
        assert_eq!(cache.bytes, 0);
    }
}
