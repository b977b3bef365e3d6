//! One attempt at a computation, by the node that won the cell: it runs apart from whoever asked, its
//! lease is renewed meanwhile, and what comes of it is published only if the cell is still its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::Task;
use consort_kernel::{Cell, Kind, Operation, Timestamp, limits::VALUE_BYTES};

use crate::TAGS;
use crate::answer::{Answer, OnceError, Source};
use crate::desk::{Along, Ended, Found, answer, tell};
use crate::fence::{Fence, Generation};
use crate::figures::count;
use crate::flights::Flight;
use crate::inner::{Compute, Inner};
use crate::key::OnceKey;
use crate::purge::{self, Marks};
use crate::state::{State, cut};
use crate::step::{self, Life, Next};
use crate::terms::{Computed, Failure, FailureKind, Terms};

/// A lease is renewed this many times before it lapses, so that two may fail.
const RENEWALS: u32 = 3;
/// Not even the shortest lease is renewed more often.
const SOONEST_RENEWAL: Duration = Duration::from_millis(5);
/// How long an outcome is tried to be stored while the store does not take it.
const STORE_PATIENCE: Duration = Duration::from_secs(2);
/// The pause between two tries.
const STORE_PAUSE: Duration = Duration::from_millis(50);

/// What came of an attempt.
pub(crate) enum Tried {
    /// A result, for passengers with a number below `before`.
    Landed { result: Result<Answer, OnceError>, before: u64 },
    /// The cell is another's, or was purged: nothing was published.
    Fenced,
}

/// An attempt under way.
pub(crate) struct Attempt<'a> {
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) flight: &'a Arc<Flight>,
    pub(crate) key: &'a OnceKey,
    pub(crate) terms: &'a Terms,
    pub(crate) fence: Fence,
    /// The state that this attempt put there or found there as its own, and its very bytes.
    pub(crate) state: State,
    pub(crate) head: Bytes,
    /// How many purges by tag there had been when it began.
    pub(crate) purges: i64,
}

/// How storing an outcome went on.
enum Stored {
    /// It is there.
    Yes(Timestamp, State),
    /// The cell is another's, or was purged.
    Fenced,
    /// It cannot be told, or is not so.
    No(OnceError),
}

impl Attempt<'_> {
    pub(crate) async fn run(mut self, compute: &mut Compute) -> Tried {
        let began = self.inner.desk.runtime.elapsed();
        let computed = match self.compute(compute).await {
            Some(computed) => computed,
            None if self.inner.is_closing() => {
                self.release().await;
                let result = Err(OnceError::unavailable("this node is shutting down"));
                return Tried::Landed { result, before: u64::MAX };
            }
            None => return Tried::Fenced,
        };
        let cost = self.inner.desk.runtime.elapsed().saturating_sub(began);
        match computed.and_then(|computed| self.checked(computed)) {
            Ok(computed) => self.publish(computed, cost).await,
            Err(failure) => self.fail(failure).await,
        }
    }

    /// Runs the computation. `None` if the lease was lost meanwhile, or the node is shutting down.
    async fn compute(&mut self, compute: &mut Compute) -> Option<Result<Computed, Failure>> {
        let inner = self.inner.clone();
        let runtime = &inner.desk.runtime;
        let panicked = |reason: String| Failure::new(FailureKind::Panicked, reason);
        let Ok(future) = catch_unwind(AssertUnwindSafe(&mut *compute)) else {
            return Some(Err(panicked("the computation panicked as it began".into())));
        };
        let mut task = Task::spawn(&**runtime, "computation", future);
        let give_up = runtime.sleep(self.terms.compute_for);
        tokio::pin!(give_up);
        loop {
            tokio::select! {
                biased;
                result = &mut task => {
                    return Some(result.unwrap_or_else(|panic| Err(panicked(panic.to_string()))));
                }
                () = inner.closing() => return None,
                () = &mut give_up => {
                    let reason = format!("it took more than {:?}", self.terms.compute_for);
                    return Some(Err(Failure::new(FailureKind::TimedOut, reason)));
                }
                () = runtime.sleep((self.terms.lease / RENEWALS).max(SOONEST_RENEWAL)) => {
                    if !self.renew().await {
                        return None;
                    }
                }
            }
        }
    }

    /// Renews the lease; false if it is another's. A store that does not answer changes nothing: what
    /// counts is whether the cell is this attempt's own when the outcome is there.
    async fn renew(&mut self) -> bool {
        let Ok(now) = self.inner.desk.store.now().await else { return true };
        let Some(next) = step::renewed(&self.state, self.fence, now, self.terms.lease) else {
            return false;
        };
        let (head, put) = (Some(self.head.clone()), Next::Put(next.clone()));
        match self.inner.desk.change(self.key, head, &put, Along::default()).await {
            Ended::Done => {
                self.head = next.encode();
                self.state = next;
                true
            }
            Ended::Failed(_) => true,
            Ended::Refused | Ended::Unknown => self.still_mine().await.unwrap_or(true),
        }
    }

    /// Looks whether the cell is still this attempt's own, and takes over what it holds.
    async fn still_mine(&mut self) -> Result<bool, OnceError> {
        match self.inner.desk.look(self.key).await? {
            Found { state: Some(state), head: Some(head), .. } if state.is_held_by(self.fence) => {
                (self.state, self.head) = (state, head);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn checked(&self, computed: Computed) -> Result<Computed, Failure> {
        let (size, most) = (computed.value.len(), self.terms.max_value.min(VALUE_BYTES));
        if size > most {
            let reason = format!("{size} bytes are over the limit of {most}");
            return Err(Failure::new(FailureKind::TooLarge, reason));
        }
        if computed.tags.len() > TAGS {
            let reason = format!("{} tags are over the limit of {TAGS}", computed.tags.len());
            return Err(Failure::new(FailureKind::Malformed, reason));
        }
        Ok(computed)
    }

    async fn publish(mut self, computed: Computed, cost: Duration) -> Tried {
        let life = life(&computed, self.terms, cost);
        let found_at = self.inner.desk.runtime.elapsed();
        let ticket = self.inner.cache.ticket(self.inner.desk.shard(self.key));
        let boarded = self.flight.boarded();
        match self.store_value(&computed, life).await {
            Stored::Yes(now, State::Ready(ready)) => {
                let value = computed.value;
                let found = Found {
                    state: None,
                    head: None,
                    body: value.clone(),
                    purges: 0,
                    now,
                    at: found_at,
                };
                self.inner.cache.fill(ticket, self.key, ready, &found);
                // What is good for nobody later is for those who had boarded before it was published.
                let lasts = ready.fresh_until.max(ready.usable_until) > now;
                let before = if lasts { u64::MAX } else { boarded };
                let result = Ok(answer(&ready, value, now, false, Source::Computed));
                Tried::Landed { result, before }
            }
            Stored::Yes(..) | Stored::Fenced => Tried::Fenced,
            Stored::No(error) => Tried::Landed { result: Err(error), before: u64::MAX },
        }
    }

    async fn store_value(&mut self, computed: &Computed, life: Life) -> Stored {
        let desk = &self.inner.desk.clone();
        let patience = Patience::new(self.inner);
        loop {
            let tried = async {
                let now = desk.store.now().await?;
                let marks = Marks::read(desk, self.key, &computed.tags).await?;
                Ok::<_, OnceError>((now, marks))
            };
            let (now, marks) = match tried.await {
                Ok(read) => read,
                Err(error) if patience.left() && error.retryable() => {
                    patience.pause().await;
                    continue;
                }
                Err(error) => return Stored::No(error),
            };
            if marks.any_after(self.purges) {
                // One of its tags was purged after it began: it may be what the purge was about.
                self.release().await;
                return Stored::Fenced;
            }
            let Some(next) = step::published(&self.state, self.fence, now, life) else {
                return Stored::Fenced;
            };
            let along = self.along(computed, marks, &next);
            let ended = desk.change(self.key, Some(self.head.clone()), &next, along).await;
            match self.settle(ended, &next, now, &patience).await {
                Some(stored) => return stored,
                None => continue,
            }
        }
    }

    /// What is committed with a value: its bytes, its tags, and the news where it replaces another.
    fn along(&self, computed: &Computed, marks: Marks, next: &Next) -> Along {
        let mut operations = Vec::new();
        if let Next::Put(state) = next {
            let at = Some(step::expires(state));
            for tag in &computed.tags {
                let key = self.key.tagged(tag);
                let cell = Cell::new(Kind::Bytes, key.clone());
                operations.push(Operation::Put { key, value: purge::TAGGED });
                operations.push(Operation::Expire { cell, at });
            }
        }
        if matches!(self.state, State::Ready(_)) {
            operations.push(tell(self.key, Some(Generation(self.fence))));
        }
        Along { expects: marks.expects(), operations, body: Some(computed.value.clone()) }
    }

    /// What the end of a commit means for an outcome; `None` to try again.
    async fn settle(
        &mut self,
        ended: Ended,
        next: &Next,
        now: Timestamp,
        patience: &Patience<'_>,
    ) -> Option<Stored> {
        let Next::Put(state) = next else { return Some(Stored::Fenced) };
        match ended {
            Ended::Done => return Some(Stored::Yes(now, state.clone())),
            Ended::Failed(error) if !error.retryable() || !patience.left() => {
                return Some(Stored::No(error));
            }
            Ended::Failed(_) => {
                patience.pause().await;
                return None;
            }
            Ended::Refused | Ended::Unknown => {}
        }
        loop {
            match self.inner.desk.look(self.key).await {
                Ok(Found { state: Some(there), head: Some(head), .. })
                    if there.is_held_by(self.fence) =>
                {
                    if !patience.left() {
                        let reason = "an outcome could not be stored in time";
                        return Some(Stored::No(OnceError::unavailable(reason)));
                    }
                    (self.state, self.head) = (there, head);
                    return None;
                }
                Ok(Found { state: Some(there), .. }) if there.outcome() == state.outcome() => {
                    return Some(Stored::Yes(now, there));
                }
                Ok(_) => return Some(Stored::Fenced),
                Err(error) if patience.left() && error.retryable() => patience.pause().await,
                Err(error) => return Some(Stored::No(error)),
            }
        }
    }

    async fn fail(mut self, failure: Failure) -> Tried {
        count(&self.inner.tallies.failures);
        let failure = Failure { reason: cut(&failure.reason).to_string(), ..failure };
        let Terms { errors_for, on_error, .. } = *self.terms;
        let failed = |retry_after| OnceError::Failed { failure: failure.clone(), retry_after };
        let boarded = self.flight.boarded();
        let patience = Patience::new(self.inner);
        loop {
            let Ok(now) = self.inner.desk.store.now().await else { break };
            let next = step::failed(&self.state, self.fence, now, &failure, errors_for, on_error);
            let Some(next) = next else { return Tried::Fenced };
            let head = Some(self.head.clone());
            let ended = self.inner.desk.change(self.key, head, &next, Along::default()).await;
            if next == Next::Clear {
                // Applied or not, nobody who waits elsewhere depends on it: the lease lapses as well.
                break;
            }
            match self.settle(ended, &next, now, &patience).await {
                Some(Stored::Yes(now, State::Ready(ready))) => {
                    return self.excused(&ready, now, failed(errors_for)).await;
                }
                Some(Stored::Yes(..)) => {
                    let before = if errors_for.is_zero() { boarded } else { u64::MAX };
                    return Tried::Landed { result: Err(failed(errors_for)), before };
                }
                Some(Stored::Fenced) => return Tried::Fenced,
                Some(Stored::No(_)) => break,
                None => continue,
            }
        }
        // It did fail, and that is what those aboard are told, although others will not know.
        Tried::Landed { result: Err(failed(Duration::ZERO)), before: boarded }
    }

    /// The refresh failed, but there is a value that may be served instead.
    async fn excused(
        &self,
        ready: &crate::state::Ready,
        now: Timestamp,
        error: OnceError,
    ) -> Tried {
        let result = match self.inner.desk.look(self.key).await {
            Ok(Found { state: Some(State::Ready(there)), body, .. })
                if there.generation == ready.generation =>
            {
                let stale = ready.fresh_until <= now;
                Ok(answer(ready, body, now, stale, Source::Store))
            }
            _ => Err(error),
        };
        Tried::Landed { result, before: u64::MAX }
    }

    /// Gives the lease up, so that another may begin at once. If that fails, it lapses.
    async fn release(&mut self) {
        if let Some(next) = step::released(&self.state, self.fence) {
            let head = Some(self.head.clone());
            self.inner.desk.change(self.key, head, &next, Along::default()).await;
        }
    }
}

fn life(computed: &Computed, terms: &Terms, cost: Duration) -> Life {
    let kept = |time: Duration| if computed.keep { time } else { Duration::ZERO };
    Life {
        fresh_for: kept(computed.fresh_for.unwrap_or(terms.fresh_for)),
        stale_for: kept(computed.stale_for.unwrap_or(terms.stale_for)),
        stale_if_error: kept(computed.stale_if_error.unwrap_or(terms.stale_if_error)),
        cost,
    }
}

/// How long a store that does not take an outcome is borne.
struct Patience<'a> {
    inner: &'a Inner,
    since: Duration,
}

impl<'a> Patience<'a> {
    fn new(inner: &'a Inner) -> Self {
        Patience { inner, since: inner.desk.runtime.elapsed() }
    }

    fn left(&self) -> bool {
        self.inner.desk.runtime.elapsed().saturating_sub(self.since) < STORE_PATIENCE
    }

    async fn pause(&self) {
        self.inner.desk.runtime.sleep(STORE_PAUSE).await;
    }
}
