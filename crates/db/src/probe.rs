//! A quick sign that the leader's process is dead: an idle connection to its node is reset, and a new one is
//! refused. A node that is merely silent refuses nothing; its lease lapses.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::view::ViewHandle;

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// How long to wait before a connection that ended without a refusal is made anew.
const CONNECT_PAUSE: Duration = Duration::from_millis(500);

/// The sign, as the workers of a node see it. All clones are of the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaderProbe(Arc<Mutex<Signs>>);

#[derive(Debug, Default)]
struct Signs {
    /// The process that refuses connections.
    refused: Option<(String, u64)>,
    /// When a worker of this node last acted on a refusal.
    acted: Option<Instant>,
}

impl LeaderProbe {
    /// Whether this process refuses connections.
    pub(crate) fn refuses(&self, node: &str, incarnation: u64) -> bool {
        let signs = self.0.lock();
        signs.refused.as_ref().is_some_and(|(id, of)| id == node && *of == incarnation)
    }

    /// The time since a worker of this node last acted on a refusal.
    pub(crate) fn since_acted(&self) -> Option<Duration> {
        self.0.lock().acted.map(|at| at.elapsed())
    }

    /// A worker of this node claims the lead because of a refusal.
    pub(crate) fn acted_on_refusal(&self) {
        self.0.lock().acted = Some(Instant::now());
    }

    /// Watches the node of the leader, whichever it is, until it is dropped.
    pub(crate) async fn run(self, own: impl Fn() -> Option<String>, view: ViewHandle) {
        let mut views = view.views();
        loop {
            let leader = {
                let view = views.borrow_and_update();
                let holder = view.head.as_ref().and_then(|head| head.holder.clone());
                holder.and_then(|holder| {
                    let node = view.nodes.get(&holder.node)?;
                    let is_same = node.incarnation == holder.incarnation;
                    is_same.then(|| (holder.node, node.clone()))
                })
            };
            match leader {
                Some((id, node)) if own().as_deref() != Some(&id) => {
                    let watched = watch_process(&node.address);
                    tokio::select! {
                        biased;
                        refused = watched => {
                            if refused {
                                self.0.lock().refused = Some((id, node.incarnation));
                                view.refresh();
                            }
                            sleep(CONNECT_PAUSE).await;
                        }
                        () = leader_changes(&mut views, &id, node.incarnation) => {}
                    }
                }
                _ => {
                    if views.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Waits until another process leads.
async fn leader_changes(
    views: &mut tokio::sync::watch::Receiver<Arc<crate::view::DatabaseView>>,
    id: &str,
    incarnation: u64,
) {
    let is_other = |view: &Arc<crate::view::DatabaseView>| {
        let holder = view.head.as_ref().and_then(|head| head.holder.as_ref());
        holder.is_none_or(|holder| holder.node != id || holder.incarnation != incarnation)
    };
    if views.wait_for(is_other).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Keeps a connection to a process until it ends. Whether the next connection was refused. An address at which no
/// process was ever reached, such as a wrong one, says nothing about the process.
async fn watch_process(address: &str) -> bool {
    let Ok(Ok(mut connection)) = timeout(CONNECT_WITHIN, TcpStream::connect(address)).await else {
        return false;
    };
    // The process sends nothing that matters: an answer, an end and a reset are all looked into.
    let mut byte = [0];
    let _ = connection.read(&mut byte).await;
    drop(connection);
    is_refused(address).await
}

async fn is_refused(address: &str) -> bool {
    match timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
        Ok(Err(error)) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        Ok(Ok(_)) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn only_a_process_that_is_gone_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // The process ends the idle connection and lives on.
        let watched = tokio::spawn({
            let address = address.clone();
            async move { watch_process(&address).await }
        });
        let (connection, _) = listener.accept().await.unwrap();
        drop(connection);
        assert!(!watched.await.unwrap());
        // A wrong address was never reached.
        assert!(!watch_process("127.0.0.1:1").await);
        // It dies.
        let watched = tokio::spawn({
            let address = address.clone();
            async move { watch_process(&address).await }
        });
        // The connection that looked whether it is refused stands in line before.
        let first = listener.accept().await.unwrap();
        let second = listener.accept().await.unwrap();
        drop((listener, first, second));
        assert!(watched.await.unwrap());
    }
}
