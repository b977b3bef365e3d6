//! Flights that are ended from outside, as when a runtime is shut down: begun or not, they strand nobody.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::runtime::Abort;
use consort_cluster::{Runtime, TokioRuntime};
use consort_kernel::memory::MemoryStore;
use consort_kernel::{Name, SystemClock, SystemEntropy};
use consort_once::{Computed, Once, OnceError, OnceKey, Options, Terms};
use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Drops the flights that it is to run, at once or after a while.
#[derive(Debug)]
struct Dropping {
    after: Option<Duration>,
    within: Arc<TokioRuntime>,
}

impl Runtime for Dropping {
    fn start(&self, name: &str, work: BoxFuture<'static, ()>) -> Abort {
        if name != "once flight" {
            return self.within.start(name, work);
        }
        let Some(after) = self.after else {
            drop(work);
            return Box::new(|| {});
        };
        self.within.start(name, tokio::time::timeout(after, work).map(drop).boxed())
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.within.sleep(time)
    }

    fn elapsed(&self) -> Duration {
        self.within.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_flight_that_is_ended_from_outside_strands_nobody() {
    for after in [None, Some(Duration::from_secs(1))] {
        let store = Arc::new(MemoryStore::new(4, Arc::new(SystemClock::default())));
        let runtime = Arc::new(Dropping { after, within: TokioRuntime::current() });
        let once = Once::new(Options::new(store, runtime, Arc::new(SystemEntropy)));
        let key = OnceKey::new(&Name::new("items").unwrap(), &[b"a"]);
        let endless = || async {
            std::future::pending::<()>().await;
            Ok(Computed::new(""))
        };
        let terms = Terms { wait: Duration::from_secs(3600), ..Terms::default() };
        let asked = (0..3).map(|_| once.get(&key, &terms, endless));
        for answer in futures::future::join_all(asked).await {
            let ended = matches!(&answer, Err(OnceError::Unavailable { reason, .. }) if reason.contains("ended from outside"));
            assert!(ended, "{after:?}: {answer:?}");
        }
        assert_eq!(once.figures().flights, 0);
    }
}
