//! Heartbeats beside threads that have no time for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use consort_cluster::{ApartRuntime, ClusterNode, Options, Runtime, TokioRuntime};
use consort_kernel::{Timestamp, Turns};
use futures::executor::block_on;

use crate::stage::Stage;

const THREADS: usize = 2;
const OFTEN: Duration = Duration::from_millis(50);

/// How long heartbeats may take to be seen on a machine that is busy with other things as well.
const PATIENCE: Duration = Duration::from_secs(60);

fn renewed(stage: &Stage) -> Timestamp {
    block_on(stage.member("a")).expect("is a member").renewed
}

#[test]
fn heartbeats_go_on_while_all_threads_of_requests_and_roles_are_busy() {
    let requests = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .unwrap();
    let (stage, _node, runtimes) = requests.block_on(async {
        let here = TokioRuntime::current();
        let work = ApartRuntime::start("roles", THREADS, Turns::Later, &here).unwrap();
        let beats = ApartRuntime::start("heartbeat", 1, Turns::Short, &here).unwrap();
        let stage = Stage::with_roles(4);
        let options = Options {
            heartbeat: OFTEN,
            runtime: beats,
            work_runtime: Arc::clone(&work) as Arc<dyn Runtime>,
            ..stage.options("a")
        };
        let node = ClusterNode::join(options).await.expect("joins");
        stage.settled(&["a"]).await;
        (stage, node, [here as Arc<dyn Runtime>, work])
    });

    let (busy, done) = (Arc::new(Barrier::new(2 * THREADS + 1)), Arc::new(AtomicBool::new(false)));
    for runtime in &runtimes {
        for _ in 0..THREADS {
            let (busy, done) = (Arc::clone(&busy), Arc::clone(&done));
            let spin = async move {
                busy.wait();
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            // The answer would end it, and is not needed.
            drop(runtime.start("spin", Box::pin(spin)));
        }
    }
    busy.wait();
    // One heartbeat may have been under way.
    let (mut last, mut seen, since) = (renewed(&stage), 0, Instant::now());
    while seen < 5 && since.elapsed() < PATIENCE {
        std::thread::sleep(OFTEN / 5);
        let now = renewed(&stage);
        seen += usize::from(now > last);
        last = now;
    }
    done.store(true, Ordering::Relaxed);
    assert_eq!(seen, 5, "heartbeats while everything else was busy");
    assert_eq!(*stage.witness.fenced.lock(), Vec::<usize>::new());
    assert_eq!(stage.record.shifts().len(), 4, "no work was interrupted");
}
