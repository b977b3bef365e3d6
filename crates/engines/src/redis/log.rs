//! `Log` on Redis: a partition is a stream.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_kernel::{
    AppendError, Cursor, Digest, Fault, Frame, Log, LogEntry, Most, Partition, ReadError, Topic,
    read_or_wait, sound,
};

use super::link::CallError;
use super::{LOOK_EVERY, Shared, entries};

/// Streams on a Redis server or cluster.
#[derive(Clone, Debug)]
pub struct RedisLog {
    shared: Arc<Shared>,
}

impl RedisLog {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        RedisLog { shared }
    }

    async fn read_now(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
    ) -> Result<Vec<LogEntry>, ReadError> {
        let Shared { reads, scripts, keys, .. } = &*self.shared;
        let stored = entries::read(reads, scripts, &keys.partition(at), after, most).await?;
        sound(stored.iter().map(|entry| LogEntry::from_stored(at, entry.number, &entry.contents)))
    }
}

#[async_trait]
impl Log for RedisLog {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        let bytes = frame.encode()?;
        let Shared { writes, scripts, keys, .. } = &*self.shared;
        let digest = Digest::of(&bytes);
        let channel = keys.partition_channel(at);
        let message = Topic::partition(at).0.to_le_bytes();
        let arguments = [&bytes[..], &digest.0, channel.as_bytes(), &message];
        let key = keys.partition(at);
        match writes.script(&scripts.append, key.as_bytes(), &arguments).await {
            Ok(_) => Ok(()),
            Err(CallError::NotDone(fault)) => Err(AppendError::Engine(fault)),
            Err(CallError::Unknown(fault)) => Err(AppendError::Unknown(fault)),
        }
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        let channel = || self.shared.keys.partition_channel(at);
        let listen = || self.shared.watch.listen(channel(), Topic::partition(at));
        let read = || self.read_now(at, after, most);
        read_or_wait(wait, LOOK_EVERY, listen, read).await
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        let Shared { reads, scripts, keys, .. } = &*self.shared;
        entries::first(reads, scripts, &keys.partition(at)).await
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        let Shared { writes, scripts, keys, .. } = &*self.shared;
        entries::trim(writes, scripts, &keys.partition(at), before).await
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.shared.ping().await
    }
}
