//! How many frames of one node are on their way into the log at once, whatever their partitions.
//!
//! A frame costs a broker much the same whether it holds one record or a hundred. With many partitions and
//! a frame in flight for each, frames stay nearly empty, and the broker is busy with frames. A few lanes
//! make the others wait, and they fill meanwhile. Under a light load there is always a free lane.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::runtime::Runtime;

/// For how long a frame keeps its lane. One that takes longer waits for a log that is stuck, perhaps for
/// its partition alone, and the frames of the others do not wait with it.
const LANE_FOR: Duration = Duration::from_millis(50);

/// How far apart the frames of one partition begin. A broker whose frames are confirmed sooner would be sent
/// more of them, each with less in it. Timers go by the millisecond, so it is half of one more on average.
const APART: Duration = Duration::from_millis(1);

/// A frame that takes this long tells of a broker with much to do. Then the next one waits as long again after it,
/// though no longer than this, and is the fuller for it: the broker has fewer of them to do.
const LONG: Duration = Duration::from_micros(1_500);
const REST_MOST: Duration = Duration::from_millis(2);

/// The lanes of a node.
#[derive(Clone, Debug)]
pub struct Lanes(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Unbounded,
    Joined,
    Bounded(Arc<Semaphore>),
}

impl Lanes {
    /// As many as there are frames.
    pub fn unbounded() -> Self {
        Lanes(Kind::Unbounded)
    }

    /// As many as there are partitions, and all of them at once: for a log that writes whatever has come in one
    /// batch, so that no partition can be slower than the others.
    pub fn joined() -> Self {
        Lanes(Kind::Joined)
    }

    /// This many.
    pub fn of(count: usize) -> Self {
        Lanes(Kind::Bounded(Arc::new(Semaphore::new(count))))
    }

    /// Whether frames go at once.
    pub(crate) fn are_joined(&self) -> bool {
        matches!(self.0, Kind::Joined)
    }

    /// Waits until a partition may begin another frame than its last.
    pub(crate) async fn space_out(&self, last: Option<Last>, runtime: &dyn Runtime) {
        let (Kind::Bounded(_), Some(last)) = (&self.0, last) else { return };
        let since = runtime.elapsed().saturating_sub(last.began);
        let apart = last.apart();
        if since < apart {
            runtime.sleep(apart - since).await;
        }
    }

    /// Waits for a lane; whoever waits longest has the next.
    pub(crate) async fn enter(&self) -> Lane {
        let Kind::Bounded(lanes) = &self.0 else { return Lane(None) };
        // The lanes are never closed.
        Lane(Arc::clone(lanes).acquire_owned().await.ok())
    }
}

/// The last frame of a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    /// When it began, by the runtime's time, and how long it took.
    pub(crate) began: Duration,
    pub(crate) took: Duration,
}

impl Last {
    /// How long after its beginning the next one may begin.
    fn apart(self) -> Duration {
        if self.took < LONG {
            return APART;
        }
        self.took + self.took.min(REST_MOST)
    }
}

/// A lane that was entered.
#[derive(Debug)]
pub(crate) struct Lane(Option<OwnedSemaphorePermit>);

impl Lane {
    /// Does `work` in the lane, and leaves it when that is done or takes too long.
    pub(crate) async fn hold<T>(self, runtime: &dyn Runtime, work: impl Future<Output = T>) -> T {
        let Some(permit) = self.0 else { return work.await };
        let (work, over) = (std::pin::pin!(work), runtime.sleep(LANE_FOR));
        match select(work, over).await {
            Either::Left((result, _)) => result,
            Either::Right(((), work)) => {
                drop(permit);
                work.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::TokioRuntime;
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use futures::future::join_all;

    #[test]
    fn a_broker_that_takes_long_is_left_to_rest() {
        let apart = |micros| {
            let last = Last { began: Duration::ZERO, took: Duration::from_micros(micros) };
            last.apart().as_micros()
        };
        assert_eq!([0, 900, 1_499].map(apart), [1_000; 3]);
        assert_eq!([1_500, 1_900, 9_000].map(apart), [3_000, 3_800, 11_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_under_way_than_there_are_lanes() {
        let (lanes, runtime) = (Lanes::of(3), TokioRuntime::current());
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let works = (0..20).map(|_| async {
            let lane = lanes.enter().await;
            let work = async {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                runtime.sleep(LANE_FOR / 2).await;
                now.fetch_sub(1, Ordering::Relaxed);
            };
            lane.hold(&*runtime, work).await;
        });
        join_all(works).await;
        assert_eq!(most.into_inner(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_stuck_gives_its_lane_up_and_goes_on() {
        let (lanes, runtime) = (Lanes::of(1), TokioRuntime::current());
        let stuck = lanes.enter().await;
        let _stuck = crate::Task::spawn(&*runtime, "stuck", {
            let runtime = TokioRuntime::current();
            async move { stuck.hold(&*runtime, pending::<()>()).await }
        });
        assert!(lanes.enter().now_or_never().is_none(), "the lane is taken");
        let next = lanes.enter().await;
        assert_eq!(next.hold(&*runtime, async { 7 }).await, 7);
        let slow = lanes.enter().await;
        let work = runtime.sleep(LANE_FOR * 3).map(|()| 8);
        assert_eq!(slow.hold(&*runtime, work).await, 8, "it is not broken off");
    }

    #[tokio::test]
    async fn without_a_bound_nobody_waits() {
        let lanes = Lanes::unbounded();
        let entered: Vec<_> = (0..1000).map(|_| lanes.enter().now_or_never()).collect();
        assert!(entered.iter().all(Option::is_some));
    }
}
