//! Members that their sets have already, as far as a worker knows. Showing one again would change nothing, and
//! where the same riders, users or devices come back all day, most of what sets are shown is known to them.
//!
//! It is right because sets only grow while records for them come, and because commits of a shard stand on each
//! other: whatever is left out of one was in an earlier one, whose mark it expects. If that one was refused, or
//! the shard was rolled back, this one is refused as well; then all is loaded again, and nothing is known.

use bytes::Bytes;
use consort_kernel::{Key, Kind, Shard};
use hashbrown::HashSet;

/// So many members are known, and as many of those before them; and so many bytes of each.
const KNOWN_MOST: usize = 16 * 1024;
const KNOWN_BYTES: usize = 1 << 20;

/// Whether it is worth the looking is judged by so many members at a time: at least one in so many must be known.
const JUDGED: u32 = 32 * 1024;
const WORTH: u32 = 8;

/// Otherwise so many times as many are shown without looking, before it is tried again.
const RESTS: u32 = 8;

/// The members that were shown since the worker loaded.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    recent: HashSet<Box<[u8]>>,
    /// Those that were recent before. What is met among them becomes recent again.
    before: HashSet<Box<[u8]>>,
    bytes: usize,
    /// The member that is looked for, behind its set.
    looked_for: Vec<u8>,
    looks: u32,
    found: u32,
    /// How many are still to be shown without looking.
    rests: u32,
}

impl Shown {
    /// Whether the set is known to have the member. From now on it is.
    pub(super) fn knows(&mut self, shard: Shard, kind: Kind, key: &Key, member: &Bytes) -> bool {
        if self.rests > 0 {
            self.rests -= 1;
            return false;
        }
        let known = self.look(shard, kind, key, member);
        self.judge(known);
        known
    }

    /// Knows nothing any more.
    pub(super) fn forget(&mut self) {
        (self.recent, self.before, self.bytes) = Default::default();
    }

    fn look(&mut self, shard: Shard, kind: Kind, key: &Key, member: &Bytes) -> bool {
        let set = key.as_bytes();
        self.looked_for.clear();
        self.looked_for.extend_from_slice(&shard.0.to_be_bytes());
        self.looked_for.push(kind as u8);
        // No set and member are taken for another set with another member.
        self.looked_for.extend_from_slice(&(set.len() as u32).to_be_bytes());
        self.looked_for.extend_from_slice(set);
        self.looked_for.extend_from_slice(member);
        if self.recent.contains(&self.looked_for[..]) {
            return true;
        }
        let found = self.before.take(&self.looked_for[..]);
        let known = found.is_some();
        if self.recent.len() >= KNOWN_MOST || self.bytes >= KNOWN_BYTES {
            self.before = std::mem::take(&mut self.recent);
            self.bytes = 0;
        }
        self.bytes += self.looked_for.len();
        self.recent.insert(found.unwrap_or_else(|| self.looked_for[..].into()));
        known
    }

    fn judge(&mut self, known: bool) {
        self.looks += 1;
        self.found += u32::from(known);
        if self.looks < JUDGED {
            return;
        }
        if self.found < JUDGED / WORTH {
            self.rests = JUDGED * RESTS;
            self.forget();
        }
        (self.looks, self.found) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Shard = Shard(0);

    fn member(number: usize) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    #[test]
    fn a_member_is_known_from_the_second_time_on_in_its_set_alone() {
        let mut shown = Shown::default();
        let (one, other) = (Key::from(["a"]), Key::from(["b"]));
        assert!(!shown.knows(A, Kind::Set, &one, &member(7)));
        assert!(shown.knows(A, Kind::Set, &one, &member(7)));
        assert!(!shown.knows(A, Kind::Distinct, &one, &member(7)), "another kind of set");
        assert!(!shown.knows(Shard(1), Kind::Set, &one, &member(7)), "another shard");
        assert!(!shown.knows(A, Kind::Set, &other, &member(7)), "another set");
        assert!(!shown.knows(A, Kind::Set, &one, &member(8)), "another member");
        shown.forget();
        assert!(!shown.knows(A, Kind::Set, &one, &member(7)));
    }

    #[test]
    fn where_a_set_ends_and_its_member_begins_is_told() {
        let mut shown = Shown::default();
        let key = |bytes: &'static [u8]| Key::from_stored(Bytes::from_static(bytes));
        assert!(!shown.knows(A, Kind::Set, &key(b"ab"), &Bytes::from_static(b"c")));
        assert!(!shown.knows(A, Kind::Set, &key(b"a"), &Bytes::from_static(b"bc")));
    }

    #[test]
    fn what_comes_again_stays_known_and_memory_is_bounded() {
        let mut shown = Shown::default();
        let key = Key::from(["a"]);
        let often = KNOWN_MOST / 2;
        for round in 0..20 {
            for number in 0..often {
                let known = shown.knows(A, Kind::Set, &key, &member(number));
                assert_eq!(known, round > 0, "{number} in {round}");
                let rare = number + (round + 1) * KNOWN_MOST;
                assert!(!shown.knows(A, Kind::Set, &key, &member(rare)));
            }
            assert!(shown.recent.len() <= KNOWN_MOST && shown.before.len() <= KNOWN_MOST);
        }
        let large = |number: u8| Bytes::from(vec![number; KNOWN_BYTES / 2]);
        for number in 0..20 {
            shown.knows(A, Kind::Set, &key, &large(number));
            let bytes = |held: &HashSet<Box<[u8]>>| held.iter().map(|one| one.len()).sum::<usize>();
            assert!(bytes(&shown.recent).max(bytes(&shown.before)) < 2 * KNOWN_BYTES);
        }
    }

    #[test]
    fn members_that_never_come_again_are_hardly_looked_for() {
        let mut shown = Shown::default();
        let key = Key::from(["a"]);
        let all = JUDGED * (RESTS + 1) * 10;
        let looked = (0..all).filter(|&number| {
            let looks = shown.rests == 0;
            assert!(!shown.knows(A, Kind::Set, &key, &member(number as usize)));
            looks
        });
        assert_eq!(looked.count() as u32, all / (RESTS + 1));
        // It is tried again: once they come again, it is worth the looking.
        let again = (0..all).filter(|_| shown.knows(A, Kind::Set, &key, &member(0)));
        assert!(again.count() as u32 > all - JUDGED * (RESTS + 1) - 2);
    }
}
