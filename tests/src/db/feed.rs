//! The feed of a database as it lies in the store, replayed without the code that workers use to apply it.

use std::time::Duration;

use consort_db::entry::{EntryPart, GroupJoiner};
use consort_db::hash::HashedValue;
use consort_db::sqlite::session::{RowChange, RowOperation, walk};
use consort_kernel::{Cursor, FeedEntry, Most, Name, Shard, Store};

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
pub async fn read(store: &dyn Store, database: &str) -> FeedRows {
    let feed = Name::new(&format!("db.{database}.{ERA}")).expect("a name");
    let mut entries = Vec::new();
    for shard in 0..store.shards() {
        entries.extend(read_shard(store, Shard(shard), &feed).await);
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

async fn read_shard(store: &dyn Store, shard: Shard, feed: &Name) -> Vec<FeedEntry> {
    let mut cursor = Cursor::START;
    let mut entries: Vec<FeedEntry> = Vec::new();
    loop {
        let page = store.feed(shard, feed, &cursor, Most::default(), Duration::ZERO).await;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use consort_db::entry::EntryGroup;
    use consort_db::hash::{ContentHash, SchemaChain};
    use consort_db::sqlite::session::RecordedConnection;
    use consort_kernel::memory::MemoryStore;
    use consort_kernel::{Commit, Note, Operation, SystemClock, Timestamp};
    use rusqlite::Connection;

    use super::*;

    const SCHEMA: &str =
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, name TEXT);
        CREATE TABLE _consort_keys (key TEXT NOT NULL PRIMARY KEY, answer BLOB);";

    fn group(parts: Vec<EntryPart>) -> EntryGroup {
        EntryGroup {
            epoch: 1,
            time: Timestamp(1),
            sqlite: 3_054_001,
            chain_before: SchemaChain::START,
            content_after: ContentHash::EMPTY,
            parts,
        }
    }

    /// The changes that these statements make, as one part.
    fn recorded(connection: &mut RecordedConnection, statements: &str) -> EntryPart {
        connection.begin().expect("a recording begins");
        connection.connection().execute_batch(statements).expect("statements run");
        EntryPart::Rows(connection.changeset().expect("a changeset"))
    }

    #[tokio::test]
    async fn the_feed_of_a_database_is_replayed_without_sqlite() {
        let store = MemoryStore::new(4, Arc::new(SystemClock::default()));
        let connection = Connection::open_in_memory().expect("SQLite opens");
        connection.execute_batch(SCHEMA).expect("the schema is SQL");
        let mut connection = RecordedConnection::new(connection).expect("a sentinel");
        let groups = [
            vec![EntryPart::Ddl(SCHEMA.to_owned())],
            vec![recorded(
                &mut connection,
                "INSERT INTO accounts VALUES (1, 10, 'ann'), (2, 20, NULL);
                 INSERT INTO _consort_keys VALUES ('k', x'00ff');",
            )],
            vec![recorded(
                &mut connection,
                "UPDATE accounts SET balance = balance + 1; DELETE FROM accounts WHERE id = 2;",
            )],
        ];
        let feed = Name::new("db.bank.1").expect("a name");
        for parts in groups {
            for entry in group(parts).encode().expect("a group is small") {
                let append = Operation::Append(Note { feed: feed.clone(), entry });
                store
                    .commit(Shard(2), Commit::of(vec![append]))
                    .await
                    .expect("the commit is stored");
            }
        }
        let rows = read(&store, "bank").await;
        let row = |id, balance, name| vec![RowCell::Integer(id), RowCell::Integer(balance), name];
        let ann = RowCell::Text("ann".into());
        assert_eq!(rows.end(), 3);
        assert!(rows.rows("accounts", None, 1).is_empty());
        let both = [row(1, 10, ann.clone()), row(2, 20, RowCell::Null)];
        assert!(rows.rows("accounts", None, 2).into_iter().eq(&both));
        assert!(rows.rows("accounts", None, 3).into_iter().eq(&[row(1, 11, ann)]));
    }
}
