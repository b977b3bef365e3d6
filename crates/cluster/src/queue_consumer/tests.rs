//! That a queue consumer keeps the order of its queue, and settles only messages that are safe.

use super::*;
use crate::appender::Appender;
use crate::frames_in_flight::FramesInFlight;
use crate::runtime::TokioRuntime;

use consort_kernel::limits::RECORD_BYTES;
use consort_kernel::{
    AppendError, Cursor, Frame, Log, LogEntry, ManualClock, Most, ReadError, SeededEntropy,
    Timestamp, memory,
};
use parking_lot::Mutex;

#[test]
fn submissions_fit_a_frame_and_keep_the_order() {
    let record = |number: u8, bytes: usize| Bytes::from(vec![number; bytes]);
    let split = |records: Vec<Bytes>, most: usize| -> Vec<Vec<u8>> {
        let (mut records, mut shown) = (VecDeque::from(records), Vec::new());
        while !records.is_empty() {
            let submission = next_submission(&mut records, most);
            shown.push(submission.iter().map(|record| record[0]).collect());
        }
        shown
    };
    let shown = |records| split(records, usize::MAX);
    let (small, large) = (10, RECORD_BYTES);
    let sizes = [small, large, large, small, small];
    let records = (1..).zip(sizes).map(|(number, bytes)| record(number, bytes)).collect();
    assert_eq!(shown(records), [vec![1, 2], vec![3], vec![4, 5]]);
    assert_eq!(shown(vec![record(6, SUBMITTED_BYTES), record(7, 1)]), [[6], [7]]);
    assert!(shown(Vec::new()).is_empty());
    let five = || (1..=5).map(|number| record(number, small)).collect();
    assert_eq!(split(five(), 2), [vec![1, 2], vec![3, 4], vec![5]]);
    assert_eq!(split(five(), 0).len(), 5, "at least one record goes at a time");
}

/// A log whose second append of partition 0 has an unknown outcome, for good, though it was stored.
#[derive(Debug)]
struct Unsure {
    log: memory::MemoryLog,
    appends: Mutex<u32>,
}

#[async_trait]
impl Log for Unsure {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        self.log.append(at, frame).await?;
        if at.index == 0 {
            let mut appends = self.appends.lock();
            *appends += 1;
            if *appends == 2 {
                return Err(AppendError::Unknown(Fault::Fatal("on purpose".into())));
            }
        }
        Ok(())
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        self.log.read(at, after, most, wait).await
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        self.log.first(at).await
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        self.log.trim(at, before).await
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.log.ping().await
    }
}

/// Gives its messages once, and notes what was settled.
#[derive(Debug, Default)]
struct Queue {
    messages: Mutex<Vec<Message>>,
    settled: Mutex<Vec<Tag>>,
    released: Mutex<u32>,
}

#[async_trait]
impl Inlet for Queue {
    async fn take(&self, _: usize, wait: Duration) -> Result<Vec<Message>, Fault> {
        let messages = std::mem::take(&mut *self.messages.lock());
        if messages.is_empty() {
            tokio::time::sleep(wait).await;
        }
        Ok(messages)
    }

    async fn settle(&self, tags: &[Tag]) -> Result<(), Fault> {
        self.settled.lock().extend(tags);
        Ok(())
    }

    fn release(&self) {
        *self.released.lock() += 1;
    }
}

/// The first byte of a message is its partition; an empty one is refused.
#[derive(Default)]
struct Judge {
    refused: Mutex<Vec<String>>,
}

#[async_trait]
impl MessageJudge for Judge {
    fn judge(&self, message: &Message) -> Result<(u32, Bytes), String> {
        let index = message.body.first().ok_or("it is empty")?;
        Ok((u32::from(*index), message.body.clone()))
    }

    async fn note(&self, refused: &[RefusedMessage]) -> Result<(), Fault> {
        self.refused.lock().extend(refused.iter().map(|one| one.reason.clone()));
        Ok(())
    }
}

async fn stored(log: &dyn Log, index: u32) -> Vec<u8> {
    let (mut numbers, mut cursor) = (Vec::new(), Cursor::START);
    loop {
        let at = Partition::new("s".parse().unwrap(), index);
        let page = log.read(&at, &cursor, Most::default(), Duration::ZERO).await.unwrap();
        let Some(last) = page.last() else { return numbers };
        cursor = last.cursor();
        for entry in page {
            numbers.extend(entry.frame.records.iter().map(|record| record[1]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_submission_is_repeated_before_anything_else_of_its_partition() {
    let (log, store) = memory::open(1, Arc::new(ManualClock::at(Timestamp(1_000))));
    let log = Arc::new(Unsure { log, appends: Mutex::default() });
    let runtime: Arc<dyn Runtime> = TokioRuntime::current();
    let entropy = Arc::new(SeededEntropy::new(7));
    let give_up = Duration::from_secs(1);
    let appender =
        Appender::new(log.clone(), Arc::new(store), Arc::clone(&runtime), entropy, give_up);
    let collector = Collector::new(
        Arc::new(appender),
        Arc::clone(&runtime),
        Duration::ZERO,
        FramesInFlight::Unbounded,
    );
    let body = |index: u8, number: u8, bytes: usize| [vec![index, number], vec![0; bytes]].concat();
    // Three submissions of partition 0, and one of partition 1; one message is refused.
    let mut bodies: Vec<Vec<u8>> = (0..3).map(|number| body(0, number, 1_100_000)).collect();
    bodies.extend([body(1, 9, 0), Vec::new()]);
    let message = |(number, body): (u64, Vec<u8>)| Message {
        body: body.into(),
        id: None,
        tag: Tag::new(1, number),
        redelivered: false,
    };
    let messages = Mutex::new((0..).zip(bodies).map(message).collect());
    let queue = Arc::new(Queue { messages, ..Queue::default() });
    let judge = Arc::new(Judge::default());
    let (inlet, stream) = (queue.clone() as _, "s".parse().unwrap());
    let admission = Arc::new(Unlimited);
    let options = Options { inlet, stream, judge: judge.clone(), admission, collector, runtime };
    let (tenure, _control) = Tenure::new(role("s"), 1);
    let running = tokio::spawn(run(options, tenure));
    while queue.settled.lock().len() < 5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(*queue.released.lock(), 0);
    running.abort();
    assert!(running.await.is_err());
    assert_eq!(*queue.released.lock(), 1, "a lost tenure gives the queue up");
    // The unknown one may stand there twice, but no other stands between the two.
    assert_eq!(stored(&*log, 0).await, [0, 1, 1, 2]);
    assert_eq!(stored(&*log, 1).await, [9]);
    assert_eq!(*judge.refused.lock(), ["it is empty"]);
}
