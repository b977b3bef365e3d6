//! Sees every commit at the moment it is applied, and tells what may never be: a mark or checkpoint that
//! moves back, an epoch that shrinks or has two holders.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use consort_cluster::format::decode;
use consort_cluster::keys::{self, Subject};
use consort_cluster::lease::Lease;
use consort_cluster::worker::{Checkpoint, Mark, Position};
use consort_kernel::{Commit, Element, Key, Operation, Shard};
use parking_lot::Mutex;

/// What is remembered of every shard.
#[derive(Debug, Default)]
pub struct Witness(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    places: BTreeMap<(Shard, Key), Position>,
    leases: BTreeMap<(Shard, Key), Lease>,
    /// Shards that were rolled back at some time.
    rolled_back: BTreeSet<Shard>,
    cut: u64,
    complaint: Option<String>,
}

/// A cell that a commit puts, and that is worth looking at.
#[derive(Debug)]
pub(crate) enum Change {
    Place(Key, Position),
    Lease(Key, Lease),
    Unreadable(Key, String),
}

impl Witness {
    /// What `commit` puts of marks, checkpoints and leases.
    pub(crate) fn changes(commit: &Commit) -> Vec<Change> {
        let put = |operation: &Operation| match operation {
            Operation::Put { key, value } => change(key, value),
            _ => None,
        };
        commit.operations.iter().filter_map(put).collect()
    }

    /// Takes note of what was just applied to `shard`.
    pub(crate) fn saw(&self, shard: Shard, changes: Vec<Change>) {
        let mut seen = self.0.lock();
        for change in changes {
            match change {
                Change::Place(key, position) => seen.place(shard, key, position),
                Change::Lease(key, lease) => seen.lease(shard, key, lease),
                Change::Unreadable(key, error) => {
                    seen.complain(format!("{key:?} of {shard} cannot be read: {error}"));
                }
            }
        }
    }

    /// Forgets a shard, which was rolled back on purpose.
    pub fn forget(&self, shard: Shard) {
        let mut seen = self.0.lock();
        seen.places.retain(|(of, _), _| *of != shard);
        seen.leases.retain(|(of, _), _| *of != shard);
        seen.rolled_back.insert(shard);
    }

    /// What was seen first that may not be.
    pub fn complaint(&self) -> Option<String> {
        self.0.lock().complaint.clone()
    }

    /// How many marks were left in the middle of a frame.
    pub fn cut(&self) -> u64 {
        self.0.lock().cut
    }

    /// The highest epoch of any lease: how often a role changed hands.
    pub fn epochs(&self) -> u64 {
        self.0.lock().leases.values().map(|lease| lease.epoch).max().unwrap_or_default()
    }
}

impl Seen {
    fn place(&mut self, shard: Shard, key: Key, position: Position) {
        self.cut += u64::from(position.record > 0);
        let place = (shard, key.clone());
        if let Some(before) = self.places.insert(place, position)
            && position < before
        {
            self.complain(format!("{key:?} of {shard} moved back from {before:?} to {position:?}"));
        }
    }

    fn lease(&mut self, shard: Shard, key: Key, lease: Lease) {
        let place = (shard, key.clone());
        let Some(before) = self.leases.insert(place, lease.clone()) else { return };
        if lease.epoch < before.epoch {
            self.complain(format!("the epoch of {key:?} shrank: {before:?}, then {lease:?}"));
        }
        let who = |lease: &Lease| lease.holder.clone().map(|holder| (holder, lease.incarnation));
        let another = who(&lease).is_some() && who(&lease) != who(&before);
        // An epoch that was lost with the shard is given once more; and he who had it before puts his lease
        // back when he finds it released.
        let had_it = self.rolled_back.contains(&shard) && before.holder.is_none();
        let another = another && !had_it;
        if lease.epoch == before.epoch && another {
            self.complain(format!("an epoch of {key:?} has two holders: {before:?}, {lease:?}"));
        }
    }

    fn complain(&mut self, what: String) {
        self.complaint.get_or_insert(what);
    }
}

fn change(key: &Key, value: &Bytes) -> Option<Change> {
    let unreadable = |error: consort_cluster::format::FormatError| {
        Change::Unreadable(key.clone(), error.to_string())
    };
    if let Some(Subject::Lease(_)) = keys::subject(key) {
        let lease = decode::<Lease>(value).map(|lease| Change::Lease(key.clone(), lease));
        return Some(lease.unwrap_or_else(unreadable));
    }
    let elements = key.elements().ok()?;
    let position = match elements.first() {
        Some(Element::Text(text)) if text == "mark" => {
            decode::<Mark>(value).map(|mark| mark.position())
        }
        Some(Element::Text(text)) if text == "checkpoint" => {
            decode::<Checkpoint>(value).map(|checkpoint| checkpoint.stand.position())
        }
        _ => return None,
    };
    Some(position.map_or_else(unreadable, |position| Change::Place(key.clone(), position)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_cluster::Role;
    use consort_cluster::format::encode;
    use consort_cluster::worker::Stand;
    use consort_kernel::Timestamp;

    fn saw(witness: &Witness, key: Key, value: Bytes) -> Option<String> {
        let commit = Commit::of([Operation::Put { key, value }]);
        witness.saw(Shard(0), Witness::changes(&commit));
        witness.complaint()
    }

    #[test]
    fn a_mark_that_moves_back_is_told_unless_its_shard_was_rolled_back() {
        let witness = Witness::default();
        let mark = |next| encode(&Mark::at(Stand { next, ..Stand::default() }));
        let key = || Key::from(["mark", "p"]);
        assert_eq!(saw(&witness, key(), mark(5)), None);
        witness.forget(Shard(0));
        assert_eq!(saw(&witness, key(), mark(4)), None);
        let complaint = saw(&witness, key(), mark(3));
        assert!(complaint.is_some_and(|text| text.contains("moved back")));
    }

    #[test]
    fn an_epoch_has_one_holder_and_only_grows() {
        let lease = |holder: Option<&str>, epoch| {
            let holder = holder.map(str::to_string);
            let now = Timestamp(0);
            encode(&Lease { holder, incarnation: 1, epoch, renewed: now, until: now })
        };
        let key = || keys::lease(&Role::new("worker", "s/0"));
        let told = |second| {
            let witness = Witness::default();
            assert_eq!(saw(&witness, key(), lease(Some("a"), 2)), None);
            saw(&witness, key(), second)
        };
        assert_eq!(told(lease(Some("a"), 2)), None);
        assert_eq!(told(lease(None, 2)), None);
        assert_eq!(told(lease(Some("b"), 3)), None);
        assert!(told(lease(Some("b"), 2)).is_some_and(|text| text.contains("two holders")));
        assert!(told(lease(Some("a"), 1)).is_some_and(|text| text.contains("shrank")));
        let witness = Witness::default();
        witness.forget(Shard(0));
        assert_eq!(saw(&witness, key(), lease(None, 2)), None);
        assert_eq!(saw(&witness, key(), lease(Some("a"), 2)), None, "he had it before");
        assert!(saw(&witness, key(), lease(Some("b"), 2)).is_some());
    }
}
