//! The feed of a database as it lies in the store, replayed without the code that workers use to apply it.

use std::time::Duration;

use consort_db::entry::{EntryPart, GroupJoiner};
use consort_db::hash::HashedValue;
use consort_db::sqlite::session::{RowChange, RowOperation, walk};
use consort_engines::Engine;
use consort_kernel::{Cursor, FeedEntry, Most, Name, Shard};

use super::client::ERA;
use crate::lin::feed::{ChangedRow, FeedChange, FeedGroup, FeedRows};
use crate::lin::history::RowCell;

/// Tables of the database itself begin so.
const OWN_TABLES: &str = "_consort";

/// Replays the feed of a database.
///
/// # Panics
///
/// If it is not there from its first entry on, or is broken.
pub async fn read(engine: &Engine, database: &str) -> FeedRows {
    let feed = Name::new(&format!("db.{database}.{ERA}")).expect("a name");
    let mut entries = Vec::new();
    for shard in 0..engine.store.shards() {
        entries.extend(read_shard(engine, Shard(shard), &feed).await);
    }
    let mut joiner = GroupJoiner::default();
    let mut groups = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        assert_eq!(entry.number, number as u64, "the feed {feed:?} was trimmed or has a gap");
        let joined = joiner.push(&entry.entry);
        let joined = joined.unwrap_or_else(|error| panic!("entry {number} of {feed:?}: {error}"));
        if let Some(group) = joined {
            let changes = group.parts.iter().flat_map(changes).collect();
            groups.push(FeedGroup { index: entry.number + 1, changes });
        }
    }
    assert!(!joiner.is_open(), "the last group of {feed:?} is not whole");
    FeedRows::replay(&groups)
}

async fn read_shard(engine: &Engine, shard: Shard, feed: &Name) -> Vec<FeedEntry> {
    let mut cursor = Cursor::START;
    let mut entries: Vec<FeedEntry> = Vec::new();
    loop {
        let page = engine.store.feed(shard, feed, &cursor, Most::default(), Duration::ZERO).await;
        let page = page.unwrap_or_else(|error| panic!("the feed {feed:?} in {shard}: {error}"));
        let Some(last) = page.last() else { return entries };
        cursor = last.cursor();
        entries.extend(page);
    }
}

/// The rows of the workloads that a part changes.
fn changes(part: &EntryPart) -> Vec<FeedChange> {
    let EntryPart::Rows(changeset) = part else { return Vec::new() };
    let mut changes = Vec::new();
    let walked = walk(changeset, |row| {
        if !row.table.starts_with(OWN_TABLES) {
            changes.push(change(row));
        }
    });
    walked.expect("a changeset can be read");
    changes
}

fn change(row: &RowChange<'_>) -> FeedChange {
    let columns = 0..row.key.len();
    let (key, after) = match row.operation {
        RowOperation::Insert => {
            let cells: Vec<RowCell> = columns
                .map(|column| cell(row.new_value(column)).unwrap_or(RowCell::Null))
                .collect();
            (cells.first().cloned(), ChangedRow::Added(cells))
        }
        RowOperation::Update => {
            let cells = columns.map(|column| cell(row.new_value(column))).collect();
            (cell(row.old(0)), ChangedRow::Changed(cells))
        }
        RowOperation::Delete => (cell(row.old(0)), ChangedRow::Removed),
    };
    let Some(RowCell::Integer(key)) = key else {
        panic!("the first column of {} is its key, not {key:?}", row.table);
    };
    FeedChange { table: row.table.to_owned(), key, row: after }
}

fn cell(value: Option<HashedValue<'_>>) -> Option<RowCell> {
    Some(match value? {
        HashedValue::Null => RowCell::Null,
        HashedValue::Integer(integer) => RowCell::Integer(integer),
        HashedValue::Text(text) => RowCell::Text(String::from_utf8_lossy(text).into_owned()),
        HashedValue::Real(_) | HashedValue::Blob(_) => panic!("the workloads have no such value"),
    })
}
