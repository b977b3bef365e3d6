//! The `Store` contract: cells in shards, changed by compare-and-commit, with feeds beside them.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::clock::Timestamp;
use crate::commit::{Cell, Commit, Committed, Kind, Value};
use crate::cursor::Cursor;
use crate::digest::Digest;
use crate::error::{CommitError, Fault, QueryError, ReadError, Refusal};
use crate::key::Key;
use crate::limits::{PAGE_BYTES, READ_ENTRIES};
use crate::name::Name;
use crate::wake::Wake;

/// A shard's number: the unit of atomicity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(pub u16);

impl Shard {
    /// Refuses a number that a store with `shards` shards does not have.
    pub fn validate(self, shards: u16) -> Result<(), Refusal> {
        if self.0 >= shards {
            return Err(Refusal::NoSuchShard { shard: self.0, shards });
        }
        Ok(())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

/// How much one read may bring: whichever bound is reached first ends it, after at least one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Entries.
    pub entries: usize,
    /// Bytes of entries.
    pub bytes: usize,
}

impl Most {
    /// Up to `entries`, and [`PAGE_BYTES`].
    pub fn entries(entries: usize) -> Self {
        Most { entries, bytes: PAGE_BYTES }
    }

    /// Whether a read that has this much takes no more.
    pub fn reached(self, entries: usize, bytes: usize) -> bool {
        entries >= self.entries.clamp(1, READ_ENTRIES) || bytes >= self.bytes
    }
}

impl Default for Most {
    fn default() -> Self {
        Most::entries(READ_ENTRIES)
    }
}

/// An entry of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// Its number: 0 for the feed's first, then each one more than the last.
    pub number: u64,
    /// Its digest, for cursors.
    pub digest: Digest,
    /// What was appended.
    pub entry: Bytes,
}

impl FeedEntry {
    /// Where a reader stands that has consumed this entry.
    pub fn cursor(&self) -> Cursor {
        Cursor::behind(self.number, self.digest)
    }

    /// An entry read back from an engine, which stored `digest` beside it.
    pub fn from_stored(
        shard: Shard,
        feed: &Name,
        number: u64,
        stored: &[u8],
        entry: Bytes,
    ) -> Result<Self, ReadError> {
        let digest = Digest::of(&entry);
        if stored != digest.0 {
            let reason = "the checksum does not match";
            return Err(ReadError::corrupt_feed(shard.0, feed, number, reason));
        }
        Ok(FeedEntry { number, digest, entry })
    }
}

/// State and feeds.
///
/// A store has a fixed number of shards. Within a shard all commits happen one after another; there is
/// no order between shards. What a commit wrote is durable (in the engine's sense) and visible to every
/// call on any node that begins after the commit returned.
///
/// A page of [`get`](Store::get), [`scan`](Store::scan) or [`members`](Store::members) has at most
/// [`PAGE_ROWS`](crate::limits::PAGE_ROWS) rows and may end early when it is large in bytes; only an
/// empty page is the end.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// How many shards there are.
    fn shards(&self) -> u16;

    /// Applies all operations if all expectations hold, atomically; otherwise changes nothing.
    ///
    /// An expired cell counts as absent. On [`CommitError::Unknown`] all of the commit was applied, or
    /// will be, or nothing: expecting the same cells again tells which.
    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError>;

    /// What these cells hold at one moment, in the order asked; `None` where there is no such cell.
    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError>;

    /// The cells of a kind whose keys begin with `prefix` and are greater than `after`, ordered by key,
    /// up to `limit`. Each page is of one moment; cells that change between pages may be seen either way.
    async fn scan(
        &self,
        shard: Shard,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, QueryError>;

    /// The members of a set that are greater than `after`, ordered as bytes, up to `limit`.
    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError>;

    /// How many members a set has: exact, 0 if there is none. An engine may have to read what came lately.
    async fn cardinality(&self, shard: Shard, key: &Key) -> Result<u64, QueryError> {
        let cell = Cell::new(Kind::Set, key.clone());
        let values = self.get(shard, &[cell]).await?;
        Ok(match values.first() {
            Some(Some(Value::Set(members))) => *members,
            _ => 0,
        })
    }

    /// The entries of a feed from `after.next` on, as [`Log::read`](crate::Log::read) reads a partition.
    /// A feed's numbers have no gaps. A feed that was never appended to is empty. Once an entry has been read, every
    /// later call on the same node finds the cells as the entry's commit left them, or as a later commit did.
    async fn feed(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError>;

    /// Lets go of a feed's entries below `before`, as [`Log::trim`](crate::Log::trim) does.
    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError>;

    /// The store's time: shard 0's clock. It never goes backwards as seen through one store.
    ///
    /// Expiry goes by the clock of the server that holds the shard, which on a cluster may differ a
    /// little from this one: expiry clears away, and nothing is safe because of it.
    async fn now(&self) -> Result<Timestamp, Fault>;

    /// Wakes its holder soon after the bytes cell under `key` was put or deleted by anyone. A hint: a
    /// change may go untold and a wake may come for nothing. Watch first, then read, then wait, and wait
    /// with a bound.
    fn watch(&self, shard: Shard, key: &Key) -> Wake;

    /// Whether the engine answers.
    async fn ping(&self) -> Result<(), Fault>;
}
