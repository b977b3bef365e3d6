//! A full disk under the embedded engine: a clear error, no damage, and work goes on once there is space
//! and the process is started again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use consort_engines::{Durability, Engine, Options};
use consort_kernel::{
    AppendError, Commit, CommitError, Cursor, Fault, Frame, FrameKind, Key, Most, Name, Operation,
    Partition, Producer, Shard, Timestamp,
};
use consort_tests::check::Check;
use consort_tests::hammer::{Ended, Hammer};
use consort_tests::work::SHARDS;
use tempfile::TempDir;

const HAMMER: &str = env!("CARGO_BIN_EXE_hammer");
const FRAME_BYTES: u32 = 512 * 1024;
const MIB: usize = 1024 * 1024;
/// How long a test waits for what must come: it bounds a hang, and is no measure of speed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A small disk of its own, unmounted in the end.
struct Disk {
    folder: TempDir,
}

impl Disk {
    /// A disk of so many MiB, a quarter of it taken by a file that can be removed.
    fn of(mib: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "consort-test"]);
        let mounted = mount.arg(folder.path()).status().expect("mount is installed");
        assert!(mounted.success(), "this test mounts a small disk, which takes root");
        let disk = Disk { folder };
        std::fs::write(disk.ballast(), vec![1; mib * MIB / 4]).expect("there is space");
        disk
    }

    fn ballast(&self) -> PathBuf {
        self.folder.path().join("ballast")
    }

    fn free_space(&self) {
        std::fs::remove_file(self.ballast()).expect("the ballast is there");
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, as a failed test may still have files open; the folder can then be removed.
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

async fn open(folder: &Path) -> Engine {
    let options = Options {
        url: format!("embedded:{}", folder.display()),
        broker: None,
        namespace: "hammer".into(),
        shards: SHARDS,
        durability: Durability::Fsync,
        allow_volatile: false,
        tls_ca: None,
    };
    consort_engines::open(&options).await.expect("the folder opens")
}

async fn hammer(folder: &Path, seed: u64, options: &[&str]) -> Ended {
    let (url, seed) = (format!("embedded:{}", folder.display()), seed.to_string());
    let frame_bytes = FRAME_BYTES.to_string();
    let arguments = [&url, &seed, "--frame-bytes", &frame_bytes];
    let hammer = Hammer::start(HAMMER, arguments.iter().chain(options));
    tokio::time::timeout(PATIENCE, hammer.end()).await.expect("the hammer ends by itself")
}

/// Fills a disk until the process stops, frees space, and goes on.
async fn a_disk_that_fills_up(mib: usize) -> Ended {
    let disk = Disk::of(mib);
    let mut check = Check::new(FRAME_BYTES);
    let stopped = hammer(&disk.data(), 1, &["--process-durability"]).await;
    assert_eq!(stopped.status.code(), Some(1), "{}", stopped.errors);
    assert!(stopped.record.done > 0);

    disk.free_space();
    check.run(&open(&disk.data()).await, &stopped.record).await;
    let again = hammer(&disk.data(), 1_000, &["--count", "5"]).await;
    assert_eq!((again.status.code(), again.errors.as_str()), (Some(0), ""));
    let engine = open(&disk.data()).await;
    check.run(&engine, &again.record).await;
    check.whole(&engine).await;
    stopped
}

/// So small that nothing is in tables yet: the journal meets the end of the disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_the_process_and_costs_nothing() {
    let stopped = a_disk_that_fills_up(40).await;
    let message = "the embedded engine stopped: the disk is full: free some space and start again";
    assert!(stopped.errors.contains(message), "{}", stopped.errors);
}

/// So large that tables are being written beside the journal: either of them meets the end of the disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_up_while_tables_are_written_costs_nothing() {
    for mib in [150, 220] {
        let stopped = a_disk_that_fills_up(mib).await;
        assert!(stopped.errors.contains("the embedded engine stopped: "), "{}", stopped.errors);
        assert!(stopped.errors.contains("free"), "{}", stopped.errors);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_write_the_engine_takes_no_more() {
    let disk = Disk::of(16);
    let engine = open(&disk.data()).await;
    let at = Partition::new(Name::new("full").expect("a name"), 0);
    let frame = |sequence| Frame {
        kind: FrameKind::Events,
        producer: Producer(1),
        sequence,
        time: Timestamp(1_700_000_000_000),
        records: vec![Bytes::from(vec![7; MIB])].into(),
    };
    let mut done = 0;
    let failed = loop {
        match engine.log.append(&at, &frame(done)).await {
            Ok(()) => done += 1,
            Err(error) => break error,
        }
    };
    let full = "the disk is full: free some space and start again; nothing acknowledged was lost";
    assert_eq!(failed, AppendError::Unknown(Fault::Fatal(full.into())));
    let reason = tokio::time::timeout(PATIENCE, engine.poison.wait()).await.expect("poisoned");
    assert_eq!(reason, format!("the embedded engine stopped: {full}"));

    let fatal = Fault::Fatal(reason);
    let put = Operation::Put { key: Key::from(["k"]), value: Bytes::new() };
    assert_eq!(engine.log.append(&at, &frame(0)).await, Err(AppendError::Engine(fatal.clone())));
    let commit = engine.store.commit(Shard(0), Commit::of([put])).await;
    assert_eq!(commit, Err(CommitError::Engine(fatal.clone())));
    assert_eq!(engine.log.trim(&at, 1).await, Err(fatal.clone()));
    assert_eq!(engine.log.ping().await, Err(fatal.clone()));
    assert_eq!(engine.store.ping().await, Err(fatal));
    assert_eq!(sequences(&engine, &at).await, (0..done).collect::<Vec<_>>(), "reads go on");

    drop(engine);
    disk.free_space();
    let engine = open(&disk.data()).await;
    let there = sequences(&engine, &at).await;
    assert!(there.len() as u64 == done || there.len() as u64 == done + 1, "{there:?} of {done}");
    assert!(there.iter().copied().eq(0..there.len() as u64), "in order, without a gap");
    engine.log.append(&at, &frame(done + 1)).await.expect("it takes more");
}

async fn sequences(engine: &Engine, at: &Partition) -> Vec<u64> {
    let (mut sequences, mut cursor) = (Vec::new(), Cursor::START);
    loop {
        let page = engine.log.read(at, &cursor, Most::default(), Duration::ZERO).await;
        let page = page.expect("read");
        let Some(last) = page.last() else { return sequences };
        cursor = last.cursor();
        sequences.extend(page.iter().map(|entry| entry.frame.sequence));
    }
}
