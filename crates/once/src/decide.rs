//! What a request does with the state it finds: a pure function of that state, the time, and what the
//! asker saw before.

use std::time::Duration;

use consort_kernel::Timestamp;

use crate::fence::Fence;
use crate::state::{Failed, Hold, Ready, State};
use crate::terms::Failure;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// The store's time.
    pub(crate) now: Timestamp,
    /// The process that asks.
    pub(crate) incarnation: u64,
    /// Whether every other process is known to be dead.
    pub(crate) sole: bool,
    /// What the same flight saw before.
    pub(crate) before: Before,
    /// Whether chance wants a fresh value to be refreshed already.
    pub(crate) early: bool,
}

/// What a flight saw when it looked before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Before {
    /// This is its first look.
    #[default]
    Nothing,
    /// The outcome that stood there, if one did.
    Saw(Option<Fence>),
}

impl Before {
    /// Whether `outcome` came while this flight waited. If an earlier look of the flight did not show it,
    /// it was published after the flight began, and belongs to those who wait, however short it is kept:
    /// an error with `errors_for = 0`, or a value that must not be stored. No clock is needed to tell.
    fn is_news(self, outcome: Fence) -> bool {
        match self {
            Before::Nothing => false,
            Before::Saw(shown) => shown != Some(outcome),
        }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Answer with the value.
    Serve {
        /// It is no longer fresh.
        stale: bool,
        /// And try to become the one who refreshes it.
        refresh: bool,
    },
    /// Answer with the error.
    Fail {
        /// What went wrong.
        failure: Failure,
        /// For how long the error stands.
        retry_after: Duration,
    },
    /// Try to become the one who computes; there is nothing worth keeping.
    Compute,
    /// Try to become the one who refreshes, and wait for it. The value stays, in case that fails.
    Refresh,
    /// Somebody computes: look again when the cell changes, at the latest when their lease lapses.
    Wait {
        /// When that is.
        until: Timestamp,
    },
}

/// What `asker` does who finds `state`.
pub(crate) fn decide(state: Option<&State>, asker: &Asker) -> Decision {
    match state {
        None => Decision::Compute,
        Some(State::Computing(hold)) => match asker.live(hold) {
            true => Decision::Wait { until: hold.until },
            false => Decision::Compute,
        },
        Some(State::Ready(ready)) => decide_ready(ready, asker),
        Some(State::Failed(failed)) => decide_failed(failed, asker),
    }
}

fn decide_ready(ready: &Ready, asker: &Asker) -> Decision {
    let now = asker.now;
    let refresher = ready.refresh.filter(|hold| asker.live(hold));
    let may_refresh = refresher.is_none() && ready.excused_until <= now;
    if now < ready.fresh_until {
        return Decision::Serve { stale: false, refresh: asker.early && may_refresh };
    }
    if asker.before.is_news(ready.generation) {
        return Decision::Serve { stale: ready.published < ready.fresh_until, refresh: false };
    }
    if now < ready.usable_until {
        return Decision::Serve { stale: true, refresh: may_refresh };
    }
    if now < ready.excused_until {
        return Decision::Serve { stale: true, refresh: false };
    }
    match refresher {
        Some(hold) => Decision::Wait { until: hold.until },
        None if now < ready.excusable_until => Decision::Refresh,
        None => Decision::Compute,
    }
}

fn decide_failed(failed: &Failed, asker: &Asker) -> Decision {
    if asker.now < failed.until || asker.before.is_news(failed.fence) {
        let retry_after = failed.until.since(asker.now);
        return Decision::Fail { failure: failed.failure.clone(), retry_after };
    }
    Decision::Compute
}

impl Asker {
    /// Whether a hold is to be left alone.
    fn live(&self, hold: &Hold) -> bool {
        let dead = self.sole && hold.fence.incarnation != self.incarnation;
        !dead && self.now < hold.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::FailureKind;

    const ME: u64 = 1;

    fn fence(incarnation: u64, attempt: u64) -> Fence {
        Fence { incarnation, attempt }
    }

    fn asker(now: u64) -> Asker {
        Asker {
            now: Timestamp(now),
            incarnation: ME,
            sole: false,
            before: Before::Nothing,
            early: false,
        }
    }

    fn hold(until: u64) -> Hold {
        Hold { fence: fence(2, 9), until: Timestamp(until) }
    }

    fn ready() -> Ready {
        Ready {
            generation: fence(2, 1),
            published: Timestamp(10),
            fresh_until: Timestamp(20),
            usable_until: Timestamp(30),
            excusable_until: Timestamp(40),
            excused_until: Timestamp(0),
            cost: 1,
            refresh: None,
        }
    }

    fn serve(stale: bool, refresh: bool) -> Decision {
        Decision::Serve { stale, refresh }
    }

    fn wait(until: u64) -> Decision {
        Decision::Wait { until: Timestamp(until) }
    }

    #[test]
    fn what_is_found_and_when_says_what_to_do() {
        let value = |change: fn(&mut Ready)| {
            let mut ready = ready();
            change(&mut ready);
            Some(State::Ready(ready))
        };
        let plain = || value(|_| ());
        let refreshed = || value(|r| r.refresh = Some(hold(50)));
        let abandoned = || value(|r| r.refresh = Some(hold(12)));
        let excused = || value(|r| r.excused_until = Timestamp(35));
        let computing = |until| Some(State::Computing(hold(until)));
        let cases = [
            ("nothing", None, 10, Decision::Compute),
            ("somebody computes", computing(11), 10, wait(11)),
            ("their lease lapsed", computing(10), 10, Decision::Compute),
            ("fresh", plain(), 19, serve(false, false)),
            ("stale", plain(), 20, serve(true, true)),
            ("the last stale moment", plain(), 29, serve(true, true)),
            ("only good if it fails", plain(), 30, Decision::Refresh),
            ("of no use", plain(), 40, Decision::Compute),
            ("fresh, being refreshed", refreshed(), 19, serve(false, false)),
            ("stale, being refreshed", refreshed(), 20, serve(true, false)),
            ("good if that fails", refreshed(), 30, wait(50)),
            ("of no use, but one refreshes", refreshed(), 49, wait(50)),
            ("of no use, nobody refreshes", refreshed(), 50, Decision::Compute),
            ("stale, refresher gone", abandoned(), 20, serve(true, true)),
            ("stale, a refresh just failed", excused(), 20, serve(true, false)),
            ("excused", excused(), 34, serve(true, false)),
            ("no longer excused", excused(), 35, Decision::Refresh),
        ];
        for (what, state, now, expected) in cases {
            assert_eq!(decide(state.as_ref(), &asker(now)), expected, "{what}");
        }
    }

    #[test]
    fn chance_refreshes_a_fresh_value_only_if_nobody_does() {
        let early = |now| Asker { early: true, ..asker(now) };
        let cases = [
            (State::Ready(ready()), true),
            (State::Ready(Ready { refresh: Some(hold(50)), ..ready() }), false),
            (State::Ready(Ready { excused_until: Timestamp(19), ..ready() }), false),
        ];
        for (state, refresh) in cases {
            assert_eq!(decide(Some(&state), &early(15)), serve(false, refresh), "{state:?}");
        }
    }

    #[test]
    fn an_error_stands_for_its_time_and_reaches_all_who_waited() {
        let failure = Failure::new(FailureKind::TimedOut, "slow");
        let failed = Failed { fence: fence(2, 5), until: Timestamp(20), failure: failure.clone() };
        let state = State::Failed(failed);
        let fail = |left| Decision::Fail {
            failure: failure.clone(),
            retry_after: Duration::from_millis(left),
        };
        let before = |before, now| Asker { before, ..asker(now) };
        let cases = [
            (before(Before::Nothing, 15), fail(5)),
            (before(Before::Nothing, 20), Decision::Compute),
            (before(Before::Saw(None), 20), fail(0)),
            (before(Before::Saw(Some(fence(2, 4))), 20), fail(0)),
            (before(Before::Saw(Some(fence(2, 5))), 20), Decision::Compute),
        ];
        for (asker, expected) in cases {
            assert_eq!(decide(Some(&state), &asker), expected, "{asker:?}");
        }
    }

    #[test]
    fn a_value_that_is_not_kept_is_for_those_who_waited() {
        let unkept = Ready {
            fresh_until: Timestamp(10),
            usable_until: Timestamp(10),
            excusable_until: Timestamp(10),
            ..ready()
        };
        let state = State::Ready(unkept);
        let before = |before| Asker { before, ..asker(12) };
        let cases = [
            (Before::Nothing, Decision::Compute),
            (Before::Saw(None), serve(false, false)),
            (Before::Saw(Some(fence(2, 0))), serve(false, false)),
            (Before::Saw(Some(fence(2, 1))), Decision::Compute),
        ];
        for (seen, expected) in cases {
            assert_eq!(decide(Some(&state), &before(seen)), expected, "{seen:?}");
        }
    }

    #[test]
    fn the_only_process_waits_for_no_other() {
        let sole = Asker { sole: true, ..asker(10) };
        let other = State::Computing(hold(100));
        assert_eq!(decide(Some(&other), &sole), Decision::Compute);
        let mine = Hold { fence: fence(ME, 3), until: Timestamp(100) };
        assert_eq!(decide(Some(&State::Computing(mine)), &sole), wait(100));
    }
}
