//! One closer on the memory engine, step by step; what happens between several is the simulator's.

use consort_cluster::TokioRuntime;
use consort_cluster::worker::{Cells, Checkpoint, Stand};
use consort_kernel::{Cursor, ManualClock, Most, Name, memory};

use super::super::PIPELINE;
use super::*;
use crate::expression::Expression;
use crate::row::WindowRow;
use crate::schema::{Field, Schema, Unknown};
use crate::stream::Stream;
use crate::view::{Aggregate, GroupField};
use crate::window::Late;

const PARTITIONS: u32 = 2;
const MINUTE: i64 = 60_000_000_000;

struct Bed {
    closer: Closer,
    clock: Arc<ManualClock>,
    feed: Name,
}

fn bed() -> Bed {
    let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
    let (_, store) = memory::open(1, clock.clone());
    let store: Arc<dyn Store> = Arc::new(store);
    let field = Field { name: "n".into(), ty: "int".parse().unwrap() };
    let stream = Arc::new(Stream {
        name: "s".parse().unwrap(),
        schema: Arc::new(Schema::new(vec![field], Unknown::Reject)),
        key: Vec::new(),
        id: None,
        ids_for: Duration::from_secs(60),
        time: None,
        partitions: PARTITIONS,
        retain: Duration::from_secs(60),
        route: None,
    });
    let windows = Windows {
        length: Duration::from_secs(60),
        grace: Duration::from_secs(5),
        keep: Duration::from_secs(100),
        late: Late::Amend,
    };
    let expression = Expression::parse("n", &stream.schema).unwrap();
    let view = Arc::new(View {
        name: "v".parse().unwrap(),
        number: 7,
        from: Arc::clone(&stream),
        by: vec![GroupField { name: "n".into(), expression }],
        aggregate: Aggregate::Count,
        condition: None,
        windows: Some(windows.clone()),
        sinks: Vec::new(),
        routes: Vec::new(),
        answer: None,
    });
    let runtime = TokioRuntime::current();
    let watermarks = Watermarks::new(Arc::clone(&store), runtime.clone(), stream);
    let closer = Closer {
        store,
        runtime,
        view,
        windows,
        shard: Shard(0),
        watermarks: Arc::new(watermarks),
        rules: Rules::default(),
    };
    Bed { closer, clock, feed: "rows.v".parse().unwrap() }
}

impl Bed {
    /// A window with groups of these numbers, each counted once, whose first event was appended now.
    async fn open(&self, start: Moment, groups: std::ops::Range<i64>) {
        let (view, store) = (&self.closer.view, &self.closer.store);
        let first = store.now().await.unwrap();
        let put = Operation::Put {
            key: keys::window(view, start),
            value: WindowState::opened(first).encode(),
        };
        store.commit(Shard(0), Commit::of([put])).await.unwrap();
        let all: Vec<i64> = groups.collect();
        for some in all.chunks(1_000) {
            let add = |n: &i64| Operation::Add {
                key: keys::window_groups(view, start).extended([(*n).into()]),
                by: 1,
                on_overflow: None,
            };
            store.commit(Shard(0), Commit::of(some.iter().map(add))).await.unwrap();
        }
    }

    /// A partition has come this far.
    async fn reaches(&self, index: u32, watermark: Timestamp) {
        let partition = self.closer.view.from.partition(index);
        let cells = Cells::new(&PIPELINE, &partition, 1);
        let stand = Stand { watermark: watermark.0, ..Stand::default() };
        let value = format::encode(&Checkpoint { stand, ..Checkpoint::default() });
        let put = Operation::Put { key: cells.checkpoint(), value };
        self.closer.store.commit(cells.home(), Commit::of([put])).await.unwrap();
    }

    async fn rows(&self) -> Vec<WindowRow> {
        let (mut rows, mut cursor) = (Vec::new(), Cursor::START);
        loop {
            let store = &self.closer.store;
            let page = store.feed(Shard(0), &self.feed, &cursor, Most::default(), Duration::ZERO);
            let page = page.await.unwrap();
            let Some(last) = page.last() else { return rows };
            cursor = last.cursor();
            rows.extend(page.iter().map(|entry| WindowRow::decode(&entry.entry).unwrap()));
        }
    }

    async fn phase(&self, start: Moment) -> Option<Phase> {
        self.closer.window(start).await.unwrap().map(|window| window.state.phase)
    }

    async fn round(&self) -> Option<String> {
        // What was read of watermarks a moment ago counts for a moment.
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.closer.round().await.unwrap().0
    }

    async fn later(&self, seconds: u64) -> Timestamp {
        self.clock.advance(Duration::from_secs(seconds));
        self.closer.store.now().await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_waits_for_every_partition_and_tells_which_holds_it_open() {
    let bed = bed();
    bed.open(Moment(0), 0..3).await;
    let now = bed.later(6).await;
    bed.reaches(0, now).await;
    assert_eq!(bed.round().await, None, "it is just due");
    assert_eq!(bed.phase(Moment(0)).await, Some(Phase::Open));
    let (shard, key) = keys::awaited(&bed.closer.view.from.name);
    let awaited = bed.closer.store.get(shard, &[Cell::new(Kind::Max, key)]).await.unwrap();
    assert!(matches!(awaited[..], [Some(Value::Max(_))]), "ticks are asked for: {awaited:?}");
    let now = bed.later(20).await;
    let trouble = bed.round().await.unwrap_or_default();
    assert!(trouble.contains("waits for s/1"), "{trouble}");
    bed.reaches(1, now).await;
    assert_eq!(bed.round().await, None);
    assert!(matches!(bed.phase(Moment(0)).await, Some(Phase::Closed { .. })));
    let rows = bed.rows().await;
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row.revision == 1 && row.value.get() == "1"));
    assert_eq!((rows[0].start, rows[0].end), (Moment(0), Moment(MINUTE)));
}

#[tokio::test(start_paused = true)]
async fn a_large_window_closes_in_many_commits_and_goes_on_where_it_stopped() {
    let bed = bed();
    let groups = 7 * GROUPS as i64 + 3;
    bed.open(Moment(0), 0..groups).await;
    let window = bed.closer.window(Moment(0)).await.unwrap().unwrap();
    // Another closer came as far as the first rows, and died.
    let phase = Phase::Closing { after: None };
    let state = WindowState { phase, ..window.state.clone() };
    let window = bed.closer.put(&window, state).await.unwrap();
    let prefix = keys::window_groups(&bed.closer.view, Moment(0));
    let page = bed.closer.store.scan(Shard(0), Kind::Counter, &prefix, None, 10).await.unwrap();
    let first: Vec<Key> = page.into_iter().map(|(key, _)| key).collect();
    let (commit, taken) = bed.closer.rows(&window, &first, 1).await.unwrap();
    let scanned = window.state.scanned_to(&first[taken - 1]);
    bed.closer.put_with(&window, scanned, commit).await.unwrap();

    assert_eq!(bed.round().await, None);
    let rows = bed.rows().await;
    assert_eq!(rows.len() as i64, groups, "each group once");
    assert!(matches!(bed.phase(Moment(0)).await, Some(Phase::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_second_closer_with_an_old_look_is_refused() {
    let bed = bed();
    bed.open(Moment(0), 0..2).await;
    let old = bed.closer.window(Moment(0)).await.unwrap().unwrap();
    bed.closer.close(old.clone()).await.unwrap();
    assert!(matches!(bed.closer.close(old).await, Err(Halt::Stale)));
    assert_eq!(bed.rows().await.len(), 2);

    // It has just looked at a closed window that is then let go: no row is made of groups that are gone.
    let closed = bed.closer.window(Moment(0)).await.unwrap().unwrap();
    let leaving = WindowState { phase: Phase::Leaving, ..closed.state.clone() };
    bed.closer.put(&closed, leaving).await.unwrap();
    let group = keys::window_groups(&bed.closer.view, Moment(0)).extended([0i64.into()]);
    assert!(matches!(bed.closer.emit_again(&closed, &[group]).await, Err(Halt::Stale)));
    assert_eq!(bed.rows().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn windows_are_let_go_from_the_lowest_on() {
    let bed = bed();
    bed.open(Moment(0), 0..2).await;
    let now = bed.later(10).await;
    for index in 0..PARTITIONS {
        bed.reaches(index, now).await;
    }
    bed.round().await;
    // A lower one comes later, and is kept for as long.
    bed.later(60).await;
    bed.open(Moment(-MINUTE), 0..1).await;
    let now = bed.later(60).await;
    for index in 0..PARTITIONS {
        bed.reaches(index, now).await;
    }
    bed.round().await;
    assert!(bed.phase(Moment(0)).await.is_some(), "the lower one is still kept");
    bed.later(120).await;
    bed.round().await;
    assert_eq!(bed.phase(Moment(0)).await, None);
    assert_eq!(bed.phase(Moment(-MINUTE)).await, None);
    assert_eq!(bed.closer.floor().await.unwrap().1, Some(Moment(MINUTE)));
    assert_eq!(bed.rows().await.len(), 3);
}
