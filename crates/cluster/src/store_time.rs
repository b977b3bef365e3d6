//! The store's time, asked for now and then and counted on by the local clock in between.
//!
//! A frame's time need not be exact, and an append must not wait for a store that is busy with commits. So
//! once the time is known, it is asked for again beside the appends, which go on with the one they have.

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::{Fault, Store, Timestamp};
use futures::FutureExt as _;
use parking_lot::Mutex;

use crate::runtime::Runtime;

/// For how long the time is counted on before it is asked for again.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// For how long it is counted on although the store does not answer: two good clocks part by less than a
/// millisecond meanwhile.
const GOOD_FOR: Duration = Duration::from_secs(10);

/// The store's time as one node knows it.
#[derive(Clone, Debug)]
pub struct StoreTime(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The store's time when it was last asked for, and the local time then.
    answer: Option<(Timestamp, Duration)>,
    /// Whether a task is asking.
    asking: bool,
}

impl StoreTime {
    /// The time of this store.
    pub fn new(store: Arc<dyn Store>, runtime: Arc<dyn Runtime>) -> Self {
        StoreTime(Arc::new(Shared { store, runtime, known: Mutex::default() }))
    }

    /// The time, from the store itself only if it has not answered for long.
    pub async fn now(&self) -> Result<Timestamp, Fault> {
        match self.counted() {
            Some(time) => Ok(time),
            None => self.0.ask().await,
        }
    }

    /// The time as it is known; has it asked for again if that is due.
    fn counted(&self) -> Option<Timestamp> {
        let mut known = self.0.known.lock();
        let (time, at) = known.answer?;
        let since = self.0.runtime.elapsed().saturating_sub(at);
        if since >= ASK_AFTER && !std::mem::replace(&mut known.asking, true) {
            let shared = Arc::clone(&self.0);
            let ask = async move {
                // If the store fails, whoever appends next asks again.
                let _ = shared.ask().await;
                shared.known.lock().asking = false;
            };
            // It ends by itself: no call of a store waits for ever.
            drop(self.0.runtime.start("store time", ask.boxed()));
        }
        (since < GOOD_FOR).then(|| time.after(since))
    }
}

impl Shared {
    async fn ask(&self) -> Result<Timestamp, Fault> {
        let time = self.store.now().await?;
        // Counted from when the answer came. From when it was asked for, a store that took long to answer
        // would put frames into the future, and their windows would close early. So they are behind it by the
        // answer's way, which harms nobody.
        let at = self.runtime.elapsed();
        let mut known = self.known.lock();
        if known.answer.is_none_or(|(before, _)| before <= time) {
            known.answer = Some((time, at));
        }
        Ok(time)
    }
}
