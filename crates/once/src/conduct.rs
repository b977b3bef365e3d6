//! How a flight is flown: look, decide, and then answer, wait or compute, until there is a result.
//!
//! Nothing is computed without having won the cell, and no outcome is believed that was not seen: after
//! an unknown commit the cell is looked at again before anything else.

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::Wake;

use crate::answer::{OnceError, Source};
use crate::attempt::{Attempt, Tried};
use crate::decide::{Asker, Before, Decision, decide};
use crate::desk::{Along, Desk, Ended, Found, answer};
use crate::fence::Fence;
use crate::figures::count;
use crate::flights::{Flight, Landed};
use crate::inner::{Compute, Inner};
use crate::key::OnceKey;
use crate::state::State;
use crate::step::{Next, acquired};
use crate::terms::Terms;

/// How often a waiting flight looks by itself: a wake is only a hint.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a waiting flight bears a store that does not answer, before its passengers get the error.
const STORE_PATIENCE: Duration = Duration::from_secs(3);
/// The pause before a store that did not answer is asked again.
const STORE_PAUSE: Duration = Duration::from_millis(100);

/// Flies until there is a result for everybody aboard, and then refreshes the value if that is due.
pub(crate) async fn fly(
    mut airborne: Airborne,
    terms: Terms,
    mut compute: Compute,
    mut refreshing: Option<Fence>,
) {
    loop {
        let mut captain = Captain {
            inner: &airborne.inner,
            flight: &airborne.flight,
            key: &airborne.key,
            terms: &terms,
            before: Before::Nothing,
            boarded_before: 0,
            wake: None,
            silent_since: None,
            refreshing,
        };
        let refresh = captain.fly(&mut compute).await;
        if refresh.is_none() {
            return;
        }
        // Those who waited have their answer; now one refresh.
        let Some(next) = airborne.inner.flights.begin_refresh(&airborne.key) else { return };
        let (inner, key) = (airborne.inner.clone(), airborne.key.clone());
        airborne = Airborne { inner, flight: next, key };
        refreshing = refresh;
    }
}

/// A flight that is to land, and does so however it ends: whoever drops it, begun or not, strands nobody.
pub(crate) struct Airborne {
    pub(crate) inner: Arc<Inner>,
    pub(crate) flight: Arc<Flight>,
    pub(crate) key: OnceKey,
}

impl Drop for Airborne {
    fn drop(&mut self) {
        let result = Err(OnceError::unavailable("the flight was ended from outside"));
        self.inner.flights.land(&self.key, &self.flight, Landed { result, before: u64::MAX });
    }
}

/// One flight under way.
struct Captain<'a> {
    inner: &'a Arc<Inner>,
    flight: &'a Arc<Flight>,
    key: &'a OnceKey,
    terms: &'a Terms,
    /// What the look before showed.
    before: Before,
    /// How many had boarded when that look began.
    boarded_before: u64,
    wake: Option<Wake>,
    /// Since when the store does not answer.
    silent_since: Option<Duration>,
    /// Started to refresh this generation, not to answer anybody.
    refreshing: Option<Fence>,
}

/// What a look led to.
enum Step {
    /// Look again.
    Again,
    /// It is over; if a generation is named, that should be refreshed now.
    Over(Option<Fence>),
}

impl Captain<'_> {
    async fn fly(&mut self, compute: &mut Compute) -> Option<Fence> {
        loop {
            let boarded = self.flight.boarded();
            let ticket = self.inner.cache.ticket(self.desk().shard(self.key));
            let found = match self.desk().look(self.key).await {
                Ok(found) => found,
                Err(error) => match self.bear(error).await {
                    Step::Again => continue,
                    Step::Over(refresh) => return refresh,
                },
            };
            self.silent_since = None;
            if let Some(State::Ready(ready)) = &found.state {
                self.inner.cache.fill(ticket, self.key, *ready, &found);
            }
            match self.act(&found, compute).await {
                Step::Over(refresh) => return refresh,
                Step::Again => {
                    self.before = Before::Saw(found.state.as_ref().and_then(State::outcome));
                    self.boarded_before = boarded;
                }
            }
        }
    }

    async fn act(&mut self, found: &Found, compute: &mut Compute) -> Step {
        let asker = self.asker(found);
        let decision = decide(found.state.as_ref(), &asker);
        match (&decision, &found.state) {
            (Decision::Serve { stale, refresh }, Some(State::Ready(ready))) => {
                if *refresh && self.refreshing.is_some() {
                    return self.attempt(found, &decision, compute).await;
                }
                let source = match self.before {
                    Before::Nothing => Source::Store,
                    Before::Saw(_) => Source::Joined,
                };
                let answer = answer(ready, found.body.clone(), found.now, *stale, source);
                self.land(Ok(answer), self.limit(found, &asker));
                Step::Over(refresh.then_some(ready.generation))
            }
            (Decision::Fail { failure, retry_after }, _) => {
                let failed =
                    OnceError::Failed { failure: failure.clone(), retry_after: *retry_after };
                self.land(Err(failed), self.limit(found, &asker));
                Step::Over(None)
            }
            (Decision::Wait { until }, _) => self.wait(until.since(found.now)).await,
            _ if self.inner.is_closing() => self.closed(),
            // Whoever wanted the value refreshed has it, and it is gone meanwhile: nobody asks for it.
            _ if self.refreshing.is_some() && self.land_empty() => Step::Over(None),
            _ => self.attempt(found, &decision, compute).await,
        }
    }

    fn asker(&self, found: &Found) -> Asker {
        // Chance has spoken already when a flight was started to refresh; but only about that value.
        let early = match (&found.state, self.refreshing) {
            (Some(State::Ready(ready)), Some(refreshing)) => ready.generation == refreshing,
            (Some(State::Ready(ready)), None) => self.inner.early(ready, found.now, self.terms),
            _ => false,
        };
        Asker {
            now: found.now,
            incarnation: self.inner.fences.incarnation(),
            sole: self.inner.options.sole,
            before: self.before,
            early,
        }
    }

    /// Who may have the result. What somebody would get who asks only now is for all; what is served only
    /// because it came while the flight waited is for those who boarded before the last look that did
    /// not show it. Those who boarded later may have come after its publication, and ask again.
    fn limit(&self, found: &Found, asker: &Asker) -> u64 {
        let newcomer = Asker { before: Before::Nothing, ..*asker };
        match decide(found.state.as_ref(), &newcomer) {
            Decision::Serve { .. } | Decision::Fail { .. } => u64::MAX,
            _ => self.boarded_before,
        }
    }

    async fn wait(&mut self, lapse: Duration) -> Step {
        if self.inner.is_closing() {
            return self.closed();
        }
        let Some(wake) = &mut self.wake else {
            // It listens from here on, and looks once more before it waits: what changed between the
            // look that led here and this line would otherwise go unseen.
            self.wake = Some(self.inner.desk.watch(self.key));
            return Step::Again;
        };
        let runtime = &self.inner.desk.runtime;
        tokio::select! {
            biased;
            () = self.inner.closing() => return self.closed(),
            () = wake.changed() => {}
            () = self.flight.emptied() => {
                if self.land_empty() {
                    return Step::Over(None);
                }
            }
            // A lease that lapses in this very millisecond is still worth a pause.
            () = runtime.sleep(lapse.clamp(Duration::from_millis(1), LOOK_EVERY)) => {}
        }
        Step::Again
    }

    /// Tries to win the cell, and computes if it does.
    async fn attempt(&mut self, found: &Found, decision: &Decision, compute: &mut Compute) -> Step {
        let fence = self.inner.fences.next();
        let state = found.state.as_ref();
        let Some(next) = acquired(state, decision, fence, found.now, self.terms.lease) else {
            return Step::Again;
        };
        let put = Next::Put(next.clone());
        let ended = self.desk().change(self.key, found.head.clone(), &put, Along::default()).await;
        let held = match ended {
            Ended::Done => Some((next.clone(), next.encode())),
            Ended::Refused => None,
            Ended::Failed(error) => {
                self.land(Err(error), u64::MAX);
                return Step::Over(None);
            }
            // Should it be applied only after this look, nobody works under this fence, and it lapses.
            Ended::Unknown => match self.desk().look(self.key).await {
                Ok(Found { state: Some(state), head: Some(head), .. })
                    if state.is_held_by(fence) =>
                {
                    Some((state, head))
                }
                Ok(_) => None,
                Err(error) => {
                    self.land(Err(error), u64::MAX);
                    return Step::Over(None);
                }
            },
        };
        let Some((state, head)) = held else { return Step::Again };
        self.count_attempt(found, decision);
        let attempt = Attempt {
            inner: self.inner,
            flight: self.flight,
            key: self.key,
            terms: self.terms,
            fence,
            state,
            head,
            purges: found.purges,
        };
        match attempt.run(compute).await {
            Tried::Landed { result, before } => {
                self.land(result, before);
                Step::Over(None)
            }
            Tried::Fenced => {
                count(&self.inner.tallies.refused);
                Step::Again
            }
        }
    }

    fn count_attempt(&self, found: &Found, decision: &Decision) {
        let tallies = &self.inner.tallies;
        count(&tallies.computations);
        match (decision, &found.state) {
            (Decision::Compute, Some(State::Computing(_))) => count(&tallies.takeovers),
            (Decision::Compute, _) => {}
            (Decision::Serve { stale: false, .. }, _) => {
                count(&tallies.refreshes);
                count(&tallies.early_refreshes);
            }
            _ => count(&tallies.refreshes),
        }
    }

    /// Takes an error of the store: at once if this flight has seen nothing yet, after some patience if it
    /// waits for a computation that may well end.
    async fn bear(&mut self, error: OnceError) -> Step {
        let now = self.desk().runtime.elapsed();
        let since = *self.silent_since.get_or_insert(now);
        let patient = self.before != Before::Nothing && error.retryable();
        if !patient || now.saturating_sub(since) >= STORE_PATIENCE || self.inner.is_closing() {
            self.land(Err(error), u64::MAX);
            return Step::Over(None);
        }
        self.desk().runtime.sleep(STORE_PAUSE).await;
        Step::Again
    }

    fn closed(&self) -> Step {
        self.land(Err(OnceError::unavailable("this node is shutting down")), u64::MAX);
        Step::Over(None)
    }

    fn land(&self, result: Result<crate::Answer, OnceError>, before: u64) {
        self.inner.flights.land(self.key, self.flight, Landed { result, before });
    }

    fn land_empty(&self) -> bool {
        self.inner.flights.land_empty(self.key, self.flight)
    }

    fn desk(&self) -> &Desk {
        &self.inner.desk
    }
}
