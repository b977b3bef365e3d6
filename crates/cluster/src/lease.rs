//! The lease of a role: who should work on it, until when, and how often it has changed hands.
//!
//! A lease makes work fast, not safe: it says who *should* work. The transitions here are pure; each is
//! stored by a commit that expects the lease it was made from.

use std::time::Duration;

use consort_kernel::Timestamp;
use serde::{Deserialize, Serialize};

use crate::format::millis;

/// A process that can hold leases: a node's id, and a number drawn afresh at each of its starts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The node's id.
    pub id: String,
    /// Which start of it.
    pub incarnation: u64,
}

/// The lease cell of a role. It is never deleted, so its epoch is never used twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The node that should work; none if the last one released it.
    pub holder: Option<String>,
    /// Which start of that node.
    pub incarnation: u64,
    /// Grows by one with every acquisition, and never otherwise.
    pub epoch: u64,
    /// When it was last acquired or renewed; of a released one, when the work ended.
    #[serde(with = "millis")]
    pub renewed: Timestamp,
    /// From this time on anybody may take it.
    #[serde(with = "millis")]
    pub until: Timestamp,
}

/// How a lease that a node believes to hold stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It holds it, under the epoch it knows.
    Mine,
    /// The store went back to an earlier time, and nobody else holds it: it may be put anew.
    Forgotten,
    /// Somebody else has it, or had it since.
    Taken,
}

impl Lease {
    /// Whether anybody may take it now. With `void`, its holder is known to be dead.
    pub fn free(&self, now: Timestamp, void: bool) -> bool {
        void || self.holder.is_none() || self.until <= now
    }

    /// Whether this very process holds it, lapsed or not.
    pub fn is_held_by(&self, holder: &Holder) -> bool {
        self.holder.as_deref() == Some(&holder.id) && self.incarnation == holder.incarnation
    }

    /// The lease that follows `previous` when `holder` takes it.
    pub fn acquired_by(
        holder: &Holder,
        previous: Option<&Lease>,
        now: Timestamp,
        ttl: Duration,
    ) -> Lease {
        Lease {
            holder: Some(holder.id.clone()),
            incarnation: holder.incarnation,
            epoch: previous.map_or(0, |lease| lease.epoch) + 1,
            renewed: now,
            until: now.after(ttl),
        }
    }

    /// The same lease for another while.
    pub fn renewed(&self, now: Timestamp, ttl: Duration) -> Lease {
        Lease { renewed: now, until: now.after(ttl), ..self.clone() }
    }

    /// The lease given up, by a holder whose work ended `at`.
    pub fn released(&self, at: Timestamp) -> Lease {
        Lease { holder: None, incarnation: 0, epoch: self.epoch, renewed: at, until: at }
    }

    /// How the lease that `holder` acquired under `epoch` stands, if this was found in its cell.
    pub fn standing(
        found: Option<&Lease>,
        holder: &Holder,
        epoch: u64,
        now: Timestamp,
        void: bool,
    ) -> Standing {
        match found {
            None => Standing::Forgotten,
            Some(lease) if lease.epoch > epoch => Standing::Taken,
            Some(lease) if lease.is_held_by(holder) && lease.epoch == epoch => Standing::Mine,
            Some(lease) if lease.is_held_by(holder) || lease.free(now, void) => Standing::Forgotten,
            Some(_) => Standing::Taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{decode, encode};

    const TTL: Duration = Duration::from_millis(3000);

    fn holder(id: &str, incarnation: u64) -> Holder {
        Holder { id: id.into(), incarnation }
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let lease = Lease::acquired_by(&holder("a", 7), None, Timestamp(1000), TTL);
        let stored =
            b"\x01{\"holder\":\"a\",\"incarnation\":7,\"epoch\":1,\"renewed\":1000,\"until\":4000}";
        assert_eq!(&encode(&lease)[..], stored);
        assert_eq!(decode(stored), Ok(lease.clone()));
        let stored =
            b"\x01{\"holder\":null,\"incarnation\":0,\"epoch\":1,\"renewed\":1500,\"until\":1500}";
        assert_eq!(&encode(&lease.released(Timestamp(1500)))[..], stored);
        assert_eq!(decode(stored), Ok(lease.released(Timestamp(1500))));
    }

    #[test]
    fn the_epoch_grows_with_every_acquisition_and_never_otherwise() {
        let first = Lease::acquired_by(&holder("a", 7), None, Timestamp(0), TTL);
        let renewed = first.renewed(Timestamp(500), TTL);
        let released = renewed.released(Timestamp(800));
        let second = Lease::acquired_by(&holder("b", 8), Some(&released), Timestamp(900), TTL);
        let again = Lease::acquired_by(&holder("b", 8), Some(&second), Timestamp(950), TTL);
        let epochs = [&first, &renewed, &released, &second, &again].map(|lease| lease.epoch);
        assert_eq!(epochs, [1, 1, 1, 2, 3]);
        assert_eq!((renewed.renewed, renewed.until), (Timestamp(500), Timestamp(3500)));
        assert_eq!(released.renewed, Timestamp(800));
    }

    #[test]
    fn a_lease_is_free_when_released_lapsed_or_void() {
        let lease = Lease::acquired_by(&holder("a", 7), None, Timestamp(0), TTL);
        assert!(!lease.free(Timestamp(2999), false));
        assert!(lease.free(Timestamp(3000), false));
        assert!(lease.free(Timestamp(0), true));
        assert!(lease.released(Timestamp(1)).free(Timestamp(0), false));
    }

    #[test]
    fn a_held_lease_stands_as_what_is_found_of_it() {
        let me = holder("a", 7);
        let lease = |id: &str, incarnation, epoch| Lease {
            epoch,
            ..Lease::acquired_by(&holder(id, incarnation), None, Timestamp(0), TTL)
        };
        let cases = [
            ("gone", None, 10, Standing::Forgotten),
            ("as it was", Some(lease("a", 7, 5)), 10, Standing::Mine),
            ("lapsed, but nobody came", Some(lease("a", 7, 5)), 9000, Standing::Mine),
            ("another has it", Some(lease("b", 1, 6)), 10, Standing::Taken),
            ("another had it", Some(lease("b", 1, 6)), 9000, Standing::Taken),
            (
                "another gave it up",
                Some(lease("b", 1, 6).released(Timestamp(5))),
                10,
                Standing::Taken,
            ),
            ("my successor has it", Some(lease("a", 8, 6)), 10, Standing::Taken),
            ("my own, of before", Some(lease("a", 7, 4)), 10, Standing::Forgotten),
            ("another's of before, lapsed", Some(lease("b", 1, 4)), 9000, Standing::Forgotten),
            ("another's of before, alive", Some(lease("b", 1, 4)), 10, Standing::Taken),
        ];
        for (what, found, now, expected) in cases {
            let standing = Lease::standing(found.as_ref(), &me, 5, Timestamp(now), false);
            assert_eq!(standing, expected, "{what}");
        }
    }
}
