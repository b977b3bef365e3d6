//! What the clones of a handle share.

use std::fmt;
use std::sync::Arc;

use consort_kernel::Timestamp;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::answer::{Answer, OnceError, Source};
use crate::cache::Cache;
use crate::conduct::{Airborne, fly};
use crate::decide::{Asker, Before, Decision, decide};
use crate::desk::{Desk, Found, answer};
use crate::early::early;
use crate::fence::{Fence, Fences};
use crate::figures::{Figures, Tallies, count};
use crate::flights::{Boarded, Flight, Flights};
use crate::key::OnceKey;
use crate::once::Options;
use crate::state::{Ready, State};
use crate::terms::{Computed, Failure, Terms};

/// A caller's computation. It is called again if what it gave could not be published because the key was
/// purged meanwhile.
pub(crate) type Compute = Box<dyn FnMut() -> BoxFuture<'static, Result<Computed, Failure>> + Send>;

pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) desk: Desk,
    pub(crate) fences: Fences,
    pub(crate) flights: Flights,
    pub(crate) cache: Cache,
    pub(crate) tallies: Arc<Tallies>,
    closing: watch::Sender<bool>,
}

/// What the cache has for a caller.
pub(crate) struct Hit {
    pub(crate) answer: Answer,
    /// The generation that this caller should see refreshed.
    pub(crate) refresh: Option<Fence>,
}

impl Inner {
    pub(crate) fn new(options: Options) -> Self {
        let tallies = Arc::<Tallies>::default();
        Inner {
            desk: Desk { store: options.store.clone(), runtime: options.runtime.clone() },
            fences: Fences::new(&*options.entropy),
            flights: Flights::new(options.waiters_per_key, options.waiters),
            cache: Cache::new(options.cache_bytes, options.store.shards(), tallies.clone()),
            tallies,
            closing: watch::Sender::new(false),
            options,
        }
    }

    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Returns when the node shuts down.
    pub(crate) async fn closing(&self) {
        // `self` holds the sender, so the channel is open for as long as this borrow lives.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// What the cache has. A hot key is served here, with one look into a map.
    pub(crate) fn hit(&self, key: &OnceKey, terms: Option<&Terms>) -> Option<Hit> {
        let elapsed = self.desk.runtime.elapsed();
        let kept = self.cache.get(key, elapsed)?;
        let now = kept.now(elapsed);
        let early = terms.is_some_and(|terms| self.early(&kept.ready, now, terms));
        let Decision::Serve { stale, refresh } = decide_newcomer(self, &kept.ready, now, early)
        else {
            return None;
        };
        let answer = answer(&kept.ready, kept.value.clone(), now, stale, Source::Node);
        let look = |terms: &Terms| kept.take_look(elapsed, terms.lease / 3);
        let refresh = (refresh && terms.is_some_and(look)).then_some(kept.ready.generation);
        Some(Hit { answer, refresh })
    }

    /// Whether chance wants a fresh value to be refreshed already.
    pub(crate) fn early(&self, ready: &Ready, now: Timestamp, terms: &Terms) -> bool {
        terms.refresh_early && early(ready, now, || self.options.entropy.next())
    }

    /// Joins the flight of a key or starts one, and waits for what it brings.
    pub(crate) async fn travel(
        self: &Arc<Self>,
        key: &OnceKey,
        terms: &Terms,
        compute: Compute,
    ) -> Result<Answer, OnceError> {
        let mut compute = Some(compute);
        loop {
            if self.is_closing() {
                return Err(OnceError::unavailable("this node is shutting down"));
            }
            let Some(boarded) = self.flights.board(key) else {
                count(&self.tallies.crowded);
                return Err(OnceError::Crowded);
            };
            let arrived = match boarded {
                Boarded::Joined(passenger) => passenger.arrive(false).await,
                Boarded::First(passenger, flight) => {
                    // Who starts a flight is its passenger number 0, for whom every result is.
                    let Some(compute) = compute.take() else {
                        return Err(OnceError::unavailable("the computation was lost: ask again"));
                    };
                    self.start(flight, key, terms, compute, None);
                    passenger.arrive(true).await
                }
            };
            if let Some(result) = arrived {
                return result;
            }
        }
    }

    /// Refreshes a generation in the background, unless a flight is under way for its key.
    pub(crate) fn refresh(
        self: &Arc<Self>,
        key: &OnceKey,
        terms: &Terms,
        generation: Fence,
        compute: Compute,
    ) {
        if self.is_closing() {
            return;
        }
        if let Some(flight) = self.flights.begin_refresh(key) {
            self.start(flight, key, terms, compute, Some(generation));
        }
    }

    fn start(
        self: &Arc<Self>,
        flight: Arc<Flight>,
        key: &OnceKey,
        terms: &Terms,
        compute: Compute,
        refreshing: Option<Fence>,
    ) {
        let airborne = Airborne { inner: self.clone(), flight, key: key.clone() };
        let flying = fly(airborne, terms.clone(), compute, refreshing);
        // Nobody holds on to it: it ends by itself, and lands whatever happens.
        let _ = self.desk.runtime.start("once flight", Box::pin(flying));
    }

    /// What there is for one who does not compute.
    pub(crate) async fn kept(&self, key: &OnceKey) -> Result<Option<Answer>, OnceError> {
        if let Some(hit) = self.hit(key, None) {
            return Ok(Some(hit.answer));
        }
        self.stored(key).await
    }

    /// The same, past the cache.
    pub(crate) async fn stored(&self, key: &OnceKey) -> Result<Option<Answer>, OnceError> {
        let ticket = self.cache.ticket(self.desk.shard(key));
        let found = self.desk.look(key).await?;
        let Found { state: Some(State::Ready(ready)), now, .. } = &found else { return Ok(None) };
        self.cache.fill(ticket, key, *ready, &found);
        Ok(match decide_newcomer(self, ready, *now, false) {
            Decision::Serve { stale, .. } => {
                Some(answer(ready, found.body.clone(), *now, stale, Source::Store))
            }
            _ => None,
        })
    }

    pub(crate) fn figures(&self) -> Figures {
        let (flights, waiting) = self.flights.size();
        let (cached, cached_bytes) = self.cache.size();
        Figures {
            waiting: waiting as u64,
            flights: flights as u64,
            cached: cached as u64,
            cached_bytes: cached_bytes as u64,
            ..self.tallies.figures()
        }
    }
}

fn decide_newcomer(inner: &Inner, ready: &Ready, now: Timestamp, early: bool) -> Decision {
    let asker = Asker {
        now,
        incarnation: inner.fences.incarnation(),
        sole: inner.options.sole,
        before: Before::Nothing,
        early,
    };
    decide(Some(&State::Ready(*ready)), &asker)
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("figures", &self.figures()).finish_non_exhaustive()
    }
}
