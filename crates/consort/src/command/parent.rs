//! The process that started a node and watches over it: gone when standard input ends.

use std::io::Read as _;

use tokio::sync::oneshot;

/// The other end of standard input, if somebody holds it for this.
pub(super) struct Parent(Option<oneshot::Receiver<()>>);

impl Parent {
    /// Watches standard input if that is asked for.
    pub(super) fn new(watched: bool) -> Parent {
        Parent(watched.then(watch))
    }

    /// Returns when the parent is gone; never, if there is none.
    pub(super) async fn gone(&mut self) {
        match &mut self.0 {
            // An end without a word is an end as well.
            Some(gone) => drop(gone.await),
            None => std::future::pending().await,
        }
    }
}

/// Reads standard input to its end, on a thread of its own: such a read cannot be ended, and a runtime would wait for
/// it when it stops.
fn watch() -> oneshot::Receiver<()> {
    let (tell, gone) = oneshot::channel();
    let read = move || {
        let mut ignored = [0; 64];
        // What the parent might write is of no interest.
        while std::io::stdin().lock().read(&mut ignored).is_ok_and(|read| read > 0) {}
        let _ = tell.send(());
    };
    // Without a thread the channel closes at once, and the node stops: better than one that nobody can stop.
    let _ = std::thread::Builder::new().name("parent".into()).spawn(read);
    gone
}
