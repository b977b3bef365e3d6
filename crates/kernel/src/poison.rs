//! The signal that an engine failed for good and the process must stop.

use tokio::sync::watch;

/// Set once, by the engine, with the reason; seen by whoever runs the process.
///
/// After a failed write or fsync nobody knows what the disk holds; the one safe way on is to stop, and
/// to open the folder again.
#[derive(Clone, Debug)]
pub struct Poison(watch::Sender<Option<String>>);

impl Poison {
    /// A signal that is not set.
    pub fn new() -> Self {
        Poison(watch::Sender::new(None))
    }

    /// Sets the signal. The first reason stays: later failures follow from it.
    pub fn set(&self, reason: impl Into<String>) {
        self.0.send_if_modified(|held| {
            let first = held.is_none();
            if first {
                *held = Some(reason.into());
            }
            first
        });
    }

    /// The reason, if the signal is set.
    pub fn reason(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits until the signal is set, and tells the reason.
    pub async fn wait(&self) -> String {
        let mut held = self.0.subscribe();
        let seen = held.wait_for(Option::is_some).await;
        // `self` holds the sender, so the channel is open for as long as this borrow lives.
        seen.ok().and_then(|reason| reason.clone()).unwrap_or_default()
    }
}

impl Default for Poison {
    fn default() -> Self {
        Poison::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_stays() {
        let poison = Poison::new();
        assert_eq!(poison.reason(), None);
        poison.set("disk full");
        poison.set("poisoned");
        assert_eq!(poison.wait().await, "disk full");
    }
}
