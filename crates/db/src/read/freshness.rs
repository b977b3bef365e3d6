//! Looks at the head for strong reads: reads that wait at the same time share one look, begun after the last of
//! them arrived (C6).

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::head::DbHead;
use crate::store::{DatabaseStore, DbStoreError};

/// The looks of one node at one database.
#[derive(Clone, Debug)]
pub struct StrongLooks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: DatabaseStore,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Whether a look is under way.
    is_looking: bool,
    /// Those who wait for the look after it.
    next: Option<broadcast::Sender<Looked>>,
}

/// The head as a look found it.
type Looked = Result<Option<Arc<DbHead>>, DbStoreError>;

impl StrongLooks {
    /// Looks at the head of this database.
    pub fn new(store: DatabaseStore) -> Self {
        StrongLooks(Arc::new(Shared { store, waiting: Mutex::default() }))
    }

    /// The head, by a look that begins after this call.
    pub async fn head(&self) -> Result<Option<Arc<DbHead>>, DbStoreError> {
        let mut told = {
            let mut waiting = self.0.waiting.lock();
            let next = waiting.next.get_or_insert_with(|| broadcast::channel(1).0);
            let told = next.subscribe();
            if !std::mem::replace(&mut waiting.is_looking, true) {
                // A task of its own: a caller that goes away must not take the look from the others.
                tokio::spawn(Arc::clone(&self.0).look());
            }
            told
        };
        match told.recv().await {
            Ok(looked) => looked,
            Err(_) => Err(DbStoreError::Refused("a look at the head was ended".into())),
        }
    }
}

impl Shared {
    /// Looks until nobody waits for a look.
    async fn look(self: Arc<Self>) {
        loop {
            let waiting = {
                let mut waiting = self.waiting.lock();
                match waiting.next.take() {
                    Some(next) => next,
                    None => {
                        waiting.is_looking = false;
                        return;
                    }
                }
            };
            let looked = self.store.head().await.map(|head| head.map(Arc::new));
            // A caller may have gone away.
            let _ = waiting.send(looked);
        }
    }
}
