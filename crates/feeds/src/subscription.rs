//! Reading a feed from outside: over all shards, with one cursor that can be taken up again.
//!
//! Changes of one subject come in their order; between shards there is none.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::limits::{PAGE_BYTES, READ_ENTRIES};
use consort_kernel::{Budget, Change, Cursor, Most, Name, QueryError, ReadError, Shard, Store};
use futures::future::{join_all, select_all};
use tokio::time::Instant;

use crate::feed;
use crate::feed_cursor::{BadCursor, CursorScope, FeedCursor};
use crate::row::Row;
use crate::spec::FeedSpec;
use crate::states::{StateBounds, read_states};
use crate::subjects::{SendMode, Subject};

/// Some changes of a feed.
#[derive(Clone, Debug)]
pub struct FeedPage {
    /// The changes in their order.
    pub changes: Vec<PageChange>,
    /// The cursor behind all of them, and behind the changes that the selection left out.
    pub next: FeedCursor,
}

/// A change in a page.
#[derive(Clone, Debug)]
pub struct PageChange {
    /// The change; none if it cannot be read.
    pub change: Option<Change>,
    /// The cursor behind it. A state in the middle of a page has none, since it also stands for later changes: a reader
    /// that is cut off there goes on from an earlier cursor.
    pub cursor: Option<FeedCursor>,
}

/// The part of a feed that a subscriber reads. The default is all changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedSelection {
    /// The changes of this tenant alone.
    pub tenant: Option<String>,
    /// The changes of this subject alone. It implies the tenant.
    pub subject: Option<Subject>,
    /// Changes or states.
    pub send: SendMode,
}

/// The feed has no subjects, so nothing can be selected of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the changes of this feed are of no documents: it has no 'id', no tenants and no states")]
pub struct NoSubjects;

/// Reads one feed.
#[derive(Clone, Debug)]
pub struct Subscription {
    store: Arc<dyn Store>,
    spec: Arc<FeedSpec>,
    selection: FeedSelection,
    scope: CursorScope,
}

impl Subscription {
    /// A reader of all changes of this feed.
    pub fn new(store: Arc<dyn Store>, spec: Arc<FeedSpec>) -> Self {
        let (selection, scope) = (FeedSelection::default(), CursorScope::All);
        Subscription { store, spec, selection, scope }
    }

    /// A reader of a part of this feed. A selected subject is read from its one shard.
    pub fn with_selection(
        store: Arc<dyn Store>,
        spec: Arc<FeedSpec>,
        selection: FeedSelection,
    ) -> Result<Self, NoSubjects> {
        let all = Subscription::new(store, spec);
        if selection == FeedSelection::default() {
            return Ok(all);
        }
        let subjects = all.spec.payload.subjects().ok_or(NoSubjects)?;
        let shard = |subject: &Subject| subjects.shard(subject, all.store.shards());
        let scope = selection.subject.as_ref().map(shard).map(CursorScope::One);
        Ok(Subscription { selection, scope: scope.unwrap_or(CursorScope::All), ..all })
    }

    fn feed(&self) -> &Name {
        &self.spec.feed
    }

    /// Before the oldest change that is kept.
    pub async fn oldest(&self) -> Result<FeedCursor, ReadError> {
        let first = async |shard| {
            let first = feed::first(&*self.store, shard, self.feed()).await?;
            Ok(Cursor::at(first))
        };
        self.everywhere(first).await
    }

    /// Behind the newest change of each shard: the cursor of a snapshot whose scan begins after this call. It knows the
    /// newest changes by their digests, so it is refused after a rollback.
    pub async fn newest(&self) -> Result<FeedCursor, ReadError> {
        let newest = async |shard| {
            let first = feed::first(&*self.store, shard, self.feed()).await?;
            let end = feed::end(&*self.store, shard, self.feed(), first).await?;
            self.behind_last(shard, end).await
        };
        self.everywhere(newest).await
    }

    async fn behind_last(&self, shard: Shard, end: u64) -> Result<Cursor, ReadError> {
        let Some(last) = end.checked_sub(1) else { return Ok(Cursor::START) };
        let most = Most { entries: 1, bytes: 1 };
        let cursor = Cursor::at(last);
        let read = self.store.feed(shard, self.feed(), &cursor, most, Duration::ZERO).await?;
        Ok(read.first().map_or(cursor, |entry| entry.cursor()))
    }

    async fn everywhere<F: Future<Output = Result<Cursor, ReadError>>>(
        &self,
        look: impl Fn(Shard) -> F,
    ) -> Result<FeedCursor, ReadError> {
        let shards = match self.scope {
            CursorScope::All => 0..self.store.shards(),
            CursorScope::One(shard) => shard.0..shard.0 + 1,
        };
        let looks = shards.map(|shard| look(Shard(shard)));
        let cursors: Result<Vec<Cursor>, ReadError> = join_all(looks).await.into_iter().collect();
        Ok(FeedCursor { scope: self.scope, cursors: cursors? })
    }

    /// The cursor of this text, if it is one of this store and fits the selection.
    pub fn cursor(&self, text: &str) -> Result<FeedCursor, BadCursor> {
        FeedCursor::decode(text, self.scope, self.store.shards())
    }

    /// Up to `limit` changes behind `from`; if there are none, it waits up to `wait` for the first. A page ends
    /// with the change that takes it past [`PAGE_BYTES`], all shards together. Changes that the selection leaves out
    /// count as read: a page may be empty although its cursor has moved.
    pub async fn read(
        &self,
        from: &FeedCursor,
        limit: usize,
        wait: Duration,
    ) -> Result<FeedPage, ReadError> {
        let began = Instant::now();
        let mut from = from.clone();
        loop {
            let page = self.look(&from, limit).await?;
            let left = wait.saturating_sub(began.elapsed());
            if !page.changes.is_empty() || left.is_zero() {
                return Ok(page);
            }
            let has_moved = page.next != from;
            from = page.next;
            if !has_moved && !self.wait(&from, left).await? {
                return self.look(&from, limit).await;
            }
        }
    }

    /// Waits for an entry in any of the shards. False if none came in that time.
    async fn wait(&self, from: &FeedCursor, wait: Duration) -> Result<bool, ReadError> {
        let waits = from.shards().map(|(shard, cursor)| {
            Box::pin(self.store.feed(shard, self.feed(), cursor, Most::entries(1), wait))
        });
        // The first that has something; those that have nothing all end after `wait`.
        let mut left: Vec<_> = waits.collect();
        while !left.is_empty() {
            let (found, _, others) = select_all(left).await;
            if !found?.is_empty() {
                return Ok(true);
            }
            left = others;
        }
        Ok(false)
    }

    /// What is there now. Shards take turns in coming first, so that a busy one starves no other.
    async fn look(&self, from: &FeedCursor, limit: usize) -> Result<FeedPage, ReadError> {
        let mut look = Look {
            next: from.clone(),
            changes: Vec::new(),
            limit,
            read: 0,
            sent: 0,
            budget: Budget::default(),
        };
        let shards = from.cursors.len();
        let numbers = from.cursors.iter().map(|cursor| cursor.next);
        let turn = numbers.fold(0, |sum, next| (sum + next) % shards.max(1) as u64);
        for step in 0..shards {
            if look.is_full() {
                break;
            }
            let at = (turn as usize + step) % shards;
            let Some((shard, cursor)) = from.shards().nth(at) else { break };
            let rows = self.rows(shard, cursor, &mut look).await?;
            match self.selection.send {
                SendMode::Pieces => self.take_changes(rows, at, &mut look).await,
                SendMode::States => self.take_states(rows, (at, shard), &mut look).await?,
            }
        }
        Ok(FeedPage { changes: look.changes, next: look.next })
    }

    /// The next entries of a shard, those that the selection leaves out among them.
    async fn rows(
        &self,
        shard: Shard,
        cursor: &Cursor,
        look: &mut Look,
    ) -> Result<Vec<Row>, ReadError> {
        let is_all = self.selection == FeedSelection::default();
        let entries = if is_all { look.left() } else { READ_ENTRIES };
        let most = Most { entries, bytes: PAGE_BYTES.saturating_sub(look.read) };
        let found = self.store.feed(shard, self.feed(), cursor, most, Duration::ZERO).await?;
        let mut rows = Vec::with_capacity(found.len());
        for entry in found {
            let row = Row::read(&*self.spec.payload, &entry);
            look.read += row.bytes;
            look.budget.spend(row.bytes).await;
            rows.push(row);
        }
        Ok(rows)
    }

    /// Whether the subscriber gets this row. One that cannot be read is shown to all: its subject is not known, and a
    /// version must not be left out in silence.
    fn selects(&self, row: &Row) -> bool {
        let Some(change) = &row.subject else { return true };
        let FeedSelection { tenant, subject, .. } = &self.selection;
        tenant.as_ref().is_none_or(|tenant| *tenant == change.subject.tenant)
            && subject.as_ref().is_none_or(|subject| *subject == change.subject)
    }

    async fn take_changes(&self, rows: Vec<Row>, at: usize, look: &mut Look) {
        for row in rows {
            if look.left() == 0 {
                return;
            }
            look.next.cursors[at] = row.cursor;
            if self.selects(&row) {
                look.sent += row.bytes;
                let cursor = Some(look.next.clone());
                look.changes.push(PageChange { change: row.change.ok(), cursor });
            }
        }
    }

    async fn take_states(
        &self,
        rows: Vec<Row>,
        (at, shard): (usize, Shard),
        look: &mut Look,
    ) -> Result<(), ReadError> {
        let Some(subjects) = self.spec.payload.subjects() else { return Ok(()) };
        let behind: Vec<Cursor> = rows.iter().map(|row| row.cursor).collect();
        let (mut selected, mut chosen) = (Vec::new(), Vec::new());
        for (at, row) in rows.into_iter().enumerate() {
            if self.selects(&row) {
                selected.push(at);
                chosen.push(row);
            }
        }
        let bytes = PAGE_BYTES.saturating_sub(look.sent);
        let bounds = StateBounds { items: look.left(), bytes };
        let run = read_states(&*self.store, shard, subjects, &chosen, bounds).await;
        let run = run.map_err(|error| match error {
            QueryError::Refused(refusal) => ReadError::Refused(refusal),
            QueryError::Engine(fault) => ReadError::Engine(fault),
        })?;
        // Up to the first change that no state of this page stands for.
        let end = selected.get(run.rows).copied().unwrap_or(behind.len());
        let Some(last) = end.checked_sub(1) else { return Ok(()) };
        look.next.cursors[at] = behind[last];
        look.sent += run.bytes;
        let states = run.items.into_iter().map(|item| item.change.ok());
        look.changes.extend(states.map(|change| PageChange { change, cursor: None }));
        if let Some(last) = look.changes.last_mut() {
            last.cursor = Some(look.next.clone());
        }
        Ok(())
    }
}

/// A page that is being put together.
struct Look {
    next: FeedCursor,
    changes: Vec<PageChange>,
    limit: usize,
    /// Bytes of entries that were read.
    read: usize,
    /// Bytes of changes or states that the page has.
    sent: usize,
    budget: Budget,
}

impl Look {
    fn left(&self) -> usize {
        self.limit.saturating_sub(self.changes.len())
    }

    fn is_full(&self) -> bool {
        self.left() == 0 || self.read.max(self.sent) >= PAGE_BYTES
    }
}
