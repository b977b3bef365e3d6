//! Once on this node: what its handle is made of, and its background work, which runs as long as the node does and
//! releases what the node still computes when it stops.

use std::io;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use consort_cluster::Runtime;
use consort_kernel::Turns;
use consort_once::{Once, Options};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::OnceConfig;
use crate::ground::Ground;

/// How long a stop waits for leases to be released. What is not, lapses.
const RELEASED_WITHIN: Duration = Duration::from_secs(5);

/// What the node's handle is made of. Computations have threads of their own: a herd does not stand in front of the
/// one that computes for it.
pub(crate) fn options(config: &OnceConfig, ground: &Ground, sole: bool) -> io::Result<Options> {
    let runtime: Arc<dyn Runtime> = match config.spaces.is_empty() {
        true => Arc::clone(&ground.runtime),
        false => {
            let half = available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
            ground.threads("once", half, Turns::Usual)?
        }
    };
    let (store, entropy) = (Arc::clone(&ground.store), Arc::clone(&ground.entropy));
    Ok(Options {
        cache_bytes: usize::try_from(config.cache).unwrap_or(usize::MAX),
        waiters: config.waiters,
        waiters_per_key: config.waiters_per_key,
        sole,
        ..Options::new(store, runtime, entropy)
    })
}

/// Runs. Dropping it stops it without waiting.
#[derive(Debug)]
pub(crate) struct Computing {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Computing {
    /// Must be called within a tokio runtime.
    pub(crate) fn start(once: Once) -> Computing {
        let (stop, stopped) = oneshot::channel::<()>();
        // Resolves when the stop is sent, and as well when the node is dropped.
        let ended = tokio::spawn(async move { once.run(async { drop(stopped.await) }).await });
        Computing { stop, ended }
    }

    pub(crate) async fn stop(self) {
        // An error means that it has ended already, which is what was asked for.
        let _ = self.stop.send(());
        match tokio::time::timeout(RELEASED_WITHIN, self.ended).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(
                %error,
                "the background work of once failed; this is a defect of Consort, please report it"
            ),
            Err(_) => tracing::warn!(
                "what this node computes could not be released; others take over when its leases lapse"
            ),
        }
    }
}
