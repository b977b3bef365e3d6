//! A watch on the workers of both databases: it looks at their lists all the time, and takes note of rules that they
//! break.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::client::NodeList;
use super::status::{self, WorkerList};
use super::{BANK, REGISTER};

/// Between two looks: several within a lease.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// A watch that goes on.
#[derive(Debug)]
pub struct WorkerWatch {
    stop: watch::Sender<bool>,
    task: JoinHandle<SeenWorkers>,
}

/// All that was seen.
#[derive(Debug, Default)]
pub struct SeenWorkers {
    /// Broken rules: a list that is not sorted, two leaders in it, an id on two nodes.
    pub wrong: BTreeSet<String>,
    looks: usize,
    nodes: BTreeMap<(&'static str, u64), String>,
    leaders: BTreeMap<&'static str, Vec<u64>>,
}

impl WorkerWatch {
    /// Begins to look.
    pub fn start(nodes: NodeList) -> WorkerWatch {
        let (stop, mut stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut seen = SeenWorkers::default();
            while tokio::time::timeout(LOOK_EVERY, stopped.wait_for(|stop| *stop)).await.is_err() {
                let addresses = nodes.all();
                let address = &addresses[seen.looks % addresses.len()];
                seen.looks += 1;
                for database in [REGISTER, BANK] {
                    if let Some(list) = status::workers(address, database).await {
                        seen.take(database, &list);
                    }
                }
            }
            seen
        });
        WorkerWatch { stop, task }
    }

    /// Ends it.
    ///
    /// # Panics
    ///
    /// If it did.
    pub async fn stop(self) -> SeenWorkers {
        self.stop.send_replace(true);
        self.task.await.expect("the watch does not panic")
    }
}

impl SeenWorkers {
    fn take(&mut self, database: &'static str, list: &WorkerList) {
        let ids: Vec<u64> = list.workers.iter().map(|worker| worker.id).collect();
        if !ids.is_sorted_by(|one, next| one < next) {
            self.wrong.insert(format!("{database} lists the workers {ids:?}"));
        }
        let leaders: Vec<u64> =
            list.workers.iter().filter(|worker| worker.leads).map(|worker| worker.id).collect();
        if leaders.len() > 1 {
            self.wrong.insert(format!("{database} lists the leaders {leaders:?}"));
        }
        for worker in &list.workers {
            let node = self.nodes.entry((database, worker.id)).or_insert(worker.node.clone());
            if *node != worker.node {
                let (id, now) = (worker.id, &worker.node);
                self.wrong
                    .insert(format!("worker {id} of {database} was on {node}, then on {now}"));
            }
        }
        let known = self.leaders.entry(database).or_default();
        if let Some(leader) = leaders.first()
            && known.last() != Some(leader)
        {
            known.push(*leader);
        }
    }
}

impl fmt::Display for SeenWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} looks at {} workers; leaders by id: {:?}",
            self.looks,
            self.nodes.len(),
            self.leaders
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::status::WorkerEntry;

    fn list(workers: &[(u64, bool, &str)]) -> WorkerList {
        let entry = |&(id, leads, node): &(u64, bool, &str)| WorkerEntry {
            id,
            leads,
            node: node.into(),
            index: 1,
            lag: 0,
        };
        WorkerList { workers: workers.iter().map(entry).collect(), wanted: 2 }
    }

    #[test]
    fn an_id_that_comes_again_on_another_node_is_noticed() {
        let mut seen = SeenWorkers::default();
        seen.take(REGISTER, &list(&[(1, true, "a"), (2, false, "b")]));
        seen.take(REGISTER, &list(&[(2, true, "b"), (3, false, "a")]));
        seen.take(BANK, &list(&[(1, true, "b")]));
        assert!(seen.wrong.is_empty(), "{seen:?}");
        assert_eq!(seen.leaders[REGISTER], [1, 2]);
        seen.take(REGISTER, &list(&[(1, false, "c"), (2, true, "b")]));
        assert_eq!(seen.wrong.len(), 1);
        seen.take(REGISTER, &list(&[(3, true, "a"), (2, true, "b")]));
        assert_eq!(seen.wrong.len(), 3);
    }
}
