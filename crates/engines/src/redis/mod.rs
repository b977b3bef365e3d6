//! The Redis engine: log and store on one server or on a Redis Cluster.
//!
//! Every call is one script, so it is atomic and one round trip; all keys of a shard or partition share
//! a hash tag, so the same code runs on a cluster. Nothing blocks on the server: waiting reads are woken
//! by messages, on a connection of their own.

mod encode;
mod entries;
mod keys;
mod link;
mod log;
mod scripts;
mod settings;
mod store;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use consort_kernel::{Fault, Shard};
use tokio::sync::Semaphore;

pub use log::RedisLog;
pub use store::RedisStore;

use crate::open::OpenError;
use keys::Keys;
use link::{CallError, Link, Place};
use scripts::Scripts;
use watch::Watch;

/// How often a waiting reader looks although nothing woke it: a lost message costs it this much.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Bulk commits take turns: of each group of shards so many are on their way at one time, one that is carried out and
/// the next one. The clock, urgent commits and appends, which share their connection, wait behind no more of them than
/// all groups have, however slow the server is. So a node does not take commits for lost that only stand in a long
/// line. Several groups, since in a cluster one server may hang while the others do well.
const BULK_AT_ONCE: usize = 2;
const BULK_GROUPS: usize = 16;

/// The one engine behind the log and the store of a namespace.
#[derive(Debug)]
struct Shared {
    /// For appends, commits and the clock.
    writes: Link,
    /// For every call about leases: a connection answers in order, and appends of many megabytes may be on the other
    /// ones. The first call connects, and the connection is driven by the runtime of that call.
    leases: Link,
    /// Turns of bulk commits, by group of shards.
    bulk: [Semaphore; BULK_GROUPS],
    /// For reads, whose answers may be large: they must not hold up leases and appends.
    reads: Link,
    watch: Watch,
    scripts: Scripts,
    keys: Keys,
    /// The latest time the server told.
    latest: AtomicU64,
}

impl Shared {
    async fn ping(&self) -> Result<(), Fault> {
        let root = self.keys.shard(Shard(0));
        let answer = self.writes.script(&self.scripts.time, root.as_bytes(), &[]).await;
        answer.map(|_| ()).map_err(CallError::fault)
    }
}

/// Connects to `url`, checks the server's settings, and says what they promise.
pub async fn open(
    url: &str,
    namespace: &str,
    shards: u16,
    allow_volatile: bool,
    tls_ca: Option<&Path>,
) -> Result<(RedisLog, RedisStore, Vec<String>), OpenError> {
    // Another library may have chosen already; rustls needs one choice for the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = Place::parse(url, tls_ca)?;
    let writes = Link::new(place.clone());
    let report = settings::check(&writes, allow_volatile).await?;
    let shared = Arc::new(Shared {
        writes,
        leases: Link::for_leases(place.clone()),
        bulk: std::array::from_fn(|_| Semaphore::new(BULK_AT_ONCE)),
        reads: Link::for_reads(place.clone()),
        watch: Watch::start(place),
        scripts: Scripts::new(),
        keys: Keys::new(namespace),
        latest: AtomicU64::new(0),
    });
    Ok((RedisLog::new(shared.clone()), RedisStore::new(shared, shards), report))
}
