//! `Log` on the embedded engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_kernel::limits::FRAME_BYTES;
use consort_kernel::{
    AppendError, Cursor, Digest, Fault, Frame, Log, LogEntry, Most, Partition, ReadError, Topic,
    read_or_wait, sound,
};
use futures::future::join_all;
use tokio::sync::oneshot;

use super::queue::{Job, StoredFrame};
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

    /// Has the writer write a parcel; answers with its places and what became of it.
    async fn send(&self, parcel: Parcel) -> (Vec<usize>, Result<(), AppendError>) {
        let Parcel { frames, bytes, places } = parcel;
        if let Err(fault) = self.shared.healthy() {
            return (places, Err(AppendError::Engine(fault)));
        }
        let (job, answer) = Job::append(frames);
        if !self.shared.queue.push(job, bytes).await {
            return (places, Err(AppendError::Engine(self.shared.ended())));
        }
        let outcome = match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(fault)) => Err(AppendError::Unknown(fault)),
            // The writer ended, perhaps by a panic in the middle of this very job.
            Err(_) => Err(AppendError::Unknown(self.shared.ended())),
        };
        (places, outcome)
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
                let Shared { tables, published, .. } = shared;
                let stored = entries::read(tables, published, true, &prefix, &after, most, &place)?;
                sound(stored.iter().map(|entry| decode(&at, entry)))
            })
            .await
    }
}

/// Bytes of frames that the writer gets at once, if they are several: as many as one may have. Whatever it gets at
/// once is in one batch.
const PARCEL_BYTES: usize = FRAME_BYTES;

/// Frames that the writer gets as one job.
#[derive(Default)]
struct Parcel {
    frames: Vec<StoredFrame>,
    bytes: usize,
    /// Where their outcomes are wanted.
    places: Vec<usize>,
}

impl Parcel {
    fn add(&mut self, at: &Partition, frame: &[u8], place: usize) {
        self.bytes += frame.len();
        self.frames.push(StoredFrame::new(at, frame));
        self.places.push(place);
    }
}

/// The frames in as few parcels as hold them, and the outcomes of those that are refused; of the others nothing is
/// known yet.
fn parcels(frames: &[(Partition, Frame)]) -> (Vec<Result<(), AppendError>>, Vec<Parcel>) {
    let unsent = || AppendError::Engine(Fault::Retryable("it was not sent".into()));
    let mut outcomes: Vec<_> = frames.iter().map(|_| Err(unsent())).collect();
    let mut parcels: Vec<Parcel> = Vec::new();
    for (place, (at, frame)) in frames.iter().enumerate() {
        let bytes = match frame.encode() {
            Ok(bytes) => bytes,
            Err(refusal) => {
                outcomes[place] = Err(refusal.into());
                continue;
            }
        };
        match parcels.last_mut().filter(|last| last.bytes + bytes.len() <= PARCEL_BYTES) {
            Some(last) => last.add(at, &bytes, place),
            None => {
                let mut parcel = Parcel::default();
                parcel.add(at, &bytes, place);
                parcels.push(parcel);
            }
        }
    }
    (outcomes, parcels)
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
        let mut parcel = Parcel::default();
        parcel.add(at, &frame.encode()?, 0);
        self.send(parcel).await.1
    }

    async fn append_all(&self, frames: &[(Partition, Frame)]) -> Vec<Result<(), AppendError>> {
        let (mut outcomes, parcels) = parcels(frames);
        for (places, outcome) in join_all(parcels.into_iter().map(|it| self.send(it))).await {
            places.into_iter().for_each(|place| outcomes[place] = outcome.clone());
        }
        outcomes
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

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use consort_kernel::limits::RECORD_BYTES;
    use consort_kernel::{FrameKind, Producer, Timestamp};

    fn frames(sizes: &[usize]) -> Vec<(Partition, Frame)> {
        let frame = |(index, size): (usize, &usize)| {
            let records = vec![Bytes::from(vec![7; *size])].into();
            let (kind, producer, time) = (FrameKind::Events, Producer(1), Timestamp(1));
            let at = Partition::new("s".parse().unwrap(), index as u32);
            (at, Frame { kind, producer, sequence: 0, time, records })
        };
        sizes.iter().enumerate().map(frame).collect()
    }

    #[test]
    fn the_writer_gets_the_frames_of_a_round_at_once_unless_they_are_large() {
        let places = |sizes: &[usize]| {
            let parcels = parcels(&frames(sizes)).1;
            assert!(parcels.iter().all(|it| it.bytes <= PARCEL_BYTES));
            parcels.into_iter().map(|it| it.places).collect::<Vec<_>>()
        };
        assert_eq!(places(&[]), Vec::<Vec<usize>>::new());
        assert_eq!(places(&[100; 8]), [(0..8).collect::<Vec<_>>()]);
        let large = RECORD_BYTES;
        assert_eq!(places(&[100, large, large, large, 100]), [vec![0, 1], vec![2], vec![3, 4]]);
        assert_eq!(places(&[100, large + 1, 100]), [vec![0, 2]], "what is refused is in none");
    }
}
