//! The embedded engine beside fjall itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use consort_engines::embedded::{self, Durability, EmbeddedLog, EmbeddedStore};
use consort_kernel::{Log, Shard, Store, SystemClock};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use futures::future::try_join_all;
use tempfile::TempDir;

use super::{
    ADDITIONS, Contents, ENTRIES, ENTRY_BYTES, RECORD_BYTES, additions, counter, entries, fill,
    frame, partition, random_counters, random_entries,
};
use crate::measure::{Pace, compare, rate};
use crate::report::Report;

const CALLERS: usize = 64;

pub(super) async fn run(pace: Pace, report: &mut Report) -> Result<()> {
    for records in [100, 1_000] {
        append(pace, report, records, Contents::Random).await?;
        append(pace, report, records, Contents::Text).await?;
    }
    callers(pace, report).await?;
    feed_entries(pace, report).await?;
    counters(pace, report).await
}

fn open(folder: &TempDir) -> Result<(EmbeddedLog, EmbeddedStore)> {
    let clock = Arc::new(SystemClock::default());
    let (log, store, _) = embedded::open(folder.path(), 1, Durability::Fsync, clock)?;
    Ok((log, store))
}

fn bare(folder: &TempDir) -> Result<(Database, Keyspace)> {
    let database = Database::builder(folder.path()).open()?;
    let keyspace = database.keyspace("bench", KeyspaceCreateOptions::default)?;
    Ok((database, keyspace))
}

/// Frames, one after the other, each with its fsync.
async fn append(pace: Pace, report: &mut Report, records: usize, contents: Contents) -> Result<()> {
    let (ours, theirs) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (log, _) = open(&ours)?;
    let (database, keyspace) = bare(&theirs)?;
    let frame = frame(records, RECORD_BYTES, contents);
    let bytes = frame.encode()?;
    let sequence = AtomicU64::new(0);
    let kind = match contents {
        Contents::Random => "random",
        Contents::Text => "JSON",
    };
    let name = format!("append, frames of {records} {kind} records of {RECORD_BYTES} B");
    let limit = || {
        rate(pace, || async {
            let key = sequence.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            let mut batch = database.batch().durability(Some(PersistMode::SyncData));
            batch.insert(&keyspace, key, &bytes[..]);
            batch.commit()?;
            Ok(records as u64)
        })
    };
    let consort = || {
        rate(pace, || async {
            log.append(&partition(0), &frame).await?;
            Ok(records as u64)
        })
    };
    let compared = compare(pace, &name, limit, consort).await?;
    let name = format!("embedded: {name}, fsync");
    report.add(&name, "records", "a bare fjall batch", compared, Some(0.8));
    Ok(())
}

/// One caller that waits for each append, and many.
async fn callers(pace: Pace, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (log, _) = open(&folder)?;
    let appends = |callers: usize| {
        let log = log.clone();
        async move {
            let all = (0..callers as u32).map(|caller| {
                let log = log.clone();
                tokio::spawn(async move {
                    let frame = frame(1, RECORD_BYTES, Contents::Random);
                    rate(pace, || async {
                        log.append(&partition(caller % 32), &frame).await?;
                        Ok(1)
                    })
                    .await
                })
            });
            let rates = try_join_all(all).await?;
            rates.into_iter().sum::<Result<f64>>()
        }
    };
    let name = format!("{CALLERS} callers beside one");
    let compared = compare(pace, &name, || appends(1), || appends(CALLERS)).await?;
    let name = format!("embedded: {CALLERS} callers, one record each, fsync");
    report.add(&name, "appends", "one caller", compared, Some(20.0));
    Ok(())
}

/// Commits of feed entries, one after the other, each with its fsync.
async fn feed_entries(pace: Pace, report: &mut Report) -> Result<()> {
    let (ours, theirs) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (_, store) = open(&ours)?;
    let (database, keyspace) = bare(&theirs)?;
    let number = AtomicU64::new(0);
    let limit = || {
        rate(pace, || async {
            let mut batch = database.batch().durability(Some(PersistMode::SyncData));
            for entry in random_entries() {
                let key = number.fetch_add(1, Ordering::Relaxed).to_be_bytes();
                batch.insert(&keyspace, key, &entry[..]);
            }
            batch.commit()?;
            Ok(ENTRIES)
        })
    };
    let consort = || {
        rate(pace, || async {
            store.commit(Shard(0), entries()).await?;
            Ok(ENTRIES)
        })
    };
    let name = format!("commit of {ENTRIES} feed entries of {ENTRY_BYTES} B");
    let compared = compare(pace, &name, limit, consort).await?;
    let name = format!("embedded: {name}, fsync");
    report.add(&name, "entries", "a bare fjall batch", compared, None);
    Ok(())
}

/// Additions to random counters out of very many.
async fn counters(pace: Pace, report: &mut Report) -> Result<()> {
    let (ours, theirs) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (_, store) = open(&ours)?;
    let (database, keyspace) = bare(&theirs)?;
    for commit in fill(pace.counters) {
        store.commit(Shard(0), commit).await?;
    }
    for n in 0..pace.counters {
        keyspace.insert(counter(n).as_bytes(), 1i64.to_le_bytes())?;
    }
    let limit = || {
        rate(pace, || async {
            let mut batch = database.batch().durability(Some(PersistMode::SyncData));
            for n in random_counters(pace.counters) {
                let key = counter(n);
                let held = keyspace.get(key.as_bytes())?;
                let number = held.and_then(|held| held.first_chunk().copied());
                let number = number.map_or(0, i64::from_le_bytes) + 1;
                batch.insert(&keyspace, key.as_bytes(), number.to_le_bytes());
            }
            batch.commit()?;
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
    let compared = compare(pace, &name, limit, consort).await?;
    let name = format!("embedded: commit of {name}, fsync");
    report.add(&name, "additions", "a read-modify-write loop on fjall", compared, Some(1.0));
    Ok(())
}
