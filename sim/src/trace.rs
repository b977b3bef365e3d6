//! What happened in a run, as a hash of all of it and the text of its end.

use std::collections::VecDeque;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

/// The hash of everything noted so far, and the last of it as text if that is wanted.
#[derive(Default)]
pub(crate) struct Trace {
    hash: Xxh3,
    kept: VecDeque<String>,
    keep: usize,
}

impl Trace {
    /// Keeps the last `keep` events as text from now on.
    pub(crate) fn keep(&mut self, keep: usize) {
        self.keep = keep;
        self.kept.drain(..self.kept.len().saturating_sub(keep));
    }

    /// A task runs until its next await.
    pub(crate) fn step(&mut self, time: Duration, task: u64, name: &str) {
        self.hash.update(&time.as_nanos().to_le_bytes());
        self.hash.update(&task.to_le_bytes());
        if self.keep > 0 {
            self.push(time, format!("step of task {task}, {name}"));
        }
    }

    /// Something worth knowing happened.
    pub(crate) fn note(&mut self, time: Duration, event: String) {
        self.hash.update(&time.as_nanos().to_le_bytes());
        self.hash.update(event.as_bytes());
        if self.keep > 0 {
            self.push(time, event);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.digest()
    }

    pub(crate) fn text(&self) -> Vec<String> {
        self.kept.iter().cloned().collect()
    }

    fn push(&mut self, time: Duration, event: String) {
        if self.kept.len() >= self.keep {
            self.kept.pop_front();
        }
        self.kept.push_back(format!("{:>12.6} {event}", time.as_secs_f64()));
    }
}
