//! What a node knows of how far behind its own roles are, while the store is slow.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::worker::{self, Memory, Plan, Record, Sheet};
use consort_cluster::{Appender, ClusterNode, Ended, Options, Part, Role, Tenure, TokioRuntime};
use consort_kernel::{
    Cell, Key, Kind, Most, Partition, SeededEntropy, Shard, Store as _, Value, memory,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep, sleep_until};

use crate::stage::Stage;
use crate::unsound::{Mode, UnsoundStore};

/// Counts records.
#[derive(Debug)]
struct Counting;

impl Plan for Counting {
    fn apply(&self, _: &Record<'_>, _: &mut Memory, sheet: &mut Sheet) {
        sheet.add(Shard(0), Key::from(["count"]), 1, None);
    }
}

/// One role, which folds one partition.
#[derive(Debug)]
struct Folding(worker::Options);

fn role() -> Role {
    Role::new("worker", "s/0")
}

impl Part for Folding {
    fn roles(&self) -> Vec<Role> {
        vec![role()]
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        worker::run(self.0.clone(), tenure).boxed()
    }
}

/// A node with that role, whose work has a store of its own.
struct Bed {
    stage: Stage,
    store: Arc<UnsoundStore>,
    appender: Arc<Appender>,
    partition: Partition,
    node: ClusterNode,
}

impl Bed {
    async fn start(linger: Duration) -> Bed {
        let stage = Stage::with_roles(0);
        let (log, store) = memory::open(1, Arc::clone(&stage.clock));
        let (log, store) = (Arc::new(log), UnsoundStore::new(Arc::new(store), false));
        let (runtime, entropy) = (TokioRuntime::current(), Arc::new(SeededEntropy::new(7)));
        let appender = Arc::new(Appender::new(
            log.clone(),
            store.clone(),
            runtime.clone(),
            entropy.clone(),
            Duration::from_secs(1),
        ));
        let partition = Partition::new("s".parse().unwrap(), 0);
        let folding = Folding(worker::Options {
            log,
            store: store.clone(),
            runtime,
            entropy,
            partition: partition.clone(),
            pipeline: "all".parse().unwrap(),
            plan: Arc::new(Counting),
            appender: appender.clone(),
            batch: Most::entries(10),
            linger,
            yield_after: Duration::from_secs(60),
        });
        let options = Options { parts: vec![Arc::new(folding)], ..stage.options("a") };
        let node = ClusterNode::join(options).await.unwrap();
        Bed { stage, store, appender, partition, node }
    }

    async fn append(&self) {
        self.appender.events(&self.partition, vec![Bytes::new()]).await.unwrap();
    }

    fn lag(&self) -> Option<Duration> {
        self.node.handle().own_lags().get(&role()).copied()
    }

    /// How many records are in the store.
    async fn count(&self) -> i64 {
        let cell = Cell::new(Kind::Counter, Key::from(["count"]));
        match self.store.get(Shard(0), &[cell]).await.unwrap()[0] {
            Some(Value::Counter(count)) => count,
            _ => 0,
        }
    }

    /// Appends one record and waits until it is applied, and the worker waits for more.
    async fn warm_up(&self) {
        self.append().await;
        self.stage.until("it is applied", async || self.count().await == 1).await;
        sleep(Duration::from_millis(50)).await;
        assert_eq!(self.lag(), Some(Duration::ZERO));
    }
}

async fn lags_on(slow: Duration) {
    let bed = Bed::start(Duration::from_millis(10)).await;
    bed.warm_up().await;
    bed.store.behave(Mode::Slow(slow));
    let began = Instant::now();
    bed.append().await;
    sleep_until(began + slow / 2).await;
    let (known, least) = (bed.lag().unwrap(), slow / 2 - Duration::from_millis(50));
    assert!(least <= known && known <= slow / 2, "{known:?} of the first batch");
    bed.append().await;
    // A batch is two commits: the shard's, and the checkpoint's. So the second one is in hand now.
    sleep_until(began + 3 * slow).await;
    let (known, age) = (bed.lag().unwrap(), 3 * slow - slow / 2);
    assert!(age - Duration::from_millis(50) <= known && known <= age, "{known:?} of the second");
    bed.store.behave(Mode::Sound);
    bed.stage.until("all is applied", async || bed.lag() == Some(Duration::ZERO)).await;

    let handle = bed.node.handle();
    handle.stop();
    handle.ended().await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(bed.lag(), None, "nobody works any more");
}

#[tokio::test(start_paused = true)]
async fn a_node_knows_its_own_lag_however_slow_the_store_is() {
    // With the first, the second batch is read while the first is applied; with the second, after it; with
    // the third, after a new load.
    for slow in [1, 3, 5] {
        lags_on(Duration::from_secs(slow)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_does_not_age_in_silence() {
    let bed = Bed::start(Duration::from_millis(400)).await;
    bed.warm_up().await;
    bed.append().await;
    bed.stage.until("it is applied", async || bed.count().await == 2).await;
    for _ in 0..20 {
        sleep(Duration::from_millis(100)).await;
        assert_eq!(bed.lag(), Some(Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_a_batch_waits_for_its_turn_joins_it() {
    let bed = Bed::start(Duration::from_millis(10)).await;
    bed.warm_up().await;
    let second = Duration::from_secs(1);
    bed.store.behave(Mode::Slow(2 * second));
    let began = Instant::now();
    bed.append().await;
    sleep_until(began + second / 2).await;
    bed.append().await;
    // By now that one is read, and waits for the first.
    sleep_until(began + 2 * second).await;
    bed.append().await;
    // The first batch has taken four seconds, and the second one is in the store, but not its checkpoint.
    sleep_until(began + 7 * second).await;
    assert_eq!(bed.count().await, 4);
}
