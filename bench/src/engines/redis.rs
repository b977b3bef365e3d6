//! The Redis engine beside bare pipelined commands, on the same server with AOF everysec.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use bytes::Bytes;
use consort_kernel::{Commit, Key, Name, Operation, Shard, Store};
use consort_testbed::{Fsync, RedisOptions, RedisServer};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::{
    ADDITIONS, ENTRIES, ENTRY_BYTES, additions, counter, entries, fill, random_counters,
    random_entries,
};
use crate::measure::{Pace, compare, rate};
use crate::report::Report;

/// Groups that the events of one batch fall into: what a view's updates merge to.
const GROUPS: u64 = 100;

/// Feed entries that stay on the server.
const ENTRIES_KEPT: u64 = 100_000;

pub(super) async fn run(pace: Pace, report: &mut Report) -> Result<()> {
    let server = RedisServer::start(RedisOptions::new().fsync(Fsync::Everysec)).await;
    let url = server.url();
    let (_, store, _) = consort_engines::redis::open(&url, "bench", 1, false, None).await?;
    // By default a call would be given up after half a second, which a busy disk can take.
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(url)?;
    let connection = client.get_multiplexed_async_connection_with_config(&patient).await?;
    for commit in fill(pace.counters) {
        store.commit(Shard(0), commit).await?;
    }
    for chunk in 0..pace.counters.div_ceil(10_000) {
        let mut pipe = redis::pipe();
        for n in chunk * 10_000..pace.counters.min((chunk + 1) * 10_000) {
            pipe.cmd("SET").arg(counter(n).as_bytes()).arg(1).ignore();
        }
        pipe.exec_async(&mut connection.clone()).await?;
    }
    let bare = || {
        rate(pace, || async {
            let mut pipe = redis::pipe();
            for n in random_counters(pace.counters) {
                pipe.cmd("INCRBY").arg(counter(n).as_bytes()).arg(1).ignore();
            }
            pipe.exec_async(&mut connection.clone()).await?;
            Ok(ADDITIONS)
        })
    };
    let consort = || {
        rate(pace, || async {
            store.commit(Shard(0), additions(pace.counters)).await?;
            Ok(ADDITIONS)
        })
    };
    let name = format!("{ADDITIONS} additions over {} counters", pace.counters);
    let compared = compare(pace, &name, bare, consort).await?;
    let name = format!("redis: commit of {name}");
    report.add(&name, "additions", "bare pipelined INCRBY", compared, Some(0.35));
    mix(pace, report, &store, &connection).await?;
    feed_entries(pace, report, &store, &connection).await
}

/// Commits of feed entries, trimmed as they come so that the server's memory holds them.
async fn feed_entries(
    pace: Pace,
    report: &mut Report,
    store: &impl Store,
    connection: &MultiplexedConnection,
) -> Result<()> {
    let bare = || {
        rate(pace, || async {
            let mut pipe = redis::pipe();
            for entry in random_entries() {
                pipe.cmd("XADD").arg("entries").arg("MAXLEN").arg("~").arg(ENTRIES_KEPT);
                pipe.arg("*").arg("e").arg(&entry[..]).ignore();
            }
            pipe.exec_async(&mut connection.clone()).await?;
            Ok(ENTRIES)
        })
    };
    let (feed, appended) = (Name::new("rows")?, AtomicU64::new(0));
    let consort = || {
        rate(pace, || async {
            store.commit(Shard(0), entries()).await?;
            let behind = appended.fetch_add(ENTRIES, Ordering::Relaxed) + ENTRIES;
            store.trim_feed(Shard(0), &feed, behind.saturating_sub(ENTRIES_KEPT)).await?;
            Ok(ENTRIES)
        })
    };
    let name = format!("commit of {ENTRIES} feed entries of {ENTRY_BYTES} B");
    let compared = compare(pace, &name, bare, consort).await?;
    let name = format!("redis: {name}, trimmed");
    report.add(&name, "entries", "bare pipelined XADD", compared, None);
    Ok(())
}

/// What a batch of events does to two views, count and distinct by group: bare, one command for each
/// event and view; by Consort, merged to one addition and one insertion a group.
async fn mix(
    pace: Pace,
    report: &mut Report,
    store: &impl Store,
    connection: &MultiplexedConnection,
) -> Result<()> {
    let user = |n: u64| Bytes::from(format!("user-{n}"));
    let bare = || {
        rate(pace, || async {
            let mut pipe = redis::pipe();
            for n in random_counters(pace.counters) {
                let group = n % GROUPS;
                pipe.cmd("INCRBY").arg(format!("count:{group}")).arg(1).ignore();
                pipe.cmd("SADD").arg(format!("users:{group}")).arg(&user(n)[..]).ignore();
            }
            pipe.exec_async(&mut connection.clone()).await?;
            Ok(ADDITIONS)
        })
    };
    let consort = || {
        rate(pace, || async {
            let mut groups: Vec<Vec<Bytes>> = vec![Vec::new(); GROUPS as usize];
            for n in random_counters(pace.counters) {
                groups[(n % GROUPS) as usize].push(user(n));
            }
            let operations = groups.into_iter().enumerate().flat_map(|(group, members)| {
                let key = |view: &str| Key::from([view]).with(group as u64);
                let add = Operation::Add {
                    key: key("count"),
                    by: members.len() as i64,
                    on_overflow: None,
                };
                [add, Operation::Distinct { key: key("users"), members }]
            });
            store.commit(Shard(0), Commit::of(operations)).await?;
            Ok(ADDITIONS)
        })
    };
    let name = format!("events into two views of {GROUPS} groups");
    let compared = compare(pace, &name, bare, consort).await?;
    let name = format!("redis: {name}, merged, {ADDITIONS} a commit");
    report.add(&name, "events", "pipelined INCRBY and SADD", compared, None);
    Ok(())
}
