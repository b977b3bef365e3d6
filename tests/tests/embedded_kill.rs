//! SIGKILL of a process on the embedded engine, in the middle of appends and commits: everything that
//! was acknowledged is there afterwards, in order, and nothing is half applied.

use std::path::Path;
use std::time::Duration;

use consort_engines::embedded::FolderError;
use consort_engines::{Durability, Engine, OpenError, Options};
use consort_tests::check::Check;
use consort_tests::hammer::Hammer;
use consort_tests::seed::seed;
use consort_tests::work::SHARDS;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const HAMMER: &str = env!("CARGO_BIN_EXE_hammer");
/// The hammer's own bound for a frame.
const FRAME_BYTES: u32 = 16_384;
/// Every so many rounds the hammer is killed by the clock alone, most likely while it opens the folder.
const BY_THE_CLOCK: u64 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn killed_200_times_nothing_acknowledged_is_lost() {
    let seed = seed("killed_200_times");
    kill_rounds(seed, 200, 80, FRAME_BYTES, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn durability_process_survives_a_kill_too() {
    let seed = seed("durability_process");
    kill_rounds(seed, 20, 400, FRAME_BYTES, &["--process-durability"]).await;
}

/// Large frames fill memtables and journals, so that kills hit flushes, compactions and rotations.
#[tokio::test(flavor = "multi_thread")]
async fn killed_while_tables_are_written_nothing_acknowledged_is_lost() {
    let seed = seed("killed_while_tables_are_written");
    let large = 2 * 1024 * 1024;
    kill_rounds(seed, 25, 300, large, &["--process-durability", "--frame-bytes", "2097152"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_it_makes_the_folder_it_can_be_made_again() {
    let mut random = StdRng::seed_from_u64(seed("killed_while_it_makes_the_folder"));
    for round in 0..60 {
        let folder = tempfile::tempdir().expect("a folder");
        let hammer = start(folder.path(), random.random(), &[]);
        pause(random.random_range(0..80_000));
        let ended = hammer.kill().await;
        let engine = open(folder.path()).await;
        let engine = engine.unwrap_or_else(|error| panic!("round {round}: {error}"));
        Check::new(FRAME_BYTES).run(&engine, &ended.record).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_told_who_has_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = start(folder.path(), 1, &[]);
    assert!(first.listen(|record| record.open).await.open, "the first one opens the folder");
    let pid = first.pid().to_string();

    match open(folder.path()).await {
        Err(OpenError::Folder(FolderError::InUse { holder, .. })) => assert_eq!(holder, pid),
        other => panic!("{other:?}"),
    }
    let second = start(folder.path(), 2, &[]).end().await;
    assert_eq!(second.status.code(), Some(1));
    assert!(second.errors.contains(&format!("is in use by process {pid}")), "{}", second.errors);

    let first = first.kill().await;
    let engine = open(folder.path()).await.expect("a folder whose holder was killed is free");
    Check::new(FRAME_BYTES).run(&engine, &first.record).await;
}

/// Kills a hammer after a random number of acknowledgements up to `most` and a random moment more, again
/// and again, on one folder.
async fn kill_rounds(seed: u64, rounds: u64, most: usize, frame_bytes: u32, options: &[&str]) {
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let mut check = Check::new(frame_bytes);
    let mut acknowledged = 0;
    for round in 1..=rounds {
        let mut hammer = start(folder.path(), random.random(), options);
        if round.is_multiple_of(BY_THE_CLOCK) {
            pause(random.random_range(0..60_000));
        } else {
            let enough = random.random_range(0..=most);
            hammer.listen(|record| record.open && record.done >= enough).await;
            pause(random.random_range(0..1_500));
        }
        let ended = hammer.kill().await;
        assert_eq!(ended.errors, "", "round {round}");
        acknowledged += ended.record.done;
        let engine = open(folder.path()).await;
        let engine = engine.unwrap_or_else(|error| panic!("round {round}: {error}"));
        check.run(&engine, &ended.record).await;
    }
    let engine = open(folder.path()).await.expect("the folder opens");
    check.whole(&engine).await;
    let (frames, commits) = check.found();
    eprintln!(
        "{rounds} kills, {acknowledged} acknowledged, {frames} frames and {commits} commits found"
    );
    assert!(acknowledged > 0);
}

fn start(folder: &Path, seed: u64, options: &[&str]) -> Hammer {
    let (url, seed) = (url(folder), seed.to_string());
    Hammer::start(HAMMER, [url.as_str(), seed.as_str()].iter().chain(options))
}

async fn open(folder: &Path) -> Result<Engine, OpenError> {
    let options = Options {
        url: url(folder),
        broker: None,
        namespace: "hammer".into(),
        shards: SHARDS,
        durability: Durability::Fsync,
        allow_volatile: false,
        tls_ca: None,
    };
    consort_engines::open(&options).await
}

fn url(folder: &Path) -> String {
    format!("embedded:{}", folder.display())
}

/// A moment more or less before the kill, finer than the runtime's timer.
fn pause(micros: u64) {
    std::thread::sleep(Duration::from_micros(micros));
}
