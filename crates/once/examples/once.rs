//! Library mode: a Rust service that computes a price list once, however many of its copies are asked.
//!
//! Here three "copies" share a store in memory, or open a Redis each:
//!
//! ```text
//! cargo run -p consort-once --example once
//! cargo run -p consort-once --example once -- redis://127.0.0.1:6379
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use consort_cluster::TokioRuntime;
use consort_kernel::memory::MemoryStore;
use consort_kernel::{Name, Store, SystemClock, SystemEntropy};
use consort_once::{Computed, Once, OnceKey, Options, Terms};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let memory = Arc::new(MemoryStore::new(16, Arc::new(SystemClock::default())));
    let mut copies = Vec::new();
    for _ in 0..3 {
        let store: Arc<dyn Store> = match std::env::args().nth(1) {
            None => memory.clone(),
            Some(url) => consort_engines::open(&engine(url)).await?.store,
        };
        let runtime = TokioRuntime::current();
        copies.push(Once::new(Options::new(store, runtime, Arc::new(SystemEntropy))));
    }

    // Each copy follows the news of purges, so that it may serve from its own memory.
    let (stop, _) = tokio::sync::broadcast::channel::<()>(1);
    let mut running = Vec::new();
    for copy in &copies {
        let (copy, mut stopped) = (copy.clone(), stop.subscribe());
        running.push(tokio::spawn(async move {
            copy.run(async move { drop(stopped.recv().await) }).await;
        }));
    }

    // The key: a space, and what tells its answers apart.
    let key = OnceKey::new(&Name::new("prices")?, &[b"winter", b"adults"]);
    let terms = Terms { fresh_for: Duration::from_secs(300), ..Terms::default() };
    let computed = Arc::new(AtomicUsize::new(0));
    let asked = (0..300).map(|n| {
        let (once, computed) = (&copies[n % 3], computed.clone());
        // The computation may be run again if the key is purged meanwhile, so it clones what it needs.
        once.get(&key, &terms, move || {
            let computed = computed.clone();
            async move {
                computed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok(Computed::new("[48, 52, 61]").tagged(["season-2020"]))
            }
        })
    });
    let answers = futures::future::try_join_all(asked).await?;
    let same = answers.iter().all(|answer| answer.generation == answers[0].generation);
    let mut said = format!(
        "{} answers, {} computation, one generation: {same}\n",
        answers.len(),
        computed.load(Ordering::Relaxed)
    );

    let purged = copies[1].purge_tag(key.space(), "season-2020").await?;
    let left = copies[1].peek(&key).await?;
    said.push_str(&format!("purged by tag: {purged}, left: {}\n", left.is_some()));
    std::io::Write::write_all(&mut std::io::stdout(), said.as_bytes())?;

    stop.send(())?;
    for running in running {
        running.await?;
    }
    Ok(())
}

/// A Redis that all copies share. It may be one that keeps nothing on a disk: what it forgets is computed anew.
fn engine(url: String) -> consort_engines::Options {
    consort_engines::Options {
        url,
        broker: None,
        namespace: "prices".into(),
        shards: 16,
        durability: consort_engines::Durability::Fsync,
        allow_volatile: true,
        tls_ca: None,
    }
}
