//! Tests: the order of one request survives failed appends, and no try is sent after a deadline.

use super::*;
use crate::runtime::TokioRuntime;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use consort_kernel::{
    AppendError, Cursor, Entropy as _, Frame, Log, LogEntry, ManualClock, Most, ReadError,
    SeededEntropy, Timestamp, memory,
};
use futures::future::join_all;

/// What becomes of one append.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Stored,
    /// For good, so the frame is not tried again.
    Failed,
    /// Stored, and for good unknown.
    UnknownStored,
    /// Lost, and for good unknown.
    UnknownLost,
    /// Stored, and unknown this time.
    Repeated,
    /// It takes a second, and fails this time.
    SlowAndFailed,
}

/// A log that has a fate for each append of a partition.
#[derive(Debug)]
struct Fateful {
    log: memory::MemoryLog,
    fates: Mutex<BTreeMap<u32, VecDeque<Fate>>>,
    tries: Mutex<Vec<tokio::time::Instant>>,
}

#[async_trait::async_trait]
impl Log for Fateful {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        self.tries.lock().push(tokio::time::Instant::now());
        let fate = self.fates.lock().get_mut(&at.index).and_then(VecDeque::pop_front);
        let fate = fate.unwrap_or(Fate::Stored);
        if matches!(fate, Fate::Stored | Fate::UnknownStored | Fate::Repeated) {
            self.log.append(at, frame).await?;
        }
        match fate {
            Fate::Stored => Ok(()),
            Fate::Failed => Err(AppendError::Engine(Fault::Fatal("on purpose".into()))),
            Fate::UnknownStored | Fate::UnknownLost => {
                Err(AppendError::Unknown(Fault::Fatal("on purpose".into())))
            }
            Fate::Repeated => Err(AppendError::Unknown(Fault::Retryable("on purpose".into()))),
            Fate::SlowAndFailed => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Err(AppendError::Engine(Fault::Retryable("on purpose".into())))
            }
        }
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

struct Bed {
    log: Arc<Fateful>,
    collector: Collector,
}

/// A record with the name of its request, and padding.
fn record(name: &str, bytes: usize) -> Vec<u8> {
    format!("{name}{}", " ".repeat(bytes)).into_bytes()
}

/// So large that a frame holds only one of them.
const ALONE: usize = 2_097_000;

impl Bed {
    fn new(in_flight: FramesInFlight, fates: impl IntoIterator<Item = (u32, Vec<Fate>)>) -> Bed {
        let (log, store) = memory::open(1, Arc::new(ManualClock::at(Timestamp(1_000))));
        let fates = fates.into_iter().map(|(at, fates)| (at, fates.into())).collect();
        let log = Arc::new(Fateful { log, fates: Mutex::new(fates), tries: Mutex::default() });
        let runtime = TokioRuntime::current();
        let (entropy, give_up) = (Arc::new(SeededEntropy::new(7)), Duration::from_secs(8));
        let appender =
            Appender::new(log.clone(), Arc::new(store), runtime.clone(), entropy, give_up);
        let collector = Collector::new(Arc::new(appender), runtime, Duration::ZERO, in_flight);
        Bed { log, collector }
    }

    fn submit(&self, at: u32, records: Vec<Vec<u8>>, ticket: Option<&Ticket>) -> Outcome {
        let options = SubmitOptions { ticket, within: None };
        self.collector.queue(&partition(at)).enqueue(records.into(), options)
    }

    /// The names of the stored records, those of repeated frames once.
    async fn stored(&self, at: u32) -> Vec<String> {
        let (mut names, mut seen, mut cursor) = (Vec::new(), BTreeSet::new(), Cursor::START);
        loop {
            let page =
                self.log.read(&partition(at), &cursor, Most::default(), Duration::ZERO).await;
            let page = page.unwrap();
            let Some(last) = page.last() else { return names };
            cursor = last.cursor();
            for LogEntry { frame, .. } in page {
                if seen.insert((frame.producer.0, frame.sequence)) {
                    let name = |record: &[u8]| String::from_utf8_lossy(record).trim().to_owned();
                    names.extend(frame.records.iter().map(name));
                }
            }
        }
    }
}

type Outcome = Result<Appending, SubmitError>;

async fn settled(outcome: Outcome) -> Result<Place, SubmitError> {
    outcome?.await
}

fn partition(index: u32) -> Partition {
    Partition::new("s".parse().unwrap(), index)
}

const ALL_LIMITS: [FramesInFlight; 3] =
    [FramesInFlight::Unbounded, FramesInFlight::Joined, FramesInFlight::Few(2)];

#[tokio::test(start_paused = true)]
async fn behind_a_failed_frame_nothing_of_the_same_request_and_partition_is_stored() {
    for in_flight in ALL_LIMITS {
        for fate in [Fate::Failed, Fate::UnknownLost, Fate::UnknownStored] {
            // The second frame of partition 0 fails.
            let bed = Bed::new(in_flight, [(0, vec![Fate::Stored, fate])]);
            let tickets = [Ticket::default(), Ticket::default()];
            let mut outcomes = Vec::new();
            for name in ["a0", "a1", "a2", "a3"] {
                for at in [0, 1] {
                    let ticket = Some(&tickets[at as usize]);
                    outcomes.push(bed.submit(at, vec![record(name, ALONE)], ticket));
                    // Another request, of one small record, stands behind each of them.
                    outcomes.push(bed.submit(at, vec![record(&name.replace('a', "b"), 0)], None));
                }
            }
            let outcomes = join_all(outcomes.into_iter().map(settled)).await;
            let of = |request: usize, at: usize| -> Vec<_> {
                outcomes.iter().skip(2 * at + request).step_by(4).collect()
            };
            assert!(of(0, 1).iter().all(|one| one.is_ok()), "the other partition is unaffected");
            assert!(of(1, 1).iter().all(|one| one.is_ok()));
            assert_eq!(bed.stored(1).await, ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]);

            let first = bed.stored(0).await;
            let of_request = |name: char| {
                first.iter().filter(move |one| one.starts_with(name)).cloned().collect::<Vec<_>>()
            };
            let known = of(0, 0);
            let (last, stored) = match fate {
                Fate::UnknownStored => ("b2", vec!["a0", "a1"]),
                _ => ("b2", vec!["a0"]),
            };
            assert_eq!(of_request('a'), stored, "{in_flight:?} {fate:?}");
            assert!(known[0].is_ok() && known[1].is_err(), "{known:?}");
            for behind in &known[2..] {
                assert_eq!(**behind, Err(NotStored::Behind.into()), "{in_flight:?} {fate:?}");
            }
            // The other request has no order to keep: its later records are stored.
            assert!(of_request('b').contains(&last.to_owned()), "{first:?}");
            let later = bed.submit(0, vec![record("a4", 0)], Some(&tickets[0]));
            assert_eq!(later.unwrap_err(), NotStored::Behind.into());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_submission_closes_its_ticket_and_leaves_those_before_it_alone() {
    let bed = Bed::new(FramesInFlight::Unbounded, []);
    let ticket = Ticket::default();
    let first = bed.submit(0, vec![record("first", 0)], Some(&ticket));
    let large = bed.submit(0, vec![record("large", RECORD_BYTES)], Some(&ticket));
    let behind = bed.submit(0, vec![record("behind", 0)], Some(&ticket));
    assert!(settled(first).await.is_ok());
    assert!(matches!(settled(large).await, Err(SubmitError::Refused(_))));
    assert_eq!(settled(behind).await, Err(NotStored::Behind.into()));
    assert_eq!(bed.stored(0).await, ["first"]);
}

#[tokio::test(start_paused = true)]
async fn a_place_tells_which_records_of_the_frame_are_the_callers() {
    let bed = Bed::new(FramesInFlight::Unbounded, []);
    let submit = |count| bed.submit(0, vec![record("x", 0); count], None);
    let places = join_all([submit(2), submit(3), submit(1)].map(settled)).await;
    let places: Vec<Place> = places.into_iter().map(Result::unwrap).collect();
    assert!(places.iter().all(|place| place.sequence == 0), "they share a frame");
    assert_eq!(places.iter().map(|place| place.record).collect::<Vec<_>>(), [0, 2, 5]);
}

/// A submission with a deadline, and how long its answer took.
async fn with_deadline(
    bed: &Bed,
    name: &str,
    within: Duration,
) -> (Result<Place, SubmitError>, Duration) {
    let began = tokio::time::Instant::now();
    let options = SubmitOptions { within: Some(within), ..SubmitOptions::default() };
    let outcome = bed.collector.queue(&partition(0)).enqueue([record(name, ALONE)].into(), options);
    (settled(outcome).await, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn no_try_is_sent_after_the_deadline_and_a_queued_submission_is_taken_back() {
    for in_flight in ALL_LIMITS {
        let bed = Bed::new(in_flight, [(0, vec![Fate::SlowAndFailed; 4])]);
        let began = tokio::time::Instant::now();
        let within = Duration::from_millis(2_500);
        let (first, queued) = tokio::join!(
            with_deadline(&bed, "first", within),
            with_deadline(&bed, "queued", within)
        );
        // The frame was tried at most until its deadline; the last try may end after it.
        assert!(matches!(first.0, Err(SubmitError::NotStored(NotStored::Engine(_)))), "{first:?}");
        assert_eq!(queued.0, Err(NotStored::Late.into()), "{in_flight:?}");
        let tries = bed.log.tries.lock().clone();
        assert!(tries.len() >= 2 && tries.iter().all(|at| *at - began < within), "{tries:?}");
        assert_eq!(bed.stored(0).await, Vec::<String>::new());
        // The queue goes on.
        bed.log.fates.lock().clear();
        assert!(with_deadline(&bed, "next", within).await.0.is_ok());
        assert_eq!(bed.stored(0).await, ["next"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_hears_whether_its_records_may_be_stored() {
    let bed = Bed::new(FramesInFlight::Unbounded, [(0, vec![Fate::SlowAndFailed])]);
    let ticket = Ticket::default();
    let on_its_way = bed.submit(0, vec![record("sent", ALONE)], None).unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let queued = bed.submit(0, vec![record("queued", ALONE)], Some(&ticket)).unwrap();
    let behind = bed.submit(0, vec![record("behind", 0)], Some(&ticket));
    let other = bed.submit(0, vec![record("other", 0)], None);
    assert_eq!(queued.withdraw(), Err(NotStored::Late.into()));
    assert!(matches!(on_its_way.withdraw(), Err(SubmitError::Unknown(_))));
    assert_eq!(settled(behind).await, Err(NotStored::Behind.into()));
    assert!(settled(other).await.is_ok());
    assert_eq!(bed.stored(0).await, ["sent", "other"]);
}

#[tokio::test(start_paused = true)]
async fn stored_records_of_a_request_are_always_its_first_ones() {
    let dice = SeededEntropy::new(42);
    let below = |bound: u64| dice.next() % bound;
    for run in 0..45 {
        let in_flight = ALL_LIMITS[run % ALL_LIMITS.len()];
        let kinds = [
            Fate::Stored,
            Fate::Stored,
            Fate::Stored,
            Fate::Failed,
            Fate::UnknownStored,
            Fate::UnknownLost,
            Fate::Repeated,
        ];
        let fates = |_| (0..30).map(|_| kinds[below(7) as usize]).collect::<Vec<_>>();
        let bed = Bed::new(in_flight, [0, 1].map(|at| (at, fates(at))));
        let tickets: Vec<Ticket> = (0..6).map(|_| Ticket::default()).collect();
        let mut submitted: BTreeMap<(u64, u32), Vec<(String, Outcome)>> = BTreeMap::new();
        for number in 0..40 {
            let (request, at) = (below(3), below(2) as u32);
            let name = format!("{request}-{number}");
            let bytes = [0, ALONE][below(2) as usize];
            let ticket = &tickets[request as usize * 2 + at as usize];
            let outcome = bed.submit(at, vec![record(&name, bytes)], Some(ticket));
            submitted.entry((request, at)).or_default().push((name, outcome));
            if below(4) == 0 {
                tokio::time::sleep(Duration::from_millis(below(30))).await;
            }
        }
        for ((request, at), all) in submitted {
            let (names, outcomes): (Vec<_>, Vec<_>) = all.into_iter().unzip();
            let outcomes = join_all(outcomes.into_iter().map(settled)).await;
            let own = |name: &String| name.starts_with(&format!("{request}-"));
            let stored: Vec<_> = bed.stored(at).await.into_iter().filter(own).collect();
            assert_eq!(stored, names[..stored.len()], "run {run}: not a prefix");
            for (index, outcome) in outcomes.iter().enumerate() {
                let is_stored = index < stored.len();
                match outcome {
                    Ok(_) => assert!(is_stored, "run {run}: told as stored"),
                    Err(SubmitError::Unknown(_)) => {}
                    Err(_) => assert!(!is_stored, "run {run}: told as not stored: {outcome:?}"),
                }
            }
        }
    }
}
