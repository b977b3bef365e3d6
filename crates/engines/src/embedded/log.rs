//! `Log` on the embedded engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_kernel::{
    AppendError, Cursor, Digest, Fault, Frame, Log, LogEntry, Most, Partition, ReadError, Topic,
    read_or_wait, sound,
};
use tokio::sync::oneshot;

use super::queue::Job;
use super::{Shared, entries, rows};

/// Streams in a folder.
#[derive(Clone, Debug)]
pub struct EmbeddedLog {
    shared: Arc<Shared>,
}

impl EmbeddedLog {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        EmbeddedLog { shared }
    }

    async fn read_now(
        &self,
        at: &Partition,
        after: Cursor,
        most: Most,
    ) -> Result<Vec<LogEntry>, ReadError> {
        let at = at.clone();
        self.shared
            .read(move |shared| {
                let place = format!("stream partition {at}");
                let prefix = rows::partition(&at);
                let stored = entries::read(&shared.tables, true, &prefix, &after, most, &place)?;
                sound(stored.iter().map(|entry| decode(&at, entry)))
            })
            .await
    }
}

/// Checks and decodes one entry.
fn decode(at: &Partition, entry: &entries::Stored) -> Result<LogEntry, ReadError> {
    let read = LogEntry::from_stored(at, entry.number, &entry.contents)?;
    if Digest::from_slice(&entry.digest) != Some(read.digest) {
        return Err(ReadError::Corrupt {
            place: format!("stream partition {at}"),
            number: entry.number,
            reason: "its digest does not match".into(),
        });
    }
    Ok(read)
}

#[async_trait]
impl Log for EmbeddedLog {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        let bytes = frame.encode()?;
        self.shared.healthy().map_err(AppendError::Engine)?;
        let size = bytes.len();
        let (job, answer) = Job::append(at, bytes);
        if !self.shared.queue.push(job, size).await {
            return Err(AppendError::Engine(self.shared.ended()));
        }
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(fault)) => Err(AppendError::Unknown(fault)),
            // The writer ended, perhaps by a panic in the middle of this very job.
            Err(_) => Err(AppendError::Unknown(self.shared.ended())),
        }
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        let listen = || self.shared.wakes.listen(Topic::partition(at));
        let read = || self.read_now(at, *after, most);
        read_or_wait(wait, Duration::MAX, listen, read).await
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        let prefix = rows::partition(at);
        let first = self.shared.read(move |shared| entries::first(&shared.tables, true, &prefix));
        first.await.map_err(|error| entries::failed(&error))
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        self.shared.trim(true, rows::partition(at), before).await
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.shared.healthy()
    }
}

impl Shared {
    /// Why the writer takes no more work.
    pub(super) fn ended(&self) -> Fault {
        let reason = self.poison.reason();
        Fault::Fatal(reason.unwrap_or_else(|| "the embedded engine is closed".into()))
    }

    /// Lets go of the entries of a partition (`log`) or feed below a number.
    pub(super) async fn trim(&self, log: bool, prefix: Vec<u8>, before: u64) -> Result<(), Fault> {
        self.healthy()?;
        let (reply, answer) = oneshot::channel();
        if !self.queue.push(Job::Trim { log, prefix, before, reply }, 0).await {
            return Err(self.ended());
        }
        answer.await.unwrap_or_else(|_| Err(self.ended()))
    }
}
