//! The ledger: what became of each record, as its producer was told.

use std::collections::BTreeMap;
use std::sync::Arc;

use consort_cluster::Place;
use consort_cluster::worker::Checkpoint;
use consort_kernel::Producer;
use parking_lot::Mutex;

use crate::tally::Entry;

/// What is known of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Its key.
    pub key: String,
    /// It was acknowledged: it must be counted, once.
    pub acknowledged: bool,
    /// A try ended unknown: it may be counted, once. If neither, it must not be.
    pub possible: bool,
}

/// How an append of several records ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// They are in the log.
    Acknowledged,
    /// They may be in the log.
    Unknown,
    /// They are not in the log by this try.
    Failed,
}

/// All that was told. Clones are of the same ledger.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    /// By the records' values.
    fates: BTreeMap<u64, Fate>,
    /// The last sequence of each producer that was acknowledged, by partition.
    reached: BTreeMap<(u32, Producer), u64>,
}

impl Ledger {
    /// Takes down how an append of `entries` ended.
    pub fn take(&self, entries: &[Entry], outcome: Outcome) {
        let mut told = self.0.lock();
        for entry in entries {
            let fate = told.fates.entry(entry.value).or_insert_with(|| Fate {
                key: entry.key.clone(),
                acknowledged: false,
                possible: false,
            });
            fate.acknowledged |= outcome == Outcome::Acknowledged;
            fate.possible |= outcome == Outcome::Unknown;
        }
    }

    /// What is known of every record.
    pub fn fates(&self) -> BTreeMap<u64, Fate> {
        self.0.lock().fates.clone()
    }

    /// Takes down where acknowledged records stand.
    pub fn reached(&self, place: &Place) {
        let key = (place.partition.index, place.producer);
        let mut told = self.0.lock();
        let last = told.reached.entry(key).or_default();
        *last = place.sequence.max(*last);
    }

    /// Whether `checkpoint` of partition `index` is behind all that was acknowledged.
    pub fn is_behind_all(&self, index: u32, checkpoint: &Checkpoint) -> bool {
        let told = self.0.lock();
        let mut here = told.reached.iter().filter(|((partition, _), _)| *partition == index);
        here.all(|((_, producer), last)| checkpoint.stand.has_passed(*producer, *last))
    }

    /// How many records were acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.0.lock().fates.values().filter(|fate| fate.acknowledged).count()
    }

    /// How many are acknowledged, how many only possible, and how many not in the log.
    pub fn summary(&self) -> (usize, usize, usize) {
        let fates = &self.0.lock().fates;
        let acknowledged = fates.values().filter(|fate| fate.acknowledged).count();
        let possible = fates.values().filter(|fate| !fate.acknowledged && fate.possible).count();
        (acknowledged, possible, fates.len() - acknowledged - possible)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_was_acknowledged_once_stays_so() {
        let ledger = Ledger::default();
        let entry = |value| Entry { key: "k".into(), value, id: format!("r{value}") };
        ledger.take(&[entry(1), entry(2), entry(3)], Outcome::Unknown);
        ledger.take(&[entry(1)], Outcome::Acknowledged);
        ledger.take(&[entry(1), entry(2), entry(4)], Outcome::Failed);
        assert_eq!(ledger.summary(), (1, 2, 1));
    }
}
