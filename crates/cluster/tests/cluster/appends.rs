//! Appends while the store is busy or away: they need its time, and nothing else of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::{Appender, TokioRuntime};
use consort_kernel::{
    AppendError, ManualClock, Partition, SeededEntropy, Store as _, Timestamp, memory,
};
use tokio::time::{sleep, timeout};

use crate::unsound::{Mode, UnsoundStore};

/// No append waits this long, unless it waits for the store.
const AT_ONCE: Duration = Duration::from_millis(10);
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);

struct Bed {
    store: Arc<UnsoundStore>,
    clock: Arc<ManualClock>,
    appender: Appender,
    at: Partition,
}

fn bed() -> Bed {
    let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
    let (log, store) = memory::open(1, clock.clone());
    let store = UnsoundStore::new(Arc::new(store), false);
    let (runtime, entropy) = (TokioRuntime::current(), Arc::new(SeededEntropy::new(7)));
    let appender = Appender::new(Arc::new(log), store.clone(), runtime, entropy, GIVE_UP_AFTER);
    Bed { store, clock, appender, at: Partition::new("s".parse().unwrap(), 0) }
}

impl Bed {
    async fn append(&self) -> Result<Timestamp, AppendError> {
        let appended = self.appender.events(&self.at, vec![Bytes::new()]).await;
        appended.map(|place| place.time)
    }
}

#[tokio::test(start_paused = true)]
async fn an_append_does_not_wait_for_a_store_that_is_busy() {
    let bed = bed();
    let first = bed.append().await.unwrap();
    bed.store.behave(Mode::Silent);
    for second in 1..=9 {
        sleep(Duration::from_secs(1)).await;
        let time = timeout(AT_ONCE, bed.append()).await.expect("at once").unwrap();
        assert_eq!(time, first.after(Duration::from_secs(second)), "as the local clock counts on");
    }
}

#[tokio::test(start_paused = true)]
async fn the_stores_time_is_taken_over_beside_the_appends() {
    let bed = bed();
    let first = bed.append().await.unwrap();
    sleep(Duration::from_secs(2)).await;
    bed.clock.advance(Duration::from_secs(60));
    assert_eq!(bed.append().await.unwrap(), first.after(Duration::from_secs(2)));
    sleep(AT_ONCE).await;
    assert!(bed.append().await.unwrap() >= first.after(Duration::from_secs(60)));
}

#[tokio::test(start_paused = true)]
async fn no_frame_is_ahead_of_a_store_that_takes_long_to_answer() {
    let bed = bed();
    let pass = async |time: Duration| {
        bed.clock.advance(time);
        sleep(time).await;
    };
    bed.append().await.unwrap();
    pass(Duration::from_secs(2)).await;
    bed.store.behave(Mode::Silent);
    bed.append().await.unwrap();
    pass(Duration::from_secs(7)).await;
    bed.store.behave(Mode::Sound);
    sleep(AT_ONCE).await;
    bed.clock.advance(AT_ONCE);
    let (time, now) = (bed.append().await.unwrap(), bed.store.now().await.unwrap());
    assert!(time <= now, "{time:?} at {now:?}");
    assert!(now.since(time) <= 2 * AT_ONCE, "{time:?} at {now:?}");
    // And it is asked for again.
    pass(Duration::from_secs(2)).await;
    bed.clock.advance(Duration::from_secs(60));
    bed.append().await.unwrap();
    sleep(AT_ONCE).await;
    let (time, now) = (bed.append().await.unwrap(), bed.store.now().await.unwrap());
    assert!(now.since(time) <= 2 * AT_ONCE, "{time:?} at {now:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_long_is_waited_for_and_asked_again() {
    let bed = bed();
    bed.append().await.unwrap();
    bed.store.behave(Mode::Failing);
    sleep(Duration::from_secs(5)).await;
    timeout(AT_ONCE, bed.append()).await.expect("at once").unwrap();
    sleep(Duration::from_secs(6)).await;
    let failed = bed.append().await;
    assert!(matches!(failed, Err(AppendError::Engine(_))), "{failed:?}");
    bed.store.behave(Mode::Sound);
    timeout(AT_ONCE, bed.append()).await.expect("at once").unwrap();
}
