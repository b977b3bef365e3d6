//! What is remembered of a batch while it is planned: the groups that its events belong to, with the spots
//! of their operations in the sheet.

use bytes::{Bytes, BytesMut};
use consort_cluster::worker::Spot;
use consort_kernel::{Key, Moment, Shard};
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use crate::keys;

/// So many groups of a view are remembered; then all are forgotten, and looked at again where they come
/// again.
const GROUPS_MOST: usize = 10_000;

/// Members of sets, and keys of groups, share pieces of memory of this size, smaller ones in a small batch.
const PIECE_LEAST: usize = 1024;
const PIECE_MOST: usize = 64 * 1024;

/// Of one batch.
#[derive(Debug, Default)]
pub(super) struct Memo {
    pub(super) views: Vec<ViewMemo>,
    pub(super) members: Members,
    pub(super) received: Spot,
    pub(super) applied: Spot,
}

impl Memo {
    /// With a place for each of so many views.
    pub(super) fn of(&mut self, views: usize) -> &mut Memo {
        self.views.resize_with(views, ViewMemo::default);
        self
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

/// The groups of one view.
#[derive(Debug, Default)]
pub(super) struct ViewMemo {
    groups: HashMap<Key, Group>,
    /// The key of the group that is being looked for.
    pub(super) key: Vec<u8>,
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

impl ViewMemo {
    /// The group whose key stands in `key`.
    pub(super) fn group(&mut self, start: Option<Moment>, shards: u16) -> &mut Group {
        if self.groups.len() >= GROUPS_MOST {
            self.groups.clear();
        }
        let pieces = &mut self.pieces;
        match self.groups.entry_ref(&self.key[..]) {
            EntryRef::Occupied(known) => known.into_mut(),
            EntryRef::Vacant(place) => {
                let key = Key::from_stored(pieces.keep(&self.key));
                let group = Group {
                    shard: keys::shard(&key, shards),
                    key: key.clone(),
                    start,
                    named: false,
                    entered: None,
                    cell: Spot::default(),
                    applied: Spot::default(),
                };
                place.insert_with_key(key, group)
            }
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
}
