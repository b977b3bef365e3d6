//! Where a key meets the store: one look at its cells, and one commit on them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::Runtime;
use consort_kernel::{
    Cell, Commit, CommitError, Expect, Kind, Operation, Shard, Store, Timestamp, Value, Wake,
};

use crate::answer::{Answer, OnceError, Source};
use crate::fence::Generation;
use crate::key::{OnceKey, purges};
use crate::news;
use crate::state::{Ready, State};
use crate::step::{Next, expires};

/// The store as the flights of a node see it.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Arc<dyn Runtime>,
}

/// What one look at a key showed.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The state; none also where the value of a ready state is missing, which only expiry can do.
    pub(crate) state: Option<State>,
    /// The very bytes of its cell, for the commit that follows from this look.
    pub(crate) head: Option<Bytes>,
    /// The value.
    pub(crate) body: Bytes,
    /// How many purges by tag the shard had seen of the key's space.
    pub(crate) purges: i64,
    /// The store's time.
    pub(crate) now: Timestamp,
    /// This node's time before the look.
    pub(crate) at: Duration,
}

/// How a commit on a key ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// Applied.
    Done,
    /// The cell holds something else.
    Refused,
    /// Applied or not: look before anything else.
    Unknown,
    /// Not applied, and it is the store's fault.
    Failed(OnceError),
}

/// What goes into a commit besides the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Along {
    pub(crate) expects: Vec<Expect>,
    pub(crate) operations: Vec<Operation>,
    /// The value to put; otherwise the one that is there stays, if the new state is still a ready one.
    pub(crate) body: Option<Bytes>,
}

impl Desk {
    pub(crate) fn shard(&self, key: &OnceKey) -> Shard {
        key.shard(self.store.shards())
    }

    pub(crate) fn watch(&self, key: &OnceKey) -> Wake {
        self.store.watch(self.shard(key), &key.head())
    }

    /// Looks at a key: state, value and purges of one moment.
    pub(crate) async fn look(&self, key: &OnceKey) -> Result<Found, OnceError> {
        let at = self.runtime.elapsed();
        let cells = [
            Cell::new(Kind::Bytes, key.head()),
            Cell::new(Kind::Bytes, key.body()),
            Cell::new(Kind::Counter, purges(key.space())),
        ];
        let shard = self.shard(key);
        let (now, values) = futures::join!(self.store.now(), self.store.get(shard, &cells));
        let (now, values) = (now?, values?);
        let mut values = values.into_iter();
        let head = bytes_of(values.next());
        let body = bytes_of(values.next());
        let purges = match values.next() {
            Some(Some(Value::Counter(purges))) => purges,
            _ => 0,
        };
        let state = head.as_deref().map(State::decode).transpose();
        let state = state.map_err(|error| OnceError::Unavailable {
            reason: format!("{key:?}: {error}"),
            retryable: false,
        })?;
        let state = state.filter(|state| !matches!(state, State::Ready(_)) || body.is_some());
        Ok(Found { state, head, body: body.unwrap_or_default(), purges, now, at })
    }

    /// Replaces the state of a key, if its cell still holds just `head`.
    pub(crate) async fn change(
        &self,
        key: &OnceKey,
        head: Option<Bytes>,
        next: &Next,
        along: Along,
    ) -> Ended {
        let mut commit = Commit::of(operations(key, next, along.body)).urgent();
        commit.operations.extend(along.operations);
        commit = commit.expecting(Expect::Bytes(key.head(), head));
        commit.expects.extend(along.expects);
        match self.store.commit(self.shard(key), commit).await {
            Ok(_) => Ended::Done,
            Err(CommitError::Stale(_)) => Ended::Refused,
            Err(CommitError::Unknown(_)) => Ended::Unknown,
            Err(error) => Ended::Failed(error.into()),
        }
    }
}

fn operations(key: &OnceKey, next: &Next, body: Option<Bytes>) -> Vec<Operation> {
    let head_cell = Cell::new(Kind::Bytes, key.head());
    let body_cell = Cell::new(Kind::Bytes, key.body());
    let Next::Put(state) = next else {
        return vec![Operation::Delete(head_cell), Operation::Delete(body_cell)];
    };
    let at = Some(expires(state));
    let mut operations = vec![
        Operation::Put { key: key.head(), value: state.encode() },
        Operation::Expire { cell: head_cell, at },
    ];
    if let Some(value) = body {
        operations.push(Operation::Put { key: key.body(), value });
    }
    operations.push(match state {
        State::Ready(_) => Operation::Expire { cell: body_cell, at },
        State::Computing(_) | State::Failed(_) => Operation::Delete(body_cell),
    });
    operations
}

/// The commit's part that tells every node's cache that `key` has another value now.
pub(crate) fn tell(key: &OnceKey, generation: Option<Generation>) -> Operation {
    Operation::Append(news::note(key, generation))
}

fn bytes_of(value: Option<Option<Value>>) -> Option<Bytes> {
    match value {
        Some(Some(Value::Bytes(bytes))) => Some(bytes),
        _ => None,
    }
}

/// The answer that a value gives at `now`.
pub(crate) fn answer(
    ready: &Ready,
    value: Bytes,
    now: Timestamp,
    stale: bool,
    source: Source,
) -> Answer {
    let usable_until = ready.fresh_until.max(ready.usable_until).max(ready.excused_until);
    Answer {
        value,
        generation: Generation(ready.generation),
        age: now.since(ready.published),
        fresh_left: ready.fresh_until.since(now),
        usable_left: usable_until.since(now),
        stale,
        source,
    }
}
