//! The faults of a trial in time, and how long writes paused after each.

use std::collections::BTreeMap;
use std::time::Duration;

use super::clock::TrialClock;
use super::faults::DbFault;
use crate::lin::history::{CallAction, ClientCall, ToldOutcome};
use crate::lin::registers::RegisterRecord;

/// How long after a fault a pause is counted as its own, in nanoseconds, unless another fault comes first.
const ITS_OWN: u64 = 10_000_000_000;

/// All faults so far.
#[derive(Clone, Debug)]
pub struct FaultLog {
    clock: TrialClock,
    faults: Vec<(u64, DbFault)>,
}

impl FaultLog {
    /// None yet.
    pub fn new(clock: TrialClock) -> FaultLog {
        FaultLog { clock, faults: Vec::new() }
    }

    /// The time.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Takes note of a fault that began then.
    pub fn note(&mut self, began: u64, fault: DbFault) {
        self.faults.push((began, fault));
    }

    /// How many there were.
    pub fn len(&self) -> usize {
        self.faults.len()
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// For people: how often each fault struck, and the longest pauses of writes after it, of the database that paused
    /// longer.
    pub fn report(&self, records: &[RegisterRecord], calls: &[ClientCall]) -> String {
        let databases = [acknowledged(records, &[]), acknowledged(&[], calls)];
        let mut by_fault: BTreeMap<DbFault, Vec<u64>> = BTreeMap::new();
        for (at, (began, fault)) in self.faults.iter().enumerate() {
            let next = self.faults.get(at + 1).map_or(u64::MAX, |(next, _)| *next);
            let until = next.min(began + ITS_OWN);
            let pause = databases.iter().map(|ends| longest_gap(ends, *began, until)).max();
            by_fault.entry(*fault).or_default().extend(pause);
        }
        let mut lines = vec![format!("{} faults; pauses of writes after them:", self.faults.len())];
        for (fault, mut pauses) in by_fault {
            pauses.sort_unstable();
            let shown = |nanos: Option<&u64>| Duration::from_nanos(nanos.copied().unwrap_or(0));
            lines.push(format!(
                "  {fault}: {} times, half within {:.1?}, longest {:.1?}",
                pauses.len(),
                shown(pauses.get(pauses.len() / 2)),
                shown(pauses.last()),
            ));
        }
        lines.join("\n")
    }
}

/// When writes were acknowledged, in order.
pub fn acknowledged(records: &[RegisterRecord], calls: &[ClientCall]) -> Vec<u64> {
    let registers = records.iter().map(RegisterRecord::client_call);
    let all = registers.chain(calls.iter().cloned());
    let stored = all.filter(|call| match &call.action {
        CallAction::Write(write) => matches!(write.outcome, ToldOutcome::Stored { .. }),
        CallAction::Read(_) => false,
    });
    let mut ends: Vec<u64> = stored.filter_map(|call| call.span.ended).collect();
    ends.sort_unstable();
    ends
}

/// The longest time without an end that begins between two moments.
fn longest_gap(ends: &[u64], began: u64, until: u64) -> u64 {
    let first = ends.partition_point(|end| *end < began);
    let mut last = began;
    let mut longest = 0;
    for &end in &ends[first..] {
        longest = longest.max(end - last);
        last = end;
        if last >= until {
            break;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_the_longest_time_without_an_acknowledgement_after_a_fault() {
        let ends = [1, 2, 3, 10, 12, 30, 31];
        for (began, until, expected) in
            [(3, 9, 7), (4, 9, 6), (11, 13, 18), (13, 14, 17), (31, 40, 0)]
        {
            assert_eq!(longest_gap(&ends, began, until), expected, "{began} {until}");
        }
    }
}
