//! Flights: the requests of this node for one key, which travel together. A flight looks at the store,
//! waits there or computes, for all of its passengers; it is a task of its own, so that no passenger who
//! leaves takes it down.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::answer::{Answer, OnceError, Source};
use crate::key::OnceKey;

/// All flights of a node.
#[derive(Debug)]
pub(crate) struct Flights {
    air: Mutex<Air>,
    passengers: Arc<AtomicUsize>,
    per_key: usize,
    in_all: usize,
    none: Notify,
}

#[derive(Debug, Default)]
struct Air {
    /// Those that bring answers, at most one for each key.
    answers: HashMap<OnceKey, Arc<Flight>>,
    /// Those that only refresh, at most one for each key. Nobody boards them: whoever asks meanwhile is
    /// served what is there.
    refreshes: HashMap<OnceKey, Arc<Flight>>,
}

impl Air {
    fn len(&self) -> usize {
        self.answers.len() + self.refreshes.len()
    }
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Flight {
    landed: watch::Sender<Option<Landed>>,
    /// How many have boarded, those who left again included: the next one's number.
    boarded: AtomicU64,
    /// How many are aboard.
    aboard: AtomicUsize,
}

/// How a flight ended.
#[derive(Clone, Debug)]
pub(crate) struct Landed {
    pub(crate) result: Result<Answer, OnceError>,
    /// Only passengers with a lower number may have the result; others came after it was published, and
    /// it was not for later ones.
    pub(crate) before: u64,
}

/// A request that travels with a flight.
#[derive(Debug)]
pub(crate) struct Passenger {
    flight: Arc<Flight>,
    landed: watch::Receiver<Option<Landed>>,
    number: u64,
    passengers: Arc<AtomicUsize>,
}

/// A seat.
#[derive(Debug)]
pub(crate) enum Boarded {
    /// On a flight that was under way.
    Joined(Passenger),
    /// On a new one, which the caller is to start.
    First(Passenger, Arc<Flight>),
}

impl Flights {
    pub(crate) fn new(per_key: usize, in_all: usize) -> Self {
        Flights {
            air: Mutex::default(),
            passengers: Arc::default(),
            per_key,
            in_all,
            none: Notify::new(),
        }
    }

    /// Joins the flight of a key, or makes a new one. `None` if it is too crowded.
    pub(crate) fn board(&self, key: &OnceKey) -> Option<Boarded> {
        let mut air = self.air.lock();
        if self.passengers.load(Ordering::Relaxed) >= self.in_all {
            return None;
        }
        if let Some(flight) = air.answers.get(key) {
            let room = flight.aboard.load(Ordering::Relaxed) < self.per_key;
            return room.then(|| Boarded::Joined(self.seat(flight)));
        }
        if air.len() >= self.in_all || self.per_key == 0 {
            return None;
        }
        let flight = Arc::new(Flight::new());
        let first = self.seat(&flight);
        air.answers.insert(key.clone(), flight.clone());
        Some(Boarded::First(first, flight))
    }

    /// A flight that refreshes, if there is none for this key and room for another.
    pub(crate) fn begin_refresh(&self, key: &OnceKey) -> Option<Arc<Flight>> {
        let mut air = self.air.lock();
        if air.len() >= self.in_all || air.refreshes.contains_key(key) {
            return None;
        }
        let flight = Arc::new(Flight::new());
        air.refreshes.insert(key.clone(), flight.clone());
        Some(flight)
    }

    fn seat(&self, flight: &Arc<Flight>) -> Passenger {
        self.passengers.fetch_add(1, Ordering::Relaxed);
        flight.aboard.fetch_add(1, Ordering::Relaxed);
        Passenger {
            landed: flight.landed.subscribe(),
            number: flight.boarded.fetch_add(1, Ordering::Relaxed),
            flight: flight.clone(),
            passengers: self.passengers.clone(),
        }
    }

    /// Ends a flight: nobody boards it any more, and all aboard learn the result.
    pub(crate) fn land(&self, key: &OnceKey, flight: &Arc<Flight>, landed: Landed) {
        self.close(key, flight, |_| true);
        flight.landed.send_if_modified(|held| {
            // A flight lands once; what comes later is its guard, which finds that done.
            let first = held.is_none();
            if first {
                *held = Some(landed);
            }
            first
        });
    }

    /// Ends a flight if nobody is aboard.
    pub(crate) fn land_empty(&self, key: &OnceKey, flight: &Arc<Flight>) -> bool {
        self.close(key, flight, |flight| flight.is_empty())
    }

    fn close(&self, key: &OnceKey, flight: &Arc<Flight>, when: impl Fn(&Flight) -> bool) -> bool {
        let mut air = self.air.lock();
        let Air { answers, refreshes } = &mut *air;
        let mine = |flights: &HashMap<OnceKey, Arc<Flight>>| {
            flights.get(key).is_some_and(|there| Arc::ptr_eq(there, flight))
        };
        let flights = match (mine(answers), mine(refreshes)) {
            (true, _) => answers,
            (_, true) => refreshes,
            _ => return false,
        };
        if !when(flight) {
            return false;
        }
        flights.remove(key);
        if air.len() == 0 {
            self.none.notify_waiters();
        }
        true
    }

    /// Returns when no flight is under way.
    pub(crate) async fn all_landed(&self) {
        loop {
            let notified = self.none.notified();
            tokio::pin!(notified);
            // Enlists before it looks, so that the last landing between the two is not missed.
            notified.as_mut().enable();
            if self.air.lock().len() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Flights, and passengers.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.air.lock().len(), self.passengers.load(Ordering::Relaxed))
    }
}

impl Flight {
    fn new() -> Self {
        let landed = watch::Sender::new(None);
        Flight { landed, boarded: AtomicU64::new(0), aboard: AtomicUsize::new(0) }
    }

    /// The number that the next passenger will have.
    pub(crate) fn boarded(&self) -> u64 {
        self.boarded.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.aboard.load(Ordering::Relaxed) == 0
    }

    /// Returns when the last passenger has left. Another may board right after.
    pub(crate) async fn emptied(&self) {
        self.landed.closed().await;
    }
}

impl Passenger {
    /// What the flight brought; `None` if it was not for this passenger, who is to ask again.
    pub(crate) async fn arrive(mut self, first: bool) -> Option<Result<Answer, OnceError>> {
        let landed = match self.landed.wait_for(Option::is_some).await {
            Ok(landed) => landed.clone(),
            Err(_) => None,
        };
        let Some(Landed { result, before }) = landed else {
            return Some(Err(OnceError::unavailable("the flight ended without a result")));
        };
        if self.number >= before {
            return None;
        }
        Some(result.map(|answer| match answer.source {
            Source::Computed if !first => Answer { source: Source::Joined, ..answer },
            _ => answer,
        }))
    }
}

impl Drop for Passenger {
    fn drop(&mut self) {
        self.flight.aboard.fetch_sub(1, Ordering::Relaxed);
        self.passengers.fetch_sub(1, Ordering::Relaxed);
    }
}
