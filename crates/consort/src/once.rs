//! The background work of once: it runs as long as the node does, and releases what the node still computes when
//! it stops.

use std::time::Duration;

use consort_once::Once;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long a stop waits for leases to be released. What is not, lapses.
const RELEASED_WITHIN: Duration = Duration::from_secs(5);

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
