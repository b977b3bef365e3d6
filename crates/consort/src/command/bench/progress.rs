//! A bar on standard error while something goes on, where that is a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WIDTH: usize = 30;
const EVERY: Duration = Duration::from_millis(200);

/// How much of a whole is done. Dropping it ends its line.
#[derive(Debug)]
pub(super) struct Progress {
    done: Arc<AtomicU64>,
    /// None where nobody looks.
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Progress {
    pub(super) fn of(whole: u64) -> Progress {
        let done = Arc::new(AtomicU64::new(0));
        let (counted, shown) = (Arc::clone(&done), std::io::stderr().is_terminal());
        let task = shown.then(|| tokio::spawn(show(counted, whole)));
        Progress { done, task }
    }

    /// What counts one more as done.
    pub(super) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
            let _ = writeln!(std::io::stderr());
        }
    }
}

async fn show(counted: Arc<AtomicU64>, whole: u64) {
    let began = Instant::now();
    loop {
        tokio::time::sleep(EVERY).await;
        let line = line(counted.load(Ordering::Relaxed), whole, began.elapsed());
        // A bar that cannot be shown is no failure.
        let _ = write!(std::io::stderr(), "\r{line}");
    }
}

fn line(done: u64, whole: u64, took: Duration) -> String {
    let share = done as f64 / whole.max(1) as f64;
    let full = ((share * WIDTH as f64) as usize).min(WIDTH);
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full));
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    format!("{bar} {:>3.0} %  {done}/{whole}  {rate:.0}/s ", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_how_far_it_is() {
        let half = line(50, 100, Duration::from_secs(5));
        assert!(half.starts_with(&format!("{}{}", "█".repeat(15), "░".repeat(15))), "{half}");
        assert!(half.contains(" 50 %  50/100  10/s"), "{half}");
        assert!(line(0, 0, Duration::ZERO).contains("0 %"));
    }
}
