//! Reads the change stream of a database: whole groups, as lines of JSON.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::Runtime;
use consort_db::DbPosition;
use consort_db::entry::{EntryGroup, GroupJoiner};
use consort_db::head::DbHead;
use consort_db::rows::{ChangedRow, GroupChange, group_changes};
use consort_db::sqlite::session::RowOperation;
use consort_db::store::DatabaseStore;
use consort_kernel::limits::PAGE_BYTES;
use consort_kernel::{Budget, Cursor, FeedEntry, Most, ReadError};
use serde::ser::{Serialize, SerializeMap, Serializer};
use tokio::time::Instant;

use super::feed_cursor::ChangeCursor;
use super::values::ShownValue;
use crate::feeds::answers;
use crate::problem::Problem;
use crate::problems;
use crate::streams::apart;

/// How long one wait for an entry lasts: after it, the reader looks whether a restore has begun another era.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Entries that are read at once.
const ENTRIES: usize = 256;

/// Reads the changes of one database.
#[derive(Clone, Debug)]
pub(super) struct ChangeReader {
    store: DatabaseStore,
    /// Where large groups are decoded: threads that other requests do not share.
    intake: Arc<dyn Runtime>,
}

/// Some groups.
#[derive(Debug)]
pub(super) struct ChangePage {
    pub(super) groups: Vec<GroupLines>,
    /// Behind all of them.
    pub(super) next: ChangeCursor,
}

/// The changes of one group.
#[derive(Debug)]
pub(super) struct GroupLines {
    /// One for each change, without line ends.
    pub(super) lines: Vec<String>,
    /// Behind the group.
    pub(super) cursor: ChangeCursor,
}

/// A change with the position of its group.
struct ShownChange<'a>(DbPosition, &'a GroupChange);

impl ChangeReader {
    pub(super) fn new(store: DatabaseStore, intake: Arc<dyn Runtime>) -> Self {
        ChangeReader { store, intake }
    }

    /// Before the oldest change that is kept: behind the older snapshot.
    pub(super) async fn oldest(&self) -> Result<ChangeCursor, Problem> {
        let era = self.head().await?.era;
        let at = |index| ChangeCursor { position: DbPosition { era, index }, digest: None };
        let most = Most::entries(1);
        match self.store.entries(era, &Cursor::START, most, Duration::ZERO).await {
            Ok(_) => Ok(at(0)),
            Err(ReadError::Trimmed { first, .. }) => {
                // The oldest entry stays for the snapshot that vouches for it, and may be the end of a group.
                let found = self.store.manifests().await.map_err(|error| store_failed(&error))?;
                let kept = found.iter().flatten().filter(|one| one.era == era && one.index > first);
                Ok(at(kept.map(|one| one.index).min().unwrap_or(first + 1)))
            }
            Err(error) => Err(answers::failed(&error)),
        }
    }

    /// Behind the newest change.
    pub(super) async fn newest(&self) -> Result<ChangeCursor, Problem> {
        let head = self.head().await?;
        Ok(ChangeCursor { position: head.position(), digest: head.digest })
    }

    /// Groups behind `from` with about `limit` changes: the group that passes the limit, or the bound in bytes, is the
    /// last one, and is there whole. If there are none, it waits up to `wait` for the first.
    pub(super) async fn read(
        &self,
        from: ChangeCursor,
        limit: usize,
        wait: Duration,
    ) -> Result<ChangePage, Problem> {
        let until = Instant::now() + wait;
        let mut page = ChangePage { groups: Vec::new(), next: from };
        loop {
            let head = self.head().await?;
            if from.position.era != head.era {
                return Err(other_era(from.position.era, head.era));
            }
            let left = until.saturating_duration_since(Instant::now());
            self.read_groups(&mut page, limit, left.min(LOOK_EVERY)).await?;
            if page.groups.iter().any(|group| !group.lines.is_empty()) || left.is_zero() {
                return Ok(page);
            }
            // Groups without changes of users are behind the subscriber now.
            page.groups.clear();
        }
    }

    async fn read_groups(
        &self,
        page: &mut ChangePage,
        limit: usize,
        wait: Duration,
    ) -> Result<(), Problem> {
        let era = page.next.position.era;
        let (mut joiner, mut cursor) = (GroupJoiner::default(), page.next.to_feed());
        let (mut changes, mut bytes, mut wait) = (0, 0, wait);
        while joiner.is_open() || (changes < limit && bytes < PAGE_BYTES) {
            let most = Most { entries: ENTRIES, bytes: PAGE_BYTES };
            let entries = self.store.entries(era, &cursor, most, wait).await;
            let entries = entries.map_err(|error| answers::failed(&error))?;
            let Some(last) = entries.last() else { return Ok(()) };
            cursor = last.cursor();
            wait = Duration::ZERO;
            for entry in &entries {
                let joined = joiner.push(&entry.entry).map_err(|error| no_group(&error))?;
                let Some(group) = joined else { continue };
                let lines = self.lines(group, entry, era).await?;
                changes += lines.lines.len();
                bytes += lines.lines.iter().map(String::len).sum::<usize>();
                page.next = lines.cursor;
                page.groups.push(lines);
                if changes >= limit || bytes >= PAGE_BYTES {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn lines(
        &self,
        group: EntryGroup,
        last: &FeedEntry,
        era: u64,
    ) -> Result<GroupLines, Problem> {
        let position = DbPosition { era, index: last.number + 1 };
        let cursor = ChangeCursor { position, digest: Some(last.digest) };
        let decoding = async move {
            let changes = group_changes(&group)?;
            let (mut lines, mut budget) = (Vec::with_capacity(changes.len()), Budget::default());
            for change in &changes {
                // Plain values: writing them into memory cannot fail.
                let line = serde_json::to_string(&ShownChange(position, change));
                lines.extend(line);
                budget.spend(lines.last().map_or(0, String::len)).await;
            }
            Ok(lines)
        };
        let decoded = match last.entry.len() as u64 <= apart::SMALL {
            true => decoding.await,
            false => apart::run(&self.intake, decoding).await,
        };
        let lines = decoded.map_err(|error: consort_db::sqlite::session::SessionError| {
            let detail = format!("the changes of {position} cannot be read: {error}");
            Problem::new(problems::DEFECT, detail)
        })?;
        Ok(GroupLines { lines, cursor })
    }

    async fn head(&self) -> Result<DbHead, Problem> {
        let head = self.store.head().await.map_err(|error| store_failed(&error))?;
        head.ok_or_else(|| {
            let detail = "the database was not created yet; ask again in a moment";
            super::failures::no_worker(detail)
        })
    }
}

fn store_failed(error: &consort_db::store::DbStoreError) -> Problem {
    let detail = format!("the change stream could not be read: {error}; ask again");
    Problem::new(problems::STORE_FAILED, detail).retry_after(super::failures::RETRY_AFTER)
}

fn other_era(asked: u64, now: u64) -> Problem {
    let detail = format!(
        "the cursor is of era {asked}, and the database is in era {now}: its history was replaced. Read the rows \
         anew, then begin with after=now"
    );
    Problem::new(problems::CURSOR_GONE, detail)
}

fn no_group(error: &dyn std::fmt::Display) -> Problem {
    let detail = format!(
        "no group of changes begins behind this cursor ({error}): begin again without 'after', or with after=now"
    );
    Problem::new(problems::CURSOR_GONE, detail)
}

impl Serialize for ShownChange<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let ShownChange(position, change) = self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("position", &position.to_string())?;
        match change {
            GroupChange::Schema(sql) => {
                map.serialize_entry("op", "schema")?;
                map.serialize_entry("sql", sql)?;
            }
            GroupChange::Row(row) => serialize_row(&mut map, row)?,
        }
        map.end()
    }
}

fn serialize_row<M: SerializeMap>(map: &mut M, row: &ChangedRow) -> Result<(), M::Error> {
    let shown = |values: &[consort_db::write::job::SqlValue]| -> Vec<serde_json::Value> {
        let value = |value| serde_json::to_value(ShownValue(value)).unwrap_or_default();
        values.iter().map(value).collect()
    };
    let side = |operation: RowOperation, values: &[consort_db::write::job::SqlValue]| {
        (row.operation != operation).then(|| shown(values))
    };
    let operation = match row.operation {
        RowOperation::Insert => "insert",
        RowOperation::Update => "update",
        RowOperation::Delete => "delete",
    };
    map.serialize_entry("table", &row.table)?;
    map.serialize_entry("op", operation)?;
    map.serialize_entry("key", &shown(&row.key))?;
    map.serialize_entry("columns", &row.columns)?;
    map.serialize_entry("old", &side(RowOperation::Insert, &row.old))?;
    map.serialize_entry("new", &side(RowOperation::Delete, &row.new))
}

#[cfg(test)]
mod tests;
