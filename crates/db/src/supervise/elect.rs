//! Which worker claims a head without a leader, and how long it waits first.
//!
//! The order only avoids useless claims: any claim is safe, because the head is replaced by
//! compare-and-commit.

use std::time::Duration;

/// The head's named successor has this long before others claim.
pub const SUCCESSOR_FIRST: Duration = Duration::from_millis(500);
/// Each worker in the order of ids waits this much longer than the one before it: about the time that a
/// claim on a slow store takes.
pub const CLAIM_STEP: Duration = Duration::from_millis(100);
/// A worker that would have to replay many entries first lets others go before it for this long.
pub const BEHIND_WAIT: Duration = Duration::from_secs(1);
/// More entries than this are many: replaying them takes about as long as [`BEHIND_WAIT`].
pub const BEHIND_ENTRIES: u64 = 1_000;
/// A worker that gave the lead up does not take it back for this long.
pub const UNFIT_AFTER_YIELD: Duration = Duration::from_secs(10);
/// A refused connection is a sign of a dead leader at most this often, or a flapping port would depose one
/// leader after the other.
pub const REFUSED_SIGN_EVERY: Duration = Duration::from_secs(5);

/// A live worker that does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Its id.
    pub id: u64,
    /// Whether it may lead.
    pub fitness: Fitness,
    /// How many entries it has not applied.
    pub behind: u64,
}

/// Whether a worker may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// It may.
    Fit,
    /// It gave the lead up within [`UNFIT_AFTER_YIELD`]: only if no other worker may.
    Yielded,
    /// It is quarantined, out of rotation, or its SQLite is too old: never.
    Unfit,
}

/// How the lead became free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacancy {
    /// The leader's worker cell was removed, or is not live.
    Gone,
    /// The leader's process refuses connections. `since_last` is the time since this sign was last acted
    /// on for the same database.
    Refused {
        /// `None` if it never was.
        since_last: Option<Duration>,
    },
    /// The leader gave the lead up.
    Yielded {
        /// The worker it named.
        successor: Option<u64>,
    },
}

/// How long worker `me` waits before it claims; `None` if it does not. `followers` are all live workers
/// without the leader, `me` included.
pub fn claim_wait(me: u64, followers: &[Follower], vacancy: Vacancy) -> Option<Duration> {
    let start = match vacancy {
        Vacancy::Gone => Duration::ZERO,
        Vacancy::Refused { since_last } => match since_last {
            Some(since) if since < REFUSED_SIGN_EVERY => return None,
            _ => Duration::ZERO,
        },
        Vacancy::Yielded { successor } => {
            let may_lead =
                |worker: u64| followers.iter().any(|f| f.id == worker && f.fitness == Fitness::Fit);
            match successor.filter(|successor| may_lead(*successor)) {
                Some(successor) if successor == me => return Some(Duration::ZERO),
                Some(_) => SUCCESSOR_FIRST,
                // No live worker can act on the name, so waiting for it would only prolong the pause.
                None => Duration::ZERO,
            }
        }
    };
    wait_in_order(me, followers).map(|wait| start + wait)
}

/// The worker that a leader names when it gives the lead up: the one that catches up soonest (H28).
pub fn successor(followers: &[Follower]) -> Option<u64> {
    let fit = followers.iter().filter(|follower| follower.fitness == Fitness::Fit);
    fit.min_by_key(|follower| (follower.behind > BEHIND_ENTRIES, follower.id)).map(|f| f.id)
}

fn wait_in_order(me: u64, followers: &[Follower]) -> Option<Duration> {
    let any_fit = followers.iter().any(|follower| follower.fitness == Fitness::Fit);
    let may_claim = |follower: &&Follower| match follower.fitness {
        Fitness::Fit => true,
        Fitness::Yielded => !any_fit,
        Fitness::Unfit => false,
    };
    let own = followers.iter().filter(may_claim).find(|follower| follower.id == me)?;
    let before = followers.iter().filter(may_claim).filter(|follower| follower.id < me).count();
    let in_order = CLAIM_STEP * u32::try_from(before).unwrap_or(u32::MAX);
    let catching_up = if own.behind > BEHIND_ENTRIES { BEHIND_WAIT } else { Duration::ZERO };
    Some(in_order + catching_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follower(id: u64, fitness: Fitness, behind: u64) -> Follower {
        Follower { id, fitness, behind }
    }

    fn fit(id: u64) -> Follower {
        follower(id, Fitness::Fit, 0)
    }

    fn ms(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    #[test]
    fn the_lowest_id_claims_first_and_each_next_one_waits_longer() {
        let three = [fit(2), fit(3), fit(9)];
        let behind = [follower(2, Fitness::Fit, 1001), fit(3)];
        let unfit = [follower(2, Fitness::Unfit, 0), follower(3, Fitness::Yielded, 0), fit(9)];
        let yielded = [follower(2, Fitness::Unfit, 0), follower(3, Fitness::Yielded, 0)];
        let named = |successor| Vacancy::Yielded { successor };
        let refused = |millis| Vacancy::Refused { since_last: Some(Duration::from_millis(millis)) };
        let cases = [
            ("the first", 2, &three[..], Vacancy::Gone, ms(0)),
            ("the second", 3, &three, Vacancy::Gone, ms(100)),
            ("the third", 9, &three, Vacancy::Gone, ms(200)),
            ("not a live worker", 4, &three, Vacancy::Gone, None),
            ("far behind", 2, &behind, Vacancy::Gone, ms(1000)),
            ("behind one that is far behind", 3, &behind, Vacancy::Gone, ms(100)),
            ("unfit", 2, &unfit, Vacancy::Gone, None),
            ("yielded while another is fit", 3, &unfit, Vacancy::Gone, None),
            ("the only fit one", 9, &unfit, Vacancy::Gone, ms(0)),
            ("yielded and alone", 3, &yielded, Vacancy::Gone, ms(0)),
            ("unfit although alone", 2, &yielded, Vacancy::Gone, None),
            ("the successor", 9, &three, named(Some(9)), ms(0)),
            ("another than the successor", 2, &three, named(Some(9)), ms(500)),
            ("the next after it", 3, &three, named(Some(9)), ms(600)),
            ("a successor that is gone", 2, &three, named(Some(7)), ms(0)),
            ("an unfit successor", 2, &unfit, named(Some(2)), None),
            ("instead of an unfit successor", 9, &unfit, named(Some(2)), ms(0)),
            ("no successor", 3, &three, named(None), ms(100)),
            ("refused for the first time", 2, &three, Vacancy::Refused { since_last: None }, ms(0)),
            ("refused again too soon", 2, &three, refused(4_999), None),
            ("refused again later", 2, &three, refused(5_000), ms(0)),
        ];
        for (what, me, followers, vacancy, expected) in cases {
            assert_eq!(claim_wait(me, followers, vacancy), expected, "{what}");
        }
    }

    #[test]
    fn h28_the_successor_is_the_lowest_fit_worker_that_is_not_far_behind() {
        let behind = follower(2, Fitness::Fit, 5000);
        let cases = [
            (vec![fit(3), fit(2)], Some(2)),
            (vec![behind, fit(5)], Some(5)),
            (vec![behind], Some(2)),
            (vec![follower(1, Fitness::Unfit, 0), follower(2, Fitness::Yielded, 0)], None),
            (vec![], None),
        ];
        for (followers, expected) in cases {
            assert_eq!(successor(&followers), expected, "{followers:?}");
        }
    }
}
