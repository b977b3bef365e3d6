//! The watch: looks at the cluster's status all the time, and takes down what must never be seen and what
//! is worth telling.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{ClusterStatus, PauseCause, Role};
use consort_kernel::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::tally;

/// Between two looks: several within a lease.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Looks that the store answered.
    pub looks: u64,
    /// What must not be: an epoch that fell, a role stopped for a loss, a cell that cannot be read.
    pub wrong: BTreeSet<String>,
    /// The pauses of roles at their hand-overs, in milliseconds.
    pub pauses: BTreeMap<PauseCause, Vec<u64>>,
    /// Reasons for which roles were given up, and how often.
    pub refusals: BTreeMap<String, usize>,
    epochs: BTreeMap<Role, u64>,
    told: BTreeSet<(Role, u64)>,
    refused: BTreeSet<(Role, String, u64)>,
}

/// A watch that goes on.
#[derive(Debug)]
pub struct Watch {
    stop: watch::Sender<bool>,
    task: JoinHandle<Seen>,
}

impl Watch {
    /// Starts to look.
    pub fn start(store: Arc<dyn Store>) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let (mut seen, roles) = (Seen::default(), tally::roles());
            while tokio::time::timeout(LOOK_EVERY, stopped.wait_for(|stop| *stop)).await.is_err() {
                // While the store is down there is nothing to see.
                if let Ok(status) = ClusterStatus::read(&*store, &roles).await {
                    seen.take(&status);
                }
            }
            seen
        });
        Watch { stop, task }
    }

    /// Ends it.
    ///
    /// # Panics
    ///
    /// If it did.
    pub async fn end(self) -> Seen {
        self.stop.send_replace(true);
        self.task.await.expect("the watch does not panic")
    }
}

impl Seen {
    fn take(&mut self, status: &ClusterStatus) {
        self.looks += 1;
        self.wrong.extend(status.unreadable.iter().cloned());
        for found in &status.roles {
            let (role, epoch) = (&found.role, found.epoch);
            let before = self.epochs.insert(role.clone(), epoch).unwrap_or(0);
            if epoch < before {
                self.wrong.insert(format!("the epoch of {role} fell from {before} to {epoch}"));
            }
            if let Some(reason) = &found.stopped {
                self.wrong.insert(format!("{role} stopped under epoch {epoch}: {reason}"));
            }
            if let Some(pause) = found.pause
                && self.told.insert((role.clone(), epoch))
            {
                self.pauses.entry(pause.cause).or_default().push(pause.millis);
            }
            for refusal in &found.refusals {
                let new = (role.clone(), refusal.node.clone(), refusal.until);
                if self.refused.insert(new) {
                    *self.refusals.entry(brief(&refusal.reason)).or_default() += 1;
                }
            }
        }
    }

    /// The pauses, for people.
    pub fn report(&self) -> String {
        let mut lines = vec![format!("{} looks at the cluster", self.looks)];
        for (cause, pauses) in &self.pauses {
            let mut pauses = pauses.clone();
            pauses.sort_unstable();
            let at = |percent: usize| pauses[(pauses.len() - 1) * percent / 100];
            lines.push(format!(
                "pauses, {}: {} roles, half within {} ms, nine of ten within {} ms, longest {} ms",
                cause.as_str(),
                pauses.len(),
                at(50),
                at(90),
                at(100),
            ));
        }
        let refusals = self.refusals.iter();
        lines.extend(refusals.map(|(reason, times)| format!("given up {times} times: {reason}")));
        lines.join("\n")
    }
}

/// A reason without the partition and the time it begins with.
fn brief(reason: &str) -> String {
    reason.split_once(": ").map_or(reason, |(_, why)| why).to_string()
}
