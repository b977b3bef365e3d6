//! The queue consumer: a role that brings the messages of an outside queue into a stream's log, and settles each
//! when it is safe there. It serves any stream: a [`MessageJudge`] turns a message into a record.
//!
//! A message that is no valid record is noted with its reason, and settled as well: it would come again and again. A
//! consumer that dies between appending and settling has its messages come again; the stream knows those with an id.

mod admission;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_kernel::{Fault, Inlet, Message, Name, Partition, Records, RecordsMut, Tag};
use futures::future::join_all;

use crate::collector::{Collector, SubmitError};
use crate::role::Role;
use crate::runtime::Runtime;
use crate::tenure::{Ended, Tenure};
pub use admission::{AdmittedRecords, QueueAdmission, Unlimited};

/// The kind of the role.
pub const KIND: &str = "queue-consumer";

/// Messages taken at once: enough that a frame of each partition carries some.
const TAKEN_MOST: usize = 500;

/// Bytes submitted together: a batch may hold more than a frame does. With any one record more it would
/// still fit.
const SUBMITTED_BYTES: usize = 1 << 20;

/// How long one take waits. It only bounds how late other things are noticed.
const TAKE_WAIT: Duration = Duration::from_secs(1);

/// The pause after something failed.
const PAUSE: Duration = Duration::from_millis(500);

/// The role that consumes the queue of a stream.
pub fn role(name: impl Into<String>) -> Role {
    Role::new(KIND, name)
}

/// What a stream makes of messages.
#[async_trait]
pub trait MessageJudge: Send + Sync {
    /// The partition and the record of a message, which is no larger than a record may be; or why it is refused.
    /// The same message always gets the same partition.
    fn judge(&self, message: &Message) -> Result<(u32, Bytes), String>;

    /// Notes refused messages where operators find them. It is called again after a fault, and may then note a
    /// message twice.
    async fn note(&self, refused: &[RefusedMessage]) -> Result<(), Fault>;
}

/// A message that is no valid record.
#[derive(Clone, Debug)]
pub struct RefusedMessage {
    /// The message.
    pub message: Message,
    /// Why.
    pub reason: String,
}

/// What a queue consumer needs.
#[derive(Clone)]
pub struct Options {
    /// The queue.
    pub inlet: Arc<dyn Inlet>,
    /// The stream that it fills.
    pub stream: Name,
    /// Turns messages into records.
    pub judge: Arc<dyn MessageJudge>,
    /// Admits the records before they are appended.
    pub admission: Arc<dyn QueueAdmission>,
    /// Appends them.
    pub collector: Collector,
    /// Timers.
    pub runtime: Arc<dyn Runtime>,
}

/// Gives a queue up when the tenure ends, in whatever way: messages that this node has in hand would else wait until its
/// process ends, and the next owner would not see them.
struct ReleasedAtEnd(Arc<dyn Inlet>);

impl Drop for ReleasedAtEnd {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Consumes until the tenure ends.
pub async fn run(options: Options, mut tenure: Tenure) -> Ended {
    let runtime = Arc::clone(&options.runtime);
    let _released = ReleasedAtEnd(Arc::clone(&options.inlet));
    let consumer = QueueConsumer(options);
    tenure.ready();
    let mut consumed = 0;
    loop {
        let turn = tokio::select! {
            biased;
            () = tenure.ending() => return Ended::Drained,
            turn = consumer.turn() => turn,
        };
        match turn {
            Ok(count) => {
                consumed += count;
                tenure.say(|gauge| (gauge.applied, gauge.trouble) = (consumed, None));
            }
            Err(fault) => {
                tenure.say(|gauge| gauge.trouble = Some(fault.to_string()));
                tokio::select! {
                    biased;
                    () = tenure.ending() => return Ended::Drained,
                    () = runtime.sleep(PAUSE) => {}
                }
            }
        }
    }
}

struct QueueConsumer(Options);

/// Messages, judged.
#[derive(Default)]
struct Judged {
    records: BTreeMap<u32, Vec<Bytes>>,
    refused: Vec<RefusedMessage>,
    tags: Vec<Tag>,
}

impl QueueConsumer {
    /// Takes some messages, and settles them when all of them are safe.
    async fn turn(&self) -> Result<u64, Fault> {
        let messages = self.0.inlet.take(TAKEN_MOST, TAKE_WAIT).await?;
        if messages.is_empty() {
            return Ok(0);
        }
        let judged = self.judge(messages);
        // Until these messages are in the log, the consumer takes no others. The queue gives them out again if it
        // dies.
        let partitions = judged.records.into_iter();
        join_all(partitions.map(|(index, records)| self.append(index, records))).await;
        if !judged.refused.is_empty() {
            while let Err(fault) = self.0.judge.note(&judged.refused).await {
                let stream = &self.0.stream;
                tracing::warn!(%stream, %fault, "refused messages could not be noted yet");
                self.0.runtime.sleep(PAUSE).await;
            }
        }
        self.0.inlet.settle(&judged.tags).await?;
        Ok(judged.tags.len() as u64)
    }

    fn judge(&self, messages: Vec<Message>) -> Judged {
        let mut judged = Judged::default();
        for message in messages {
            judged.tags.push(message.tag);
            match self.0.judge.judge(&message) {
                Ok((partition, record)) => {
                    judged.records.entry(partition).or_default().push(record)
                }
                Err(reason) => judged.refused.push(RefusedMessage { message, reason }),
            }
        }
        judged
    }

    /// Appends the records of one partition in their order. One submission is in flight, and one that failed or
    /// ended unknown is repeated before the next: so no record overtakes another of the same queue.
    async fn append(&self, index: u32, records: Vec<Bytes>) {
        let Options { stream, admission, collector, runtime, .. } = &self.0;
        let queue = collector.queue(&Partition::new(stream.clone(), index));
        let mut records = VecDeque::from(records);
        while !records.is_empty() {
            let submission = next_submission(&mut records, admission.records_most(index));
            let (count, bytes) = (submission.len() as u64, submission.bytes() as u64);
            // Admitted once, whatever number of tries it takes: the tries are of the same records.
            let admitted = admission.admit(index, count, bytes).await;
            let result = loop {
                match queue.submit(submission.clone()).await {
                    Ok(place) => break Ok(place),
                    // No frame would take it the next time either. Records and submissions are smaller than that,
                    // so this is not expected.
                    Err(SubmitError::Refused(refusal)) => {
                        tracing::error!(%stream, %refusal, "messages are left out");
                        break Err(SubmitError::Refused(refusal));
                    }
                    Err(error) => tracing::debug!(%stream, %error, "not appended yet"),
                }
                runtime.sleep(PAUSE).await;
            };
            admitted.settle(result.as_ref());
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// Takes the records of the next submission: no more than a frame takes, and no more than `most`, but at least one.
fn next_submission(records: &mut VecDeque<Bytes>, most: usize) -> Records {
    let mut submission = RecordsMut::default();
    let (mut count, mut bytes) = (0, 0);
    while (count == 0 || (count < most && bytes < SUBMITTED_BYTES))
        && let Some(record) = records.pop_front()
    {
        count += 1;
        bytes += record.len();
        submission.push(&record);
    }
    submission.freeze()
}

#[cfg(test)]
mod tests;
