//! A change of the cluster's cells: one urgent commit that expects what was read, and what came of it.

use bytes::Bytes;
use consort_kernel::{Cell, Commit, CommitError, Expect, Fault, Key, Operation, Store, Value};

use crate::keys;
use crate::roster::fault;

/// A cell on its way from what it was to what it is to be; `None` where there is none.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub(crate) key: Key,
    pub(crate) from: Option<Bytes>,
    pub(crate) to: Option<Bytes>,
}

/// What came of a change.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It was applied.
    Done,
    /// It was not applied, or nobody knows. This is what the cells hold, in the order of the moves: the
    /// caller tells by its own marks in them which of them are as it wanted.
    Seen(Vec<Option<Bytes>>),
    /// The store failed. The change may yet be applied, which the next attempt will see.
    Failed(Fault),
}

/// Applies all `moves`, and the operations of `also`, or nothing.
pub(crate) async fn change(store: &dyn Store, moves: &[Move], also: Vec<Operation>) -> Outcome {
    match store.commit(keys::SHARD, commit(moves, also)).await {
        Ok(_) => Outcome::Done,
        Err(CommitError::Stale(values)) => Outcome::Seen(values.into_iter().map(bytes).collect()),
        Err(CommitError::Unknown(_)) => look_up(store, moves).await,
        Err(CommitError::Engine(fault)) => Outcome::Failed(fault),
        // Callers keep within the bounds; if one does not, it is a defect that no retry mends.
        Err(CommitError::Refused(refusal)) => Outcome::Failed(Fault::Fatal(refusal.to_string())),
    }
}

/// What came of a change whose outcome is unknown. What the moves write names its writer and time, so if
/// all of it stands there, it was this change that put it there.
async fn look_up(store: &dyn Store, moves: &[Move]) -> Outcome {
    let cells: Vec<Cell> = moves.iter().map(|step| keys::cell(step.key.clone())).collect();
    let found: Vec<Option<Bytes>> = match store.get(keys::SHARD, &cells).await {
        Ok(values) => values.into_iter().map(bytes).collect(),
        Err(error) => return Outcome::Failed(fault(error)),
    };
    if moves.iter().map(|step| &step.to).eq(&found) {
        return Outcome::Done;
    }
    Outcome::Seen(found)
}

fn commit(moves: &[Move], also: Vec<Operation>) -> Commit {
    let operation = |step: &Move| match &step.to {
        Some(value) => Operation::Put { key: step.key.clone(), value: value.clone() },
        None => Operation::Delete(keys::cell(step.key.clone())),
    };
    let commit = Commit::of(moves.iter().map(operation).chain(also));
    let expect = |step: &Move| Expect::Bytes(step.key.clone(), step.from.clone());
    moves.iter().map(expect).fold(commit, Commit::expecting).urgent()
}

fn bytes(value: Option<Value>) -> Option<Bytes> {
    match value {
        Some(Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Removes the cell under `key`.
pub(crate) fn delete(key: Key) -> Operation {
    Operation::Delete(keys::cell(key))
}
