//! `Store` on Redis: each call is one script on the server that holds the shard.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_kernel::limits::{PAGE_BYTES, PAGE_ROWS, within};
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Cursor, Fault, FeedEntry, Key, Kind, Lane, Most, Name,
    QueryError, ReadError, Shard, Store, Timestamp, Topic, Value, Wake, read_or_wait, sound,
};
use redis::Value as Answer;

use super::link::{CallError, Link};
use super::{LOOK_EVERY, Shared, encode, entries};

/// Shards on a Redis server or cluster.
#[derive(Clone, Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
    shards: u16,
    /// Whether calls go by the connection of leases.
    leases: bool,
}

impl RedisStore {
    pub(super) fn new(shared: Arc<Shared>, shards: u16) -> Self {
        RedisStore { shared, shards, leases: false }
    }

    /// The same store for the cells of leases, on a connection of its own.
    pub fn for_leases(&self) -> Self {
        RedisStore { leases: true, ..self.clone() }
    }

    fn writes(&self) -> &Link {
        if self.leases { &self.shared.leases } else { &self.shared.writes }
    }

    fn reads(&self) -> &Link {
        if self.leases { &self.shared.leases } else { &self.shared.reads }
    }

    async fn feed_now(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        let (Shared { scripts, keys, .. }, reads) = (&*self.shared, self.reads());
        let stored = entries::read(reads, scripts, &keys.feed(shard, feed), after, most).await?;
        sound(stored.into_iter().map(|entry| {
            FeedEntry::from_stored(shard, feed, entry.number, &entry.digest, entry.contents)
        }))
    }

    fn unexpected(&self, shard: Shard) -> Fault {
        let root = self.shared.keys.shard(shard);
        Fault::Fatal(format!("redis holds something else than Consort's cells under {root}"))
    }
}

#[async_trait]
impl Store for RedisStore {
    fn shards(&self) -> u16 {
        self.shards
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        shard.validate(self.shards)?;
        commit.validate()?;
        let (Shared { bulk, scripts, keys, .. }, writes) = (&*self.shared, self.writes());
        let _turn = match commit.lane {
            Lane::Urgent => None,
            Lane::Bulk if self.leases => None,
            // It is never closed.
            Lane::Bulk => bulk[usize::from(shard.0) % bulk.len()].acquire().await.ok(),
        };
        let parts = encode::arguments(&commit, shard, &keys.shard_channel(shard));
        let arguments: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let root = keys.shard(shard);
        let answer = match writes.script(&scripts.commit, root.as_bytes(), &arguments).await {
            Ok(answer) => answer,
            Err(CallError::NotDone(fault)) => return Err(CommitError::Engine(fault)),
            Err(CallError::Unknown(fault)) => return Err(CommitError::Unknown(fault)),
        };
        let unexpected = || CommitError::Unknown(self.unexpected(shard));
        let Answer::Array(parts) = answer else { return Err(unexpected()) };
        match <[Answer; 2]>::try_from(parts) {
            Ok([Answer::Int(1), Answer::Array(places)]) => {
                let place = |value| match value {
                    Answer::Int(place) => usize::try_from(place).ok(),
                    _ => None,
                };
                let places: Option<Vec<usize>> = places.into_iter().map(place).collect();
                Ok(Committed { left_out: places.ok_or_else(unexpected)? })
            }
            Ok([Answer::Int(0), Answer::Array(present)]) => {
                let kinds = commit.expects.iter().map(|expect| expect.cell().kind);
                let values = kinds.zip(present).map(|(kind, answer)| value(kind, answer));
                Err(CommitError::Stale(values.collect::<Option<_>>().ok_or_else(unexpected)?))
            }
            _ => Err(unexpected()),
        }
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        shard.validate(self.shards)?;
        within("the cells of one get", cells.len(), PAGE_ROWS)?;
        let (Shared { scripts, keys, .. }, reads) = (&*self.shared, self.reads());
        let named = cells.iter().flat_map(|cell| [encode::kind(cell.kind), cell.key.to_bytes()]);
        let most = Bytes::from(PAGE_BYTES.to_string());
        let parts: Vec<Bytes> = std::iter::once(most).chain(named).collect();
        let arguments: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let answer = reads.script(&scripts.get, keys.shard(shard).as_bytes(), &arguments).await;
        let Answer::Array(answers) = answer.map_err(CallError::fault)? else {
            return Err(self.unexpected(shard).into());
        };
        if answers.is_empty() && !cells.is_empty() {
            return Err(self.unexpected(shard).into());
        }
        let values = cells.iter().zip(answers).map(|(cell, answer)| value(cell.kind, answer));
        values.collect::<Option<_>>().ok_or_else(|| self.unexpected(shard).into())
    }

    async fn scan(
        &self,
        shard: Shard,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, QueryError> {
        shard.validate(self.shards)?;
        let (Shared { scripts, keys, .. }, reads) = (&*self.shared, self.reads());
        let from = match after {
            Some(after) if after >= prefix => [b"(", after.as_bytes()].concat(),
            _ => [b"[", prefix.as_bytes()].concat(),
        };
        let to = [b"(", &prefix.end()[..]].concat();
        let (rows, bytes) = (limit.min(PAGE_ROWS).to_string(), PAGE_BYTES.to_string());
        let arguments = [&encode::kind(kind)[..], &from, &to, rows.as_bytes(), bytes.as_bytes()];
        let answer = reads.script(&scripts.scan, keys.shard(shard).as_bytes(), &arguments).await;
        let Answer::Array(parts) = answer.map_err(CallError::fault)? else {
            return Err(self.unexpected(shard).into());
        };
        let row = |pair: &[Answer]| match pair {
            [Answer::BulkString(key), contents] => {
                let key = Key::from_stored(key.clone());
                value(kind, contents.clone()).flatten().map(|value| (key, value))
            }
            _ => None,
        };
        let page = parts.chunks(2).map(row).collect::<Option<_>>();
        page.ok_or_else(|| self.unexpected(shard).into())
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
        shard.validate(self.shards)?;
        let (Shared { scripts, keys, .. }, reads) = (&*self.shared, self.reads());
        let from = after.map_or(b"-".to_vec(), |after| [b"(", after].concat());
        let rows = limit.min(PAGE_ROWS).to_string();
        let arguments = [key.as_bytes(), &from, rows.as_bytes()];
        let root = keys.shard(shard);
        let answer = reads.script(&scripts.members, root.as_bytes(), &arguments).await;
        let Answer::Array(members) = answer.map_err(CallError::fault)? else {
            return Err(self.unexpected(shard).into());
        };
        let member = |answer| match answer {
            Answer::BulkString(member) => Some(Bytes::from(member)),
            _ => None,
        };
        let members = members.into_iter().map(member).collect::<Option<_>>();
        members.ok_or_else(|| self.unexpected(shard).into())
    }

    async fn feed(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        shard.validate(self.shards)?;
        let channel = || self.shared.keys.shard_channel(shard);
        let listen = || self.shared.watch.listen(channel(), Topic::feed(shard, feed));
        let read = || self.feed_now(shard, feed, after, most);
        read_or_wait(wait, LOOK_EVERY, listen, read).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        shard.validate(self.shards)?;
        let (Shared { scripts, keys, .. }, writes) = (&*self.shared, self.writes());
        Ok(entries::trim(writes, scripts, &keys.feed(shard, feed), before).await?)
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        let (Shared { scripts, keys, latest, .. }, writes) = (&*self.shared, self.writes());
        let root = keys.shard(Shard(0));
        let answer = writes.script(&scripts.time, root.as_bytes(), &[]).await;
        match answer.map_err(CallError::fault)? {
            Answer::Int(millis) => {
                let millis = u64::try_from(millis).unwrap_or_default();
                let before = latest.fetch_max(millis, Ordering::Relaxed);
                Ok(Timestamp(before.max(millis)))
            }
            _ => Err(self.unexpected(Shard(0))),
        }
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        let channel = self.shared.keys.shard_channel(shard);
        self.shared.watch.listen(channel, Topic::cell(shard, key))
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.shared.ping().await
    }
}

/// What a script says a cell holds; the outer `None` if it is nothing that a script would say.
fn value(kind: Kind, answer: Answer) -> Option<Option<Value>> {
    let contents: Bytes = match answer {
        Answer::Nil => return Some(None),
        Answer::BulkString(contents) => contents.into(),
        _ => return None,
    };
    let number = || std::str::from_utf8(&contents).ok();
    Some(Some(match kind {
        Kind::Bytes => Value::Bytes(contents),
        Kind::Counter => Value::Counter(number()?.parse().ok()?),
        Kind::Min => Value::Min(contents),
        Kind::Max => Value::Max(contents),
        Kind::Last => {
            let length = usize::from(u16::from_le_bytes(*contents.first_chunk()?));
            let rest = contents.slice(2..);
            if rest.len() < length {
                return None;
            }
            Value::Last { rank: rest.slice(..length), value: rest.slice(length..) }
        }
        Kind::Set => Value::Set(number()?.parse().ok()?),
        Kind::Distinct => Value::Distinct(number()?.parse().ok()?),
        Kind::Sketch => Value::Sketch(number()?.parse().ok()?),
    }))
}
