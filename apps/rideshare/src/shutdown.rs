//! When a process ends: told by a signal, or orphaned.

use std::io::Read as _;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::start_error::StartError;

/// A future that resolves when the process should end: after SIGTERM or SIGINT and, if it is a child of
/// `rideshare up`, when its parent is gone.
pub(crate) fn shutdown(
    until_stdin_closes: bool,
) -> Result<impl Future<Output = ()> + use<>, StartError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::Signals)?;
    let orphaned = until_stdin_closes.then(stdin_closes);
    Ok(async move {
        let orphaned = async {
            match orphaned {
                // A channel that closes without a word is an end as well.
                Some(closed) => drop(closed.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = orphaned => {}
        }
    })
}

/// Reads standard input to its end, on a thread of its own: such a read cannot be ended, and a runtime would wait for
/// it. The parent holds the other end of the pipe and never writes, so the read ends with the parent, however
/// suddenly.
fn stdin_closes() -> oneshot::Receiver<()> {
    let (tell, closed) = oneshot::channel();
    let read = move || {
        let mut ignored = [0; 64];
        while std::io::stdin().lock().read(&mut ignored).is_ok_and(|read| read > 0) {}
        let _ = tell.send(());
    };
    // Without a thread the channel closes at once, and the process ends: better than one that outlives its parent.
    let _ = std::thread::Builder::new().name("parent".into()).spawn(read);
    closed
}
