//! Snapshots: a new worker loads one and follows the feed from its index.

mod bed;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use bed::{Bed, job};
use bytes::Bytes;
use consort_db::follow::Follower;
use consort_db::local::FileState;
use consort_db::snapshot::chunks::ChunkName;
use consort_db::snapshot::load::{LoadError, SnapshotFile};
use consort_db::snapshot::make::{MakeError, copy_file, describe, read_chunk};
use consort_db::snapshot::manifest::Manifest;
use consort_db::sqlite::connect::open_reader;

type Chunks = BTreeMap<ChunkName, Bytes>;

/// Makes a snapshot, and tells how many chunks were not stored before.
fn snapshot(bed: &Bed, name: &str, chunks: &mut Chunks) -> (Manifest, usize) {
    let source = open_reader(&bed.folder.path().join("two")).unwrap();
    let copy = bed.folder.path().join(name);
    let state = copy_file(&source, &copy).unwrap();
    let manifest = describe(&copy, &state).unwrap();
    let before = chunks.len();
    let mut file = File::open(&copy).unwrap();
    for (number, name) in (0..).zip(&manifest.chunks) {
        chunks.insert(*name, read_chunk(&mut file, number, *name).unwrap());
    }
    (manifest, chunks.len() - before)
}

fn load(
    manifest: &Manifest,
    path: &Path,
    fetch: impl Fn(ChunkName) -> Option<Bytes>,
) -> Result<FileState, LoadError> {
    let mut file = SnapshotFile::create(path)?;
    for name in &manifest.chunks {
        file.push(*name, fetch(*name).as_deref())?;
    }
    file.finish(manifest)
}

fn filled() -> Bed {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b)");
    let fill = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3000)
        INSERT INTO t SELECT x, hex(randomblob(300)) FROM n";
    bed.sql(fill);
    bed.follow().unwrap();
    bed
}

#[test]
fn a_worker_that_loads_a_snapshot_follows_the_feed_from_its_index() {
    let mut bed = filled();
    let mut chunks = Chunks::new();
    let (manifest, written) = snapshot(&bed, "copy", &mut chunks);
    assert!(written > 3, "{written}");
    assert_eq!((manifest.index, manifest.page_bytes), (2, 4096));
    bed.run(job(&["UPDATE t SET b = 'x' WHERE a < 10", "DELETE FROM t WHERE a > 2990"])).unwrap();
    let path = bed.folder.path().join("loaded");
    let state = load(&manifest, &path, |name| chunks.get(&name).cloned()).unwrap();
    assert_eq!(state.index, 2);
    bed.followers.push(Follower::open(&path, 9).unwrap());
    bed.assert_equal();
}

#[test]
fn the_next_snapshot_writes_only_changed_chunks() {
    let mut bed = filled();
    let mut chunks = Chunks::new();
    let (_, all) = snapshot(&bed, "copy", &mut chunks);
    bed.sql("UPDATE t SET b = 'x' WHERE a = 1500");
    bed.follow().unwrap();
    let (_, changed) = snapshot(&bed, "again", &mut chunks);
    assert!(changed < all, "{changed} of {all}");
}

#[test]
fn h13_a_missing_chunk_and_one_of_another_snapshot_are_found() {
    let bed = filled();
    let mut chunks = Chunks::new();
    let (manifest, _) = snapshot(&bed, "copy", &mut chunks);
    let last = *manifest.chunks.last().unwrap();
    let path = |name: &str| bed.folder.path().join(name);
    let missing =
        load(&manifest, &path("1"), |name| chunks.get(&name).filter(|_| name != last).cloned());
    assert!(matches!(missing, Err(LoadError::Missing(name)) if name == last));
    let swapped = load(&manifest, &path("2"), |_| chunks.get(&last).cloned());
    assert!(matches!(swapped, Err(LoadError::Chunk(_))));
    let other = Manifest { index: 1, ..manifest.clone() };
    let fetch = |name: ChunkName| chunks.get(&name).cloned();
    assert!(matches!(load(&other, &path("3"), fetch), Err(LoadError::OtherState)));
    let content = consort_db::hash::ContentHash(1);
    let other = Manifest { content, ..manifest.clone() };
    assert!(matches!(load(&other, &path("4"), fetch), Err(LoadError::OtherContents { .. })));
    let shorter = Manifest { file_bytes: manifest.file_bytes - 1, ..manifest };
    assert!(matches!(load(&shorter, &path("5"), fetch), Err(LoadError::Size { .. })));
}

#[test]
fn a_copy_that_changes_while_its_chunks_are_read_is_refused() {
    let bed = filled();
    let (manifest, _) = snapshot(&bed, "copy", &mut Chunks::new());
    let mut other = File::open(bed.folder.path().join("leader")).unwrap();
    let changed = read_chunk(&mut other, 1, manifest.chunks[0]);
    assert!(matches!(changed, Err(MakeError::Changed(_))), "{changed:?}");
}
