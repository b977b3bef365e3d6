//! A queue of another system that fills the collection: it keeps each message until it is settled, and has one consumer at a
//! time. What the log has of it must stand in the order of the queue, repeats aside.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_cluster::Runtime as _;
use consort_cluster::queue_consumer::{MessageJudge, RefusedMessage};
use consort_glue::{PieceForm, PieceRecord};
use consort_kernel::{Fault, Inlet, LogEntry, Message, Tag};
use parking_lot::Mutex;

use super::stage::{IDS, partition};
use crate::runtime::NodeRuntime;

/// The name of the queue, and the tenant whose pieces it has.
pub(super) const QUEUE: &str = "pieces";
const TENANT: &str = "queue";

/// Between two messages that come.
const EVERY: Duration = Duration::from_millis(300);

/// A consumer that was not heard of for so long has lost its connection.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// Between two looks at an empty queue.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Messages that are out at once.
const OUT_MOST: usize = 20;

/// The queue.
#[derive(Debug, Default)]
pub(super) struct SimQueue(Mutex<Messages>);

#[derive(Debug, Default)]
struct Messages {
    /// The number of the next message that comes.
    next: u64,
    /// When it comes.
    due: Duration,
    is_over: bool,
    ready: VecDeque<u64>,
    /// Sessions with the messages that they have, the one of the consumer alone unless consumers are not kept apart.
    sessions: BTreeMap<u64, Session>,
    sessions_so_far: u64,
}

#[derive(Debug)]
struct Session {
    node: u32,
    life: u64,
    heard: Duration,
    out: BTreeSet<u64>,
}

impl SimQueue {
    /// No more messages come.
    pub(super) fn stop(&self) {
        self.0.lock().is_over = true;
    }

    /// Messages that are not settled.
    pub(super) fn unsettled(&self) -> usize {
        let messages = self.0.lock();
        let out: usize = messages.sessions.values().map(|session| session.out.len()).sum();
        messages.ready.len() + out
    }

    /// Compares with a partition's log: the numbers of the messages in it stand in their order, repeats aside, and none is
    /// missing.
    pub(super) fn holds(&self, index: u32, entries: &[&LogEntry]) -> Result<u64, String> {
        let (mut last, mut count) = (None, 0);
        let mut expected = (0..self.0.lock().next).filter(|number| of_message(*number).0 == index);
        for record in entries.iter().flat_map(|entry| entry.frame.records.iter()) {
            let Some(number) = numbered(record) else { continue };
            if last.is_some_and(|last| number <= last) {
                continue;
            }
            let next = expected.next();
            if next != Some(number) {
                return Err(format!(
                    "message {number} was stored behind message {last:?} in partition {index}, and not {next:?}"
                ));
            }
            (last, count) = (Some(number), count + 1);
        }
        match expected.next() {
            Some(missing) => Err(format!("message {missing} is settled and was not stored behind")),
            None => Ok(count),
        }
    }
}

impl Messages {
    /// Messages that have come by now.
    fn come(&mut self, now: Duration) {
        while !self.is_over && self.due <= now {
            self.ready.push_back(self.next);
            self.next += 1;
            self.due += EVERY;
        }
    }

    /// Ends sessions: what they have comes again, before all others.
    fn end(&mut self, is_ended: impl Fn(u64, &Session) -> bool) {
        let ended: Vec<u64> = self
            .sessions
            .iter()
            .filter(|(number, session)| is_ended(**number, session))
            .map(|(number, _)| *number)
            .collect();
        for number in ended {
            let Some(session) = self.sessions.remove(&number) else { continue };
            self.ready.extend(session.out);
        }
        self.ready.make_contiguous().sort_unstable();
    }
}

/// A node's way to the queue.
pub(super) struct SimInlet {
    queue: Arc<SimQueue>,
    runtime: Arc<NodeRuntime>,
    /// Whether consumers are kept apart.
    is_exclusive: bool,
    session: Mutex<Option<u64>>,
}

impl SimInlet {
    pub(super) fn new(
        queue: Arc<SimQueue>,
        runtime: Arc<NodeRuntime>,
        is_exclusive: bool,
    ) -> SimInlet {
        SimInlet { queue, runtime, is_exclusive, session: Mutex::default() }
    }

    fn try_take(&self, most: usize) -> Result<Vec<Message>, Fault> {
        let (now, node, life) =
            (self.runtime.handle().now(), self.runtime.node(), self.runtime.life());
        let mut messages = self.queue.0.lock();
        messages.come(now);
        messages
            .end(|_, one| now - one.heard > SILENT_FOR || (one.node == node && one.life != life));
        let mut own = self.session.lock();
        let open = own.filter(|number| messages.sessions.contains_key(number));
        let number = match open {
            Some(number) => number,
            None if self.is_exclusive && !messages.sessions.is_empty() => {
                return Err(Fault::Retryable("the queue is in exclusive use (injected)".into()));
            }
            None => {
                messages.sessions_so_far += 1;
                let session = Session { node, life, heard: now, out: BTreeSet::new() };
                let number = messages.sessions_so_far;
                messages.sessions.insert(number, session);
                *own = Some(number);
                number
            }
        };
        let most = most.min(OUT_MOST).min(messages.ready.len());
        let taken: Vec<u64> = messages.ready.drain(..most).collect();
        if let Some(session) = messages.sessions.get_mut(&number) {
            session.heard = now;
            session.out.extend(&taken);
        }
        let message = |taken: u64| Message {
            body: Bytes::from(taken.to_string()),
            id: Some(format!("m{taken}")),
            tag: Tag::new(number, taken),
            redelivered: false,
        };
        Ok(taken.into_iter().map(message).collect())
    }
}

#[async_trait]
impl Inlet for SimInlet {
    async fn take(&self, most: usize, wait: Duration) -> Result<Vec<Message>, Fault> {
        let taken = self.try_take(most)?;
        if taken.is_empty() {
            self.runtime.sleep(wait.min(LOOK_EVERY)).await;
        }
        Ok(taken)
    }

    async fn settle(&self, tags: &[Tag]) -> Result<(), Fault> {
        let mut messages = self.queue.0.lock();
        for tag in tags {
            if let Some(session) = messages.sessions.get_mut(&tag.session()) {
                session.out.remove(&tag.number());
                session.heard = self.runtime.handle().now();
            }
        }
        Ok(())
    }

    fn release(&self) {
        if let Some(own) = self.session.lock().take() {
            self.queue.0.lock().end(|number, _| number == own);
        }
    }
}

impl fmt::Debug for SimInlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimInlet").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// Makes pieces of messages.
#[derive(Debug)]
pub(super) struct SimJudge;

#[async_trait]
impl MessageJudge for SimJudge {
    fn judge(&self, message: &Message) -> Result<(u32, Bytes), String> {
        let text = std::str::from_utf8(&message.body).map_err(|error| error.to_string())?;
        let number: u64 = text.parse().map_err(|_| "no number".to_owned())?;
        let (index, id) = of_message(number);
        let content = format!(r#"{{"message":{number}}}"#);
        let record = PieceRecord {
            tenant: TENANT,
            id,
            form: PieceForm::MergePatch,
            key: message.id.as_deref(),
            source: None,
            condition: None,
            wanted: false,
            content: content.as_bytes(),
        };
        Ok((index, record.encode().into()))
    }

    async fn note(&self, _: &[RefusedMessage]) -> Result<(), Fault> {
        Ok(())
    }
}

/// The partition and the document of a message.
fn of_message(number: u64) -> (u32, &'static str) {
    let id = IDS[(number % IDS.len() as u64) as usize];
    (partition(TENANT, id), id)
}

fn numbered(record: &[u8]) -> Option<u64> {
    let piece = PieceRecord::decode(record).ok().filter(|piece| piece.tenant == TENANT)?;
    let text = std::str::from_utf8(piece.content).ok()?;
    text.split(|c: char| !c.is_ascii_digit()).find_map(|digits| digits.parse().ok())
}
