//! Requests of several submissions, each with its deadline, and what the log may hold of them: always a beginning of the
//! request, and no try that was sent after its deadline.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use consort_cluster::{
    Appending, Collector, Place, Runtime as _, SubmitError, SubmitOptions, Ticket,
};
use consort_glue::{PieceForm, PieceRecord};
use consort_kernel::{
    AppendError, Cursor, Fault, Frame, Log, LogEntry, Most, Partition, ReadError, Records,
};
use parking_lot::Mutex;

use super::stage::{GlueStage, IDS, partition};
use crate::dice::Dice;
use crate::outcome::Coverage;
use crate::runtime::NodeRuntime;

/// The tenant of all requests: the records of other tenants have no deadlines.
const TENANT: &str = "bulk";

/// Submissions of one request, at most.
const SUBMISSIONS: u64 = 6;

/// The longest time that a submission may take: many are over before a slow log has answered.
const WITHIN: Duration = Duration::from_millis(400);

/// The longest pause between two submissions of a request, and between two requests.
const BETWEEN: Duration = Duration::from_millis(30);
const PAUSE: Duration = Duration::from_millis(3_000);

/// What a sender was told of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Stored,
    NotStored,
    Unknown,
}

#[derive(Debug)]
struct Request {
    partition: u32,
    submissions: Vec<Told>,
}

/// All requests of a run.
#[derive(Debug, Default)]
pub(super) struct Requests {
    next: AtomicU64,
    sent: Mutex<BTreeMap<u64, Request>>,
    /// A frame that was sent after a deadline, if there was one.
    late: Mutex<Option<String>>,
}

/// One submission as its record says it.
#[derive(Clone, Copy, Debug)]
struct Marked {
    request: u64,
    number: u64,
    /// Microseconds of virtual time.
    until: u64,
}

impl Marked {
    fn content(self) -> String {
        let Marked { request, number, until } = self;
        format!(r#"{{"request":{request},"number":{number},"until":{until}}}"#)
    }

    fn decode(record: &[u8]) -> Option<Marked> {
        let piece = PieceRecord::decode(record).ok().filter(|piece| piece.tenant == TENANT)?;
        let text = std::str::from_utf8(piece.content).ok()?;
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
        let (request, number, until) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some(Marked { request, number, until })
    }
}

/// Sends requests until the run is over. The submissions of one are for one partition and share a ticket.
pub(super) async fn send_requests(
    stage: Arc<GlueStage>,
    collector: Collector,
    runtime: Arc<NodeRuntime>,
    dice: Dice,
    tickets: fn() -> Ticket,
) {
    while !stage.is_stopped() {
        let id = IDS[dice.below(IDS.len() as u64) as usize];
        let index = partition(TENANT, id);
        let request = stage.requests.begin(index);
        let (queue, ticket) = (collector.queue(&stage.partition(index)), tickets());
        let mut appendings = Vec::new();
        for number in 0..=dice.below(SUBMISSIONS) {
            let within = dice.time(WITHIN);
            let until = (runtime.handle().now() + within).as_micros() as u64;
            stage.requests.note(request, number, Told::Nothing);
            let records = record(id, Marked { request, number, until });
            let options = SubmitOptions { ticket: Some(&ticket), within: Some(within) };
            appendings.push((number, queue.enqueue(records, options)));
            if dice.per_mille(500) {
                runtime.sleep(dice.time(BETWEEN)).await;
            }
        }
        for (number, appending) in appendings {
            stage.requests.note(request, number, told(appending).await);
        }
        runtime.sleep(dice.time(PAUSE)).await;
    }
}

fn record(id: &str, marked: Marked) -> Records {
    let content = marked.content();
    let record = PieceRecord {
        tenant: TENANT,
        id,
        form: PieceForm::MergePatch,
        key: None,
        source: None,
        condition: None,
        wanted: false,
        content: content.as_bytes(),
    };
    let record = record.encode();
    Records::one(|buffer| buffer.extend_from_slice(&record))
}

async fn told(appending: Result<Appending, SubmitError>) -> Told {
    let result: Result<Place, SubmitError> = match appending {
        Ok(appending) => appending.await,
        Err(error) => Err(error),
    };
    match result {
        Ok(_) => Told::Stored,
        Err(SubmitError::Unknown(_)) => Told::Unknown,
        Err(SubmitError::NotStored(_) | SubmitError::Refused(_)) => Told::NotStored,
    }
}

impl Requests {
    fn begin(&self, partition: u32) -> u64 {
        let request = self.next.fetch_add(1, Ordering::Relaxed);
        self.sent.lock().insert(request, Request { partition, submissions: Vec::new() });
        request
    }

    fn note(&self, request: u64, number: u64, told: Told) {
        let mut sent = self.sent.lock();
        let Some(request) = sent.get_mut(&request) else { return };
        match request.submissions.get_mut(number as usize) {
            Some(submission) => *submission = told,
            None => request.submissions.push(told),
        }
    }

    fn note_sent(&self, frame: &Frame, at: &Partition, now: Duration) {
        let now = now.as_micros() as u64;
        let late = frame.records.iter().filter_map(Marked::decode).find(|one| one.until < now);
        if let Some(Marked { request, number, until }) = late {
            self.late.lock().get_or_insert_with(|| {
                format!(
                    "submission {number} of request {request} was sent to {at} {} µs after its deadline",
                    now - until
                )
            });
        }
    }

    /// Compares with a partition's log, of which repeated frames are left out.
    pub(super) fn hold(
        &self,
        partition: u32,
        entries: &[&LogEntry],
        coverage: &mut Coverage,
    ) -> Result<(), String> {
        if let Some(late) = self.late.lock().take() {
            return Err(late);
        }
        let mut stored: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let records = entries.iter().flat_map(|entry| entry.frame.records.iter());
        for Marked { request, number, .. } in records.filter_map(Marked::decode) {
            stored.entry(request).or_default().push(number);
        }
        let sent = self.sent.lock();
        for (id, request) in sent.iter().filter(|(_, request)| request.partition == partition) {
            let found = stored.remove(id).unwrap_or_default();
            if !found.iter().copied().eq(0..found.len() as u64) {
                return Err(format!(
                    "request {id} was stored behind a submission that failed: {found:?} of {:?}",
                    request.submissions
                ));
            }
            for (number, told) in (0..).zip(&request.submissions) {
                let is_stored = found.contains(&number);
                let is_right = match told {
                    Told::Stored => is_stored,
                    Told::NotStored => !is_stored,
                    Told::Nothing | Told::Unknown => true,
                };
                if !is_right {
                    return Err(format!(
                        "submission {number} of request {id}: told {told:?}, stored: {is_stored}"
                    ));
                }
            }
            let is_cut = !found.is_empty() && found.len() < request.submissions.len();
            coverage.add("requests", 1);
            coverage.add("requests that failed in the middle", is_cut.into());
        }
        Ok(())
    }
}

/// The log as a node sees it, where each try to append is looked at before it is sent.
pub(super) struct WatchedLog {
    inner: Arc<dyn Log>,
    runtime: Arc<NodeRuntime>,
    stage: Arc<GlueStage>,
}

impl WatchedLog {
    pub(super) fn new(
        inner: Arc<dyn Log>,
        runtime: Arc<NodeRuntime>,
        stage: Arc<GlueStage>,
    ) -> Self {
        WatchedLog { inner, runtime, stage }
    }
}

#[async_trait]
impl Log for WatchedLog {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        self.stage.requests.note_sent(frame, at, self.runtime.handle().now());
        self.inner.append(at, frame).await
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        self.inner.read(at, after, most, wait).await
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        self.inner.first(at).await
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        self.inner.trim(at, before).await
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.inner.ping().await
    }
}

impl fmt::Debug for WatchedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedLog").field("inner", &self.inner).finish_non_exhaustive()
    }
}
