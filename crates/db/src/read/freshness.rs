//! Looks at the head for strong reads: reads that wait at the same time share one look, begun after the last of
//! them arrived (C6).

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::head::{DbHead, HeadSight, HeadState, LastSeen};
use crate::store::{DatabaseStore, DbStoreError};

/// The looks of one node at one database.
#[derive(Clone, Debug)]
pub struct StrongLooks(Arc<Shared>);

/// Why a look shows no head that a strong read may rest on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookFailure {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] DbStoreError),
    /// There is no head yet.
    #[error("the database has not been created yet")]
    Missing,
    /// The head went back, or an operator has to decide (H34, H8).
    #[error("{0}")]
    Stopped(String),
}

#[derive(Debug)]
struct Shared {
    store: DatabaseStore,
    waiting: Mutex<Waiting>,
    /// The latest head that a look has shown.
    seen: Mutex<Option<LastSeen>>,
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
        let (waiting, seen) = (Mutex::default(), Mutex::new(None));
        StrongLooks(Arc::new(Shared { store, waiting, seen }))
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

    /// The head, by a look that begins after this call, unless it lies before a head that was seen before this call.
    pub async fn sound_head(&self) -> Result<Arc<DbHead>, LookFailure> {
        let before = *self.0.seen.lock();
        let head = self.head().await?;
        let sight = before.map_or(HeadSight::Forward, |seen| seen.judge(head.as_deref()));
        if sight == HeadSight::LostTail {
            let reason =
                "the store shows an older state than before: it has lost acknowledged writes";
            return Err(LookFailure::Stopped(reason.into()));
        }
        let head = head.ok_or(LookFailure::Missing)?;
        let now = LastSeen::new(&head);
        let mut seen = self.0.seen.lock();
        *seen = Some(seen.map_or(now, |seen| seen.latest(now)));
        match &head.state {
            HeadState::Stopped { reason } => Err(LookFailure::Stopped(reason.clone())),
            HeadState::Led | HeadState::Vacant { .. } => Ok(head),
        }
    }
}

impl Shared {
    /// Looks until no read waits for a look.
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
