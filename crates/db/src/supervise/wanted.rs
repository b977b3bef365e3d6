//! The wanted cell: which slots there should be, and the ids of workers.
//!
//! It is the one truth about who should exist. A worker that ends while its slot is wanted has crashed and
//! is replaced; one whose slot was taken out of the cell before has retired (H27).

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::wire::{DbFormatError, FieldReader, FieldWriter};

pub(crate) const VERSION: u8 = 1;

/// The contents of the wanted cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedWorkers {
    /// The slots, each of which a worker fills: one leader and the readers.
    pub slots: BTreeSet<u16>,
    /// The id that the next worker draws. It only grows, so no id comes back (H25).
    pub next_worker: u64,
    /// A snapshot is wanted that lies behind this index.
    pub snapshot_behind: Option<u64>,
}

/// A live worker, as planning sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWorker {
    /// Its id.
    pub id: u64,
    /// The slot it fills.
    pub slot: u16,
    /// Whether it leads.
    pub leads: bool,
}

impl WantedWorkers {
    /// The cell of a new database: a leader and this many readers.
    pub fn new(readers: u16) -> Self {
        let slots = (0..=readers).collect();
        WantedWorkers { slots, next_worker: 1, snapshot_behind: None }
    }

    /// Draws the id of a new worker. The commit that stores the next cell also writes the worker's cell.
    pub fn draw_worker(&self) -> (u64, WantedWorkers) {
        let next = WantedWorkers { next_worker: self.next_worker + 1, ..self.clone() };
        (self.next_worker, next)
    }

    /// The cell with `readers` readers beside the leader; `None` if it has them. New slots take the lowest
    /// free numbers. The slots of the readers with the highest ids go first, and never the leader's (H27).
    pub fn with_readers(&self, readers: u16, live: &[SlotWorker]) -> Option<WantedWorkers> {
        let wanted = usize::from(readers) + 1;
        let mut next = self.clone();
        while next.slots.len() > wanted {
            let slot = next.slot_to_retire(live)?;
            next.slots.remove(&slot);
        }
        let free = (0..=u16::MAX).filter(|slot| !self.slots.contains(slot));
        next.slots.extend(free.take(wanted.saturating_sub(self.slots.len())));
        (next != *self).then_some(next)
    }

    /// The cell with a wanted snapshot behind `index`, for a worker that cannot apply the entry there (C8).
    pub fn with_snapshot(&self, index: u64) -> Option<WantedWorkers> {
        let snapshot_behind = self.snapshot_behind.max(Some(index));
        (snapshot_behind != self.snapshot_behind)
            .then(|| WantedWorkers { snapshot_behind, ..self.clone() })
    }

    /// The cell after a snapshot of `index` was made.
    pub fn snapshot_made(&self, index: u64) -> Option<WantedWorkers> {
        let is_met = self.snapshot_behind.is_some_and(|behind| index >= behind);
        is_met.then(|| WantedWorkers { snapshot_behind: None, ..self.clone() })
    }

    /// A slot without a live worker goes before any other: its next worker would have the highest id.
    fn slot_to_retire(&self, live: &[SlotWorker]) -> Option<u16> {
        let led = live.iter().find(|worker| worker.leads).map(|worker| worker.slot);
        let newest = |slot: u16| {
            let ids = live.iter().filter(|worker| worker.slot == slot).map(|worker| worker.id);
            ids.max().unwrap_or(u64::MAX)
        };
        let retirable = self.slots.iter().copied().filter(|slot| Some(*slot) != led);
        retirable.max_by_key(|slot| (newest(*slot), *slot))
    }

    /// The bytes to store.
    pub fn encode(&self) -> Bytes {
        let mut to = FieldWriter::new(VERSION);
        to.u64(self.next_worker);
        match self.snapshot_behind {
            None => to.u8(0),
            Some(index) => to.u8(1).u64(index),
        };
        // There are at most 65 slots.
        to.u16(self.slots.len() as u16);
        self.slots.iter().for_each(|slot| {
            to.u16(*slot);
        });
        to.finish().into()
    }

    /// Reads the bytes that [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DbFormatError> {
        let mut from = FieldReader::new("the wanted workers of a database", bytes, VERSION)?;
        let next_worker = from.u64()?;
        let snapshot_behind = match from.u8()? {
            0 => None,
            1 => Some(from.u64()?),
            _ => return Err(from.malformed("a wanted snapshot is neither there nor absent")),
        };
        let count = from.u16()?;
        let slots = (0..count).map(|_| from.u16()).collect::<Result<BTreeSet<u16>, _>>()?;
        if slots.len() != usize::from(count) {
            return Err(from.malformed("a slot is named twice"));
        }
        from.finish()?;
        Ok(WantedWorkers { slots, next_worker, snapshot_behind })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn worker(id: u64, slot: u16) -> SlotWorker {
        SlotWorker { id, slot, leads: false }
    }

    fn leader(id: u64, slot: u16) -> SlotWorker {
        SlotWorker { id, slot, leads: true }
    }

    fn slots(wanted: &WantedWorkers) -> Vec<u16> {
        wanted.slots.iter().copied().collect()
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let wanted = WantedWorkers { snapshot_behind: Some(7), ..WantedWorkers::new(1) };
        let stored = b"\x01\0\0\0\0\0\0\0\x01\x01\0\0\0\0\0\0\0\x07\0\x02\0\0\0\x01";
        assert_eq!(&wanted.encode()[..], stored);
        assert_eq!(WantedWorkers::decode(stored), Ok(wanted));
        assert!(WantedWorkers::decode(b"\x02").is_err());
        assert!(WantedWorkers::decode(&stored[..9]).is_err());
    }

    #[test]
    fn h25_ids_are_drawn_in_order_and_never_come_back() {
        let mut wanted = WantedWorkers::new(2);
        let mut drawn = Vec::new();
        for readers in [2, 5, 1, 1, 3] {
            let (id, next) = wanted.draw_worker();
            drawn.push(id);
            wanted = next.with_readers(readers, &[worker(id, 1)]).unwrap_or(next);
        }
        assert_eq!(drawn, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn h26_h27_slots_grow_from_the_lowest_and_shrink_by_the_highest_id_never_the_leader_s() {
        let three = WantedWorkers::new(2);
        let gap = WantedWorkers { slots: [0, 3].into(), ..WantedWorkers::new(0) };
        let live = [leader(1, 0), worker(2, 1), worker(3, 2)];
        let led_by_newest = [worker(1, 0), worker(2, 1), leader(3, 2)];
        let replaced = [leader(1, 0), worker(9, 1), worker(3, 2)];
        type Case<'a> = (&'a str, &'a WantedWorkers, u16, &'a [SlotWorker], Option<Vec<u16>>);
        let cases: [Case<'_>; 9] = [
            ("as it is", &three, 2, &live, None),
            ("two more", &three, 4, &live, Some(vec![0, 1, 2, 3, 4])),
            ("into a gap", &gap, 3, &live, Some(vec![0, 1, 2, 3])),
            ("the highest id", &three, 1, &live, Some(vec![0, 1])),
            ("two at once", &three, 0, &live, Some(vec![0])),
            ("not the leader", &three, 1, &led_by_newest, Some(vec![0, 2])),
            ("the highest id, not the highest slot", &three, 1, &replaced, Some(vec![0, 2])),
            (
                "a slot without a worker first",
                &three,
                1,
                &[leader(1, 0), worker(3, 2)],
                Some(vec![0, 2]),
            ),
            ("no worker at all", &three, 1, &[], Some(vec![0, 1])),
        ];
        for (what, wanted, readers, live, expected) in cases {
            assert_eq!(wanted.with_readers(readers, live).map(|w| slots(&w)), expected, "{what}");
        }
    }

    #[test]
    fn c8_a_wanted_snapshot_stays_until_one_lies_behind_the_entry() {
        let wanted = WantedWorkers::new(1).with_snapshot(7).unwrap();
        assert_eq!(wanted.with_snapshot(6), None);
        assert_eq!(wanted.snapshot_made(6), None);
        assert_eq!(wanted.snapshot_made(7), Some(WantedWorkers::new(1)));
    }

    proptest! {
        #[test]
        fn any_plan_has_the_wanted_slots_and_keeps_the_leader_s(
            from in 0u16..20, to in 0u16..20, lead in 0u16..20, ids in proptest::collection::vec(0u64..99, 20),
        ) {
            let wanted = WantedWorkers::new(from);
            let live: Vec<SlotWorker> = (0..=from)
                .map(|slot| SlotWorker { id: ids[usize::from(slot) % 20], slot, leads: slot == lead % (from + 1) })
                .collect();
            let next = wanted.with_readers(to, &live).unwrap_or_else(|| wanted.clone());
            prop_assert_eq!(next.slots.len(), usize::from(to) + 1);
            prop_assert!(next.slots.contains(&(lead % (from + 1))));
            prop_assert_eq!(WantedWorkers::decode(&next.encode()), Ok(next));
        }
    }
}
