//! Clients that write while workers crash, and remember what was acknowledged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokio::task::JoinSet;

use super::calls::{Caller, rider, user};

/// What clients know of their writes.
#[derive(Clone, Debug, Default)]
pub struct WriteRecord {
    /// Users whose creation was acknowledged.
    pub users: BTreeSet<String>,
    /// Users whose joining was acknowledged.
    pub riders: BTreeSet<String>,
    /// Users whose creation or joining was answered with 503: it may have happened.
    pub unsettled: BTreeSet<String>,
}

/// The clients.
#[derive(Debug)]
pub struct Writers {
    stop: Arc<AtomicBool>,
    writing: JoinSet<WriteRecord>,
}

impl Writers {
    /// So many clients, which create users that join this ride.
    pub fn start(count: usize, gateway: &Caller, ride: u64) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let mut writing = JoinSet::new();
        for number in 0..count {
            writing.spawn(write(number, gateway.clone(), ride, stop.clone()));
        }
        Writers { stop, writing }
    }

    /// Lets them finish what they do, and gives what all of them know.
    pub async fn finish(self) -> WriteRecord {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = WriteRecord::default();
        for record in self.writing.join_all().await {
            all.users.extend(record.users);
            all.riders.extend(record.riders);
            all.unsettled.extend(record.unsettled);
        }
        all
    }
}

async fn write(number: usize, gateway: Caller, ride: u64, stop: Arc<AtomicBool>) -> WriteRecord {
    let mut record = WriteRecord::default();
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let name = format!("writer-{number}-{round}");
        let created = gateway.call("PUT", "/api/v1/users", &user(&name)).await;
        match created.status {
            201 => record.users.insert(name.clone()),
            503 => {
                record.unsettled.insert(name);
                continue;
            }
            _ => panic!("{name}: {created:?}"),
        };
        let joined = gateway.call("POST", &format!("/api/v1/rides/{ride}"), &rider(&name)).await;
        match joined.status {
            200 => record.riders.insert(name),
            503 => record.unsettled.insert(name),
            _ => panic!("{name}: {joined:?}"),
        };
    }
    record
}

impl WriteRecord {
    /// Checks that the database has all that was acknowledged, each once, and nothing that no client sent.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub async fn is_all_there(&self, gateway: &Caller, ride: u64) {
        let users = names(&gateway.get("/api/v1/users").await);
        let riders = names(&gateway.get(&format!("/api/v1/rides/{ride}")).await["users"]);
        for (stored, acknowledged) in [(&users, &self.users), (&riders, &self.riders)] {
            let once: BTreeSet<String> = stored.iter().cloned().collect();
            assert_eq!(once.len(), stored.len(), "each name is there once");
            let missing: Vec<&String> = acknowledged.difference(&once).collect();
            assert!(missing.is_empty(), "acknowledged and missing: {missing:?}");
            let known = |name: &&String| {
                name.starts_with("writer-")
                    && !acknowledged.contains(*name)
                    && !self.unsettled.contains(*name)
            };
            let invented: Vec<&String> = once.iter().filter(known).collect();
            assert!(invented.is_empty(), "there and not sent: {invented:?}");
        }
    }
}

fn names(list: &Value) -> Vec<String> {
    let names = list.as_array().into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}
