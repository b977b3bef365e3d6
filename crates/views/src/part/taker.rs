//! The taker of a stream: brings the messages of somebody else's queue into the log, and settles each when
//! it is safe there.
//!
//! A message that is no valid event goes to the stream's list of refused ones, and is settled as well: it
//! would come again and again. A taker that dies between appending and settling has its messages come
//! again; those with an id, their own or the stream's, count once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::{Collector, Ended, Runtime, Tenure};
use consort_kernel::limits::RECORD_BYTES;
use consort_kernel::{
    AppendError, CommitError, Fault, Inlet, Message, Records, RecordsMut, Store, Tag,
};
use futures::future::join_all;

use crate::refused::{self, Refused};
use crate::stream::Stream;

/// Messages taken at once: enough that a frame of each partition carries some.
const TAKEN_MOST: usize = 500;

/// Bytes submitted together: a batch may hold more than a frame does. With any one record more it would
/// still fit.
const SUBMITTED_BYTES: usize = 1 << 20;

/// How long one take waits. It only bounds how late other things are noticed.
const TAKE_WAIT: Duration = Duration::from_secs(1);

/// The pause after something failed.
const PAUSE: Duration = Duration::from_millis(500);

/// What a taker needs.
pub(super) struct Taker {
    pub(super) inlet: Arc<dyn Inlet>,
    pub(super) stream: Arc<Stream>,
    pub(super) store: Arc<dyn Store>,
    pub(super) collector: Collector,
    pub(super) runtime: Arc<dyn Runtime>,
}

/// Messages, judged.
#[derive(Default)]
struct Judged {
    records: BTreeMap<u32, Vec<Bytes>>,
    refused: Vec<Refused>,
    tags: Vec<Tag>,
}

impl Taker {
    /// Takes until the tenure ends.
    pub(super) async fn run(self, mut tenure: Tenure) -> Ended {
        tenure.ready();
        let mut taken = 0;
        loop {
            let turn = tokio::select! {
                biased;
                () = tenure.ending() => return Ended::Drained,
                turn = self.turn() => turn,
            };
            match turn {
                Ok(count) => {
                    taken += count;
                    tenure.say(|gauge| (gauge.applied, gauge.trouble) = (taken, None));
                }
                Err(fault) => {
                    tenure.say(|gauge| gauge.trouble = Some(fault.to_string()));
                    tokio::select! {
                        biased;
                        () = tenure.ending() => return Ended::Drained,
                        () = self.runtime.sleep(PAUSE) => {}
                    }
                }
            }
        }
    }

    /// Takes some messages, and settles them when all of them are safe.
    async fn turn(&self) -> Result<u64, Fault> {
        let messages = self.inlet.take(TAKEN_MOST, TAKE_WAIT).await?;
        if messages.is_empty() {
            return Ok(0);
        }
        let judged = self.judge(messages).await?;
        // Until they are in the log, these messages are this taker's: it does not take others meanwhile.
        // The queue gives them out again if it dies.
        self.append(submissions(judged.records)).await;
        while let Err(fault) = refused::note(&*self.store, &self.stream.name, &judged.refused).await
        {
            tracing::warn!(stream = %self.stream.name, %fault, "refused messages could not be noted yet");
            self.runtime.sleep(PAUSE).await;
        }
        self.inlet.settle(&judged.tags).await?;
        Ok(judged.tags.len() as u64)
    }

    async fn judge(&self, messages: Vec<Message>) -> Result<Judged, Fault> {
        let now = self.store.now().await?;
        let mut judged = Judged::default();
        for message in messages {
            judged.tags.push(message.tag);
            match self.record(&message) {
                Ok((partition, record)) => {
                    judged.records.entry(partition).or_default().push(record)
                }
                Err(reason) => {
                    judged.refused.push(Refused::new(&message.body, message.id, reason, now));
                }
            }
        }
        Ok(judged)
    }

    fn record(&self, message: &Message) -> Result<(u32, Bytes), String> {
        let taken = self.stream.schema.take(&message.body);
        let mut event = taken.map_err(|rejection| rejection.to_string())?;
        // An empty id is what some clients send when they have none.
        let id = message.id.clone().filter(|id| !id.is_empty());
        event.id = id.or_else(|| self.stream.id_in(&event));
        let record = event.encode();
        if record.len() > RECORD_BYTES {
            return Err(format!("the event is larger than {RECORD_BYTES} bytes"));
        }
        Ok((self.stream.partition_for(&event, &record), record))
    }

    /// Appends all of them, again and again until it is done.
    async fn append(&self, mut submissions: Vec<(u32, Records)>) {
        loop {
            let appends = submissions.into_iter().map(async |(index, records)| {
                let partition = self.stream.partition(index);
                let appended = self.collector.submit(&partition, records.clone()).await;
                (index, records, appended)
            });
            submissions = Vec::new();
            for (index, records, appended) in join_all(appends).await {
                match appended {
                    Ok(_) => {}
                    // One that no frame takes would not be taken the next time either. Records and
                    // submissions are smaller than that, so this is not expected.
                    Err(AppendError::Refused(refusal)) => {
                        tracing::error!(stream = %self.stream.name, %refusal, "messages are left out");
                    }
                    Err(error) => {
                        tracing::debug!(stream = %self.stream.name, %error, "not appended yet");
                        submissions.push((index, records));
                    }
                }
            }
            if submissions.is_empty() {
                return;
            }
            self.runtime.sleep(PAUSE).await;
        }
    }
}

/// The records of each partition in their order, in parts that a frame takes.
fn submissions(records: BTreeMap<u32, Vec<Bytes>>) -> Vec<(u32, Records)> {
    let mut submissions: Vec<(u32, RecordsMut)> = Vec::new();
    for (index, records) in records {
        let mut bytes = usize::MAX;
        for record in records {
            match submissions.last_mut().filter(|_| bytes < SUBMITTED_BYTES) {
                Some((_, open)) => {
                    bytes += record.len();
                    open.push(&record);
                }
                None => {
                    bytes = record.len();
                    let mut open = RecordsMut::default();
                    open.push(&record);
                    submissions.push((index, open));
                }
            }
        }
    }
    submissions.into_iter().map(|(index, records)| (index, records.freeze())).collect()
}

impl From<refused::NoteError> for Fault {
    fn from(error: refused::NoteError) -> Self {
        match error.0 {
            CommitError::Engine(fault) | CommitError::Unknown(fault) => fault,
            other => Fault::Retryable(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submissions_fit_a_frame_and_keep_the_order() {
        let record = |number: u8, bytes: usize| Bytes::from(vec![number; bytes]);
        let large = RECORD_BYTES;
        let records = BTreeMap::from([
            (
                3,
                vec![
                    record(1, 10),
                    record(2, large),
                    record(3, large),
                    record(4, 10),
                    record(5, 10),
                ],
            ),
            (7, vec![record(6, SUBMITTED_BYTES), record(7, 1)]),
        ]);
        let shown: Vec<(u32, Vec<u8>)> = submissions(records)
            .iter()
            .map(|(index, records)| (*index, records.iter().map(|record| record[0]).collect()))
            .collect();
        let expected = [(3, vec![1, 2]), (3, vec![3]), (3, vec![4, 5]), (7, vec![6]), (7, vec![7])];
        assert_eq!(shown, expected);
        assert_eq!(submissions(BTreeMap::new()), []);
    }
}
