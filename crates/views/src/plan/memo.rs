//! What is remembered of a batch while it is planned: the groups that its events belong to, with the spots
//! of their operations in the sheet.

use bytes::{Bytes, BytesMut};
use consort_cluster::worker::{Position, Spot};
use consort_kernel::limits::KEY_BYTES;
use consort_kernel::{Key, Moment, Shard};
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use super::Untakable;
use crate::keys;

/// So many groups of each view are remembered; then all are forgotten, and looked at again where they come
/// again.
const GROUPS_MOST: usize = 10_000;

/// Members of sets, and keys of groups, share pieces of memory of this size, smaller ones in a small batch.
const PIECE_LEAST: usize = 1024;
const PIECE_MOST: usize = 64 * 1024;

/// What a record's slot is, where it has none.
const NOWHERE: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;

/// Of one batch.
#[derive(Debug, Default)]
pub(super) struct Memo {
    pub(super) groupings: Vec<GroupingMemo>,
    pub(super) members: Members,
    pub(super) received: Spot,
    pub(super) applied: Spot,
    pub(super) met: Met,
}

impl Memo {
    /// With a place for each of so many groupings.
    pub(super) fn of(&mut self, groupings: usize) -> &mut Memo {
        self.groupings.resize_with(groupings, GroupingMemo::default);
        self
    }
}

/// The records that were met when it was asked what they read, in their order. Most stand one behind the other in
/// their frame, so only the first of each such *stretch* is kept.
#[derive(Debug, Default)]
pub(super) struct Met {
    /// Where the first record of a stretch stands, and its number among all that were met.
    stretches: Vec<(Position, usize)>,
    count: usize,
    /// The stretch that was looked for last. Records are looked for in their order, too.
    stretch: usize,
}

impl Met {
    /// Takes note of the next record.
    pub(super) fn meet(&mut self, at: Position) {
        let follows = |&(first, number): &(Position, usize)| {
            let record = first.record as usize + (self.count - number);
            (first.era, first.offset, record) == (at.era, at.offset, at.record as usize)
        };
        if !self.stretches.last().is_some_and(follows) {
            self.stretches.push((at, self.count));
        }
        self.count += 1;
    }

    /// The record's number among those that were met, if it is one of them.
    pub(super) fn number(&mut self, at: Position) -> Option<usize> {
        while self.stretches.get(self.stretch + 1).is_some_and(|(first, _)| *first <= at) {
            self.stretch += 1;
        }
        let &(first, number) = self.stretches.get(self.stretch)?;
        let within = at.record.checked_sub(first.record)? as usize;
        let same_frame = (first.era, first.offset) == (at.era, at.offset);
        let end = self.stretches.get(self.stretch + 1).map_or(self.count, |(_, next)| *next);
        (same_frame && number + within < end).then_some(number + within)
    }
}

/// Room for the members that are shown to sets.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// The member that is being made.
    pub(super) encoding: Vec<u8>,
    pieces: Pieces,
}

impl Members {
    /// The member that stands in `encoding`.
    pub(super) fn keep(&mut self) -> Bytes {
        self.pieces.keep(&self.encoding)
    }
}

/// Room for what is many and small, and let go of together, with its commit: pieces of memory to share.
#[derive(Debug, Default)]
struct Pieces {
    room: BytesMut,
    /// How large the last piece was.
    piece: usize,
}

impl Pieces {
    fn keep(&mut self, bytes: &[u8]) -> Bytes {
        if self.room.capacity() < bytes.len() {
            self.piece = (self.piece * 2).clamp(PIECE_LEAST, PIECE_MOST);
            self.room = BytesMut::with_capacity(self.piece.max(bytes.len()));
        }
        self.room.extend_from_slice(bytes);
        self.room.split().freeze()
    }
}

/// The groups of views that tell them apart by the same.
#[derive(Debug, Default)]
pub(super) struct GroupingMemo {
    /// By what the groups are told apart: the number of their slot.
    slots: HashMap<Bytes, u32>,
    /// Of each slot a group for each view, or none where its key would be too long.
    groups: Vec<Option<Group>>,
    /// The slots of the records that were met.
    met: Vec<u32>,
    /// What tells the group apart that is being looked for.
    pub(super) sought: Vec<u8>,
    key: Vec<u8>,
    pieces: Pieces,
}

/// A group of a view, in its window if the view has windows.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) key: Key,
    pub(super) shard: Shard,
    /// Where its window begins.
    pub(super) start: Option<Moment>,
    /// Whether the cells that its events look at were named.
    pub(super) named: bool,
    /// The turn of the sheet in which its window was found open.
    pub(super) entered: Option<u64>,
    /// The operation on its cell.
    pub(super) cell: Spot,
    /// The count of events that the view has taken.
    pub(super) applied: Spot,
}

impl GroupingMemo {
    /// The slot of the groups that are told apart by what stands in `sought`. Their keys are that behind what is
    /// common to each view's.
    pub(super) fn slot<'v>(
        &mut self,
        start: Option<Moment>,
        shards: u16,
        views: impl Iterator<Item = &'v Key>,
    ) -> u32 {
        if self.slots.len() >= GROUPS_MOST {
            self.forget();
        }
        let next = self.slots.len() as u32;
        match self.slots.entry_ref(&self.sought[..]) {
            EntryRef::Occupied(known) => *known.get(),
            EntryRef::Vacant(place) => {
                place.insert_with_key(self.pieces.keep(&self.sought), next);
                let most = if start.is_some() { KEY_BYTES - keys::DIRTY_MORE } else { KEY_BYTES };
                for common in views {
                    self.key.clear();
                    self.key.extend_from_slice(common.as_bytes());
                    self.key.extend_from_slice(&self.sought);
                    let fits = self.key.len() <= most;
                    let key = fits.then(|| Key::from_stored(self.pieces.keep(&self.key)));
                    self.groups.push(key.map(|key| Group::new(key, start, shards)));
                }
                next
            }
        }
    }

    /// The group of a view, of so many, in a slot; none if its key would be too long.
    pub(super) fn group(&mut self, slot: u32, view: usize, views: usize) -> Option<&mut Group> {
        self.groups.get_mut(slot as usize * views + view)?.as_mut()
    }

    /// Keeps the slot of the record that is met: none if it has no group. One that cannot be told is looked for
    /// again.
    pub(super) fn meet(&mut self, slot: Result<Option<u32>, Untakable>) {
        self.met.push(slot.map_or(UNKNOWN, |slot| slot.unwrap_or(NOWHERE)));
    }

    /// The slot of the record of that number, if it is known; none within, if the record has no group.
    pub(super) fn met(&self, number: usize) -> Option<Option<u32>> {
        match *self.met.get(number)? {
            UNKNOWN => None,
            NOWHERE => Some(None),
            slot => Some(Some(slot)),
        }
    }

    fn forget(&mut self) {
        self.slots.clear();
        self.groups.clear();
        self.met.fill(UNKNOWN);
    }
}

impl Group {
    fn new(key: Key, start: Option<Moment>, shards: u16) -> Self {
        Group {
            shard: keys::shard(&key, shards),
            key,
            start,
            named: false,
            entered: None,
            cell: Spot::default(),
            applied: Spot::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_share_a_piece_are_each_its_own() {
        let mut members = Members::default();
        let given: Vec<Vec<u8>> = (0..20_000u32)
            .map(|number| number.to_be_bytes().repeat(number as usize % 50))
            .chain([vec![7; PIECE_MOST * 2]])
            .collect();
        let kept: Vec<Bytes> = given
            .iter()
            .map(|member| {
                members.encoding.clone_from(member);
                members.keep()
            })
            .collect();
        assert_eq!(kept, given);
    }

    fn at(offset: u64, record: u32) -> Position {
        Position { era: 1, offset, record }
    }

    #[test]
    fn records_that_were_met_are_found_in_their_order() {
        let mut met = Met::default();
        assert_eq!(met.number(at(1, 0)), None);
        for place in [at(3, 0), at(3, 1), at(3, 2), at(5, 2), at(5, 3), at(5, 5)] {
            met.meet(place);
        }
        let sought =
            [at(2, 9), at(3, 0), at(3, 2), at(3, 3), at(4, 0), at(5, 1), at(5, 2), at(5, 3)];
        let found = sought.map(|place| met.number(place));
        assert_eq!(found, [None, Some(0), Some(2), None, None, None, Some(3), Some(4)]);
        assert_eq!(met.number(at(5, 4)), None);
        assert_eq!(met.number(at(5, 5)), Some(5));
        assert_eq!(met.number(at(5, 6)), None);
        assert_eq!(met.number(Position { era: 2, ..at(5, 5) }), None);
    }

    #[test]
    fn groups_that_are_forgotten_are_looked_for_again() {
        let mut memo = GroupingMemo::default();
        let views = [Key::from(["a"]), Key::from(["b"])];
        let mut slot = |number: usize| {
            memo.sought = number.to_be_bytes().to_vec();
            let slot = memo.slot(None, 16, views.iter());
            memo.meet(Ok(Some(slot)));
            let keys = [0, 1].map(|view| memo.group(slot, view, 2).unwrap().key.clone());
            assert_eq!(keys.map(|key| key.as_bytes().len()), [11; 2]);
            assert!(memo.groups.len() <= 2 * GROUPS_MOST);
            (slot, memo.met(0))
        };
        assert_eq!(slot(7), (0, Some(Some(0))));
        assert_eq!(slot(8), (1, Some(Some(0))));
        assert_eq!(slot(7), (0, Some(Some(0))));
        for number in 0..GROUPS_MOST - 1 {
            slot(number + 9);
        }
        assert_eq!(slot(7).1, None, "the first record's slot is no longer known");
    }

    #[test]
    fn a_key_that_is_too_long_has_no_group() {
        let (short, long) = (Key::from(["a"]), Key::from(["b".repeat(40).as_str()]));
        let mut memo = GroupingMemo { sought: vec![1; KEY_BYTES - 20], ..GroupingMemo::default() };
        let slot = memo.slot(None, 16, [&long, &short].into_iter());
        assert!(memo.group(slot, 0, 2).is_none());
        assert!(memo.group(slot, 1, 2).is_some());
    }
}
