//! Tasks and timers of one node, as production code asks for them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use consort_cluster::Runtime;
use consort_cluster::runtime::Abort;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::handle::Handle;

/// What ends beyond this never ends: time must not be led there by a timer that means "never".
const FOREVER: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

/// The runtime of a node in one of its lives. When the node crashes, this one starts nothing any more.
#[derive(Clone, Debug)]
pub struct NodeRuntime {
    handle: Handle,
    node: u32,
    life: u64,
    born: Duration,
}

impl NodeRuntime {
    /// The runtime of `node` from now until it crashes.
    pub fn new(handle: Handle, node: u32) -> Self {
        let (life, born) = (handle.life(node), handle.now());
        NodeRuntime { handle, node, life, born }
    }

    /// Starts a task of the node that only ends by itself or with it.
    pub fn spawn(&self, name: &str, work: impl Future<Output = ()> + Send + 'static) -> u64 {
        self.handle.spawn_on(self.node, self.life, name, work.boxed())
    }

    /// Which node.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Which of its lives.
    pub fn life(&self) -> u64 {
        self.life
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Runtime for NodeRuntime {
    fn start(&self, name: &str, work: BoxFuture<'static, ()>) -> Abort {
        let task = self.handle.spawn_on(self.node, self.life, name, work);
        let handle = self.handle.clone();
        Box::new(move || handle.abort(task))
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.handle.sleep(time).boxed()
    }

    fn elapsed(&self) -> Duration {
        self.handle.now() - self.born
    }
}

/// Waits for a moment of virtual time.
#[derive(Debug)]
pub struct Sleep {
    handle: Handle,
    until: Duration,
    timer: Option<(Duration, u64)>,
}

impl Sleep {
    pub(crate) fn new(handle: Handle, until: Duration) -> Self {
        Sleep { handle, until, timer: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker();
        match self.timer {
            // The first look always waits, so that even a sleep of no time lets others run.
            None if self.until < FOREVER => {
                self.timer = Some(self.handle.set_timer(self.until, waker.clone()));
                Poll::Pending
            }
            None => Poll::Pending,
            Some(timer) if self.handle.reset_timer(timer, waker) => Poll::Pending,
            Some(_) => Poll::Ready(()),
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.handle.clear_timer(timer);
        }
    }
}
