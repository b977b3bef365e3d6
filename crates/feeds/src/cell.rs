//! The cell that says how far a sink has come in one feed of one shard, and who moves it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::{Runtime, format};
use consort_kernel::{
    Cell, Commit, CommitError, Cursor, Digest, Expect, Key, Kind, Operation, Shard, Store, Value,
};
use serde::{Deserialize, Serialize};

/// How often a commit of unknown outcome is repeated before the caller hears of it: an engine that is
/// restarted takes a few seconds.
const TRIES: u32 = 5;

/// Between two of them.
const PAUSE: Duration = Duration::from_millis(500);

/// Who delivers: one tenure of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// Drawn at each start of a process.
    pub(crate) process: u64,
    /// Drawn for each tenure.
    pub(crate) tenure: u64,
}

/// What the cell holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stand {
    /// The first entry that is not known to be delivered.
    pub(crate) next: u64,
    /// The last one that is, in hexadecimal digits.
    last: Option<(u64, String)>,
    /// Who may have a request under way. None after a hand-over in good order.
    pub(crate) holder: Option<Holder>,
    /// How often one that was replaced had rows delivered again.
    again: u64,
    /// How often a release of a parked subject was settled.
    #[serde(default, skip_serializing_if = "is_zero")]
    released: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Stand {
    pub(crate) fn cursor(&self) -> Cursor {
        let digest = |text: &str| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes);
        let last = self.last.as_ref();
        let last = last.and_then(|(number, text)| Some((*number, Digest(digest(text)?))));
        Cursor { next: self.next, last }
    }

    /// The same holder at another place.
    pub(crate) fn moved_to(&self, cursor: &Cursor) -> Stand {
        let last = cursor.last.map(|(number, digest)| (number, digest.to_string()));
        Stand { next: cursor.next, last, ..self.clone() }
    }

    /// The same holder, who is to deliver again what follows `cursor`, or what it was to deliver anyway.
    pub(crate) fn given_back(&self, cursor: &Cursor) -> Stand {
        let back = if cursor.next < self.next { self.moved_to(cursor) } else { self.clone() };
        Stand { again: self.again + 1, ..back }
    }

    /// The same holder at the same place, with one more release settled.
    pub(crate) fn with_release(&self) -> Stand {
        Stand { released: self.released + 1, ..self.clone() }
    }

    /// The same place, with another holder.
    pub(crate) fn held_by(&self, holder: Option<Holder>) -> Stand {
        Stand { holder, ..self.clone() }
    }

    /// The oldest entry that must stay: the one it vouches for, or else the next.
    pub(crate) fn needs(&self) -> u64 {
        self.last.as_ref().map_or(self.next, |(number, _)| *number)
    }
}

/// What was found in the cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) stand: Stand,
    /// As it is stored; none if there is no cell yet.
    stored: Option<Bytes>,
}

impl Found {
    /// Whether nothing was ever delivered, nor begun to be.
    pub(crate) fn is_new(&self) -> bool {
        self.stored.is_none()
    }

    /// The same cell, to be begun at another place. Only for one that is new.
    pub(crate) fn beginning_at(self, next: u64) -> Found {
        let stand = Stand { next, ..self.stand };
        Found { stand, ..self }
    }
}

/// What came of a change.
#[derive(Debug)]
pub(crate) enum Changed {
    Done(Found),
    /// Somebody else changed it before.
    Stale,
}

#[derive(Debug)]
pub(crate) struct CursorCell {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) shard: Shard,
    pub(crate) key: Key,
}

impl CursorCell {
    pub(crate) async fn read(&self) -> Result<Found, String> {
        let cell = Cell::new(Kind::Bytes, self.key.clone());
        let read = self.store.get(self.shard, &[cell]).await;
        let found = read.map_err(|error| format!("the cursor cannot be read: {error}"))?;
        match found.into_iter().next().flatten() {
            Some(Value::Bytes(stored)) => {
                let stand = format::decode(&stored);
                let stand = stand.map_err(|error| format!("the cursor cannot be read: {error}"))?;
                Ok(Found { stand, stored: Some(stored) })
            }
            _ => Ok(Found { stand: Stand::default(), stored: None }),
        }
    }

    /// Makes the cell hold `stand`, if it still is as it was found, and does `operations` in the same step.
    /// `stand` must differ from the one that was found.
    pub(crate) async fn change(
        &self,
        found: &Found,
        stand: Stand,
        operations: Vec<Operation>,
    ) -> Result<Changed, String> {
        let stored = format::encode(&stand);
        let put = Operation::Put { key: self.key.clone(), value: stored.clone() };
        let commit = Commit::of([put].into_iter().chain(operations))
            .expecting(Expect::Bytes(self.key.clone(), found.stored.clone()));
        let done = Ok(Changed::Done(Found { stand, stored: Some(stored.clone()) }));
        let mut tries = 0;
        loop {
            match self.store.commit(self.shard, commit.clone()).await {
                Ok(_) => return done,
                // A commit whose outcome was unknown had been applied.
                Err(CommitError::Stale(now))
                    if now.first() == Some(&Some(Value::Bytes(stored.clone()))) =>
                {
                    return done;
                }
                Err(CommitError::Stale(_)) => return Ok(Changed::Stale),
                // The same commit again tells which it was, and cannot be applied twice.
                Err(CommitError::Unknown(_)) if tries < TRIES => {
                    tries += 1;
                    self.runtime.sleep(PAUSE).await;
                }
                Err(error) => return Err(format!("the cursor cannot be moved: {error}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_read_in_every_release() {
        let cursor = Cursor::behind(6, Digest::of(b"consort"));
        let holder = Some(Holder { process: 1, tenure: 2 });
        let stand = Stand::default().held_by(holder).moved_to(&cursor);
        let stored = concat!(
            "\x01{\"next\":7,\"last\":[6,\"1dd4cbee4c74cb5fef1a4d839c22feef\"],",
            "\"holder\":{\"process\":1,\"tenure\":2},\"again\":0}"
        );
        assert_eq!(format::encode(&stand), stored);
        assert_eq!(format::decode(stored.as_bytes()), Ok(stand.clone()));
        assert_eq!((stand.cursor(), stand.needs()), (cursor, 6));
        let fresh = Stand::default();
        assert_eq!((fresh.cursor(), fresh.needs()), (Cursor::START, 0));
        let stored = "\x01{\"next\":0,\"last\":null,\"holder\":null,\"again\":0}";
        assert_eq!(format::encode(&fresh), stored);
        let stored = "\x01{\"next\":0,\"last\":null,\"holder\":null,\"again\":0,\"released\":1}";
        assert_eq!(format::encode(&fresh.with_release()), stored);
        assert_eq!(format::decode(stored.as_bytes()), Ok(fresh.with_release()));
    }

    #[test]
    fn what_is_given_back_always_changes_the_cell_and_never_moves_it_forward() {
        let at = |next| Stand::default().moved_to(&Cursor::at(next));
        for (now, back, next) in [(9, 5, 5), (5, 5, 5), (3, 5, 3)] {
            let given = at(now).given_back(&Cursor::at(back));
            assert_eq!((given.next, given.again), (next, 1));
        }
    }
}
