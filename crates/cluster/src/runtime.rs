//! Where tasks run and timers come from: tokio in a node, a seeded scheduler in a simulation.

mod apart;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

pub use apart::ApartRuntime;

/// Tasks and local time. Local time only measures how long things take on this node: what nodes agree on
/// goes by [`Store::now`](consort_kernel::Store::now).
pub trait Runtime: Send + Sync + fmt::Debug {
    /// Starts `work` as a task of its own. The answer ends it at its next await.
    fn start(&self, name: &str, work: BoxFuture<'static, ()>) -> Abort;

    /// Returns after `time`, or somewhat later.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;

    /// Time since some fixed moment of this process. It never goes backwards.
    fn elapsed(&self) -> Duration;
}

/// Ends a task.
pub type Abort = Box<dyn FnOnce() + Send + Sync>;

/// A running task. Dropping it ends the task at its next await; awaiting it gives what it returned.
pub struct Task<T> {
    name: String,
    abort: Option<Abort>,
    ended: oneshot::Receiver<Result<T, Panicked>>,
}

/// A task that panicked, or was ended from outside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} {reason}")]
pub struct Panicked {
    task: String,
    reason: String,
}

impl<T: Send + 'static> Task<T> {
    /// Runs `work` on `runtime`.
    pub fn spawn(
        runtime: &dyn Runtime,
        name: &str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let (sender, ended) = oneshot::channel();
        let task = name.to_string();
        let wrapped = async move {
            let result = AssertUnwindSafe(work).catch_unwind().await;
            let result = result.map_err(|panic| Panicked {
                task,
                reason: format!("panicked: {}", text_of(&*panic)),
            });
            // Nobody may be waiting for the end.
            let _ = sender.send(result);
        };
        let abort = runtime.start(name, wrapped.boxed());
        Task { name: name.to_string(), abort: Some(abort), ended }
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

impl<T> Future for Task<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.ended).poll(context).map(|ended| match ended {
            Ok(result) => result,
            Err(_) => Err(Panicked { task: self.name.clone(), reason: "was ended".into() }),
        })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(abort) = self.abort.take() {
            abort();
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What `work` gives, if it does so within `time`.
pub async fn within<T>(
    runtime: &dyn Runtime,
    time: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        result = work => Some(result),
        () = runtime.sleep(time) => None,
    }
}

/// Tasks and timers of the tokio runtime it was made in.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: tokio::runtime::Handle,
    since: tokio::time::Instant,
}

impl TokioRuntime {
    /// The runtime that the caller runs in.
    pub fn current() -> Arc<Self> {
        let since = tokio::time::Instant::now();
        Arc::new(TokioRuntime { handle: tokio::runtime::Handle::current(), since })
    }
}

impl Runtime for TokioRuntime {
    fn start(&self, _name: &str, work: BoxFuture<'static, ()>) -> Abort {
        let task = self.handle.spawn(work).abort_handle();
        Box::new(move || task.abort())
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(time).boxed()
    }

    fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_gives_its_result_or_says_why_not() {
        let runtime = TokioRuntime::current();
        assert_eq!(Task::spawn(&*runtime, "sum", async { 1 + 1 }).await, Ok(2));
        let panicked = Task::<()>::spawn(&*runtime, "bad", async { panic!("no {}", "way") }).await;
        assert_eq!(panicked.map_err(|p| p.to_string()), Err("bad panicked: no way".into()));
    }

    #[tokio::test]
    async fn a_dropped_task_is_ended() {
        let runtime = TokioRuntime::current();
        let (sender, receiver) = oneshot::channel::<()>();
        let task = Task::spawn(&*runtime, "waits", async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
        drop(task);
        assert!(receiver.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_given_up() {
        let runtime = TokioRuntime::current();
        let second = Duration::from_secs(1);
        assert_eq!(within(&*runtime, second, std::future::pending::<()>()).await, None);
        assert_eq!(within(&*runtime, second, async { 7 }).await, Some(7));
    }
}
