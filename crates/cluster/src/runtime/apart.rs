//! Threads apart, for work that must not stand in line behind what waits for it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::Turns;
use futures::future::BoxFuture;

use super::{Abort, Runtime, TokioRuntime};

/// Tasks on threads of their own, and timers of whichever runtime sleeps.
///
/// A tokio runtime polls its tasks in the order in which they became ready. When a thousand requests arrive
/// at once for one answer, each step towards that answer stands in line behind those who wait for it, unless it
/// is taken elsewhere. And work that takes milliseconds between two awaits holds up whatever became ready on its
/// thread meanwhile.
///
/// Dropping it ends its tasks at their next await, without waiting for them.
pub struct ApartRuntime {
    /// There until it is dropped.
    threads: Option<tokio::runtime::Runtime>,
    tasks: TokioRuntime,
}

impl ApartRuntime {
    /// Starts so many threads, which bear this name, and whose local time is that of `beside`.
    pub fn start(
        name: &str,
        threads: usize,
        turns: Turns,
        beside: &TokioRuntime,
    ) -> io::Result<Arc<Self>> {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name(name)
            .on_thread_start(move || turns.wish())
            .enable_all()
            .build()?;
        let tasks = TokioRuntime { handle: threads.handle().clone(), since: beside.since };
        Ok(Arc::new(ApartRuntime { threads: Some(threads), tasks }))
    }
}

impl Runtime for ApartRuntime {
    fn start(&self, name: &str, work: BoxFuture<'static, ()>) -> Abort {
        self.tasks.start(name, work)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.tasks.sleep(time)
    }

    fn elapsed(&self) -> Duration {
        self.tasks.elapsed()
    }
}

impl Drop for ApartRuntime {
    fn drop(&mut self) {
        // Waiting for the threads is not possible here: this may be a task, even one of their own.
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

impl fmt::Debug for ApartRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApartRuntime").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::{Task, within};
    use super::*;

    #[tokio::test]
    async fn work_goes_on_while_the_callers_thread_is_busy() {
        let runtime =
            ApartRuntime::start("apart", 1, Turns::Usual, &TokioRuntime::current()).unwrap();
        let (done, seen) = std::sync::mpsc::channel();
        let _task = Task::spawn(&*runtime, "steps", async move {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            done.send(std::thread::current().name().map(str::to_owned)).unwrap();
        });
        // This thread, the only one of the test's runtime, does nothing else meanwhile.
        assert_eq!(seen.recv().unwrap().as_deref(), Some("apart"));
    }

    #[tokio::test]
    async fn both_sides_can_sleep_by_it() {
        let runtime =
            ApartRuntime::start("apart", 1, Turns::Usual, &TokioRuntime::current()).unwrap();
        let (moment, minute) = (Duration::from_millis(1), Duration::from_secs(60));
        runtime.sleep(moment).await;
        assert!(runtime.elapsed() >= moment);
        let sleeper = Arc::clone(&runtime) as Arc<dyn Runtime>;
        let slept = Task::spawn(&*runtime, "sleeps", async move { sleeper.sleep(moment).await });
        assert_eq!(within(&*runtime, minute, slept).await, Some(Ok(())));
    }

    #[tokio::test]
    async fn dropping_it_ends_its_tasks() {
        let runtime =
            ApartRuntime::start("apart", 1, Turns::Usual, &TokioRuntime::current()).unwrap();
        let (sender, receiver) = oneshot::channel::<()>();
        let endless = async move {
            std::future::pending::<()>().await;
            drop(sender);
        };
        let _abort = runtime.start("endless", Box::pin(endless));
        drop(runtime);
        assert!(receiver.await.is_err());
    }

    #[tokio::test]
    async fn the_last_to_let_go_of_it_may_be_a_task_of_its_own() {
        let runtime =
            ApartRuntime::start("apart", 1, Turns::Usual, &TokioRuntime::current()).unwrap();
        let (held, (let_go, told)) = (Arc::clone(&runtime), oneshot::channel::<()>());
        let task = Task::spawn(&*runtime, "holds", async move {
            told.await.unwrap();
            drop(held);
        });
        drop(runtime);
        let_go.send(()).unwrap();
        // It ends, by itself or with the threads, and nothing panics.
        let ended = task.await.map_err(|ended| ended.to_string());
        assert!(ended.is_ok() || ended == Err("holds was ended".into()), "{ended:?}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn its_threads_take_their_turns_as_was_wished() {
        // Behind the name of the thread, the 17th is how nice it is.
        let nice = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit(')').next().unwrap().split(' ').nth(17).unwrap().parse::<i32>().unwrap()
        };
        let usual = nice();
        let runtime =
            ApartRuntime::start("apart", 1, Turns::Later, &TokioRuntime::current()).unwrap();
        let (told, seen) = oneshot::channel();
        let _task = Task::spawn(&*runtime, "looks", async move {
            let blocking = tokio::task::spawn_blocking(nice).await.unwrap();
            told.send((nice(), blocking)).unwrap();
        });
        let (worker, blocking) = seen.await.unwrap();
        assert!(worker > usual, "{worker} beside {usual}");
        assert_eq!(blocking, worker, "a thread for what blocks is no nicer than that which asked");
    }
}
