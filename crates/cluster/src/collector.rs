//! The collector: group commit for the door. What arrives while a frame is on its way goes into the next
//! one, so that one fsync or one confirm acknowledges many requests.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use consort_kernel::limits::{FRAME_BYTES, RECORD_BYTES};
use consort_kernel::{AppendError, Fault, Partition, Records, Refusal};
use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::appender::{Appender, Place};
use crate::lanes::Lanes;
use crate::runtime::Runtime;

/// What one frame takes of records: below the bound of a frame, with room for its header.
const FRAME_ROOM: usize = FRAME_BYTES - 1024;

/// What each record costs in a frame beside its bytes.
const RECORD_COST: usize = 8;

/// Bytes of records that may wait for one partition. Beyond it a submission is refused at once: the log is
/// far too slow for what comes, and memory must stay bounded whatever the gate does.
pub const WAITING_BYTES: usize = 16 << 20;

/// Collects records into frames, one in flight for each partition.
#[derive(Clone)]
pub struct Collector(Arc<Shared>);

struct Shared {
    appender: Arc<Appender>,
    runtime: Arc<dyn Runtime>,
    /// How long the first record of a frame waits for others.
    linger: Duration,
    lanes: Lanes,
    lines: Mutex<BTreeMap<Partition, Arc<Mutex<Waiting>>>>,
    due: Mutex<Due>,
}

/// Partitions whose first record has come. One timer serves all of them: a timer for each would cost more
/// than the frames do.
#[derive(Default)]
struct Due {
    lines: Vec<(Partition, Arc<Mutex<Waiting>>)>,
    /// Whether a task is about to send for them.
    awaited: bool,
}

/// What waits for one partition's next frames.
#[derive(Default)]
struct Waiting {
    submissions: Vec<Submission>,
    bytes: usize,
    /// Whether a task is sending.
    sending: bool,
}

struct Submission {
    records: Records,
    bytes: usize,
    answer: oneshot::Sender<Result<Place, AppendError>>,
}

impl Collector {
    /// A collector that appends through `appender`.
    pub fn new(
        appender: Arc<Appender>,
        runtime: Arc<dyn Runtime>,
        linger: Duration,
        lanes: Lanes,
    ) -> Self {
        let (lines, due) = (Mutex::default(), Mutex::default());
        Collector(Arc::new(Shared { appender, runtime, linger, lanes, lines, due }))
    }

    /// Has these records appended, all in one frame, together with what others submit. Returns when they
    /// are durable. If the caller goes away, they are appended nevertheless.
    pub async fn submit(
        &self,
        at: &Partition,
        records: impl Into<Records>,
    ) -> Result<Place, AppendError> {
        self.enqueue(at, records.into())?.await
    }

    /// As [`submit`](Collector::submit), for a caller with more to come: the records have their place in
    /// the order when this returns, and are durable when the answer has come.
    pub fn enqueue(&self, at: &Partition, records: Records) -> Result<Appending, AppendError> {
        let bytes = weigh(&records)?;
        let (answer, answered) = oneshot::channel();
        let line = Arc::clone(self.0.lines.lock().entry(at.clone()).or_default());
        {
            let mut waiting = line.lock();
            if waiting.bytes + bytes > WAITING_BYTES && !waiting.submissions.is_empty() {
                let fault = "more records wait for this partition than the log takes";
                return Err(AppendError::Engine(Fault::Retryable(fault.into())));
            }
            waiting.bytes += bytes;
            waiting.submissions.push(Submission { records, bytes, answer });
            if std::mem::replace(&mut waiting.sending, true) {
                return Ok(Appending(answered));
            }
        }
        let mut due = self.0.due.lock();
        due.lines.push((at.clone(), line));
        if !std::mem::replace(&mut due.awaited, true) {
            let shared = Arc::clone(&self.0);
            // It ends by itself.
            drop(self.0.runtime.start("collector", send_due(shared).boxed()));
        }
        Ok(Appending(answered))
    }
}

/// Records on their way into the log.
#[derive(Debug)]
pub struct Appending(oneshot::Receiver<Result<Place, AppendError>>);

impl Future for Appending {
    type Output = Result<Place, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(answered.unwrap_or_else(|_| {
            let fault = "the node stopped before the log answered";
            Err(AppendError::Unknown(Fault::Retryable(fault.into())))
        }))
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

/// After a moment, begins to send for all partitions that are due.
async fn send_due(shared: Arc<Shared>) {
    if !shared.linger.is_zero() {
        shared.runtime.sleep(shared.linger).await;
    }
    let lines = {
        let mut due = shared.due.lock();
        due.awaited = false;
        std::mem::take(&mut due.lines)
    };
    for (at, line) in lines {
        let sending = send(Arc::clone(&shared), at, line);
        // It ends by itself when nothing waits any more.
        drop(shared.runtime.start("collector", sending.boxed()));
    }
}

/// Sends frames until nothing waits.
async fn send(shared: Arc<Shared>, at: Partition, line: Arc<Mutex<Waiting>>) {
    let mut last = None;
    loop {
        // What comes while a frame waits goes with it.
        shared.lanes.space_out(last, &*shared.runtime).await;
        let lane = shared.lanes.enter().await;
        let Some(batch) = line.lock().next_frame() else { return };
        let (records, answers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|one| (one.records, one.answer)).unzip();
        let records = Records::joined(records);
        last = Some(shared.runtime.elapsed());
        let result = lane.hold(&*shared.runtime, shared.appender.events(&at, records)).await;
        for answer in answers {
            // Whoever went away does not want to know.
            let _ = answer.send(result.clone());
        }
    }
}

impl Waiting {
    /// The submissions of the next frame, in their order; none ends the sending.
    fn next_frame(&mut self) -> Option<Vec<Submission>> {
        let mut room = FRAME_ROOM;
        let fitting = self.submissions.iter().take_while(|one| {
            let fits = one.bytes <= room;
            room = room.saturating_sub(one.bytes);
            fits
        });
        let count = fitting.count();
        if count == 0 {
            self.sending = false;
            return None;
        }
        let batch: Vec<Submission> = self.submissions.drain(..count).collect();
        self.bytes -= batch.iter().map(|one| one.bytes).sum::<usize>();
        Some(batch)
    }
}

/// What records cost in a frame; refused if no frame takes them.
fn weigh(records: &Records) -> Result<usize, AppendError> {
    let too_large =
        |what, size, limit| Err(AppendError::Refused(Refusal::TooLarge { what, size, limit }));
    if let Some(large) = records.iter().find(|record| record.len() > RECORD_BYTES) {
        return too_large("a record", large.len(), RECORD_BYTES);
    }
    let bytes = records.bytes() + records.len() * RECORD_COST;
    if bytes > FRAME_ROOM {
        return too_large("the records of one frame", bytes, FRAME_ROOM);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::TokioRuntime;
    use bytes::Bytes;
    use consort_kernel::{Cursor, Log, ManualClock, Most, SeededEntropy, Timestamp, memory};
    use futures::future::join_all;

    struct Bed {
        log: Arc<dyn Log>,
        collector: Collector,
        at: Partition,
    }

    fn bed() -> Bed {
        bed_with(Lanes::unbounded())
    }

    fn bed_with(lanes: Lanes) -> Bed {
        bed_of(lanes, Duration::from_millis(1))
    }

    fn bed_of(lanes: Lanes, linger: Duration) -> Bed {
        let (log, store) = memory::open(1, Arc::new(ManualClock::at(Timestamp(1_000))));
        let (log, runtime) = (Arc::new(log), TokioRuntime::current());
        let entropy = Arc::new(SeededEntropy::new(7));
        let give_up = Duration::from_secs(1);
        let appender =
            Appender::new(log.clone(), Arc::new(store), runtime.clone(), entropy, give_up);
        let collector = Collector::new(Arc::new(appender), runtime, linger, lanes);
        Bed { log, collector, at: Partition::new("s".parse().unwrap(), 0) }
    }

    async fn frames(bed: &Bed) -> Vec<Records> {
        let (mut frames, mut cursor) = (Vec::new(), Cursor::START);
        loop {
            let page =
                bed.log.read(&bed.at, &cursor, Most::default(), Duration::ZERO).await.unwrap();
            let Some(last) = page.last() else { return frames };
            cursor = last.cursor();
            frames.extend(page.into_iter().map(|entry| entry.frame.records));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_together_is_one_frame_in_its_order() {
        let bed = bed();
        let record = |n: u8| Bytes::from(vec![n]);
        let submissions = (0..10).map(|n| bed.collector.submit(&bed.at, vec![record(n); 2]));
        let places = join_all(submissions).await;
        assert!(places.iter().all(|place| place.as_ref().is_ok_and(|place| place.sequence == 0)));
        let expected: Records = (0..10).flat_map(|n| [record(n), record(n)]).collect();
        assert_eq!(frames(&bed).await, [expected]);
        let later = bed.collector.submit(&bed.at, vec![record(9)]).await.unwrap();
        assert_eq!(later.sequence, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn frames_stay_within_their_bound_and_nothing_is_left_behind() {
        let bed = bed();
        let record = Bytes::from(vec![0; 1 << 20]);
        let submissions = (0..10).map(|_| bed.collector.submit(&bed.at, vec![record.clone()]));
        assert!(join_all(submissions).await.iter().all(Result::is_ok));
        let sizes: Vec<usize> = frames(&bed).await.iter().map(Records::len).collect();
        assert_eq!(sizes, [3, 3, 3, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_may_wait_is_refused_at_once() {
        let bed = bed();
        let record = Bytes::from(vec![0; 1 << 20]);
        let submissions = (0..20).map(|_| bed.collector.submit(&bed.at, vec![record.clone()]));
        let refused = join_all(submissions).await.iter().filter(|result| result.is_err()).count();
        assert_eq!(refused, 5);
        let too_large = bed.collector.submit(&bed.at, vec![Bytes::from(vec![0; 3 << 20])]).await;
        assert!(matches!(too_large, Err(AppendError::Refused(_))), "{too_large:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn frames_fill_while_they_wait_for_a_lane() {
        let lanes = Lanes::of(1);
        let (bed, busy) = (bed_with(lanes.clone()), lanes.enter().await);
        let early = bed.collector.enqueue(&bed.at, ["early"].into()).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let late = bed.collector.enqueue(&bed.at, ["late"].into()).unwrap();
        assert!(frames(&bed).await.is_empty());
        drop(busy);
        assert_eq!(early.await.unwrap(), late.await.unwrap());
        assert_eq!(frames(&bed).await, [Records::from(["early", "late"])]);
    }

    #[tokio::test(start_paused = true)]
    async fn in_lanes_a_partitions_frames_begin_apart_and_fill_meanwhile() {
        for (lanes, expected) in [(Lanes::unbounded(), vec![1, 1, 1]), (Lanes::of(4), vec![1, 2])] {
            let bed = bed_of(lanes, Duration::ZERO);
            let submit = || bed.collector.submit(&bed.at, vec![Bytes::new()]);
            submit().await.unwrap();
            let later = async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                submit().await
            };
            let (second, third) = tokio::join!(submit(), later);
            assert!(second.is_ok() && third.is_ok());
            let sizes: Vec<usize> = frames(&bed).await.iter().map(Records::len).collect();
            assert_eq!(sizes, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn records_of_a_caller_that_goes_away_are_appended_nevertheless() {
        let bed = bed();
        let gone = bed.collector.submit(&bed.at, vec![Bytes::new()]).now_or_never();
        assert!(gone.is_none());
        bed.collector.submit(&bed.at, vec![Bytes::new()]).await.unwrap();
        assert_eq!(Records::joined(frames(&bed).await).len(), 2);
    }
}
