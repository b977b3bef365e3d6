//! The feed of a database, replayed: the rows of every table at every index.

use std::collections::BTreeMap;

use super::history::{Row, RowCell};

/// The changes of one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedGroup {
    /// The index: that of the last entry of the group.
    pub index: u64,
    /// The rows that it changes.
    pub changes: Vec<FeedChange>,
}

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedChange {
    /// The table.
    pub table: String,
    /// The row's key, which never changes.
    pub key: i64,
    /// The row afterwards.
    pub row: ChangedRow,
}

/// A row after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedRow {
    /// It is new.
    Added(Row),
    /// Those columns have another value; the others are as before.
    Changed(Vec<Option<RowCell>>),
    /// It is gone.
    Removed,
}

/// Each version of a row, with the index from which on it holds. `None`: there is no such row.
type Versions = Vec<(u64, Option<Row>)>;

/// All rows at all indexes.
#[derive(Clone, Debug, Default)]
pub struct FeedRows {
    end: u64,
    tables: BTreeMap<String, BTreeMap<i64, Versions>>,
}

impl FeedRows {
    /// Replays the groups of a feed, from its first.
    ///
    /// # Panics
    ///
    /// If indexes do not grow, or a change does not fit the rows before it: then the feed itself is broken.
    pub fn replay<'a>(groups: impl IntoIterator<Item = &'a FeedGroup>) -> FeedRows {
        let mut rows = FeedRows::default();
        for group in groups {
            let FeedGroup { index, changes } = group;
            assert!(*index > rows.end, "index {index} comes behind index {}", rows.end);
            rows.end = *index;
            changes.iter().for_each(|change| rows.apply(*index, change));
        }
        rows
    }

    /// The last index.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// A row at an index.
    pub fn row(&self, table: &str, key: i64, index: u64) -> Option<&Row> {
        let versions = self.tables.get(table)?.get(&key)?;
        let later = versions.partition_point(|(from, _)| *from <= index);
        versions.get(later.checked_sub(1)?)?.1.as_ref()
    }

    /// One row or all rows of a table at an index, ordered by key.
    pub fn rows(&self, table: &str, key: Option<i64>, index: u64) -> Vec<&Row> {
        match key {
            Some(key) => self.row(table, key, index).into_iter().collect(),
            None => {
                let keys = self.tables.get(table).into_iter().flat_map(BTreeMap::keys);
                keys.filter_map(|key| self.row(table, *key, index)).collect()
            }
        }
    }

    /// The rows of a table to which rows are only added, each with its index, in the order in which they were
    /// written.
    ///
    /// # Panics
    ///
    /// If a row was changed or removed.
    pub fn added(&self, table: &str) -> Vec<(u64, &Row)> {
        let mut added = Vec::new();
        for (key, versions) in self.tables.get(table).into_iter().flatten() {
            let [(index, Some(row))] = &versions[..] else {
                panic!("row {key} of {table} did not stay as it was: {versions:?}");
            };
            added.push((*index, row));
        }
        added.sort_by_key(|(index, _)| *index);
        added
    }

    /// The indexes at which a table changed.
    pub fn changes(&self, table: &str) -> Vec<u64> {
        let versions = self.tables.get(table).into_iter().flat_map(BTreeMap::values).flatten();
        let mut indexes: Vec<u64> = versions.map(|(index, _)| *index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    }

    fn apply(&mut self, index: u64, change: &FeedChange) {
        let FeedChange { table, key, row } = change;
        let versions = self.tables.entry(table.clone()).or_default().entry(*key).or_default();
        let before = versions.last().and_then(|(_, row)| row.clone());
        let after = match (row, before) {
            (ChangedRow::Added(row), None) => Some(row.clone()),
            (ChangedRow::Changed(columns), Some(before)) if columns.len() == before.len() => {
                let merged = columns.iter().zip(before);
                Some(merged.map(|(new, old)| new.clone().unwrap_or(old)).collect())
            }
            (ChangedRow::Removed, Some(_)) => None,
            (row, before) => {
                panic!("index {index} has {row:?} for row {key} of {table}, which was {before:?}")
            }
        };
        if let Some(last) = versions.last_mut()
            && last.0 == index
        {
            last.1 = after;
        } else {
            versions.push((index, after));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: i64, row: ChangedRow) -> FeedChange {
        FeedChange { table: "t".into(), key, row }
    }

    fn row(key: i64, value: i64) -> Row {
        vec![RowCell::Integer(key), RowCell::Integer(value)]
    }

    fn groups() -> Vec<FeedGroup> {
        let set = |value| ChangedRow::Changed(vec![None, Some(RowCell::Integer(value))]);
        let added = |key, value| change(key, ChangedRow::Added(row(key, value)));
        vec![
            FeedGroup { index: 1, changes: vec![added(2, 20), added(1, 10)] },
            FeedGroup { index: 4, changes: vec![change(1, set(11))] },
            FeedGroup { index: 5, changes: vec![change(1, ChangedRow::Removed), added(3, 30)] },
            FeedGroup { index: 6, changes: vec![added(1, 12)] },
        ]
    }

    #[test]
    fn rows_are_as_of_their_index() {
        let feed = FeedRows::replay(&groups());
        let cases: [(u64, &[(i64, i64)]); 6] = [
            (0, &[]),
            (1, &[(1, 10), (2, 20)]),
            (3, &[(1, 10), (2, 20)]),
            (4, &[(1, 11), (2, 20)]),
            (5, &[(2, 20), (3, 30)]),
            (6, &[(1, 12), (2, 20), (3, 30)]),
        ];
        for (index, expected) in cases {
            let expected: Vec<Row> =
                expected.iter().map(|(key, value)| row(*key, *value)).collect();
            assert!(feed.rows("t", None, index).into_iter().eq(&expected), "{index}");
        }
        assert_eq!(feed.row("t", 1, 4), Some(&row(1, 11)));
        assert_eq!((feed.row("t", 9, 4), feed.row("u", 1, 4)), (None, None));
        assert_eq!((feed.end(), feed.changes("t")), (6, vec![1, 4, 5, 6]));
    }

    #[test]
    fn added_rows_come_in_the_order_of_their_writes() {
        let feed = FeedRows::replay(&groups()[..1]);
        assert_eq!(feed.added("t"), [(1, &row(1, 10)), (1, &row(2, 20))]);
    }

    #[test]
    #[should_panic(expected = "did not stay as it was")]
    fn a_changed_row_of_a_history_is_found() {
        FeedRows::replay(&groups()).added("t");
    }

    #[test]
    #[should_panic(expected = "which was None")]
    fn a_change_of_a_row_that_is_not_there_is_found() {
        let group = FeedGroup { index: 1, changes: vec![change(1, ChangedRow::Removed)] };
        FeedRows::replay(&[group]);
    }
}
