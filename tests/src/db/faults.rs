//! The faults of a trial, and the deck from which they are dealt.

use std::fmt;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::stores::{DbUpon, StopSignal};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DbFault {
    /// SIGKILL of the node that has this worker; it is started again, with its old folder or an empty one.
    Kill(FaultTarget),
    /// SIGTERM of the node that has this worker; it is started again.
    Stop(FaultTarget),
    /// SIGSTOP of that node past its lease, then SIGCONT.
    Pause(FaultTarget),
    /// The crash drill for that worker.
    Crash(FaultTarget),
    /// The connections of the leader's node to the store break while answers are on their way.
    Cut,
    /// The leader's node hears nothing of the store past its lease.
    Silence,
    /// The store's server goes down, and comes back with its data.
    Outage(StopSignal),
    /// The node that has this worker is retired, and another one joins.
    Drain(FaultTarget),
}

/// The part of a database that a fault is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultTarget {
    /// The worker that leads.
    Leader,
    /// A worker that reads.
    Reader,
    /// The supervisor.
    Supervisor,
}

impl fmt::Display for DbFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Each fault once. On the embedded engine one node has everything.
pub fn all(upon: DbUpon) -> Vec<DbFault> {
    use DbFault::{Crash, Cut, Drain, Kill, Outage, Pause, Silence, Stop};
    use FaultTarget::{Leader, Reader, Supervisor};
    match upon {
        DbUpon::Redis => vec![
            Kill(Leader),
            Kill(Reader),
            Kill(Supervisor),
            Pause(Leader),
            Pause(Reader),
            Pause(Supervisor),
            Crash(Leader),
            Crash(Reader),
            Stop(Leader),
            Cut,
            Silence,
            Outage(StopSignal::Kill),
            Outage(StopSignal::Term),
            Drain(Leader),
        ],
        // A killed node is the fault that the embedded engine is built for.
        DbUpon::Embedded => vec![
            Kill(Leader),
            Kill(Leader),
            Kill(Leader),
            Pause(Leader),
            Crash(Leader),
            Crash(Leader),
            Crash(Leader),
            Crash(Reader),
            Crash(Reader),
            Crash(Reader),
            Stop(Leader),
            Pause(Leader),
        ],
    }
}

/// So many faults, to be taken from the end. Every run of as many as there are kinds has each of them.
pub fn deck(upon: DbUpon, count: usize, random: &mut StdRng) -> Vec<DbFault> {
    let mut deck = Vec::new();
    while deck.len() < count {
        let mut round = all(upon);
        round.shuffle(random);
        deck.extend(round);
    }
    deck.truncate(count);
    deck.reverse();
    deck
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_deck_has_every_fault_before_it_has_one_again() {
        let mut random = StdRng::seed_from_u64(5);
        for upon in [DbUpon::Redis, DbUpon::Embedded] {
            let kinds = all(upon).len();
            assert!(kinds >= 12, "a short trial has at least twelve faults");
            let deck = deck(upon, 200, &mut random);
            assert_eq!(deck.len(), 200);
            let mut first: Vec<DbFault> = deck.iter().rev().take(kinds).copied().collect();
            let mut expected = all(upon);
            first.sort_unstable();
            expected.sort_unstable();
            assert_eq!(first, expected);
        }
    }
}
