//! The steps from one state to the next. Each is stored by a commit that expects the very bytes of the
//! state it was made from; a step of a holder is made only from a state that this holder holds.

use std::time::Duration;

use consort_kernel::Timestamp;

use crate::decide::Decision;
use crate::fence::Fence;
use crate::state::{Failed, Hold, Ready, State};
use crate::terms::{Failure, OnError};

/// How long a cell stays when it is of no more use: waiters look at least once a second, and find there
/// what came meanwhile. Nothing is safe because of it.
const LINGER: Duration = Duration::from_secs(10);

/// What a commit leaves in the cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Next {
    /// This.
    Put(State),
    /// Nothing.
    Clear,
}

/// How long a published value lives, counted from its publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) fresh_for: Duration,
    pub(crate) stale_for: Duration,
    pub(crate) stale_if_error: Duration,
    /// How long it took to compute.
    pub(crate) cost: Duration,
}

/// The state in which the attempt `fence` computes; `None` if the decision is not to try. Whatever the
/// value is still good for decides whether it stays.
pub(crate) fn acquired(
    state: Option<&State>,
    decision: &Decision,
    fence: Fence,
    now: Timestamp,
    lease: Duration,
) -> Option<State> {
    let hold = Hold { fence, until: now.after(lease) };
    match (decision, state) {
        (Decision::Compute, _) => Some(State::Computing(hold)),
        (Decision::Refresh | Decision::Serve { refresh: true, .. }, Some(State::Ready(ready))) => {
            Some(State::Ready(Ready { refresh: Some(hold), ..*ready }))
        }
        _ => None,
    }
}

/// The same attempt for another while; `None` if it was fenced off.
pub(crate) fn renewed(
    state: &State,
    fence: Fence,
    now: Timestamp,
    lease: Duration,
) -> Option<State> {
    if !state.is_held_by(fence) {
        return None;
    }
    let hold = Hold { fence, until: now.after(lease) };
    match state {
        State::Computing(_) => Some(State::Computing(hold)),
        State::Ready(ready) => Some(State::Ready(Ready { refresh: Some(hold), ..*ready })),
        State::Failed(_) => None,
    }
}

/// The value of the attempt `fence` is there; `None` if it was fenced off.
pub(crate) fn published(state: &State, fence: Fence, now: Timestamp, life: Life) -> Option<Next> {
    if !state.is_held_by(fence) {
        return None;
    }
    let fresh_until = now.after(life.fresh_for);
    Some(Next::Put(State::Ready(Ready {
        generation: fence,
        published: now,
        fresh_until,
        usable_until: fresh_until.after(life.stale_for),
        excusable_until: fresh_until.after(life.stale_if_error),
        excused_until: Timestamp(0),
        cost: u32::try_from(life.cost.as_millis()).unwrap_or(u32::MAX),
        refresh: None,
    })))
}

/// The attempt `fence` failed; `None` if it was fenced off. A value that is there and still good for
/// something stays, and is excused for as long as an error is kept.
pub(crate) fn failed(
    state: &State,
    fence: Fence,
    now: Timestamp,
    failure: &Failure,
    errors_for: Duration,
    on_error: OnError,
) -> Option<Next> {
    if !state.is_held_by(fence) {
        return None;
    }
    let until = now.after(errors_for);
    match state {
        State::Ready(ready) if now < ready.usable_until.max(ready.excusable_until) => {
            let most = ready.usable_until.max(ready.excusable_until);
            let excused_until = until.min(most);
            Some(Next::Put(State::Ready(Ready { excused_until, refresh: None, ..*ready })))
        }
        _ if on_error == OnError::Reelect => Some(Next::Clear),
        _ => Some(Next::Put(State::Failed(Failed { fence, until, failure: failure.clone() }))),
    }
}

/// The attempt `fence` is given up, so that another may begin at once; `None` if it was fenced off.
pub(crate) fn released(state: &State, fence: Fence) -> Option<Next> {
    if !state.is_held_by(fence) {
        return None;
    }
    match state {
        State::Ready(ready) => Some(Next::Put(State::Ready(Ready { refresh: None, ..*ready }))),
        State::Computing(_) | State::Failed(_) => Some(Next::Clear),
    }
}

/// When a cell that holds `state` may be cleared away.
pub(crate) fn expires(state: &State) -> Timestamp {
    let last = match state {
        State::Computing(hold) => hold.until,
        State::Failed(failed) => failed.until,
        State::Ready(ready) => {
            let refresh = ready.refresh.map_or(Timestamp(0), |hold| hold.until);
            ready.fresh_until.max(ready.usable_until).max(ready.excusable_until).max(refresh)
        }
    };
    last.after(LINGER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::FailureKind;

    const LEASE: Duration = Duration::from_millis(3);

    fn fence(attempt: u64) -> Fence {
        Fence { incarnation: 1, attempt }
    }

    fn computing(attempt: u64) -> State {
        State::Computing(Hold { fence: fence(attempt), until: Timestamp(5) })
    }

    fn ready(refresh: Option<u64>) -> Ready {
        Ready {
            generation: fence(1),
            published: Timestamp(10),
            fresh_until: Timestamp(20),
            usable_until: Timestamp(30),
            excusable_until: Timestamp(40),
            excused_until: Timestamp(0),
            cost: 1,
            refresh: refresh.map(|n| Hold { fence: fence(n), until: Timestamp(12) }),
        }
    }

    fn life() -> Life {
        let ms = Duration::from_millis;
        Life { fresh_for: ms(10), stale_for: ms(5), stale_if_error: ms(7), cost: ms(2) }
    }

    #[test]
    fn no_step_is_made_from_a_state_that_another_holds() {
        let failure = Failure::new(FailureKind::Other, "x");
        let states = [
            computing(9),
            State::Ready(ready(None)),
            State::Ready(ready(Some(9))),
            State::Failed(Failed {
                fence: fence(1),
                until: Timestamp(9),
                failure: failure.clone(),
            }),
        ];
        for state in states {
            let (now, zero) = (Timestamp(6), Duration::ZERO);
            assert_eq!(renewed(&state, fence(1), now, LEASE), None, "{state:?}");
            assert_eq!(published(&state, fence(1), now, life()), None, "{state:?}");
            let given = failed(&state, fence(1), now, &failure, zero, OnError::Keep);
            assert_eq!(given, None, "{state:?}");
            assert_eq!(released(&state, fence(1)), None, "{state:?}");
        }
    }

    #[test]
    fn freshness_counts_from_publication() {
        let expected = Ready {
            generation: fence(1),
            published: Timestamp(100),
            fresh_until: Timestamp(110),
            usable_until: Timestamp(115),
            excusable_until: Timestamp(117),
            excused_until: Timestamp(0),
            cost: 2,
            refresh: None,
        };
        let next = published(&computing(1), fence(1), Timestamp(100), life());
        assert_eq!(next, Some(Next::Put(State::Ready(expected))));
        assert_eq!(expires(&State::Ready(expected)), Timestamp(10_117));
    }

    #[test]
    fn a_value_stays_while_it_is_refreshed_and_goes_when_it_is_of_no_use() {
        let old = State::Ready(ready(None));
        let now = Timestamp(25);
        let hold = Hold { fence: fence(4), until: Timestamp(28) };
        let kept = State::Ready(Ready { refresh: Some(hold), ..ready(None) });
        for decision in [Decision::Refresh, Decision::Serve { stale: true, refresh: true }] {
            let taken = acquired(Some(&old), &decision, fence(4), now, LEASE);
            assert_eq!(taken, Some(kept.clone()));
        }
        let taken = acquired(Some(&old), &Decision::Compute, fence(4), now, LEASE);
        assert_eq!(taken, Some(State::Computing(hold)));
        for decision in [
            Decision::Wait { until: now },
            Decision::Serve { stale: true, refresh: false },
            Decision::Fail {
                failure: Failure::new(FailureKind::Other, ""),
                retry_after: Duration::ZERO,
            },
        ] {
            assert_eq!(acquired(Some(&old), &decision, fence(4), now, LEASE), None);
        }
        let renewed = renewed(&kept, fence(4), Timestamp(27), LEASE);
        let hold = Hold { fence: fence(4), until: Timestamp(30) };
        assert_eq!(renewed, Some(State::Ready(Ready { refresh: Some(hold), ..ready(None) })));
    }

    #[test]
    fn an_error_leaves_the_value_that_is_still_good_for_something() {
        let failure = Failure::new(FailureKind::TimedOut, "slow");
        let ten = Duration::from_millis(10);
        let refreshing = State::Ready(ready(Some(2)));
        let fail = |state: &State, holder, now, on_error| {
            failed(state, fence(holder), Timestamp(now), &failure, ten, on_error)
        };
        let excused = |until| {
            let excused_until = Timestamp(until);
            Some(Next::Put(State::Ready(Ready { excused_until, ..ready(None) })))
        };
        let error = |holder, until| {
            let failed =
                Failed { fence: fence(holder), until: Timestamp(until), failure: failure.clone() };
            Some(Next::Put(State::Failed(failed)))
        };
        let keep = OnError::Keep;
        assert_eq!(fail(&refreshing, 2, 25, keep), excused(35));
        assert_eq!(fail(&refreshing, 2, 35, keep), excused(40));
        assert_eq!(fail(&refreshing, 2, 35, OnError::Reelect), excused(40));
        assert_eq!(fail(&refreshing, 2, 40, keep), error(2, 50));
        assert_eq!(fail(&computing(1), 1, 40, keep), error(1, 50));
        assert_eq!(fail(&computing(1), 1, 40, OnError::Reelect), Some(Next::Clear));
    }

    #[test]
    fn a_released_hold_leaves_what_was_there() {
        assert_eq!(released(&computing(1), fence(1)), Some(Next::Clear));
        let expected = Some(Next::Put(State::Ready(ready(None))));
        assert_eq!(released(&State::Ready(ready(Some(2))), fence(2)), expected);
    }
}
